//! What a class would do to a namespace, in the words both the text and the JSON use.

use std::collections::BTreeMap;

use croft_core::{
    namespaces::{
        manifest::Identity,
        resources::{Blocked, ResourceStep},
    },
    plan::Failure,
};
use serde::Serialize;

/// What would happen to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Action {
    Create,
    Change,
    /// It was there before and becomes ours.
    Adopt,
    /// A change that cannot be made in place: deleted and made anew.
    Recreate,
    /// No longer wanted.
    Prune,
    /// No longer wanted, but kept.
    Release,
    /// The binding goes.
    Unbind,
    /// Something is in the way that goes away by itself.
    Wait,
    /// An object of that name is not ours.
    Conflict,
    /// A change that cannot be made in place, and is not.
    Immutable,
    Refuse,
    NotInstalled,
    /// Somebody changed it, and the class says to leave it so.
    Drift,
}

impl Action {
    /// Somebody must act before the namespace is as the class wants it.
    pub(super) fn is_problem(self) -> bool {
        self >= Action::Conflict
    }

    fn is_change(self) -> bool {
        self < Action::Wait
    }

    /// As it stands before one object.
    pub(super) fn word(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Change => "change",
            Action::Adopt => "adopt",
            Action::Recreate => "recreate",
            Action::Prune => "prune",
            Action::Release => "release",
            Action::Unbind => "unbind",
            Action::Wait => "wait",
            Action::Conflict => "conflict",
            Action::Immutable => "immutable",
            Action::Refuse => "refused",
            Action::NotInstalled => "not installed",
            Action::Drift => "drifted",
        }
    }

    /// As it is counted: `412 creates`, `1 immutable`.
    pub(super) fn counted(self, count: usize) -> String {
        let plural = match self {
            Action::Wait => "waiting",
            Action::Immutable | Action::Refuse | Action::NotInstalled | Action::Drift => self.word(),
            _ if count == 1 => self.word(),
            _ => return format!("{count} {}s", self.word()),
        };
        format!("{count} {plural}")
    }

    pub(super) fn of_obstacle(reason: &str) -> Self {
        match reason {
            "Conflict" => Action::Conflict,
            "KindNotInstalled" => Action::NotInstalled,
            "Terminating" | "RolloutPending" => Action::Wait,
            "Drifted" => Action::Drift,
            _ => Action::Refuse,
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        match failure.reason {
            "AlreadyExists" => Action::Conflict,
            "Immutable" => Action::Immutable,
            _ => Action::Refuse,
        }
    }
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Effect {
    pub(super) action: Action,
    /// `Kind/name`.
    pub(super) object: String,
    /// Where the object would differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Not done before a refusal earlier in the plan is solved.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) held: bool,
}

impl Effect {
    pub(super) fn new(action: Action, object: &Identity) -> Self {
        Self { action, object: object.to_string(), fields: Vec::new(), reason: None, message: None, held: false }
    }

    pub(super) fn because(self, reason: &str, message: impl Into<String>) -> Self {
        Self { reason: Some(reason.to_owned()), message: Some(message.into()), ..self }
    }

    pub(super) fn blocked(blocked: &Blocked) -> Self {
        Self::new(Action::of_obstacle(blocked.reason), &blocked.identity).because(blocked.reason, &blocked.message)
    }

    pub(super) fn failed(step: &ResourceStep, namespace: &str, failure: &Failure) -> Self {
        Self::new(Action::of_failure(failure), &object_of(step, namespace)).because(failure.reason, &failure.message)
    }
}

/// The object a step touches.
pub(super) fn object_of(step: &ResourceStep, namespace: &str) -> Identity {
    let named_like_the_namespace =
        |kind: &str| Identity { kind: kind.into(), name: namespace.to_owned(), ..Identity::default() };
    match step {
        ResourceStep::DeleteBinding { .. } => named_like_the_namespace("NamespaceClassBinding"),
        _ => step.identity().cloned().unwrap_or_else(|| named_like_the_namespace("Namespace")),
    }
}

/// How the namespace comes to have the class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Bond {
    Bound,
    New,
    From(String),
}

/// What would happen in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outlook {
    pub(super) namespace: String,
    pub(super) bond: Bond,
    pub(super) effects: Vec<Effect>,
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preview {
    pub(super) class: String,
    /// Whether the class exists.
    pub(super) defined: bool,
    /// What is wrong with the class itself; nothing is planned then.
    pub(super) problems: Vec<String>,
    pub(super) namespaces: Vec<Outlook>,
    /// What keeps all of it from happening before somebody confirms it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<String>,
    pub(super) sum: Sum,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sum {
    pub(super) namespaces: usize,
    /// Effects by action, without those held back.
    #[serde(flatten)]
    pub(super) counts: BTreeMap<Action, usize>,
    pub(super) held: usize,
    pub(super) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    #[default]
    NoChange,
    Changes,
    Problems,
}

impl Verdict {
    /// Exit codes, as `diff` has them.
    pub(super) fn code(self) -> u8 {
        match self {
            Verdict::NoChange => 0,
            Verdict::Changes => 1,
            Verdict::Problems => 2,
        }
    }

    fn of(action: Action) -> Self {
        match action {
            _ if action.is_problem() => Verdict::Problems,
            _ if action.is_change() => Verdict::Changes,
            _ => Verdict::NoChange,
        }
    }
}

impl Preview {
    pub(super) fn invalid(class: String, defined: bool, problems: Vec<String>) -> Self {
        let sum = Sum { verdict: Verdict::Problems, ..Sum::default() };
        Self { class, defined, problems, namespaces: Vec::new(), guard: None, sum }
    }

    pub(super) fn new(class: String, defined: bool, namespaces: Vec<Outlook>) -> Self {
        let mut sum = Sum { namespaces: namespaces.len(), ..Sum::default() };
        for effect in namespaces.iter().flat_map(|outlook| &outlook.effects) {
            sum.verdict = sum.verdict.max(Verdict::of(effect.action));
            if effect.held {
                sum.held += 1;
            } else {
                *sum.counts.entry(effect.action).or_default() += 1;
            }
        }
        // A binding that is made or changed is a change, even of a class without objects.
        if namespaces.iter().any(|outlook| outlook.bond != Bond::Bound) {
            sum.verdict = sum.verdict.max(Verdict::Changes);
        }
        Self { class, defined, problems: Vec::new(), namespaces, guard: None, sum }
    }

    /// The same, where all of it waits until somebody confirms it.
    #[must_use]
    pub(super) fn guarded(mut self, guard: Option<String>) -> Self {
        if guard.is_some() {
            self.sum.verdict = Verdict::Problems;
        }
        Self { guard, ..self }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.sum.verdict
    }
}
