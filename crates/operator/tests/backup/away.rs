//! Velero gone, or closed to us: nobody else is held up, and everything goes on when it is back.

use std::time::Duration;

use anyhow::{Result, ensure};
use croft_testbed::{Identity, Testbed, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::{
    plot::{SETTINGS, VELERO_PATIENCE, owner_of},
    support::{World, apply, eventually},
};

/// A namespace with a location and a backup that Velero has, made by its owner.
pub(crate) async fn furnish(world: &World, namespace: &str) -> Result<Identity> {
    let owner = furnish_place(world, namespace).await?;
    let backup =
        of_ours("NonAdminBackup", namespace, "nightly", json!({ "backupSpec": { "storageLocation": "here" } }));
    apply(&owner, &backup.to_string()).await?;
    Ok(owner)
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it on the spot")]
fn of_ours(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": kind, "metadata": { "name": name, "namespace": namespace },
            "spec": spec })
}

/// The same without the backup.
async fn furnish_place(world: &World, namespace: &str) -> Result<Identity> {
    let ceph = world.bed.ceph();
    let keys = format!("[default]\naws_access_key_id={}\naws_secret_access_key={}\n", ceph.access_key, ceph.secret_key);
    ceph.create_bucket(namespace).await?;
    let location = json!({ "backupStorageLocationSpec": {
        "provider": "aws", "objectStorage": { "bucket": namespace }, "credential": { "name": "keys", "key": "cloud" },
        "config": { "region": ceph.region, "s3ForcePathStyle": "true", "s3Url": ceph.endpoint },
    } });
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    apply(world.bed.admin(), &space.to_string()).await?;
    let owner = owner_of(&world.bed, namespace).await?;
    let items = [
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": namespace },
                "stringData": { "cloud": keys } }),
        of_ours("NonAdminBackupStorageLocation", namespace, "here", location),
    ];
    for item in &items {
        apply(&owner, &item.to_string()).await?;
    }
    Ok(owner)
}

async fn phase(world: &World, namespace: &str, kind: &str, name: &str) -> Result<String> {
    world.bed.admin().kubectl(&["get", kind, name, "-n", namespace, "-o", "jsonpath={.status.phase}"]).await
}

async fn is_in_force(world: &World, namespace: &str) {
    eventually("Velero to have the location", || async {
        let phase = phase(world, namespace, "nonadminbackupstoragelocation", "here").await?;
        ensure!(phase == "Created", "its phase is {phase:?}");
        Ok(Some(()))
    })
    .await;
}

