//! Plans of classes that many namespaces have: few requests, and what makes all of it wait.

use anyhow::Result;
use croft_testbed::FaultProxy;
use serde_json::{Value, json};

use crate::desk::{class, config_map, define, furnished, label, plan, run, says, world};

const NAMESPACES: usize = 6;
const CHANGES: usize = 5;

fn many(name: &str, value: &str) -> Value {
    let items: Vec<_> =
        (0..CHANGES).map(|number| config_map(&format!("made-{number}"), &json!({"key": value}))).collect();
    let mut class = class(name, &json!(items));
    // Whoever has every right may plan what nobody but the operator may change.
    class["spec"]["protect"] = json!(true);
    class
}

#[tokio::test]
async fn a_plan_asks_the_api_server_once_for_each_change_and_nothing_twice() -> Result<()> {
    let world = world().await;
    define(world, &many("plan-requests", "1")).await?;
    for _ in 0..NAMESPACES {
        let namespace = world.bed.namespace("plan-requests").await?;
        label(world, &namespace, "plan-requests").await?;
        says(world, &namespace, "ReconcileSuccess").await;
    }
    let planner = world.bed.cluster_admin("plan-tests", "planner").await?;
    let proxy = FaultProxy::kubernetes(&world.bed, &planner).await?;
    let edited = many("plan-requests", "2").to_string();
    let said = crate::support::eventually("the right to plan", || async {
        proxy.clear_log();
        let said = run(proxy.kubeconfig(), &["plan", "-"], &edited).await?;
        Ok((said.code == 1).then_some(said))
    })
    .await;
    let changes = NAMESPACES * CHANGES;
    said.mentions(&[
        &format!("{NAMESPACES} namespaces: {changes} changes"),
        "change        ConfigMap/made-0: data.key",
    ]);
    let asked = proxy.log();
    let of_objects: Vec<_> = asked.iter().filter(|seen| seen.request.namespace.is_some()).collect();
    assert!(of_objects.iter().all(|seen| seen.request.verb == "patch"), "{of_objects:#?}");
    assert_eq!(of_objects.len(), changes, "{of_objects:#?}");
    let others = asked.len() - of_objects.len();
    assert!(others < 20, "{others} more requests, however many namespaces there are");
    Ok(())
}

#[tokio::test]
async fn a_plan_tells_that_an_edit_would_wait_because_it_deletes_much() -> Result<()> {
    let world = world().await;
    let guarded = |items: &[&str]| {
        let items: Vec<_> = items.iter().map(|name| config_map(name, &json!({}))).collect();
        let mut class = class("plan-guard", &json!(items));
        class["spec"]["rollout"] = json!({"maxDeletions": 1});
        class
    };
    let namespace = furnished(world, "plan-guard", &guarded(&["one", "two", "three"])).await?;
    plan(world, &guarded(&["one", "two"]), &[]).await?.ends_with_code(1);
    let emptied = guarded(&[]);
    let said = plan(world, &emptied, &[]).await?.ends_with_code(2).mentions(&[
        "class plan-guard as written would delete 3 of 3 objects, more than spec.rollout.maxDeletions allows (1)",
        "kubectl annotate namespaceclass plan-guard namespaceclass.akuity.io/confirm-deletions=",
        "1 namespace: 3 prunes",
    ]);
    let json = plan(world, &emptied, &["-o", "json"]).await?.json();
    assert!(json["guard"].as_str().is_some_and(|guard| guard.contains("would delete 3")), "{json:#}");
    // What it says is what happens: as told it waits, confirmed as told it goes.
    let confirmation = said.text.split("confirm-deletions=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let mut confirmed = emptied.clone();
    confirmed["metadata"]["annotations"] = json!({"namespaceclass.akuity.io/confirm-deletions": confirmation});
    plan(world, &confirmed, &[]).await?.ends_with_code(1);
    define(world, &confirmed).await?;
    crate::support::eventually("the objects to go", || async {
        let all = crate::desk::versions(world, &namespace).await?;
        Ok((!all.keys().any(|name| name.starts_with("ConfigMap/"))).then_some(()))
    })
    .await;
    Ok(())
}
