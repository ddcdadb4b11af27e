//! Writes that go on while replicas come and go: none is refused for want of a replica, none is forgotten.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::{Context, Result, ensure};
use croft_api::{backup::NonAdminBackup, namespaces::NamespaceClass, storage::S3UserClaim};
use croft_testbed::{Ceph, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::cluster::SOON;
use crate::story::{Watched, show_output};

const NAME: &str = "steady";
const EVERY: Duration = Duration::from_millis(100);
const CLAIMS: u64 = 5;
/// What quotas begin at; every write asks for one more byte.
const SMALLEST: u64 = 1 << 20;

/// A class, a namespace of it, and claims in that.
pub(super) struct Steady<'a> {
    client: Client,
    ceph: &'a Ceph,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Class,
    Claim(u64),
    Backup,
}

/// What the API server said to one write: the version it made of it.
type Answer = (Target, u64, Result<u64, kube::Error>);

/// The last value of each object, by the API server's own order.
#[derive(Debug, Default)]
struct Tally {
    sent: usize,
    refused: Vec<String>,
    last: BTreeMap<Target, (u64, u64)>,
}

impl<'a> Steady<'a> {
    pub(super) fn new(client: Client, ceph: &'a Ceph) -> Self {
        Self { client, ceph }
    }

    /// Does `work` while ten writes a second go on, then looks whether each was taken and the last ones have come true.
    pub(super) async fn during<T>(&self, name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let backup = self.back_up(name).await?;
        let mut clock = tokio::time::interval(EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (mut tally, mut writes, mut work) = (Tally::default(), JoinSet::new(), pin!(work));
        let result = loop {
            tokio::select! {
                result = work.as_mut() => break result?,
                _ = clock.tick() => {
                    tally.sent += 1;
                    writes.spawn(write(self.client.clone(), tally.sent as u64));
                }
                Some(answer) = writes.join_next() => tally.take(answer?),
            }
        };
        while let Some(answer) = writes.join_next().await {
            tally.take(answer?);
        }
        let refused = tally.refused.len();
        show_output(&format!("{} writes meanwhile, {refused} refused", tally.sent));
        ensure!(
            refused == 0,
            "of {} writes {refused} were refused, the first:\n{}",
            tally.sent,
            tally.first_refusals()
        );
        self.has_come_true(&tally).await?;
        let watched = Watched { client: &self.client, namespace: NAME, name: &backup };
        watched.has::<NonAdminBackup>("/status/veleroBackup/status/phase", "Completed").await?;
        Ok(result)
    }

    /// One that is carried out; the others only pass admission: Velero makes one after the other.
    async fn back_up(&self, name: &str) -> Result<String> {
        let backups = Api::<NonAdminBackup>::namespaced(self.client.clone(), NAME);
        Ok(backups.create(&PostParams::default(), &backup(name)?).await?.name_any())
    }

    async fn has_come_true(&self, tally: &Tally) -> Result<()> {
        let made = Api::<ConfigMap>::namespaced(self.client.clone(), NAME);
        for (target, (value, _)) in &tally.last {
            let what = format!("{value}, the last value of {target:?}, to come true");
            wait::until_true(&what, SOON, || async {
                let now = match target {
                    Target::Class => {
                        made.get(NAME).await?.data.unwrap_or_default().remove("number").unwrap_or_default()
                    }
                    Target::Claim(claim) => self.quota_of(*claim).await?,
                    Target::Backup => return Ok(true),
                };
                ensure!(now == value.to_string(), "it is {now}");
                Ok(true)
            })
            .await?;
        }
        Ok(())
    }

    async fn quota_of(&self, claim: u64) -> Result<String> {
        let uid = format!("--uid=croft_{NAME}${NAME}-{claim}");
        let user: Value = serde_json::from_str(&self.ceph.admin(&["user", "info", &uid]).await?)?;
        let size = user["user_quota"]["max_size"].as_u64().context("the user has no quota")?;
        Ok((size - SMALLEST).to_string())
    }

    /// What the writes are about.
    pub(super) fn furniture() -> Vec<Value> {
        let metadata = json!({ "name": NAME });
        let labels = json!({ "namespaceclass.akuity.io/name": NAME });
        let mut furniture = vec![
            json!({ "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": metadata, "spec": contents(0) }),
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAME, "labels": labels } }),
        ];
        furniture.extend((0..CLAIMS).map(|claim| {
            let name = format!("{NAME}-{claim}");
            json!({
                "apiVersion": "s3.snappcloud.io/v1alpha1",
                "kind": "S3UserClaim",
                "metadata": { "name": name, "namespace": NAME },
                "spec": {
                    "adminSecretName": format!("{name}-admin"),
                    "readSecretName": format!("{name}-read"),
                    "quota": quota(0),
                },
            })
        }));
        furniture
    }
}

impl Tally {
    fn first_refusals(&self) -> String {
        self.refused.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    fn take(&mut self, (target, value, answer): Answer) {
        match answer {
            Err(kube::Error::Api(told)) => self.refused.push(format!("{target:?} {value}: {}", told.message)),
            Err(error) => self.refused.push(format!("{target:?} {value}: {error}")),
            Ok(version) => {
                let last = self.last.entry(target).or_default();
                *last = if version >= last.1 { (value, version) } else { *last };
            }
        }
    }
}

async fn write(client: Client, number: u64) -> Answer {
    let (target, written) = match number % 3 {
        0 => (Target::Class, write_class(client, number).await),
        1 => {
            let claim = number / 3 % CLAIMS;
            (Target::Claim(claim), write_claim(client, claim, number).await)
        }
        _ => (Target::Backup, try_backup(client, number).await),
    };
    (target, number, written)
}

async fn write_class(client: Client, number: u64) -> Result<u64, kube::Error> {
    let patch = Patch::Merge(json!({ "spec": contents(number) }));
    let written = Api::<NamespaceClass>::all(client).patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(version(&written))
}

async fn write_claim(client: Client, claim: u64, number: u64) -> Result<u64, kube::Error> {
    let patch = Patch::Merge(json!({ "spec": { "quota": quota(number) } }));
    let claims = Api::<S3UserClaim>::namespaced(client, NAME);
    let written = claims.patch(&format!("{NAME}-{claim}"), &PatchParams::default(), &patch).await?;
    Ok(version(&written))
}

async fn try_backup(client: Client, number: u64) -> Result<u64, kube::Error> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let asked = backup(&format!("try-{number}")).map_err(kube::Error::SerdeError)?;
    Api::<NonAdminBackup>::namespaced(client, NAME).create(&params, &asked).await?;
    Ok(number)
}

fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn backup(name: &str) -> Result<NonAdminBackup, serde_json::Error> {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "backupSpec": {} } }))
}

fn contents(number: u64) -> Value {
    json!({ "resources": [
        { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": NAME }, "data": { "number": number.to_string() } },
        { "apiVersion": "croft.dev/v1alpha1", "kind": "BackupVault", "metadata": { "name": "backups" },
          "spec": { "quota": { "size": "1Gi", "objects": "10k" } } },
    ] })
}

fn quota(number: u64) -> Value {
    json!({ "size": (SMALLEST + number).to_string(), "objects": "1k", "buckets": 1 })
}
