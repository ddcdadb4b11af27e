//! What a class may choose: each policy against its default.

use anyhow::{Result, ensure};
use croft_api::namespaces::{AppliedState, CLASS_LABEL, PROTECTED_LABEL, STAMP_LABEL};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Secret};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Space, applied, condition, config_map, gone, make, world},
    support::eventually,
};

/// One config map `made` under a policy.
fn spec(policy: &Value, value: &str) -> Value {
    json!({"policy": policy, "resources": [config_map("made", value)]})
}

/// A namespace that has all of a class with this policy.
async fn furnished(name: &str, policy: &Value) -> Result<(Class, Space)> {
    let world = world().await;
    let class = Class::with_spec(world.client(), name, spec(policy, "1")).await?;
    let space = Space::of(&world.bed, name, name).await?;
    space.follows(&class).await;
    Ok((class, space))
}

fn is_nobodys<K: Resource>(object: &K) -> bool {
    object.owner_references().is_empty()
        && !object.labels().contains_key(STAMP_LABEL)
        && !object.labels().contains_key(PROTECTED_LABEL)
}

#[tokio::test]
async fn an_adopted_object_is_kept_in_step_and_released_when_the_namespace_leaves() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "adopt").await?;
    let mut foreign = config_map("made", "theirs");
    foreign["data"]["mine"] = "stays".into();
    let before = space.stranger_makes(foreign).await?;
    let class = Class::with_spec(world.client(), "adopt", spec(&json!({"onConflict": "Adopt"}), "1")).await?;
    space.label(Some("adopt")).await?;
    let binding = space.follows(&class).await;
    assert!(applied(&binding, "made").unwrap().adopted);
    let adopted = space.has_value("made", "1").await;
    assert_eq!((adopted.uid(), adopted.owner_references()[0].controller), (before.uid(), Some(true)));
    assert_eq!(adopted.data.unwrap()["mine"], "stays");
    space.label(None).await?;
    space.is_unbound().await;
    let released = space.has("made").await;
    assert_eq!(released.uid(), before.uid(), "never deleted");
    assert!(is_nobodys(&released), "{released:?}");
    Ok(())
}

#[tokio::test]
async fn an_adopted_object_that_the_class_drops_is_released() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "adopt-drop").await?;
    let before = space.stranger_makes(config_map("made", "theirs")).await?;
    let policy = json!({"onConflict": "Adopt"});
    let class = Class::with_spec(world.client(), "adopt-drop", spec(&policy, "1")).await?;
    space.label(Some("adopt-drop")).await?;
    space.follows(&class).await;
    class.set_spec(json!({"policy": policy, "resources": [config_map("other", "1")]})).await?;
    eventually("the object to be nobody's", || async {
        let object = space.config_maps().get("made").await?;
        ensure!(object.uid() == before.uid(), "never deleted");
        Ok(is_nobodys(&object).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn an_adopted_object_that_somebody_deletes_is_made_by_us_and_then_goes_with_us() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "adopt-gone").await?;
    let before = space.stranger_makes(config_map("made", "theirs")).await?;
    let class = Class::with_spec(world.client(), "adopt-gone", spec(&json!({"onConflict": "Adopt"}), "1")).await?;
    space.label(Some("adopt-gone")).await?;
    space.follows(&class).await;
    space.config_maps().delete("made", &DeleteParams::default()).await?;
    eventually("our own object", || async {
        let binding = space.bindings().get(&space.name).await?;
        let made = space.config_maps().get("made").await?;
        let entry = applied(&binding, "made").unwrap_or_default();
        Ok((made.uid() != before.uid() && entry.uid == made.uid() && !entry.adopted).then_some(()))
    })
    .await;
    space.label(None).await?;
    space.lacks("made").await;
    Ok(())
}

#[tokio::test]
async fn an_object_of_another_controller_is_never_adopted() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "controlled").await?;
    let owner = space.stranger_makes(config_map("owner", "")).await?;
    let mut foreign = config_map("made", "theirs");
    foreign["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true,
    }]);
    let before = space.stranger_makes(foreign).await?;
    Class::with_spec(world.client(), "controlled", spec(&json!({"onConflict": "Adopt"}), "1")).await?;
    space.label(Some("controlled")).await?;
    let binding = space.says("Conflict").await;
    eventually("the reason to name the controller", || async {
        let binding = space.bindings().get(&space.name).await?;
        let entry = applied(&binding, "made").unwrap_or_default();
        Ok(entry.message.filter(|message| message.contains("another controller")))
    })
    .await;
    assert!(!applied(&binding, "made").unwrap().adopted);
    assert_eq!(space.has("made").await.resource_version(), before.resource_version(), "untouched");
    Ok(())
}

