//! What Croft consists of in a cluster, by the names this program gives.

use std::collections::BTreeSet;

use anyhow::Context as _;
use croft_api::{backup as backup_names, namespaces as names, storage as storage_names};
use croft_core::{
    backup::MODIFIERS,
    uninstall::{Choice, Ground, Kind},
};
use serde_json::Value;

use crate::{
    admission::CA_SECRET,
    manifests::{
        Installation,
        values::{CertManager, ClassRequired, Monitor, Values, VeleroPlace},
        yaml,
    },
    namespaces::KEY_SECRET,
    run::LEASE,
};

pub(super) fn ground(choice: Choice, namespace: &str, velero_namespace: &str) -> anyhow::Result<Ground> {
    let kinds = croft_api::crds().into_iter().map(|crd| {
        let kind = Kind { group: crd.spec.group, kind: crd.spec.names.kind };
        (kind, crd.metadata.name.unwrap_or_default())
    });
    Ok(Ground {
        choice,
        namespace: namespace.to_owned(),
        kinds: kinds.collect(),
        finalizers: vec![
            crate::namespaces::FINALIZER,
            storage_names::CLAIM_FINALIZER,
            storage_names::BUCKET_FINALIZER,
            storage_names::CLASS_FINALIZER,
            storage_names::MIGRATION_FINALIZER,
            backup_names::NAB_FINALIZER,
            backup_names::NAR_FINALIZER,
            backup_names::NABSL_FINALIZER,
            backup_names::VAULT_FINALIZER,
        ],
        marks: vec![
            names::STAMP_LABEL,
            names::PROTECTED_LABEL,
            names::PROTECTED_LABELS_ANNOTATION,
            names::PROTECTED_ANNOTATIONS_ANNOTATION,
            names::TRIGGER_ANNOTATION,
        ],
        of_a_class: vec![names::REVISION_LABEL, names::GATE_LABEL],
        installed: installed(namespace, velero_namespace)?,
    })
}

/// Everything any choice would install, and what the operator keeps for itself; but for namespaces and kinds.
fn installed(namespace: &str, velero_namespace: &str) -> anyhow::Result<BTreeSet<(Kind, String, String)>> {
    let values = Values {
        cert_manager: CertManager { enabled: true, ..CertManager::default() },
        class_required: ClassRequired { label: "any".into(), ..ClassRequired::default() },
        service_monitor: Monitor { enabled: true, ..Monitor::default() },
        velero: VeleroPlace { namespace: velero_namespace.to_owned() },
        ..Values::default()
    };
    let everything = Installation { namespace: namespace.to_owned(), webhook_url: None, values };
    let objects: Vec<Value> = serde_saphyr::from_multiple(&yaml(&everything)).context("reading our own manifests")?;
    let text =
        |object: &Value, place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut installed: BTreeSet<_> = objects
        .iter()
        .map(|object| {
            let version = text(object, "/apiVersion");
            let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
            let kind = Kind { group, kind: text(object, "/kind") };
            (kind, text(object, "/metadata/namespace"), text(object, "/metadata/name"))
        })
        .filter(|(kind, ..)| kind.kind != "Namespace" && kind.kind != "CustomResourceDefinition")
        .collect();
    let kept = [("", "Secret", CA_SECRET), ("", "Secret", KEY_SECRET), ("coordination.k8s.io", "Lease", LEASE)];
    installed.extend(kept.map(|(group, kind, name)| {
        (Kind { group: group.to_owned(), kind: kind.to_owned() }, namespace.to_owned(), name.to_owned())
    }));
    installed.insert((
        Kind { group: String::new(), kind: "ConfigMap".into() },
        velero_namespace.to_owned(),
        MODIFIERS.to_owned(),
    ));
    Ok(installed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_installed_is_known_by_name() {
        let installed = installed("croft-system", "velero").unwrap();
        let has = |kind: &str, namespace: &str, name: &str| {
            installed
                .iter()
                .any(|(of, at, called)| (of.kind.as_str(), at.as_str(), called.as_str()) == (kind, namespace, name))
        };
        assert!(has("Deployment", "croft-system", "croft") && has("Role", "velero", "croft"));
        assert!(
            has("ValidatingAdmissionPolicyBinding", "", "croft-class-required")
                && has("Lease", "croft-system", "croft")
        );
        assert!(!installed.iter().any(|(kind, ..)| kind.kind == "Namespace"));
    }
}
