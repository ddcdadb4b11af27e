//! What the operator says about itself: logs, metrics, health.

pub mod logs;
pub mod metrics;
pub mod server;
