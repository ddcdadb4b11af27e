//! `make dev`: a cluster to play with.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    setup,
    terminal::{bold, dim},
    tools::{Profile, croft, target},
    world::{Kubeconfig, World, until_stopped},
};

pub(crate) fn dev() -> Result<()> {
    let program = croft(Profile::Debug)?;
    setup::ensure()?;
    until_stopped(async {
        println!("{}", dim("starting Kubernetes, Ceph, Velero and Croft on this machine ..."));
        let world = World::start(&program, &["--log=info,croft=debug"]).await?;
        world.apply_class(&World::write_class()?).await?;
        let chosen = std::env::var_os("KUBECONFIG_OUT").filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = chosen.map_or_else(|| Ok(target()?.join("dev.kubeconfig")), anyhow::Ok)?;
        let kubeconfig = Kubeconfig::write(&world, &path)?;
        print_screen(&world, &kubeconfig)?;
        world.watch_over().await
    })
    .map(drop)
}

fn print_screen(world: &World, kubeconfig: &Kubeconfig) -> Result<()> {
    println!("\n{}", bold("Croft is running"));
    world.print_timings();
    println!("\n   kubeconfig       {}", kubeconfig.path().display());
    println!("   operator's log   {}", world.operator.process.log_path().display());
    println!("   health, metrics  {h}/readyz  {h}/metrics", h = world.operator.health);
    println!("   Ceph             {}", world.bed.ceph().endpoint);
    println!(
        "\n{}
   {}
   kubectl create namespace blue
   kubectl label namespace blue namespaceclass.akuity.io/name=team
   kubectl get namespaceclassbinding,s3userclaim,backupvault,nonadminbackupstoragelocation -n blue
   kubectl get secret storage-admin -n blue -o jsonpath='{{.data.cloud}}' | base64 -d
   kubectl label namespace blue namespaceclass.akuity.io/name-
\n{}",
        bold("Try"),
        kubeconfig.shell_setup()?,
        dim("Ctrl-C ends it all and leaves nothing behind.")
    );
    Ok(())
}
