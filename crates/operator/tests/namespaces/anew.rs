//! What cannot be changed in place is made anew where the class says so, and never before it is known that it can be.

use std::time::Duration;

use anyhow::Result;
use croft_api::namespaces::{AppliedState, STAMP_LABEL};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::scene::{Class, Space, applied, condition, config_map, world};

fn spec(resource: Value) -> Value {
    json!({"policy": {"onImmutable": "Recreate"}, "protect": true, "resources": [resource]})
}

/// A namespace that has all of a class with this one object, then the class with another form of it.
async fn changed(name: &str, from: Value, to: Value) -> Result<Space> {
    let world = world().await;
    let class = Class::with_spec(world.client(), name, spec(from)).await?;
    let space = Space::of(&world.bed, name, name).await?;
    space.follows(&class).await;
    class.set_spec(spec(to)).await?;
    Ok(space)
}

fn same<K: Resource>(before: &K, after: &K) -> bool {
    (before.meta().uid.as_ref(), before.meta().resource_version.as_ref())
        == (after.meta().uid.as_ref(), after.meta().resource_version.as_ref())
}

#[tokio::test]
async fn a_refused_value_that_speaks_of_immutability_deletes_nothing() -> Result<()> {
    let mut bad = config_map("made", "1");
    bad["data"] = json!({"field is immutable!": "no such key can be"});
    let space = changed("echoed", config_map("made", "1"), bad).await?;
    let binding = space.says("ApplyFailed").await;
    let before = space.has_value("made", "1").await;
    let message = condition(&binding, "Ready").map(|ready| ready.message).unwrap_or_default();
    assert!(message.contains("field is immutable!") && !message.contains("in place"), "{message}");
    space.annotate("reconcile", Some("again")).await?;
    assert!(same(&before, &space.has_value("made", "1").await));
    Ok(())
}

#[tokio::test]
async fn what_would_not_be_accepted_anew_is_not_deleted() -> Result<()> {
    let secret = |kind: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made"}, "type": kind, "stringData": data});
    let good = secret("example.com/one", json!({"a": "b"}));
    // Its type cannot be changed, and one of the new type must have a key that this one lacks.
    let space = changed("unacceptable", good, secret("kubernetes.io/ssh-auth", json!({"a": "b"}))).await?;
    let secrets = space.api::<Secret>();
    let before = secrets.get("made").await?;
    let told = crate::support::eventually("it to be told", || async {
        let binding = space.bindings().get(&space.name).await?;
        let entry = applied(&binding, "made").unwrap_or_default();
        let message = entry.message.unwrap_or_default();
        Ok((entry.state == AppliedState::Failed && message.contains("would not be accepted anew")).then_some(message))
    })
    .await;
    assert!(told.contains("ssh-privatekey") && told.contains("change the class"), "{told}");
    assert!(same(&before, &secrets.get("made").await?), "untouched");
    assert_eq!(before.labels().len(), 2, "and still protected");
    Ok(())
}

#[tokio::test]
async fn what_is_replaced_and_cannot_be_changed_in_place_is_made_anew() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "replaced-anew").await?;
    let secrets = space.api::<Secret>();
    let hers = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made", "finalizers": ["example.com/mine"]},
        "type": "example.com/hers", "stringData": {"a": "hers"},
    });
    let before = secrets.create(&PostParams::default(), &serde_json::from_value(hers)?).await?;
    let made = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made"}, "stringData": {"a": "b"}});
    let policy = json!({"onConflict": "Replace", "onImmutable": "Recreate"});
    let class =
        Class::with_spec(world.client(), "replaced-anew", json!({"policy": policy, "resources": [made]})).await?;
    space.label(Some("replaced-anew")).await?;
    space.follows(&class).await;
    let after = secrets.get("made").await?;
    assert!(after.uid() != before.uid() && after.type_.as_deref() == Some("Opaque"), "{after:?}");
    assert!(after.finalizers().is_empty());
    Ok(())
}

