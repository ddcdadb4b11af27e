//! Object storage on a real API server and a real Ceph, as the operator's own ServiceAccount.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod authority;
mod binding;
mod books;
mod buckets;
mod calls;
mod claims;
mod classes;
mod compatible;
mod contention;
mod deletion;
mod faults;
mod fences;
mod held;
mod identities;
mod input;
mod kill;
mod memory;
mod migrated;
mod migration;
mod paced;
mod plot;
mod purges;
mod quota;
mod sampled;
mod settings;
mod unreadable;
mod usage;
mod verbs;
