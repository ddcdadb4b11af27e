//! A plan, tried out: every step goes to the API server as a dry run.
//!
//! What a real run would learn on the way (a name is taken, a field cannot be changed) is learned here too, and planned
//! again with, as the operator would at its next look, until there is nothing new. Each object is tried against the cluster as it is, not as earlier steps would
//! leave it.

use croft_core::{
    namespaces::{
        excess,
        inventory::{Applied, Status},
        manifest::Identity,
        resources::{self, ClassSeen, Observed, ResourceStep},
        witness::Witness,
    },
    plan::{Failure, Outcome, Plan, may_begin},
    problem::Problem,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    diff::changed_fields,
    dropped::dropped,
    effect::{Action, Effect, object_of},
    observe::Seen,
};
use crate::{
    engine::{
        Target, timestamp,
        write::{call, read},
    },
    namespaces::{
        reads::{Reads, read_doubtful},
        resources::{carry_out, resource_of},
        stamping::{STAMP_MANAGER, Stamper, whole},
    },
};

/// A name is taken, its owner is looked up, it is announced for adoption, a field turns out immutable, and it
/// would not be accepted anew: each is one look.
const LOOKS: usize = 7;

/// One step and how it would end. The same step ends the same way at every look, since nothing is changed in between.
struct Trial {
    step: ResourceStep,
    outcome: Outcome,
    /// Where the object would differ.
    fields: Vec<String>,
}

/// Everything that would happen in the namespace, or to one object in it.
pub(super) async fn rehearse(
    stamper: &Stamper,
    seen: &mut Seen,
    only: Option<&Identity>,
) -> Result<Vec<Effect>, Failure> {
    let recorded = seen.observed.binding.status.applied_resources.clone();
    let mut trials = Vec::new();
    let mut plan = Plan::settled();
    for _ in 0..LOOKS {
        seen.observed.read.clear();
        seen.read_listed(&stamper.seal);
        read_doubtful(&stamper.writer.client(), &Reads::default(), &mut seen.observed, &seen.kinds, &stamper.seal)
            .await?;
        plan = resources::plan(&seen.observed);
        if only.is_some() {
            plan.groups.iter_mut().for_each(|group| group.retain(|step| step.identity() == only));
        }
        try_new(stamper, seen, &plan, &mut trials).await;
        let Status { applied_resources, namespace_metadata, .. } = learned(&seen.observed, &plan, &trials);
        let status = &mut seen.observed.binding.status;
        if (&applied_resources, &namespace_metadata) == (&status.applied_resources, &status.namespace_metadata) {
            break;
        }
        (status.applied_resources, status.namespace_metadata) = (applied_resources, namespace_metadata);
    }
    Ok(effects_of(&seen.observed, &recorded, &plan, &trials))
}

/// Tries the steps that were not tried yet.
async fn try_new(stamper: &Stamper, seen: &Seen, plan: &Plan<ResourceStep>, trials: &mut Vec<Trial>) {
    for step in plan.iter() {
        if trials.iter().any(|trial| trial.step == *step) {
            continue;
        }
        let taken = plan.iter().find_map(|other| match other {
            ResourceStep::TakeFields { fields, .. } if other.identity() == step.identity() => Some(fields),
            _ => None,
        });
        let (outcome, fields) = match try_step(stamper, seen, step, taken).await {
            Ok((outcome, fields)) => (outcome, fields),
            Err(failure) => (Outcome::Failed(failure), Vec::new()),
        };
        trials.push(Trial { step: step.clone(), outcome, fields });
    }
}

fn trial<'t>(trials: &'t [Trial], step: &ResourceStep) -> Option<&'t Trial> {
    trials.iter().find(|trial| trial.step == *step)
}

