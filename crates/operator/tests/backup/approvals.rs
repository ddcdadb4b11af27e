//! Buckets of tenants' own: in force once an administrator has approved them, and only as approved.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest},
    velero::{Backup, BackupStorageLocation, DeleteBackupRequest, VolumeSnapshotLocation},
};
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    plot::{Plot, message, told, velero_name},
    support::{Held, Shared, apply, eventually},
};

static ASKING: OnceCell<Shared> = OnceCell::const_new();

/// A world with the settings an installation begins with.
pub(crate) async fn asking() -> &'static Shared {
    let start = Box::pin(Shared::of_its_own(Testbed::kubernetes().with_velero(), ""));
    ASKING.get_or_try_init(|| start).await.expect("the world starts")
}

impl Plot {
    /// A location `here` that nobody has approved.
    pub(crate) async fn asked(prefix: &str) -> Result<Self> {
        let world = asking().await;
        let plot = Self::within(Held::ByAll(world), prefix).await?;
        world.bed.ceph().create_bucket(&plot.namespace).await?;
        plot.add_secret("cloud").await?;
        plot.add_location(json!({})).await?;
        Ok(plot)
    }

    pub(crate) async fn request(&self) -> Result<NonAdminBackupStorageLocationRequest> {
        let requests = self.veleros::<NonAdminBackupStorageLocationRequest>().list(&ListParams::default()).await?;
        let is_own = |request: &NonAdminBackupStorageLocationRequest| {
            let location = request.status.as_ref().and_then(|it| it.non_admin_backup_storage_location.as_ref());
            location.is_some_and(|location| location.namespace.as_ref() == Some(&self.namespace))
        };
        let mut own: Vec<_> = requests.items.into_iter().filter(is_own).collect();
        ensure!(own.len() == 1, "{} requests", own.len());
        Ok(own.remove(0))
    }

    pub(crate) async fn is_asked_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually("the request to say what is asked for", || async {
            let request = json!(self.request().await?);
            ensure!(wanted(&request), "{request}");
            Ok(Some(request))
        })
        .await
    }

    pub(crate) async fn decide(&self, decision: &str) -> Result<()> {
        let name = self.request().await?.name_any();
        let patch = json!({ "spec": { "approvalDecision": decision } });
        let requests = self.veleros::<NonAdminBackupStorageLocationRequest>();
        requests.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub(crate) async fn location_says(&self, condition: &str) -> Value {
        let says = |status: &Value| told(status).iter().any(|said| said == condition);
        self.status::<NonAdminBackupStorageLocation>("here", &format!("to say {condition}"), says).await
    }

    /// What Velero has of the location: Secrets and locations.
    async fn with_velero(&self) -> Result<usize> {
        let is_own = |annotations: &std::collections::BTreeMap<String, String>| {
            annotations.get("openshift.io/oadp-nabsl-origin-namespace") == Some(&self.namespace)
        };
        let secrets = self.veleros::<Secret>().list(&ListParams::default()).await?.items;
        let locations = self.veleros::<BackupStorageLocation>().list(&ListParams::default()).await?.items;
        let secrets = secrets.iter().filter(|secret| is_own(secret.annotations())).count();
        Ok(secrets + locations.iter().filter(|location| is_own(location.annotations())).count())
    }

    pub(crate) async fn velero_has(&self, wanted: usize) {
        eventually("Velero to have what it may", || async {
            let has = self.with_velero().await?;
            ensure!(has == wanted, "it has {has}");
            Ok(Some(()))
        })
        .await;
    }
}

#[tokio::test]
async fn a_location_waits_for_approval_and_then_works() -> Result<()> {
    let plot = Plot::asked("asked").await?;
    let waiting = plot.location_says("ClusterAdminApproved=False BslSpecApprovalPending").await;
    assert_eq!((&waiting["phase"], plot.with_velero().await?), (&json!("New"), 0));
    let request = plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    let location = plot.api::<NonAdminBackupStorageLocation>().get("here").await?;
    let asked = &request["status"]["nonAdminBackupStorageLocation"];
    assert_eq!(asked["requestedSpec"], json!(location.spec.backup_storage_location_spec));
    assert_eq!((&asked["name"], &request["spec"]["approvalDecision"]), (&json!("here"), &json!("pending")));

    let means = request["metadata"]["annotations"]["croft.dev/approving-means"].as_str().unwrap_or_default();
    assert!(means.contains("is trusted with"), "{means:?}");

    plot.decide("approve").await?;
    plot.location_is_available().await;
    assert_eq!(
        told(&json!(plot.api::<NonAdminBackupStorageLocation>().get("here").await?.status)),
        [
            "Accepted=True BslSpecValidation",
            "ClusterAdminApproved=True BslSpecApproved",
            "SecretSynced=True SecretCreated",
            "BackupStorageLocationSynced=True BackupStorageLocationCreated",
        ]
    );
    assert_eq!(plot.velero_location().await?.spec.text("backupSyncPeriod"), Some("0s"), "nobody asked for it");
    plot.completed_backup().await?;
    Ok(())
}

