//! What `croft plan` and `croft explain` say, on a real API server beside a running operator; and that they change nothing.

#[path = "../support/mod.rs"]
mod support;

mod desk;
mod explaining;
mod going;
mod planning;
mod scale;
mod whose;
