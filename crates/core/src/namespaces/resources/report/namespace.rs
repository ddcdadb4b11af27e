//! What a binding says about the labels and annotations of its Namespace.

use super::{Outcomes, is_refusal};
use crate::{
    namespaces::{
        inventory::{Applied, State},
        resources::{
            Class, Observed, ResourceStep,
            contest::{namespace_left, until_it_stands},
            namespace::despite_conflict,
            step::namespace_identity,
        },
    },
    plan::Outcome,
};

/// The Namespace is listed while it carries labels or annotations of the class.
pub(super) fn namespace_entry(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Option<Applied> {
    let before = seen.recorded_namespace().cloned();
    let is_about = |step: &ResourceStep| {
        matches!(
            step,
            ResourceStep::ApplyNamespaceMetadata { .. }
                | ResourceStep::PutBackNamespaceMetadata { .. }
                | ResourceStep::KeepNamespaceMetadata { .. }
        )
    };
    // Of several the last one counts.
    let ran = outcomes.iter().rfind(|(step, outcome)| is_about(step) && *outcome != Outcome::NotRun);
    let (entry, wanted) = (namespace_announced(seen), seen.namespace_wanted(class));
    match ran.map(|(_, outcome)| outcome) {
        Some(Outcome::Done { .. })
            if wanted.is_empty() && (is_last_done(outcomes) || !seen.namespace_drops(&wanted)) =>
        {
            None
        }
        Some(Outcome::Done { .. }) => Some(Applied { state: State::Applied, digest: Some(wanted.digest()), ..entry }),
        Some(Outcome::Failed(failure)) if is_refusal(failure) => {
            Some(Applied { state: State::Failed, message: Some(failure.message.clone()), ..entry })
        }
        None | Some(Outcome::Failed(_) | Outcome::NotRun) => before,
    }
    .map(|entry| until_it_stands(seen, namespace_left(seen, class, entry), ran.is_some()))
    .map(|entry| despite_conflict(seen, class, entry))
}

/// Whether the Namespace has got what the class sets.
pub(super) fn is_namespace_set(outcomes: Outcomes<'_>) -> bool {
    let is_about = |step: &ResourceStep| matches!(step, ResourceStep::ApplyNamespaceMetadata { .. });
    outcomes.iter().any(|(step, outcome)| is_about(step) && outcome.is_done())
}

/// Whether everything has gone from the Namespace that the class does not set any more.
pub(super) fn is_last_done(outcomes: Outcomes<'_>) -> bool {
    let is_last = |step: &ResourceStep| matches!(step, ResourceStep::ApplyNamespaceMetadata { last: true, .. });
    outcomes.iter().any(|(step, outcome)| is_last(step) && outcome.is_done())
}

/// The Namespace, before its first label of the class is set.
pub(super) fn namespace_announced(seen: &Observed) -> Applied {
    let identity = namespace_identity(&seen.namespace.name);
    Applied { api_version: "v1".into(), kind: identity.kind, name: identity.name, ..Applied::default() }
}
