//! The operator dies where others decide about a bucket, and at every call to Ceph: all ends as it does without.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest},
    storage::{S3Class, S3User},
    velero::BackupStorageLocation,
};
use croft_testbed::fault::FaultProxy;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    kill::{Death, NAMESPACE, Person, READY, Rough},
    own_buckets::stored,
    plot::{SETTINGS, told},
    support::eventually,
};

impl Person {
    /// Decides about the one bucket that somebody has to trust.
    async fn decide(&self, decision: &str) -> Result<()> {
        let requests = self.veleros::<NonAdminBackupStorageLocationRequest>();
        let request = requests.list(&ListParams::default()).await?.into_iter().next().context("nobody is asked")?;
        let patch = Patch::Merge(json!({ "spec": { "approvalDecision": decision } }));
        requests.patch(&request.name_any(), &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// An own bucket is asked about, approved, found to hold a backup of hers, and rejected.
async fn trust_in_a_bucket_is_given_and_taken_as_it_should_be(death: Death) -> Result<()> {
    let mut rough = Box::pin(Rough::with(death, "backup: { ownBuckets: Approve }")).await?;
    let (one, mut location) = rough.person().await?;
    location["backupStorageLocationSpec"]["backupSyncPeriod"] = json!("2s");
    rough
        .path("somebody to be asked", one.make::<NonAdminBackupStorageLocation>("here", location), || async {
            let location = json!(one.api::<NonAdminBackupStorageLocation>().get("here").await?);
            ensure!(told(&location["status"]).contains(&PENDING.to_owned()), "it is {}", location["status"]);
            let requests = one.veleros::<NonAdminBackupStorageLocationRequest>().list(&ListParams::default()).await?;
            let phases: Vec<_> = requests.iter().map(|request| json!(request)["status"]["phase"].clone()).collect();
            ensure!(phases == [json!("Pending")], "{phases:?}");
            Ok(())
        })
        .await?;
    ensure!(one.with_velero::<BackupStorageLocation>().await? == 0, "Velero has what nobody has approved");
    let mut hers = stored(NAMESPACE, &format!("{NAMESPACE}-nightly"));
    hers["status"]["expiration"] = json!("2126-01-01T00:00:00Z");
    let path = format!("/{NAMESPACE}/{NAMESPACE}/backups/{NAMESPACE}-nightly/velero-backup.json");
    rough.bed.ceph().put(&path, hers.to_string().as_bytes()).await?;
    let phase = "/status/veleroBackupStorageLocation/status/phase";
    rough
        .path("the bucket to be approved, and what is in it to be found", one.decide("approve"), || async {
            one.says::<NonAdminBackupStorageLocation>("here", phase, "Available").await?;
            one.says::<NonAdminBackup>("nightly", "/status/phase", "Created").await
        })
        .await?;
    ensure!(one.api::<NonAdminBackup>().list(&ListParams::default()).await?.items.len() == 1, "found more than once");
    rough
        .path("the bucket to be rejected", one.decide("reject"), || async {
            let left = one.with_velero::<BackupStorageLocation>().await? + one.with_velero::<Secret>().await?;
            ensure!(left == 0, "Velero has {left} of it");
            Ok(())
        })
        .await?;
    ensure!(rough.deaths >= 6, "only {} deaths", rough.deaths);
    Ok(())
}

/// What a location says that waits for somebody's trust.
const PENDING: &str = "ClusterAdminApproved=False BslSpecApprovalPending";

#[tokio::test]
async fn trust_is_given_and_taken_as_it_should_be_although_the_operator_dies_before_every_write() -> Result<()> {
    Box::pin(trust_in_a_bucket_is_given_and_taken_as_it_should_be(Death::BeforeTheWrite)).await
}

#[tokio::test]
async fn trust_is_given_and_taken_as_it_should_be_although_the_operator_dies_after_every_write() -> Result<()> {
    Box::pin(trust_in_a_bucket_is_given_and_taken_as_it_should_be(Death::AfterTheWrite)).await
}

/// A vault is made and goes again, through a gateway where the operator dies.
async fn a_vault_comes_and_goes_as_it_should(death: Death) -> Result<()> {
    let mut rough = Box::pin(Rough::with(death, SETTINGS)).await?;
    let (one, _) = rough.person().await?;
    let gateway = FaultProxy::rgw(&rough.bed.ceph().endpoint).await?;
    let classes: Api<S3Class> = Api::all(rough.bed.admin().client.clone());
    let behind = Patch::Merge(json!({ "spec": { "endpoint": gateway.endpoint() } }));
    let generation = classes.patch("default", &PatchParams::default(), &behind).await?.metadata.generation;
    eventually("the class to be ready behind the proxy", || async {
        let class = json!(classes.get("default").await?);
        let ready = class["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
            condition["type"] == "Ready"
                && condition["status"] == "True"
                && condition["observedGeneration"] == json!(generation)
        });
        ensure!(ready, "it is {}", class["status"]);
        Ok(Some(()))
    })
    .await;
    rough.gateway = Some(gateway);
    rough
        .path("the vault", one.make::<BackupVault>("safe", json!({})), || {
            one.says::<BackupVault>("safe", READY, "Provisioned")
        })
        .await?;
    let users: Api<S3User> = Api::all(rough.bed.admin().client.clone());
    ensure!(users.list(&ListParams::default()).await?.items.len() == 1, "more than one user was made");
    let asked = async {
        one.api::<BackupVault>().delete("safe", &DeleteParams::default()).await?;
        Ok(())
    };
    rough.path("the vault to go", asked, || one.is_gone::<BackupVault>("safe")).await?;
    let left: Vec<_> = users.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(left.is_empty(), "{left:?}");
    ensure!(rough.deaths >= 4, "only {} deaths", rough.deaths);
    Ok(())
}

#[tokio::test]
async fn a_vault_comes_and_goes_as_it_should_although_the_operator_dies_before_every_call_to_ceph() -> Result<()> {
    Box::pin(a_vault_comes_and_goes_as_it_should(Death::BeforeTheWrite)).await
}

#[tokio::test]
async fn a_vault_comes_and_goes_as_it_should_although_the_operator_dies_after_every_call_to_ceph() -> Result<()> {
    Box::pin(a_vault_comes_and_goes_as_it_should(Death::AfterTheWrite)).await
}
