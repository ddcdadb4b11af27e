//! What `croft uninstall` leaves behind, on a real API server.

mod refused;
#[path = "../support/mod.rs"]
mod support;
mod trouble;

use std::{path::Path, process::Output, time::Duration};

use anyhow::{Context, Result};
use croft_api::{namespaces::CLASS_LABEL, storage::S3UserClaim};
use croft_testbed::{S3Call, Testbed, wait};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingWebhookConfiguration},
        core::v1::{Namespace, ResourceQuota, Secret},
        networking::v1::NetworkPolicy,
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, apply, croft, eventually};

/// Velero looks at things in its own time.
const VELERO_PATIENCE: Duration = Duration::from_secs(120);

const CLASS: &str = r#"{"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "team"}, "spec": {
  "protect": true, "policy": {"onClassDelete": "Block"}, "resources": [
  {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny-all"}, "spec": {"podSelector": {}}},
  {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "10"}}}]}}"#;

async fn uninstall(kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = tokio::process::Command::new(croft());
    command.arg("uninstall").args(arguments).arg("--kubeconfig").arg(kubeconfig);
    Ok(command.output().await?)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn names<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug>(
    client: &Client,
) -> Result<Vec<String>> {
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(all.items.iter().map(ResourceExt::name_any).collect())
}

/// A namespace of a class that protects what it stamps.
async fn furnished(bed: &Testbed) -> Result<String> {
    let namespace = bed.namespace("kept").await?;
    apply(bed.admin(), CLASS).await?;
    let label = format!("{CLASS_LABEL}=team");
    bed.admin().kubectl(&["label", "namespace", &namespace, &label]).await?;
    let policies: Api<NetworkPolicy> = Api::namespaced(bed.admin().client.clone(), &namespace);
    eventually("the class's objects", || async { Ok(policies.get_opt("deny-all").await?) }).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(bed.admin().client.clone(), &namespace);
    eventually("the class's objects", || async { Ok(quotas.get_opt("team").await?) }).await;
    Ok(namespace)
}

/// Nothing by which the API server, or anybody in it, would know that Croft was here.
async fn nothing_is_left(client: &Client) -> Result<()> {
    let ours = |names: Vec<String>| names.into_iter().filter(|name| name.contains("croft")).collect::<Vec<_>>();
    assert_eq!(ours(names::<ValidatingAdmissionPolicy>(client).await?), [""; 0]);
    assert_eq!(ours(names::<ValidatingWebhookConfiguration>(client).await?), [""; 0]);
    assert_eq!(ours(names::<ClusterRole>(client).await?), [""; 0]);
    let groups = ["akuity.io", "snappcloud.io", "oadp.openshift.io", "croft.dev"];
    let kinds = names::<CustomResourceDefinition>(client).await?;
    assert!(!kinds.iter().any(|kind| groups.iter().any(|group| kind.ends_with(group))), "{kinds:?}");
    Ok(())
}

async fn goes(client: &Client, namespace: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(namespace, &DeleteParams::default()).await?;
    wait::until_true("the namespace to be gone", PATIENCE, || async {
        Ok(namespaces.get_opt(namespace).await?.is_none())
    })
    .await
}

#[tokio::test]
async fn with_data_kept_no_fence_falls_with_the_operator_and_nothing_else_of_it_is_left() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let client = world.client();
    let namespace = furnished(&world.bed).await?;
    let kubeconfig = world.bed.admin().kubeconfig.clone();

    let told = uninstall(&kubeconfig, &["--dry-run"]).await?;
    let text = said(&told);
    assert!(told.status.success() && text.contains("namespaces: 1 NetworkPolicy, 1 ResourceQuota"), "{text}");
    assert!(names::<ValidatingAdmissionPolicy>(&client).await?.iter().any(|name| name == "croft-bindings"));

    drop(world.operator);
    let done = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&client).await?;
    let policy = Api::<NetworkPolicy>::namespaced(client.clone(), &namespace).get("deny-all").await?;
    assert_eq!((policy.owner_references().len(), policy.labels().len()), (0, 0), "{:?}", policy.metadata);
    Api::<ResourceQuota>::namespaced(client.clone(), &namespace).get("team").await?;
    // The Secret with the gateway's keys would be somebody else's; here there is none.
    eventually("the operator's namespace to go", || async {
        let here = Api::<Namespace>::all(client.clone()).get_opt("croft-system").await?;
        Ok(here.is_none_or(|here| here.metadata.deletion_timestamp.is_some()).then_some(()))
    })
    .await;
    goes(&client, &namespace).await?;

    assert!(said(&done).contains("is deleted"), "{}", said(&done));
    let again = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(again.status.success() && said(&again).contains("nothing of Croft is here"), "{}", said(&again));
    Ok(())
}

