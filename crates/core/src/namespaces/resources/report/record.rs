//! What is on record about a wanted object before its steps are counted, and after it was stripped.

use super::Outcomes;
use crate::{
    namespaces::{
        inventory::{Applied, Fingerprint, State},
        manifest::{Identity, Rendered},
        resources::{Observed, ResourceStep, contest::stripped},
    },
    plan::Outcome,
};

/// What is on record about a wanted object, and which one it is: if we died right after making it anew, the record is of the one
/// before it.
pub(super) fn on_record(seen: &Observed, identity: &Identity) -> Applied {
    let recorded = seen.recorded(identity).cloned().unwrap_or_default();
    let stamped = seen.stamped.get(identity).filter(|object| seen.is_ours(identity, &object.uid, &object.owner));
    // What was made and lost its label on the way is known by its owner, and read for that.
    let read = seen.read.get(identity).and_then(Option::as_ref).filter(|object| object.owner.is_a_binding());
    match stamped.map(|object| &object.uid).or(read.map(|object| &object.uid)) {
        Some(uid) => {
            // What it was applied as says nothing about another one of its name.
            let digest = recorded.digest.filter(|_| recorded.uid.as_ref() == Some(uid));
            // What was being replaced is ours by now, unless it was deleted for that.
            let is_kept = |replacing: &String| replacing != uid || recorded.uid.as_ref() == Some(uid);
            let replacing = recorded.replacing.filter(is_kept);
            Applied { adopted: seen.is_adopted(identity, uid), uid: Some(uid.clone()), digest, replacing, ..recorded }
        }
        None => recorded,
    }
}

/// The record of an object that was stripped of all but the class's: what it was then is right, and not what somebody may have put
/// into it before it was applied as well.
pub(super) fn as_stripped(seen: &Observed, item: &Rendered, outcomes: Outcomes<'_>, applied: Applied) -> Applied {
    let is_applied = |(step, outcome): &(&ResourceStep, Outcome)| {
        matches!(step, ResourceStep::Apply { identity, .. } if *identity == item.identity) && outcome.is_done()
    };
    // Where others may add, what was applied after it is what counts.
    let counts = applied.state == State::Applied
        && (seen.extent_of(&item.identity).is_some() || !outcomes.iter().any(is_applied));
    let stripped = stripped(&item.identity, outcomes).filter(|_| counts);
    match stripped {
        Some(witness) => {
            let fingerprint = Fingerprint::new(&item.digest, &item.shape, &witness).to_string();
            Applied { digest: Some(fingerprint), ..applied }
        }
        None => applied,
    }
}
