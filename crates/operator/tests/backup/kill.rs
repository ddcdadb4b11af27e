//! The operator dies at every write to the API server, before and after it: every path ends as it does without, and Velero gets
//! everything once.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{
        BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminDownloadRequest,
        NonAdminRestore, SCHEDULE_UID_LABEL,
    },
    storage::S3User,
    velero::{Backup, BackupStorageLocation, Restore},
};
use croft_testbed::{
    Operator, Testbed,
    fault::{Action, FaultProxy, Match},
    product::Installed,
    wait,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Kind, SETTINGS, VELERO_PATIENCE, owner_of, velero_name},
    support::{PATIENCE, World, apply, eventually},
};

pub(crate) const NAMESPACE: &str = "killed";
/// More writes than any path has.
const WRITES: usize = 20;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    BeforeTheWrite,
    AfterTheWrite,
}

/// An operator behind a proxy that is started again whenever it dies.
pub(crate) struct Rough {
    pub(crate) bed: Testbed,
    installed: Installed,
    proxy: FaultProxy,
    /// Where it dies at its calls to Ceph instead.
    pub(crate) gateway: Option<FaultProxy>,
    life: Arc<Mutex<Option<Arc<Operator>>>>,
    death: Death,
    pub(crate) deaths: usize,
}

impl Rough {
    pub(crate) async fn new(death: Death) -> Result<Self> {
        Box::pin(Self::with(death, SETTINGS)).await
    }

    pub(crate) async fn with(death: Death, settings: &str) -> Result<Self> {
        let (bed, installed) = World::installed(Testbed::kubernetes().with_velero()).await?;
        let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
        std::fs::write(bed.dir().join("settings.yaml"), settings)?;
        let rough = Self { bed, installed, proxy, gateway: None, life: Arc::default(), death, deaths: 0 };
        rough.start()?.ready(PATIENCE).await?;
        apply(
            rough.bed.admin(),
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }).to_string(),
        )
        .await?;
        Ok(rough)
    }

    fn start(&self) -> Result<Arc<Operator>> {
        let config = self.bed.dir().join("settings.yaml").display().to_string();
        let arguments = ["--log", "info,croft=debug", "--config", &config];
        let life = Arc::new(self.installed.start(&self.bed, "rough", self.proxy.kubeconfig(), &arguments)?);
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(life.clone());
        Ok(life)
    }

    /// Whoever died is followed by the next. The dead do not give their lease back.
    async fn revive(&self) -> Result<()> {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(life) = life.filter(|life| !life.process.is_running()) else { return Ok(()) };
        life.process.wait(PATIENCE).context("it is dead")?;
        let leases: Api<Lease> = Api::namespaced(self.bed.admin().client.clone(), &self.installed.namespace);
        if leases.get_opt("croft").await?.is_some() {
            leases.delete("croft", &DeleteParams::default()).await?;
        }
        self.start()?;
        Ok(())
    }

    /// Kills whoever is alive.
    pub(crate) fn executioner(&self) -> impl Fn() + Send + Sync + 'static {
        let life = self.life.clone();
        move || {
            if let Some(life) = life.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                life.process.kill();
            }
        }
    }

    /// Where it dies.
    fn place(&self) -> &FaultProxy {
        self.gateway.as_ref().unwrap_or(&self.proxy)
    }

    /// From now on the operator dies at every write, once.
    fn strike(&self) {
        self.place().clear_rules();
        self.place().clear_log();
        for number in 1..=WRITES {
            let kill = Action::kill(self.executioner());
            match self.death {
                // What was never seen is tried again, and then let through.
                Death::BeforeTheWrite => drop(self.place().on(Match::write_number(2 * number - 1)).before(kill)),
                Death::AfterTheWrite => drop(self.place().on(Match::write_number(number)).after(kill)),
            }
        }
    }

    /// Somebody does something; life after life, of which there is one at least, goes by until the world is as it should be.
    pub(crate) async fn path<Probe, Answer>(
        &mut self,
        what: &str,
        done: impl Future<Output = Result<()>>,
        probe: Probe,
    ) -> Result<()>
    where
        Probe: Fn() -> Answer,
        Answer: Future<Output = Result<()>>,
    {
        self.strike();
        done.await?;
        let rough = &*self;
        wait::until(what, 2 * VELERO_PATIENCE, || async {
            rough.revive().await?;
            probe().await.map(Some)
        })
        .await?;
        let deaths = self.place().log().iter().filter(|seen| seen.fault.is_some()).count();
        self.place().clear_rules();
        ensure!(deaths > 0, "{what}: nobody died");
        self.deaths += deaths;
        Ok(())
    }
}

