//! What an operator must live through, and how quiet it is when nothing happens.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::Result;
use croft_api::velero::Backup;
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match},
};
use kube::{Api, api::ListParams};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    support::{PATIENCE, World, apply, eventually},
    tenant::{ask, define_class, served},
};

#[tokio::test]
async fn an_api_server_restart_is_survived() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    define_class(&world.bed).await?;
    ask(&world.bed, "before").await?;
    served(&world.bed, "before").await;
    world.bed.restart_api_server().await?;
    ask(&world.bed, "after").await?;
    served(&world.bed, "after").await;
    world.operator.process.ensure_running()?;
    Ok(())
}

#[tokio::test]
async fn an_expired_version_is_survived_in_the_stream_and_as_an_answer() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "own", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;

    proxy.expire_watches();
    ask(&bed, "in-stream").await?;
    served(&bed, "in-stream").await;

    let gone = proxy.on(Match::verb("watch").resource("namespaces")).before(Action::Gone410).times(3);
    proxy.cut_watches();
    ask(&bed, "as-answer").await?;
    served(&bed, "as-answer").await;
    assert!(gone.fired() > 0, "the answer 410 was really given");

    bed.compact_etcd().await?;
    bed.restart_api_server().await?;
    ask(&bed, "compacted").await?;
    served(&bed, "compacted").await;
    Ok(())
}

#[tokio::test]
async fn errors_of_the_api_server_delay_but_never_lose_work() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "own", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    for code in [409, 429, 500, 503] {
        let name = format!("answer-{code}");
        let rule = proxy.on(Match::write().namespace(&name)).before(Action::Status(code)).times(2);
        ask(&bed, &name).await?;
        served(&bed, &name).await;
        assert!(rule.fired() > 0, "{code} was really answered");
    }
    let lost = proxy.on(Match::write().namespace("lost-reply")).after(Action::Drop).times(3);
    ask(&bed, "lost-reply").await?;
    served(&bed, "lost-reply").await;
    assert!(lost.fired() > 0);
    Ok(())
}

