//! API errors in the vocabulary of the core: what class, and a sentence that is safe to show.

use std::collections::BTreeSet;

use croft_core::{
    plan::{Failure, FailureClass},
    refusal,
};
use kube::core::{Status, response::StatusCause};

/// What a failed API call means for the next attempt.
pub fn classify(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => classify_status(status),
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
            Failure::new(FailureClass::Transient, "ApiServerUnreachable", "the API server does not answer")
        }
        kube::Error::SerdeError(error) => Failure::new(
            FailureClass::Rejected,
            "UnreadableAnswer",
            format!("the API server's answer cannot be read: {error}"),
        ),
        other => Failure::new(FailureClass::Transient, "ApiCallFailed", other.to_string()),
    }
}

fn classify_status(status: &Status) -> Failure {
    let message = status.message.clone();
    match (status.code, status.reason.as_str()) {
        (404, "NotFound") => Failure::new(FailureClass::Stale, "NotFound", message),
        // Not the object is missing but the way to it: the object may be there all the same.
        (404, _) => Failure::new(FailureClass::Stale, "NotServed", message),
        (409, "AlreadyExists") => Failure::new(FailureClass::Stale, "AlreadyExists", message),
        (409, _) => Failure::new(FailureClass::Stale, "Conflict", message),
        (422, _) if is_failed_precondition(status) => Failure::new(FailureClass::Stale, "Conflict", message),
        (403, _) if is_terminating(status) => Failure::new(FailureClass::Rejected, "Terminating", message),
        (422, _) if is_immutable(status) => {
            let is_about = |cause: &&StatusCause| refusal::is_immutable(&cause.reason, &cause.message);
            Failure::new(FailureClass::Rejected, "Immutable", message).about(fields_of(status, is_about))
        }
        (403, _) if refusal::is_over_quota(&message) => Failure::new(FailureClass::Rejected, "QuotaExceeded", message),
        (401 | 403, _) => Failure::new(FailureClass::Forbidden, "Forbidden", message),
        (429, _) => Failure::new(FailureClass::Transient, "Throttled", message),
        (405, _) => Failure::new(FailureClass::Rejected, "MethodNotAllowed", message),
        (400 | 413 | 415 | 422, _) => {
            Failure::new(FailureClass::Rejected, "Rejected", message).about(fields_of(status, |_| true))
        }
        _ => Failure::new(FailureClass::Transient, "ApiServerError", message),
    }
}

/// A JSON patch whose `test` did not hold: the API server answers 422 with a cause of its own kind.
fn is_failed_precondition(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "UnexpectedServerResponse")
}

/// A change the API server refuses to any existing object.
fn is_immutable(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| refusal::is_immutable(&cause.reason, &cause.message))
}

/// The fields that an answer is about, as far as `counts` says so.
fn fields_of(status: &Status, counts: impl Fn(&&StatusCause) -> bool) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes).filter(counts);
    let fields: BTreeSet<_> = causes.map(|cause| cause.field.as_str()).filter(|field| !field.is_empty()).collect();
    fields.into_iter().map(str::to_owned).collect()
}

/// Creating in a namespace that is being deleted.
fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// A call that did not answer in time. It may still have been carried out: the next observation tells.
pub fn timed_out(what: &str) -> Failure {
    Failure::new(FailureClass::Transient, "TimedOut", format!("{what} did not answer in time"))
}

/// The innermost error: `Connection refused` says more than the layers around it.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_cannot_be_changed_are_told_as_such() {
        let cause = |reason: &str, message: &str, field: &str| serde_json::json!({ "reason": reason, "message": message, "field": field });
        let causes = [
            cause("FieldValueInvalid", "Invalid value: \"x\": field is immutable", "spec.scopes"),
            cause("FieldValueRequired", "Required value: say what", "spec.hard"),
        ];
        let status = serde_json::json!({ "code": 422, "reason": "Invalid", "details": { "causes": causes } });
        let failure = classify_status(&serde_json::from_value(status).unwrap());
        assert_eq!((failure.reason, failure.fields), ("Immutable", vec!["spec.scopes".to_owned()]));
    }

    #[test]
    fn only_who_knows_the_kind_can_say_that_an_object_is_gone() {
        let reason = |reason: &str| classify_status(&Status::failure("", reason).with_code(404)).reason;
        assert_eq!(reason("NotFound"), "NotFound");
        // As the client words it where the answer is `404 page not found`.
        assert_eq!(reason("Failed to parse error data"), "NotServed");
        assert_eq!(reason(""), "NotServed");
        // What reads of a single object go by.
        let is_absent = |reason: &str| Status::failure("", reason).with_code(404).is_not_found();
        assert!(is_absent("NotFound") && !is_absent("Failed to parse error data"));
    }
}
