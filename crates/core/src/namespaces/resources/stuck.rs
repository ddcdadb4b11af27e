//! What others put into an object and the API server does not let anybody take out again: what cannot go stays, and nothing else
//! with it.

use serde_json::Value;

use crate::{
    namespaces::{
        excess::Extent,
        inventory::{Applied, State},
    },
    plan::Failure,
};

/// Marks a message about what cannot be taken out; the fields follow, unless it is everything.
const STUCK: &str = "what others put into it cannot be taken out";

/// What can be done about it; where nothing that others put into an object is to stay, no class leaves them anything.
pub(super) fn fix(extent: Option<Extent>) -> &'static str {
    match extent {
        Some(Extent::Whole) => "delete it",
        Some(Extent::Owned) | None => "delete it, or let the class say so in namespaceclass.akuity.io/ignore-fields",
    }
}

/// So many fields are noted, so long together; where there are more nothing is taken out any more.
const MOST: usize = 10;
const LONGEST: usize = 300;

/// The record of an object after that was refused.
pub(super) fn stuck(applied: Applied, failure: &Failure, extent: Option<Extent>) -> Applied {
    let told = refused_by(&applied, failure).map_or_else(String::new, |fields| format!(" ({})", fields.join(", ")));
    let message = format!("{STUCK}{told}; {}: {}", fix(extent), failure.message);
    Applied { state: State::Failed, message: Some(message), ..applied }
}

/// Whether the last attempt failed because what others put into it cannot be taken out.
pub(super) fn is_stuck(applied: &Applied) -> bool {
    applied.state == State::Failed && applied.message.as_deref().is_some_and(|message| message.starts_with(STUCK))
}

/// What can still be taken out of an object that is stuck.
pub(super) fn rest_of(excess: &Value, applied: &Applied) -> Option<Value> {
    let mut rest = excess.clone();
    for field in noted(applied)? {
        leave(&mut rest, &steps(field));
    }
    let is_nothing = rest.as_object().is_none_or(serde_json::Map::is_empty);
    (!is_nothing).then_some(rest)
}

/// The fields that cannot be taken out, those that were noted before among them; `None` where that cannot be told, or nothing new
/// was named: whatever is tried next would be refused as well.
fn refused_by(applied: &Applied, failure: &Failure) -> Option<Vec<String>> {
    let before: Vec<_> = if is_stuck(applied) { noted(applied)? } else { Vec::new() };
    let mut fields: Vec<_> = before.iter().map(|field| (*field).to_owned()).collect();
    for field in failure.fields.iter().map(|field| plain(field)) {
        if !field.is_empty() && !fields.contains(&field) {
            fields.push(field);
        }
    }
    let length: usize = fields.iter().map(String::len).sum();
    (fields.len() > before.len() && fields.len() <= MOST && length <= LONGEST).then_some(fields)
}

/// The fields on record; `None` for everything.
fn noted(applied: &Applied) -> Option<Vec<&str>> {
    let (fields, _) = applied.message.as_deref()?.strip_prefix(STUCK)?.strip_prefix(" (")?.split_once(')')?;
    Some(fields.split(", ").collect())
}

/// As much of a field's name as nobody can take for several: its keys may be anything.
fn plain(field: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._-/[]".contains(*letter);
    field.chars().take_while(is_plain).collect()
}

/// `metadata.annotations[a.b/c]`, step by step.
fn steps(field: &str) -> Vec<&str> {
    let outside = |part| str::split(part, '.').filter(|step| !step.is_empty());
    let mut steps = Vec::new();
    for part in field.split('[') {
        // What ends is a key, which may hold dots.
        match part.split_once(']') {
            Some((key, rest)) => steps.extend([key].into_iter().chain(outside(rest))),
            None => steps.extend(outside(part)),
        }
    }
    steps
}

/// Leaves a field out of a patch, and what has nothing left in it. A list is written as a whole or not at all.
fn leave(patch: &mut Value, steps: &[&str]) {
    let (Value::Object(fields), [first, within @ ..]) = (patch, steps) else { return };
    let is_left_out = fields.get_mut(*first).is_some_and(|inner| match inner {
        Value::Object(_) if !within.is_empty() => {
            leave(inner, within);
            inner.as_object().is_some_and(serde_json::Map::is_empty)
        }
        _ => true,
    });
    if is_left_out {
        fields.remove(*first);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::FailureClass;

    fn refusal(fields: &[&str]) -> Failure {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Failure::new(FailureClass::Rejected, "Immutable", "spec.c (d, e): no").about(fields)
    }

    #[test]
    fn what_was_refused_is_left_and_all_else_taken_out() {
        let excess = json!({"spec": {"a": null, "b": {"c": null}}, "metadata": {"annotations": {"x.y/z": null}}});
        let rest = |fields: &[&str]| rest_of(&excess, &stuck(Applied::default(), &refusal(fields), None));
        assert_eq!(rest(&["spec.a", "metadata"]), Some(json!({"spec": {"b": {"c": null}}})));
        assert_eq!(rest(&["spec.b.c", "spec.a", "metadata.annotations[x.y/z]"]), None);
        assert_eq!(rest(&["elsewhere"]), Some(excess.clone()), "what is wanted was refused");
        assert_eq!(rest(&["spec.a, metadata)"]), rest(&["spec.a"]), "a name is one name");
        assert_eq!(rest(&[]), None, "who names nothing means all");
        let many: Vec<_> = (0..=MOST).map(|number| format!("spec.a{number}")).collect();
        assert_eq!(rest(&many.iter().map(String::as_str).collect::<Vec<_>>()), None);
    }

    #[test]
    fn every_refusal_leaves_less_to_be_tried() {
        let excess = json!({"spec": {"a": null, "b": null}, "data": null});
        let mut known = stuck(Applied::default(), &refusal(&["spec.a"]), None);
        assert_eq!(rest_of(&excess, &known), Some(json!({"spec": {"b": null}, "data": null})));
        known = stuck(known, &refusal(&["spec.b"]), None);
        assert_eq!(rest_of(&excess, &known), Some(json!({"data": null})));
        known = stuck(known, &refusal(&["spec.a"]), None);
        assert_eq!((rest_of(&excess, &known), is_stuck(&known)), (None, true));
        assert_eq!(rest_of(&excess, &stuck(known, &refusal(&["data"]), None)), None);
    }
}