#[tokio::test]
async fn what_was_made_to_look_like_ours_and_locked_is_made_anew_whoever_holds_it() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "locked-before").await?;
    let mut hers = config_map("made", "hers");
    hers["metadata"]["labels"] = json!({STAMP_LABEL: "locked-before"});
    hers["metadata"]["finalizers"] = json!(["example.com/mine"]);
    hers["immutable"] = json!(true);
    let before = space.stranger_makes(hers).await?;
    let spec = json!({"policy": {"onImmutable": "Recreate"}, "resources": [config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "locked-before", spec).await?;
    space.label(Some("locked-before")).await?;
    space.follows(&class).await;
    assert_ne!(space.has_value("made", "1").await.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn what_is_made_to_look_like_ours_is_made_anew_whoever_holds_it_again_and_again() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "held-again").await?;
    let mut hers = config_map("made", "hers");
    hers["metadata"]["labels"] = json!({STAMP_LABEL: "held-again"});
    hers["metadata"]["finalizers"] = json!(["example.com/mine"]);
    hers["immutable"] = json!(true);
    let before = space.stranger_makes(hers).await?;
    let (config_maps, uid) = (space.config_maps(), before.uid());
    let holds = tokio::spawn(async move {
        let hold = json!({"metadata": {"uid": uid, "finalizers": ["example.com/mine"]}});
        loop {
            // Refused once it is being deleted, or is another one.
            let _ = config_maps.patch("made", &PatchParams::default(), &Patch::Merge(&hold)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let spec = json!({"policy": {"onImmutable": "Recreate"}, "resources": [config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "held-again", spec).await?;
    space.label(Some("held-again")).await?;
    space.follows(&class).await;
    holds.abort();
    assert_ne!(space.has_value("made", "1").await.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn what_a_class_drops_from_what_nobody_can_change_goes_once_the_class_says_how() -> Result<()> {
    let world = world().await;
    let spec = |policy: Value, data: Value, other: &str| {
        let mut locked = config_map("made", "1");
        (locked["immutable"], locked["data"]) = (json!(true), data);
        json!({"policy": policy, "resources": [locked, config_map("other", other)]})
    };
    let class =
        Class::with_spec(world.client(), "locked-drop", spec(json!({}), json!({"a": "1", "b": "1"}), "1")).await?;
    let space = Space::of(&world.bed, "locked-drop", "locked-drop").await?;
    let has = |binding| applied(&binding, "made").unwrap_or_default();
    space.follows(&class).await;
    // Tried once, and again with the next form.
    for turn in ["2", "3"] {
        class.set_spec(spec(json!({}), json!({"a": "1"}), turn)).await?;
        space.has_value("other", turn).await;
    }
    let told = has(space.says("ApplyFailed").await).message.unwrap_or_default();
    assert!(told.contains("cannot be changed in place") && told.contains("onImmutable: Recreate"), "{told}");
    class.set_spec(spec(json!({"onImmutable": "Recreate"}), json!({"a": "1"}), "3")).await?;
    space.follows(&class).await;
    let left = space.has("made").await.data.unwrap_or_default();
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["a"]);
    Ok(())
}

#[tokio::test]
async fn what_was_there_first_and_cannot_be_changed_is_told_with_what_makes_it_anew() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "replaced-type").await?;
    let secrets = space.api::<Secret>();
    let secret = |kind: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made"}, "type": kind, "stringData": {"a": "b"}});
    let before = secrets.create(&PostParams::default(), &serde_json::from_value(secret("example.com/hers"))?).await?;
    let spec = |policy: Value| json!({"policy": policy, "resources": [secret("Opaque")]});
    let class = Class::with_spec(world.client(), "replaced-type", spec(json!({"onConflict": "Replace"}))).await?;
    space.label(Some("replaced-type")).await?;
    let binding = space.says("ApplyFailed").await;
    let message = condition(&binding, "Ready").map(|ready| ready.message).unwrap_or_default();
    assert!(message.contains("Secret/made") && message.contains("policy.onImmutable: Recreate"), "{message}");
    assert!(same(&before, &secrets.get("made").await?), "untouched");
    class.set_spec(spec(json!({"onConflict": "Replace", "onImmutable": "Recreate"}))).await?;
    space.follows(&class).await;
    assert_eq!(secrets.get("made").await?.type_.as_deref(), Some("Opaque"));
    Ok(())
}
