//! Backups and restores for tenants, on real Kubernetes, Velero and Ceph, as the operator's own `ServiceAccount`.

#[path = "../support/mod.rs"]
mod support;

mod backups;
mod locations;
mod plot;
mod restores;
