//! `croft rollback`, `croft pause` and `croft resume`: a roll-out in the hands of an administrator, with the rights of the current user.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use croft_api::namespaces::{NamespaceClass, NamespaceClassSpec, REVISION_LABEL, validate};
use croft_core::namespaces::rollout::digest_of;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    engine::write::{call, read},
    namespaces::revisions::Revision,
    preview::{Answer, because, block_on, connect},
};

/// Our name in managedFields for what a user does with this program.
const MANAGER: &str = "croft-cli";

/// As many letters of a digest are enough to mean it.
const SHORTEST_DIGEST: usize = 6;

pub const ROLLBACK_HELP: &str = "\
The class says again what it said then, and that is rolled out as any other change is: spec.rollout stays as it is.

Examples:
  croft rollback team                     to the revision before the newest
  croft rollback team --to 3              to revision 3
  croft plan team --to 3                  what that would do, before it does it
  kubectl get controllerrevisions -n croft-system -l namespaceclass.akuity.io/revision-of=team";

pub const PAUSE_HELP: &str = "\
Sets spec.rollout.paused. Every namespace stays at the revision it has, and is kept right there.

Example:
  croft pause team
  croft resume team";

#[derive(Debug, Args)]
pub struct RollbackOptions {
    /// The class
    #[arg(value_name = "CLASS")]
    pub class: String,

    /// Number of the revision, or the beginning of its digest; default: the one before the newest
    #[arg(long, value_name = "REVISION")]
    pub to: Option<String>,

    /// The operator's own namespace: revisions are kept there
    #[arg(long, env = "CROFT_NAMESPACE", default_value = "croft-system", value_name = "NAME")]
    pub operator_namespace: String,

    /// The cluster to work on; default: KUBECONFIG, else the cluster this pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PauseOptions {
    /// The class
    #[arg(value_name = "CLASS")]
    pub class: String,

    /// The cluster to work on; default: KUBECONFIG, else the cluster this pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// The class says again what it said before.
pub fn rollback(options: &RollbackOptions) -> anyhow::Result<Answer> {
    block_on(async {
        let client = connect(options.kubeconfig.as_deref()).await?;
        let class = class(&client, &options.class).await?;
        let revisions = revisions(&client, &options.operator_namespace, &class).await?;
        let now = digest_of(&validate::content(&class.spec));
        let revision = choose(&revisions, &now, options.to.as_deref())?;
        let (name, number) = (&options.class, revision.kept.number);
        if revision.kept.digest == now {
            return Ok(said(format!("class {name} says what revision {number} says; nothing is changed\n")));
        }
        let spec = at(&class, revision);
        // Nobody else's edit is overwritten.
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": class.uid() },
            { "op": "test", "path": "/metadata/generation", "value": class.metadata.generation },
            { "op": "replace", "path": "/spec", "value": spec },
        ]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch).context("the class cannot be written as JSON")?);
        change(&client, name, &patch).await?;
        Ok(said(format!(
            "class {name} says again what revision {number} said\n\
             how far that is: kubectl get namespaceclass {name}\n\
             what it was applied from says otherwise still: change it as well, or the next apply undoes this\n"
        )))
    })
}

/// Every namespace stays where it is, or goes on.
pub fn pause(options: &PauseOptions, paused: bool) -> anyhow::Result<Answer> {
    block_on(async {
        let client = connect(options.kubeconfig.as_deref()).await?;
        let name = &options.class;
        class(&client, name).await?;
        let paused_or_nothing = if paused { Value::Bool(true) } else { Value::Null };
        let patch = Patch::Merge(json!({ "spec": { "rollout": { "paused": paused_or_nothing } } }));
        change(&client, name, &patch).await?;
        Ok(said(if paused {
            format!(
                "class {name} is paused: every namespace stays at the revision it has\nto go on: croft resume {name}\n"
            )
        } else {
            format!("class {name} is rolled out\nhow far that is: kubectl get namespaceclass {name}\n")
        }))
    })
}

fn said(text: String) -> Answer {
    Answer { text, code: 0 }
}

async fn class(client: &Client, name: &str) -> anyhow::Result<NamespaceClass> {
    let api: Api<NamespaceClass> = Api::all(client.clone());
    let class = read(api.get_opt(name)).await.map_err(because(format!("reading class {name}")))?;
    class.with_context(|| format!("there is no NamespaceClass {name}"))
}

