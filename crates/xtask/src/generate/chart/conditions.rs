//! The situations the chart's values can make, and the expressions that tell in which one we are.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::templates;

const PARTS: [&str; 3] = ["namespaces", "storage", "backup"];

/// What of the choices decides about more than a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Situation {
    parts: BTreeSet<&'static str>,
    allows_hooks: bool,
    required: Required,
}

/// Whether namespaces must have a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Required {
    /// One of those that are named.
    Named,
    Any,
    No,
}

pub(super) type Situations = BTreeSet<Situation>;

/// All of them; first the one that most is installed in.
pub(super) fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    for number in (1..1_u8 << PARTS.len()).rev() {
        let parts: BTreeSet<_> =
            PARTS.into_iter().enumerate().filter(|(place, _)| number >> place & 1 == 1).map(|(_, part)| part).collect();
        for allows_hooks in [true, false] {
            for required in [Required::Named, Required::Any, Required::No] {
                all.push(Situation { parts: parts.clone(), allows_hooks, required });
            }
        }
    }
    all
}

impl Situation {
    /// What `croft` is asked for.
    pub(super) fn arguments(&self) -> Vec<String> {
        let parts: Vec<_> = self.parts.iter().copied().collect();
        let mut arguments = vec!["manifests".to_owned(), format!("--enable={}", parts.join(","))];
        arguments.extend(templates::asked_for());
        if !self.allows_hooks {
            arguments.push("--without-hooks".into());
        }
        if self.required != Required::No {
            arguments.push(format!("--class-required={}={}", templates::LABEL, templates::VALUE));
        }
        if self.required == Required::Named {
            arguments.push(format!("--required-class={}", templates::CLASS));
        }
        arguments
    }
}

/// The expressions that all hold in these situations and in no others.
pub(super) fn condition(situations: &Situations) -> Result<Vec<String>> {
    let parts: BTreeSet<_> = situations.iter().map(|situation| situation.parts.clone()).collect();
    let hooks: BTreeSet<_> = situations.iter().map(|situation| situation.allows_hooks).collect();
    let required: BTreeSet<_> = situations.iter().map(|situation| situation.required).collect();
    ensure!(
        situations.len() == parts.len() * hooks.len() * required.len(),
        "what decides about it cannot be told by one value at a time"
    );
    let conditions = [of_parts(&parts), of_hooks(&hooks), of_required(&required)];
    Ok(conditions.into_iter().flatten().collect())
}

fn of_parts(chosen: &BTreeSet<BTreeSet<&'static str>>) -> Option<String> {
    let all: BTreeSet<_> = situations().into_iter().map(|situation| situation.parts).collect();
    if *chosen == all {
        return None;
    }
    // One of a few parts is on; or else all that there is, written out.
    let any_of = |few: &BTreeSet<&'static str>| -> bool {
        let with: BTreeSet<_> = all.iter().filter(|parts| !parts.is_disjoint(few)).cloned().collect();
        with == *chosen
    };
    if let Some(few) = all.iter().find(|few| any_of(few)) {
        let values: Vec<_> = few.iter().map(|part| format!(".Values.parts.{part}")).collect();
        return Some(if values.len() == 1 { values.concat() } else { format!("or {}", values.join(" ")) });
    }
    let written = |parts: &BTreeSet<&str>| {
        let is_on = |part: &str| if parts.contains(part) { "true" } else { "false" };
        format!("\"{}\"", PARTS.map(is_on).join(","))
    };
    let lists: Vec<_> = chosen.iter().map(written).collect();
    Some(format!("has (include \"croft.switches\" .) (list {})", lists.join(" ")))
}

fn of_hooks(chosen: &BTreeSet<bool>) -> Option<String> {
    let allowed = "include \"croft.allowsHooks\" .";
    match (chosen.contains(&true), chosen.contains(&false)) {
        (true, true) => None,
        (true, false) => Some(allowed.to_owned()),
        _ => Some(format!("not ({allowed})")),
    }
}

fn of_required(chosen: &BTreeSet<Required>) -> Option<String> {
    let (label, classes) = (".Values.classRequired.label", ".Values.classRequired.classes");
    let has = |required: Required| chosen.contains(&required);
    match (has(Required::Named), has(Required::Any), has(Required::No)) {
        (true, true, true) => None,
        (true, true, false) => Some(label.to_owned()),
        (true, false, false) => Some(format!("and {label} {classes}")),
        (false, true, false) => Some(format!("and {label} (not {classes})")),
        (false, false, true) => Some(format!("not {label}")),
        _ => Some(format!(
            "not (and {label} {})",
            if has(Required::Named) { format!("(not {classes})") } else { classes.into() }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn those(select: impl Fn(&Situation) -> bool) -> Vec<String> {
        condition(&situations().into_iter().filter(select).collect()).unwrap()
    }

    #[test]
    fn what_holds_everywhere_needs_no_condition_and_a_part_is_told_by_its_switch() {
        assert_eq!(those(|_| true), Vec::<String>::new());
        assert_eq!(those(|at| at.parts.contains("storage")), [".Values.parts.storage"]);
        assert_eq!(
            those(|at| at.parts.contains("storage") || at.parts.contains("backup")),
            ["or .Values.parts.backup .Values.parts.storage"]
        );
        assert_eq!(those(|at| !at.parts.contains("backup") && !at.allows_hooks).len(), 2);
        assert_eq!(
            those(|at| at.parts.contains("namespaces") && at.required == Required::Any),
            [".Values.parts.namespaces", "and .Values.classRequired.label (not .Values.classRequired.classes)"]
        );
    }

    #[test]
    fn what_cannot_be_told_is_not_written() {
        let odd = situations().into_iter().filter(|at| at.allows_hooks == (at.required == Required::No));
        assert!(condition(&odd.collect()).is_err());
    }
}