#[tokio::test]
async fn no_fence_falls_that_the_operator_puts_up_until_its_very_end() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let client = world.client();
    let first = furnished(&world.bed).await?;
    let kubeconfig = world.bed.admin().kubeconfig.clone();
    let refused = uninstall(&kubeconfig, &["--keep-data", "--timeout", "2"]).await?;
    assert!(!refused.status.success() && said(&refused).contains("stopped by hand"), "{}", said(&refused));
    let policy = Api::<NetworkPolicy>::namespaced(client.clone(), &first).get("deny-all").await?;
    assert_eq!(policy.owner_references().len(), 1, "while somebody works nothing is let go of");

    let running = tokio::spawn(async move { uninstall(&kubeconfig, &["--keep-data", "--timeout", "60"]).await });
    eventually("policies and webhooks to go", || async {
        let webhooks = names::<ValidatingWebhookConfiguration>(&client).await?;
        Ok((!webhooks.iter().any(|name| name == "croft")).then_some(()))
    })
    .await;
    let second = furnished(&world.bed).await?;
    drop(world.operator);
    let done = running.await.context("croft uninstall")??;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&client).await?;
    for namespace in [first, second] {
        let policy = Api::<NetworkPolicy>::namespaced(client.clone(), &namespace).get("deny-all").await?;
        assert_eq!(policy.owner_references().len(), 0, "{namespace}");
        goes(&client, &namespace).await?;
    }
    Ok(())
}

#[tokio::test]
async fn keys_stay_with_the_tenant_and_her_user_in_ceph_or_all_of_it_goes() -> Result<()> {
    for (choice, stays) in [("--keep-data", true), ("--purge", false)] {
        let world = World::own(Testbed::kubernetes().with_ceph()).await?;
        let client = world.client();
        let namespace = world.bed.namespace("blue").await?;
        let claim = format!(
            r#"{{"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": {{"name": "app", "namespace": "{namespace}"}},
                "spec": {{"adminSecretName": "app-admin", "readSecretName": "app-read", "quota": {{"size": "1Gi", "objects": "10", "buckets": 2}}}}}}"#
        );
        apply(world.bed.admin(), &claim).await?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        eventually("her keys", || async { Ok(secrets.get_opt("app-admin").await?) }).await;
        let claims: Api<S3UserClaim> = Api::namespaced(client.clone(), &namespace);
        assert_eq!(claims.get("app").await?.finalizers().len(), 1);
        assert!(world.bed.ceph().admin(&["user", "list"]).await?.contains("$app"));
        let kubeconfig = world.bed.admin().kubeconfig.clone();
        if !stays {
            without_a_leader_nothing_is_purged(&world, &kubeconfig).await?;
            assert!(claims.get("app").await?.metadata.deletion_timestamp.is_none());
        }
        let running = tokio::spawn(async move { uninstall(&kubeconfig, &[choice, "--timeout", "60"]).await });
        // Outside of the cluster it is stopped by hand, once it has done its work.
        if stays {
            drop(world.operator);
        } else {
            no_user_is_left(&world.bed).await?;
            drop(world.operator);
        }
        let done = running.await.context("croft uninstall")??;
        assert!(done.status.success(), "{}", said(&done));
        nothing_is_left(&client).await?;
        assert_eq!(world.bed.ceph().admin(&["user", "list"]).await?.contains("$app"), stays, "{choice}");
        assert_eq!(secrets.get_opt("app-admin").await?.is_some(), stays, "{choice}");
        goes(&client, &namespace).await?;
    }
    Ok(())
}

async fn without_a_leader_nothing_is_purged(world: &World, kubeconfig: &Path) -> Result<()> {
    world.operator.process.stop();
    let refused = uninstall(kubeconfig, &["--purge"]).await?;
    assert!(!refused.status.success() && said(&refused).contains("no operator leads"), "{}", said(&refused));
    assert!(names::<ValidatingAdmissionPolicy>(&world.client()).await?.iter().any(|name| name == "croft-bindings"));
    world.operator.process.cont();
    world.operator.ready(PATIENCE).await
}

