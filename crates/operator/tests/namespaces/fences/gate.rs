//! Pods wait until their namespace has had everything of a class with `gate: Pods`.

use anyhow::{Context, Result};
use croft::namespaces::fences::GATE;
use croft_api::namespaces::{AppliedState, CLASS_LABEL, NamespaceClassStatus};
use croft_testbed::Testbed;
use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicySpec,
    },
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Space, applied, config_map, gone, refusal},
    support::{Shared, World, eventually, shared},
};

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

fn gated(items: Vec<Value>) -> Value {
    json!({"gate": "Pods", "resources": items})
}

fn gates(client: Client) -> Api<ValidatingAdmissionPolicyBinding> {
    Api::all(client)
}

/// What the API server says to a Pod; the account of a new namespace comes a moment later than the namespace.
async fn pod(space: &Space, name: &str) -> Result<kube::Result<Pod>> {
    let pods: Api<Pod> = space.api();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": false},
    }))?;
    Ok(eventually("the Pod to be judged", || async {
        match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.message.contains("serviceaccount \"default\" not found") => {
                Ok(None)
            }
            judged => Ok(Some(judged)),
        }
    })
    .await)
}

/// A class is gated a moment after it says so.
async fn is_shut(space: &Space) -> String {
    eventually("the gate to be shut", || async {
        match pod(space, "early").await? {
            Err(kube::Error::Api(status)) if status.message.contains(&format!("'{GATE}'")) => Ok(Some(status.message)),
            Err(error) => Err(error.into()),
            Ok(_) => {
                space.api::<Pod>().delete("early", &DeleteParams::default().grace_period(0)).await?;
                Ok(None)
            }
        }
    })
    .await
}

#[tokio::test]
async fn pods_wait_until_the_namespace_has_had_all_of_a_gated_class_and_no_later_failure_keeps_them_out() -> Result<()>
{
    let world = world().await;
    let spec = gated(vec![config_map("made", "1"), config_map("taken", "1")]);
    let class = Class::with_spec(world.client(), "gated", spec).await?;
    let space = Space::new(&world.bed, "gated").await?;
    let theirs = space.stranger_makes(config_map("taken", "theirs")).await?;
    space.label(Some("gated")).await?;
    space.says("Conflict").await;
    let told = is_shut(&space).await;
    assert!(told.contains(&format!("namespace {} has not had all of class gated yet", space.name)), "{told}");

    space.config_maps().delete(&theirs.name_any(), &DeleteParams::default()).await?;
    space.follows(&class).await;
    eventually("the gate to be open", || async { Ok(Some(pod(&space, "first").await??)) }).await;

    // A fence that cannot be put up any more is told, and what runs may still move to another node.
    let strip = json!({"metadata": {"labels": null, "ownerReferences": null}, "data": {"key": "theirs"}});
    space.edit("taken", "somebody", strip).await?;
    let binding = space.says("Conflict").await;
    assert_eq!(applied(&binding, "taken").unwrap_or_default().state, AppliedState::Conflict);
    pod(&space, "later").await?.context("a Pod that is made again")?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_comes_to_a_gated_class_waits_for_that_class() -> Result<()> {
    let world = world().await;
    let before = Class::define(world.client(), "ungated-before", &[("made", "1")]).await?;
    let spec = gated(vec![config_map("taken", "1")]);
    let after = Class::with_spec(world.client(), "gated-after", spec).await?;
    let space = Space::of(&world.bed, "gate-switch", "ungated-before").await?;
    space.follows(&before).await;
    pod(&space, "free").await?.context("of a class without a gate")?;
    let theirs = space.stranger_makes(config_map("taken", "theirs")).await?;
    space.label(Some("gated-after")).await?;
    is_shut(&space).await;
    space.config_maps().delete(&theirs.name_any(), &DeleteParams::default()).await?;
    space.follows(&after).await;
    eventually("the gate to be open", || async { Ok(Some(pod(&space, "late").await??)) }).await;
    Ok(())
}

fn says(reason: &'static str) -> impl Fn(&NamespaceClassStatus) -> bool {
    move |status| status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.reason == reason)
}

