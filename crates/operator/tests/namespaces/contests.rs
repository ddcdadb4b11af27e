//! Somebody else enforces another value of what a class sets: nobody wins, but it is no fight at the pace of the API server.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, ResourceExt, api::ListParams};
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
    assert!(
        message.contains("ConfigMap/made: changed again and again by field manager \"rival\" at data.key"),
        "{message}"
    );
    fight.abort();
    assert!(fight.await.is_err(), "they have stopped");
    space.edit("made", "rival", json!({"data": {"key": "theirs"}})).await?;
    ends(&space, || is_ours(same(&space))).await
}

#[tokio::test]
async fn a_change_that_was_put_right_is_told_with_who_made_it_and_where() -> Result<()> {
    let (_, space) = furnished("corrected").await?;
    for round in 0..3 {
        space.edit("made", "somebody", json!({"data": {"key": format!("theirs {round}")}})).await?;
        space.has_value("made", "ours").await;
    }
    let told = space.event("DriftCorrected").await;
    assert_eq!(told, "ConfigMap/made: field manager \"somebody\" changed data.key; put right");
    let events: Api<Event> = Api::namespaced(space.client.clone(), &space.name);
    let all = events.list(&ListParams::default().fields("reason=DriftCorrected")).await?;
    assert_eq!(all.items.len(), 1, "one in a minute");
    Ok(())
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
