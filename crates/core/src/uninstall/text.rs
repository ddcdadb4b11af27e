//! The plan, for people: per part, in numbers.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Choice, Ground, Seen, Stage, Step, stage};

const WORK: &str = "have the operator delete every backup, vault, bucket and user of tenants, with all that is in them";

/// What a stage does.
pub fn headline(stage: Stage) -> &'static str {
    match stage {
        Stage::Fences => "remove policies and webhooks: from here on nothing of Croft stands in anybody's way",
        Stage::Operator => "stop the operator",
        Stage::Guards => "remove the policies around Velero, once it restores for no tenant any more",
        Stage::Orphans => "leave what it made where it is, without an owner",
        Stage::Dependents => "delete what it made",
        Stage::Marks => "take its marks off namespaces",
        Stage::Held => "let go of what its finalizers hold",
        Stage::Belongings => "remove its settings, certificates and roles",
        Stage::Rights => "remove its rights",
        Stage::Kinds => "remove its kinds, with all that is left of them",
    }
}

/// Whether the plan, or what is told of it, is about this object.
pub fn concerns(object: &Seen, ground: &Ground) -> bool {
    stage(object, ground).is_some() || ground.is_ours(&object.kind) || is_of_velero(object, ground)
}

fn is_of_velero(object: &Seen, ground: &Ground) -> bool {
    object.kind.group == "velero.io"
        && ["Backup", "BackupStorageLocation"].contains(&object.kind.kind.as_str())
        && object.has(ground.of_velero)
}

/// The whole plan, in the order it is done.
pub fn describe(steps: &[Step], objects: &[Seen], ground: &Ground, hindrance: Option<&str>) -> String {
    let mut text = String::new();
    let ours = || objects.iter().filter(|object| ground.is_ours(&object.kind));
    let (fences, rest): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step.stage == Stage::Fences);
    let mut place = 0;
    let mut begin = |text: &mut String, what: &str| {
        place += 1;
        let _ = writeln!(text, "  {place}. {what}");
    };
    for step in fences {
        begin(&mut text, &format!("{} ({})", headline(step.stage), step.objects.len()));
        tell(&mut text, step.objects.iter(), ground);
    }
    if ground.choice == Choice::Purge && ours().next().is_some() {
        begin(&mut text, WORK);
        tell(&mut text, ours(), ground);
    }
    for step in rest {
        begin(&mut text, &format!("{} ({})", headline(step.stage), step.objects.len()));
        if step.stage == Stage::Kinds {
            tell(&mut text, ours(), ground);
        } else {
            tell(&mut text, step.objects.iter(), ground);
        }
    }
    if steps.is_empty() {
        text.push_str("  nothing of Croft is here\n");
    }
    if ground.choice == Choice::KeepData {
        tell_what_stays(&mut text, steps, objects, ground);
    }
    if let Some(hindrance) = hindrance {
        let _ = writeln!(text, "  but: {hindrance}");
    }
    text
}

/// What tenants have afterwards, for which nobody but an administrator then cares.
fn tell_what_stays(text: &mut String, steps: &[Step], objects: &[Seen], ground: &Ground) {
    let users = objects.iter().filter(|object| object.kind.kind == "S3User" && ground.is_ours(&object.kind));
    let of_velero =
        |kind: &str| objects.iter().filter(|object| object.kind.kind == kind && is_of_velero(object, ground)).count();
    let orphans = steps.iter().filter(|step| step.stage == Stage::Orphans).flat_map(|step| &step.objects);
    let counts = [
        (users.count(), "users in Ceph with their buckets"),
        (orphans.filter(|object| object.kind.kind == "Secret").count(), "Secrets with keys and the like"),
        (of_velero("Backup"), "Backups of Velero"),
        (of_velero("BackupStorageLocation"), "BackupStorageLocations of Velero"),
    ];
    let told: Vec<_> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !told.is_empty() {
        let _ = writeln!(text, "  stays: {}", told.join(", "));
    }
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

/// The part an object is of: by its own kind, else by that of its owner.
fn part(object: &Seen, ground: &Ground) -> &'static str {
    let owner = object.owners.iter().find_map(|owner| ground.part(owner));
    ground.part(&object.kind).or(owner).unwrap_or("installation")
}
