//! What could not be read, written or cleaned up by others is neither taken for a fact nor forgotten.

use std::time::Duration;

use anyhow::Result;
use croft_api::namespaces::STAMP_LABEL;
use croft_testbed::{
    Testbed,
    fault::{Action, Match},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Proxied, Space, applied, config_map, gone, make, proxied, world},
    support::{World, apply, eventually},
};

/// More failures in a row than any single retry survives.
const FAILURES: usize = 4;

/// Nothing may happen for this long before "nothing happens" is believed.
const QUIET: Duration = Duration::from_secs(2);

/// Class and namespace of the same name, everything in place.
async fn furnished(proxied: &Proxied, name: &str) -> Result<(Class, Space)> {
    let class = Class::define(proxied.client(), name, &[("made", "1")]).await?;
    let space = Space::of(&proxied.bed, name, name).await?;
    space.follows(&class).await;
    Ok((class, space))
}

#[tokio::test]
async fn errors_while_a_namespace_leaves_are_not_taken_for_nothing_to_do() -> Result<()> {
    let proxied = proxied().await;
    let (_, space) = furnished(proxied, "leaves").await?;
    let in_it = || Match::any().namespace(&space.name);
    let failing = proxied.proxy.on(in_it()).before(Action::Status(500)).times(FAILURES);
    space.label(None).await?;
    space.lacks("made").await;
    space.is_unbound().await;
    assert_eq!(failing.fired(), FAILURES, "the way was not free");
    Ok(())
}

#[tokio::test]
async fn a_class_edited_while_nothing_can_be_listed_or_written_reaches_its_namespaces_afterwards() -> Result<()> {
    let proxied = Proxied::new().await?;
    let operator = proxied.started().await?;
    let (class, space) = furnished(&proxied, "unreachable").await?;
    let lists = proxied.proxy.on(Match::verb("list")).before(Action::Status(500)).always();
    let writes = proxied.proxy.on(Match::write()).before(Action::Status(503)).always();
    // Every watch ends and must be listed anew, which fails.
    proxied.proxy.expire_watches();
    class.set(&[("made", "2"), ("new", "1")]).await?;
    eventually("lists to fail", || async { Ok((lists.fired() >= FAILURES).then_some(())) }).await;
    lists.remove();
    writes.remove();
    space.has_value("made", "2").await;
    space.follows(&class).await;
    operator.process.ensure_running()
}

#[tokio::test]
async fn a_class_that_only_seems_to_be_gone_takes_nothing_with_it() -> Result<()> {
    let proxied = Proxied::new().await?;
    let operator = proxied.started().await?;
    let (class, space) = furnished(&proxied, "seems-gone").await?;
    let before = space.has("made").await;
    // Whoever looks whether the class is really gone learns nothing for a while.
    let look = Match::verb("get").resource("namespaceclasses").name(&class.name);
    let looks = proxied.proxy.on(look).before(Action::Status(500)).times(FAILURES);
    class.api.delete(&class.name, &DeleteParams::default()).await?;
    eventually("a look that fails", || async { Ok((looks.fired() > 0).then_some(())) }).await;
    assert_eq!(space.has("made").await.uid(), before.uid(), "nothing goes on the word of a cache");
    space.lacks("made").await;
    space.is_unbound().await;
    assert_eq!(looks.fired(), FAILURES, "and it goes once the look says so");
    operator.process.ensure_running()
}

#[tokio::test]
async fn a_label_whose_class_is_gone_is_told_once_and_causes_no_more_requests() -> Result<()> {
    let proxied = Proxied::new().await?;
    let operator = proxied.started().await?;
    let (class, space) = furnished(&proxied, "loop").await?;
    class.delete().await?;
    space.is_unbound().await;
    let told = space.event("ClassNotFound").await;
    assert!(told.contains("loop"), "{told}");
    proxied.quiet(QUIET).await;
    proxied.proxy.clear_log();
    // A touch of the namespace is no news either.
    space.annotate("touched", Some("1")).await?;
    tokio::time::sleep(QUIET).await;
    let asked: Vec<_> =
        proxied.proxy.log().into_iter().filter(|seen| !seen.request.resource.ends_with("leases")).collect();
    assert!(asked.is_empty(), "{asked:#?}");
    assert!(space.bindings().get_opt(&space.name).await?.is_none());
    operator.process.ensure_running()
}