async fn try_step(
    stamper: &Stamper,
    seen: &Seen,
    step: &ResourceStep,
    taken: Option<&Value>,
) -> Result<(Outcome, Vec<String>), Failure> {
    let namespace = seen.observed.namespace.name.as_str();
    match step {
        ResourceStep::Apply { identity, api_version, uid, manifest, former, .. } => {
            let resource = resource_of(&seen.kinds, api_version, identity)?;
            let before = seen.listed(api_version, identity).map(|object| whole(object, api_version, &identity.kind));
            let target = Target { namespace, name: &identity.name, uid };
            try_apply(stamper, resource, target, (manifest, former.as_deref()), taken, before).await
        }
        ResourceStep::Strip { identity, api_version, uid, version, excess, .. } => {
            let resource = resource_of(&seen.kinds, api_version, identity)?;
            let api: Api<DynamicObject> = Api::namespaced_with(stamper.writer.client(), namespace, resource);
            let before = as_json(&read(api.get_opt(&identity.name)).await?);
            let mut patch = excess.clone();
            (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) =
                (uid.as_str().into(), version.as_str().into());
            let after = as_json(&without(&api, &identity.name, &patch).await?);
            Ok((Outcome::Done { uid: Some(uid.clone()), witness: None }, changed_fields(&before, &after)))
        }
        ResourceStep::ApplyNamespaceMetadata { metadata, .. } => {
            let metadata = json!({ "labels": metadata.labels, "annotations": metadata.annotations });
            let namespaces: Api<Namespace> = Api::all(stamper.writer.client());
            let before = as_json(&read(namespaces.get_opt(namespace)).await?);
            let target = Target { namespace: "", name: namespace, uid: &seen.observed.namespace.uid };
            let after = as_json(&stamper.furnished_namespace(target, &metadata).await?);
            Ok((Outcome::done(), changed_fields(&before, &after)))
        }
        // Only the operator may touch bindings, and nothing can be in the way of their deletion.
        ResourceStep::DeleteBinding { .. } => Ok((Outcome::done(), Vec::new())),
        _ => {
            let written = carry_out(stamper, &seen.observed.namespace, &seen.kinds, step).await?;
            Ok((Outcome::Done { uid: written.uid, witness: written.witness }, Vec::new()))
        }
    }
}

/// An apply, and the fields in which the object would differ.
async fn try_apply(
    stamper: &Stamper,
    resource: &ApiResource,
    target: Target<'_>,
    (manifest, former): (&Value, Option<&Value>),
    taken: Option<&Value>,
    before: Option<Value>,
) -> Result<(Outcome, Vec<String>), Failure> {
    let api: Api<DynamicObject> = Api::namespaced_with(stamper.writer.client(), target.namespace, resource);
    let before = match before {
        Some(before) => before,
        None => as_json(&read(api.get_opt(target.name)).await?),
    };
    let made: DynamicObject = stamper.applied(resource, target, manifest).await?;
    let mut fields = changed_fields(&before, &as_json(&made));
    if let Some(managed) = taken {
        let dropped = dropped(managed, manifest);
        fields.extend(dropped.lists);
        if !dropped.patch.is_empty() {
            let without = without(&api, target.name, &Value::from(dropped.patch)).await?;
            fields.extend(changed_fields(&before, &as_json(&without)));
        }
    }
    let made_whole = whole(&made, &resource.api_version, &resource.kind);
    // What somebody says is his as well goes after the rest was accepted; where it cannot, it stays.
    if let Some(rest) = former.and_then(|former| excess::dropped(&made_whole, former, manifest))
        && let Ok(without) = without(&api, target.name, &rest).await
    {
        fields.extend(changed_fields(&before, &as_json(&without)));
    }
    fields.sort();
    fields.dedup();
    let witness =
        Witness::of(&whole(&made, &resource.api_version, &resource.kind), manifest, &stamper.seal, stamper.care)
            .to_string();
    Ok((Outcome::Done { uid: made.metadata.uid.clone(), witness: Some(witness) }, fields))
}

/// An object as it would be without something.
async fn without(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Result<DynamicObject, Failure> {
    let params = PatchParams { dry_run: true, field_manager: Some(STAMP_MANAGER.into()), ..PatchParams::default() };
    call("patch", api.patch(name, &params, &Patch::Merge(patch))).await
}

fn as_json(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// The inventory as the operator would record it after this look, if only the failures had happened: successes were dry runs
/// and leave nothing behind.
fn learned(seen: &Observed, plan: &Plan<ResourceStep>, trials: &[Trial]) -> Status {
    let outcome = |step| match trial(trials, step).map(|trial| &trial.outcome) {
        Some(failed @ Outcome::Failed(_)) => failed.clone(),
        _ => Outcome::NotRun,
    };
    let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome(step))).collect();
    resources::report(seen, &outcomes, &timestamp())
}

