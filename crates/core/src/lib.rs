//! The decisions of the Croft operator.
//!
//! Everything here is pure: what was observed goes in, a plan comes out. There is no Kubernetes client, no clock, no
//! randomness and no IO in this crate, so every decision can be tested from every small world in milliseconds.
//!
//! Everything here is total as well: whatever anybody wrote into an object, there is an answer and never a panic.
//!
//! The folders are the parts of the product; beside them stands what the parts share.

// One panic on a stored object would end every replica, one after the other.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]

pub mod backoff;
pub mod backup;
pub mod budget;
pub mod conditions;
pub mod journal;
pub mod lease;
pub mod name;
pub mod namespaces;
pub mod network;
pub mod plan;
pub mod problem;
pub mod quantity;
pub mod queue;
pub mod refusal;
pub mod secret;
pub mod storage;
pub mod time;
pub mod uninstall;
pub mod watching;
pub mod weight;
