//! Labels and annotations that tie an object in Velero's namespace to the request it was made for.

use croft_api::backup as names;
use croft_core::backup::ownership::{Marks, Origin};
use kube::api::ObjectMeta;

use crate::engine::{Key, Work};

/// The keys one kind of request uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    nacuuid: &'static str,
    namespace: &'static str,
    name: &'static str,
}

pub(super) const BACKUP: Tags = Tags {
    nacuuid: names::NAB_ORIGIN_NACUUID_LABEL,
    namespace: names::NAB_ORIGIN_NAMESPACE_ANNOTATION,
    name: names::NAB_ORIGIN_NAME_ANNOTATION,
};

pub(super) const RESTORE: Tags = Tags {
    nacuuid: names::NAR_ORIGIN_NACUUID_LABEL,
    namespace: names::NAR_ORIGIN_NAMESPACE_ANNOTATION,
    name: names::NAR_ORIGIN_NAME_ANNOTATION,
};

pub(super) const LOCATION: Tags = Tags {
    nacuuid: names::NABSL_ORIGIN_NACUUID_LABEL,
    namespace: names::NABSL_ORIGIN_NAMESPACE_ANNOTATION,
    name: names::NABSL_ORIGIN_NAME_ANNOTATION,
};

pub(super) const DOWNLOAD: Tags = Tags {
    nacuuid: names::NADR_ORIGIN_NACUUID_LABEL,
    namespace: names::NADR_ORIGIN_NAMESPACE_ANNOTATION,
    name: names::NADR_ORIGIN_NAME_ANNOTATION,
};

pub(super) const VAULT: Tags = Tags {
    nacuuid: names::VAULT_NACUUID_LABEL,
    namespace: names::VAULT_NAMESPACE_ANNOTATION,
    name: names::VAULT_NAME_ANNOTATION,
};

/// Everything of ours in Velero's namespace carries these.
const FIXED: [(&str, &str); 2] =
    [(names::OADP_LABEL, names::OADP_LABEL_VALUE), (names::MANAGED_BY_LABEL, names::MANAGED_BY_VALUE)];

impl Tags {
    /// Names of all that is read here.
    pub(super) fn names(self) -> [&'static str; 5] {
        let [(product, _), (manager, _)] = FIXED;
        [product, manager, self.nacuuid, self.namespace, self.name]
    }

    /// What an object says about its origin.
    pub(super) fn marks(self, metadata: &ObjectMeta) -> Marks {
        let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let annotation =
            |key: &str| metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).cloned();
        Marks {
            managed: FIXED.iter().all(|(key, value)| label(key).as_deref() == Some(value)),
            nacuuid: label(self.nacuuid),
            namespace: annotation(self.namespace),
            name: annotation(self.name),
        }
    }

    /// Metadata of the object made for `origin`, in Velero's namespace.
    pub(super) fn metadata(self, origin: &Origin, velero_namespace: &str) -> ObjectMeta {
        let labels = FIXED.into_iter().chain([(self.nacuuid, origin.nacuuid.as_str())]);
        let annotations = [(self.namespace, &origin.namespace), (self.name, &origin.name)];
        ObjectMeta {
            name: Some(origin.nacuuid.clone()),
            namespace: Some(velero_namespace.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
            annotations: Some(annotations.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()),
            ..ObjectMeta::default()
        }
    }

    /// The request an object says it belongs to. Good enough to look at that request again, never to act on the object.
    pub(super) fn request(self, work: Work, metadata: &ObjectMeta) -> Option<Key> {
        match self.marks(metadata) {
            Marks { managed: true, namespace: Some(namespace), name: Some(name), .. } => {
                Some(Key::new(work, namespace, name))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Part;

    #[test]
    fn what_we_make_is_ours_and_nobody_elses() {
        let origin = Origin { namespace: "shop".into(), name: "nightly".into(), nacuuid: "shop-nightly-1".into() };
        for tags in [BACKUP, RESTORE, LOCATION, DOWNLOAD, VAULT] {
            let metadata = tags.metadata(&origin, "velero");
            assert!(origin.owns(&tags.marks(&metadata)));
            assert_eq!(
                tags.request(Part("backup").work("x"), &metadata),
                Some(Key::new(Part("backup").work("x"), "shop", "nightly"))
            );
        }
        let a_backup = BACKUP.metadata(&origin, "velero");
        assert!(!origin.owns(&RESTORE.marks(&a_backup)) && !origin.owns(&LOCATION.marks(&a_backup)));
        assert!(!origin.owns(&BACKUP.marks(&ObjectMeta { labels: None, ..a_backup })));
    }
}