pub(crate) async fn is_handed_over(world: &World, namespace: &str) {
    // Velero looks at a new location in its own time, and only then is a backup handed over.
    let handed_over = wait::until("Velero to have the backup", VELERO_PATIENCE, || async {
        let phase = phase(world, namespace, "nonadminbackup", "nightly").await?;
        ensure!(phase == "Created", "its phase is {phase:?}");
        Ok(Some(()))
    });
    handed_over.await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// As long as a namespace may take to go, whatever Velero does.
const GONE_WITHIN: Duration = Duration::from_secs(30);

pub(crate) async fn namespace_goes(world: &World, namespace: &str) -> Result<()> {
    world.bed.admin().kubectl(&["delete", "namespace", namespace, "--wait=false"]).await?;
    let namespaces: Api<Namespace> = Api::all(world.client());
    wait::until("the namespace to go", GONE_WITHIN, || async {
        let left = namespaces.get_opt(namespace).await?;
        ensure!(left.is_none(), "{:?}", left.and_then(|namespace| namespace.status));
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
async fn a_namespace_goes_although_velero_is_closed_to_us_and_the_rest_goes_on_when_it_is_open_again() -> Result<()> {
    let world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    let admin = world.bed.admin();
    furnish(&world, "closing").await?;
    is_handed_over(&world, "closing").await;
    let forsaken = furnish_place(&world, "forsaken").await?;
    is_in_force(&world, "forsaken").await;
    let rights = admin.kubectl(&["get", "role,rolebinding", "croft-velero", "-n", "velero", "-o", "json"]).await?;
    admin.kubectl(&["delete", "role,rolebinding", "croft-velero", "-n", "velero"]).await?;
    // Nothing of it wakes anybody any more when its namespace goes.
    let with_its_keys =
        ["delete", "nonadminbackupstoragelocation/here", "secret/keys", "-n", "forsaken", "--wait=false"];
    forsaken.kubectl(&with_its_keys).await?;
    eventually("the location to be on its way out", || async {
        let phase = phase(&world, "forsaken", "nonadminbackupstoragelocation", "here").await?;
        ensure!(phase == "Deleting", "its phase is {phase:?}");
        Ok(Some(()))
    })
    .await;
    namespace_goes(&world, "forsaken").await?;
    namespace_goes(&world, "closing").await?;
    let (ready, detail) = world.operator.readiness().await?;
    ensure!(ready, "{detail}");
    furnish(&world, "opening").await?;
    let rights: Value = serde_json::from_str(&rights)?;
    for item in rights["items"].as_array().into_iter().flatten() {
        let mut item = item.clone();
        for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields"] {
            item["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
        }
        apply(admin, &item.to_string()).await?;
    }
    is_handed_over(&world, "opening").await;
    eventually("nothing to be left of the namespace that went meanwhile", || async {
        let kinds = "backups.velero.io,restores.velero.io,backupstoragelocations.velero.io,secrets";
        let left = admin.kubectl(&["get", kinds, "-n", "velero", "-o", "name"]).await?;
        let left: Vec<_> =
            left.lines().filter(|name| name.contains("/closing-") || name.contains("/forsaken-")).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })
    .await;
    Ok(())
}

/// Takes Velero away with its namespace and all of its kinds, and waits until they are gone.
async fn velero_goes(world: &World) -> Result<()> {
    let admin = world.bed.admin();
    world.bed.velero().process().kill();
    admin.kubectl(&["delete", "namespace", "velero", "--wait=false"]).await?;
    let kinds = || async {
        let all = admin.kubectl(&["get", "crd", "-o", "name"]).await?;
        anyhow::Ok(all.lines().filter(|kind| kind.ends_with(".velero.io")).map(str::to_owned).collect::<Vec<_>>())
    };
    let going = kinds().await?;
    ensure!(going.len() > 5, "{going:?}");
    let arguments = ["delete", "--wait=false"].into_iter().chain(going.iter().map(String::as_str));
    admin.kubectl(&arguments.collect::<Vec<_>>()).await?;
    eventually("Velero to be gone with its kinds", || async {
        let (left, namespaces) = (kinds().await?, Api::<Namespace>::all(world.client()));
        ensure!(left.is_empty(), "{left:?} are left");
        Ok(namespaces.get_opt("velero").await?.is_none().then_some(()))
    })
    .await;
    Ok(())
}

/// What has nothing to do with Velero goes on: a class is stamped, and a claim is served.
async fn others_go_on(world: &World, namespace: &str) -> Result<()> {
    let (admin, label) = (world.bed.admin(), "namespaceclass.akuity.io/name");
    let rules = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "house-rules" } });
    let claim = json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": "data" },
                        "spec": { "readSecretName": "read", "adminSecretName": "admin" } });
    let class = json!({ "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": namespace },
                        "spec": { "resources": [rules, claim] } });
    let space = json!({ "apiVersion": "v1", "kind": "Namespace",
                        "metadata": { "name": namespace, "labels": { label: namespace } } });
    for object in [class, space] {
        apply(admin, &object.to_string()).await?;
    }
    eventually("the class to be stamped, and its claim to be served", || async {
        admin.kubectl(&["get", "configmap", "house-rules", "-n", namespace]).await?;
        let keys = admin.kubectl(&["get", "secret", "admin", "-n", namespace, "-o", "jsonpath={.data}"]).await?;
        ensure!(keys.contains("AWS_ACCESS_KEY_ID") || keys.contains("cloud"), "its Secret has no keys");
        Ok(Some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_namespace_goes_although_velero_and_its_kinds_are_gone_and_all_goes_on_when_it_is_installed_again()
-> Result<()> {
    let world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    furnish(&world, "orphaned").await?;
    is_handed_over(&world, "orphaned").await;
    let staying = furnish_place(&world, "staying").await?;
    is_in_force(&world, "staying").await;
    velero_goes(&world).await?;
    namespace_goes(&world, "orphaned").await?;
    others_go_on(&world, "meanwhile").await?;
    let (ready, detail) = world.operator.readiness().await?;
    ensure!(ready, "{detail}");
    let backup =
        of_ours("NonAdminBackup", "staying", "nightly", json!({ "backupSpec": { "storageLocation": "here" } }));
    apply(&staying, &backup.to_string()).await?;
    eventually("the backup to say that Velero is away", || async {
        let path = "jsonpath={.status.conditions[?(@.type=='Accepted')].reason}";
        let reason =
            world.bed.admin().kubectl(&["get", "nonadminbackup", "nightly", "-n", "staying", "-o", path]).await?;
        ensure!(reason == "VeleroAway", "it says {reason:?}");
        Ok(Some(()))
    })
    .await;

    let _velero = world.bed.another_velero().await?;
    world.installed.apply_again(&world.bed).await?;
    wait::until("the backup that waited to be finished", VELERO_PATIENCE, || async {
        let found =
            ["get", "nonadminbackup/nightly", "nonadminbackupstoragelocation/here", "-n", "staying", "-o", "json"];
        let found: Value = serde_json::from_str(&world.bed.admin().kubectl(&found).await?)?;
        let (backup, location) = (&found["items"][0]["status"], &found["items"][1]["status"]);
        ensure!(backup["veleroBackup"]["status"]["phase"] == "Completed", "it is {backup}, its location {location}");
        Ok(Some(()))
    })
    .await
}