/// What the owner of the namespace does with her own rights, and an administrator sees and does beside Velero.
#[derive(Clone)]
pub(crate) struct Person {
    client: kube::Client,
    administrators: kube::Client,
    velero: String,
}

impl Person {
    pub(crate) fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn veleros<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.administrators.clone(), &self.velero)
    }

    pub(crate) async fn make<K: Kind>(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({ "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name }, "spec": spec });
        self.api::<K>().patch(name, &PatchParams::apply("person"), &Patch::Apply(&object)).await?;
        Ok(())
    }

    pub(crate) async fn says<K: Kind>(&self, name: &str, pointer: &str, wanted: &str) -> Result<()> {
        let object = json!(self.api::<K>().get(name).await?);
        ensure!(object.pointer(pointer).and_then(Value::as_str) == Some(wanted), "it is {}", object["status"]);
        Ok(())
    }

    pub(crate) async fn is_gone<K: Kind>(&self, name: &str) -> Result<()> {
        let left = self.api::<K>().get_opt(name).await?;
        ensure!(left.is_none(), "it is there: {:?}", json!(left));
        Ok(())
    }

    /// How many objects of the namespace Velero has.
    pub(crate) async fn with_velero<K: Kind>(&self) -> Result<usize> {
        let all = self.veleros::<K>().list(&ListParams::default().labels("openshift.io/oadp=True")).await?;
        let of_ours = |object: &&K| {
            let annotations = object.meta().annotations.clone().unwrap_or_default();
            annotations.iter().any(|(key, value)| key.ends_with("-origin-namespace") && value == NAMESPACE)
        };
        Ok(all.items.iter().filter(of_ours).count())
    }
}

impl Rough {
    /// A person, and the spec of a location she has the keys for.
    pub(crate) async fn person(&self) -> Result<(Person, Value)> {
        let ceph = self.bed.ceph();
        let keys =
            format!("[default]\naws_access_key_id={}\naws_secret_access_key={}\n", ceph.access_key, ceph.secret_key);
        ceph.create_bucket(NAMESPACE).await?;
        let location = json!({ "backupStorageLocationSpec": {
            "provider": "aws", "objectStorage": { "bucket": NAMESPACE }, "credential": { "name": "keys", "key": "cloud" },
            "config": { "region": ceph.region, "s3ForcePathStyle": "true", "s3Url": ceph.endpoint },
        } });
        let one = Person {
            client: owner_of(&self.bed, NAMESPACE).await?.client,
            administrators: self.bed.admin().client.clone(),
            velero: self.bed.velero().namespace.clone(),
        };
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" }, "stringData": { "cloud": keys } });
        one.api::<Secret>().patch("keys", &PatchParams::apply("person"), &Patch::Apply(&secret)).await?;
        Ok((one, location))
    }

    /// The same with a location `here` that Velero can use.
    pub(crate) async fn furnished_person(&self) -> Result<Person> {
        let (one, location) = self.person().await?;
        one.make::<NonAdminBackupStorageLocation>("here", location).await?;
        let phase = "/status/veleroBackupStorageLocation/status/phase";
        wait::until("the location", VELERO_PATIENCE, || async {
            one.says::<NonAdminBackupStorageLocation>("here", phase, "Available").await.map(Some)
        })
        .await?;
        Ok(one)
    }

    /// How many writes of a kind got as far as the proxy.
    pub(crate) fn writes_of(&self, resource: &str) -> usize {
        self.proxy.writes().iter().filter(|seen| seen.request.resource == resource).count()
    }

    fn is_dead(&self) -> bool {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        life.as_ref().is_none_or(|life| !life.process.is_running())
    }
}

/// Where the reason of the condition `Ready` stands.
pub(crate) const READY: &str = "/status/conditions/0/reason";

async fn every_path_ends_as_it_should(death: Death) -> Result<()> {
    let mut rough = Box::pin(Rough::new(death)).await?;
    let admin = rough.bed.admin().client.clone();
    let (one, location) = rough.person().await?;

    rough
        .path("the vault", one.make::<BackupVault>("safe", json!({})), || {
            one.says::<BackupVault>("safe", READY, "Provisioned")
        })
        .await?;
    let phase = "/status/veleroBackupStorageLocation/status/phase";
    rough
        .path("the location", one.make::<NonAdminBackupStorageLocation>("here", location), || {
            one.says::<NonAdminBackupStorageLocation>("here", phase, "Available")
        })
        .await?;
    ensure!(one.with_velero::<BackupStorageLocation>().await? == 2);
    let phase = "/status/veleroBackup/status/phase";
    rough
        .path("the backup", one.make::<NonAdminBackup>("nightly", json!({ "backupSpec": {} })), || {
            one.says::<NonAdminBackup>("nightly", phase, "Completed")
        })
        .await?;
    ensure!(one.with_velero::<Backup>().await? == 1, "it was made more than once");
    let nightly = velero_name(&one.api::<NonAdminBackup>().get("nightly").await?);
    let log = json!({ "target": { "kind": "BackupLog", "name": "nightly" } });
    rough
        .path("the log", one.make::<NonAdminDownloadRequest>("log", log), || {
            one.says::<NonAdminDownloadRequest>("log", "/status/phase", "Created")
        })
        .await?;
    let phase = "/status/veleroRestore/status/phase";
    rough
        .path(
            "the restore",
            one.make::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "nightly" } })),
            || one.says::<NonAdminRestore>("undo", phase, "Completed"),
        )
        .await?;
    ensure!(one.with_velero::<Restore>().await? == 1, "it was made more than once");
    let often = json!({ "schedule": "* * * * *", "template": { "backupSpec": {
        // What is let go stays in the bucket, and a vault with something in it keeps its user.
        "storageLocation": "here", "includedResources": ["configmaps"],
    } } });
    rough
        .path("the schedule", one.make::<BackupSchedule>("often", often), || async {
            let schedule = json!(one.api::<BackupSchedule>().get("often").await?);
            let name = schedule["status"]["lastBackupName"].as_str().context("no backup yet")?.to_owned();
            one.says::<NonAdminBackup>(&name, "/status/phase", "Created").await
        })
        .await?;
    // Nobody holds it, so that nothing is to be written for it to go.
    one.api::<BackupSchedule>().delete("often", &DeleteParams::default()).await?;
    eventually("the schedule to go", || async { one.is_gone::<BackupSchedule>("often").await.map(Some) }).await;
    let forced = json!({ "spec": { "forceDeleteBackup": true } });
    for backup in one.api::<NonAdminBackup>().list(&ListParams::default().labels(SCHEDULE_UID_LABEL)).await? {
        let name = backup.name_any();
        let asked = async {
            one.api::<NonAdminBackup>().patch(&name, &PatchParams::default(), &Patch::Merge(&forced)).await?;
            Ok(())
        };
        rough.path("the backup to be let go", asked, || one.is_gone::<NonAdminBackup>(&name)).await?;
    }
    let whole = json!({ "spec": { "deleteBackup": true } });
    let asked = async {
        one.api::<NonAdminBackup>().patch("nightly", &PatchParams::default(), &Patch::Merge(&whole)).await?;
        Ok(())
    };
    rough.path("the backup to go", asked, || one.is_gone::<NonAdminBackup>("nightly")).await?;
    eventually("what was with Velero, and the restore, to be gone too", || async {
        let restore = one.api::<NonAdminRestore>().get_opt("undo").await?;
        let backup = one.veleros::<Backup>().get_opt(&nightly).await?;
        Ok((backup.is_none() && restore.is_none()).then_some(()))
    })
    .await;
    let asked = async {
        one.api::<NonAdminBackupStorageLocation>().delete("here", &DeleteParams::default()).await?;
        Ok(())
    };
    rough.path("the location to go", asked, || one.is_gone::<NonAdminBackupStorageLocation>("here")).await?;
    let asked = async {
        one.api::<BackupVault>().delete("safe", &DeleteParams::default()).await?;
        Ok(())
    };
    rough.path("the vault to go", asked, || one.is_gone::<BackupVault>("safe")).await?;
    ensure!(one.with_velero::<BackupStorageLocation>().await? == 0 && one.with_velero::<Secret>().await? == 0);
    let users: Api<S3User> = Api::all(admin);
    let left: Vec<_> = users.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(left.is_empty(), "{left:?}");
    ensure!(rough.deaths >= 25, "only {} deaths", rough.deaths);
    Ok(())
}

