mod in_veleros_hands;
mod lost;
mod waiting;

use std::time::Duration;

use croft_core::{
    backup::{
        Handed, Object, OnDelete, Phase, Policy, Presence, Victim,
        backup::{ASK_AGAIN, Deletion, Location, LocationPhase, Observed, Status, Step, plan, report},
        names,
        ownership::{Lies, Marks},
    },
    plan::{Outcome, Plan},
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    EVERYTHING, UID, assert_forward_unless_edited, done,
    explorer::{self, Act, at_rest, explore, stale},
    fields, handed, judged_at, now, object, policy,
    request::{self, Stored, Told, Tried},
    told,
};

/// What the user may write into the spec.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    valid: bool,
    delete: bool,
    force: bool,
}

/// A Velero Backup under the name of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Backup {
    ours: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Waiting,
    /// Its turn has come: whatever deletes it now stops Velero's queue for ever.
    Ready,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Deleting {
    Asked,
    /// Velero goes by it.
    Begun,
    /// Because the location could not be reached, say.
    Refused {
        rested: bool,
    },
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    stored: Stored<Asked, Told<Status>>,
    releases_on_delete: bool,
    terminating: bool,
    location_is_ready: bool,
    backup: Option<Backup>,
    deletion: Option<Deleting>,
    restore: bool,
    /// It does so once.
    velero_refuses: bool,
    /// Velero has had it.
    was_made: bool,
}

type Request = request::Request<Asked, Told<Status>>;
type Look = request::Look<Asked, Told<Status>, Observed>;

fn name() -> String {
    names::nacuuid("shop", "nightly", UID)
}

fn our_marks() -> Marks {
    object(true, false, false).origin(None).marks()
}

impl Backup {
    fn status(self) -> Value {
        match self {
            Backup { ours: false, .. } => json!({ "phase": "Foreign" }),
            Backup { stage: Stage::Waiting, .. } => json!({ "phase": "Queued" }),
            Backup { stage: Stage::Ready, .. } => json!({ "phase": "ReadyToStart" }),
            Backup { stage: Stage::Done, .. } => {
                json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" })
            }
        }
    }

    fn seen(self) -> Handed {
        let version = format!("{:?}", self.stage);
        Handed { version, ..handed(self.ours, self.status(), false, u64::from(self.stage != Stage::Done)) }
    }
}

impl Deleting {
    fn seen(self) -> Deletion {
        let (phase, age) = match self {
            Deleting::Asked => ("New", Duration::ZERO),
            Deleting::Begun => ("InProgress", Duration::ZERO),
            Deleting::Refused { rested: false } => ("Processed", Duration::ZERO),
            Deleting::Refused { rested: true } => ("Processed", ASK_AGAIN),
        };
        Deletion {
            name: name(),
            uid: "deletion".into(),
            version: phase.into(),
            marks: our_marks(),
            age,
            status: fields(json!({ "phase": phase })),
        }
    }
}

impl World {
    fn new(valid: bool, location_is_ready: bool, backup: Option<Backup>, on_delete: OnDelete) -> Self {
        World {
            stored: Stored::new(Asked { valid, delete: false, force: false }),
            releases_on_delete: on_delete == OnDelete::Release,
            terminating: false,
            location_is_ready,
            backup,
            deletion: None,
            restore: true,
            velero_refuses: true,
            was_made: false,
        }
    }

    fn policy(&self) -> Policy {
        let on_delete = if self.releases_on_delete { OnDelete::Release } else { OnDelete::Hold };
        Policy { on_delete, ..policy() }
    }

    fn edited(mut self, change: impl FnOnce(&mut Request)) -> World {
        self.stored.edit(change);
        self
    }

    fn asks(&self, what: &str, change: impl FnOnce(&mut Asked)) -> Act<World> {
        Act::new(what, self, |world| world.stored.edit(|request| change(&mut request.asked)))
    }

    fn has_our_backup(&self) -> bool {
        self.backup.is_some_and(|backup| backup.ours)
    }

