//! Two replicas: one writes, the other takes over in time, and a leader that slept too long writes nothing.

use std::time::{Duration, Instant};

use anyhow::Result;
use croft_testbed::{
    Testbed,
    fault::FaultProxy,
    product::{Installed, Operator},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::{
    support::{PATIENCE, World, eventually},
    tenant::{ask, define_class, served},
};

async fn holder(bed: &Testbed) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(bed.admin().client.clone(), "croft-system");
    let lease = api.get_opt("croft").await.ok().flatten()?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

async fn led_by(bed: &Testbed, name: &str) {
    eventually(&format!("{name} to lead"), || async { Ok((holder(bed).await.as_deref() == Some(name)).then_some(())) })
        .await;
}

/// A leader called `first` and a standby called `second`, both ready.
async fn two_replicas(bed: &Testbed, installed: &Installed) -> Result<(Operator, Operator)> {
    let kubeconfig = &installed.identity.kubeconfig;
    let first = installed.start(bed, "first", kubeconfig, &[])?;
    first.ready(PATIENCE).await?;
    led_by(bed, "first").await;
    let second = installed.start(bed, "second", kubeconfig, &[])?;
    second.ready(PATIENCE).await?;
    Ok((first, second))
}

#[tokio::test]
async fn a_standby_writes_within_5_s_of_the_leaders_death_and_within_1_s_of_its_leaving() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let (first, second) = two_replicas(&bed, &installed).await?;
    define_class(&bed).await?;
    ask(&bed, "before").await?;
    served(&bed, "before").await;

    first.process.kill();
    let died = Instant::now();
    ask(&bed, "after-kill").await?;
    served(&bed, "after-kill").await;
    let takeover = died.elapsed();
    assert!(takeover <= Duration::from_secs(5), "took over after {takeover:?}");

    led_by(&bed, "second").await;
    let third = installed.start(&bed, "third", &installed.identity.kubeconfig, &[])?;
    third.ready(PATIENCE).await?;
    second.process.terminate();
    let left = Instant::now();
    ask(&bed, "after-term").await?;
    served(&bed, "after-term").await;
    let handover = left.elapsed();
    assert!(handover <= Duration::from_secs(1), "handed over after {handover:?}");
    let status = second.process.wait(PATIENCE).expect("a terminated replica ends");
    assert!(status.success(), "an orderly end is exit code 0, not {status}");
    Ok(())
}

#[tokio::test]
async fn a_leader_stopped_past_its_lease_and_woken_changes_nothing() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let sleeper = installed.start(&bed, "sleeper", proxy.kubeconfig(), &[])?;
    sleeper.ready(PATIENCE).await?;
    led_by(&bed, "sleeper").await;
    define_class(&bed).await?;
    let standby = installed.start(&bed, "standby", &installed.identity.kubeconfig, &[])?;
    standby.ready(PATIENCE).await?;

    for round in 0..3 {
        led_by(&bed, "sleeper").await;
        let name = format!("round-{round}");
        sleeper.process.stop();
        ask(&bed, &name).await?;
        served(&bed, &name).await;
        led_by(&bed, "standby").await;
        proxy.clear_log();
        sleeper.process.cont();
        // It is awake and has looked at the world when it follows the lease again.
        let leads_again = eventually("the sleeper to see it no longer leads", || async {
            let metrics = sleeper.metrics().await?;
            let sees = metrics.contains("croft_leading 0") && !proxy.log().is_empty();
            Ok(if sees { Some(false) } else { (holder(&bed).await.as_deref() == Some("sleeper")).then_some(true) })
        })
        .await;
        // On a machine too busy for the standby to renew its lease in time.
        if leads_again {
            continue;
        }
        // What was on its way when it was stopped may arrive; it was made of an older world, and is refused.
        let mut writes = proxy.writes();
        writes.retain(|write| write.status.is_some_and(|status| status < 400));
        assert!(writes.is_empty(), "a woken leader wrote: {writes:#?}");
        if round < 2 {
            // Give the lease back for another round.
            standby.process.stop();
            led_by(&bed, "sleeper").await;
            standby.process.cont();
        }
    }
    Ok(())
}
