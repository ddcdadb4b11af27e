//! Revisions of a class: what it said at a time, known by a digest of that.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::namespaces::manifest::{canonical, long};

/// Revisions that are kept whether or not anybody uses them.
pub const MOST_REVISIONS: usize = 10;

/// What of a class's spec a revision does not hold: how it is rolled out, and who waits for it meanwhile. No namespace gets
/// anything else by them.
const NOT_OF_NAMESPACES: [&str; 2] = ["rollout", "gate"];

/// The content of a class: its spec, without what no namespace has of it and without policies that are as they would be anyway, so
/// that a policy that comes with a later version of the operator makes no new revision.
pub fn content(mut spec: Map<String, Value>, default_policy: &Map<String, Value>) -> Value {
    spec.retain(|field, _| !NOT_OF_NAMESPACES.contains(&field.as_str()));
    if let Some(Value::Object(policy)) = spec.get_mut("policy") {
        policy.retain(|name, chosen| default_policy.get(name) != Some(chosen));
    }
    spec.retain(|_, value| !is_empty(value));
    Value::Object(spec)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// By what a revision is known. Somebody may look for two contents that cannot be told apart, so it is a long one.
pub fn digest_of(content: &Value) -> String {
    long(&Sha256::digest(canonical(content)))
}

/// The name of the object that holds a revision.
pub fn name_of(class: &str, digest: &str) -> String {
    format!("{class}-{digest}")
}

/// A revision that is kept: what it holds is what its digest says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub digest: String,
    pub uid: String,
    /// Its resourceVersion.
    pub version: String,
    /// The higher, the later the class said so last.
    pub number: i64,
}

/// The number of the next revision.
pub(super) fn next_number(kept: &[Kept]) -> i64 {
    kept.iter().map(|kept| kept.number).max().unwrap_or_default().saturating_add(1)
}

/// What is kept of what the class says now, if it has the latest number too: until then nothing is decided about it.
pub(super) fn newest_kept<'k>(kept: &'k [Kept], newest: &str) -> Option<&'k Kept> {
    kept.iter().find(|kept| kept.digest == newest).filter(|newest| is_latest(kept, newest))
}

/// Whether no revision is later.
fn is_latest(kept: &[Kept], this: &Kept) -> bool {
    kept.iter().all(|other| other.number < this.number || other.digest == this.digest)
}

/// The revisions that need not be kept any longer, the oldest first.
pub(super) fn surplus<'k>(kept: &'k [Kept], in_use: &BTreeSet<&str>) -> Vec<&'k Kept> {
    let mut latest_first: Vec<_> = kept.iter().collect();
    latest_first.sort_by(|a, b| (b.number, &b.digest).cmp(&(a.number, &a.digest)));
    let old = latest_first.into_iter().skip(MOST_REVISIONS).filter(|kept| !in_use.contains(kept.digest.as_str()));
    let mut old: Vec<_> = old.collect();
    old.reverse();
    old
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(spec: &Value) -> String {
        let policy = json!({"onDrift": "Correct", "onUnbind": "Delete"});
        digest_of(&content(spec.as_object().unwrap().clone(), policy.as_object().unwrap()))
    }

    #[test]
    fn how_a_class_is_rolled_out_and_what_goes_without_saying_is_no_part_of_a_revision() {
        let bare = digest(&json!({"resources": [{"kind": "A"}]}));
        for same in [
            json!({"resources": [{"kind": "A"}], "rollout": {"paused": true}}),
            json!({"resources": [{"kind": "A"}], "policy": {"onDrift": "Correct", "onUnbind": "Delete"}}),
            json!({"params": [], "resources": [{"kind": "A"}], "namespaceMetadata": {}}),
        ] {
            assert_eq!(digest(&same), bare, "{same}");
        }
        for other in [
            json!({"resources": [{"kind": "B"}]}),
            json!({"resources": [{"kind": "A"}], "policy": {"onDrift": "Report"}}),
            json!({"resources": [{"kind": "A"}], "protect": true}),
        ] {
            assert_ne!(digest(&other), bare, "{other}");
        }
    }

    #[test]
    fn the_last_ten_revisions_are_kept_and_any_in_use() {
        let kept: Vec<_> =
            (1..=14).map(|number| Kept { digest: format!("r{number}"), number, ..Kept::default() }).collect();
        let goes = surplus(&kept, &["r2", "r13"].into());
        assert_eq!(goes.iter().map(|kept| kept.number).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(next_number(&kept), 15);
        assert_eq!(next_number(&[]), 1);
    }
}
