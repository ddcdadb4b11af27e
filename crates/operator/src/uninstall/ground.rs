//! What Croft consists of in a cluster, by the names this program gives.

use std::collections::BTreeSet;

use anyhow::Context as _;
use croft_api::{backup as backup_names, namespaces as names, storage as storage_names};
use croft_core::{
    backup::MODIFIERS,
    uninstall::{Choice, Ground, Kind, OurKind},
};
use serde_json::Value;

use crate::{
    admission::CA_SECRET,
    backup::GUARDS,
    manifests::{
        CERTIFICATE, Installation,
        values::{CertManager, ClassRequired, Monitor, Values, VeleroPlace},
        yaml,
    },
    namespaces::KEY_SECRET,
    parts::PARTS,
    roles::TENANTS_ROLE,
    run::LEASE,
};

/// As if all kinds we know were ours.
pub(super) fn ground(choice: Choice, namespace: &str, veleros: &[String]) -> anyhow::Result<Ground> {
    let kinds = croft_api::crds().into_iter().filter_map(|crd| {
        let part = PARTS.iter().find(|part| part.groups.contains(&crd.spec.group.as_str()))?.part.name();
        let kind = Kind { group: crd.spec.group, kind: crd.spec.names.kind };
        Some(OurKind { kind, crd: crd.metadata.name.unwrap_or_default(), part })
    });
    let mut installed = BTreeSet::new();
    for velero in veleros {
        installed.extend(self::installed(namespace, velero)?);
    }
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
        of_velero: (backup_names::MANAGED_BY_LABEL, backup_names::MANAGED_BY_VALUE),
        guards: GUARDS.to_vec(),
        tenants_role: TENANTS_ROLE,
        installed,
    })
}

/// Everything any choice would install, and what the operator keeps for itself; but for namespaces and kinds.
fn installed(namespace: &str, velero_namespace: &str) -> anyhow::Result<BTreeSet<(Kind, String, String)>> {
    let values = Values {
        cert_manager: CertManager { enabled: true, ..CertManager::default() },
        class_required: ClassRequired { label: "any".into(), ..ClassRequired::default() },
        service_monitor: Monitor { enabled: true, ..Monitor::default() },
        velero: VeleroPlace { namespace: velero_namespace.to_owned(), ..VeleroPlace::default() },
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
    let kept = [
        ("", "Secret", CA_SECRET),
        ("", "Secret", KEY_SECRET),
        // By cert-manager, which leaves it behind when its Certificate goes.
        ("", "Secret", CERTIFICATE),
        ("coordination.k8s.io", "Lease", LEASE),
    ];
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
    use croft_core::namespaces::excess::HELD_BY_PARTS;

    use super::*;

    #[test]
    fn finalizers_that_stay_on_what_classes_make_are_the_ones_our_parts_set() {
        let ground = ground(Choice::KeepData, "croft-system", &[]).unwrap();
        for (group, kind, finalizer) in HELD_BY_PARTS {
            let kind = Kind { group: group.to_owned(), kind: kind.to_owned() };
            assert!(ground.part(&kind).is_some() && ground.finalizers.contains(&finalizer), "{kind:?} {finalizer}");
        }
        // Those of kinds that no class can have: they are of the cluster, not of a namespace.
        let others = [crate::namespaces::FINALIZER, storage_names::CLASS_FINALIZER, storage_names::MIGRATION_FINALIZER];
        let held = HELD_BY_PARTS.map(|(_, _, finalizer)| finalizer);
        assert!(ground.finalizers.iter().all(|finalizer| held.contains(finalizer) || others.contains(finalizer)));
    }

    #[test]
    fn everything_that_is_installed_is_known_by_name() {
        let installed = installed("croft-system", "velero").unwrap();
        let has = |kind: &str, namespace: &str, name: &str| {
            installed
                .iter()
                .any(|(of, at, called)| (of.kind.as_str(), at.as_str(), called.as_str()) == (kind, namespace, name))
        };
        assert!(has("Deployment", "croft-system", "croft") && has("Role", "velero", "croft-velero"));
        assert!(
            has("ValidatingAdmissionPolicyBinding", "", "croft-class-required")
                && has("Lease", "croft-system", "croft")
        );
        assert!(!installed.iter().any(|(kind, ..)| kind.kind == "Namespace"));
        assert!(has("Secret", "croft-system", "croft-webhook-certificate"));
    }

    #[test]
    fn every_kind_is_of_a_part_and_known_in_every_namespace_velero_may_be_in() {
        let ground = ground(Choice::KeepData, "croft-system", &["safe".into(), "velero".into()]).unwrap();
        assert_eq!(ground.kinds.len(), croft_api::crds().len());
        let rights = ground.installed.iter().filter(|(kind, _, name)| kind.kind == "Role" && name.starts_with("croft"));
        let places: Vec<_> = rights.map(|(_, namespace, name)| (namespace.as_str(), name.as_str())).collect();
        assert_eq!(places, [("croft-system", "croft"), ("safe", "croft-velero"), ("velero", "croft-velero")]);
    }
}
