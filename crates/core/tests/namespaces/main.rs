//! Labels, bindings and stamped objects: every small world converges, whatever goes wrong and whatever others do in between,
//! nothing foreign is ever touched, and in the end the status tells the truth.

#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../explorer/mod.rs"]
mod explorer;

mod convergence;
mod held;
mod meddling;
mod others;
mod outside;
mod policies;
mod roll_out;
mod seeing;
mod stories;
mod truth;
mod world;
