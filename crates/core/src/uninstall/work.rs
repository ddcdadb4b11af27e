//! What the operator does before it ends, where data is not kept.

use serde_json::{Value, json};

use super::{Ground, Kind, Seen};
use crate::{conditions::cut, storage::GIVE_UP};

/// As many of those that hold something up are told.
const TOLD: usize = 3;
/// What each of them says is told up to this length.
const LONGEST: usize = 300;
const RETAIN: &str = "Retain";

/// Something the operator does.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    pub kind: Kind,
    /// What is set on each object first.
    set: Set,
    /// Whether each is deleted then.
    pub deletes: bool,
    /// Whether nothing goes on before all of them are gone.
    pub awaits: bool,
    /// What is set on those that are not gone in time: they go, and what is stored of them elsewhere stays there.
    last_resort: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Set {
    Nothing,
    Same(Value),
    /// A class gives all data up, and remembers what it said before.
    GiveUp,
}

impl Work {
    /// Whether more than the metadata of an object decides about what is set.
    pub fn reads_objects(&self) -> bool {
        self.set == Set::GiveUp
    }

    /// The merge patch of those that are not gone in time, where there is anything else to be tried.
    pub fn last_resort(&self) -> Option<&Value> {
        self.last_resort.as_ref()
    }

    /// The merge patch of an object.
    pub fn patch(&self, object: &Value) -> Option<Value> {
        match &self.set {
            Set::Nothing => None,
            Set::Same(patch) => Some(patch.clone()),
            Set::GiveUp => {
                let before = said_before(object).or_else(|| object.pointer("/spec/onDelete")?.as_str());
                let note = json!({ GIVE_UP: before.unwrap_or(RETAIN) });
                Some(json!({ "metadata": { "annotations": note }, "spec": { "onDelete": "Purge" } }))
            }
        }
    }
}

/// What a class that gives everything up said before.
fn said_before(class: &Value) -> Option<&str> {
    class.pointer("/metadata/annotations")?.get(GIVE_UP)?.as_str()
}

/// The merge patch after which a class says again what it said before a purge that came to no end.
pub fn without_giving_up(class: &Value) -> Option<Value> {
    let before = said_before(class)?;
    let before = if before == "Purge" { before } else { RETAIN };
    Some(json!({ "metadata": { "annotations": { GIVE_UP: null } }, "spec": { "onDelete": before } }))
}

/// What the operator is asked to do, in order: what makes more of something first, what holds the data last. Nothing is given up
/// before the first of what holds it goes.
pub fn work() -> Vec<Work> {
    let of = |group: &str, kind: &str, set: Set, deletes: bool, awaits: bool| Work {
        kind: Kind { group: group.to_owned(), kind: kind.to_owned() },
        set,
        deletes,
        awaits,
        last_resort: None,
    };
    let same = |spec: Value| Set::Same(json!({ "spec": spec }));
    let (namespaces, storage, backup, croft) = ("akuity.io", "s3.snappcloud.io", "oadp.openshift.io", "croft.dev");
    // Where a bucket is out of reach, or its owner sees to it that it is.
    let forced = Some(json!({ "spec": { "forceDeleteBackup": true } }));
    let backups = || of(backup, "NonAdminBackup", same(json!({ "deleteBackup": true })), false, true);
    vec![
        // What a class stamps comes back until that is gone.
        of(croft, "BackupSchedule", Set::Nothing, true, false),
        of(backup, "NonAdminDownloadRequest", Set::Nothing, true, false),
        of(backup, "NonAdminRestore", Set::Nothing, true, true),
        Work { last_resort: forced.clone(), ..backups() },
        of(storage, "S3Class", Set::GiveUp, false, false),
        of(namespaces, "NamespaceClass", same(json!({ "policy": { "onClassDelete": "Delete" } })), true, true),
        of(croft, "BackupSchedule", Set::Nothing, true, true),
        Work { last_resort: forced, ..backups() },
        // What its class gives up a vault does not keep, whatever it says itself.
        of(croft, "BackupVault", Set::Nothing, true, true),
        of(backup, "NonAdminBackupStorageLocation", Set::Nothing, true, true),
        of(storage, "UserMigration", Set::Nothing, true, true),
        of(storage, "S3UserClaim", Set::Nothing, true, false),
        of(storage, "S3Bucket", Set::Nothing, true, true),
        of(storage, "S3UserClaim", Set::Nothing, true, true),
        // Nobody deletes these but the operator, once nothing of theirs is left in Ceph.
        of(storage, "S3User", Set::Nothing, false, true),
    ]
}

