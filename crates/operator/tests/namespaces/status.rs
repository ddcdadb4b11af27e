//! What bindings and classes tell: conditions, counts, columns, events.

use anyhow::{Context, Result};
use croft_api::namespaces::{AppliedResource, AppliedState, MAX_FAILING_LISTED, NamespaceClassBinding};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::{
    scene::{Class, Space, applied, condition, config_map, world},
    support::eventually,
};

#[tokio::test]
async fn a_binding_tells_which_class_it_has_and_every_object_of_it() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "told", &[("one", "1"), ("two", "2")]).await?;
    let space = Space::of(&world.bed, "told", "told").await?;
    let binding = space.follows(&class).await;
    let (status, of) = (binding.status.clone().unwrap(), class.api.get("told").await?);
    assert_eq!(status.observed_generation, binding.metadata.generation);
    assert_eq!(status.observed_class_name.as_deref(), Some("told"));
    assert_eq!((status.observed_class_uid, status.observed_class_generation), (of.uid(), of.metadata.generation));
    for name in ["one", "two"] {
        let entry = applied(&binding, name).unwrap();
        let object = space.has(name).await;
        assert_eq!((entry.api_version.as_str(), entry.kind.as_str(), entry.uid), ("v1", "ConfigMap", object.uid()));
        assert_eq!((entry.state, entry.message, entry.adopted), (AppliedState::Applied, None, false));
        assert!(entry.digest.is_some_and(|digest| digest.split('.').count() == 4));
    }
    let of = |kind: &str| condition(&binding, kind).map(|condition| (condition.status, condition.reason)).unwrap();
    assert_eq!(of("Ready"), ("True".into(), "ReconcileSuccess".into()));
    assert_eq!((of("Reconciling").0.as_str(), of("Stalled").0.as_str()), ("False", "False"));
    let ready = condition(&binding, "Ready").unwrap();
    assert_eq!(ready.message, "Successfully applied 2 resources from class told");
    assert_eq!(ready.observed_generation, binding.metadata.generation);
    Ok(())
}

/// A binding is ours: however much it has come to tell, it stays in our hands.
#[tokio::test]
async fn a_binding_larger_than_what_tenants_may_make_is_looked_after() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "large", &[("made", "1")]).await?;
    let space = Space::of(&world.bed, "large", "large").await?;
    space.follows(&class).await;
    // As we would have written it, since nobody else may.
    let own: Api<NamespaceClassBinding> = Api::namespaced(world.installed.identity.client.clone(), &space.name);
    let stored = eventually("it to tell much", || async {
        let mut binding = space.bindings().get(&space.name).await?;
        let status = binding.status.as_mut().context("a status")?;
        let entry = status.applied_resources.first().cloned().context("an object")?;
        let more = |number: usize| AppliedResource {
            name: format!("refused-{number}"),
            uid: None,
            state: AppliedState::Failed,
            message: Some("no ".repeat(333)),
            ..entry.clone()
        };
        status.applied_resources.extend((0..400).map(more));
        Ok(Some(own.replace_status(&space.name, &PostParams::default(), &binding).await?))
    })
    .await;
    assert!(serde_json::to_string(&stored)?.len() > 300_000);
    eventually("it to tell what is there", || async {
        let status = space.bindings().get(&space.name).await?.status.context("a status")?;
        Ok((status.applied_resources.len() == 1).then_some(()))
    })
    .await;
    space.label(None).await?;
    space.is_unbound().await;
    Ok(())
}

#[tokio::test]
async fn what_happens_is_told_in_events_once() -> Result<()> {
    let world = world().await;
    let one = Class::define(world.client(), "events-one", &[("made", "1")]).await?;
    let two = Class::define(world.client(), "events-two", &[("made", "2")]).await?;
    let space = Space::of(&world.bed, "events", "events-one").await?;
    space.follows(&one).await;
    assert_eq!(space.event("BindingCreated").await, "bound to class events-one");
    assert_eq!(space.event("ReconcileSucceeded").await, "Successfully applied 1 resources from class events-one");
    space.label(Some("events-two")).await?;
    space.follows(&two).await;
    assert_eq!(space.event("BindingUpdated").await, "bound to class events-two instead of events-one");
    two.set(&[("made", "3")]).await?;
    space.has_value("made", "3").await;
    space.follows(&two).await;
    let events: Api<Event> = Api::all(world.client());
    let told = events.list(&ListParams::default()).await?;
    let of = |reason: &str| {
        let ours = told
            .iter()
            .filter(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(&space.name));
        ours.filter(|event| event.reason.as_deref() == Some(reason)).count()
    };
    assert_eq!((of("BindingCreated"), of("BindingUpdated"), of("ReconcileSucceeded")), (1, 1, 1));
    Ok(())
}

