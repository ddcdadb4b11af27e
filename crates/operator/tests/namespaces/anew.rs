//! What cannot be changed in place is made anew where the class says so, and never before it is known that it can be.

use anyhow::Result;
use croft_api::namespaces::{AppliedState, STAMP_LABEL};
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt, api::PostParams};
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