#[tokio::test]
async fn every_path_ends_as_it_should_although_the_operator_dies_before_every_write() -> Result<()> {
    Box::pin(every_path_ends_as_it_should(Death::BeforeTheWrite)).await
}

#[tokio::test]
async fn every_path_ends_as_it_should_although_the_operator_dies_after_every_write() -> Result<()> {
    Box::pin(every_path_ends_as_it_should(Death::AfterTheWrite)).await
}

/// Where the reason of the condition `Accepted` stands.
pub(crate) const ACCEPTED: &str = "/status/conditions/0/reason";

#[tokio::test]
async fn a_backup_that_velero_may_have_had_when_the_operator_died_is_told_and_never_handed_over_again() -> Result<()> {
    let rough = Box::pin(Rough::new(Death::AfterTheWrite)).await?;
    let one = rough.furnished_person().await?;
    let kill = Action::kill(rough.executioner());
    rough.proxy.on(Match::verb("create").resource("velero.io/backups")).after(kill);
    let spec = json!({ "backupSpec": { "storageLocation": "here", "includedResources": ["configmaps"] } });
    one.make::<NonAdminBackup>("nightly", spec).await?;
    let made = wait::until("Velero to be done with it, and the operator to be dead", VELERO_PATIENCE, || async {
        let all = one.veleros::<Backup>().list(&ListParams::default()).await?;
        let made = all.into_iter().find(|made| json!(made)["status"]["completionTimestamp"].is_string());
        Ok(made.filter(|_| rough.is_dead()))
    })
    .await?;
    // Its time has come, and the operator was down for all of it.
    one.veleros::<Backup>().delete(&made.name_any(), &DeleteParams::default()).await?;
    let nightly = one.api::<NonAdminBackup>().get("nightly").await?;
    let note = format!("{}/2026-01-01T00:00:00Z", nightly.uid().unwrap_or_default());
    ensure!(nightly.annotations().contains_key("croft.dev/handed-over"), "nothing is noted: {:?}", nightly.metadata);
    let long_ago = json!({ "metadata": { "annotations": { "croft.dev/handed-over": note } } });
    one.api::<NonAdminBackup>().patch("nightly", &PatchParams::default(), &Patch::Merge(&long_ago)).await?;
    rough.proxy.clear_rules();
    wait::until("it to be told", VELERO_PATIENCE, || async {
        rough.revive().await?;
        one.says::<NonAdminBackup>("nightly", ACCEPTED, "VeleroBackupNotFound").await.map(Some)
    })
    .await?;
    ensure!(one.with_velero::<Backup>().await? == 0, "it was made again");
    Ok(())
}

