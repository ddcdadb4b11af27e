//! The Croft operator: the shell around `croft-core`. It watches, calls and reports; it decides nothing.

pub mod engine;
pub mod rbac;
pub mod settings;
pub mod telemetry;
