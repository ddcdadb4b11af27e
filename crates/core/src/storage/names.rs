//! Names that follow from other names, and the tag that proves whose a Ceph user is.

use std::{fmt, str::FromStr};

/// A Kubernetes object as it was seen: enough to make sure a write meets the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// Where a claim is, whichever one of that name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub namespace: String,
    pub name: String,
}

impl Target {
    pub fn place(&self) -> Place {
        Place { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// A user's full name in Ceph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CephUser {
    pub tenant: String,
    pub id: String,
}

impl fmt::Display for CephUser {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}${}", self.tenant, self.id)
    }
}

/// Not of the form `<tenant>$<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACephUser;

impl FromStr for CephUser {
    type Err = NotACephUser;

    fn from_str(full: &str) -> Result<Self, NotACephUser> {
        match full.split_once('$') {
            Some((tenant, id)) if !tenant.is_empty() && !id.is_empty() && !id.contains('$') => {
                Ok(Self { tenant: tenant.to_owned(), id: id.to_owned() })
            }
            _ => Err(NotACephUser),
        }
    }
}

/// The tenant of a namespace. A tenant's name has no `-`, and a namespace's has no `_`, so no two namespaces share one.
pub fn tenant(prefix: &str, namespace: &str) -> String {
    format!("{prefix}_{}", namespace.replace('-', "_"))
}

/// Name of the S3User of a claim. A namespace's name has no dot, so no two claims share one.
pub fn record_name(namespace: &str, claim: &str) -> String {
    format!("{namespace}.{claim}")
}

/// Namespace and name of the claim an S3User of that name is called after.
pub fn claim_of_record(name: &str) -> Option<(&str, &str)> {
    name.split_once('.')
}

/// The display name of a claim's user. It ends with the claim's UID: the proof of whose the user is.
pub fn display_name(namespace: &str, claim: &str, uid: &str) -> String {
    format!("{claim} in {namespace} [{uid}]")
}

/// The UID of the claim a display name gives as owner.
pub fn owner_in(display_name: &str) -> Option<&str> {
    let (_, uid) = display_name.strip_suffix(']')?.rsplit_once(" [")?;
    (!uid.is_empty()).then_some(uid)
}

/// Whether a display name is one we gave the user of a claim of this name, whichever claim that was.
pub fn names_claim(display: &str, namespace: &str, claim: &str) -> bool {
    owner_in(display).is_some_and(|uid| display == display_name(namespace, claim, uid))
}

/// Whether a display name is the one ceph-s3-operator gave the user of this claim: `<claim> in <namespace>.<cluster>`.
pub fn is_of_ceph_s3_operator(display: &str, namespace: &str, claim: &str) -> bool {
    let cluster = display.strip_prefix(&format!("{claim} in {namespace}."));
    cluster.is_some_and(|cluster| !cluster.is_empty() && !cluster.contains([' ', '[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_user_was_is_told_by_all_of_its_display_name() {
        assert!(names_claim("data in team-a [u-1]", "team-a", "data"));
        for other in ["data in team-b [u-1]", "x data in team-a [u-1]", "data in team-a", "data in team-a []"] {
            assert!(!names_claim(other, "team-a", "data"), "{other}");
        }
        assert!(is_of_ceph_s3_operator("data in team-a.okd4-main", "team-a", "data"));
        for other in ["data in team-a.", "data in team-b.okd4", "data in team-a [u-1]", "data in team-a.x [u-1]"] {
            assert!(!is_of_ceph_s3_operator(other, "team-a", "data"), "{other}");
        }
    }

    #[test]
    fn a_tenant_is_made_of_characters_ceph_allows() {
        assert_eq!(tenant("okd4_main_", "s3-test"), "okd4_main__s3_test");
        assert_eq!(tenant("lab", "team-a"), "lab_team_a");
    }

    #[test]
    fn the_owner_is_read_back_from_a_display_name() {
        assert_eq!(owner_in(&display_name("team-a", "data", "u-1")), Some("u-1"));
    }

    #[test]
    fn a_display_name_of_others_proves_nothing() {
        for name in
            ["", "Bob", "data in team-a", "data in team-a []", "x [u-1] y", "data in s3-test.okd4-main", "]", " []"]
        {
            assert_eq!(owner_in(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_ceph_user_is_read_back_from_its_full_name() {
        let user = CephUser { tenant: "lab_a".into(), id: "data".into() };
        assert_eq!(user.to_string().parse(), Ok(user));
        for text in ["", "data", "$data", "lab$", "a$b$c"] {
            assert_eq!(text.parse::<CephUser>(), Err(NotACephUser), "{text:?}");
        }
    }
}