#[tokio::test]
async fn one_undecodable_object_does_not_stop_the_others_of_its_kind() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    define_class(&world.bed).await?;
    ask(&world.bed, "before").await?;
    served(&world.bed, "before").await;
    // An older or newer schema lets objects in that this version cannot read.
    let admin = world.bed.admin();
    let loose = json!({"spec": {"versions": [{
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]}});
    admin.kubectl(&["patch", "crd", "namespaceclasses.akuity.io", "--type=merge", "-p", &loose.to_string()]).await?;
    admin.kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    let broken = json!({"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "broken"},
                        "spec": {"resources": "not a list"}});
    eventually("the broken class to be let in", || async {
        let made = world
            .bed
            .admin()
            .kubectl_stdin(&["apply", "--server-side", "--validate=false", "-f", "-"], &broken.to_string())
            .await;
        Ok(Some(made?))
    })
    .await;
    ask(&world.bed, "after").await?;
    served(&world.bed, "after").await;
    let metrics = world.operator.metrics().await?;
    assert!(metrics.contains("croft_undecodable_objects_total"), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn at_rest_nothing_is_requested_but_the_lease() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "own", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    for name in ["one", "two", "three"] {
        ask(&bed, name).await?;
        served(&bed, name).await;
    }
    // Settled when a whole window passes without a write; then a longer one, in which what fails would be tried again, must show
    // nothing but the lease.
    let window = Duration::from_secs(3);
    eventually("a window without writes", || async {
        proxy.clear_log();
        tokio::time::sleep(window).await;
        Ok(proxy.writes().is_empty().then_some(()))
    })
    .await;
    proxy.clear_log();
    tokio::time::sleep(window * 7).await;
    let asked: BTreeSet<_> = proxy.log().into_iter().map(|seen| (seen.request.verb, seen.request.resource)).collect();
    let others: Vec<_> = asked.iter().filter(|(_, resource)| !resource.ends_with("leases")).collect();
    assert!(others.is_empty(), "requests at rest: {others:?}");
    Ok(())
}

/// Backups that name no location are Velero's default one's.
const VELEROS_LOCATION: &str = "backup: {defaultLocation: Allow}";

#[tokio::test]
async fn a_part_whose_kinds_are_missing_waits_and_starts_when_they_appear() -> Result<()> {
    let world = World::own_with(Testbed::kubernetes(), VELEROS_LOCATION).await?;
    let (is_ready, detail) = world.operator.readiness().await?;
    assert!(is_ready && detail.contains("waiting for the CRD backups.velero.io"), "{detail}");
    assert!(world.operator.metrics().await?.contains("croft_part_waiting{part=\"backup\"} 1"));
    define_class(&world.bed).await?;
    ask(&world.bed, "shop").await?;
    served(&world.bed, "shop").await;

    world.bed.install_velero_crds().await?;
    eventually("the backup part to start", || async {
        let (_, detail) = world.operator.readiness().await?;
        let metrics = world.operator.metrics().await?;
        Ok((!detail.contains("waiting") && metrics.contains("croft_part_waiting{part=\"backup\"} 0")).then_some(()))
    })
    .await;
    let request = "{apiVersion: oadp.openshift.io/v1alpha1, kind: NonAdminBackup, \
                   metadata: {name: nightly, namespace: shop}, spec: {backupSpec: {}}}";
    apply(world.bed.admin(), request).await?;
    let backups: Api<Backup> = Api::namespaced(world.client(), "velero");
    let made = eventually("the request to be handed to Velero", || async {
        Ok(backups.list(&ListParams::default()).await?.items.pop())
    })
    .await;
    assert_eq!(made.spec.0.0["includedNamespaces"], json!(["shop"]));
    Ok(())
}

#[tokio::test]
async fn an_object_nested_too_deeply_to_be_read_disturbs_nobody_else() -> Result<()> {
    let world = World::own_with(Testbed::kubernetes(), VELEROS_LOCATION).await?;
    world.bed.install_velero_crds().await?;
    let admin = world.bed.admin();
    for namespace in ["hers", "his"] {
        admin.kubectl(&["create", "namespace", namespace]).await?;
    }
    // At the door it would be refused; what is stored may have come in while nobody stood there.
    admin.kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
    let request = |namespace: &str, hooks: &str| {
        let body = format!(
            r#"{{"apiVersion":"oadp.openshift.io/v1alpha1","kind":"NonAdminBackup",
                "metadata":{{"name":"nightly"}},"spec":{{"backupSpec":{{"hooks":{hooks}}}}}}}"#
        );
        let path = format!("/apis/oadp.openshift.io/v1alpha1/namespaces/{namespace}/nonadminbackups");
        let request = http::Request::post(path).header("Content-Type", "application/json").body(body.into_bytes());
        let client = admin.client.clone();
        async move { anyhow::Ok(client.request_text(request?).await?) }
    };
    request("hers", &deep).await?;
    request("his", "{}").await?;
    let backups: Api<Backup> = Api::namespaced(world.client(), "velero");
    let made = eventually("the other one's backup to be handed to Velero", || async {
        Ok(backups.list(&ListParams::default()).await?.items.pop())
    })
    .await;
    assert_eq!(made.spec.0.0["includedNamespaces"], json!(["his"]));
    let (is_ready, detail) = world.operator.readiness().await?;
    assert!(is_ready, "{detail}");
    Ok(())
}

#[tokio::test]
async fn objects_as_large_as_they_come_are_listed_in_smaller_pages() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "first", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    for number in 0..12 {
        let data = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"},
                          "data": {"text": "x".repeat(900_000)}});
        let class = json!({"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass",
                           "metadata": {"name": format!("large-{number}")}, "spec": {"resources": [data]}});
        apply(bed.admin(), &class.to_string()).await?;
    }
    drop(operator);
    proxy.clear_log();
    let operator = installed.start(&bed, "second", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    ask(&bed, "after").await?;
    served(&bed, "after").await;
    let log = proxy.log();
    let pages =
        log.iter().filter(|seen| seen.request.verb == "list" && seen.request.resource.ends_with("/namespaceclasses"));
    assert!(pages.count() >= 3, "the first page was given up and the others were smaller: {log:#?}");
    Ok(())
}

#[tokio::test]
async fn who_opens_a_thousand_connections_keeps_nobody_else_from_asking_how_it_is() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let address: SocketAddr = world.operator.health.trim_start_matches("http://").parse()?;
    let mut silent = Vec::new();
    for _ in 0..1000 {
        let socket = TcpSocket::new_v4()?;
        socket.bind("127.0.0.2:0".parse()?)?;
        silent.push(socket.connect(address).await?);
    }
    assert!(world.operator.readiness().await?.0);
    assert!(world.operator.metrics().await?.contains("croft_leading"));
    Ok(())
}
