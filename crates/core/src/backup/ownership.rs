//! Whose is it? The one check before anything in Velero's namespace is read, changed or deleted for a tenant.
//!
//! Velero itself makes objects with whatever labels and annotations it finds in a bucket, and tenants own buckets. So no mark
//! proves anything by itself: the fixed labels, the recorded name and both origin annotations have to agree, the object has to be
//! the very one that was recorded, and a backup has to lie in a location of the same tenant. Velero says truly where it found it.

/// The request an object in Velero's namespace is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub namespace: String,
    pub name: String,
    /// See [`super::names::nacuuid`].
    pub nacuuid: String,
}

/// What labels and annotations of an object say about its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Both labels that everything of ours carries have their exact value.
    pub managed: bool,
    pub nacuuid: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl Origin {
    /// Whether an object with these marks was made for this request.
    pub fn owns(&self, marks: &Marks) -> bool {
        let Marks { managed, nacuuid, namespace, name } = marks;
        *managed
            && nacuuid.as_ref() == Some(&self.nacuuid)
            && namespace.as_ref() == Some(&self.namespace)
            && name.as_ref() == Some(&self.name)
    }

    /// The marks of an object made for this request.
    pub fn marks(&self) -> Marks {
        Marks {
            managed: true,
            nacuuid: Some(self.nacuuid.clone()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
        }
    }
}

/// Where a Velero Backup lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lies {
    /// In the location of a tenant, whose namespace this is.
    WithTenant(String),
    /// In a location of the administrator's, or in Velero's default one.
    WithAdministrator,
    /// Its location is not there any more.
    #[default]
    Nowhere,
}

/// A request that may own a Velero Backup.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub origin: &'a Origin,
    /// UID of the Velero Backup that was made for it, where that was recorded.
    pub recorded: Option<&'a str>,
    /// It asked for a location of its own. Otherwise it lies in a vault of its namespace or with the administrator.
    pub names_location: bool,
}

impl Claimant<'_> {
    pub fn owns(&self, uid: &str, marks: &Marks, lies: &Lies) -> bool {
        let lies_right = match lies {
            Lies::WithTenant(namespace) => *namespace == self.origin.namespace,
            Lies::WithAdministrator => !self.names_location,
            Lies::Nowhere => self.recorded.is_some(),
        };
        self.origin.owns(marks) && self.recorded.is_none_or(|recorded| recorded == uid) && lies_right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_from_somebody_elses_bucket_is_never_taken_for_ones_own() {
        let origin = Origin { namespace: "shop".into(), name: "nightly".into(), nacuuid: "shop-nightly-1".into() };
        let (marks, hers) = (origin.marks(), Lies::WithTenant("shop".into()));
        let claimant = Claimant { origin: &origin, recorded: Some("u1"), names_location: true };
        assert!(claimant.owns("u1", &marks, &hers) && claimant.owns("u1", &marks, &Lies::Nowhere));
        assert!(!claimant.owns("u2", &marks, &hers), "another object of the same name");
        assert!(!claimant.owns("u1", &marks, &Lies::WithTenant("bank".into())), "another tenant's location");
        assert!(!claimant.owns("u1", &marks, &Lies::WithAdministrator));
        let unrecorded = Claimant { recorded: None, ..claimant };
        assert!(unrecorded.owns("u2", &marks, &hers), "made, but not yet recorded");
        assert!(
            !unrecorded.owns("u2", &marks, &Lies::Nowhere)
                && !unrecorded.owns("u2", &marks, &Lies::WithTenant("bank".into()))
        );
        let unnamed = Claimant { names_location: false, ..claimant };
        assert!(unnamed.owns("u1", &marks, &Lies::WithAdministrator) && unnamed.owns("u1", &marks, &hers));
        assert!(!unnamed.owns("u1", &marks, &Lies::WithTenant("bank".into())));
    }

    #[test]
    fn every_single_mark_counts() {
        let origin = Origin { namespace: "shop".into(), name: "nightly".into(), nacuuid: "shop-nightly-1".into() };
        let ours = origin.marks();
        assert!(origin.owns(&ours));
        let other = || Some("other".to_owned());
        for forged in [
            Marks { managed: false, ..ours.clone() },
            Marks { nacuuid: other(), ..ours.clone() },
            Marks { namespace: other(), ..ours.clone() },
            Marks { name: other(), ..ours.clone() },
            Marks { nacuuid: None, ..ours.clone() },
            Marks { namespace: None, ..ours.clone() },
            Marks { name: None, ..ours.clone() },
            Marks::default(),
        ] {
            assert!(!origin.owns(&forged), "{forged:?}");
        }
    }
}
