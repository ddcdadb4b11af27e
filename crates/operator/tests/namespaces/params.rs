//! Inputs of a class, its templates, and classes that are refused before they do anything.

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Space, condition, config_map, refusal, world},
    support::eventually,
};

const SIZE: &str = "example.com/size";

/// A class with one input, whose value is the text of the config map `made`.
fn sized(param: Value) -> Value {
    let mut param = param;
    param["name"] = "size".into();
    json!({"params": [param], "resources": [config_map("made", "{{ params.size }} of {{ namespace.name }} in {{ class.name }}")]})
}

#[tokio::test]
async fn an_annotation_beats_the_default_and_its_change_renders_anew_in_place() -> Result<()> {
    let world = world().await;
    let spec = sized(json!({"default": "small", "fromNamespaceAnnotation": SIZE}));
    Class::with_spec(world.client(), "annotated", spec).await?;
    let space = Space::of(&world.bed, "annotated", "annotated").await?;
    let text = |size: &str| format!("{size} of {} in annotated", space.name);
    let before = space.has_value("made", &text("small")).await;
    space.annotate(SIZE, Some("large")).await?;
    assert_eq!(space.has_value("made", &text("large")).await.uid(), before.uid());
    space.annotate(SIZE, None).await?;
    assert_eq!(space.has_value("made", &text("small")).await.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn a_label_beats_the_default() -> Result<()> {
    let world = world().await;
    let spec = sized(json!({"default": "small", "fromNamespaceLabel": SIZE}));
    Class::with_spec(world.client(), "labelled", spec).await?;
    let space = Space::new(&world.bed, "labelled").await?;
    space.merge(json!({"metadata": {"labels": {SIZE: "medium"}}})).await?;
    space.label(Some("labelled")).await?;
    space.has_value("made", &format!("medium of {} in labelled", space.name)).await;
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_not_allowed_is_named_and_changes_nothing() -> Result<()> {
    let world = world().await;
    let spec = sized(json!({"default": "small", "enum": ["small", "large"], "fromNamespaceAnnotation": SIZE}));
    let class = Class::with_spec(world.client(), "bad-value", spec).await?;
    let space = Space::of(&world.bed, "bad-value", "bad-value").await?;
    space.follows(&class).await;
    let before = space.has("made").await;
    past_the_door(&space, "gigantic").await?;
    let binding = space.says("InvalidParameter").await;
    let message = condition(&binding, "Ready").unwrap().message;
    for part in ["parameter size", "gigantic", SIZE, "small", "large"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    assert_eq!(condition(&binding, "Stalled").unwrap().status, "True");
    assert_eq!(space.has("made").await.resource_version(), before.resource_version(), "untouched");
    class
        .status("a failing namespace", |status| {
            status
                .failing
                .first()
                .is_some_and(|failing| failing.namespace == space.name && failing.reason == "InvalidParameter")
        })
        .await;
    space.annotate(SIZE, Some("large")).await?;
    space.has_value("made", &format!("large of {} in bad-value", space.name)).await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_not_allowed_stops_nothing_the_class_enforces() -> Result<()> {
    let world = world().await;
    let spec = |more: Option<Value>| {
        let mut spec = sized(json!({"enum": ["small", "large"], "fromNamespaceAnnotation": SIZE}));
        spec["resources"].as_array_mut().expect("a list").extend(more);
        spec
    };
    let class = Class::with_spec(world.client(), "still-enforced", spec(None)).await?;
    let space = Space::new(&world.bed, "still-enforced").await?;
    space.annotate(SIZE, Some("large")).await?;
    space.label(Some("still-enforced")).await?;
    let binding = space.follows(&class).await;
    assert_eq!(binding.status.unwrap().params["size"], "large", "on record");
    // Past the door: whoever writes the status of a Namespace may annotate it.
    past_the_door(&space, "gigantic").await?;
    let binding = space.says("InvalidParameter").await;
    assert!(condition(&binding, "Ready").unwrap().message.contains("\"large\" stays in force"));
    let text = format!("large of {} in still-enforced", space.name);
    space.edit("made", "somebody", json!({"data": {"key": "drifted"}})).await?;
    space.has_value("made", &text).await;
    class.set_spec(spec(Some(config_map("more", "1")))).await?;
    space.has("more").await;
    assert_eq!(space.says("InvalidParameter").await.status.unwrap().params["size"], "large");
    space.label(None).await?;
    space.is_unbound().await;
    space.lacks("made").await;
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_not_allowed_is_refused_at_the_door_and_only_when_it_changes() -> Result<()> {
    let world = world().await;
    let integer = json!({
        "name": "port", "type": "integer", "minimum": 1, "maximum": 9, "default": "5", "fromNamespaceAnnotation": "example.com/port",
    });
    let text = json!({"name": "zone", "pattern": "[a-z]+", "default": "a", "fromNamespaceLabel": "example.com/zone"});
    let class = Class::with_spec(world.client(), "at-the-door", json!({"params": [integer, text]})).await?;
    let space = Space::of(&world.bed, "at-the-door", "at-the-door").await?;
    space.follows(&class).await;
    for (patch, told) in [
        (
            json!({"annotations": {"example.com/port": "12"}}),
            vec!["parameter port", "example.com/port", "12", "1", "9"],
        ),
        (json!({"annotations": {"example.com/port": "1.5"}}), vec!["parameter port", "1.5"]),
        (json!({"labels": {"example.com/zone": "A1"}}), vec!["parameter zone", "example.com/zone", "A1", "[a-z]+"]),
    ] {
        let message = eventually("the door to be shut", || async {
            match space.merge(json!({"metadata": patch})).await {
                Err(error) if error.to_string().contains("croft-class-params") => Ok(Some(error.to_string())),
                Err(error) => Err(error),
                Ok(()) => Ok(None),
            }
        })
        .await;
        assert!(told.iter().all(|part| message.contains(part)), "{message}");
    }
    space.annotate("example.com/port", Some("7")).await?;
    // One that was let in when it was allowed is in nobody's way, and does not keep the Namespace from being written.
    class.set_spec(json!({"params": [{
        "name": "port", "type": "integer", "maximum": 5, "default": "5", "fromNamespaceAnnotation": "example.com/port",
    }]})).await?;
    space.says("InvalidParameter").await;
    space.annotate("example.com/other", Some("x")).await?;
    let other = Space::new(&world.bed, "other-door").await?;
    other.annotate("example.com/port", Some("99")).await?;
    Ok(())
}

/// Changes the annotation by a way the policy leaves alone.
async fn past_the_door(space: &Space, size: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {SIZE: size}}}));
    space.namespaces().patch_status(&space.name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn a_missing_value_is_asked_for_and_applied_when_it_comes() -> Result<()> {
    let world = world().await;
    Class::with_spec(world.client(), "no-value", sized(json!({"fromNamespaceAnnotation": SIZE}))).await?;
    let space = Space::of(&world.bed, "no-value", "no-value").await?;
    let binding = space.says("InvalidParameter").await;
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains("parameter size has no value") && message.contains(SIZE), "{message}");
    space.annotate(SIZE, Some("large")).await?;
    space.has_value("made", &format!("large of {} in no-value", space.name)).await;
    Ok(())
}

#[tokio::test]
async fn an_integer_arrives_as_a_number() -> Result<()> {
    let world = world().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "door"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": "{{ params.port }}"}]},
    });
    let port = json!({"name": "port", "type": "integer", "minimum": 1, "maximum": 65535, "default": "80", "fromNamespaceAnnotation": "example.com/port"});
    let class = Class::with_spec(world.client(), "typed", json!({"params": [port], "resources": [service]})).await?;
    let space = Space::new(&world.bed, "typed").await?;
    space.annotate("example.com/port", Some("8080")).await?;
    space.label(Some("typed")).await?;
    space.follows(&class).await;
    let ports = space.api::<Service>().get("door").await?.spec.unwrap().ports.unwrap();
    assert_eq!(ports[0].port, 8080);
    Ok(())
}

#[tokio::test]
async fn everything_wrong_with_a_class_is_told_at_once_when_it_is_applied() -> Result<()> {
    let message = refusal(
        "all-wrong",
        json!({
            "params": [{"name": "p", "pattern": "("}, {"name": "q", "default": "x", "type": "integer"}],
            "namespaceMetadata": {"labels": {"namespaceclass.akuity.io/class": "x", "tier": "not a value"}},
            "resources": [
                config_map("twice", "{{ params.unknown }}"),
                config_map("twice", "{{ namespace.name"),
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}},
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}},
                {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"name": "l"}, "items": []},
            ],
        }),
    )
    .await;
    for part in [
        "spec.params[0].pattern",
        "spec.params[1].default",
        "spec.namespaceMetadata.labels",
        "spec.resources[0].data.key",
        "unknown",
        "spec.resources[1].data.key",
        "ConfigMap/twice is in the class twice",
        "ServiceAccount/default",
        "a class cannot make namespaces",
        "spec.resources[4]: Forbidden: ClusterRole is not namespaced",
        "\"not a value\" cannot be the value of a label",
        "a list is not an object",
    ] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    Ok(())
}