#[tokio::test]
async fn a_gate_is_raised_for_its_class_goes_with_it_and_is_never_taken_down_by_the_operator() -> Result<()> {
    let world = world().await;
    let (api, name) = (gates(world.client()), "croft-gate-wanted-gate");
    let class = Class::with_spec(world.client(), "wanted-gate", gated(vec![])).await?;
    eventually("the gate", || async { Ok(api.get_opt(name).await?) }).await;
    class.status("a gate", says("RolledOut")).await;
    // Somebody who may write policies weakens it: that is told, and deleted it is raised anew.
    let weaker = Patch::Merge(json!({"spec": {"validationActions": ["Warn"]}}));
    api.patch(name, &PatchParams::default(), &weaker).await?;
    class.status("told of the change", says("GateNotRaised")).await;
    api.delete(name, &DeleteParams::default()).await?;
    let anew = eventually("the gate anew", || async { Ok(api.get_opt(name).await?) }).await;
    assert_eq!(anew.spec.and_then(|spec| spec.validation_actions), Some(vec!["Deny".to_owned()]));
    // A class that wants none any more says who can take it down.
    class.set_spec(json!({"resources": []})).await?;
    let told = class.status("told of the gate", says("GateLeft")).await.status.unwrap_or_default();
    let told = told.conditions.iter().any(|condition| condition.message.contains("kubectl delete"));
    assert!(told && api.get_opt(name).await?.is_some());
    api.delete(name, &DeleteParams::default()).await?;
    class.status("no gate", says("RolledOut")).await;
    assert!(api.get_opt(name).await?.is_none(), "and none is raised");
    class.set_spec(gated(vec![])).await?;
    eventually("another gate", || async { Ok(api.get_opt(name).await?) }).await;
    class.delete().await?;
    gone(&api, name).await;
    Ok(())
}

#[tokio::test]
async fn a_gate_without_its_policy_is_not_told_as_raised() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client());
    let class = Class::with_spec(world.client(), "idle-gate", gated(vec![])).await?;
    class.status("a gate", says("RolledOut")).await;
    let policy = policies.get(GATE).await?;
    policies.delete(GATE, &DeleteParams::default()).await?;
    let told = class.status("told that nobody is held", says("GateNotRaised")).await.status.unwrap_or_default();
    assert!(told.conditions.iter().any(|condition| condition.message.contains("croft manifests")), "{told:?}");
    let with = |failure_policy: &str| ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(GATE.to_owned()), ..ObjectMeta::default() },
        spec: policy
            .spec
            .clone()
            .map(|spec| ValidatingAdmissionPolicySpec { failure_policy: Some(failure_policy.to_owned()), ..spec }),
        status: None,
    };
    policies.create(&PostParams::default(), &with("Fail")).await?;
    class.status("a gate again", says("RolledOut")).await;
    policies.patch(GATE, &PatchParams::default(), &Patch::Merge(&with("Ignore"))).await?;
    class.status("told that it is weaker", says("GateNotRaised")).await;
    Ok(())
}

#[tokio::test]
async fn what_has_the_name_of_a_gate_and_is_not_ours_is_left_and_told() -> Result<()> {
    let world = world().await;
    let theirs: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": "croft-gate-taken-gate"}, "spec": {"policyName": "nothing", "validationActions": ["Warn"]},
    }))?;
    let theirs = gates(world.client()).create(&PostParams::default(), &theirs).await?;
    let class = Class::with_spec(world.client(), "taken-gate", gated(vec![])).await?;
    class.status("no gate", says("GateNotRaised")).await;
    let now = gates(world.client()).get(&theirs.name_any()).await?;
    assert_eq!(now.resource_version(), theirs.resource_version(), "untouched");
    gates(world.client()).delete(&theirs.name_any(), &DeleteParams::default()).await?;
    class.status("a gate", says("RolledOut")).await;
    Ok(())
}

#[tokio::test]
async fn a_pod_in_a_gated_class_is_refused() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}});
    let told = refusal("gated-pod", gated(vec![pod])).await;
    assert!(told.contains("spec.resources[0]") && told.contains("spec.gate"), "{told}");
}

#[tokio::test]
async fn the_gate_is_shut_while_the_operator_is_down() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let class = Class::with_spec(world.client(), "gate-unattended", gated(vec![config_map("made", "1")])).await?;
    let inside = Space::of(&world.bed, "inside", "gate-unattended").await?;
    inside.follows(&class).await;
    world.operator.process.kill();
    world.operator.process.wait(crate::support::PATIENCE).context("the operator is dead")?;
    let outside = Space::new(&world.bed, "outside").await?;
    outside.merge(json!({"metadata": {"labels": {CLASS_LABEL: "gate-unattended"}}})).await?;
    is_shut(&outside).await;
    pod(&inside, "moved").await?.context("who was in before stays in")?;
    Ok(())
}
