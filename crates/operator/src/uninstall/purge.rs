//! What the operator does before it goes: everything tenants have is deleted the way it always is.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::bail;
use croft_core::{
    plan::Failure,
    uninstall::{Kind, Work, held_up, is_left, without_giving_up, work},
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    execute::{LOOK, Shovel, TELL, exactly, is_passing},
    observe::World,
};
use crate::{engine::write::call, preview::because};

const AT_ONCE: usize = 16;
/// Between two tries where the API server does not answer.
const AWAY: Duration = Duration::from_secs(2);
/// As long it is tried to take back what is given up.
const TAKE_BACK: Duration = Duration::from_secs(60);
/// After as long it is said once more to all that are left: somebody may have changed them back.
const ONCE_MORE: Duration = Duration::from_secs(30);

pub(super) async fn purge(shovel: &Shovel<'_>, world: &World) -> anyhow::Result<()> {
    for work in work() {
        let kind = shovel.ground.part(&work.kind).and_then(|_| world.api(shovel.client, &work.kind, ""));
        if let Some(all) = kind {
            one(shovel, world, &all, &work).await?;
        }
    }
    Ok(())
}

/// Classes that were told to give everything up say again what they said before: every one that can be told so, and for a while also
/// where the API server does not answer. It is looked once more: what was on its way when the purge ended may have come since.
pub(super) async fn take_back(shovel: &Shovel<'_>, world: &World) -> anyhow::Result<()> {
    let (started, mut was_clean) = (Instant::now(), false);
    loop {
        let mut taken = Taken::default();
        for work in work().iter().filter(|work| work.reads_objects() && shovel.ground.part(&work.kind).is_some()) {
            if let Some(all) = world.api(shovel.client, &work.kind, "") {
                take_back_all(&all, &work.kind, &mut taken).await;
            }
        }
        let is_clean = !taken.any && taken.failed.is_empty();
        if is_clean && was_clean {
            return Ok(());
        }
        was_clean = is_clean;
        let is_late = started.elapsed() > TAKE_BACK;
        match taken.failed.first() {
            Some(first) if is_late || !taken.failed.iter().any(is_passing) => bail!("{first:#}"),
            None if is_late => bail!("somebody tells S3Classes again and again to give everything up"),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Whether there was anything to take back, and what of it could not be.
#[derive(Default)]
struct Taken {
    any: bool,
    failed: Vec<anyhow::Error>,
}

async fn take_back_all(all: &Api<DynamicObject>, kind: &Kind, taken: &mut Taken) {
    let classes = match list(all, kind, true).await {
        Ok(classes) => classes,
        Err(error) => return taken.failed.push(error),
    };
    for class in classes {
        let Some(mut patch) = without_giving_up(&class) else { continue };
        taken.any = true;
        let name = class.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        patch["metadata"]["uid"] = uid(&class).into();
        let patched = call("patch", all.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
        let patched = gone_is_done(patched.map(drop));
        taken.failed.extend(patched.map_err(because(format!("taking back what {} {name} gives up", kind.kind))).err());
    }
}

/// Whatever tenants make meanwhile is included.
async fn one(shovel: &Shovel<'_>, world: &World, all: &Api<DynamicObject>, work: &Work) -> anyhow::Result<()> {
    let kind = &work.kind;
    let (mut started, mut told, mut marked_at) = (Instant::now(), Instant::now(), Instant::now());
    let (mut marked, mut last_resort) = (BTreeSet::new(), work.last_resort());
    loop {
        if marked_at.elapsed() > ONCE_MORE {
            marked_at = Instant::now();
            marked.clear();
        }
        let is_late = started.elapsed() > shovel.patience;
        match look(shovel, world, all, work, &mut marked).await {
            // An API server that restarts is no reason to give up.
            Err(error) if is_passing(&error) && !is_late => {
                eprintln!("  not yet: {error:#}");
                marked.clear();
                tokio::time::sleep(AWAY).await;
            }
            Err(error) => return Err(error),
            Ok(left) if left.is_empty() || !work.awaits => return Ok(()),
            Ok(_) if is_late => {
                let ours = &shovel.ground.finalizers;
                let mut left = list(all, kind, true).await?;
                left.retain(|object| is_left(object, ours));
                let waited = format!("waited {} s for every {} to be gone", shovel.patience.as_secs(), kind.kind);
                let Some(patch) = last_resort.take() else { bail!("{waited}: {}", held_up(&left, ours)) };
                eprintln!(
                    "  {waited}; from here on what is stored elsewhere of these stays there: {}",
                    held_up(&left, ours)
                );
                let left: Vec<_> = left.iter().collect();
                change_all(shovel, world, work, &left, |_| Some(patch.clone())).await?;
                started = Instant::now();
            }
            Ok(left) if told.elapsed() > TELL => {
                told = Instant::now();
                let (left, passed) = (left.len(), started.elapsed().as_secs());
                eprintln!("  waiting for {left} {} to be gone, {passed} s so far", kind.kind);
            }
            Ok(_) => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What is there, after each that was not marked yet is.
async fn look(
    shovel: &Shovel<'_>,
    world: &World,
    all: &Api<DynamicObject>,
    work: &Work,
    marked: &mut BTreeSet<String>,
) -> anyhow::Result<Vec<Value>> {
    let mut left = list(all, &work.kind, work.reads_objects()).await?;
    left.retain(|object| is_left(object, &shovel.ground.finalizers));
    let news: Vec<_> = left.iter().filter(|object| marked.insert(uid(object).to_owned())).collect();
    mark(shovel, world, work, &news).await?;
    Ok(left)
}

async fn mark(shovel: &Shovel<'_>, world: &World, work: &Work, objects: &[&Value]) -> anyhow::Result<()> {
    let kind = &work.kind;
    if objects.is_empty() {
        return Ok(());
    }
    if work.deletes || work.patch(&Value::Null).is_some() {
        eprintln!("{} {}: {} ...", objects.len(), kind.kind, if work.deletes { "deleted" } else { "marked" });
    }
    change_all(shovel, world, work, objects, |object| work.patch(object)).await
}

async fn change_all(
    shovel: &Shovel<'_>,
    world: &World,
    work: &Work,
    objects: &[&Value],
    patch: impl Fn(&Value) -> Option<Value>,
) -> anyhow::Result<()> {
    let kind = &work.kind;
    let changes = objects.iter().map(|object| {
        let set = patch(object);
        async move {
            let text = |place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default();
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let Some(api) = world.api(shovel.client, kind, namespace) else { return Ok(()) };
            let done = change(&api, name, uid(object), set, work.deletes).await;
            done.map_err(because(format!("{} {namespace}/{name}", kind.kind)))
        }
    });
    stream::iter(changes).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// Every object of a kind: its metadata, or whole.
async fn list(all: &Api<DynamicObject>, kind: &Kind, whole: bool) -> anyhow::Result<Vec<Value>> {
    let params = ListParams::default();
    let listed = if whole {
        call("list", all.list(&params)).await.map(|list| list.items.iter().map(|object| json!(object)).collect())
    } else {
        let list = call("list", all.list_metadata(&params)).await;
        list.map(|list| list.items.iter().map(|object| json!({ "metadata": object.metadata })).collect())
    };
    match listed {
        Err(failure) if ["NotFound", "NotServed"].contains(&failure.reason) => Ok(Vec::new()),
        listed => listed.map_err(because(format!("listing every {}", kind.kind))),
    }
}

/// Exactly the object that was listed: what is gone meanwhile is done, and what was made anew under its name is found when it is
/// looked again.
async fn change(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
    set: Option<Value>,
    deletes: bool,
) -> Result<(), Failure> {
    if let Some(mut set) = set {
        set["metadata"]["uid"] = uid.into();
        let patch = Patch::Merge(&set);
        gone_is_done(call("patch", api.patch(name, &PatchParams::default(), &patch)).await.map(drop))?;
    }
    if deletes {
        gone_is_done(call("delete", api.delete(name, &exactly(uid.to_owned()))).await.map(drop))?;
    }
    Ok(())
}

fn gone_is_done(result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(failure) if ["NotFound", "Conflict"].contains(&failure.reason) => Ok(()),
        other => other,
    }
}
