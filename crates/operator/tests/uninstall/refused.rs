//! Where it is not clear what is meant, or whose something is, nothing is changed.

use anyhow::Result;
use croft_testbed::Testbed;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::json;

use crate::{
    names, said,
    support::{World, apply},
    uninstall,
};

#[tokio::test]
async fn a_wrong_namespace_is_refused_and_so_is_no_choice_at_all() -> Result<()> {
    let (bed, _installed) = World::installed(Testbed::kubernetes()).await?;
    let kubeconfig = bed.admin().kubeconfig.clone();
    let wrong = uninstall(&kubeconfig, &["--keep-data", "--namespace", "platform"]).await?;
    assert!(!wrong.status.success() && said(&wrong).contains("give --namespace croft-system"), "{}", said(&wrong));
    let none = uninstall(&kubeconfig, &[]).await?;
    assert_eq!(none.status.code(), Some(1), "{}", said(&none));
    assert!(said(&none).contains("nothing is changed") && said(&none).contains("--keep-data"), "{}", said(&none));
    let policies = names::<ValidatingAdmissionPolicy>(&bed.admin().client).await?;
    assert!(policies.iter().any(|name| name == "croft-bindings"), "{policies:?}");
    Ok(())
}

#[tokio::test]
async fn what_another_operator_has_of_the_same_kinds_is_not_touched() -> Result<()> {
    let (bed, _installed) = World::installed(Testbed::kubernetes()).await?;
    let (admin, kubeconfig) = (bed.admin(), bed.admin().kubeconfig.clone());
    let namespace = bed.namespace("theirs").await?;
    // As where only the other parts of Croft run.
    let kinds = admin.kubectl(&["get", "crd", "-o", "name"]).await?;
    for kind in kinds.lines().filter(|kind| kind.ends_with("oadp.openshift.io") || kind.ends_with("croft.dev")) {
        admin.kubectl(&["label", kind, "app.kubernetes.io/part-of-"]).await?;
    }
    admin.kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    let finalizer = "nonadminbackup.oadp.openshift.io/finalizer";
    let backup = json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
        "metadata": { "name": "nightly", "namespace": namespace, "finalizers": [finalizer] }, "spec": { "backupSpec": {} } });
    apply(admin, &backup.to_string()).await?;

    let unclear = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(!unclear.status.success() && said(&unclear).contains("nonadminbackups"), "{}", said(&unclear));
    for choice in ["--purge", "--keep-data"] {
        let done = uninstall(&kubeconfig, &[choice, "--enable", "namespaces,storage"]).await?;
        assert!(done.status.success(), "{}", said(&done));
        let left =
            ["get", "nonadminbackup", "nightly", "-n", &namespace, "-o", "jsonpath={.metadata.finalizers}{.spec}"];
        let left = admin.kubectl(&left).await?;
        assert!(left.contains(finalizer) && !left.contains("deleteBackup"), "{left}");
    }
    let kinds = admin.kubectl(&["get", "crd", "-o", "name"]).await?;
    assert!(!kinds.contains("akuity.io") && kinds.contains("nonadminbackups.oadp.openshift.io"), "{kinds}");
    Ok(())
}

#[tokio::test]
async fn where_nothing_tells_any_more_where_the_operator_was_its_secrets_elsewhere_are_named() -> Result<()> {
    let (bed, _installed) = World::installed(Testbed::kubernetes()).await?;
    let (admin, kubeconfig) = (bed.admin(), bed.admin().kubeconfig.clone());
    let place = bed.namespace("platform").await?;
    admin.kubectl(&["create", "secret", "generic", "croft-digest-key", "-n", &place]).await?;
    let told = uninstall(&kubeconfig, &["--dry-run"]).await?;
    assert!(!said(&told).contains(&place), "its rights tell where it is: {}", said(&told));
    admin.kubectl(&["delete", "clusterrolebinding/croft", "validatingwebhookconfiguration/croft"]).await?;
    let done = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(done.status.success() && said(&done).contains(&format!("namespaces {place}")), "{}", said(&done));
    admin.kubectl(&["get", "secret", "croft-digest-key", "-n", &place]).await?;
    Ok(())
}
