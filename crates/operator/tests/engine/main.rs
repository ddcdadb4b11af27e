//! The engine on a real API server: leadership, survival, silence, and errors a person can act on.

#[path = "../support/mod.rs"]
mod support;

mod command_line;
mod failover;
mod outages;
mod survival;
mod tenant;
