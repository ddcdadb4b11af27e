//! The Croft operator: the shell around `croft-core`. It watches, calls and reports; it decides nothing.

pub mod admission;
pub mod backup;
pub mod cli;
pub mod client;
pub mod conditions;
mod connections;
pub mod engine;
pub mod manifests;
pub mod namespaces;
pub mod objects;
mod panics;
pub mod parts;
mod policies;
pub mod preview;
pub mod rbac;
pub mod roles;
pub mod run;
pub mod settings;
pub mod steering;
pub mod storage;
pub mod telemetry;
pub mod uninstall;
pub mod version;
