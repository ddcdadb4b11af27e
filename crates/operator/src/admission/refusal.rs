//! Why a request is refused, in the words of an API server.
//!
//! Anybody may send a review, and nobody needs to read the answer: it is held until somebody does. So it is small, whatever was in
//! the review.

use croft_api::Problem;
use croft_core::conditions::cut;
use kube::{
    Resource,
    core::{
        Status,
        response::{StatusCause, StatusDetails, StatusSummary},
    },
};

/// So long is a text of an answer, and so long are its causes or its warnings together.
const LONGEST: usize = 4 << 10;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Fields say what they must not.
    Invalid(Vec<Problem>),
    /// It cannot be done as things are.
    NotNow(String),
    /// Whoever asks lacks a right.
    Forbidden(String),
    /// It could not be checked: the same request may pass a moment later.
    Unchecked(String),
}

impl Refusal {
    pub(super) fn status<K: Resource<DynamicType = ()>>(self, name: &str) -> Status {
        match self {
            Refusal::Invalid(problems) => invalid::<K>(name, &problems),
            Refusal::NotNow(message) => failure(400, "BadRequest", message),
            Refusal::Forbidden(message) => failure(403, "Forbidden", message),
            Refusal::Unchecked(message) => unchecked(message),
        }
    }
}

/// What clients try again by themselves.
pub(super) fn unchecked(message: String) -> Status {
    let details = StatusDetails { retry_after_seconds: 1, ..no_details() };
    Status { details: Some(details), ..failure(503, "ServiceUnavailable", message) }
}

pub(super) fn failure(code: u16, reason: &str, message: String) -> Status {
    Status {
        status: Some(StatusSummary::Failure),
        code,
        reason: reason.into(),
        message: told(message),
        ..Status::default()
    }
}

fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

pub(super) fn unreadable<K: Resource<DynamicType = ()>>(why: &str) -> Status {
    failure(400, "BadRequest", format!("{} cannot be read: {why}", K::kind(&())))
}

/// The Status the API server itself would give, so that clients show it like any other validation error.
fn invalid<K: Resource<DynamicType = ()>>(name: &str, problems: &[Problem]) -> Status {
    let (kind, group) = (K::kind(&()).into_owned(), K::group(&()).into_owned());
    let causes = problems.iter().map(|problem| StatusCause {
        reason: "FieldValueForbidden".into(),
        message: told(forbidden(problem)),
        field: told(problem.field.clone()),
    });
    let causes = fitting(causes, |cause| cause.message.len().saturating_add(cause.field.len()));
    let message = format!("{kind}.{group} {name:?} is invalid: {}", together(problems));
    let details = StatusDetails { name: name.to_owned(), group, kind, causes, ..no_details() };
    Status { details: Some(details), ..failure(422, "Invalid", message) }
}

fn forbidden(problem: &Problem) -> String {
    format!("Forbidden: {}", problem.message)
}

fn together(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|problem| format!("{}: {}", problem.field, forbidden(problem))).collect();
    match lines.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Warnings, as far as they fit into an answer.
pub(super) fn bounded(warnings: Vec<String>) -> Vec<String> {
    fitting(warnings.into_iter().map(told), String::len)
}

/// The text without what JSON writes in six letters, or as much of it as there is room for.
fn told(text: String) -> String {
    cut(text, LONGEST).replace(char::is_control, " ")
}

/// The first of the things, as many as there is room for.
fn fitting<T>(things: impl Iterator<Item = T>, length: impl Fn(&T) -> usize) -> Vec<T> {
    let mut taken = 0_usize;
    let fits = |thing: &T| {
        taken = taken.saturating_add(length(thing));
        taken <= LONGEST
    };
    things.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use croft_api::namespaces::NamespaceClass;

    use super::*;

    #[test]
    fn several_problems_are_told_at_once() {
        let problems = [Problem::new("spec.a", "one"), Problem::new("spec.b", "two")];
        let status = invalid::<NamespaceClass>("web", &problems);
        assert_eq!(
            status.message,
            "NamespaceClass.akuity.io \"web\" is invalid: [spec.a: Forbidden: one, spec.b: Forbidden: two]"
        );
        assert_eq!(status.details.unwrap().causes.len(), 2);
    }

    #[test]
    fn however_many_and_long_the_problems_are_the_first_are_told_in_full_and_the_answer_is_small() {
        let problem = |number: usize| Problem::new(format!("spec.a[{number}]"), "long ".repeat(20));
        let status = invalid::<NamespaceClass>("web", &(0..100).map(problem).collect::<Vec<_>>());
        let causes = status.details.as_ref().map(|details| details.causes.len());
        assert!(causes.is_some_and(|causes| (10..100).contains(&causes)), "{causes:?}");
        assert!(status.message.ends_with("..."), "{}", status.message);
        let long = Problem::new("\u{0}".repeat(1 << 20), "\\".repeat(1 << 20));
        for problems in [vec![long.clone()], vec![long; 100]] {
            let status = invalid::<NamespaceClass>("web", &problems);
            let text = serde_json::to_string(&status).unwrap();
            assert!(text.len() < 16 << 10, "{} bytes", text.len());
        }
        assert!(bounded(vec!["warning".repeat(100); 1000]).len() < 10);
    }
}
