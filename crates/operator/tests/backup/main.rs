//! Backups and restores for tenants, on real Kubernetes, Velero and Ceph, as the operator's own `ServiceAccount`.

#[path = "../support/mod.rs"]
mod support;

mod away;
mod backups;
mod fences;
mod fields;
mod hostile;
mod injection;
mod locations;
mod plot;
mod restores;
