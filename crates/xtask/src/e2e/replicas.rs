//! Replicas that come and go: an upgrade, the death of the leader, evictions.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use croft_testbed::{process, wait};
use futures::FutureExt;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams},
};

use super::{
    cluster::{Cluster, OPERATOR, SOON},
    steady::Steady,
};
use crate::{
    story::{Story, show_command, show_output},
    terminal::seconds,
};

const PODS: &str = "app.kubernetes.io/name=croft";
/// The most that may pass before another replica leads.
const AFTER_DEATH: Duration = Duration::from_secs(5);
const AFTER_GOODBYE: Duration = Duration::from_secs(1);

impl Cluster {
    pub(super) async fn never_down(&self, story: &mut Story) -> Result<()> {
        let steady = self.furnish_steadily(story).await?;
        story.begin("The chart is upgraded: every replica is replaced.");
        steady.during("during-upgrade", self.upgrade_croft().boxed()).await?;
        story.begin("The leader's pod is deleted.");
        let took = steady.during("during-deletion", self.delete_leader()).await?;
        ensure!(took <= AFTER_GOODBYE, "another replica led after {}, more than a second", seconds(took));
        story.begin("Every pod is evicted, as for the maintenance of nodes.");
        steady.during("during-eviction", self.evict_everybody().boxed()).await?;
        story.begin("The leader is killed.");
        let took = self.kill_leader().await?;
        ensure!(took <= AFTER_DEATH, "another replica led after {}, more than five seconds", seconds(took));
        self.replicas_are_settled().await
    }

    async fn furnish_steadily(&self, story: &mut Story) -> Result<Steady<'_>> {
        story.begin("From now on ten writes a second of classes, claims and backups go on, whatever happens.");
        let steady = Steady::new(self.bed.admin().client.clone(), self.bed.ceph());
        for object in Steady::furniture() {
            let told = self.bed.admin().kubectl_stdin(&["apply", "-f", "-"], &object.to_string()).await?;
            show_output(told.trim());
        }
        steady
            .during("at-rest", async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok(())
            })
            .await?;
        Ok(steady)
    }

    async fn delete_leader(&self) -> Result<Duration> {
        let leader = self.leader().await?;
        show_command("admin", &format!("kubectl delete pod {leader} -n {OPERATOR} --wait=false"));
        let clock = Instant::now();
        self.pods().delete(&leader, &DeleteParams::default()).await?;
        let took = self.another_leads(&leader, clock).await?;
        self.replicas_are_settled().await?;
        Ok(took)
    }

    /// One after the other, each when the budget allows it.
    async fn evict_everybody(&self) -> Result<()> {
        for pod in self.pods().list(&ListParams::default().labels(PODS)).await? {
            let name = pod.name_any();
            show_command("admin", &format!("kubectl drain ... # evicts {name}"));
            wait::until("the budget to allow an eviction", SOON, || async {
                Ok(self.pods().evict(&name, &EvictParams::default()).await.map(|_| Some(()))?)
            })
            .await?;
        }
        self.replicas_are_settled().await
    }

    /// As many as there should be, and none of those before is on its way out any more: until its end it may be asked.
    pub(super) async fn replicas_are_settled(&self) -> Result<()> {
        self.deployment_is_ready(OPERATOR, "croft").await?;
        wait::until_true("pods that were replaced to be gone", SOON, || async {
            let pods = self.pods().list(&ListParams::default().labels(PODS)).await?;
            Ok(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()))
        })
        .await
    }

    /// By a signal that nobody can answer.
    async fn kill_leader(&self) -> Result<Duration> {
        let leader = self.leader().await?;
        let pid = process_of(&leader).with_context(|| format!("{leader} has no process"))?;
        show_command("node", &format!("kill -s KILL {pid}   # croft in {leader}"));
        let clock = Instant::now();
        process::kill(pid.parse()?)?;
        self.another_leads(&leader, clock).await
    }

    async fn another_leads(&self, before: &str, since: Instant) -> Result<Duration> {
        let now = wait::until("another replica to lead", SOON, || async {
            let holder = self.leader().await?;
            Ok((holder != before).then_some(holder))
        })
        .await?;
        let took = since.elapsed();
        show_output(&format!("{now} leads after {}", seconds(took)));
        Ok(took)
    }

    async fn leader(&self) -> Result<String> {
        let leases = Api::<Lease>::namespaced(self.bed.admin().client.clone(), OPERATOR);
        let holder = leases.get("croft").await?.spec.and_then(|spec| spec.holder_identity);
        holder.filter(|holder| !holder.is_empty()).ok_or_else(|| anyhow!("nobody leads"))
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.bed.admin().client.clone(), OPERATOR)
    }
}

/// The process that was told that it is `replica`.
fn process_of(replica: &str) -> Option<String> {
    let told = format!("CROFT_IDENTITY={replica}\0");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut of_replica = processes.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&told)
    });
    Some(of_replica.next()?.file_name().to_string_lossy().into_owned())
}
