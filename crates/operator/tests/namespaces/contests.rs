//! Somebody else enforces another value of what a class sets: nobody wins, but it is no fight at the pace of the API server.

use std::time::Duration;

use anyhow::Result;
use kube::ResourceExt;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    scene::{Class, Proxied, Space, condition, config_map, proxied},
    support::PATIENCE,
};

const LABEL: &str = "pod-security.kubernetes.io/enforce";

/// How long our writes are counted.
const WATCHED: Duration = Duration::from_secs(10);

/// A namespace that has a label and a config map `made` of a class.
async fn furnished(name: &str) -> Result<(&'static Proxied, Space)> {
    let proxied = proxied().await;
    let spec = json!({
        "resources": [config_map("made", "ours")], "namespaceMetadata": {"labels": {LABEL: "baseline"}},
    });
    let class = Class::with_spec(proxied.client(), name, spec).await?;
    let space = Space::of(&proxied.bed, name, name).await?;
    space.follows(&class).await;
    Ok((proxied, space))
}

fn same(space: &Space) -> Space {
    Space { client: space.client.clone(), name: space.name.clone() }
}

/// Our patches of one object while somebody undoes them.
async fn patches(proxied: &Proxied, resource: &str, name: &str) -> usize {
    let mark = proxied.proxy.log().len();
    tokio::time::sleep(WATCHED).await;
    let log = proxied.proxy.log();
    let ours = log.iter().skip(mark).map(|seen| &seen.request).filter(|request| request.verb == "patch");
    ours.filter(|request| request.resource == resource && request.name.as_deref() == Some(name)).count()
}

async fn label_of(space: &Space) -> Result<Option<String>> {
    Ok(space.namespaces().get(&space.name).await?.labels().get(LABEL).cloned())
}

#[tokio::test]
async fn a_label_somebody_else_enforces_is_contested_and_ours_when_they_stop() -> Result<()> {
    let (proxied, space) = furnished("contested-label").await?;
    let other = same(&space);
    let fight = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            if label_of(&other).await.is_ok_and(|label| label.as_deref() == Some("baseline")) {
                let _ = other.merge(json!({"metadata": {"labels": {LABEL: "privileged"}}})).await;
            }
        }
    }));
    let patches = patches(proxied, "namespaces", &space.name).await;
    assert!((1..10).contains(&patches), "{patches} patches");
    let binding = space.says("Contested").await;
    let message = condition(&binding, "Ready").expect("it says so").message;
    assert!(message.contains(&format!("Namespace/{}: changed again and again", space.name)), "{message}");
    fight.abort();
    assert!(fight.await.is_err(), "they have stopped");
    space.merge(json!({"metadata": {"labels": {LABEL: "privileged"}}})).await?;
    ends(&space, || async { Ok(label_of(&space).await?.as_deref() == Some("baseline")) }).await
}

#[tokio::test]
async fn an_object_somebody_else_enforces_is_contested_and_ours_when_they_stop() -> Result<()> {
    let (proxied, space) = furnished("contested-object").await?;
    let other = same(&space);
    let is_ours = |space: Space| async move {
        let data = space.config_maps().get("made").await?.data.unwrap_or_default();
        anyhow::Ok(data.get("key").is_some_and(|value| value == "ours"))
    };
    let fight = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            if is_ours(same(&other)).await.is_ok_and(|ours| ours) {
                let _ = other.edit("made", "rival", json!({"data": {"key": "theirs"}})).await;
            }
        }
    }));
    let patches = patches(proxied, "configmaps", "made").await;
    assert!((1..10).contains(&patches), "{patches} patches");
    let binding = space.says("Contested").await;
    let message = condition(&binding, "Ready").expect("it says so").message;
    assert!(message.contains("ConfigMap/made: changed again and again by field manager rival"), "{message}");
    fight.abort();
    assert!(fight.await.is_err(), "they have stopped");
    space.edit("made", "rival", json!({"data": {"key": "theirs"}})).await?;
    ends(&space, || is_ours(same(&space))).await
}

/// The right value stands within a minute, and it is said that all is well when it has stood for a while.
async fn ends<F>(space: &Space, is_right: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    croft_testbed::wait::until("the class to have its way", PATIENCE * 2, || async {
        Ok(is_right().await?.then_some(()))
    })
    .await?;
    croft_testbed::wait::until("all to be well", PATIENCE * 2, || async {
        let binding = space.bindings().get(&space.name).await?;
        Ok(condition(&binding, "Ready").filter(|ready| ready.reason == "ReconcileSuccess").map(drop))
    })
    .await
}
