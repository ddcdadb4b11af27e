//! `croft rollback`, `croft pause` and `croft resume`: a roll-out in the hands of an administrator, with the rights of the current user.

use std::fmt::Write as _;

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
    cli::ClusterOptions,
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
  croft rollback team                     to the last revision every namespace had; where that is the
                                          newest, to the one before it
  croft rollback team --to 3              to revision 3
  croft plan team --to 3                  what that would do, before it does it
  kubectl get controllerrevisions -n croft-system -l namespaceclass.akuity.io/revision-of=team";

pub const PAUSE_HELP: &str = "\
Sets spec.rollout.paused. Every namespace stays at the revision it has, and is kept right there; a revision that all of them were
given at once already goes on.

Example:
  croft pause team
  croft resume team";

#[derive(Debug, Args)]
pub struct RollbackOptions {
    /// The class
    #[arg(value_name = "CLASS")]
    pub class: String,

    /// Number of the revision, or the beginning of its digest; default: the last one that was rolled out completely, and where
    /// the class says that now, the one before it
    #[arg(long, value_name = "REVISION")]
    pub to: Option<String>,

    /// The operator's own namespace: revisions are kept there
    #[arg(long, env = "CROFT_NAMESPACE", default_value = "croft-system", value_name = "NAME")]
    pub operator_namespace: String,

    #[command(flatten)]
    pub cluster: ClusterOptions,
}

#[derive(Debug, Args)]
pub struct PauseOptions {
    /// The class
    #[arg(value_name = "CLASS")]
    pub class: String,

    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// The class says again what it said before.
pub fn rollback(options: &RollbackOptions) -> anyhow::Result<Answer> {
    block_on(async {
        let (client, _) = connect(&options.cluster).await?;
        let class = class(&client, &options.class).await?;
        let revisions = revisions(&client, &options.operator_namespace, &class).await?;
        let now = digest_of(&validate::content(&class.spec));
        let released = class.status.as_ref().and_then(|status| status.revision.as_deref());
        let revision = choose(&revisions, &now, released, options.to.as_deref())?;
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
        let (client, _) = connect(&options.cluster).await?;
        let name = &options.class;
        class(&client, name).await?;
        let paused_or_nothing = if paused { Value::Bool(true) } else { Value::Null };
        let patch = Patch::Merge(json!({ "spec": { "rollout": { "paused": paused_or_nothing } } }));
        change(&client, name, &patch).await?;
        Ok(said(if paused {
            format!("class {name} is paused: no namespace moves to another revision\nto go on: croft resume {name}\n")
        } else {
            format!(
                "class {name} is not paused any more\nhow far it is, and what it waits for: kubectl describe \
                 namespaceclass {name}\n"
            )
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
    class.spec = at(&class, choose(&revisions, &now, None, Some(to))?);
    Ok(class)
}

/// What the class said then, rolled out and waited for as it is now.
fn at(class: &NamespaceClass, revision: &Revision) -> NamespaceClassSpec {
    NamespaceClassSpec { rollout: class.spec.rollout.clone(), gate: class.spec.gate, ..revision.spec.clone() }
}

/// The revisions of the class, the latest first.
pub(crate) async fn revisions(
    client: &Client,
    namespace: &str,
    class: &NamespaceClass,
) -> anyhow::Result<Vec<Revision>> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let labelled = ListParams::default().labels(&format!("{REVISION_LABEL}={}", class.name_any()));
    let stored = call("list", api.list(&labelled)).await;
    let stored = stored.map_err(because(format!("listing controllerrevisions in namespace {namespace}")))?;
    let mut revisions: Vec<_> = stored.iter().filter_map(|stored| Revision::read(stored, class)).collect();
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.kept.number));
    Ok(revisions)
}

/// The revision somebody means: by number, by the beginning of its digest, or the last one that is known to work. The one before
/// the newest may be an attempt that failed as well.
fn choose<'r>(
    revisions: &'r [Revision],
    now: &str,
    released: Option<&str>,
    to: Option<&str>,
) -> anyhow::Result<&'r Revision> {
    let is_meant = |revision: &&Revision, to: &str| {
        revision.kept.number.to_string() == to || (to.len() >= SHORTEST_DIGEST && revision.kept.digest.starts_with(to))
    };
    let last_that_works = || {
        let mut others = revisions.iter().filter(|revision| revision.kept.digest != now);
        let works = |revision: &&Revision| Some(revision.kept.digest.as_str()) == released;
        others.clone().find(works).or_else(|| others.next())
    };
    let named = |to: &str| revisions.iter().find(|revision| is_meant(revision, to));
    let found = to.map_or_else(last_that_works, named);
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
    fn a_revision_is_meant_by_number_or_digest_and_else_it_is_the_last_that_everybody_had() {
        let all = [revision(4, "aaaaaaaa1"), revision(3, "bbbbbbbb2"), revision(1, "cccccccc3")];
        let chosen = |released, to| choose(&all, "aaaaaaaa1", released, to).map(|revision| revision.kept.number).ok();
        assert_eq!(chosen(Some("cccccccc3"), None), Some(1), "both attempts since then failed");
        assert_eq!(chosen(Some("aaaaaaaa1"), None), Some(3), "everybody has the newest: back to the one before");
        assert_eq!(chosen(None, None), Some(3));
        let number = |to| chosen(None, to);
        assert_eq!(number(Some("1")), Some(1));
        assert_eq!(number(Some("bbbbbb")), Some(3));
        assert_eq!(number(Some("b")), None);
        let error = choose(&all, "aaaaaaaa1", None, Some("2")).unwrap_err().to_string();
        assert_eq!(error, "it has no revision 2; kept are: 4 (what the class says now), 3, 1");
        assert!(choose(&all[..1], "aaaaaaaa1", None, None).is_err());
    }
}
