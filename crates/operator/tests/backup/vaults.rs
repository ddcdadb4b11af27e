//! Vaults: a bucket of the namespace's own that nobody but Velero can write, kept whatever happens to the rest.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminBackupStorageLocation},
    storage::{S3QuotaLedger, S3TeamQuota, S3User, S3UserPhase, TEAM_LABEL},
    velero::BackupStorageLocation,
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, VELERO_PATIENCE, message},
    support::eventually,
};

const VAULT: &str = "safe";
const BUCKET: &str = "vault-safe";

impl Plot {
    pub(crate) async fn add_vault(&self, spec: Value) -> Result<()> {
        self.create::<BackupVault>(VAULT, spec).await?;
        Ok(())
    }

    /// A namespace with a vault that is ready.
    pub(crate) async fn with_vault(prefix: &str) -> Result<Self> {
        let plot = Self::empty(prefix).await?;
        plot.add_vault(json!({ "quota": { "size": "1Gi", "objects": "1k" } })).await?;
        plot.vault_says("True", "Provisioned").await;
        Ok(plot)
    }

    pub(crate) async fn vault_says(&self, status: &str, reason: &str) -> Value {
        self.status::<BackupVault>(VAULT, &format!("to be {status} {reason}"), |told| {
            let conditions = told["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
            ready.any(|ready| ready["status"] == status && ready["reason"] == reason)
        })
        .await
    }

    fn vault_tenant(&self) -> String {
        format!("croft_{}_VAULT", self.namespace.replace('-', "_"))
    }

    pub(crate) fn vault_record(&self) -> String {
        format!("vault-{}-{VAULT}", self.namespace.replace('-', "--"))
    }

    /// The vault's user in Ceph, if there is one.
    async fn vault_user(&self) -> Result<Option<Value>> {
        let uid = format!("--uid={}${VAULT}", self.vault_tenant());
        let users = self.world.bed.ceph().admin(&["user", "list"]).await?;
        if !users.contains(&format!("\"{}${VAULT}\"", self.vault_tenant())) {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&self.world.bed.ceph().admin(&["user", "info", &uid]).await?)?))
    }

    /// Names of the objects in the vault.
    pub(crate) async fn in_vault(&self) -> Result<Vec<String>> {
        let bucket = format!("--bucket={}/{BUCKET}", self.vault_tenant());
        let listed = self.world.bed.ceph().admin(&["bucket", "list", &bucket]).await?;
        let listed: Vec<Value> = serde_json::from_str(&listed)?;
        Ok(listed.iter().filter_map(|object| object["name"].as_str().map(str::to_owned)).collect())
    }

    fn users(&self) -> Api<S3User> {
        Api::all(self.world.client())
    }

    async fn record_phase(&self) -> Result<Option<S3UserPhase>> {
        let record = self.users().get_opt(&self.vault_record()).await?;
        Ok(record.and_then(|record| record.status).and_then(|status| status.phase))
    }

    /// A backup that names no location.
    pub(crate) async fn back_up_somewhere(&self, name: &str) -> Result<()> {
        self.create::<NonAdminBackup>(name, json!({ "backupSpec": { "includedResources": ["configmaps"] } })).await?;
        Ok(())
    }

    /// Names of the Secrets of a vault in Velero's namespace.
    pub(crate) async fn vault_secrets(&self) -> Result<Vec<String>> {
        let labelled = ListParams::default().labels("croft.dev/vault-nacuuid");
        let secrets = self.veleros::<Secret>().list(&labelled).await?;
        let is_own = |secret: &Secret| {
            secret.annotations().get("croft.dev/vault-namespace").is_some_and(|namespace| *namespace == self.namespace)
        };
        Ok(secrets.items.iter().filter(|secret| is_own(secret)).map(ResourceExt::name_any).collect())
    }

    async fn booked(&self) -> Result<Option<Value>> {
        let ledgers: Api<S3QuotaLedger> = Api::all(self.world.client());
        let ledger = ledgers.get_opt(&format!("namespace.{}", self.namespace)).await?;
        let entry =
            ledger.and_then(|ledger| ledger.spec.entries.get(&format!("{}/vault:{VAULT}", self.namespace)).cloned());
        Ok(entry.map(|entry| json!(entry)))
    }
}

