//! Namespaces furnished from a class, on a real API server, as the operator's own ServiceAccount.

#![allow(clippy::needless_pass_by_value, reason = "`json!` literals read better without a borrow")]

#[path = "../support/mod.rs"]
mod support;

mod anew;
mod blocked;
mod contests;
mod errors;
mod examples;
mod fences;
mod kill;
mod many;
mod outage;
mod params;
mod policies;
mod removal;
mod rollouts;
mod scene;
mod status;
mod stories;
mod taken_over;
mod traps;
mod unobservable;
mod witness;
