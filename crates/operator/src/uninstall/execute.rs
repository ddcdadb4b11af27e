//! The steps, one after the other, each with how far it is.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use croft_core::{
    plan::{Failure, FailureClass},
    uninstall::{Ground, Seen, Stage, Step, headline, held_up, orphaned, plan, staying, without},
};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};

use super::{leads::leads, observe::World};
use crate::{
    engine::write::{call, read},
    preview::because,
};

/// How often it is looked whether something is over.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// How often it is said that it is not.
pub(super) const TELL: Duration = Duration::from_secs(5);
/// As many objects are changed at once.
const AT_ONCE: usize = 16;
/// How often an object that others change meanwhile is tried.
const TRIES: usize = 5;
/// How often it is looked again for what others made, or kept, meanwhile.
const ROUNDS: usize = 3;
/// As many failures are told.
const TOLD: usize = 3;

#[derive(Clone, Copy)]
pub(super) struct Shovel<'a> {
    pub(super) client: &'a Client,
    pub(super) ground: &'a Ground,
    pub(super) patience: Duration,
}

/// What came of objects: one that cannot be done keeps nobody from the others.
#[derive(Default)]
struct Done {
    count: usize,
    failed: Vec<String>,
}

impl Done {
    fn told(&self) -> String {
        let more = self.failed.len().saturating_sub(TOLD);
        let told = self.failed.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
        if more == 0 { told } else { format!("{told}; and {more} more") }
    }
}

