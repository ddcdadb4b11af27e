//! A plan for people: namespaces with the same fate together, the sum last.

use std::fmt::Write as _;

use super::effect::{Action, Bond, Effect, Outlook, Preview};

/// Most groups of namespaces told in detail.
const MOST_GROUPS: usize = 10;
/// Most namespaces named in one group.
const MOST_NAMES: usize = 3;
/// Most changed fields named for one object.
const MOST_FIELDS: usize = 5;

pub(super) fn text(preview: &Preview) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = if preview.problems.is_empty() { write_plan(preview, &mut out) } else { write_problems(preview, &mut out) };
    out
}

fn write_problems(preview: &Preview, out: &mut String) -> std::fmt::Result {
    writeln!(out, "class {} is invalid", preview.class)?;
    for problem in &preview.problems {
        writeln!(out, "  {problem}")?;
    }
    writeln!(out, "\n{}; nothing is planned", count(preview.problems.len(), "problem"))
}

fn write_plan(preview: &Preview, out: &mut String) -> std::fmt::Result {
    let groups = groups(&preview.namespaces);
    for group in groups.iter().take(MOST_GROUPS) {
        write_group(group, out)?;
    }
    if let Some(rest) = groups.len().checked_sub(MOST_GROUPS).filter(|rest| *rest > 0) {
        let names: usize = groups.iter().skip(MOST_GROUPS).map(Vec::len).sum();
        writeln!(out, "{} in {rest} more groups: -o json has them all\n", count(names, "namespace"))?;
    }
    if preview.namespaces.is_empty() {
        writeln!(
            out,
            "no namespace has class {} or asks for it; -n NAMESPACE shows what it would do there\n",
            preview.class
        )?;
    }
    let refused_rights = |effect: &Effect| effect.reason.as_deref() == Some("Forbidden");
    if preview.namespaces.iter().flat_map(|outlook| &outlook.effects).any(refused_rights) {
        writeln!(out, "tried with the rights of the current user; the operator's may be others\n")?;
    }
    if let Some(guard) = &preview.guard {
        writeln!(out, "class {} as written {guard}\n", preview.class)?;
    }
    writeln!(out, "{}", sum(preview))
}

/// Stands for the name of each namespace of a group.
const ANY: &str = "<namespace>";

/// What would happen, the same for every namespace where only its name is another one.
fn anywhere(outlook: &Outlook) -> Vec<Effect> {
    let text = |text: &str| text.replace(&outlook.namespace, ANY);
    let effect = |effect: &Effect| Effect {
        object: text(&effect.object),
        message: effect.message.as_deref().map(text),
        ..effect.clone()
    };
    outlook.effects.iter().map(effect).collect()
}

