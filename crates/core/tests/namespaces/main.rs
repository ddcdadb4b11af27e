//! Labels, bindings and stamped objects: every small world converges, also with a crash after every step and with the reply
//! of every step lost, whatever others do in between, and nothing foreign is ever touched.

#![allow(unreachable_pub, reason = "modules of one test program")]

mod convergence;
mod meddling;
mod policies;
mod roll_out;
mod world;