impl Shovel<'_> {
    /// Policies and webhooks go; how many did. Whatever does not go now is tried again with everything else.
    pub(super) async fn open_the_way(&self, world: &World) -> usize {
        let mut count = 0;
        for step in plan(world.seen(), self.ground).iter().filter(|step| step.stage == Stage::Fences) {
            let done = self.execute(step, world).await;
            if !done.failed.is_empty() {
                eprintln!("  not yet: {}", done.told());
            }
            count += done.count;
        }
        count
    }

    /// Deletes its Deployment and waits until nobody works any more: whatever is let go of after that stays let go of.
    pub(super) async fn stop_operator(&self, world: &World) -> anyhow::Result<()> {
        for step in plan(world.seen(), self.ground).iter().filter(|step| step.stage == Stage::Operator) {
            let done = self.execute(step, world).await;
            if !done.failed.is_empty() {
                bail!("the operator cannot be stopped: {}", done.told());
            }
        }
        let (own, client) = (&self.ground.namespace, self.client);
        let pods: Api<Pod> = Api::namespaced(client.clone(), own);
        let replicas = ListParams::default().labels("app.kubernetes.io/name=croft");
        let what =
            format!("its pods in {own} to end (one on a node that is lost ends with `kubectl delete pod --force`)");
        self.until(&what, || async {
            let left = call("list", pods.list(&replicas)).await.map_err(because("listing its pods"))?;
            Ok(left.items.is_empty())
        })
        .await?;
        let what = "the operator to end: one that runs outside of the cluster has to be stopped by hand";
        self.until(what, || async { Ok(!leads(client, own).await?) }).await
    }

    /// Everything else, from what is there now that nobody makes any more of it; the kinds only once nothing is left that would go
    /// with them. How many objects that were.
    pub(super) async fn take_down(&self) -> anyhow::Result<usize> {
        let (mut count, mut last) = (0, Done::default());
        for _ in 0..=ROUNDS {
            let world = World::of_all(self.client, self.ground).await?;
            let steps = plan(world.seen(), self.ground);
            if steps.iter().any(|step| step.stage == Stage::Operator) {
                bail!(
                    "somebody deploys the operator again while it is removed: tell what does that, such as Argo CD, to stop"
                );
            }
            let (kinds, rest): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.stage == Stage::Kinds);
            if rest.is_empty() {
                return Ok(count + self.remove_kinds(&kinds, &world).await?);
            }
            last = Done::default();
            for step in &rest {
                if step.stage == Stage::Rights && !last.failed.is_empty() {
                    continue;
                }
                let done = self.execute(step, &world).await;
                count += done.count;
                last.failed.extend(done.failed);
            }
        }
        let left = if last.failed.is_empty() { "others make it anew all the time".to_owned() } else { last.told() };
        bail!("Croft's kinds stay, as what belongs to them would go with them. Start again once that is mended: {left}")
    }

    async fn remove_kinds(&self, steps: &[Step], world: &World) -> anyhow::Result<usize> {
        if let Some(unlisted) = world.unlisted() {
            bail!("all but Croft's kinds is removed. {unlisted}. Mend that, or remove those kinds, and start again");
        }
        let mut count = 0;
        for step in steps {
            let done = self.execute(step, world).await;
            if !done.failed.is_empty() {
                bail!("{}", done.told());
            }
            self.until_all_gone(&step.objects, world).await?;
            count += done.count;
        }
        Ok(count)
    }

    /// All at once: whoever holds objects of several kinds is waited for once, and named at every one.
    async fn until_all_gone(&self, crds: &[Seen], world: &World) -> anyhow::Result<()> {
        let awaited: Vec<_> = crds.iter().map(|crd| async move { (crd, self.until_gone(crd, world).await) }).collect();
        let ended: Vec<_> = stream::iter(awaited).buffer_unordered(crds.len().max(1)).collect().await;
        let mut failure = None;
        for (crd, ended) in ended {
            let Err(error) = ended else { continue };
            let held = self.held_by(crd, world).await;
            failure = Some(failure.unwrap_or(error).context(held));
        }
        failure.map_or(Ok(()), Err)
    }

    /// What of a kind is left, where somebody holds it.
    async fn held_by(&self, crd: &Seen, world: &World) -> String {
        let kind = self.ground.kinds.iter().find(|ours| ours.crd == crd.name).map(|ours| &ours.kind);
        let all = kind.and_then(|kind| world.api(self.client, kind, ""));
        let Some(all) = all else { return crd.name.clone() };
        let left = call("list", all.list(&ListParams::default())).await.map(|left| left.items);
        let left: Vec<_> = left.iter().flatten().map(|object| json!(object)).collect();
        if left.is_empty() {
            crd.name.clone()
        } else {
            format!("of {} is left: {}", crd.name, held_up(&left, &self.ground.finalizers))
        }
    }

    async fn execute(&self, step: &Step, world: &World) -> Done {
        eprintln!("{} ({}) ...", headline(step.stage), step.objects.len());
        let mut work = stream::iter(step.objects.iter().map(|object| self.one(step.stage, object, world)))
            .buffer_unordered(if step.stage.is_of_policies() { 1 } else { AT_ONCE });
        let (mut done, mut told) = (Done::default(), Instant::now());
        while let Some(result) = work.next().await {
            match result {
                Ok(()) => done.count += 1,
                Err(error) => done.failed.push(format!("{error:#}")),
            }
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                eprintln!("  {} of {}", done.count, step.objects.len());
            }
        }
        done
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
        loop {
            match is_over().await {
                Ok(true) => return Ok(()),
                Err(error) if !is_passing(&error) => return Err(error),
                Ok(false) | Err(_) => {}
            }
            if started.elapsed() > self.patience {
                bail!("waited {} s for {what}; start again to go on, or give --timeout", self.patience.as_secs());
            }
            if told.elapsed() > TELL {
                told = Instant::now();
                eprintln!("  waiting for {what}, {} s so far", started.elapsed().as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes the operator's namespace, unless there is something in it that is not ours; says which of the two.
    pub(super) async fn remove_place(&self) -> anyhow::Result<String> {
        let own = &self.ground.namespace;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let here = read(namespaces.get_opt(own)).await.map_err(because("reading the operator's namespace"))?;
        let Some(here) = here else { return Ok(String::new()) };
        let world = World::of_namespace(self.client, own).await?;
        if let Some(unlisted) = world.unlisted() {
            return Ok(format!("Namespace {own} stays: {unlisted}."));
        }
        if let Some(why) = staying(world.seen(), self.ground) {
            return Ok(format!("Namespace {own} stays: {why}."));
        }
        let uid = here.metadata.uid.context("a namespace has a UID")?;
        call("delete", namespaces.delete(own, &exactly(uid)))
            .await
            .map_err(because("deleting the operator's namespace"))?;
        Ok(format!("Namespace {own} is deleted."))
    }
}

/// Whether it may be over the next time.
pub(super) fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.class == FailureClass::Transient)
}

/// Only the object of this UID goes.
pub(super) fn exactly(uid: String) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    }
}

/// An object that is gone needs no deleting; another of its name is found when it is looked again.
async fn delete(api: &Api<DynamicObject>, object: &Seen) -> Result<(), Failure> {
    match call("delete", api.delete(&object.name, &exactly(object.uid.clone()))).await {
        Err(failure) if !matches!(failure.reason, "NotFound" | "Conflict") => Err(failure),
        _ => Ok(()),
    }
}
