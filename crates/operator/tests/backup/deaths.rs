//! The operator dies where others decide about a bucket, and at every call to Ceph: all ends as it does without.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest},
    storage::{S3Class, S3User},
    velero::{Backup, BackupStorageLocation},
};
use croft_testbed::fault::FaultProxy;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    kill::{ACCEPTED, Death, NAMESPACE, Person, READY, Rough},
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

impl Rough {
    /// The administrator changes the settings.
    async fn settle<Probe, Answer>(&mut self, settings: &str, what: &str, probe: Probe) -> Result<()>
    where
        Probe: Fn() -> Answer,
        Answer: Future<Output = Result<()>>,
    {
        let file = self.bed.dir().join("settings.yaml");
        let written = async { Ok(std::fs::write(file, settings)?) };
        self.path(what, written, probe).await
    }
}

const APPROVE: &str = "backup: { ownBuckets: Approve }";
const DENY: &str = "backup: { ownBuckets: Deny }";
/// Where it stands that Velero can use the location.
const AVAILABLE: &str = "/status/veleroBackupStorageLocation/status/phase";

impl Person {
    async fn velero_has_nothing(&self) -> Result<()> {
        let left = self.with_velero::<BackupStorageLocation>().await? + self.with_velero::<Secret>().await?;
        ensure!(left == 0, "Velero has {left} of it");
        Ok(())
    }

    /// Nor does the location say that it can be used, which is what it has to say again once it is back.
    async fn location_is_out(&self) -> Result<()> {
        self.velero_has_nothing().await?;
        let location = json!(self.api::<NonAdminBackupStorageLocation>().get("here").await?);
        ensure!(location.pointer(AVAILABLE).is_none_or(Value::is_null), "it is {}", location["status"]);
        Ok(())
    }
}

/// An own bucket is asked about, approved, found to hold backups of hers, of which one is to go and one is let go; it is denied, and
/// rejected, and in the end nobody sees it off.
async fn trust_in_a_bucket_is_given_and_taken_as_it_should_be(death: Death) -> Result<()> {
    let mut rough = Box::pin(Rough::with(death, APPROVE)).await?;
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
    for (name, expiration) in [("nightly", "2126-01-01T00:00:00Z"), ("old", "2026-01-02T00:00:00Z")] {
        let mut hers = stored(NAMESPACE, &format!("{NAMESPACE}-{name}"));
        hers["metadata"]["annotations"]["openshift.io/oadp-nab-origin-name"] = json!(name);
        hers["status"]["expiration"] = json!(expiration);
        let path = format!("/{NAMESPACE}/{NAMESPACE}/backups/{NAMESPACE}-{name}/velero-backup.json");
        rough.bed.ceph().put(&path, hers.to_string().as_bytes()).await?;
    }
    rough
        .path(
            "the bucket to be approved, and what is in it to be found, or to go in time",
            one.decide("approve"),
            || async {
                one.says::<NonAdminBackupStorageLocation>("here", AVAILABLE, "Available").await?;
                one.says::<NonAdminBackup>("nightly", "/status/phase", "Created").await?;
                one.says::<NonAdminBackup>("old", ACCEPTED, "VeleroBackupNotFound").await
            },
        )
        .await?;
    ensure!(one.api::<NonAdminBackup>().list(&ListParams::default()).await?.items.len() == 2, "found more than once");
    let found = one.veleros::<Backup>().get(&format!("{NAMESPACE}-nightly")).await?.uid();
    let forced = async {
        let forced = Patch::Merge(json!({ "spec": { "forceDeleteBackup": true } }));
        one.api::<NonAdminBackup>().patch("nightly", &PatchParams::default(), &forced).await?;
        Ok(())
    };
    rough
        .path("the backup to be let go, and found again by Velero alone", forced, || async {
            one.is_gone::<NonAdminBackup>("nightly").await?;
            let again = one.veleros::<Backup>().get_opt(&format!("{NAMESPACE}-nightly")).await?;
            ensure!(again.is_some_and(|again| again.uid() != found), "it is not");
            Ok(())
        })
        .await?;
    rough.settle(DENY, "own buckets to be denied", || one.location_is_out()).await?;
    let is_back = || one.says::<NonAdminBackupStorageLocation>("here", AVAILABLE, "Available");
    rough.settle(APPROVE, "what was approved to be back", is_back).await?;
    rough.path("the bucket to be rejected", one.decide("reject"), || one.location_is_out()).await?;
    rough.path("the bucket to be approved after all", one.decide("approve"), is_back).await?;
    one.is_gone::<NonAdminBackup>("nightly").await.context("it was given back to who had let it go")?;

    let kill = rough.executioner();
    let by_hand = async {
        kill();
        let locations = one.api::<NonAdminBackupStorageLocation>();
        locations.delete("here", &DeleteParams::default()).await?;
        let freed = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        locations.patch("here", &PatchParams::default(), &freed).await?;
        Ok(())
    };
    rough
        .path("what is left of a location that nobody saw go", by_hand, || async {
            one.velero_has_nothing().await?;
            ensure!(one.with_velero::<Backup>().await? == 0, "its backups are with Velero");
            Ok(())
        })
        .await?;
    ensure!(rough.deaths >= 14, "only {} deaths", rough.deaths);
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
