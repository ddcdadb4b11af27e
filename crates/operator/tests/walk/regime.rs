//! An operator that dies again and again, each time at another write, and is started again at once.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match},
    product::{Installed, Operator},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::DeleteParams};
use tokio::sync::watch;

/// When the operator dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// Its last write is committed; it never hears of it.
    AfterAWrite,
    /// Its last write is never sent.
    BeforeAWrite,
}

/// The n-th start dies at its n-th write, up to this one, then it begins again: every write of every plan is hit, and yet the
/// work goes on. What is stored by way of our own door, a claim of storage, takes several writes of one life.
const LONGEST_LIFE: usize = 8;

type Running = Arc<Mutex<Option<Operator>>>;

/// Keeps an operator alive against the odds until `end`; returns how often it died.
pub(crate) async fn reign(
    bed: &Testbed,
    installed: &Installed,
    regime: Regime,
    mut end: watch::Receiver<bool>,
) -> Result<usize> {
    let proxy = FaultProxy::kubernetes(bed, &installed.identity).await?;
    let leases: Api<Lease> = Api::namespaced(bed.admin().client.clone(), &installed.namespace);
    let running: Running = Arc::default();
    let deaths = Arc::new(AtomicUsize::new(0));
    for start in 0.. {
        if *end.borrow() {
            break;
        }
        proxy.clear_rules();
        arm(&proxy, regime, 1 + start % LONGEST_LIFE, &running, &deaths);
        // The dead leader is proven dead: its lease need not run out.
        let _ = leases.delete("croft", &DeleteParams::default()).await;
        let operator = installed.start(bed, "mortal", proxy.kubeconfig(), &["--log", "info,croft=debug"])?;
        *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(operator);
        while is_alive(&running) && !*end.borrow() {
            let _ = tokio::time::timeout(Duration::from_millis(20), end.changed()).await;
        }
    }
    proxy.clear_rules();
    Ok(deaths.load(Ordering::SeqCst))
}

fn arm(proxy: &FaultProxy, regime: Regime, last_write: usize, running: &Running, deaths: &Arc<AtomicUsize>) {
    let (running, deaths) = (running.clone(), deaths.clone());
    let kill = Action::kill(move || {
        if let Some(operator) = &*running.lock().unwrap_or_else(PoisonError::into_inner) {
            operator.process.kill();
            deaths.fetch_add(1, Ordering::SeqCst);
        }
    });
    match regime {
        Regime::AfterAWrite => proxy.on(Match::write_number(last_write)).after(kill),
        Regime::BeforeAWrite => proxy.on(Match::write_number(last_write)).before(kill),
    };
}

fn is_alive(running: &Running) -> bool {
    running
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .is_some_and(|operator| operator.process.is_running())
}
