//! `croft uninstall`: takes Croft out of a cluster, with the rights of the current user. What is done in which order is decided in
//! `croft_core::uninstall`; it works as well where the operator is gone already.

mod execute;
mod ground;
mod observe;
mod purge;

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use croft_core::uninstall::{Choice, Stage, describe, plan};

use self::execute::Shovel;
use crate::{
    cli::ClusterOptions,
    preview::{Answer, block_on, connect},
};

pub const HELP: &str = "\
Policies and webhooks go first, so that an absent operator blocks nobody; then the operator; the kinds last.

  --keep-data   what classes put into namespaces stays without an owner, and so do the Secrets with keys; users and buckets
                in Ceph, and Velero's backups, are not touched. This is the default.
  --purge       the operator deletes every backup, vault, bucket and user of tenants first, with all that is in them.

Examples:
  croft uninstall --dry-run              what would be done, in numbers
  croft uninstall --keep-data && helm uninstall croft -n croft-system";

#[derive(Debug, Args)]
pub struct UninstallOptions {
    /// Leave tenants what they have; the default
    #[arg(long, conflicts_with = "purge")]
    pub keep_data: bool,

    /// Delete what tenants have: backups, buckets, users in Ceph
    #[arg(long)]
    pub purge: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// The operator's own namespace
    #[arg(long, env = "CROFT_NAMESPACE", default_value = "croft-system", value_name = "NAME")]
    pub namespace: String,

    /// The namespace Velero runs in
    #[arg(long, default_value = "velero", value_name = "NAME")]
    pub velero_namespace: String,

    /// How many seconds to wait for each thing that others have to finish
    #[arg(long, default_value = "600", value_name = "SECONDS")]
    pub timeout: u64,

    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// Does it, or tells what it would do.
pub fn uninstall(options: &UninstallOptions) -> anyhow::Result<Answer> {
    let choice = if options.purge { Choice::Purge } else { Choice::KeepData };
    block_on(async {
        let (client, _) = connect(&options.cluster).await?;
        let ground = ground::ground(choice, &options.namespace, &options.velero_namespace)?;
        let world = observe::observe(&client).await?;
        let is_running = execute::holder(&client, &options.namespace).await?.is_some();
        let objects = world.seen();
        let steps = plan(&objects, &ground);
        let text = describe(&steps, &objects, &ground, is_running);
        if options.dry_run {
            let text = format!("This would be done; nothing is changed:\n{text}");
            return Ok(Answer { text, code: 0 });
        }
        eprint!("{text}");
        let shovel = Shovel { client: &client, ground: &ground, patience: Duration::from_secs(options.timeout) };
        let mut done = 0;
        for step in steps.iter().filter(|step| step.stage == Stage::Fences) {
            done += shovel.execute(step, &world).await?;
        }
        if choice == Choice::Purge && is_running {
            purge::purge(&shovel).await?;
        }
        // What the operator has done since is not in the plan that was told; what it still holds is.
        let world = observe::observe(&client).await?;
        let steps = plan(&world.seen(), &ground);
        shovel.stop_operator(&steps, &world).await?;
        for step in steps.iter().filter(|step| step.stage != Stage::Operator) {
            done += shovel.execute(step, &world).await?;
        }
        let left = shovel.remove_place().await.context("removing the operator's namespace")?;
        Ok(Answer { text: format!("{done} objects done. {left}\n"), code: 0 })
    })
}
