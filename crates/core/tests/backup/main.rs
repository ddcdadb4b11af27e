//! The promises of the backup part, from every small world.

#[path = "../explorer/mod.rs"]
mod explorer;

mod approval;
mod location;
mod non_admin_backup;
mod request;
mod restore;
mod schedule;
mod vault;

use croft_core::{
    backup::{Object, Phase, Settings},
    conditions::Conditions,
    plan::Outcome,
    time::Timestamp,
};
use explorer::Limits;
use serde_json::{Map, Value};

const UID: &str = "0d0b7b2c-ee76-412d-a867-2c23b8aa51ab";

fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:30Z".into())
}

#[expect(clippy::needless_pass_by_value, reason = "called with literals")]
fn fields(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

/// There are finitely many worlds here, so that others may act as often as they like.
const EVERYTHING: Limits = Limits { acts: 3, faults: true, at_once: 2 };

fn done() -> Outcome {
    Outcome::done()
}

fn object(has_finalizer: bool, is_deleting: bool, namespace_is_terminating: bool) -> Object {
    Object {
        namespace: "shop".into(),
        name: "nightly".into(),
        uid: UID.into(),
        generation: 1,
        has_finalizer,
        is_deleting,
        namespace_is_terminating,
    }
}

fn settings() -> Settings {
    Settings { velero_namespace: "velero".into(), on_delete: croft_core::backup::OnDelete::Hold }
}

fn assert_forward(before: Option<Phase>, after: Option<Phase>) {
    assert!(before <= after, "the phase went back from {before:?} to {after:?}");
}

/// The conditions as (type, status, reason), for golden assertions.
fn told(conditions: &Conditions) -> Vec<String> {
    conditions.0.iter().map(|c| format!("{}={:?} {}", c.kind, c.status, c.reason)).collect()
}