    fn delete_backup(&mut self, victim: &Victim, version: &str) -> Outcome {
        match self.backup {
            Some(backup) if (backup.seen().uid, backup.seen().version) == (victim.uid.clone(), version.into()) => {
                assert!(backup.ours, "deleted somebody else's backup");
                assert!(backup.stage != Stage::Ready, "deleted under Velero's hands");
                self.backup = None;
                done()
            }
            _ => stale(),
        }
    }

    fn seen(&self) -> Option<Observed> {
        let request = self.stored.request.as_ref()?;
        let spec = if request.asked.valid {
            json!({ "storageLocation": "here" })
        } else {
            json!({ "excludedNamespaces": [] })
        };
        let velero = if self.location_is_ready { LocationPhase::Available } else { LocationPhase::Other };
        Some(Observed {
            is_synced: false,
            unnoted_in: None,
            own_bucket: None,
            missing_fences: Vec::new(),
            overdue: Duration::ZERO,
            ended: None,
            object: Object {
                generation: request.generation,
                tried: request.tried.map(Tried::seen),
                ..object(request.finalizer, request.deleting, self.terminating)
            },
            spec: fields(spec),
            delete_backup: request.asked.delete,
            force_delete_backup: request.asked.force,
            status: Status::clone(&request.status),
            location: Location::Found {
                phase: Some(Phase::Created),
                nacuuid: Some("here-1".into()),
                velero: Some(velero),
            },
            velero: self.backup.map(Backup::seen),
            lies: Lies::WithTenant("shop".into()),
            deletions: self.deletion.map(Deleting::seen).into_iter().collect(),
            restores: self.restore.then(|| Victim { name: "back".into(), uid: "back".into() }).into_iter().collect(),
        })
    }
}

