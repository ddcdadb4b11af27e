//! What must not stop the operator for longer than it lasts: missing rights, a lost lease, an end in the middle of work.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::{
    support::{PATIENCE, World, eventually},
    tenant::{ask, define_class, served},
};

/// Processor time used so far, in hundredths of a second.
fn used(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<_> = stat.rsplit_once(')').context("a name")?.1.split_whitespace().collect();
    Ok(fields.get(11).context("utime")?.parse::<u64>()? + fields.get(12).context("stime")?.parse::<u64>()?)
}

#[tokio::test]
async fn rights_that_are_missing_for_a_while_when_watches_resume_stop_nothing_for_good() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "own", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    ask(&bed, "before").await?;
    served(&bed, "before").await;
    let refused = proxy.on(Match::verb("watch")).before(Action::Status(403)).always();
    proxy.cut_watches();
    eventually("the operator to say what is missing", || async {
        let (ready, detail) = operator.readiness().await?;
        Ok((!ready && detail.contains("not allowed")).then_some(()))
    })
    .await;
    refused.remove();
    operator.ready(PATIENCE).await?;
    ask(&bed, "after").await?;
    served(&bed, "after").await;
    Ok(())
}

#[tokio::test]
async fn a_replica_that_lost_its_lease_rests_until_it_leads_again() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "own", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    // A key that failed waits for its retry.
    let failing = proxy.on(Match::write().namespace("waiting")).before(Action::Status(500)).always();
    ask(&bed, "waiting").await?;
    eventually("a failure", || async { Ok((failing.fired() > 2).then_some(())) }).await;
    let no_lease = proxy.on(Match::any().resource("leases")).before(Action::Status(500)).always();
    eventually("the lease to be lost", || async {
        Ok(operator.metrics().await?.contains("croft_leading 0").then_some(()))
    })
    .await;
    let before = used(operator.process.pid())?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = used(operator.process.pid())? - before;
    assert!(spent < 100, "{spent} hundredths of a second of processor time in 3 seconds of rest");
    no_lease.remove();
    failing.remove();
    served(&bed, "waiting").await;
    Ok(())
}

#[tokio::test]
async fn the_lease_is_handed_over_after_the_last_write_has_ended() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "own", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    let slow = proxy
        .on(Match::verb("create").resource("configmaps").namespace("slow"))
        .before(Action::Delay(Duration::from_secs(5)));
    ask(&bed, "slow").await?;
    eventually("the write to be under way", || async { Ok((slow.fired() > 0).then_some(())) }).await;
    operator.process.terminate();
    let asked = Instant::now();
    let status = operator.process.wait(PATIENCE).context("it ends")?;
    assert!(
        status.success() && asked.elapsed() > Duration::from_secs(3),
        "ended after {:?}: {status}",
        asked.elapsed()
    );
    let log = proxy.log();
    let write = log.iter().rposition(|seen| seen.request.namespace.as_deref() == Some("slow")).context("the write")?;
    assert_eq!(log[write].status, Some(201), "it was carried out");
    let leases: Api<Lease> = Api::namespaced(bed.admin().client.clone(), "croft-system");
    let holder = leases.get("croft").await?.spec.and_then(|spec| spec.holder_identity);
    assert!(holder.is_none_or(|holder| holder.is_empty()), "the lease is free");
    let released = log.iter().rposition(|seen| seen.request.resource.ends_with("leases")).context("the lease")?;
    assert!(released > write, "and was released after the write");
    Ok(())
}