/// Why a purge cannot be had now, if so. What holds data outside of the cluster can be let go of by the operator only.
pub fn hindrance(objects: &[Seen], ground: &Ground, leads: bool, parts: Option<&[String]>) -> Option<String> {
    let work = work();
    let holds = |object: &&Seen| {
        let is_awaited = |work: &Work| work.awaits && work.kind == object.kind && object.kind.group != "akuity.io";
        work.iter().any(is_awaited)
    };
    let held: Vec<_> = objects
        .iter()
        .filter(holds)
        .filter_map(|object| Some((ground.part(&object.kind)?, &object.kind.kind)))
        .collect();
    let idle = |part: &str| parts.is_some_and(|parts| !parts.iter().any(|runs| runs == part));
    if !leads && let Some((_, kind)) = held.first() {
        return Some(format!(
            "no operator leads, and only it can delete what tenants have outside of the cluster ({} objects of which are here, \
             such as of {kind}): start it, or give --keep-data",
            held.len()
        ));
    }
    let (part, kind) = held.iter().find(|(part, _)| idle(part))?;
    Some(format!(
        "the operator does not run its part {part}, and only that can delete what is behind each {kind}: switch it on \
         (parts.{part}: true), or give --keep-data"
    ))
}

/// Whether the operator still has something to do with an object: what is deleted and held by nobody but others is over for us.
pub fn is_left(object: &Value, ours: &[&str]) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_none()
        || finalizers(object).any(|finalizer| ours.contains(&finalizer))
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let all = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str)
}

/// Those of objects of one kind that have been there longest, each with what it says of itself and who else holds it.
pub fn held_up(objects: &[Value], ours: &[&str]) -> String {
    let text =
        |object: &Value, place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut oldest: Vec<_> = objects.iter().collect();
    oldest.sort_by_key(|object| text(object, "/metadata/creationTimestamp"));
    let told = oldest.iter().take(TOLD).map(|object| {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        let why: Vec<_> = complaint(object).into_iter().chain(holders(object, ours)).collect();
        if why.is_empty() { name } else { format!("{name} ({})", why.join("; ")) }
    });
    let told: Vec<_> = told.collect();
    let more = objects.len().saturating_sub(TOLD);
    if more == 0 { told.join("; ") } else { format!("{}; and {more} more", told.join("; ")) }
}

/// What an object says of itself: whether it is ready, or what else is not as it should be.
fn complaint(object: &Value) -> Option<String> {
    let text =
        |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    let said = conditions.iter().find(|condition| text(condition, "type") == "Ready");
    let said = said.or_else(|| conditions.iter().rfind(|condition| text(condition, "type") == "Deleting"));
    let said = said.or_else(|| conditions.iter().find(|condition| text(condition, "status") == "False"))?;
    Some(format!("{}: {}", text(said, "reason"), cut(text(said, "message"), LONGEST)))
}

