//! The promises of the backup part, from every small world.

#[path = "../explorer/mod.rs"]
mod explorer;

mod approval;
mod location;
mod non_admin_backup;
mod own_bucket;
mod request;
mod restore;
mod schedule;
mod vault;

use croft_core::{
    backup::{Handed, Object, Phase, Policy, Presence, Transfers, ownership::Marks},
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
        namespace_is_excluded: false,
        velero: Presence::Here,
        is_brought_back: false,
        ahead: 0,
        tried: None,
    }
}

/// An edit of what was refused begins anew; nothing else takes a phase back.
fn assert_forward_unless_edited<A, S>(
    before: &request::Request<A, S>,
    after: &request::Request<A, S>,
    phase: impl Fn(&S) -> Option<Phase>,
    refused_at: impl Fn(&S) -> Option<i64>,
) {
    let (was, is) = (phase(&before.status), phase(&after.status));
    let begins_anew = was == Some(Phase::BackingOff) && refused_at(&before.status) != Some(before.generation);
    if begins_anew {
        return;
    }
    assert_forward(was, is);
    if was == Some(Phase::BackingOff) {
        assert!(matches!(is, Some(Phase::BackingOff | Phase::Deleting)), "left BackingOff without an edit");
    }
}

/// The generation a request was last judged at.
fn judged_at(conditions: &Conditions) -> Option<i64> {
    conditions.get("Accepted").and_then(|accepted| accepted.observed_generation)
}

/// A Velero Backup or Restore under the name of ours.
fn handed(ours: bool, status: Value, is_deleting: bool, position: u64) -> Handed {
    Handed {
        uid: if ours { "ours" } else { "theirs" }.into(),
        version: "1".into(),
        marks: if ours { object(true, false, false).origin(None).marks() } else { Marks::default() },
        made_for: None,
        spec: fields(serde_json::json!({ "includedNamespaces": ["shop"] })),
        status: fields(status),
        is_deleting,
        position,
        transfers: Transfers::default(),
    }
}

fn policy() -> Policy {
    Policy { velero_namespace: "velero".into(), ..Policy::default() }
}

fn assert_forward(before: Option<Phase>, after: Option<Phase>) {
    assert!(before <= after, "the phase went back from {before:?} to {after:?}");
}

/// The conditions as (type, status, reason), for golden assertions.
fn told(conditions: &Conditions) -> Vec<String> {
    conditions.0.iter().map(|c| format!("{}={:?} {}", c.kind, c.status, c.reason)).collect()
}
