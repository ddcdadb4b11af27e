//! The steps, one after the other, each with how far it is.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use croft_core::{
    plan::{Failure, FailureClass},
    uninstall::{Ground, Seen, Stage, Step, headline, orphaned, without},
};
use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Namespace, Pod},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};

use super::observe::{World, observe};
use crate::{
    engine::write::{call, read},
    preview::because,
    run::LEASE,
};

/// As many objects are changed at once.
const AT_ONCE: usize = 16;
/// How often it is looked whether something is over.
const LOOK: Duration = Duration::from_millis(500);
/// How often an object that others change meanwhile is tried.
const TRIES: usize = 5;
/// What is in every namespace, or belongs to what we have removed and goes by itself.
const OF_ITSELF: [&str; 7] = ["Endpoints", "EndpointSlice", "ReplicaSet", "Pod", "PodMetrics", "Lease", "Event"];

#[derive(Clone, Copy)]
pub(super) struct Shovel<'a> {
    pub(super) client: &'a Client,
    pub(super) ground: &'a Ground,
    pub(super) patience: Duration,
}

impl Shovel<'_> {
    /// Does one step; how many objects that were.
    pub(super) async fn execute(&self, step: &Step, world: &World) -> anyhow::Result<usize> {
        eprintln!("{} ({}) ...", headline(step.stage), step.objects.len());
        let mut work = stream::iter(step.objects.iter().map(|object| self.one(step.stage, object, world)))
            .buffer_unordered(if step.stage == Stage::Fences { 1 } else { AT_ONCE });
        let (mut done, mut told) = (0, Instant::now());
        while let Some(result) = work.next().await {
            result?;
            done += 1;
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                eprintln!("  {done} of {}", step.objects.len());
            }
        }
        drop(work);
        if step.stage == Stage::Kinds {
            for object in &step.objects {
                self.until_gone(object, world).await?;
            }
        }
        Ok(done)
    }

    async fn one(&self, stage: Stage, object: &Seen, world: &World) -> anyhow::Result<()> {
        let Some(api) = world.api(self.client, &object.kind, &object.namespace) else { return Ok(()) };
        let done = match stage {
            Stage::Orphans | Stage::Marks | Stage::Held => self.change(stage, object, &api, world).await,
            _ => delete(&api, object).await,
        };
        done.map_err(because(format!("{} {}/{}", object.kind.kind, object.namespace, object.name)))
    }

    /// Takes away what is ours of an object, as it is now.
    async fn change(
        &self,
        stage: Stage,
        object: &Seen,
        api: &Api<DynamicObject>,
        world: &World,
    ) -> Result<(), Failure> {
        let mut metadata = world.metadata(object).cloned().unwrap_or_default();
        for _ in 0..TRIES {
            let patch = json!({ "metadata": self.left(stage, &metadata) });
            let outcome = call("patch", api.patch(&object.name, &PatchParams::default(), &Patch::Merge(patch))).await;
            match outcome {
                Err(failure) if failure.reason == "Conflict" => {}
                Err(failure) if failure.reason == "NotFound" => return Ok(()),
                other => return other.map(drop),
            }
            match read(api.get_metadata_opt(&object.name)).await? {
                Some(now) if now.metadata.uid.as_deref() == Some(object.uid.as_str()) => metadata = json!(now.metadata),
                _ => return Ok(()),
            }
        }
        Err(Failure::new(FailureClass::Stale, "Conflict", "somebody else changes it all the time"))
    }

    fn left(&self, stage: Stage, metadata: &Value) -> Value {
        let mut left = match stage {
            Stage::Orphans => orphaned(metadata, self.ground),
            Stage::Held => {
                let held = metadata["finalizers"].as_array().into_iter().flatten();
                let others = held.filter(|held| !self.ground.finalizers.iter().any(|ours| *held == ours));
                json!({ "finalizers": others.collect::<Vec<_>>() })
            }
            _ => json!({ "annotations": without(&metadata["annotations"], self.ground) }),
        };
        // Nothing is taken away that was not looked at.
        left["resourceVersion"] = metadata["resourceVersion"].clone();
        left["uid"] = metadata["uid"].clone();
        left
    }

    async fn until_gone(&self, object: &Seen, world: &World) -> anyhow::Result<()> {
        let Some(api) = world.api(self.client, &object.kind, &object.namespace) else { return Ok(()) };
        let what = format!("{} {} to be gone", object.kind.kind, object.name);
        self.until(&what, || async {
            let now = read(api.get_metadata_opt(&object.name)).await.map_err(because("looking"))?;
            Ok(now.is_none_or(|now| now.metadata.uid.as_deref() != Some(object.uid.as_str())))
        })
        .await
    }

    /// Waits until `is_over`; where that takes too long, says what for.
    pub(super) async fn until<A: Future<Output = anyhow::Result<bool>>>(
        &self,
        what: &str,
        is_over: impl Fn() -> A,
    ) -> anyhow::Result<()> {
        let (started, mut told) = (Instant::now(), Instant::now());
        while !is_over().await? {
            if started.elapsed() > self.patience {
                bail!("waited {} s for {what}; start again to go on, or give --timeout", self.patience.as_secs());
            }
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                eprintln!("  waiting for {what}, {} s so far", started.elapsed().as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Deletes its Deployment and waits until nobody works any more: whatever is let go of after that stays let go of.
    pub(super) async fn stop_operator(&self, steps: &[Step], world: &World) -> anyhow::Result<()> {
        for step in steps.iter().filter(|step| step.stage == Stage::Operator) {
            self.execute(step, world).await?;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.ground.namespace);
        let replicas = ListParams::default().labels("app.kubernetes.io/name=croft");
        self.until("its pods to end", || async {
            let left = call("list", pods.list(&replicas)).await.map_err(because("listing its pods"))?;
            Ok(left.items.is_empty())
        })
        .await?;
        let what = "the operator to end: one that runs outside of the cluster has to be stopped by hand";
        self.until(what, || async { Ok(holder(self.client, &self.ground.namespace).await?.is_none()) }).await
    }

    /// Removes the operator's namespace, unless there is something in it that is not ours; says which of the two.
    pub(super) async fn remove_place(&self) -> anyhow::Result<String> {
        let own = &self.ground.namespace;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let here = read(namespaces.get_opt(own)).await.map_err(because("reading the namespace"))?;
        let Some(here) = here else { return Ok(String::new()) };
        let world = observe(self.client).await?;
        let of_every = |object: &Seen| {
            OF_ITSELF.contains(&object.kind.kind.as_str())
                || (object.kind.kind == "ConfigMap" && object.name == "kube-root-ca.crt")
                || (object.kind.kind == "ServiceAccount" && object.name == "default")
        };
        let others: Vec<_> =
            world.seen().into_iter().filter(|object| object.namespace == *own && !of_every(object)).collect();
        if let Some(other) = others.first() {
            let (count, kind, name) = (others.len(), &other.kind.kind, &other.name);
            return Ok(format!("Namespace {own} stays: {count} objects in it are not Croft's, such as {kind} {name}."));
        }
        let uid = here.metadata.uid.context("a namespace has a UID")?;
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        call("delete", namespaces.delete(own, &params)).await.map_err(because("deleting the namespace"))?;
        Ok(format!("Namespace {own} is deleted."))
    }
}

/// An object that is gone, or another of its name, needs no deleting.
async fn delete(api: &Api<DynamicObject>, object: &Seen) -> Result<(), Failure> {
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(object.uid.clone()), resource_version: None }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    match call("delete", api.delete(&object.name, &params)).await {
        Err(failure) if !matches!(failure.reason, "NotFound" | "Conflict") => Err(failure),
        _ => Ok(()),
    }
}

/// Who leads, if anybody does.
pub(super) async fn holder(client: &Client, namespace: &str) -> anyhow::Result<Option<String>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = read(leases.get_opt(LEASE)).await.map_err(because("reading the lease"))?;
    let Some(spec) = lease.and_then(|lease| lease.spec) else { return Ok(None) };
    let term = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default());
    let is_over =
        spec.renew_time.is_none_or(|renewed| Timestamp::now().duration_since(renewed.0).unsigned_abs() > term);
    Ok(spec.holder_identity.filter(|holder| !holder.is_empty() && !is_over))
}
