//! The plan, for people: per part, in numbers.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Choice, Ground, Seen, Stage, Step};

/// What a stage does.
pub fn headline(stage: Stage) -> &'static str {
    match stage {
        Stage::Fences => "remove policies and webhooks: from here on nothing of Croft stands in anybody's way",
        Stage::Operator => "stop the operator",
        Stage::Orphans => "leave what it made where it is, without an owner",
        Stage::Dependents => "delete what it made",
        Stage::Marks => "take its marks off namespaces",
        Stage::Held => "let go of what its finalizers hold",
        Stage::Belongings => "remove its rights, settings and certificates",
        Stage::Kinds => "remove its kinds, with all that is left of them",
    }
}

/// The whole plan.
pub fn describe(steps: &[Step], objects: &[Seen], ground: &Ground, is_running: bool) -> String {
    let mut text = String::new();
    if ground.choice == Choice::Purge {
        text.push_str(if is_running {
            "  0. have the operator delete every backup, vault, bucket and user of tenants, with all that is in them\n"
        } else {
            "     no operator runs: what tenants have in Ceph and in Velero's buckets stays there\n"
        });
        tell(&mut text, objects.iter().filter(|object| ground.is_ours(&object.kind)), ground);
    }
    for (place, step) in steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {} ({})", place + 1, headline(step.stage), step.objects.len());
        if step.stage == Stage::Kinds {
            tell(&mut text, objects.iter().filter(|object| ground.is_ours(&object.kind)), ground);
        } else {
            tell(&mut text, step.objects.iter(), ground);
        }
    }
    if steps.is_empty() {
        text.push_str("  nothing of Croft is here\n");
    }
    text
}

/// One line for each part, with how many there are of each kind.
fn tell<'a>(text: &mut String, objects: impl Iterator<Item = &'a Seen>, ground: &Ground) {
    let mut parts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for object in objects {
        *parts.entry(part(object, ground)).or_default().entry(&object.kind.kind).or_default() += 1;
    }
    for (part, kinds) in parts {
        let counts: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let _ = writeln!(text, "       {part}: {}", counts.join(", "));
    }
}

/// The part an object is of: by its own group, else by that of its owner.
fn part(object: &Seen, ground: &Ground) -> &'static str {
    let owner = object.owners.iter().find(|owner| ground.is_ours(owner));
    match owner.map_or(object.kind.group.as_str(), |owner| owner.group.as_str()) {
        "akuity.io" => "namespaces",
        "s3.snappcloud.io" => "storage",
        "oadp.openshift.io" | "croft.dev" => "backup",
        _ => "installation",
    }
}