impl explorer::World for World {
    type Seen = Look;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Look)> {
        self.stored.look("backup", self.seen())
    }

    fn plan(&self, look: &Look) -> Plan<Step> {
        plan(&look.observed, &self.policy())
    }

    fn execute(&mut self, look: &Look, step: &Step) -> Outcome {
        let (asked, status) = (&look.request.asked, &look.observed.status);
        match step {
            Step::NoteLetGo { .. } => panic!("there is no location to note it in"),
            Step::Label(_) => panic!("it is not in a tenant's own bucket"),
            Step::AddFinalizer { .. } => return self.stored.add_finalizer(&look.request),
            Step::Hold { .. } => return self.stored.hold(&look.request, |status| &mut status.conditions),
            Step::CreateBackup { .. } if self.backup.is_some() => return stale(),
            Step::CreateBackup { origin, spec, .. } => {
                assert!(!status.conditions.is_true("Queued") && !self.was_made, "ran a backup again");
                let is_held = self.stored.request.as_ref().is_some_and(|request| request.finalizer);
                assert!(is_held || self.stored.let_go_by_hand, "made a backup that nothing holds");
                assert_eq!(origin.nacuuid, name());
                assert_eq!(spec["includedNamespaces"], json!(["shop"]));
                (self.backup, self.was_made) = (Some(Backup { ours: true, stage: Stage::Waiting }), true);
            }
            Step::DeleteSelf { .. } => {
                assert_eq!(status.phase, Some(Phase::Deleting), "deleted before anybody could see why");
                self.stored.edit(|request| request.deleting = true);
            }
            Step::DeleteRestore(_) => {
                assert!(asked.delete, "deleted a restore unasked");
                self.restore = false;
            }
            Step::CreateDeletion { .. } if self.deletion.is_some() => return stale(),
            Step::CreateDeletion { backup, .. } => {
                assert!(asked.delete && backup.uid == "ours", "asked to delete what nobody wanted deleted");
                let is_done = self.backup.is_none_or(|backup| !backup.ours || backup.stage == Stage::Done);
                assert!(is_done, "asked to delete what Velero is not done with");
                self.deletion = Some(Deleting::Asked);
            }
            Step::DeleteDeletion { version, .. } => {
                let Some(deletion) = self.deletion.filter(|deletion| deletion.seen().version == *version) else {
                    return stale();
                };
                assert_ne!(deletion, Deleting::Begun, "taken away while Velero goes by it");
                self.deletion = None;
            }
            Step::DeleteBackup { backup, version } => {
                let is_asked = asked.force || asked.delete || self.releases_on_delete || self.terminating;
                assert!(is_asked, "deleted a backup unasked");
                return self.delete_backup(backup, version);
            }
            Step::ReleaseFinalizer { .. } => {
                let left = self.has_our_backup() && !self.terminating && !asked.force;
                return self.stored.release_finalizer(&look.request, left);
            }
        }
        done()
    }

    fn report(&mut self, look: &Look, outcomes: &[(&Step, Outcome)]) {
        self.stored.write_status(report(&look.observed, &self.policy(), outcomes, &now()));
    }

    fn others(&self) -> Vec<Act<World>> {
        let mut acts = vec![Act::new("the location becomes ready, or is ready no more", self, |world| {
            world.location_is_ready = !world.location_is_ready;
        })];
        let noted = self.stored.request.as_ref().is_none_or(|request| request.status.conditions.is_true("Queued"));
        if self.stored.is_beyond_doubt() && !noted {
            let later = Act::new("a long time passes", self, |world| world.stored.is_left_alone_for_long());
            acts.push(later.between_reconciles());
        }
        if self.has_our_backup() && (noted || !self.stored.is_beyond_doubt()) {
            acts.push(Act::new("the Velero Backup expires", self, |world| world.backup = None));
        }
        if self.backup.is_none() && noted {
            let theirs = Backup { ours: false, stage: Stage::Waiting };
            acts.push(Act::new("somebody takes the name in Velero", self, |world| world.backup = Some(theirs)));
        }
        if !self.restore && !self.terminating {
            acts.push(Act::new("the user makes a restore", self, |world| world.restore = true));
        }
        acts.push(self.asks("the user edits the spec", |asked| asked.valid = !asked.valid));
        acts.push(self.asks("the user sets deleteBackup", |asked| asked.delete = true));
        acts.push(self.asks("the user takes deleteBackup back", |asked| asked.delete = false));
        acts.push(self.asks("the user sets forceDeleteBackup", |asked| asked.force = true));
        acts.extend(self.stored.acts(self, |world| &mut world.stored));
        acts.push(Act::new("the namespace is deleted", self, |world| {
            (world.terminating, world.restore) = (true, false);
            world.stored.edit(|request| request.deleting = true);
        }));
        acts
    }

    fn passes(&self) -> Option<World> {
        let mut later = self.clone();
        match (self.deletion, self.backup) {
            (Some(Deleting::Asked), _) => later.deletion = Some(Deleting::Begun),
            (Some(Deleting::Begun), Some(_)) if self.velero_refuses => {
                later.deletion = Some(Deleting::Refused { rested: false });
                later.velero_refuses = false;
            }
            (Some(Deleting::Begun), _) => (later.backup, later.deletion) = (None, None),
            (Some(Deleting::Refused { rested: false }), _) => {
                later.deletion = Some(Deleting::Refused { rested: true });
            }
            (_, Some(backup @ Backup { ours: true, stage: Stage::Waiting })) => {
                later.backup = Some(Backup { stage: Stage::Ready, ..backup });
            }
            (_, Some(backup @ Backup { ours: true, stage: Stage::Ready })) => {
                later.backup = Some(Backup { stage: Stage::Done, ..backup });
            }
            _ => return None,
        }
        Some(later)
    }

    fn check(&self) {
        let Some(request) = &self.stored.request else { return };
        let copied = request.status.velero_backup.as_ref().and_then(|reference| reference.status.as_ref());
        assert!(copied.is_none_or(|status| status["phase"] != "Foreign"), "read somebody else's backup");
        assert!(
            !self.has_our_backup() || request.finalizer || self.stored.let_go_by_hand,
            "a backup that nothing holds"
        );
    }

    fn check_ours(&self, before: &World) {
        if let (Some(before), Some(after)) = (&before.stored.request, &self.stored.request) {
            // Who takes back the wish to delete it goes back, too.
            let was_deleting = before.status.phase == Some(Phase::Deleting);
            if !(was_deleting && after.status.conditions.get("Deleting").is_none()) {
                assert_forward_unless_edited(before, after, |s| s.phase, |s| judged_at(&s.conditions));
            }
            let (before, after) = (&before.status, &after.status);
            let was_queued = before.conditions.is_true("Queued");
            assert!(!was_queued || after.conditions.is_true("Queued"), "forgot that Velero had it");
        }
        if before.backup.is_some_and(|backup| !backup.ours) {
            assert_eq!(before.backup, self.backup, "touched somebody else's backup");
        }
    }

    fn check_rest(&self) {
        let Some(request) = &self.stored.request else { return };
        let waits_for_location = request.asked.delete && !self.location_is_ready && self.has_our_backup();
        assert!(!request.asked.force && !self.terminating, "a request that never goes");
        assert!(!request.asked.delete || waits_for_location, "a deletion that is never asked for");
        assert!(!self.has_our_backup() || request.finalizer, "a backup that nothing holds");
        let status = &request.status;
        let queued = status.conditions.is_true("Queued");
        if waits_for_location {
            let said = status.conditions.get("Deleting").map(|deleting| deleting.message.clone()).unwrap_or_default();
            assert!(said.contains("cannot be reached"), "{said}");
        } else if request.deleting {
            assert!(self.has_our_backup() && !self.releases_on_delete, "held for nothing");
            assert_eq!(status.phase, Some(Phase::Deleting));
        } else if self.has_our_backup() {
            assert_eq!(status.phase, Some(Phase::Created));
            assert!(queued && status.conditions.is_true("Accepted"));
            assert_eq!(status.queue_info.map(|queue| queue.estimated_queue_position), Some(0));
        } else if queued || status.conditions.reason("Accepted") == Some("VeleroBackupNotFound") {
            assert_eq!(status.conditions.reason("Accepted"), Some("VeleroBackupNotFound"));
            assert!(self.was_made || request.tried == Some(Tried::LongAgo), "lost what nobody has tried");
            assert_eq!(status.phase, Some(Phase::Created));
        } else if self.backup.is_some() {
            assert_eq!(status.conditions.reason("Accepted"), Some("VeleroBackupTaken"));
        } else {
            assert!(!request.asked.valid || !self.location_is_ready, "a good request that nobody serves");
            let expected = if request.asked.valid { Phase::New } else { Phase::BackingOff };
            assert_eq!(status.phase, Some(expected));
        }
    }
}