/// What cannot be made in the namespace, whatever else can.
fn unfit(seen: &Observed, plan: &Plan<ResourceStep>) -> Vec<Effect> {
    let ClassSeen::Present(class) = &seen.class else { return Vec::new() };
    if plan.iter().any(|step| matches!(step, ResourceStep::DeleteBinding { .. })) {
        return Vec::new();
    }
    let namespace = Identity { kind: "Namespace".into(), name: seen.namespace.name.clone(), ..Identity::default() };
    let refused = |reason: &'static str| {
        let namespace = &namespace;
        move |problem: &Problem| Effect::new(Action::Refuse, namespace).because(reason, problem.to_string())
    };
    // What is missing says more than what it is missing for.
    let values = class.refused_params.iter().filter(|_| !class.misfits.is_empty()).map(refused("InvalidParameter"));
    values.chain(class.problems.iter().chain(class.problems_of_misfits()).map(refused("InvalidClass"))).collect()
}

fn effects_of(seen: &Observed, recorded: &[Applied], plan: &Plan<ResourceStep>, trials: &[Trial]) -> Vec<Effect> {
    let mut effects = unfit(seen, plan);
    let mut ended: Vec<(&ResourceStep, Outcome)> = Vec::new();
    for group in &plan.groups {
        let tried: Vec<_> = group.iter().filter_map(|step| trial(trials, step)).collect();
        for trial in &tried {
            let held = !may_begin(&trial.step, &ended);
            // What is taken out of an object that is applied as well is told with that.
            let is_part = matches!(trial.step, ResourceStep::Strip { .. }) && is_applied(plan, trial.step.identity());
            let effect = effect_of(seen, recorded, trial).filter(|_| !is_part || trial.outcome.failure().is_some());
            effects.extend(effect.map(|effect| Effect { held, ..effect }));
        }
        ended.extend(tried.iter().map(|trial| (&trial.step, trial.outcome.clone())));
    }
    effects.extend(resources::blocked_items(seen).iter().map(Effect::blocked));
    effects
}

fn is_applied(plan: &Plan<ResourceStep>, identity: Option<&Identity>) -> bool {
    plan.iter().any(|step| matches!(step, ResourceStep::Apply { .. }) && step.identity() == identity)
}

fn effect_of(seen: &Observed, recorded: &[Applied], trial: &Trial) -> Option<Effect> {
    let namespace = seen.namespace.name.as_str();
    if let Some(failure) = trial.outcome.failure() {
        return Some(Effect::failed(&trial.step, namespace, failure));
    }
    let object = object_of(&trial.step, namespace);
    let action = match &trial.step {
        ResourceStep::TakeFields { .. }
        | ResourceStep::Rehearse { .. }
        | ResourceStep::KeepNamespaceMetadata { .. } => return None,
        ResourceStep::Create { .. } => Action::Create,
        ResourceStep::Apply { .. }
            if is_adopted(&seen.binding.status.applied_resources, &object) && !is_adopted(recorded, &object) =>
        {
            Action::Adopt
        }
        ResourceStep::Apply { .. } | ResourceStep::Strip { .. } | ResourceStep::ApplyNamespaceMetadata { .. }
            if trial.fields.is_empty() =>
        {
            return None;
        }
        ResourceStep::Apply { .. }
        | ResourceStep::Strip { .. }
        | ResourceStep::ApplyNamespaceMetadata { .. }
        | ResourceStep::PutBackNamespaceMetadata { .. }
        | ResourceStep::ForgetNotes { .. } => Action::Change,
        ResourceStep::Prune { .. } if seen.wants(&object) => Action::Recreate,
        ResourceStep::LetGo { .. } if seen.wants(&object) => return None,
        ResourceStep::Prune { .. } | ResourceStep::LetGo { .. } => Action::Prune,
        ResourceStep::Release { .. } => Action::Release,
        ResourceStep::DeleteBinding { because, .. } => {
            return Some(Effect::new(Action::Unbind, &object).because("Unbound", because.to_string()));
        }
    };
    Some(Effect { fields: trial.fields.clone(), ..Effect::new(action, &object) })
}

fn is_adopted(inventory: &[Applied], identity: &Identity) -> bool {
    inventory.iter().any(|entry| entry.adopted && entry.is(identity))
}