#[tokio::test]
async fn drift_is_only_reported_where_the_class_says_so() -> Result<()> {
    let (class, space) = furnished("drift-report", &json!({"onDrift": "Report"})).await?;
    let edited = space.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    let binding = space.says("Drifted").await;
    assert_eq!(applied(&binding, "made").unwrap().state, AppliedState::Drifted);
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains("field manager \"somebody\" changed data.key"), "{message}");
    assert_eq!(space.has("made").await.resource_version(), edited.resource_version(), "left as it is");
    space.event("Drifted").await;
    // Put back by hand, it is as the class wants it, and seen when it drifts again.
    space.edit("made", "somebody", json!({"data": {"key": "1"}})).await?;
    space.says("ReconcileSuccess").await;
    space.edit("made", "somebody", json!({"data": {"key": "edited again"}})).await?;
    space.says("Drifted").await;
    // A change of the class is a new wish: it is carried out.
    class.set_spec(spec(&json!({"onDrift": "Report"}), "2")).await?;
    space.has_value("made", "2").await;
    space.follows(&class).await;
    Ok(())
}

const TIER: &str = "example.com/tier";

async fn tier(space: &Space) -> Result<Option<String>> {
    Ok(space.namespaces().get(&space.name).await?.labels().get(TIER).cloned())
}

/// A namespace with a label of its own that its class sets otherwise.
async fn labelled_before(name: &str, policy: &Value) -> Result<Space> {
    let world = world().await;
    let spec = json!({"policy": policy, "namespaceMetadata": {"labels": {TIER: "gold", "example.com/other": "1"}}});
    Class::with_spec(world.client(), name, spec).await?;
    let space = Space::new(&world.bed, name).await?;
    space.merge(json!({"metadata": {"labels": {TIER: "tin"}}})).await?;
    space.label(Some(name)).await?;
    Ok(space)
}

#[tokio::test]
async fn a_label_that_somebody_has_set_before_is_refused_and_the_others_are_set() -> Result<()> {
    let space = labelled_before("label-taken", &json!({})).await?;
    let binding = space.says("Conflict").await;
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains(TIER) && message.contains("tin") && message.contains("onConflict"), "{message}");
    eventually("the other label", || async {
        Ok(space.namespaces().get(&space.name).await?.labels().get("example.com/other").cloned())
    })
    .await;
    assert_eq!(tier(&space).await?.as_deref(), Some("tin"));
    space.merge(json!({"metadata": {"labels": {TIER: null}}})).await?;
    space.says("ReconcileSuccess").await;
    assert_eq!(tier(&space).await?.as_deref(), Some("gold"));
    Ok(())
}

#[tokio::test]
async fn a_label_that_is_taken_over_is_put_back_when_the_namespace_leaves() -> Result<()> {
    let space = labelled_before("label-adopted", &json!({"onConflict": "Adopt"})).await?;
    space.says("ReconcileSuccess").await;
    assert_eq!(tier(&space).await?.as_deref(), Some("gold"));
    space.label(None).await?;
    space.is_unbound().await;
    assert_eq!(tier(&space).await?.as_deref(), Some("tin"));
    let left = space.namespaces().get(&space.name).await?;
    assert!(!left.labels().contains_key("example.com/other"), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn on_a_switch_the_labels_of_the_old_class_go_last() -> Result<()> {
    let world = world().await;
    let labelled = json!({"namespaceMetadata": {"labels": {TIER: "gold"}}, "resources": [config_map("old", "1")]});
    let old = Class::with_spec(world.client(), "labels-old", labelled).await?;
    Class::define(world.client(), "labels-new", &[("taken", "1"), ("new", "1")]).await?;
    let space = Space::of(&world.bed, "labels-switch", "labels-old").await?;
    space.follows(&old).await;
    let theirs = space.stranger_makes(config_map("taken", "theirs")).await?;
    space.label(Some("labels-new")).await?;
    let binding = space.says("Conflict").await;
    space.has("new").await;
    assert_eq!(tier(&space).await?.as_deref(), Some("gold"), "as long as not all of the new class stands");
    let waits = applied(&binding, "old").unwrap_or_default().message.unwrap_or_default();
    assert!(waits.contains("waits for ConfigMap/taken"), "{waits}");
    space.config_maps().delete(&theirs.name_any(), &DeleteParams::default()).await?;
    space.says("ReconcileSuccess").await;
    space.lacks("old").await;
    assert_eq!(tier(&space).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_value_that_the_api_server_writes_otherwise_is_no_drift_once_it_is_back() -> Result<()> {
    let world = world().await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"}, "spec": {"hard": {"requests.cpu": "1000m"}},
    });
    let spec = json!({"policy": {"onDrift": "Report"}, "resources": [quota]});
    let class = Class::with_spec(world.client(), "normalised", spec).await?;
    let space = Space::of(&world.bed, "normalised", "normalised").await?;
    space.follows(&class).await;
    let quotas = space.api::<ResourceQuota>();
    let set = async |cpu: &str| -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"hard": {"requests.cpu": cpu}}}));
        quotas.patch("limits", &PatchParams::default(), &patch).await?;
        Ok(())
    };
    for back in ["1", "1000m"] {
        set("2").await?;
        space.says("Drifted").await;
        set(back).await?;
        space.says("ReconcileSuccess").await;
    }
    Ok(())
}

