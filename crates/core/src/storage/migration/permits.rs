//! Whom the statements of a policy let in, to do what, and where.
//!
//! Only what can be told for certain counts: a statement that allows by exception (`NotPrincipal`, `NotAction`, `NotResource`) or on a
//! condition lets nobody past what we deny.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Everybody.
const ANYBODY: &str = "*";

/// What plain statements allow.
#[derive(Clone, Debug, Default)]
pub(super) struct Permits(Vec<Permit>);

#[derive(Clone, Debug)]
struct Permit {
    who: Vec<String>,
    actions: Vec<String>,
    resources: Vec<String>,
}

/// Where an action is permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permitted {
    /// To everybody.
    pub(super) open: BTreeSet<String>,
    /// To whom it is by name.
    pub(super) named: BTreeMap<String, BTreeSet<String>>,
}

impl Permits {
    pub(super) fn of(statements: &[Value]) -> Self {
        Self(statements.iter().filter_map(Permit::of).collect())
    }

    /// Whom they name.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.0.iter().flat_map(|permit| &permit.who).filter(|name| *name != ANYBODY).cloned().collect()
    }

    pub(super) fn name_somebody_of(&self, tenant: &str) -> bool {
        let of_tenant = format!("arn:aws:iam::{tenant}:");
        self.0.iter().flat_map(|permit| &permit.who).any(|name| name.starts_with(&of_tenant))
    }

    /// What is open to everybody for whatever.
    pub(super) fn open(&self) -> BTreeSet<String> {
        let open = self.0.iter().filter(|permit| permit.who.iter().any(|name| name == ANYBODY));
        open.flat_map(|permit| &permit.resources).cloned().collect()
    }

    /// These actions by where they are permitted.
    pub(super) fn by_action<'a>(&self, actions: &[&'a str]) -> BTreeMap<Permitted, Vec<&'a str>> {
        let mut alike: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for action in actions {
            alike.entry(self.permitted(action)).or_default().push(*action);
        }
        alike
    }

    fn permitted(&self, action: &str) -> Permitted {
        let mut permitted = Permitted::default();
        for permit in self.0.iter().filter(|permit| permit.actions.iter().any(|pattern| is_like(pattern, action))) {
            for name in &permit.who {
                let places = match name.as_str() {
                    ANYBODY => &mut permitted.open,
                    _ => permitted.named.entry(name.clone()).or_default(),
                };
                places.extend(permit.resources.iter().cloned());
            }
        }
        permitted
    }
}

impl Permitted {
    /// Where it is permitted to somebody of this name, or to everybody.
    pub(super) fn of_exactly(&self, name: &str) -> BTreeSet<String> {
        self.named.get(name).into_iter().flatten().chain(&self.open).cloned().collect()
    }

    /// The same, or to those it is one of.
    pub(super) fn of(&self, name: &str) -> BTreeSet<String> {
        let groups = self.named.iter().filter(|(group, _)| covers(group, name));
        groups.flat_map(|(_, places)| places).cloned().chain(self.of_exactly(name)).collect()
    }
}

/// Whether who is meant by `name` is also meant by `group`: a user by its tenant, a subuser by its user.
pub(super) fn covers(group: &str, name: &str) -> bool {
    let below = group.strip_suffix("root").filter(|below| below.ends_with(':'));
    let is_in_tenant = below.is_some_and(|below| name.starts_with(below) && name != group);
    is_in_tenant || name.strip_prefix(group).is_some_and(|rest| rest.starts_with(':'))
}

impl Permit {
    fn of(statement: &Value) -> Option<Self> {
        let is_allowed = statement.get("Effect").and_then(Value::as_str) == Some("Allow");
        let by_exception = ["NotPrincipal", "NotAction", "NotResource", "Condition"];
        if !is_allowed || by_exception.iter().any(|member| statement.get(member).is_some()) {
            return None;
        }
        let who = match statement.get("Principal")? {
            Value::String(everybody) => vec![everybody.clone()],
            named => texts(named.get("AWS")?)?,
        };
        let who = who.iter().map(|name| known_as(name)).collect();
        Some(Self { who, actions: texts(statement.get("Action")?)?, resources: texts(statement.get("Resource")?)? })
    }
}

/// The one name of many that Ceph takes for the same. A word alone means a tenant; partition, service and region mean nothing; all
/// subusers of a user are the user itself.
fn known_as(name: &str) -> String {
    let mut parts = name.splitn(6, ':');
    let (arn, account) = (parts.next(), parts.nth(3));
    let named = match (arn, account.zip(parts.next())) {
        (Some("arn"), Some((account, resource))) => format!("arn:aws:iam::{account}:{resource}"),
        _ if name == ANYBODY || name.contains([':', '/']) => name.to_owned(),
        _ => format!("arn:aws:iam::{name}:root"),
    };
    named.strip_suffix(":*").map(str::to_owned).unwrap_or(named)
}

/// One text or a list of them.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(texts) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        text => Some(vec![text.as_str()?.to_owned()]),
    }
}