/// Namespaces in which the same would happen; those that change nothing are only counted.
fn groups(outlooks: &[Outlook]) -> Vec<Vec<&Outlook>> {
    let mut groups: Vec<(Vec<Effect>, Vec<&Outlook>)> = Vec::new();
    let is_quiet = |outlook: &Outlook| outlook.effects.is_empty() && outlook.bond == Bond::Bound;
    for outlook in outlooks.iter().filter(|outlook| !is_quiet(outlook)) {
        let effects = anywhere(outlook);
        let alike = groups.iter_mut().find(|(same, group)| group[0].bond == outlook.bond && *same == effects);
        match alike {
            Some((_, group)) => group.push(outlook),
            None => groups.push((effects, vec![outlook])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn write_group(group: &[&Outlook], out: &mut String) -> std::fmt::Result {
    let names: Vec<_> = group.iter().take(MOST_NAMES).map(|outlook| outlook.namespace.as_str()).collect();
    out.write_str(&names.join(", "))?;
    if group.len() > MOST_NAMES {
        write!(out, " and {} more", group.len() - MOST_NAMES)?;
    }
    match &group[0].bond {
        Bond::Bound => writeln!(out)?,
        Bond::New => writeln!(out, " (newly bound)")?,
        Bond::From(class) => writeln!(out, " (now of class {class})")?,
    }
    let effects = if group.len() == 1 { group[0].effects.clone() } else { anywhere(group[0]) };
    for effect in &effects {
        writeln!(out, "  {}", line(effect))?;
    }
    writeln!(out)
}

fn line(effect: &Effect) -> String {
    let mut line = format!("{:<13} {}", effect.action.word(), effect.object);
    if let Some(message) = &effect.message {
        let _ = write!(line, ": {message}");
    }
    if !effect.fields.is_empty() {
        let _ = write!(line, ": {}", fields(&effect.fields));
    }
    if effect.action == Action::Recreate {
        line.push_str(": a field cannot be changed in place; deleted and made anew");
    }
    if effect.held {
        line.push_str(" (not before the refusals above are solved)");
    }
    line
}

/// A few fields by name, the rest by number.
pub(super) fn fields(fields: &[String]) -> String {
    let mut text = fields.iter().take(MOST_FIELDS).map(String::as_str).collect::<Vec<_>>().join(", ");
    if fields.len() > MOST_FIELDS {
        let _ = write!(text, " and {} more", fields.len() - MOST_FIELDS);
    }
    text
}

fn sum(preview: &Preview) -> String {
    let sum = &preview.sum;
    let mut parts: Vec<_> = sum.counts.iter().map(|(action, number)| action.counted(*number)).collect();
    if sum.held > 0 {
        parts.push(format!("{} held back", sum.held));
    }
    let bound = preview.namespaces.iter().filter(|outlook| outlook.bond != Bond::Bound).count();
    let what = match (parts.is_empty(), bound) {
        (false, _) => parts.join(", "),
        (true, 0) => "no change".into(),
        (true, bound) => format!("{bound} newly bound"),
    };
    format!("{}: {what}", count(sum.namespaces, "namespace"))
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use croft_core::namespaces::manifest::Identity;

    use super::*;

    fn effect(action: Action, kind: &str, name: &str) -> Effect {
        Effect::new(action, &Identity { kind: kind.into(), name: name.into(), ..Identity::default() })
    }

    fn outlook(namespace: &str, bond: Bond, effects: Vec<Effect>) -> Outlook {
        Outlook { namespace: namespace.into(), bond, effects }
    }

    fn preview(outlooks: Vec<Outlook>) -> Preview {
        Preview::new("team".into(), true, outlooks)
    }

    #[test]
    fn problems_that_differ_only_by_the_namespace_are_told_once() {
        let refused = |namespace: &str| {
            let message = format!("configmaps is forbidden in the namespace {namespace:?}");
            let effect = effect(Action::Refuse, "Namespace", namespace).because("Forbidden", message);
            outlook(namespace, Bond::Bound, vec![effect])
        };
        let preview = Preview::new("team".into(), true, vec![refused("alpha"), refused("beta")]);
        let text = text(&preview);
        assert_eq!(text.matches("configmaps is forbidden").count(), 1, "{text}");
        assert!(text.contains("alpha, beta") && text.contains("in the namespace \"<namespace>\""), "{text}");
    }

    #[test]
    fn namespaces_with_the_same_fate_are_told_once_and_the_sum_comes_last() {
        let create = || vec![effect(Action::Create, "NetworkPolicy", "deny")];
        let mut outlooks: Vec<_> =
            (0..409).map(|number| outlook(&format!("team-{number}"), Bond::Bound, create())).collect();
        let taken = effect(Action::Conflict, "ConfigMap", "settings")
            .because("Conflict", "an object of this name exists and is not ours");
        outlooks.push(outlook(
            "old",
            Bond::From("web".into()),
            vec![
                Effect { fields: vec!["data.level".into()], ..effect(Action::Change, "ConfigMap", "a") },
                effect(Action::Prune, "ConfigMap", "b"),
                taken,
            ],
        ));
        outlooks.push(outlook("quiet", Bond::Bound, Vec::new()));
        outlooks.push(outlook(
            "new",
            Bond::New,
            vec![
                effect(Action::Refuse, "Role", "r").because("Forbidden", "roles is forbidden"),
                Effect { held: true, ..effect(Action::Create, "ConfigMap", "a") },
            ],
        ));
        let expected = "\
team-0, team-1, team-2 and 406 more
  create        NetworkPolicy/deny

old (now of class web)
  change        ConfigMap/a: data.level
  prune         ConfigMap/b
  conflict      ConfigMap/settings: an object of this name exists and is not ours

new (newly bound)
  refused       Role/r: roles is forbidden
  create        ConfigMap/a (not before the refusals above are solved)

tried with the rights of the current user; the operator's may be others

412 namespaces: 409 creates, 1 change, 1 prune, 1 conflict, 1 refused, 1 held back
";
        assert_eq!(text(&preview(outlooks)), expected);
    }

    #[test]
    fn a_long_plan_is_cut_but_its_sum_is_not() {
        let outlooks = (0..14).map(|number| {
            outlook(&format!("n{number}"), Bond::Bound, vec![effect(Action::Prune, "Secret", &number.to_string())])
        });
        let text = text(&preview(outlooks.collect()));
        assert!(text.contains("4 namespaces in 4 more groups: -o json has them all"), "{text}");
        assert!(text.ends_with("\n14 namespaces: 14 prunes\n"), "{text}");
    }

    #[test]
    fn nothing_to_do_is_one_line() {
        assert_eq!(text(&preview(vec![outlook("a", Bond::Bound, Vec::new())])), "1 namespace: no change\n");
        assert_eq!(
            text(&preview(Vec::new())),
            "no namespace has class team or asks for it; -n NAMESPACE shows what it would do there\n\n0 namespaces: no change\n"
        );
    }

    #[test]
    fn everything_wrong_with_a_class_is_listed() {
        let problems = vec![
            "spec.resources[0]: kind is missing".to_owned(),
            "spec.params[1].name: p is declared twice".to_owned(),
        ];
        assert_eq!(
            text(&Preview::invalid("team".into(), false, problems)),
            "class team is invalid\n  spec.resources[0]: kind is missing\n  spec.params[1].name: p is declared twice\n\n2 problems; nothing is planned\n"
        );
    }
}
