//! Many backups, against a generator that leaves the same objects behind, and by themselves. Velero's kinds are there and Velero is
//! not: what it would say of a Backup is said here.

use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStatus, NonAdminBackupStorageLocation, NonAdminPhase},
    velero::Backup,
};
use croft_testbed::{Installed, Operator, Testbed, wait};
use k8s_openapi::{
    api::core::v1::{Event, Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::{
    as_f64,
    calls::Calls,
    cluster::{client, in_flight},
    figures::{Bar, Figure},
    machine::{Load, quiet},
    namespaces::names,
    pairs::{Lap, Pair, Side, order},
    processes::Usage,
};

const BACKUPS: usize = 1000;
const PAIRS: usize = 10;
const BLOCKS: &str = "backups";
const VELERO: &str = "velero";
/// Only one at a time is with Velero in these.
const FEW: (&str, usize) = ("few", 101);
const MANY: (&str, usize) = ("many", 1001);
const COMPLETIONS: usize = 20;
/// Where each costs everybody a write.
const FEW_COMPLETIONS: usize = 3;
const PLACES: &str = "places";
const LOCATIONS: usize = 1000;
const LOCATIONS_EACH: usize = 20;
const READY_LIMIT: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(300);
const SETTLE: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(20);

const MIN_RATIO: f64 = 0.70;
const MAX_WRITES: f64 = 4.0;
const MAX_COMPLETION_MS: f64 = 50.0;
const MAX_CALLS_A_SECOND: f64 = 1.0;

const ORIGINAL: &str = "oadp.openshift.io";
/// As long as the original: what the generator writes costs the same, and the operator does not see it.
const TWIN: &str = "oadp.bench-dev.io";

/// Dropped in this order: what uses before what is used.
struct Course {
    client: Client,
    installed: Installed,
    bed: Testbed,
}

pub(super) async fn measure(program: &Path) -> Result<Vec<Figure>> {
    println!("starting Kubernetes and Croft, for {BACKUPS} backups ...");
    let course = Course::start(program).await?;
    let operator = course.operator("croft-0", 0).await?;
    let mut figures = course.against_generator(&operator).await?;
    operator.process.terminate();
    operator.process.wait(SETTLE);
    drop(operator);
    let operator = course.operator("croft-1", 1).await?;
    figures.push(course.waiting(&operator).await?);
    figures.push(course.completion().await?);
    operator.process.terminate();
    operator.process.wait(SETTLE);
    drop(operator);
    let operator = course.operator("croft-2", 0).await?;
    figures.extend(course.in_veleros_queue(&operator).await?);
    figures.push(course.without_velero(&operator).await?);
    Ok(figures)
}

impl Course {
    async fn start(program: &Path) -> Result<Self> {
        let bed = Testbed::kubernetes().start().await?;
        bed.install_velero_crds().await?;
        let installed = Installed::new(&bed, program).await?;
        let course = Self { client: client(bed.admin().config())?, installed, bed };
        let spaces = names(BLOCKS, PAIRS).into_iter().chain([FEW.0, MANY.0].map(String::from));
        for name in spaces.chain(names(PLACES, LOCATIONS / LOCATIONS_EACH)) {
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            Api::all(course.client.clone()).create(&PostParams::default(), &namespace).await?;
        }
        course.install_twin().await?;
        Ok(course)
    }

    /// The kind of the requests in another group.
    async fn install_twin(&self) -> Result<()> {
        let kinds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let original = kinds.get(&format!("nonadminbackups.{ORIGINAL}")).await?;
        let spec = serde_json::from_str(&serde_json::to_string(&original.spec)?.replace(ORIGINAL, TWIN))?;
        let metadata = ObjectMeta { name: Some(format!("nonadminbackups.{TWIN}")), ..ObjectMeta::default() };
        kinds.create(&PostParams::default(), &CustomResourceDefinition { metadata, spec, status: None }).await?;
        wait::until("the twin to be served", READY_LIMIT, || async {
            Ok(Some(self.twins(BLOCKS).list(&ListParams::default()).await?))
        })
        .await?;
        Ok(())
    }

    /// A replica that lets so many backups of a namespace to Velero at a time.
    async fn operator(&self, name: &str, limit: u64) -> Result<Operator> {
        let settings = json!({ "backup": { "defaultLocation": "Allow", "ownBuckets": "Allow",
                                           "limits": { "unfinishedBackups": limit, "locations": 0 } } });
        let config = self.bed.dir().join(format!("{name}.yaml"));
        std::fs::write(&config, settings.to_string())?;
        let arguments = ["--config", &config.display().to_string()];
        let operator = self.installed.start(&self.bed, name, &self.installed.identity.kubeconfig, &arguments)?;
        operator.ready(READY_LIMIT).await?;
        Ok(operator)
    }

    fn requests(&self, namespace: &str) -> Api<NonAdminBackup> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn twins(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(TWIN, "v1alpha1", "NonAdminBackup");
        let kind = ApiResource::from_gvk_with_plural(&kind, "nonadminbackups");
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    fn backups(&self) -> Api<Backup> {
        Api::namespaced(self.client.clone(), VELERO)
    }

    /// The operator and the generator in turns, block by block.
    async fn against_generator(&self, operator: &Operator) -> Result<Vec<Figure>> {
        let block = names("backup", BACKUPS / PAIRS);
        let (mut pairs, mut asked) = (Vec::new(), Calls::default());
        for (index, namespace) in names(BLOCKS, PAIRS).iter().enumerate() {
            let (mut generator, mut operators) = (None, None);
            for side in order(index) {
                quiet().await;
                let before = Calls::of(operator).await?;
                let (load, clock) = (Load::start(), Instant::now());
                match side {
                    Side::Generator => self.generate(namespace, &block).await?,
                    Side::Operator => self.make(namespace, &block).await?,
                }
                let lap = Lap { took: clock.elapsed(), conditions: load.since() };
                match side {
                    Side::Generator => generator = Some(lap),
                    Side::Operator => {
                        quiet().await;
                        asked.add(&Calls::of(operator).await?.since(&before));
                        operators = Some(lap);
                    }
                }
            }
            let (generator, operator) = generator.zip(operators).context("both sides have run")?;
            pairs.push(Pair { generator, operator });
        }
        let events = self.events().await?;
        Ok(vec![
            Figure::of_pairs("backups_ratio", pairs).bar(Bar::AtLeast(MIN_RATIO)),
            Figure::new("backup_writes", (asked.writes() - as_f64(events)) / as_f64(BACKUPS), "per backup")
                .bar(Bar::AtMost(MAX_WRITES))
                .note(format!("{asked}; {events} Events, which are rationed, do not count")),
        ])
    }

    async fn events(&self) -> Result<usize> {
        let events: Api<Event> = Api::all(self.client.clone());
        let events = events.list(&ListParams::default()).await?;
        let about = |event: &&Event| event.involved_object.kind.as_deref() == Some("NonAdminBackup");
        Ok(events.iter().filter(about).count())
    }

    /// Makes requests, and waits until the last is with Velero and says where in the queue it is.
    async fn make(&self, namespace: &str, names: &[String]) -> Result<()> {
        self.create(namespace, names).await?;
        self.all_with_velero(namespace).await
    }

    async fn all_with_velero(&self, namespace: &str) -> Result<()> {
        wait::until("all backups to be with Velero", LIMIT, || async {
            let requests = self.requests(namespace).list(&ListParams::default()).await?;
            let is_made = |request: &NonAdminBackup| {
                let status = request.status.as_ref();
                status.is_some_and(|it| it.phase == Some(NonAdminPhase::Created) && it.queue_info.is_some())
            };
            Ok(requests.iter().all(is_made).then_some(()))
        })
        .await
    }

    async fn create(&self, namespace: &str, names: &[String]) -> Result<()> {
        let requests = self.requests(namespace);
        in_flight(names, move |name| {
            let requests = requests.clone();
            async move {
                requests.create(&PostParams::default(), &serde_json::from_value(request(ORIGINAL, &name))?).await?;
                Ok(())
            }
        })
        .await
    }

    /// What is there once the operator has accepted the requests, by the fewest writes that leave it behind.
    async fn generate(&self, namespace: &str, names: &[String]) -> Result<()> {
        let (twins, backups, space) = (self.twins(namespace), self.backups(), namespace.to_owned());
        in_flight(names, move |name| {
            let (twins, backups, space) = (twins.clone(), backups.clone(), space.clone());
            async move {
                let (params, patch) = (PostParams::default(), PatchParams::default());
                twins.create(&params, &serde_json::from_value(request(TWIN, &name))?).await?;
                let finalizer = json!({ "metadata": { "finalizers": ["nonadminbackup.oadp.bench-dev.io/finalizer"] } });
                twins.patch(&name, &patch, &Patch::Merge(finalizer)).await?;
                let made = backups.create(&params, &serde_json::from_value(backup(&space, &name))?).await?;
                let status = Patch::Merge(accepted(&made));
                twins.patch_status(&name, &patch, &status).await?;
                Ok(())
            }
        })
        .await
    }

    /// One is with Velero and the others wait: nothing happens, and nothing is written.
    async fn waiting(&self, operator: &Operator) -> Result<Figure> {
        let (namespace, count) = FEW;
        self.hold_back(namespace, count).await?;
        let before = Calls::of(operator).await?;
        tokio::time::sleep(WATCHED).await;
        let calls = Calls::of(operator).await?.since(&before);
        Ok(Figure::new("waiting_writes", calls.writes(), "requests").bar(Bar::AtMost(0.0)).note(format!(
            "{} wait for {} s: {calls}",
            count - 1,
            WATCHED.as_secs()
        )))
    }

    /// Makes requests of which one gets to Velero, and waits until that is told to the others.
    async fn hold_back(&self, namespace: &str, count: usize) -> Result<()> {
        self.create(namespace, &names("backup", count)).await?;
        wait::until("all others to wait", LIMIT, || async {
            let requests = self.requests(namespace).list(&ListParams::default()).await?;
            let phase = |wanted| {
                requests.iter().filter(move |it| it.status.as_ref().is_some_and(|it| it.phase == Some(wanted)))
            };
            let is_so = phase(NonAdminPhase::Created).count() == 1 && phase(NonAdminPhase::New).count() == count - 1;
            Ok(is_so.then_some(()))
        })
        .await?;
        quiet().await;
        Ok(())
    }

    /// What the operator spends when one of very many is done and the next gets its place.
    async fn completion(&self) -> Result<Figure> {
        let (namespace, count) = MANY;
        self.hold_back(namespace, count).await?;
        tokio::time::sleep(SETTLE).await;
        let before = Usage::now();
        for done in 0..COMPLETIONS {
            self.complete(namespace, done).await?;
        }
        quiet().await;
        let spent = Usage::now().since(&before).seconds_of("croft");
        Ok(Figure::new("completion_cpu", spent * 1000.0 / as_f64(COMPLETIONS), "ms of the operator's")
            .bar(Bar::AtMost(MAX_COMPLETION_MS))
            .note(format!("{} wait, mean of {COMPLETIONS}", count - 1)))
    }

    /// Says as Velero would that the one backup it has is done, and waits until it has the next.
    async fn complete(&self, namespace: &str, done: usize) -> Result<()> {
        let created = || async {
            let requests = self.requests(namespace).list(&ListParams::default()).await?;
            let is_made = |status: &NonAdminBackupStatus| status.phase == Some(NonAdminPhase::Created);
            let made = requests.items.into_iter().filter_map(|request| request.status).filter(is_made);
            anyhow::Ok(made.filter_map(|status| status.velero_backup?.name).collect::<Vec<_>>())
        };
        for name in created().await? {
            self.says(&name, finished()).await?;
        }
        wait::until("the next to be with Velero", LIMIT, || async {
            Ok((created().await?.len() >= done + 2).then_some(()))
        })
        .await
    }

    /// All who waited here wait with Velero: one runs and tells how far it is each second, and then it and the next ones are done. Each end
    /// moves everybody behind it up by one.
    async fn in_veleros_queue(&self, operator: &Operator) -> Result<[Figure; 2]> {
        for (namespace, _) in [FEW, MANY] {
            self.all_with_velero(namespace).await?;
        }
        let mut queue = self.unfinished().await?;
        let waiting = queue.len();
        let mut next = || queue.pop_front().context("somebody waits");
        let first = next()?;
        self.says(&first, json!({ "phase": "InProgress", "progress": { "totalItems": 1000, "itemsBackedUp": 0 } }))
            .await?;
        quiet().await;
        let before = Calls::of(operator).await?;
        for second in 1..=WATCHED.as_secs() {
            self.says(&first, json!({ "progress": { "itemsBackedUp": second } })).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        quiet().await;
        let calls = Calls::of(operator).await?.since(&before);
        let others = (calls.writes() - WATCHED.as_secs_f64()).max(0.0);
        let before = Usage::now();
        self.says(&first, finished()).await?;
        for _ in 1..FEW_COMPLETIONS {
            let name = next()?;
            self.says(&name, finished()).await?;
        }
        quiet().await;
        let spent = Usage::now().since(&before).seconds_of("croft");
        Ok([
            Figure::new("queued_writes", others, "requests").bar(Bar::AtMost(0.0)).note(format!(
                "{waiting} are with Velero, one tells of its progress each second for {} s: {calls}",
                WATCHED.as_secs()
            )),
            Figure::new("queued_completion_cpu", spent * 1000.0 / as_f64(FEW_COMPLETIONS), "ms of the operator's")
                .bar(Bar::AtMost(MAX_COMPLETION_MS))
                .note(format!("{waiting} are with Velero and move up, mean of {FEW_COMPLETIONS}")),
        ])
    }

    /// Names of the Backups made for requests that nobody has said to be done, as Velero has them in its queue.
    async fn unfinished(&self) -> Result<VecDeque<String>> {
        let all = self.backups().list(&ListParams::default().labels("openshift.io/oadp=True")).await?;
        let waits =
            |backup: &Backup| backup.status.as_ref().is_none_or(|status| status.completion_timestamp().is_none());
        let mut waiting: Vec<_> = all.into_iter().filter(waits).collect();
        waiting.sort_by_key(|backup| (backup.creation_timestamp(), backup.name_any()));
        Ok(waiting.iter().map(ResourceExt::name_any).collect())
    }

    async fn says(&self, backup: &str, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        self.backups().patch(backup, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Very many who wait for Velero ask nobody whether it has come.
    async fn without_velero(&self, operator: &Operator) -> Result<Figure> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(VELERO, &DeleteParams::default()).await?;
        wait::until_true("Velero's namespace to go", LIMIT, || async {
            Ok(namespaces.get_opt(VELERO).await?.is_none())
        })
        .await?;
        for namespace in names(PLACES, LOCATIONS / LOCATIONS_EACH) {
            self.make_locations(&namespace).await?;
        }
        wait::until_true("all locations to tell of it", LIMIT, || async {
            let locations: Api<NonAdminBackupStorageLocation> = Api::all(self.client.clone());
            let locations = locations.list(&ListParams::default()).await?;
            let is_told = |it: &NonAdminBackupStorageLocation| it.status.as_ref().is_some_and(|it| it.phase.is_some());
            Ok(locations.iter().filter(|location| is_told(location)).count() == LOCATIONS)
        })
        .await?;
        quiet().await;
        let before = Calls::of(operator).await?;
        tokio::time::sleep(WATCHED).await;
        let calls = Calls::of(operator).await?.since(&before);
        Ok(Figure::new("away_calls", calls.requests() / WATCHED.as_secs_f64(), "calls a second")
            .bar(Bar::AtMost(MAX_CALLS_A_SECOND))
            .note(format!("{LOCATIONS} locations: {calls}")))
    }

    async fn make_locations(&self, namespace: &str) -> Result<()> {
        let file = "[default]\naws_access_key_id=BENCH\naws_secret_access_key=bench\n";
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" },
                             "stringData": { "cloud": file } });
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        let locations: Api<NonAdminBackupStorageLocation> = Api::namespaced(self.client.clone(), namespace);
        in_flight(&names("location", LOCATIONS_EACH), move |name| {
            let locations = locations.clone();
            async move {
                locations.create(&PostParams::default(), &serde_json::from_value(location(&name))?).await?;
                Ok(())
            }
        })
        .await
    }
}

/// What Velero says of a Backup that it is done with.
fn finished() -> Value {
    json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z" })
}

fn request(group: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "NonAdminBackup", "metadata": { "name": name },
        "spec": { "backupSpec": { "includedResources": ["configmaps"], "ttl": "24h" } },
    })
}

fn location(name: &str) -> Value {
    json!({
        "apiVersion": format!("{ORIGINAL}/v1alpha1"), "kind": "NonAdminBackupStorageLocation", "metadata": { "name": name },
        "spec": { "backupStorageLocationSpec": {
            "provider": "aws", "objectStorage": { "bucket": "bench", "prefix": name }, "config": { "region": "eu" },
            "credential": { "name": "keys", "key": "cloud" },
        } },
    })
}

/// A Velero Backup like those of the operator's, of nobody.
fn backup(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {
            "name": format!("{namespace}-{name}-of-the-generator-00000000"), "namespace": VELERO,
            "labels": {
                "openshift.io/bench": "True", "app.kubernetes.io/managed-by": "bench-generator",
                "openshift.io/bench-origin-nacuuid": format!("{namespace}-{name}"),
            },
            "annotations": {
                "openshift.io/bench-origin-namespace": namespace, "openshift.io/bench-origin-name": name,
                "croft.dev/bench": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            },
        },
        "spec": {
            "includedResources": ["configmaps"], "ttl": "24h", "includedNamespaces": [namespace], "snapshotVolumes": false,
            "includeClusterResources": false,
            "excludedResources": [
                "nonadminbackups", "nonadminrestores", "nonadminbackupstoragelocations", "securitycontextconstraints",
                "clusterroles", "clusterrolebindings", "priorityclasses", "customresourcedefinitions",
                "virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences",
            ],
        },
    })
}

/// The status of a request that was accepted, as the operator tells it.
fn accepted(made: &Backup) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({ "type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let (name, uid) = (&made.metadata.name, &made.metadata.uid);
    json!({ "status": {
        "phase": "Created", "queueInfo": { "estimatedQueuePosition": 1 },
        "conditions": [
            condition("Accepted", "BackupAccepted", "backup accepted"),
            condition("Queued", "BackupScheduled", "Created Velero Backup object"),
        ],
        "veleroBackup": { "nacuuid": name, "name": name, "namespace": VELERO, "uid": uid, "spec": made.spec, "status": {} },
    } })
}