async fn change<P: serde::Serialize + std::fmt::Debug>(
    client: &Client,
    name: &str,
    patch: &Patch<P>,
) -> anyhow::Result<()> {
    let api: Api<NamespaceClass> = Api::all(client.clone());
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    call("patch", api.patch(name, &params, patch)).await.map_err(because(format!("changing class {name}")))?;
    Ok(())
}

/// The class and the revision of it somebody means.
pub(crate) async fn class_at(
    client: &Client,
    name: &str,
    operator_namespace: &str,
    to: &str,
) -> anyhow::Result<NamespaceClass> {
    let mut class = class(client, name).await?;
    let revisions = revisions(client, operator_namespace, &class).await?;
    let now = digest_of(&validate::content(&class.spec));
    class.spec = at(&class, choose(&revisions, &now, Some(to))?);
    Ok(class)
}

/// What the class said then, rolled out as it is now.
fn at(class: &NamespaceClass, revision: &Revision) -> NamespaceClassSpec {
    NamespaceClassSpec { rollout: class.spec.rollout.clone(), ..revision.spec.clone() }
}

/// The revisions of the class, the latest first.
async fn revisions(client: &Client, namespace: &str, class: &NamespaceClass) -> anyhow::Result<Vec<Revision>> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let labelled = ListParams::default().labels(&format!("{REVISION_LABEL}={}", class.name_any()));
    let stored = call("list", api.list(&labelled)).await;
    let stored = stored.map_err(because(format!("listing controllerrevisions in namespace {namespace}")))?;
    let mut revisions: Vec<_> = stored.iter().filter_map(|stored| Revision::read(stored, class)).collect();
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.kept.number));
    Ok(revisions)
}

/// The revision somebody means: by number, by the beginning of its digest, or the one before the newest.
fn choose<'r>(revisions: &'r [Revision], now: &str, to: Option<&str>) -> anyhow::Result<&'r Revision> {
    let is_meant = |revision: &&Revision, to: &str| {
        revision.kept.number.to_string() == to || (to.len() >= SHORTEST_DIGEST && revision.kept.digest.starts_with(to))
    };
    let found = match to {
        Some(to) => revisions.iter().find(|revision| is_meant(revision, to)),
        None => revisions.iter().find(|revision| revision.kept.digest != now),
    };
    let Some(found) = found else {
        let what = to.map_or("no earlier revision of it is kept".to_owned(), |to| format!("it has no revision {to}"));
        bail!("{what}; kept are: {}", listed(revisions, now));
    };
    Ok(found)
}

fn listed(revisions: &[Revision], now: &str) -> String {
    let mut list = String::new();
    for revision in revisions {
        let separator = if list.is_empty() { "" } else { ", " };
        let mark = if revision.kept.digest == now { " (what the class says now)" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(list, "{separator}{}{mark}", revision.kept.number);
    }
    if list.is_empty() { "none, the operator has not looked at the class yet".to_owned() } else { list }
}

#[cfg(test)]
mod tests {
    use croft_core::namespaces::rollout::Kept;

    use super::*;

    fn revision(number: i64, digest: &str) -> Revision {
        let kept = Kept { number, digest: digest.into(), ..Kept::default() };
        Revision { kept, generation: None, spec: NamespaceClassSpec::default() }
    }

    #[test]
    fn a_revision_is_meant_by_number_or_digest_and_else_it_is_the_one_before_the_newest() {
        let all = [revision(4, "aaaaaaaa1"), revision(3, "bbbbbbbb2"), revision(1, "cccccccc3")];
        let number = |to| choose(&all, "aaaaaaaa1", to).map(|revision| revision.kept.number).ok();
        assert_eq!(number(None), Some(3));
        assert_eq!(number(Some("1")), Some(1));
        assert_eq!(number(Some("bbbbbb")), Some(3));
        assert_eq!(number(Some("b")), None);
        let error = choose(&all, "aaaaaaaa1", Some("2")).unwrap_err().to_string();
        assert_eq!(error, "it has no revision 2; kept are: 4 (what the class says now), 3, 1");
        assert!(choose(&all[..1], "aaaaaaaa1", None).is_err());
    }
}
