//! `make demo`: one tenant, from a label to a restored backup, on real Kubernetes, Ceph and Velero.
//!
//! Everything shown is the output of the command above it. The tenant acts with the rights of [`tenant::rules`] only.

mod compare;
mod steps;
pub(crate) mod tenant;
mod trust;

use std::path::Path;

use anyhow::{Result, anyhow};
use croft_testbed::parts;

use self::steps::Demo;
use crate::{
    setup,
    story::Story,
    terminal::{bold, dim},
    tools::{Profile, croft, target},
    world::{Kubeconfig, World, to_the_end, until_stopped},
};

pub(crate) fn demo() -> Result<()> {
    let program = croft(Profile::Debug)?;
    setup::ensure()?;
    parts::ensure_tools()?;
    let keep = std::env::var_os("KEEP").is_some_and(|value| !value.is_empty() && value != "0");
    let ended = until_stopped(async {
        let world = tell(&program).await?;
        if keep {
            return stay(&world).await;
        }
        println!("{}", what_next());
        Ok(())
    })?;
    if keep { Ok(()) } else { to_the_end(ended) }
}

async fn tell(program: &Path) -> Result<World> {
    let mut story = Story::new();
    story.begin("Start a real Kubernetes, Ceph and Velero on this machine, and Croft with its own rights.");
    let world = World::start(program, &["--log=info,croft=debug"]).await?;
    world.print_timings();
    let demo = Demo::new(&world);
    let told = tokio::select! {
        told = demo.tell(&mut story) => told,
        died = world.watch_over() => died,
    };
    if let Err(error) = told {
        let log = world.keep_log()?;
        return Err(anyhow!("step {}: {error:#}\nthe operator's log is in {}", story.step(), log.display()));
    }
    story.end();
    println!("\n{} in {}.", bold("The whole story"), story.told_in());
    Ok(world)
}

fn what_next() -> String {
    format!(
        "\n{}\n   KEEP=1 make demo    the same, and everything keeps running for you to look around\n   \
         make dev            an empty cluster with Croft in it\n   \
         docs/README.md      every kind, every field, an example each\n   \
         deploy/croft.yaml   what `kubectl apply` needs to install it",
        bold("What to try next")
    )
}

async fn stay(world: &World) -> Result<()> {
    let kubeconfig = Kubeconfig::write(world, &target()?.join("demo/admin.kubeconfig"))?;
    println!(
        "\n{}\n   {}\n   kubectl label namespace blue namespaceclass.akuity.io/name=team   # all of it \
         comes back\n   kubectl get events -n blue\n   kubectl explain s3userclaim.spec\n   tail -f {}\n\n{}",
        bold("It keeps running"),
        kubeconfig.shell_setup()?,
        world.operator.process.log_path().display(),
        dim("Ctrl-C ends it all and leaves nothing behind.")
    );
    world.watch_over().await
}