#[tokio::test]
async fn a_backup_costs_four_writes_until_it_is_with_velero_and_then_only_what_is_told_of_it() -> Result<()> {
    let rough = Box::pin(Rough::new(Death::AfterTheWrite)).await?;
    let one = rough.furnished_person().await?;
    rough.proxy.clear_log();
    let spec = json!({ "backupSpec": { "storageLocation": "here", "includedResources": ["configmaps"] } });
    one.make::<NonAdminBackup>("nightly", spec).await?;
    wait::until("the backup", VELERO_PATIENCE, || async {
        one.says::<NonAdminBackup>("nightly", "/status/veleroBackup/status/phase", "Completed").await.map(Some)
    })
    .await?;
    let of_backups = |resource: &str| resource.ends_with("/nonadminbackups") || resource == "velero.io/backups";
    let writes: Vec<_> = rough.proxy.writes().into_iter().filter(|seen| of_backups(&seen.request.resource)).collect();
    let is_told = |subresource: Option<&str>| subresource == Some("status");
    let first_told = writes.iter().position(|seen| is_told(seen.request.subresource.as_deref())).context("not told")?;
    ensure!(first_told < 4, "{writes:#?}");
    let others = writes.iter().skip(first_told).filter(|seen| !is_told(seen.request.subresource.as_deref())).count();
    ensure!(others == 0, "{writes:#?}");
    Ok(())
}