#[tokio::test]
async fn a_vault_is_a_place_for_backups_whose_keys_only_velero_has() -> Result<()> {
    let plot = Plot::with_vault("vault").await?;
    let status = plot.vault_says("True", "Provisioned").await;
    assert_eq!((&status["bucket"], &status["s3ClassName"]), (&json!(BUCKET), &json!("default")));
    assert_eq!(status["quota"], json!({ "size": "1Gi", "objects": "1k" }));

    let user = plot.vault_user().await?.context("a user in Ceph")?;
    assert_eq!(user["user_quota"]["max_size"], 1 << 30);
    assert_eq!((&user["max_buckets"], user["keys"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    assert_eq!(plot.api::<Secret>().list(&ListParams::default()).await?.items.len(), 0, "a Secret within her reach");
    assert_eq!(plot.vault_secrets().await?.len(), 1);

    let location = plot.api::<NonAdminBackupStorageLocation>().get(VAULT).await?;
    let velero = location.status.and_then(|status| status.velero_backup_storage_location).unwrap_or_default();
    let velero = plot.veleros::<BackupStorageLocation>().get(&velero.name.unwrap_or_default()).await?;
    assert_eq!((velero.spec.bucket(), velero.phase()), (Some(BUCKET), Some("Available")));

    let booked = plot.booked().await?.context("an entry in the books")?;
    assert_eq!(booked["granted"], json!({ "size": 1 << 30, "objects": 1000, "buckets": 1 }));
    assert_eq!(plot.record_phase().await?, Some(S3UserPhase::Bound));
    Ok(())
}

#[tokio::test]
async fn a_backup_that_names_no_location_goes_into_the_vault() -> Result<()> {
    let plot = Plot::with_vault("unnamed").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    let stored = plot.in_vault().await?;
    assert!(stored.iter().any(|name| name.ends_with("velero-backup.json")), "{stored:?}");
    let told = |status: &Value| status["lastBackup"]["name"] == "nightly" && status["used"]["objects"] != 0;
    let status = plot.status::<BackupVault>(VAULT, "to tell of it", told).await;
    assert!(status["lastBackup"]["completionTime"].is_string(), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_backup_waits_for_a_vault_where_there_is_no_other_place_for_it() -> Result<()> {
    let plot = Plot::empty("placeless").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let refused = |status: &Value| message(status, "Accepted").contains("the namespace has no BackupVault");
    plot.status::<NonAdminBackup>("nightly", "to have no place", refused).await;
    plot.add_vault(json!({})).await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}

#[tokio::test]
async fn a_tenant_can_make_a_vault_and_cannot_touch_its_location() -> Result<()> {
    let plot = Plot::with_vault("fenced").await?;
    let locations = plot.api::<NonAdminBackupStorageLocation>();
    let elsewhere =
        json!({ "spec": { "backupStorageLocationSpec": { "config": { "s3Url": "http://evil.example" } } } });
    let disowned = json!({ "metadata": { "ownerReferences": null } });
    for patch in [elsewhere, disowned] {
        let refused = locations.patch(VAULT, &PatchParams::default(), &Patch::Merge(&patch)).await;
        let refused = refused.err().context("she edited it")?.to_string();
        assert!(refused.contains("belongs to BackupVault safe"), "{refused}");
    }
    let refused = locations.delete(VAULT, &DeleteParams::default()).await.err().context("she deleted it")?;
    assert!(refused.to_string().contains("belongs to BackupVault safe"), "{refused}");
    let secrets: Api<Secret> = Api::namespaced(plot.owner.client.clone(), &plot.world.bed.velero().namespace);
    assert!(secrets.list(&ListParams::default()).await.is_err(), "she reads Velero's Secrets");
    Ok(())
}

#[tokio::test]
async fn what_somebody_writes_into_a_vaults_location_counts_for_nothing() -> Result<()> {
    let plot = Plot::with_vault("meddled").await?;
    let location = plot.api::<NonAdminBackupStorageLocation>().get(VAULT).await?;
    // An administrator may; the vault has the last word.
    let elsewhere = json!({ "spec": { "backupStorageLocationSpec": { "objectStorage": { "bucket": "elsewhere" } } } });
    let locations = plot.administrators::<NonAdminBackupStorageLocation>();
    locations.patch(VAULT, &PatchParams::default(), &Patch::Merge(&elsewhere)).await?;
    eventually("the location to be put right", || async {
        let now = plot.api::<NonAdminBackupStorageLocation>().get(VAULT).await?;
        ensure!(now.spec == location.spec && now.uid() == location.uid(), "it is {:?}", now.spec);
        Ok(Some(()))
    })
    .await;
    let velero = location.status.and_then(|status| status.velero_backup_storage_location).unwrap_or_default();
    let velero = plot.veleros::<BackupStorageLocation>().get(&velero.name.unwrap_or_default()).await?;
    assert_eq!(velero.spec.bucket(), Some(BUCKET));
    Ok(())
}

#[tokio::test]
async fn a_vault_that_is_deleted_keeps_the_backups_and_one_made_again_has_them() -> Result<()> {
    let plot = Plot::with_vault("kept").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    let stored = plot.in_vault().await?;

    plot.delete::<BackupVault>(VAULT).await?;
    plot.vanishes(&plot.api::<BackupVault>(), VAULT).await?;
    let user = plot.vault_user().await?.context("the user is kept")?;
    assert_eq!((&user["suspended"], user["keys"].as_array().map(Vec::len)), (&json!(1), Some(0)));
    assert_eq!(plot.record_phase().await?, Some(S3UserPhase::Released));
    assert_eq!(plot.vault_secrets().await?, [""; 0]);
    assert!(plot.booked().await?.is_some(), "what is kept counts");
    assert!(plot.api::<NonAdminBackupStorageLocation>().get_opt(VAULT).await?.is_none());

    plot.add_vault(json!({})).await?;
    plot.vault_says("True", "Provisioned").await;
    let user = plot.vault_user().await?.context("a user in Ceph")?;
    assert_eq!((&user["suspended"], user["keys"].as_array().map(Vec::len)), (&json!(0), Some(1)));
    let again = plot.in_vault().await?;
    assert!(stored.iter().all(|name| again.contains(name)), "{again:?}");
    assert_eq!(plot.record_phase().await?, Some(S3UserPhase::Bound));

    // Whoever does not wait for us finds them as well.
    plot.patch::<BackupVault>(VAULT, json!({ "metadata": { "finalizers": null } })).await?;
    plot.delete::<BackupVault>(VAULT).await?;
    plot.vanishes(&plot.api::<BackupVault>(), VAULT).await?;
    plot.add_vault(json!({})).await?;
    let ready = |told: &Value| json!(told["conditions"]).to_string().contains("\"Provisioned\"");
    plot.status_within::<BackupVault>(VELERO_PATIENCE, VAULT, "to have its bucket back", ready).await;
    let again = plot.in_vault().await?;
    assert!(stored.iter().all(|name| again.contains(name)), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn a_vault_that_says_purge_goes_with_all_that_is_in_it() -> Result<()> {
    let plot = Plot::with_vault("purged").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    plot.patch::<BackupVault>(VAULT, json!({ "spec": { "onDelete": "Purge" } })).await?;
    plot.delete::<BackupVault>(VAULT).await?;
    plot.vanishes(&plot.api::<BackupVault>(), VAULT).await?;
    assert!(plot.vault_user().await?.is_none() && plot.users().get_opt(&plot.vault_record()).await?.is_none());
    assert!(plot.booked().await?.is_none() && plot.vault_secrets().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_namespace_with_a_full_vault_goes_at_once_and_the_backups_stay() -> Result<()> {
    let plot = Plot::with_vault("going").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    let namespaces: Api<Namespace> = Api::all(plot.world.client());
    namespaces.delete(&plot.namespace, &DeleteParams::default()).await?;
    eventually("the namespace to go", || async {
        let left = namespaces.get_opt(&plot.namespace).await?;
        ensure!(left.is_none(), "it is there: {:?}", left.and_then(|left| left.status));
        Ok(Some(()))
    })
    .await;
    eventually("the user to be released", || async {
        ensure!(plot.record_phase().await? == Some(S3UserPhase::Released));
        Ok(Some(()))
    })
    .await;
    assert!(!plot.in_vault().await?.is_empty() && plot.vault_secrets().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_vault_counts_in_the_books_of_its_team() -> Result<()> {
    let plot = Plot::empty("counted").await?;
    let team = format!("team-{}", plot.namespace);
    let namespaces: Api<Namespace> = Api::all(plot.world.client());
    let label = json!({ "metadata": { "labels": { TEAM_LABEL: team } } });
    namespaces.patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
    let quotas: Api<S3TeamQuota> = Api::all(plot.world.client());
    let quota = |size: &str| {
        json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3TeamQuota", "metadata": { "name": team },
                "spec": { "hard": { "size": size } } })
    };
    quotas.patch(&team, &PatchParams::apply("test"), &Patch::Apply(quota("1Gi"))).await?;
    eventually("the team's quota to be known", || async { Ok(quotas.get(&team).await?.status.map(drop)) }).await;

    plot.add_vault(json!({ "quota": { "size": "2Gi" } })).await?;
    let status = plot.vault_says("False", "QuotaExceeded").await;
    assert!(message(&status, "Ready").contains("exceeded cluster quota"), "{status}");
    assert!(plot.vault_user().await?.is_none());
    quotas.patch(&team, &PatchParams::apply("test"), &Patch::Apply(quota("2Gi"))).await?;
    plot.vault_says("True", "Provisioned").await;
    eventually("the team's quota to tell of it", || async {
        let used = json!(quotas.get(&team).await?.status);
        ensure!(used["used"]["size"] == "2147483648", "{used}");
        Ok(Some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_location_that_was_there_before_the_vault_is_left_alone() -> Result<()> {
    let plot = Plot::bare("occupied").await?;
    plot.add_secret("cloud").await?;
    let spec = plot.location_spec(json!({}));
    plot.create::<NonAdminBackupStorageLocation>(VAULT, spec.clone()).await?;
    plot.add_vault(json!({})).await?;
    plot.vault_says("False", "LocationTaken").await;
    let location = plot.api::<NonAdminBackupStorageLocation>().get(VAULT).await?;
    assert_eq!(json!(location.spec), spec);
    // Nor is it a place for what is to go into the vault.
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let waits =
        |status: &Value| message(status, "Accepted").contains("\"safe\" has no storage location of its own yet");
    plot.status::<NonAdminBackup>("nightly", "to wait for the vault", waits).await;
    assert!(plot.stored().await?.is_empty(), "it went into her own bucket");
    plot.delete::<NonAdminBackupStorageLocation>(VAULT).await?;
    wait::until("the vault to have its location", VELERO_PATIENCE, || async {
        let location = plot.api::<NonAdminBackupStorageLocation>().get(VAULT).await?;
        ensure!(!location.owner_references().is_empty(), "it is not the vault's");
        Ok(Some(()))
    })
    .await?;
    plot.vault_says("True", "Provisioned").await;
    plot.backup_completes("nightly").await?;
    Ok(())
}
