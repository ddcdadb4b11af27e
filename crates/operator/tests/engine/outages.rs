//! What must not stop the operator for longer than it lasts: missing rights, a lost lease, an end in the middle of work.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use croft_api::{Condition, namespaces::NamespaceClassBinding, storage::S3UserClaim};
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match, Seen},
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;

use crate::{
    support::{PATIENCE, World, apply, eventually},
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
    // Events are told as far as there is time.
    let is_work = |seen: &Seen| seen.request.namespace.as_deref() == Some("slow") && seen.request.is_deliberate_write();
    let write = log.iter().rposition(is_work).context("the write")?;
    assert!(log[write].status.is_some_and(|status| status < 300), "it was carried out: {log:#?}");
    let leases: Api<Lease> = Api::namespaced(bed.admin().client.clone(), "croft-system");
    let holder = leases.get("croft").await?.spec.and_then(|spec| spec.holder_identity);
    assert!(holder.is_none_or(|holder| holder.is_empty()), "the lease is free");
    let released = log.iter().rposition(|seen| seen.request.resource.ends_with("leases")).context("the lease")?;
    assert!(released > write, "and was released after the write");
    Ok(())
}

#[tokio::test]
async fn what_a_new_setting_allows_is_done_without_another_change() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let file = bed.dir().join("croft.yaml");
    std::fs::write(&file, "namespaces: {systemNamespaces: [held]}\n")?;
    let path = file.to_string_lossy().into_owned();
    let operator = installed.start(&bed, "own", &installed.identity.kubeconfig, &["--config", &path])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    ask(&bed, "held").await?;
    ask(&bed, "free").await?;
    served(&bed, "free").await;
    let made: Api<ConfigMap> = Api::namespaced(bed.admin().client.clone(), "held");
    assert!(made.get_opt("made").await?.is_none());
    std::fs::write(&file, "namespaces: {systemNamespaces: []}\n")?;
    served(&bed, "held").await;
    Ok(())
}

#[tokio::test]
async fn a_class_that_could_never_be_read_lets_its_namespaces_go_when_it_is_deleted() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let admin = world.bed.admin();
    let loose = json!({"spec": {"versions": [{
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]}});
    admin.kubectl(&["patch", "crd", "namespaceclasses.akuity.io", "--type=merge", "-p", &loose.to_string()]).await?;
    admin.kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    // The namespace asks first: what waits for a class hears of it however it is written.
    ask(&world.bed, "bound").await?;
    let broken = json!({"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "small"},
                        "spec": {"resources": "not a list"}});
    eventually("the broken class to be let in", || async {
        let arguments = ["apply", "--server-side", "--validate=false", "-f", "-"];
        Ok(Some(admin.kubectl_stdin(&arguments, &broken.to_string()).await?))
    })
    .await;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(admin.client.clone(), "bound");
    eventually("the binding", || async { Ok(bindings.get_opt("bound").await?) }).await;
    admin.kubectl(&["delete", "namespaceclass", "small"]).await?;
    eventually("the binding to go", || async { Ok(bindings.get_opt("bound").await?.is_none().then_some(())) }).await;
    Ok(())
}

#[tokio::test]
async fn a_class_that_cannot_be_read_at_the_start_takes_nothing_away() -> Result<()> {
    unreadable_class_takes_nothing_away(true).await
}

#[tokio::test]
async fn a_class_that_can_no_longer_be_read_is_not_obeyed_as_it_was() -> Result<()> {
    unreadable_class_takes_nothing_away(false).await
}

/// It becomes unreadable while the operator is down, or before its eyes: then what it said before must not count.
async fn unreadable_class_takes_nothing_away(while_down: bool) -> Result<()> {
    let bed = Testbed::kubernetes();
    let (bed, installed) = World::installed(bed).await?;
    let start = |name: &str| installed.start(&bed, name, &installed.identity.kubeconfig, &[]);
    let mut operator = start("first")?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    let admin = bed.admin();
    ask(&bed, "kept").await?;
    served(&bed, "kept").await;
    if while_down {
        operator.process.kill();
        operator.process.wait(PATIENCE).context("it is dead")?;
    }
    let loose = json!({"spec": {"versions": [{
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]}});
    admin.kubectl(&["patch", "crd", "namespaceclasses.akuity.io", "--type=merge", "-p", &loose.to_string()]).await?;
    admin.kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    eventually("the class to become unreadable", || async {
        let odd = r#"{"spec":{"priority":"very high","resources":[{"odd":1}],"params":"none","policy":{"onUnbind":"Orphan"}}}"#;
        Ok(Some(admin.kubectl(&["patch", "namespaceclass", "small", "--type=merge", "-p", odd]).await?))
    })
    .await;
    if while_down {
        operator = start("second")?;
        operator.ready(PATIENCE).await?;
    }
    admin.kubectl(&["label", "namespace", "kept", "namespaceclass.akuity.io/name-"]).await?;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(admin.client.clone(), "kept");
    eventually("the binding to wait for its class", || async {
        let conditions = bindings.get("kept").await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().any(|condition| condition.reason == "ClassUnreadable").then_some(()))
    })
    .await;
    // In one step, and with the policy it has: whatever it said in between would be obeyed.
    let readable = r#"{"spec":{"priority":null,"params":null,"resources":[]}}"#;
    admin.kubectl(&["patch", "namespaceclass", "small", "--type=merge", "-p", readable]).await?;
    eventually("the binding to go", || async { Ok(bindings.get_opt("kept").await?.is_none().then_some(())) }).await;
    let made: Api<ConfigMap> = Api::namespaced(admin.client.clone(), "kept");
    let made = made.get("made").await?;
    assert!(made.owner_references().is_empty() && made.metadata.deletion_timestamp.is_none());
    Ok(())
}

/// A class of storage whose gateway takes connections and never says a word.
#[tokio::test]
async fn a_silent_gateway_slows_no_namespace() -> Result<()> {
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let endpoint = format!("http://{}", silent.local_addr()?);
    let _held = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            connections.push(connection);
        }
    }));
    let world = World::own(Testbed::kubernetes()).await?;
    let admin = world.bed.admin();
    define_class(&world.bed).await?;
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "silent", "namespace": "croft-system"},
               "stringData": {"accessKey": "a", "secretKey": "b"}}),
        json!({"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Class", "metadata": {"name": "silent"},
               "spec": {"endpoint": endpoint, "region": "x", "tenantPrefix": "x", "adminSecret": {"name": "silent"}}}),
    ];
    objects.extend((0..64).map(|number| {
        json!({"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim",
               "metadata": {"name": format!("claim-{number}"), "namespace": "default"},
               "spec": {"s3ClassName": "silent", "adminSecretName": format!("admin-{number}"), "readSecretName": format!("read-{number}")}})
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    eventually("the claims", || async { Ok(Some(apply(admin, &list).await?)) }).await;
    let claims: Api<S3UserClaim> = Api::namespaced(admin.client.clone(), "default");
    eventually("the claims to wait for their class", || async {
        let all = claims.list(&ListParams::default()).await?.items;
        let waits = |it: &Condition| it.type_ == "Ready" && it.reason == "ClassNotReady";
        let waiting = all.iter().filter(|claim| claim.status.iter().flat_map(|it| &it.conditions).any(waits));
        Ok((waiting.count() == 64).then_some(()))
    })
    .await;
    for number in 0..5 {
        let name = format!("quick-{number}");
        let begun = Instant::now();
        ask(&world.bed, &name).await?;
        served(&world.bed, &name).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    Ok(())
}
