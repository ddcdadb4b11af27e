use croft_testbed::{
    FaultProxy, Testbed,
    fault::{Action, Match},
    wait,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{SOON, bed, create, exists};

fn velero_api(bed: &Testbed, kind: &str) -> (Api<DynamicObject>, ApiResource) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", kind));
    (Api::namespaced_with(bed.admin().client.clone(), &bed.velero().namespace, &resource), resource)
}

async fn create_velero(bed: &Testbed, kind: &str, name: &str, spec: Value) -> anyhow::Result<()> {
    let (api, resource) = velero_api(bed, kind);
    let object = DynamicObject::new(name, &resource).data(json!({ "spec": spec }));
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn phase_reached(bed: &Testbed, kind: &str, name: &str, phase: &str) -> anyhow::Result<()> {
    let (api, _) = velero_api(bed, kind);
    wait::until(&format!("{kind} {name} to be {phase}"), SOON, || async {
        let status = api.get(name).await?.data["status"].clone();
        anyhow::ensure!(status["phase"] == phase, "its status is {status}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
async fn everything_runs_together_at_the_pinned_versions() -> anyhow::Result<()> {
    let bed = bed().await?;
    for timing in bed.timings() {
        eprintln!("{} ready in {:?}", timing.part, timing.took);
    }
    let version = bed.admin().client.apiserver_version().await?;
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    assert!(bed.admin().kubectl(&["version"]).await?.contains("Client Version: v1.36."));
    assert!(bed.ceph().admin(&["user", "list"]).await?.contains("admin"));

    let (requests, _) = velero_api(bed, "ServerStatusRequest");
    let answers = requests.list(&ListParams::default()).await?.items;
    let status = answers.first().map(|answer| answer.data["status"].clone()).unwrap_or_default();
    assert!(status["serverVersion"].as_str().is_some_and(|version| version.starts_with("v1.18.")), "{status}");
    assert!(status["plugins"].to_string().contains("velero.io/aws"), "{status}");
    Ok(())
}

/// A bucket, its credentials and the location that names them, reached through `endpoint`.
async fn create_location(bed: &Testbed, name: &str, endpoint: &str) -> anyhow::Result<()> {
    let ceph = bed.ceph();
    ceph.create_bucket(name).await?;
    let credentials =
        format!("[default]\naws_access_key_id={}\naws_secret_access_key={}\n", ceph.access_key, ceph.secret_key);
    let secret: Secret =
        serde_json::from_value(json!({ "metadata": { "name": name }, "stringData": { "cloud": credentials } }))?;
    let secrets = Api::namespaced(bed.admin().client.clone(), &bed.velero().namespace);
    secrets.create(&PostParams::default(), &secret).await?;
    let config =
        json!({ "region": ceph.region, "s3ForcePathStyle": "true", "s3Url": endpoint, "checksumAlgorithm": "" });
    let spec = json!({
        "provider": "aws",
        "objectStorage": { "bucket": name },
        "credential": { "name": name, "key": "cloud" },
        "config": config,
    });
    create_velero(bed, "BackupStorageLocation", name, spec).await?;
    phase_reached(bed, "BackupStorageLocation", name, "Available").await
}

#[tokio::test]
async fn velero_backs_up_to_ceph_and_restores() -> anyhow::Result<()> {
    let bed = bed().await?;
    let admin = &bed.admin().client;
    let namespace = bed.namespace("precious").await?;
    create(admin, &namespace, "settings").await?;
    create_location(bed, &namespace, &bed.ceph().endpoint).await?;

    let backup = json!({ "storageLocation": namespace, "includedNamespaces": [namespace] });
    create_velero(bed, "Backup", &namespace, backup).await?;
    phase_reached(bed, "Backup", &namespace, "Completed").await?;

    let copy = format!("{namespace}-copy");
    let restore = json!({ "backupName": namespace, "namespaceMapping": { &namespace: copy } });
    create_velero(bed, "Restore", &copy, restore).await?;
    phase_reached(bed, "Restore", &copy, "Completed").await?;
    assert!(exists(admin, &copy, "settings").await?);
    Ok(())
}

#[tokio::test]
async fn signed_requests_reach_ceph_through_the_proxy() -> anyhow::Result<()> {
    let bed = bed().await?;
    let proxy = FaultProxy::rgw(&bed.ceph().endpoint).await?;
    let slow = proxy.on(Match::verb("get")).before(Action::Status(503));
    create_location(bed, "through-the-proxy", proxy.endpoint()).await?;
    assert_eq!(slow.fired(), 1);
    let log = proxy.log();
    assert!(
        log.iter().any(|seen| seen.request.resource == "/through-the-proxy" && seen.status == Some(200)),
        "{log:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_deleted_namespace_goes_with_all_it_holds() -> anyhow::Result<()> {
    let bed = bed().await?;
    let namespace = bed.namespace("short-lived").await?;
    create(&bed.admin().client, &namespace, "settings").await?;
    bed.admin().kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await?;
    wait::until_true("the namespace to be gone", SOON, || async {
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(bed.admin().client.clone());
        Ok(namespaces.get_opt(&namespace).await?.is_none())
    })
    .await
}
