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

/// A request that may own a Velero Backup or Restore.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub origin: &'a Origin,
    /// UID of the object that was made for it, where that was recorded.
    pub recorded: Option<&'a str>,
    /// It asked for a location of its own. Otherwise it lies in a vault of its namespace or with the administrator.
    pub names_location: bool,
}

impl<'a> Claimant<'a> {
    /// A request that only says which Velero Backup it was made for. Anybody can write a name into a request: that counts as far as
    /// the Backup says the same and lies with the tenant.
    pub fn by_its_own_word(origin: &'a Origin) -> Self {
        Self { origin, recorded: None, names_location: true }
    }

    /// Whether an object is proven to be of this request. `lies`: where it lies, if it is of a kind that Velero finds in buckets.
    pub fn owns(&self, uid: &str, marks: &Marks, lies: Option<&Lies>) -> bool {
        let lies_right = match lies {
            None => true,
            Some(Lies::WithTenant(namespace)) => *namespace == self.origin.namespace,
            Some(Lies::WithAdministrator) => !self.names_location,
            Some(Lies::Nowhere) => self.recorded.is_some(),
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
        let (marks, hers, his) = (origin.marks(), Lies::WithTenant("shop".into()), Lies::WithTenant("bank".into()));
        let owns = |claimant: Claimant<'_>, uid: &str, lies: &Lies| claimant.owns(uid, &marks, Some(lies));
        let claimant = Claimant { origin: &origin, recorded: Some("u1"), names_location: true };
        assert!(owns(claimant, "u1", &hers) && owns(claimant, "u1", &Lies::Nowhere));
        assert!(!owns(claimant, "u2", &hers), "another object of the same name");
        assert!(!owns(claimant, "u1", &his), "another tenant's location");
        assert!(!owns(claimant, "u1", &Lies::WithAdministrator));
        let unrecorded = Claimant::by_its_own_word(&origin);
        assert!(owns(unrecorded, "u2", &hers), "made, but not yet recorded");
        for lies in [Lies::Nowhere, Lies::WithAdministrator, his.clone()] {
            assert!(!owns(unrecorded, "u2", &lies), "{lies:?}");
        }
        let unnamed = Claimant { names_location: false, ..claimant };
        assert!(owns(unnamed, "u1", &Lies::WithAdministrator) && owns(unnamed, "u1", &hers));
        assert!(!owns(unnamed, "u1", &his));
        assert!(unnamed.owns("u1", &marks, None) && !unnamed.owns("u2", &marks, None), "a Restore lies nowhere");
        assert!(!claimant.owns("u1", &Marks::default(), Some(&hers)) && !claimant.owns("u1", &Marks::default(), None));
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
