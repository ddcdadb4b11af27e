//! What every integration test starts from: real parts with Croft installed and running as its own ServiceAccount.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own share of this")]

use std::{future::Future, ops::Deref, path::Path, sync::Arc, time::Duration};

use anyhow::Result;
use croft_testbed::{
    Identity, Testbed, Want,
    product::{Installed, Operator},
    wait,
};
use kube::Client;
use tokio::sync::OnceCell;

/// Longest wait for anything the operator does on an idle cluster.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn croft() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_croft"))
}

/// A testbed with Croft installed and one replica running.
#[derive(Debug)]
pub struct World {
    pub bed: Testbed,
    pub installed: Installed,
    pub operator: Operator,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// What ends with the program, or with the last who holds it.
#[derive(Debug)]
pub enum Held<T: 'static> {
    ByAll(&'static T),
    BySome(Arc<T>),
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        match self {
            Self::ByAll(shared) => Self::ByAll(shared),
            Self::BySome(own) => Self::BySome(Arc::clone(own)),
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::ByAll(shared) => shared,
            Self::BySome(own) => own,
        }
    }
}

/// The world all tests of one program share: a namespace each.
#[derive(Debug)]
pub struct Shared {
    // Dropped in this order: the operator would complain about a cluster that goes.
    pub operator: Operator,
    pub bed: Held<Testbed>,
    pub installed: Installed,
}

impl Shared {
    /// Croft installed and one replica running with these settings.
    pub async fn on(bed: Held<Testbed>, settings: &str) -> Result<Self> {
        let installed = Installed::new(&bed, croft()).await?;
        let operator = replica(&bed, &installed, "shared", settings).await?;
        Ok(Self { operator, bed, installed })
    }

    /// The same on parts of its own.
    pub async fn of_its_own(want: Want, settings: &str) -> Result<Self> {
        Self::on(Held::BySome(Arc::new(want.start().await?)), settings).await
    }

    pub fn client(&self) -> Client {
        self.bed.admin().client.clone()
    }
}

/// One world per test program; the first caller's `want` decides what is in it.
pub async fn shared(want: Want) -> &'static Shared {
    shared_with(want, "").await
}

/// As [`shared`], with these settings in the operator's file.
pub async fn shared_with(want: Want, settings: &str) -> &'static Shared {
    let start = Box::pin(async { Shared::on(Held::ByAll(croft_testbed::shared(want).await?), settings).await });
    SHARED.get_or_try_init(|| start).await.expect("the shared world starts")
}

impl World {
    /// A world of one's own, for tests that kill or restart parts.
    pub async fn own(want: Want) -> Result<Self> {
        Self::own_with(want, "").await
    }

    /// The same, with these settings in the operator's file.
    pub async fn own_with(want: Want, settings: &str) -> Result<Self> {
        let (bed, installed) = Self::installed(want).await?;
        let operator = replica(&bed, &installed, "own", settings).await?;
        Ok(Self { bed, installed, operator })
    }

    /// Parts and manifests, but no replica yet.
    pub async fn installed(want: Want) -> Result<(Testbed, Installed)> {
        let bed = want.start().await?;
        let installed = Installed::new(&bed, croft()).await?;
        Ok((bed, installed))
    }

    pub fn client(&self) -> Client {
        self.bed.admin().client.clone()
    }
}

async fn replica(bed: &Testbed, installed: &Installed, name: &str, settings: &str) -> Result<Operator> {
    let config = bed.dir().join("settings.yaml");
    std::fs::write(&config, settings)?;
    let config = config.display().to_string();
    let arguments = ["--log", "info,croft=debug", "--config", &config];
    let operator = installed.start(bed, name, &installed.identity.kubeconfig, &arguments)?;
    operator.ready(PATIENCE).await?;
    Ok(operator)
}

/// Waits until `probe` gives a value; fails with `what` and the last error.
pub async fn eventually<T, Probe, Answer>(what: &str, probe: Probe) -> T
where
    Probe: FnMut() -> Answer,
    Answer: Future<Output = Result<Option<T>>>,
{
    wait::until(what, PATIENCE, probe).await.unwrap_or_else(|error| panic!("{error:#}"))
}

/// Applies YAML as `who`, server-side.
pub async fn apply(who: &Identity, yaml: &str) -> Result<String> {
    who.kubectl_stdin(&["apply", "--server-side", "--force-conflicts", "-f", "-"], yaml).await
}