#[tokio::test]
async fn what_a_class_made_goes_at_once_also_where_no_garbage_collector_works() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let class = Class::define(world.client(), "explicit", &[("made", "1"), ("dropped", "1")]).await?;
    let (leaving, staying) =
        (Space::of(&world.bed, "leaving", "explicit").await?, Space::of(&world.bed, "staying", "explicit").await?);
    leaving.follows(&class).await;
    staying.follows(&class).await;
    world.bed.stop_controllers()?;
    leaving.label(None).await?;
    leaving.is_unbound().await;
    assert!(leaving.names().await?.is_empty());
    class.set(&[("made", "1")]).await?;
    staying.lacks("dropped").await;
    class.api.delete(&class.name, &DeleteParams::default()).await?;
    staying.is_unbound().await;
    assert!(staying.names().await?.is_empty());
    gone(&class.api, &class.name).await;
    Ok(())
}

#[tokio::test]
async fn labels_of_a_class_are_never_set_on_another_namespace_of_the_same_name() -> Result<()> {
    let world = Proxied::new().await?;
    let _operator = world.started().await?;
    let labels = json!({"namespaceMetadata": {"labels": {"example.com/a": "1"}}, "resources": []});
    Class::with_spec(world.client(), "successor", labels).await?;
    let space = Space::new(&world.bed, "successor").await?;
    let setting = Match::verb("patch").resource("namespaces").name(&space.name);
    let failing = world.proxy.on(setting).before(Action::Status(500)).always();
    space.label(Some("successor")).await?;
    eventually("the labels to be about to be set", || async { Ok((failing.fired() > 0).then_some(())) }).await;
    // Nobody hears that the namespace goes and another one comes.
    world.proxy.pause_watches();
    space.namespaces().delete(&space.name, &DeleteParams::default()).await?;
    gone(&space.namespaces(), &space.name).await;
    let other: Namespace = make(&space.namespaces(), json!({"metadata": {"name": space.name}})).await?;
    failing.remove();
    let answer = eventually("an answer to the labels", || async {
        let log = world.proxy.log();
        let mut set = log.iter().filter(|seen| {
            let request = &seen.request;
            request.verb == "patch" && request.resource == "namespaces" && request.name.as_ref() == Some(&space.name)
        });
        Ok(set.find_map(|seen| seen.status.filter(|_| seen.fault.is_none())))
    })
    .await;
    assert!([409, 422].contains(&answer), "{answer}");
    let after = space.namespaces().get(&space.name).await?;
    assert_eq!((after.uid(), after.labels().get("example.com/a")), (other.uid(), None));
    world.proxy.resume_watches();
    Ok(())
}

/// Takes our label from every config map `stripped`, as an administrator's webhook for labels might.
fn stripping() -> [Value; 2] {
    let label = format!("'{STAMP_LABEL}' in object.metadata.labels");
    let path = format!("\"/metadata/labels/\" + jsonpatch.escapeKey(\"{STAMP_LABEL}\")");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "no-labels-of-strangers"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]},
            ]},
            "matchConditions": [
                {"name": "its-name", "expression": "object.metadata.name == 'stripped'"},
                {"name": "its-label", "expression": format!("has(object.metadata.labels) && {label}")},
            ],
            "mutations": [{
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": format!("[JSONPatch{{op: \"remove\", path: {path}}}]")},
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "no-labels-of-strangers"},
        "spec": {"policyName": "no-labels-of-strangers"},
    });
    [policy, binding]
}

#[tokio::test]
async fn what_is_stored_without_our_label_does_not_count_as_made_and_says_why() -> Result<()> {
    let world = world().await;
    let admin = world.bed.admin();
    for object in stripping() {
        apply(admin, &object.to_string()).await?;
    }
    let space = Space::new(&world.bed, "stripping").await?;
    eventually("labels to be taken away", || async {
        let mut probe = config_map("stripped", "1");
        probe["metadata"]["labels"] = json!({STAMP_LABEL: "any"});
        let probe = space.stranger_makes(probe).await?;
        space.config_maps().delete("stripped", &DeleteParams::default()).await?;
        Ok(probe.labels().is_empty().then_some(()))
    })
    .await;
    let class = Class::define(world.client(), "stripping", &[("kept", "1"), ("stripped", "1")]).await?;
    space.label(Some("stripping")).await?;
    space.has_value("kept", "1").await;
    let binding = space.says("ApplyFailed").await;
    let told = applied(&binding, "stripped").and_then(|applied| applied.message).unwrap_or_default();
    assert!(told.contains(STAMP_LABEL) && told.contains("webhooks and policies"), "{told}");
    admin.kubectl(&["delete", "mutatingadmissionpolicybinding", "no-labels-of-strangers"]).await?;
    space.follows(&class).await;
    Ok(())
}