/// Whether a text is one that a pattern with `*` and `?` means, in whatever case.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    // Which beginnings of the text are like the beginning of the pattern that was looked at.
    let mut like: Vec<bool> = std::iter::once(true).chain(text.bytes().map(|_| false)).collect();
    for sign in pattern.bytes() {
        let mut is_before = false;
        let mut is_any_before = false;
        let mut texts = std::iter::once(None).chain(text.bytes().map(Some));
        like = like
            .into_iter()
            .map(|was| {
                is_any_before |= was;
                let byte = texts.next().flatten();
                let is = match sign {
                    b'*' => is_any_before,
                    b'?' => is_before && byte.is_some(),
                    _ => is_before && byte == Some(sign),
                };
                is_before = was;
                is
            })
            .collect();
    }
    like.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_mean_what_they_say() {
        for (pattern, text, is) in [
            ("s3:GetObject", "s3:GetObject", true),
            ("S3:getobject", "s3:GetObject", true),
            ("s3:GetObject", "s3:GetObjectAcl", false),
            ("s3:Get*", "s3:GetObjectAcl", true),
            ("s3:*Acl", "s3:GetObjectAcl", true),
            ("s3:*Acl", "s3:GetObject", false),
            ("s3:*Object*Acl", "s3:GetObjectVersionAcl", true),
            ("s3:GetObject???", "s3:GetObjectAcl", true),
            ("s3:GetObject????", "s3:GetObjectAcl", false),
            ("*", "s3:GetObject", true),
            ("**", "", true),
            ("", "", true),
            ("", "s", false),
            ("?", "", false),
        ] {
            assert_eq!(is_like(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn a_tenant_covers_its_users_and_a_user_its_subusers() {
        let [tenant, user, subuser] =
            ["root", "user/one", "user/one:two"].map(|name| format!("arn:aws:iam::lab:{name}"));
        assert!(covers(&tenant, &user) && covers(&tenant, &subuser) && covers(&user, &subuser));
        assert!(!covers(&user, &tenant) && !covers(&user, &user) && !covers(&tenant, &tenant));
        assert!(!covers("arn:aws:iam::lab:user/chroot", "arn:aws:iam::lab:user/chris"), "a user whose name ends so");
        assert!(!covers(&user, "arn:aws:iam::lab:user/one-two") && !covers(&tenant, "arn:aws:iam::lab_a:user/one"));
    }

    #[test]
    fn whom_ceph_takes_for_the_same_has_one_name() {
        for (name, known) in [
            ("*", "*"),
            ("friends", "arn:aws:iam::friends:root"),
            ("arn:aws:iam::friends:root", "arn:aws:iam::friends:root"),
            ("arn:aws:s3:x:friends:root", "arn:aws:iam::friends:root"),
            ("arn:aws-cn:sts::friends:user/one", "arn:aws:iam::friends:user/one"),
            ("arn:aws:iam::friends:user/one:two", "arn:aws:iam::friends:user/one:two"),
            ("arn:aws:iam::friends:user/one:*", "arn:aws:iam::friends:user/one"),
            ("arn:aws:iam:::user/one", "arn:aws:iam:::user/one"),
            ("arn:aws:iam", "arn:aws:iam"),
            ("lab/one", "lab/one"),
            ("", "arn:aws:iam:::root"),
        ] {
            assert_eq!(known_as(name), known, "{name}");
        }
    }

    #[test]
    fn only_what_can_be_told_for_certain_lets_anybody_in() {
        let plain = json!({ "Effect": "Allow", "Principal": { "AWS": "x" }, "Action": "s3:Get*", "Resource": "r" });
        let names = |change: Value| {
            let mut statement = plain.clone();
            for (member, value) in change.as_object().unwrap() {
                statement[member] = value.clone();
            }
            Permits::of(&[statement]).names().len()
        };
        assert_eq!(names(json!({})), 1);
        assert_eq!(names(json!({ "Principal": { "AWS": ["x", "y", "*"] } })), 2);
        for unclear in [
            json!({ "Effect": "Deny" }),
            json!({ "Effect": null }),
            json!({ "Condition": {} }),
            json!({ "NotResource": "r" }),
            json!({ "NotAction": "s3:PutObject" }),
            json!({ "NotPrincipal": { "AWS": "x" } }),
            json!({ "Principal": { "AWS": [7] } }),
            json!({ "Principal": null }),
            json!({ "Action": null }),
            json!({ "Resource": [null] }),
        ] {
            assert_eq!(names(unclear.clone()), 0, "{unclear}");
        }
    }

    #[test]
    fn actions_are_told_apart_by_where_they_are_permitted() {
        let permits = Permits::of(&[
            json!({ "Effect": "Allow", "Principal": { "AWS": ["x"] }, "Action": ["s3:Get*"], "Resource": ["r", "q"] }),
            json!({ "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "public" }),
        ]);
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let named: BTreeMap<_, _> = [("arn:aws:iam::x:root".to_owned(), set(&["q", "r"]))].into();
        let both = Permitted { open: set(&["public"]), named: named.clone() };
        let one = Permitted { open: set(&[]), named };
        let told = permits.by_action(&["s3:GetObject", "s3:GetObjectAcl", "s3:PutObject"]);
        let wanted = [
            (both, vec!["s3:GetObject"]),
            (one, vec!["s3:GetObjectAcl"]),
            (Permitted::default(), vec!["s3:PutObject"]),
        ];
        assert_eq!(told, wanted.into());
        assert_eq!(permits.open(), set(&["public"]));
    }
}
