//! Whether any operator leads, wherever it runs.

use std::time::{Duration, Instant};

use croft_core::{
    time,
    uninstall::{Beat, Pulse},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use super::execute::LOOK;
use crate::{engine::write::read, preview::because, run::LEASE};

/// Takes as long as others would wait for a renewal, at most: no clock but our own tells.
pub(super) async fn leads(client: &Client, namespace: &str) -> anyhow::Result<bool> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let (started, mut pulse) = (Instant::now(), Pulse::default());
    loop {
        let lease = read(leases.get_opt(LEASE)).await.map_err(because("reading the lease"))?;
        let passed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(leads) = pulse.look(lease.map(beat), time::Instant(passed)) {
            return Ok(leads);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn beat(lease: Lease) -> Beat {
    let spec = lease.spec.unwrap_or_default();
    let term = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
    let renewed = spec.renew_time.map(|renewed| renewed.0.to_string()).unwrap_or_default();
    let renewal = (renewed, spec.lease_transitions.unwrap_or_default());
    Beat { holder: spec.holder_identity.unwrap_or_default(), renewal, term: Duration::from_secs(term) }
}
