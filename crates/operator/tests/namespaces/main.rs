//! Namespaces furnished from a class, on a real API server, as the operator's own ServiceAccount.

#[path = "../support/mod.rs"]
mod support;

mod examples;
mod fences;
mod kill;
mod outage;
mod params;
mod policies;
mod scene;
mod status;
mod stories;
mod traps;
mod witness;