/// A Secret, whose type can never be changed.
fn secret(policy: &Value, kind: &str) -> Value {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": kind, "stringData": {"a": "b"}});
    json!({"policy": policy, "resources": [secret, config_map("made", kind)]})
}

#[tokio::test]
async fn a_change_that_cannot_be_made_in_place_is_reported_and_the_rest_is_applied() -> Result<()> {
    let world = world().await;
    let class = Class::with_spec(world.client(), "immutable", secret(&json!({}), "example.com/one")).await?;
    let space = Space::of(&world.bed, "immutable", "immutable").await?;
    space.follows(&class).await;
    let secrets = space.api::<Secret>();
    let before = secrets.get("s").await?;
    class.set_spec(secret(&json!({}), "example.com/two")).await?;
    let binding = space.says("ApplyFailed").await;
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains("Secret/s"), "{message}");
    let entry = applied(&binding, "s").unwrap();
    assert_eq!(entry.state, AppliedState::Failed);
    let told = entry.message.clone().unwrap_or_default();
    assert!(told.contains("cannot be changed in place") && told.contains("onImmutable: Recreate"), "{entry:?}");
    space.has_value("made", "example.com/two").await;
    assert_eq!(secrets.get("s").await?.resource_version(), before.resource_version());
    class.set_spec(secret(&json!({}), "example.com/one")).await?;
    space.follows(&class).await;
    Ok(())
}

#[tokio::test]
async fn a_change_that_cannot_be_made_in_place_makes_the_object_anew_where_the_class_says_so() -> Result<()> {
    let world = world().await;
    let policy = json!({"onImmutable": "Recreate"});
    let class = Class::with_spec(world.client(), "recreate", secret(&policy, "example.com/one")).await?;
    let space = Space::of(&world.bed, "recreate", "recreate").await?;
    space.follows(&class).await;
    let secrets = space.api::<Secret>();
    let before = secrets.get("s").await?;
    class.set_spec(secret(&policy, "example.com/two")).await?;
    space.follows(&class).await;
    let after = secrets.get("s").await?;
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.type_.as_deref(), Some("example.com/two"));
    Ok(())
}