#[tokio::test]
async fn a_class_counts_its_namespaces_and_names_those_that_fail() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "counted", &[("made", "1"), ("other", "1")]).await?;
    let mut spaces = Vec::new();
    for number in 0..3 {
        spaces.push(Space::of(&world.bed, &format!("counted-{number}"), "counted").await?);
    }
    let blocked = Space::new(&world.bed, "counted-bad").await?;
    blocked.stranger_makes(config_map("made", "theirs")).await?;
    blocked.label(Some("counted")).await?;
    let counted = class
        .status("3 ready and 1 failing", |status| {
            status.ready_namespaces == Some(3) && status.failing_namespaces == Some(1)
        })
        .await;
    let status = counted.status.clone().unwrap();
    assert_eq!((status.resources, status.bound_namespaces), (Some(2), Some(4)));
    assert_eq!(status.observed_generation, counted.metadata.generation);
    assert_eq!(
        (status.failing[0].namespace.as_str(), status.failing[0].reason.as_str()),
        (blocked.name.as_str(), "Conflict")
    );
    let of = |kind: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        (found.status.clone(), found.reason.clone())
    };
    assert_eq!(of("Accepted"), ("True".into(), "Valid".into()));
    assert_eq!(of("Ready"), ("False".into(), "RollingOut".into()));
    assert_eq!(status.kinds.iter().map(|kind| kind.resource.as_str()).collect::<Vec<_>>(), ["configmaps"]);

    blocked.label(None).await?;
    class.set(&[("made", "2")]).await?;
    let rolled = class
        .status("the new generation everywhere", |status| {
            status.bound_namespaces == Some(3)
                && status.updated_namespaces == Some(3)
                && status.ready_namespaces == Some(3)
        })
        .await;
    let status = rolled.status.unwrap();
    assert_eq!((status.failing_namespaces, status.failing.len()), (Some(0), 0));
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", "RolledOut"));
    spaces[0].namespaces().delete(&spaces[0].name, &kube::api::DeleteParams::default()).await?;
    class.status("one namespace less", |status| status.bound_namespaces == Some(2)).await;
    Ok(())
}

#[tokio::test]
async fn at_most_ten_failing_namespaces_are_named() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "many-failing", &[("made", "1")]).await?;
    for number in 0..=MAX_FAILING_LISTED {
        let space = Space::new(&world.bed, &format!("failing-{number:02}")).await?;
        space.stranger_makes(config_map("made", "theirs")).await?;
        space.label(Some("many-failing")).await?;
    }
    let counted = class.status("11 failing", |status| status.failing_namespaces == Some(11)).await;
    let failing = counted.status.unwrap().failing;
    assert_eq!(failing.len(), MAX_FAILING_LISTED);
    assert!(failing[0].namespace.starts_with("failing-00"), "by name: {failing:?}");
    Ok(())
}

#[tokio::test]
async fn kinds_come_and_go_in_the_status_with_the_objects_of_the_class() -> Result<()> {
    let world = world().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let both = json!({"resources": [account, config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "kinds", both).await?;
    let kinds = |status: &croft_api::namespaces::NamespaceClassStatus| -> Vec<String> {
        status.kinds.iter().map(|kind| format!("{} {}", kind.api_version, kind.kind)).collect()
    };
    class
        .status("both kinds, before any namespace has it", |status| {
            kinds(status) == ["v1 ConfigMap", "v1 ServiceAccount"]
        })
        .await;
    let space = Space::of(&world.bed, "kinds", "kinds").await?;
    space.follows(&class).await;
    class.set(&[("made", "1")]).await?;
    space.follows(&class).await;
    class.status("one kind", |status| kinds(status) == ["v1 ConfigMap"]).await;
    Ok(())
}

#[tokio::test]
async fn kubectl_shows_classes_and_bindings_under_their_short_names() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "columns", &[("one", "1"), ("two", "2")]).await?;
    let space = Space::of(&world.bed, "columns", "columns").await?;
    space.follows(&class).await;
    class.status("one namespace", |status| status.ready_namespaces == Some(1)).await;
    let admin = world.bed.admin();
    let table = async |arguments: &[&str]| -> Result<(String, String)> {
        let text = admin.kubectl(arguments).await?;
        let words = |line: Option<&str>| line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = text.lines();
        Ok((words(lines.next()), words(lines.next())))
    };
    for short in ["nc", "nsclass", "namespaceclass"] {
        let (head, row) = table(&["get", short, "columns"]).await?;
        assert_eq!(head, "NAME RESOURCES NAMESPACES ROLLOUT READY AGE");
        assert!(row.starts_with("columns 2 1 1/1 True "), "{row}");
    }
    let (head, row) = table(&["get", "ncb", "-n", &space.name]).await?;
    assert_eq!(head, "NAME CLASS READY REASON AGE");
    assert!(row.starts_with(&format!("{} columns True ReconcileSuccess ", space.name)), "{row}");
    let name = admin.kubectl(&["get", "namespaceclass", "columns", "-o", "name"]).await?;
    assert_eq!(name.trim(), "namespaceclass.akuity.io/columns");
    admin.kubectl(&["wait", "ncb", "-n", &space.name, &space.name, "--for=condition=Ready", "--timeout=5s"]).await?;
    Ok(())
}