fn holders(object: &Value, ours: &[&str]) -> Option<String> {
    object.pointer("/metadata/deletionTimestamp")?;
    let others: Vec<_> = finalizers(object).filter(|finalizer| !ours.contains(finalizer)).collect();
    (!others.is_empty()).then(|| cut(format!("held by the finalizers of others: {}", others.join(", ")), LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_says_again_what_it_said_before_a_purge_that_came_to_no_end() {
        let work = work();
        let gives_up = work.iter().find(|work| work.kind.kind == "S3Class").unwrap();
        for said in ["Retain", "Purge"] {
            let class = json!({ "metadata": { "annotations": { "mine": "x" } }, "spec": { "onDelete": said } });
            assert_eq!(without_giving_up(&class), None, "nobody asked it to");
            let patch = gives_up.patch(&class).unwrap();
            assert_eq!(patch["spec"]["onDelete"], "Purge");
            // A second run finds what the first has set.
            let again = gives_up.patch(&patch).unwrap();
            assert_eq!(again, patch);
            let back = without_giving_up(&again).unwrap();
            assert_eq!(back["spec"]["onDelete"], said);
            assert_eq!(back["metadata"]["annotations"], json!({ GIVE_UP: null }));
        }
    }

    #[test]
    fn those_that_hold_a_purge_up_are_named_with_their_reasons_the_oldest_first() {
        let object = |name: &str, made: &str| {
            json!({ "metadata": { "name": name, "namespace": "blue", "creationTimestamp": made },
                    "status": { "conditions": [{ "type": "Ready", "reason": "Unreachable", "message": "no answer" }] } })
        };
        let mut objects = vec![object("b", "2026-02-01T00:00:00Z"), object("a", "2026-01-01T00:00:00Z")];
        assert_eq!(held_up(&objects, &["ours"]), "blue/a (Unreachable: no answer); blue/b (Unreachable: no answer)");
        objects.extend([json!({ "metadata": { "name": "user" } }), object("c", "2026-03-01T00:00:00Z")]);
        let told = held_up(&objects, &["ours"]);
        assert!(told.starts_with("user; blue/a (") && told.ends_with("and 1 more"), "{told}");
    }

    #[test]
    fn what_others_hold_is_named_with_who_holds_it_and_is_over_for_us() {
        let object = |finalizers: &[&str], deleted: bool| {
            let mut object = json!({ "metadata": { "name": "nightly", "finalizers": finalizers } });
            if deleted {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            object
        };
        let is_left = |finalizers: &[&str], deleted: bool| is_left(&object(finalizers, deleted), &["ours"]);
        assert!(is_left(&["ours", "theirs"], true) && is_left(&["theirs"], false) && is_left(&[], false));
        assert!(!is_left(&["theirs"], true));
        let told = held_up(&[object(&["ours", "theirs"], true)], &["ours"]);
        assert_eq!(told, "nightly (held by the finalizers of others: theirs)");
        assert_eq!(held_up(&[object(&["theirs"], false)], &["ours"]), "nightly");
    }

    #[test]
    fn what_is_not_ready_or_not_because_of_something_else_says_why() {
        let object = |type_: &str, status: &str| {
            json!({ "metadata": { "name": "b" },
                    "status": { "conditions": [{ "type": type_, "status": status, "reason": "Withheld", "message": "why" }] } })
        };
        for (type_, status) in [("Ready", "False"), ("Deleting", "True"), ("Accepted", "False")] {
            assert_eq!(held_up(&[object(type_, status)], &[]), "b (Withheld: why)", "{type_}");
        }
        assert_eq!(held_up(&[object("Accepted", "True")], &[]), "b");
    }

    #[test]
    fn what_makes_more_of_something_is_gone_before_that_is_waited_for_the_last_time() {
        let work = work();
        let places =
            |kind: &str| -> Vec<usize> { (0..work.len()).filter(|place| work[*place].kind.kind == kind).collect() };
        let [schedules, backups] = ["BackupSchedule", "NonAdminBackup"].map(places);
        assert!(!work[schedules[0]].awaits && work[schedules[1]].awaits, "a class brings its own back");
        assert!(places("NamespaceClass")[0] < schedules[1] && schedules[1] < backups[1]);
        assert!(backups.iter().all(|backup| work[*backup].last_resort().is_some()));
    }
}