#[tokio::test]
async fn an_adopted_object_is_not_deleted_to_be_made_anew() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "recreate-adopted").await?;
    let secrets = space.api::<Secret>();
    let theirs = json!({"metadata": {"name": "s"}, "type": "example.com/theirs", "stringData": {"a": "theirs"}});
    let before = make(&secrets, theirs).await?;
    let policy = json!({"onConflict": "Adopt", "onImmutable": "Recreate"});
    Class::with_spec(world.client(), "recreate-adopted", secret(&policy, "example.com/ours")).await?;
    space.label(Some("recreate-adopted")).await?;
    space.says("ApplyFailed").await;
    space.has_value("made", "example.com/ours").await;
    assert_eq!(secrets.get("s").await?.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn orphans_stay_when_a_namespace_leaves_a_class_that_says_so() -> Result<()> {
    let (_, space) = furnished("orphan", &json!({"onUnbind": "Orphan"})).await?;
    let before = space.has("made").await;
    space.label(None).await?;
    space.is_unbound().await;
    let after = space.has("made").await;
    assert_eq!((after.uid(), after.data.clone()), (before.uid(), before.data));
    assert!(is_nobodys(&after), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn orphans_stay_when_a_namespace_switches_to_another_class() -> Result<()> {
    let (_, space) = furnished("orphan-from", &json!({"onUnbind": "Orphan"})).await?;
    let before = space.has("made").await;
    let next = Class::define(world().await.client(), "orphan-to", &[("next", "1")]).await?;
    space.label(Some("orphan-to")).await?;
    space.follows(&next).await;
    let after = space.has("made").await;
    assert_eq!(after.uid(), before.uid());
    assert!(is_nobodys(&after), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn orphans_stay_although_the_class_that_was_left_is_deleted_before_the_next_one_stands() -> Result<()> {
    let (class, space) = furnished("orphan-left", &json!({"onUnbind": "Orphan"})).await?;
    let before = space.has("made").await;
    space.stranger_makes(config_map("taken", "theirs")).await?;
    let next = Class::define(world().await.client(), "orphan-next", &[("taken", "1")]).await?;
    space.label(Some("orphan-next")).await?;
    space.says("Conflict").await;
    class.api.delete("orphan-left", &DeleteParams::default()).await?;
    eventually("the class to say whom it waits for", || async {
        let status = class.api.get("orphan-left").await?.status.unwrap_or_default();
        Ok(status.conditions.iter().any(|said| said.message.contains(&space.name)).then_some(()))
    })
    .await;
    space.config_maps().delete("taken", &DeleteParams::default()).await?;
    space.follows(&next).await;
    let after = space.has("made").await;
    assert!(after.uid() == before.uid() && is_nobodys(&after), "{after:?}");
    gone(&class.api, "orphan-left").await;
    Ok(())
}

#[tokio::test]
async fn orphans_stay_when_their_class_is_deleted_and_says_so() -> Result<()> {
    let (class, space) = furnished("orphan-class", &json!({"onClassDelete": "Orphan"})).await?;
    let before = space.has("made").await;
    class.delete().await?;
    space.is_unbound().await;
    let after = space.has("made").await;
    assert_eq!(after.uid(), before.uid());
    assert!(is_nobodys(&after), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn orphans_stay_however_soon_after_their_class_said_so_it_is_deleted() -> Result<()> {
    let (class, space) = furnished("orphan-soon", &json!({})).await?;
    let before = space.has("made").await;
    class.set_spec(spec(&json!({"onClassDelete": "Orphan"}), "1")).await?;
    let mut answer = class.api.delete("orphan-soon", &DeleteParams::default()).await;
    if let Err(refused) = &answer {
        assert!(refused.to_string().contains("does not hold it yet: try again in a moment"), "{refused}");
        eventually("the class to be held", || async {
            let class = class.api.get("orphan-soon").await?;
            Ok((!class.finalizers().is_empty()).then_some(()))
        })
        .await;
        answer = class.api.delete("orphan-soon", &DeleteParams::default()).await;
    }
    answer?;
    space.is_unbound().await;
    let after = space.has("made").await;
    assert_eq!(after.uid(), before.uid());
    assert!(is_nobodys(&after), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn a_class_that_blocks_its_deletion_stays_until_nobody_uses_it() -> Result<()> {
    let (class, space) = furnished("block", &json!({"onClassDelete": "Block"})).await?;
    let before = space.has("made").await;
    class.api.delete("block", &DeleteParams::default()).await?;
    let binding = space.says("ClassDeleting").await;
    assert_eq!(condition(&binding, "Stalled").unwrap().status, "True");
    assert_eq!(space.has("made").await.uid(), before.uid());
    let late = Space::of(&world().await.bed, "block-late", "block").await?;
    let told = late.event("ClassDeleting").await;
    assert!(told.contains("NamespaceClass block is being deleted"), "{told}");
    class
        .status("named whom it waits for", |status| {
            let waits = status.conditions.iter().find(|condition| condition.reason == "ClassDeleting");
            waits.is_some_and(|waits| waits.message.contains(&space.name))
        })
        .await;
    assert!(late.bindings().get_opt(&late.name).await?.is_none(), "a class on its way out takes nobody in");
    space.label(None).await?;
    space.lacks("made").await;
    gone(&class.api, "block").await;
    Ok(())
}

#[tokio::test]
async fn protect_marks_every_object_and_its_end_unmarks_them_in_place() -> Result<()> {
    let world = world().await;
    let with = |protect: bool| json!({"protect": protect, "resources": [config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "protect", with(true)).await?;
    let space = Space::of(&world.bed, "protect", "protect").await?;
    space.follows(&class).await;
    let marked = space.has("made").await;
    assert_eq!(marked.labels()[PROTECTED_LABEL], "true");
    class.set_spec(with(false)).await?;
    space.follows(&class).await;
    let after = space.has("made").await;
    assert_eq!(after.uid(), marked.uid());
    assert!(!after.labels().contains_key(PROTECTED_LABEL) && after.labels().contains_key(STAMP_LABEL));
    Ok(())
}

/// A class with nothing but labels and annotations for the Namespace.
fn metadata(labels: Value, annotations: Value) -> Value {
    json!({"namespaceMetadata": {"labels": labels, "annotations": annotations}, "resources": []})
}

/// Waits until the Namespace has exactly these of the labels and annotations under `example.com/`.
async fn marked(space: &Space, wanted: &[(&str, &str)]) {
    eventually(&format!("the Namespace to have {wanted:?}"), || async {
        let namespace = space.namespaces().get(&space.name).await?;
        let all = namespace.labels().iter().chain(namespace.annotations());
        let mut found: Vec<_> =
            all.filter_map(|(key, value)| Some((key.strip_prefix("example.com/")?, value.as_str()))).collect();
        found.sort_unstable();
        ensure!(found == wanted, "it has {found:?}");
        Ok(Some(()))
    })
    .await;
}

#[tokio::test]
async fn labels_and_annotations_of_the_namespace_are_set_healed_and_taken_away() -> Result<()> {
    let world = world().await;
    let spec = metadata(json!({"example.com/a": "1", "example.com/b": "1"}), json!({"example.com/c": "1"}));
    let class = Class::with_spec(world.client(), "metadata", spec).await?;
    let space = Space::of(&world.bed, "metadata", "metadata").await?;
    space.follows(&class).await;
    marked(&space, &[("a", "1"), ("b", "1"), ("c", "1")]).await;
    space.merge(json!({"metadata": {"labels": {"example.com/a": "2", "example.com/mine": "1"}, "annotations": {"example.com/c": null}}})).await?;
    marked(&space, &[("a", "1"), ("b", "1"), ("c", "1"), ("mine", "1")]).await;
    // One of several that the class no longer sets.
    class.set_spec(metadata(json!({"example.com/a": "1"}), json!({"example.com/c": "1"}))).await?;
    marked(&space, &[("a", "1"), ("c", "1"), ("mine", "1")]).await;
    space.label(None).await?;
    space.is_unbound().await;
    marked(&space, &[("mine", "1")]).await;
    Ok(())
}

#[tokio::test]
async fn a_switch_replaces_the_labels_of_the_namespace() -> Result<()> {
    let world = world().await;
    let one = metadata(json!({"example.com/both": "1", "example.com/one": "1"}), json!({}));
    let one = Class::with_spec(world.client(), "metadata-one", one).await?;
    let two =
        Class::with_spec(world.client(), "metadata-two", metadata(json!({"example.com/both": "1"}), json!({}))).await?;
    let space = Space::of(&world.bed, "metadata-switch", "metadata-one").await?;
    space.follows(&one).await;
    space.label(Some("metadata-two")).await?;
    space.follows(&two).await;
    marked(&space, &[("both", "1")]).await;
    let namespace = space.namespaces().get(&space.name).await?;
    assert_eq!(namespace.labels()[CLASS_LABEL], "metadata-two");
    Ok(())
}

#[tokio::test]
async fn a_label_the_api_server_refuses_does_not_keep_the_objects_back() -> Result<()> {
    let world = world().await;
    let mut spec = metadata(json!({"example.com/no/key": "1"}), json!({}));
    spec["resources"] = json!([config_map("made", "1")]);
    Class::with_spec(world.client(), "metadata-bad", spec).await?;
    let space = Space::of(&world.bed, "metadata-bad", "metadata-bad").await?;
    let binding = space.says("ApplyFailed").await;
    assert!(condition(&binding, "Ready").unwrap().message.contains("example.com/no/key"));
    let made: ConfigMap = space.has("made").await;
    assert_eq!(made.name_any(), "made");
    Ok(())
}
