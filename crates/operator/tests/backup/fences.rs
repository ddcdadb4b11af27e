//! The API server judges what Velero's account writes, by the tenants' Restores that are not finished.

use anyhow::{Result, ensure};
use croft_testbed::{Identity, Testbed};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::{
    plot::Plot,
    support::{World, apply, eventually},
};

/// What Velero's account is told who writes this; nothing if it may.
async fn told(velero: &Identity, object: &Value) -> Option<String> {
    let arguments = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"];
    velero.kubectl_stdin(&arguments, &object.to_string()).await.err().map(|error| format!("{error:#}"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it on the spot")]
fn object(version: &str, kind: &str, namespace: Option<&str>, restore: Option<&str>, content: Value) -> Value {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "made-by-velero" } });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    if let Some(restore) = restore {
        object["metadata"]["labels"] = json!({ "velero.io/restore-name": restore });
    }
    for (field, value) in content.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

#[tokio::test]
async fn what_velero_writes_for_a_tenant_is_judged_by_her_restore() -> Result<()> {
    let plot = Plot::bare("judged").await?;
    is_judged(plot.world.bed, &plot.namespace).await
}

#[tokio::test]
async fn what_velero_writes_for_a_tenant_is_judged_while_no_operator_runs() -> Result<()> {
    let (bed, _installed) = World::installed(Testbed::kubernetes().with_velero()).await?;
    let tenant = bed.namespace("unwatched").await?;
    is_judged(&bed, &tenant).await
}

/// What is refused, and what passes, while a restore of the tenant is in progress.
async fn is_judged(bed: &Testbed, tenant: &str) -> Result<()> {
    let name = format!("{tenant}-restore");
    let velero = bed.cluster_admin("velero", "velero").await?;
    // In progress from the beginning, so that Velero itself leaves it alone.
    let restore = json!({
        "apiVersion": "velero.io/v1", "kind": "Restore",
        "metadata": { "name": name, "namespace": "velero", "labels": {
            "app.kubernetes.io/managed-by": "oadp-nac-controller", "croft.dev/unfinished": "true",
        } },
        "spec": { "backupName": "b", "includedNamespaces": [tenant], "includedResources": [
            "configmaps", "deployments.apps", "persistentvolumeclaims", "pods",
        ] },
        "status": { "phase": "InProgress" },
    });
    apply(bed.admin(), &restore.to_string()).await?;
    let claim = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    let copying = json!({ "spec": {
        "backupStorageLocation": "l", "pod": { "kind": "Pod", "namespace": tenant, "name": "p" }, "repoIdentifier": "",
        "snapshotID": "s", "sourceNamespace": tenant, "volume": "v",
    } });
    let volume = json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/" } } });
    let rules = json!({ "rules": [] });
    let (hers, none) = (Some(name.as_str()), json!({}));
    eventually("the API server to know of the Restore", || async {
        let elsewhere = object("v1", "ConfigMap", Some("default"), hers, json!({}));
        Ok(told(&velero, &elsewhere).await)
    })
    .await;
    let rbac = "rbac.authorization.k8s.io/v1";
    for (what, made, because) in [
        ("her ConfigMap", object("v1", "ConfigMap", Some(tenant), hers, none.clone()), None),
        ("her claim", object("v1", "PersistentVolumeClaim", Some(tenant), hers, claim), None),
        (
            "what tells the node agent to copy a volume",
            object("velero.io/v1", "PodVolumeRestore", Some("velero"), hers, copying.clone()),
            None,
        ),
        (
            "the same elsewhere",
            object("velero.io/v1", "PodVolumeRestore", Some("default"), hers, copying),
            Some("is not hers"),
        ),
        ("a ConfigMap elsewhere", object("v1", "ConfigMap", Some("default"), hers, none.clone()), Some("is not hers")),
        ("one of Velero's own", object("v1", "ConfigMap", Some("velero"), hers, none.clone()), Some("is not hers")),
        (
            "a kind that is not listed",
            object("v1", "Secret", Some(tenant), hers, none.clone()),
            Some("kind secrets is not restored"),
        ),
        ("rights", object(rbac, "Role", Some(tenant), hers, rules.clone()), Some("is not restored")),
        ("rights in the cluster", object(rbac, "ClusterRole", None, hers, rules), Some("is not hers")),
        ("a Namespace", object("v1", "Namespace", None, None, none.clone()), Some("changes no Namespace")),
        ("a volume", object("v1", "PersistentVolume", None, None, volume), Some("changes no PersistentVolume")),
        (
            "an account elsewhere",
            object("v1", "ServiceAccount", Some("default"), None, none.clone()),
            Some("changes no ServiceAccount"),
        ),
        ("an account of hers", object("v1", "ServiceAccount", Some(tenant), None, none.clone()), None),
        ("an administrator's own", object("v1", "ConfigMap", Some("default"), Some("disaster"), none), None),
    ] {
        let told = told(&velero, &made).await;
        match because {
            None => ensure!(told.is_none(), "{what}: {told:?}"),
            Some(why) => ensure!(told.as_ref().is_some_and(|told| told.contains(why)), "{what}: {told:?}"),
        }
    }
    bed.admin().kubectl(&["delete", "restores.velero.io", &name, "-n", "velero"]).await?;
    Ok(())
}

#[tokio::test]
async fn notes_that_make_velero_pass_its_filters_by_stay_off_a_tenants_objects() -> Result<()> {
    let plot = Plot::bare("notes").await?;
    for note in [
        "backup.velero.io/must-include-additional-items",
        "restore.velero.io/must-include-additional-items",
        "velero.io/restore-status",
    ] {
        let map: k8s_openapi::api::core::v1::ConfigMap =
            serde_json::from_value(json!({ "metadata": { "name": "noted", "annotations": { note: "true" } } }))?;
        let refused = plot.api().create(&kube::api::PostParams::default(), &map).await;
        let refused = refused.map(|made| made.name_any()).expect_err("a note").to_string();
        assert!(refused.contains("are the administrator's to set"), "{refused}");
    }
    Ok(())
}
