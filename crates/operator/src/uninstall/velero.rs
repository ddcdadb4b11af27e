//! Before the policies around it go, Velero comes to rest for tenants: nobody judges then what it does for them with the rights it has.

use anyhow::Context as _;
use croft_api::backup::{MANAGED_BY_LABEL, MANAGED_BY_VALUE};
use croft_core::uninstall::{Kind, Stand, at_rest, stand};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;

use super::{execute::Shovel, observe::World};
use crate::{
    backup::{OWN_BUCKET, UNFINISHED},
    engine::write::call,
    preview::because,
};

impl Shovel<'_> {
    /// Buckets of tenants' own are read from then on, by whoever asks, and nothing else; and no tenant's Restore is under way any more.
    pub(super) async fn let_velero_rest(&self, world: &World) -> anyhow::Result<()> {
        if let Some(all) = self.of_velero(world, "BackupStorageLocation") {
            for location in marked(&all, OWN_BUCKET).await? {
                let Some(mut patch) = at_rest(&json!(location)) else { continue };
                let (name, api) = self.at(world, "BackupStorageLocation", &location)?;
                eprintln!("  {name} becomes read-only, and is not synchronised any more");
                patch["metadata"]["uid"] = json!(location.metadata.uid);
                let patched = call("patch", api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))).await;
                patched.map_err(because(format!("BackupStorageLocation {name}")))?;
            }
        }
        let Some(all) = self.of_velero(world, "Restore") else { return Ok(()) };
        let what = "Velero to end with the restores of tenants (where it does not run any more, delete those that are labelled \
                    croft.dev/unfinished)";
        self.until(what, || async {
            let mut is_over = true;
            for restore in marked(&all, UNFINISHED).await? {
                match stand(&json!(restore)) {
                    Stand::Over => {}
                    Stand::AtWork => is_over = false,
                    Stand::Waiting => {
                        is_over = false;
                        let (name, api) = self.at(world, "Restore", &restore)?;
                        // As it was seen: one that Velero has begun with meanwhile is waited for.
                        let done = call("delete", api.delete(&name, &exactly_as(&restore))).await;
                        match done {
                            Err(failure) if !["NotFound", "Conflict"].contains(&failure.reason) => {
                                return Err(because(format!("Restore {name}"))(failure));
                            }
                            _ => {}
                        }
                    }
                }
            }
            Ok(is_over)
        })
        .await
    }

    fn of_velero(&self, world: &World, kind: &str) -> Option<Api<DynamicObject>> {
        world.api(self.client, &velero(kind), "")
    }

    fn at(&self, world: &World, kind: &str, object: &DynamicObject) -> anyhow::Result<(String, Api<DynamicObject>)> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let api = world.api(self.client, &velero(kind), namespace).context("a kind that was listed")?;
        Ok((object.metadata.name.clone().unwrap_or_default(), api))
    }
}

fn velero(kind: &str) -> Kind {
    Kind { group: "velero.io".into(), kind: kind.into() }
}

/// Those of a kind that the operator has made, with this mark.
async fn marked(all: &Api<DynamicObject>, (key, value): (&str, &str)) -> anyhow::Result<Vec<DynamicObject>> {
    let ours = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY_VALUE},{key}={value}"));
    match call("list", all.list(&ours)).await {
        Err(failure) if ["NotFound", "NotServed"].contains(&failure.reason) => Ok(Vec::new()),
        listed => listed.map(|list| list.items).map_err(because("listing what Velero does for tenants")),
    }
}

fn exactly_as(seen: &DynamicObject) -> DeleteParams {
    let version = seen.metadata.resource_version.clone();
    let preconditions = Some(Preconditions { uid: seen.metadata.uid.clone(), resource_version: version });
    DeleteParams { preconditions, ..DeleteParams::default() }
}