#[test]
fn every_backup_keeps_its_promises_whatever_goes_wrong() {
    let theirs = Backup { ours: false, stage: Stage::Waiting };
    let mut starts = Vec::new();
    for valid in [true, false] {
        for ready in [true, false] {
            for on_delete in [OnDelete::Hold, OnDelete::Release] {
                starts.push(World::new(valid, ready, None, on_delete));
                starts.push(World::new(valid, ready, Some(theirs), on_delete));
            }
        }
    }
    let worlds = explore("backup", starts, EVERYTHING).worlds.len();
    assert!(worlds > 1_000, "only {worlds} worlds");
}

/// The plan and the conditions at every look, until nothing moves.
fn story(mut world: World) -> Vec<String> {
    let mut story = Vec::new();
    loop {
        let plan = explorer::plans(&world).join("").replace(&name(), "NAME").replace(UID, "UID");
        let next = explorer::reconciled(&world);
        let told = next.stored.request.as_ref().map(|request| (request.status.phase, told(&request.status.conditions)));
        story.push(format!("{plan} -> {told:?}"));
        if next == world {
            return story;
        }
        world = next;
    }
}

#[test]
fn a_backup_is_held_then_made_then_told() {
    assert_eq!(
        story(World::new(true, true, None, OnDelete::Hold)),
        [
            "add finalizer and note (uid UID): a Velero Backup is made next\ncreate Velero Backup NAME (absent): accepted -> \
             Some((None, []))",
            r#"nothing to do -> Some((Some(Created), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]))"#,
            r#"nothing to do -> Some((Some(Created), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]))"#,
        ]
    );
}

#[test]
fn plain_deletion_holds_and_says_what_to_do() {
    let world = at_rest(&World::new(true, true, None, OnDelete::Hold));
    let held = at_rest(&world.edited(|request| request.deleting = true));
    let status = held.stored.request.expect("held").status;
    assert_eq!(
        status.conditions.get("Deleting").map(|condition| condition.message.as_str()),
        Some(
            "backup deletion requires setting spec.deleteBackup or spec.forceDeleteBackup to true or finalizer removal"
        )
    );
}
