//! Conditions as the API types have them <-> as the core has them: the same JSON on both sides. And what they tell anew.

use croft_core::{
    conditions::{Condition as Said, Conditions, Truth},
    plan::Failure,
    time::Timestamp,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::{
    engine::{Report, events::Note, write::Object},
    objects,
};

/// What cannot be read was not written by us and is written anew.
pub fn from_api(conditions: &[Condition]) -> Conditions {
    serde_json::to_value(conditions).and_then(serde_json::from_value).unwrap_or_default()
}

pub fn to_api(conditions: &Conditions) -> Vec<Condition> {
    serde_json::to_value(conditions).and_then(serde_json::from_value).unwrap_or_default()
}

/// Whether `Ready` is true.
pub fn is_ready<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> bool {
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// An Event for each condition that says something new. `Ready`, `Reconciling` and `Stalled` say one thing together: it is a
/// warning where somebody must act, or where nobody can tell. Of any other condition it is a warning that it does not hold.
pub fn news(before: &Conditions, after: &Conditions) -> Vec<Note> {
    let is_new = |said: &&Said| {
        let told = before.get(&said.kind);
        told.is_none_or(|told| (told.status, &told.reason) != (said.status, &said.reason))
    };
    let told_by_ready = |said: &&Said| matches!(said.kind.as_str(), "Reconciling" | "Stalled");
    let news = after.0.iter().filter(|said| !told_by_ready(said)).filter(is_new);
    let note = |said: &Said| {
        let is_fine = match said.kind.as_str() {
            "Ready" => said.status != Truth::Unknown && !after.is_true("Stalled"),
            _ => said.status == Truth::True,
        };
        let note = if is_fine { Note::normal } else { Note::warning };
        note(&said.reason, &said.message)
    };
    news.map(note).collect()
}

/// What is said about an object that cannot be looked at: that, and why. The rest of its status stays.
pub fn unseen<K: Object>(object: &K, status: Option<&impl Serialize>, failure: &Failure, now: &Timestamp) -> Report {
    #[derive(Default, Serialize, Deserialize)]
    struct Status {
        #[serde(default)]
        conditions: Conditions,
    }
    let before: Status = objects::status(status);
    let mut conditions = before.conditions.clone();
    conditions.set_unseen(failure, object.meta().generation.unwrap_or_default(), now);
    if conditions == before.conditions {
        return Report::default();
    }
    let events = news(&before.conditions, &conditions);
    Report::on(object, objects::status_over(status, &Status { conditions }).as_ref(), events)
}

#[cfg(test)]
mod tests {
    use croft_core::conditions::Readiness;

    use super::*;

    #[test]
    fn conditions_survive_the_way_to_the_api_and_back() {
        let mut conditions = Conditions::default();
        conditions.set_observed(
            "Ready",
            Truth::True,
            "Done",
            "all there",
            Some(3),
            &Timestamp("2026-01-01T00:00:01Z".into()),
        );
        conditions.set("Stalled", Truth::Unknown, "Why", "", &crate::engine::timestamp());
        assert_eq!(to_api(&conditions).len(), 2);
        assert_eq!(from_api(&to_api(&conditions)), conditions);
    }

    fn now() -> Timestamp {
        Timestamp("2026-01-01T00:00:01Z".into())
    }

    #[test]
    fn readiness_is_told_once_and_is_a_warning_where_somebody_must_act() {
        let told = |readiness: &Readiness| {
            let mut conditions = Conditions::default();
            readiness.write(&mut conditions, 1, &now());
            conditions
        };
        let waiting = told(&Readiness::Progressing { reason: "Working", message: "a moment".into() });
        let stalled = told(&Readiness::Stalled { reason: "InvalidSpec", message: "look at it".into() });
        assert_eq!(news(&Conditions::default(), &waiting), [Note::normal("Working", "a moment")]);
        assert_eq!(news(&waiting, &stalled), [Note::warning("InvalidSpec", "look at it")]);
        let reworded = told(&Readiness::Stalled { reason: "InvalidSpec", message: "look again".into() });
        assert_eq!(news(&stalled, &reworded), [], "the same reason in other words is no news");
    }

    #[test]
    fn what_cannot_be_looked_at_is_told_once_and_keeps_the_rest_of_its_status() {
        use croft_api::namespaces::NamespaceClass;
        use croft_core::plan::FailureClass;
        let class = |status: serde_json::Value| -> NamespaceClass {
            let class = serde_json::json!({
                "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "gold", "uid": "u"},
                "spec": {"resources": []}, "status": status,
            });
            serde_json::from_value(class).unwrap()
        };
        let seen = class(serde_json::json!({"boundNamespaces": 3, "conditions": []}));
        let failure = Failure::new(FailureClass::Transient, "ApiServerError", "no answer");
        let told = unseen(&seen, seen.status.as_ref(), &failure, &now());
        assert_eq!(told.events, [Note::warning("CannotObserve", "cannot be looked at: ApiServerError: no answer")]);
        let status = told.status.unwrap().value().clone();
        assert_eq!((&status["boundNamespaces"], &status["conditions"][0]["status"]), (&3.into(), &"Unknown".into()));
        let seen = class(status);
        assert!(unseen(&seen, seen.status.as_ref(), &failure, &now()).status.is_none(), "nothing new");
    }

    #[test]
    fn every_other_condition_is_told_for_itself_and_is_a_warning_where_it_does_not_hold() {
        let mut before = Conditions::default();
        before.set("Accepted", Truth::True, "BackupAccepted", "backup accepted", &now());
        let mut after = before.clone();
        after.set("Queued", Truth::False, "Rejected", "no room", &now());
        assert_eq!(news(&before, &after), [Note::warning("Rejected", "no room")]);
        let refused = after.clone();
        after.set("Queued", Truth::True, "BackupScheduled", "made", &now());
        assert_eq!(news(&refused, &after), [Note::normal("BackupScheduled", "made")]);
        assert_eq!(news(&after, &after), []);
    }
}
