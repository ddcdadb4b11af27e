//! `croft uninstall`: takes Croft out of a cluster, with the rights of the current user. What is done in which order is decided in
//! `croft_core::uninstall`; it works as well where the operator is gone already.

mod execute;
mod find;
mod ground;
mod leads;
mod observe;
mod purge;
mod velero;

use std::{fmt::Write as _, time::Duration};

use anyhow::{anyhow, bail};
use clap::Args;
use croft_core::{
    storage::GIVE_UP,
    uninstall::{Choice, describe, hindrance, plan},
};
use tokio::signal::unix::{SignalKind, signal};

use self::{execute::Shovel, observe::World};
use crate::{
    cli::ClusterOptions,
    engine::Part,
    parts,
    preview::{Answer, block_on, connect},
    run::asked_to_stop,
};

pub const HELP: &str = "\
Policies and webhooks go first, so that an absent operator blocks nobody; then the operator; then the policies around Velero,
once it restores for no tenant any more; the kinds last, once nothing is left that would go with them. Without a choice it
says what --keep-data would do, and does nothing.

  --keep-data   what classes put into namespaces stays without an owner, and so do the Secrets with keys; users and buckets
                in Ceph, and Velero's backups, are not touched.
  --purge       the operator deletes every backup, vault, bucket and user of tenants first, with all that is in them,
                also buckets that were to be retained; backups out of reach are let go of after --timeout, and what
                is stored of them stays. Where that comes to no end, or is interrupted, classes are told to retain
                again what they retained before, and nothing else is done.

Exit code: 0 all is done, 1 nothing was asked to be done, 2 not done, or not whole: what is left is named.

Examples:
  croft uninstall --dry-run --purge      what would be done, in numbers
  croft uninstall --keep-data && helm uninstall croft -n croft-system";

#[derive(Debug, Args)]
pub struct UninstallOptions {
    /// Leave tenants what they have
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

    /// The namespace Velero runs in, besides those where the operator has rights for it
    #[arg(long, default_value = "velero", value_name = "NAME")]
    pub velero_namespace: String,

    /// The parts that ran here, where neither a Deployment nor the kinds themselves tell that these kinds are Croft's
    #[arg(long, value_delimiter = ',', value_parser = parts::value_parser(), value_name = "PARTS")]
    pub enable: Vec<Part>,

    /// How many seconds to wait for each thing that others have to finish
    #[arg(long, default_value = "600", value_name = "SECONDS")]
    pub timeout: u64,

    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// Does it, or tells what it would do.
pub fn uninstall(options: &UninstallOptions) -> anyhow::Result<Answer> {
    let choice = if options.purge { Choice::Purge } else { Choice::KeepData };
    let is_chosen = options.purge || options.keep_data;
    block_on(async {
        let (client, _) = connect(&options.cluster).await?;
        let found = find::find(&client, options, choice).await?;
        let ground = &found.ground;
        let world = World::of_all(&client, ground).await?;
        let objects = world.seen();
        let leads = choice == Choice::Purge && leads::leads(&client, &options.namespace).await?;
        let hindrance = match choice {
            Choice::Purge => hindrance(objects, ground, leads, found.parts.as_deref()),
            Choice::KeepData => None,
        };
        let mut text = describe(&plan(objects, ground), objects, ground, hindrance.as_deref());
        for doubt in world.unlisted().into_iter().chain(found.doubt()) {
            let _ = writeln!(text, "  but: {doubt}");
        }
        if options.dry_run || !is_chosen {
            let how = if options.dry_run { "" } else { "\nSay --keep-data to have this done, or --purge.\n" };
            let text = format!("This would be done; nothing is changed:\n{text}{how}");
            return Ok(Answer { text, code: u8::from(!options.dry_run) });
        }
        if let Some(hindrance) = hindrance {
            bail!(hindrance);
        }
        eprint!("{text}");
        let shovel = Shovel { client: &client, ground, patience: Duration::from_secs(options.timeout) };
        let mut done = shovel.open_the_way(&world).await;
        match choice {
            Choice::Purge if leads => purge_or_take_back(&shovel, &world).await?,
            Choice::Purge => {}
            // A purge that was killed has left them so, and the operator still runs.
            Choice::KeepData => {
                if let Err(error) = purge::take_back(&shovel, &world).await {
                    // Once nobody works any more it does not matter.
                    eprintln!("  not taken back, so the operator has to end first: {error:#}");
                }
            }
        }
        let rest = async {
            shovel.stop_operator(&world).await?;
            shovel.let_velero_rest(&world).await?;
            done += shovel.take_down().await?;
            let left = shovel.remove_place().await?;
            let doubt = found.doubt().map(|doubt| format!("But {doubt}.\n")).unwrap_or_default();
            Ok(Answer { text: format!("{done} objects done. {left}\n{doubt}"), code: 0 })
        };
        let ended = tokio::select! {
            done = rest => done,
            interrupted = interrupted() => interrupted.and_then(|()| Err(anyhow!("interrupted: start again to go on"))),
        };
        // What tenants store from here on is not given up, where Croft stays after all.
        if ended.is_err()
            && choice == Choice::Purge
            && let Err(error) = purge::take_back(&shovel, &world).await
        {
            eprintln!("  S3Classes still give everything up, and could not be told otherwise: {error:#}");
        }
        ended
    })
}

/// Whoever then decides to keep Croft loses nothing that was to be retained.
async fn purge_or_take_back(shovel: &Shovel<'_>, world: &World) -> anyhow::Result<()> {
    let ended = tokio::select! {
        ended = purge::purge(shovel, world) => ended,
        interrupted = interrupted() => interrupted.and_then(|()| Err(anyhow!("interrupted"))),
    };
    let Err(error) = ended else { return Ok(()) };
    let state = match purge::take_back(shovel, world).await {
        Ok(()) => {
            "S3Classes say again what they said before, the operator runs, policies and webhooks are gone".to_owned()
        }
        Err(why) => format!(
            "S3Classes could not be told to retain again ({why:#}), so that the operator goes on deleting what tenants have: stop \
             it, or take back by hand what the annotation {GIVE_UP} says; policies and webhooks are gone"
        ),
    };
    Err(error.context(format!(
        "the purge came to no end; {state}. Start again to go on, also with --keep-data; or install the same release once more, \
         which brings policies and webhooks back"
    )))
}

/// By whoever sits there, by what runs it, or because his terminal is gone, unless he said that this does not matter.
async fn interrupted() -> anyhow::Result<()> {
    let mut hang_up = if outlives_its_terminal() { None } else { Some(signal(SignalKind::hangup())?) };
    let gone = async {
        match &mut hang_up {
            Some(hang_up) => drop(hang_up.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        asked = asked_to_stop() => asked,
        () = gone => Ok(()),
    }
}

/// As under nohup.
fn outlives_its_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
