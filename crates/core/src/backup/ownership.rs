//! Whose is it? The one check before anything in Velero's namespace is read, changed or deleted for a tenant.
//!
//! Velero itself makes objects with whatever labels and annotations it finds in a bucket, and tenants own buckets. So no
//! single mark proves anything: the fixed labels, the recorded name and both origin annotations have to agree.

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

#[cfg(test)]
mod tests {
    use super::*;

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
