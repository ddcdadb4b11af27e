use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use croft_testbed::{
    FaultProxy,
    fault::{Action, Match},
    wait,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};

use crate::{SOON, all_config_maps, bed, create, exists};

/// A proxy that acts as the administrator, a client through it, one that goes straight, and a namespace to play in.
struct Scene {
    proxy: FaultProxy,
    through: Client,
    straight: Client,
    namespace: String,
}

async fn scene() -> anyhow::Result<Scene> {
    let bed = bed().await?;
    let proxy = FaultProxy::kubernetes(bed, bed.admin()).await?;
    Ok(Scene {
        through: proxy.client().await?,
        straight: bed.admin().client.clone(),
        namespace: bed.namespace("faults").await?,
        proxy,
    })
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[tokio::test]
async fn without_rules_the_proxy_changes_nothing_and_remembers_all() -> anyhow::Result<()> {
    let Scene { proxy, through, namespace, .. } = scene().await?;
    create(&through, &namespace, "a").await?;
    assert!(create(&through, &namespace, "a").await.is_err());
    assert!(exists(&through, &namespace, "a").await?);
    let log: Vec<_> = proxy.log().iter().map(|seen| (seen.request.to_string(), seen.status)).collect();
    assert_eq!(
        log,
        [
            (format!("create configmaps {namespace}/ #1"), Some(201)),
            (format!("create configmaps {namespace}/ #2"), Some(409)),
            (format!("get configmaps {namespace}/a #1"), Some(200)),
        ]
    );
    assert_eq!(proxy.writes().len(), 2);
    proxy.clear_log();
    assert!(proxy.log().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_request_dropped_before_leaves_the_world_unchanged() -> anyhow::Result<()> {
    let Scene { proxy, through, straight, namespace } = scene().await?;
    let rule = proxy.on(Match::verb("create").resource("configmaps")).before(Action::Drop);
    assert_eq!(code(&create(&through, &namespace, "lost").await.unwrap_err()), None);
    assert!(!exists(&straight, &namespace, "lost").await?);
    assert_eq!(rule.fired(), 1);
    create(&through, &namespace, "lost").await?;
    Ok(())
}

#[tokio::test]
async fn a_reply_dropped_after_leaves_the_object_committed() -> anyhow::Result<()> {
    let Scene { proxy, through, straight, namespace } = scene().await?;
    proxy.on(Match::write_number(2)).after(Action::Drop);
    create(&through, &namespace, "first").await?;
    assert_eq!(code(&create(&through, &namespace, "second").await.unwrap_err()), None);
    assert!(exists(&straight, &namespace, "second").await?);
    assert_eq!(proxy.writes()[1].fault.as_deref(), Some("after drop"));
    Ok(())
}

#[tokio::test]
async fn errors_are_answered_as_often_as_the_rule_says() -> anyhow::Result<()> {
    let Scene { proxy, through, straight, namespace } = scene().await?;
    proxy.on(Match::verb("create").nth(2)).before(Action::Status(409)).times(2);
    let mut codes = Vec::new();
    for name in ["a", "b", "c", "d"] {
        codes.push(create(&through, &namespace, name).await.err().and_then(|error| code(&error)));
    }
    assert_eq!(codes, [None, Some(409), Some(409), None]);
    assert!(!exists(&straight, &namespace, "b").await?);

    let busy = proxy.on(Match::verb("get")).before(Action::Status(429)).always();
    assert_eq!(code(&exists(&through, &namespace, "a").await.unwrap_err()), Some(429));
    assert_eq!(code(&exists(&through, &namespace, "a").await.unwrap_err()), Some(429));
    busy.remove();
    assert!(exists(&through, &namespace, "a").await?);
    Ok(())
}

#[tokio::test]
async fn lost_history_is_told_by_status_and_in_the_stream() -> anyhow::Result<()> {
    let Scene { proxy, through, namespace, .. } = scene().await?;
    let config_maps = Api::<ConfigMap>::namespaced(through, &namespace);
    proxy.on(Match::verb("list")).before(Action::Gone410);
    assert_eq!(code(&config_maps.list(&ListParams::default()).await.unwrap_err()), Some(410));

    proxy.on(Match::verb("watch")).before(Action::WatchGone410);
    let mut events = config_maps.watch(&WatchParams::default(), "0").await?.boxed();
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
    assert!(events.next().await.is_none());
    Ok(())
}

#[tokio::test]
async fn watches_stream_pause_and_expire() -> anyhow::Result<()> {
    let Scene { proxy, through, straight, namespace } = scene().await?;
    let config_maps = Api::<ConfigMap>::namespaced(through, &namespace);
    let start = config_maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let only_ours = WatchParams::default().fields("metadata.name!=kube-root-ca.crt");
    let mut events = config_maps.watch(&only_ours, &start).await?.boxed();
    create(&straight, &namespace, "live").await?;
    assert!(matches!(tokio::time::timeout(SOON, events.next()).await?, Some(Ok(WatchEvent::Added(_)))));

    proxy.pause_watches();
    create(&straight, &namespace, "late").await?;
    assert!(tokio::time::timeout(Duration::from_millis(300), events.next()).await.is_err());
    proxy.resume_watches();
    assert!(matches!(tokio::time::timeout(SOON, events.next()).await?, Some(Ok(WatchEvent::Added(_)))));

    proxy.expire_watches();
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
    Ok(())
}

#[tokio::test]
async fn the_kill_callback_runs_after_the_commit() -> anyhow::Result<()> {
    let Scene { proxy, through, straight, namespace } = scene().await?;
    let called = Arc::new(AtomicBool::new(false));
    let witness = called.clone();
    proxy.on(Match::write_number(1)).after(Action::kill(move || witness.store(true, Ordering::SeqCst)));
    assert!(create(&through, &namespace, "kept").await.is_err());
    assert!(called.load(Ordering::SeqCst));
    assert!(exists(&straight, &namespace, "kept").await?);
    Ok(())
}

#[tokio::test]
async fn a_held_request_waits_for_its_release() -> anyhow::Result<()> {
    let Scene { proxy, through, straight, namespace } = scene().await?;
    let rule = proxy.on(Match::write_number(1)).before(Action::Hold);
    let (client, place) = (through.clone(), namespace.clone());
    let held = tokio::spawn(async move { create(&client, &place, "held").await });
    wait::until_true("the request to be held", SOON, || async { Ok(rule.fired() == 1) }).await?;
    assert!(!exists(&straight, &namespace, "held").await?);
    rule.release();
    held.await??;
    assert!(exists(&straight, &namespace, "held").await?);

    proxy.on(Match::verb("get")).before(Action::Delay(Duration::from_millis(200)));
    let clock = Instant::now();
    exists(&through, &namespace, "held").await?;
    assert!(clock.elapsed() >= Duration::from_millis(200));
    Ok(())
}

#[tokio::test]
async fn a_client_certificate_works_through_the_proxy() -> anyhow::Result<()> {
    let bed = bed().await?;
    let namespace = bed.namespace("certified").await?;
    let tenant = bed.tenant("carol", &namespace, all_config_maps()).await?;
    let proxy = FaultProxy::kubernetes(bed, &tenant).await?;
    create(&proxy.client().await?, &namespace, "by-carol").await?;
    assert_eq!(code(&create(&proxy.client().await?, "default", "by-carol").await.unwrap_err()), Some(403));
    Ok(())
}