#[tokio::test]
async fn the_schema_alone_refuses_items_without_identity_and_more_than_a_hundred() -> Result<()> {
    let message = refusal(
        "no-identity",
        json!({"resources": [
            {"apiVersion": "v1", "metadata": {"name": "a"}},
            {"kind": "ConfigMap", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "elsewhere"}},
        ]}),
    )
    .await;
    for part in [
        "kind is required",
        "apiVersion is required",
        "metadata.name is required",
        "generateName is not allowed",
        "metadata.namespace is not allowed",
    ] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    let many: Vec<_> = (0..101).map(|number| config_map(&format!("n{number}"), "")).collect();
    let message = refusal("too-many", json!({"resources": many})).await;
    assert!(message.contains("100"), "{message}");
    let both = sized(json!({"default": "a", "fromNamespaceAnnotation": "a", "fromNamespaceLabel": "a"}));
    let message = refusal("both-sources", both).await;
    assert!(message.contains("fromNamespaceAnnotation or fromNamespaceLabel, not both"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_template_that_does_not_fit_the_namespace_stops_nothing_else_the_class_enforces() -> Result<()> {
    let world = world().await;
    let noted = config_map("noted", "{{ namespace.annotations['example.com/note'] }}");
    let spec = json!({"resources": [config_map("made", "1"), noted]});
    let class = Class::with_spec(world.client(), "misfit", spec).await?;
    let space = Space::new(&world.bed, "misfit").await?;
    space.annotate("example.com/note", Some("x")).await?;
    space.label(Some("misfit")).await?;
    space.follows(&class).await;
    let noted = space.has_value("noted", "x").await;
    space.annotate("example.com/note", None).await?;
    let binding = space.says("InvalidClass").await;
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains("the namespace has no annotation example.com/note; set it"), "{message}");
    space.edit("made", "tenant", json!({"data": {"key": "hers"}})).await?;
    space.has_value("made", "1").await;
    space.config_maps().delete("made", &DeleteParams::default()).await?;
    space.has_value("made", "1").await;
    let kept = space.has("noted").await;
    assert_eq!((kept.uid(), kept.resource_version()), (noted.uid(), noted.resource_version()), "it stays as it is");
    space.annotate("example.com/note", Some("y")).await?;
    space.follows(&class).await;
    assert_eq!(space.has_value("noted", "y").await.uid(), noted.uid());
    Ok(())
}

#[tokio::test]
async fn a_class_that_makes_two_names_one_takes_nothing_away_where_it_was_applied_before() -> Result<()> {
    let world = world().await;
    // A template that is fine in general and makes two names one in a namespace called like this.
    let class = Class::define(world.client(), "clash", &[("made", "1")]).await?;
    let space = Space::of(&world.bed, "clash", "clash").await?;
    space.follows(&class).await;
    let before = space.has("made").await;
    class.set(&[("{{ namespace.name }}", "2"), (&space.name, "2")]).await?;
    let binding = space.says("InvalidClass").await;
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains("twice"), "{message}");
    let after = space.has("made").await;
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()), "nothing pruned");
    Ok(())
}