#[tokio::test]
async fn a_changed_spec_needs_approval_and_the_old_one_stays_in_force_meanwhile() -> Result<()> {
    let plot = Plot::asked("rethought").await?;
    plot.is_asked_for(|_| true).await;
    plot.decide("approve").await?;
    plot.location_is_available().await;
    let deeper =
        |prefix: Value| json!({ "spec": { "backupStorageLocationSpec": { "objectStorage": { "prefix": prefix } } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", deeper(json!("deeper"))).await?;
    plot.location_says("SpecUpdateApproved=False BslSpecApprovalPending").await;
    let request = plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    let asked = &request["status"]["nonAdminBackupStorageLocation"];
    assert_eq!(asked["requestedSpec"]["objectStorage"]["prefix"], "deeper");
    assert_eq!(asked["approvedSpec"]["objectStorage"]["prefix"], Value::Null);
    assert_eq!(plot.velero_location().await?.spec.prefix(), Some(plot.namespace.as_str()), "the old one is in force");
    plot.decide("approve").await?;
    eventually("the change to be in force", || async {
        let velero = plot.velero_location().await?;
        ensure!(velero.spec.prefix() == Some(&format!("{}/deeper", plot.namespace)), "{:?}", velero.spec);
        Ok(Some(()))
    })
    .await;
    plot.location_is_available().await;

    plot.patch::<NonAdminBackupStorageLocation>("here", deeper(Value::Null)).await?;
    plot.location_says("SpecUpdateApproved=False BslSpecApprovalPending").await;
    plot.patch::<NonAdminBackupStorageLocation>("here", deeper(json!("deeper"))).await?;
    let is_as_before = |status: &Value| !told(status).iter().any(|said| said.starts_with("SpecUpdateApproved"));
    plot.status::<NonAdminBackupStorageLocation>("here", "to be as before", is_as_before).await;
    plot.decide("approve").await?;
    plot.is_asked_for(|request| {
        let asked = &request["status"]["nonAdminBackupStorageLocation"]["requestedSpec"];
        request["status"]["phase"] == "Approved" && asked["objectStorage"]["prefix"] == "deeper"
    })
    .await;
    assert_eq!(plot.velero_location().await?.spec.prefix(), Some(format!("{}/deeper", plot.namespace).as_str()));
    Ok(())
}

#[tokio::test]
async fn nobody_approves_what_he_has_not_read() -> Result<()> {
    let plot = Plot::asked("hasty").await?;
    plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    let other = json!({ "spec": { "backupStorageLocationSpec": { "objectStorage": { "prefix": "other" } } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", other).await?;
    let says = |status: &Value| message(status, "ClusterAdminApproved").contains("of an earlier spec");
    plot.status::<NonAdminBackupStorageLocation>("here", "to say what is asked about", says).await;
    plot.decide("approve").await?;
    let status = plot.location_says("SpecUpdateApproved=False BslSpecApprovalPending").await;
    assert!(message(&status, "SpecUpdateApproved").contains("stays in force"), "{status}");
    let asked = plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    let asked = &asked["status"]["nonAdminBackupStorageLocation"];
    assert_eq!(asked["requestedSpec"]["objectStorage"]["prefix"], "other");
    assert_eq!(asked["approvedSpec"]["objectStorage"]["prefix"], Value::Null);
    plot.location_is_available().await;
    assert_eq!(plot.velero_location().await?.spec.prefix(), Some(plot.namespace.as_str()), "what was read is in force");
    Ok(())
}

#[tokio::test]
async fn an_approval_that_is_taken_back_leaves_nothing_with_velero() -> Result<()> {
    let plot = Plot::asked("revoked").await?;
    for (decision, reason) in [("pending", "BslSpecApprovalPending"), ("reject", "BslSpecRejected")] {
        plot.is_asked_for(|_| true).await;
        plot.decide("approve").await?;
        plot.location_is_available().await;
        plot.velero_has(2).await;
        plot.decide(decision).await?;
        plot.velero_has(0).await;
        let status = plot.location_says(&format!("ClusterAdminApproved=False {reason}")).await;
        assert!(!told(&status).iter().any(|said| said.starts_with("SecretSynced")), "{status}");
        assert!(message(&status, "ClusterAdminApproved").contains("NonAdminBackupStorageLocationRequest"), "{status}");
    }
    // She cannot edit her way out of it.
    let prefix = json!({ "spec": { "backupStorageLocationSpec": { "objectStorage": { "prefix": "other" } } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", prefix).await?;
    let edited = plot.api::<NonAdminBackupStorageLocation>().get("here").await?.metadata.generation;
    plot.status::<NonAdminBackupStorageLocation>("here", "to be looked at", |status| {
        let mut told = status["conditions"].as_array().into_iter().flatten();
        told.any(|condition| condition["type"] == "Accepted" && condition["observedGeneration"] == json!(edited))
    })
    .await;
    assert_eq!(plot.with_velero().await?, 0);
    let asked = json!(plot.request().await?)["status"]["nonAdminBackupStorageLocation"]["requestedSpec"].clone();
    assert_eq!(asked["objectStorage"]["prefix"], Value::Null, "it shows what was rejected");

    let name = plot.request().await?.name_any();
    plot.delete::<NonAdminBackupStorageLocation>("here").await?;
    plot.vanishes(&plot.veleros::<NonAdminBackupStorageLocationRequest>(), &name).await
}

#[tokio::test]
async fn a_request_that_was_never_filled_in_is() -> Result<()> {
    let plot = Plot::asked("unfilled").await?;
    let request = plot.is_asked_for(|_| true).await;
    let name = request["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let requests = plot.veleros::<NonAdminBackupStorageLocationRequest>();
    // As a crash between making it and filling it in leaves it.
    let empty = json!([{ "op": "remove", "path": "/status" }]);
    let empty: Patch<Value> = Patch::Json(serde_json::from_value(empty)?);
    requests.patch_status(&name, &PatchParams::default(), &empty).await?;
    let filled = plot.is_asked_for(|_| true).await;
    assert_eq!(filled["status"], request["status"]);
    Ok(())
}

#[tokio::test]
async fn a_vault_needs_no_approval() -> Result<()> {
    let world = asking().await;
    let plot = Plot::within(Held::ByAll(world), "unasked").await?;
    plot.add_vault(json!({})).await?;
    plot.vault_says("True", "Provisioned").await;
    let requests = plot.veleros::<NonAdminBackupStorageLocationRequest>().list(&ListParams::default()).await?;
    let of_vault = |request: &NonAdminBackupStorageLocationRequest| request.name_any().starts_with(&plot.namespace);
    assert!(!requests.items.iter().any(of_vault));
    Ok(())
}

#[tokio::test]
async fn a_location_that_only_says_that_it_is_a_vaults_waits_for_approval() -> Result<()> {
    let world = asking().await;
    let plot = Plot::within(Held::ByAll(world), "pretends").await?;
    world.bed.ceph().create_bucket(&plot.namespace).await?;
    plot.add_secret("cloud").await?;
    // Of a class that nobody has made: its own location does not come.
    let vault: BackupVault = plot.create("here", json!({ "s3ClassName": "nobody-made-it" })).await?;
    let owner =
        json!({ "apiVersion": "x.example/v1", "kind": "Foo", "name": "here", "uid": vault.uid(), "controller": true });
    let location = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackupStorageLocation",
        "metadata": { "name": "here", "ownerReferences": [owner] }, "spec": plot.location_spec(json!({})),
    });
    plot.api::<NonAdminBackupStorageLocation>()
        .create(&PostParams::default(), &serde_json::from_value(location)?)
        .await?;
    plot.status::<NonAdminBackupStorageLocation>("here", "to wait", |status| {
        told(status).iter().any(|condition| condition.starts_with("ClusterAdminApproved=False"))
    })
    .await;
    let with_velero = plot.veleros::<BackupStorageLocation>().list(&ListParams::default()).await?;
    let of_hers = json!(with_velero.items).to_string().contains(&plot.namespace);
    assert!(!of_hers, "nothing of it is with Velero");
    Ok(())
}

#[tokio::test]
async fn a_location_that_a_class_makes_waits_for_approval_like_any_other() -> Result<()> {
    let world = asking().await;
    let plot = Plot::within(Held::ByAll(world), "stamped").await?;
    world.bed.ceph().create_bucket(&plot.namespace).await?;
    plot.add_secret("cloud").await?;
    let location = json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackupStorageLocation",
                           "metadata": { "name": "here" }, "spec": plot.location_spec(json!({})) });
    let class = json!({ "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": plot.namespace },
                        "spec": { "resources": [location] } });
    apply(world.bed.admin(), &class.to_string()).await?;
    let namespaces: Api<Namespace> = Api::all(world.client());
    let classed = json!({ "metadata": { "labels": { "namespaceclass.akuity.io/name": plot.namespace } } });
    namespaces.patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&classed)).await?;
    eventually("the class to have made it", || async {
        Ok(plot.api::<NonAdminBackupStorageLocation>().get_opt("here").await?)
    })
    .await;
    plot.location_says("ClusterAdminApproved=False BslSpecApprovalPending").await;
    plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    assert_eq!(plot.with_velero().await?, 0);
    plot.decide("approve").await?;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn the_secret_of_what_is_in_force_is_copied_anew_while_a_change_waits() -> Result<()> {
    let plot = Plot::asked("rotated").await?;
    plot.is_asked_for(|_| true).await;
    plot.decide("approve").await?;
    plot.location_is_available().await;
    let other =
        json!({ "spec": { "backupStorageLocationSpec": { "credential": { "name": "others", "key": "cloud" } } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", other).await?;
    plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    let name = plot.velero_location().await?.name_any();
    let before = plot.veleros::<Secret>().get(&name).await?;
    let rotated = "[default]\naws_access_key_id=ROTATED\naws_secret_access_key=rotated\n";
    let keys = json!({ "stringData": { "cloud": rotated } });
    plot.patch::<Secret>("keys", keys).await?;
    eventually("the copy to follow", || async {
        let copy = plot.veleros::<Secret>().get(&name).await?;
        let file = copy.data.iter().flatten().map(|(_, value)| String::from_utf8_lossy(&value.0).into_owned());
        ensure!(copy.uid() == before.uid() && file.into_iter().any(|file| file.contains("ROTATED")), "it has not");
        Ok(Some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_backup_in_an_own_bucket_is_deleted_only_while_no_snapshots_are_within_reach() -> Result<()> {
    let plot = Plot::asked("reached").await?;
    plot.is_asked_for(|_| true).await;
    plot.decide("approve").await?;
    plot.location_is_available().await;
    let (_, velero) = plot.completed_backup().await?;
    assert_eq!(velero.labels().get("croft.dev/own-bucket").map(String::as_str), Some("true"));
    let places = plot.veleros::<VolumeSnapshotLocation>();
    let mut place = VolumeSnapshotLocation::new(&plot.namespace, serde_json::from_value(json!({ "provider": "aws" }))?);
    place = places.create(&PostParams::default(), &place).await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    let withheld = |status: &Value| {
        let said = message(status, "Deleting");
        said.contains(&format!("VolumeSnapshotLocations: {}", plot.namespace))
            && said.contains("spec.forceDeleteBackup")
    };
    plot.status::<NonAdminBackup>("nightly", "to be kept", withheld).await;
    assert!(plot.veleros::<DeleteBackupRequest>().get_opt(&velero.name_any()).await?.is_none());
    places.delete(&place.name_any(), &DeleteParams::default()).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    assert!(!plot.stored().await?.iter().any(|name| name.contains("/backups/")), "its data goes with it");
    Ok(())
}

#[tokio::test]
async fn a_backup_in_an_own_bucket_goes_when_its_time_has_come_and_velero_does_not_do_it_by_itself() -> Result<()> {
    let plot = Plot::asked("expired").await?;
    plot.is_asked_for(|_| true).await;
    plot.decide("approve").await?;
    plot.location_is_available().await;
    plot.add_config_map("prices").await?;
    let spec =
        json!({ "backupSpec": { "storageLocation": "here", "ttl": "60s", "includedResources": ["configmaps"] } });
    plot.create::<NonAdminBackup>("nightly", spec).await?;
    let velero = velero_name(&plot.backup_completes("nightly").await?);

    let by_velero = plot.world.bed.cluster_admin("velero", "velero").await?;
    let asked = json!({ "apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest", "metadata": { "name": "by-itself" },
                        "spec": { "backupName": velero } });
    let requests: Api<DeleteBackupRequest> =
        Api::namespaced(by_velero.client.clone(), &plot.world.bed.velero().namespace);
    let refused = requests.create(&PostParams::default(), &serde_json::from_value(asked)?).await;
    let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("is deleted by the operator, when its time has come"), "{refused:?}");

    plot.vanishes(&plot.veleros::<Backup>(), &velero).await?;
    let lost = |status: &Value| told(status).contains(&"Accepted=False VeleroBackupNotFound".to_owned());
    plot.status::<NonAdminBackup>("nightly", "to tell of it", lost).await;
    assert!(!plot.stored().await?.iter().any(|name| name.contains("/backups/")), "its data goes with it");
    Ok(())
}
