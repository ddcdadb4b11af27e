//! What the operator does before it goes: everything tenants have is deleted the way it always is.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::bail;
use croft_core::{
    plan::Failure,
    uninstall::{Kind, Work, held_up, without_giving_up, work},
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    execute::{LOOK, Shovel, TELL, exactly},
    observe::World,
};
use crate::{engine::write::call, preview::because};

const AT_ONCE: usize = 16;
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

/// Classes that were told to give everything up say again what they said before.
pub(super) async fn take_back(shovel: &Shovel<'_>, world: &World) -> anyhow::Result<()> {
    for work in work().iter().filter(|work| work.reads_objects()) {
        let Some(all) = world.api(shovel.client, &work.kind, "") else { continue };
        for class in list(&all, &work.kind, true).await? {
            let (Some(patch), Some(name)) = (without_giving_up(&class), class.pointer("/metadata/name")) else {
                continue;
            };
            let name = name.as_str().unwrap_or_default();
            let patched = call("patch", all.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
            patched.map_err(because(format!("taking back what {} {name} gives up", work.kind.kind)))?;
        }
    }
    Ok(())
}

/// Whatever tenants make meanwhile is included.
async fn one(shovel: &Shovel<'_>, world: &World, all: &Api<DynamicObject>, work: &Work) -> anyhow::Result<()> {
    let kind = &work.kind;
    let (started, mut told, mut marked_at) = (Instant::now(), Instant::now(), Instant::now());
    let mut marked = BTreeSet::new();
    loop {
        if marked_at.elapsed() > ONCE_MORE {
            marked_at = Instant::now();
            marked.clear();
        }
        let left = list(all, kind, work.reads_objects()).await?;
        let news: Vec<_> = left.iter().filter(|object| marked.insert(uid(object).to_owned())).collect();
        mark(shovel, world, work, &news).await?;
        if left.is_empty() || !work.awaits {
            return Ok(());
        }
        if started.elapsed() > shovel.patience {
            let left = list(all, kind, true).await?;
            bail!("waited {} s for every {} to be gone: {}", shovel.patience.as_secs(), kind.kind, held_up(&left));
        }
        if told.elapsed() > TELL {
            told = Instant::now();
            eprintln!(
                "  waiting for {} {} to be gone, {} s so far",
                left.len(),
                kind.kind,
                started.elapsed().as_secs()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn mark(shovel: &Shovel<'_>, world: &World, work: &Work, objects: &[&Value]) -> anyhow::Result<()> {
    let kind = &work.kind;
    if objects.is_empty() {
        return Ok(());
    }
    if work.deletes || work.patch(&Value::Null).is_some() {
        eprintln!("{} {}: {} ...", objects.len(), kind.kind, if work.deletes { "deleted" } else { "marked" });
    }
    let changes = objects.iter().map(|object| async move {
        let text = |place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let Some(api) = world.api(shovel.client, kind, namespace) else { return Ok(()) };
        let done = change(&api, name, uid(object), work, object).await;
        done.map_err(because(format!("{} {namespace}/{name}", kind.kind)))
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
async fn change(api: &Api<DynamicObject>, name: &str, uid: &str, work: &Work, object: &Value) -> Result<(), Failure> {
    let gone_is_done = |result: Result<(), Failure>| match result {
        Err(failure) if ["NotFound", "Conflict"].contains(&failure.reason) => Ok(()),
        other => other,
    };
    if let Some(mut set) = work.patch(object) {
        set["metadata"]["uid"] = uid.into();
        let patch = Patch::Merge(&set);
        gone_is_done(call("patch", api.patch(name, &PatchParams::default(), &patch)).await.map(drop))?;
    }
    if work.deletes {
        gone_is_done(call("delete", api.delete(name, &exactly(uid.to_owned()))).await.map(drop))?;
    }
    Ok(())
}
