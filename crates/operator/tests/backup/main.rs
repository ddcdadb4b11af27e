//! Backups and restores for tenants, on real Kubernetes, Velero and Ceph, as the operator's own `ServiceAccount`.

#[path = "../support/mod.rs"]
mod support;

mod approvals;
mod away;
mod backups;
mod downloads;
mod fences;
mod fields;
mod hostile;
mod injection;
mod kill;
mod limits;
mod locations;
mod plot;
mod restores;
mod schedules;
mod sync;
mod vaults;
