//! Object storage on a real API server and a real Ceph, as the operator's own ServiceAccount.

#[path = "../support/mod.rs"]
mod support;

mod buckets;
mod claims;
mod classes;
mod deletion;
mod faults;
mod identities;
mod plot;
mod quota;
