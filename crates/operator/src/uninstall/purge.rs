//! What the operator does before it goes: everything tenants have is deleted the way it always is.

use croft_core::uninstall::{Work, work};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};

use super::{
    execute::Shovel,
    observe::{World, observe},
};
use crate::{engine::write::call, preview::because};

const AT_ONCE: usize = 16;

pub(super) async fn purge(shovel: &Shovel<'_>) -> anyhow::Result<()> {
    let world = observe(shovel.client).await?;
    for work in work() {
        one(shovel, &world, &work).await?;
    }
    Ok(())
}

async fn one(shovel: &Shovel<'_>, world: &World, work: &Work) -> anyhow::Result<()> {
    let kind = &work.kind;
    let Some(all) = world.api(shovel.client, kind, "") else { return Ok(()) };
    let objects = call("list", all.list_metadata(&ListParams::default())).await;
    let objects = objects.map_err(because(format!("listing every {}", kind.kind)))?.items;
    if objects.is_empty() {
        return Ok(());
    }
    eprintln!("{} {}: {} ...", objects.len(), kind.kind, if work.deletes { "deleted" } else { "marked" });
    let changes = objects.iter().map(|object| async {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let Some(api) = world.api(shovel.client, kind, namespace) else { return Ok(()) };
        change(&api, name, work).await.map_err(because(format!("{} {namespace}/{name}", kind.kind)))
    });
    stream::iter(changes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    if !work.awaits {
        return Ok(());
    }
    let what = format!("every {} to be gone", kind.kind);
    shovel
        .until(&what, || async {
            let left = call("list", all.list_metadata(&ListParams::default().limit(1))).await;
            Ok(left.map_err(because(&what))?.items.is_empty())
        })
        .await
}

/// What is gone meanwhile is done.
async fn change(api: &Api<DynamicObject>, name: &str, work: &Work) -> Result<(), croft_core::plan::Failure> {
    let gone_is_done = |result: Result<(), croft_core::plan::Failure>| match result {
        Err(failure) if failure.reason == "NotFound" => Ok(()),
        other => other,
    };
    if let Some(set) = &work.set {
        let patch = Patch::Merge(set);
        gone_is_done(call("patch", api.patch(name, &PatchParams::default(), &patch)).await.map(drop))?;
    }
    if work.deletes {
        gone_is_done(call("delete", api.delete(name, &DeleteParams::default())).await.map(drop))?;
    }
    Ok(())
}