/// Not in Ceph, and none is on record any more: the operator has done its work.
async fn no_user_is_left(bed: &Testbed) -> Result<()> {
    wait::until("the operator to have done its work", VELERO_PATIENCE, || async {
        let users: Vec<String> = serde_json::from_str(&bed.ceph().admin(&["user", "list"]).await?)?;
        let left: Vec<_> = users.into_iter().filter(|user| user.contains('$')).collect();
        anyhow::ensure!(left.is_empty(), "{left:?}");
        let records = bed.admin().kubectl(&["get", "s3users", "-o", "name"]).await?;
        anyhow::ensure!(records.is_empty(), "{records}");
        Ok(Some(()))
    })
    .await
}

/// A namespace of a class that gives storage and a vault, with a bucket of its owner's own beside it; both are full, and she has a
/// backup.
async fn lived_in(bed: &Testbed, client: &Client) -> Result<String> {
    let storage = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let bucket = |name: &str| storage("S3Bucket", name, json!({ "s3UserRef": "store" }));
    let keys = json!({ "adminSecretName": "store-admin", "readSecretName": "store-read", "quota": { "size": "1Gi", "objects": "100", "buckets": 2 } });
    let vault = json!({ "apiVersion": "croft.dev/v1alpha1", "kind": "BackupVault", "metadata": { "name": "backups" }, "spec": { "quota": { "size": "1Gi" }, "onDelete": "Retain" } });
    let class = json!({ "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": "lively" },
                        "spec": { "resources": [storage("S3UserClaim", "store", keys), bucket("given"), vault] } });
    apply(bed.admin(), &class.to_string()).await?;
    let namespace = bed.namespace("lived-in").await?;
    bed.admin().kubectl(&["label", "namespace", &namespace, &format!("{CLASS_LABEL}=lively")]).await?;
    bed.admin().kubectl(&["create", "configmap", "mine", "-n", &namespace, "--from-literal=k=v"]).await?;
    let in_it = |mut object: Value| {
        object["metadata"]["namespace"] = namespace.as_str().into();
        object.to_string()
    };
    apply(bed.admin(), &in_it(bucket("own"))).await?;
    for what in ["s3userclaim/store", "s3bucket/given", "s3bucket/own", "backupvault/backups"] {
        eventually(&format!("{what} to be ready"), || async {
            let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
            Ok((bed.admin().kubectl(&["get", what, "-n", &namespace, "-o", ready]).await? == "True").then_some(()))
        })
        .await;
    }
    let secret = Api::<Secret>::namespaced(client.clone(), &namespace).get("store-admin").await?;
    let data = secret.data.unwrap_or_default();
    let key = |name: &str| data.get(name).map(|key| String::from_utf8_lossy(&key.0).into_owned()).context("a key");
    let (access, secret) = (key("accessKey")?, key("secretKey")?);
    for path in ["/given/cat.jpg", "/own/cat.jpg"] {
        let put = S3Call { method: http::Method::PUT, path, body: b"meow", ..S3Call::default() };
        let (status, told) = bed.ceph().call((&access, &secret), &put).await?;
        anyhow::ensure!(status.is_success(), "{path}: {status} {told}");
    }
    let backup = json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup", "metadata": { "name": "nightly" },
                         "spec": { "backupSpec": { "includedResources": ["configmaps"] } } });
    apply(bed.admin(), &in_it(backup)).await?;
    wait::until_true("the backup to be completed", VELERO_PATIENCE, || async {
        let phase = "jsonpath={.status.veleroBackup.status.phase}";
        Ok(bed.admin().kubectl(&["get", "nonadminbackup", "nightly", "-n", &namespace, "-o", phase]).await?
            == "Completed")
    })
    .await?;
    Ok(namespace)
}

#[tokio::test]
async fn a_purge_takes_backups_and_full_buckets_with_it_and_not_what_tenants_made_themselves() -> Result<()> {
    let world = World::own(Testbed::kubernetes().with_velero()).await?;
    let client = world.client();
    let namespace = lived_in(&world.bed, &client).await?;
    let kubeconfig = world.bed.admin().kubeconfig.clone();
    let running = tokio::spawn(async move { uninstall(&kubeconfig, &["--purge", "--timeout", "150"]).await });
    no_user_is_left(&world.bed).await?;
    drop(world.operator);
    let done = running.await.context("croft uninstall")??;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&client).await?;
    assert_eq!(world.bed.ceph().admin(&["bucket", "list"]).await?.matches(&namespace).count(), 0);
    let veleros = ["get", "backups.velero.io,backupstoragelocations.velero.io", "-n", "velero", "-o", "name"];
    assert_eq!(world.bed.admin().kubectl(&veleros).await?, "");
    world.bed.admin().kubectl(&["get", "configmap", "mine", "-n", &namespace]).await?;
    goes(&client, &namespace).await
}
