use std::time::Duration;

use croft_core::{
    backup::{
        OnDelete, Phase, Settings, Victim,
        backup::{ASK_AGAIN, Deletion, Location, LocationPhase, Observed, Status, Step, VeleroBackup, plan, report},
        names,
        ownership::Marks,
    },
    plan::{Outcome, Plan},
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{UID, assert_forward, done, explore, explore::World as _, fields, now, object, settings, stale, told};

#[expect(clippy::struct_excessive_bools, reason = "each is one thing a user can do")]
#[derive(Clone, Debug, PartialEq)]
struct Request {
    valid: bool,
    delete: bool,
    force: bool,
    deleting: bool,
    finalizer: bool,
    status: Status,
}

/// A Velero Backup under the name of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Backup {
    ours: bool,
    running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Deleting {
    Asked,
    /// Because the backup was running.
    Refused {
        rested: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct World {
    request: Option<Request>,
    on_delete: OnDelete,
    terminating: bool,
    location_is_ready: bool,
    backup: Option<Backup>,
    deletion: Option<Deleting>,
    restore: bool,
}

fn name() -> String {
    names::nacuuid("shop", "nightly", UID)
}

fn our_marks() -> Marks {
    object(true, false, false).origin(None).marks()
}

impl Backup {
    fn uid(self) -> &'static str {
        if self.ours { "ours" } else { "theirs" }
    }

    fn status(self) -> Value {
        match self {
            Backup { ours: false, .. } => json!({ "phase": "Foreign" }),
            Backup { running: true, .. } => json!({ "phase": "InProgress" }),
            Backup { running: false, .. } => {
                json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" })
            }
        }
    }

    fn seen(self) -> VeleroBackup {
        VeleroBackup {
            uid: self.uid().into(),
            marks: if self.ours { our_marks() } else { Marks::default() },
            spec: fields(json!({ "includedNamespaces": ["shop"] })),
            status: fields(self.status()),
            position: u64::from(self.running),
        }
    }
}

impl Deleting {
    fn seen(self) -> Deletion {
        let (phase, age) = match self {
            Deleting::Asked => ("New", Duration::ZERO),
            Deleting::Refused { rested: false } => ("Processed", Duration::ZERO),
            Deleting::Refused { rested: true } => ("Processed", ASK_AGAIN),
        };
        Deletion {
            name: name(),
            uid: "deletion".into(),
            marks: our_marks(),
            created: Timestamp("2026-01-01T00:00:20Z".into()),
            age,
            status: fields(json!({ "phase": phase })),
        }
    }
}

impl World {
    fn new(valid: bool, location_is_ready: bool, backup: Option<Backup>, on_delete: OnDelete) -> Self {
        let status = Status::default();
        let request = Request { valid, delete: false, force: false, deleting: false, finalizer: false, status };
        World {
            request: Some(request),
            on_delete,
            terminating: false,
            location_is_ready,
            backup,
            deletion: None,
            restore: true,
        }
    }

    fn settings(&self) -> Settings {
        Settings { on_delete: self.on_delete, ..settings() }
    }

    fn with(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    fn edited(&self, change: impl FnOnce(&mut Request)) -> World {
        self.with(|world| {
            if let Some(request) = &mut world.request {
                change(request);
            }
            world.bury();
        })
    }

    /// A request that is deleted and held by nothing is gone.
    fn bury(&mut self) {
        if self.request.as_ref().is_some_and(|request| request.deleting && !request.finalizer) {
            self.request = None;
        }
    }

    fn has_our_backup(&self) -> bool {
        self.backup.is_some_and(|backup| backup.ours)
    }

    fn delete_backup(&mut self, victim: &Victim) -> Outcome {
        match self.backup {
            Some(backup) if backup.uid() == victim.uid => {
                assert!(backup.ours, "deleted somebody else's backup");
                self.backup = None;
                done()
            }
            _ => stale(),
        }
    }

    fn release_finalizer(&mut self) -> Outcome {
        let has_our_backup = self.has_our_backup();
        let Some(request) = &mut self.request else { return stale() };
        assert!(
            !has_our_backup || request.force || self.terminating,
            "let go of a request whose backup is still there"
        );
        request.finalizer = false;
        self.bury();
        done()
    }
}

impl explore::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Option<Self::Seen> {
        let request = self.request.clone()?;
        let spec =
            if request.valid { json!({ "storageLocation": "here" }) } else { json!({ "excludedNamespaces": [] }) };
        let velero = if self.location_is_ready { LocationPhase::Available } else { LocationPhase::Other };
        Some(Observed {
            object: object(request.finalizer, request.deleting, self.terminating),
            spec: fields(spec),
            delete_backup: request.delete,
            force_delete_backup: request.force,
            status: request.status.clone(),
            location: Location::Found {
                phase: Some(Phase::Created),
                nacuuid: Some("here-1".into()),
                velero: Some(velero),
            },
            velero: self.backup.map(Backup::seen),
            deletions: self.deletion.map(Deleting::seen).into_iter().collect(),
            restores: self.restore.then(|| Victim { name: "back".into(), uid: "back".into() }).into_iter().collect(),
        })
    }

    fn plan(&self, seen: &Self::Seen) -> Plan<Step> {
        plan(seen, &self.settings())
    }

    fn execute(&mut self, step: &Step) -> Outcome {
        let Some(request) = &mut self.request else { return stale() };
        match step {
            Step::AddFinalizer { .. } if request.deleting => stale(),
            Step::AddFinalizer { .. } => {
                assert!(request.status.velero_backup.is_some(), "held before the name is on record");
                request.finalizer = true;
                done()
            }
            Step::CreateBackup { .. } if self.backup.is_some() => stale(),
            Step::CreateBackup { origin, spec } => {
                assert!(!request.status.conditions.is_true("Queued"), "ran a backup again");
                assert!(request.finalizer, "made a backup that nothing holds");
                assert_eq!(origin.nacuuid, name());
                assert_eq!(spec["includedNamespaces"], json!(["shop"]));
                self.backup = Some(Backup { ours: true, running: true });
                done()
            }
            Step::DeleteSelf { .. } => {
                assert_eq!(request.status.phase, Some(Phase::Deleting), "deleted before anybody could see why");
                request.deleting = true;
                self.bury();
                done()
            }
            Step::DeleteRestore(_) => {
                assert!(request.delete, "deleted a restore unasked");
                self.restore = false;
                done()
            }
            Step::CreateDeletion { backup, .. } => {
                assert!(request.delete && backup.uid == "ours", "asked to delete what nobody wanted deleted");
                if self.deletion.is_some() {
                    return stale();
                }
                self.deletion = Some(Deleting::Asked);
                done()
            }
            Step::DeleteDeletion(_) if self.deletion.is_none() => stale(),
            Step::DeleteDeletion(_) => {
                self.deletion = None;
                done()
            }
            Step::DeleteBackup(victim) => {
                assert!(request.force || self.on_delete == OnDelete::Release, "deleted a backup unasked");
                self.delete_backup(victim)
            }
            Step::ReleaseFinalizer { .. } => self.release_finalizer(),
        }
    }

    fn report(&mut self, seen: &Self::Seen, outcomes: &[(&Step, Outcome)]) {
        let settings = self.settings();
        if let Some(status) = report(seen, &settings, outcomes, &now())
            && let Some(request) = &mut self.request
        {
            request.status = status;
        }
    }

    fn others(&self) -> Vec<World> {
        let mut worlds: Vec<World> = self.progress().into_iter().collect();
        worlds.push(self.with(|world| world.location_is_ready = !world.location_is_ready));
        // Expired, or deleted by an administrator. Before we could note that it existed, nobody can tell it ever did.
        let noted = self.request.as_ref().is_none_or(|request| request.status.conditions.is_true("Queued"));
        if self.has_our_backup() && noted {
            worlds.push(self.with(|world| world.backup = None));
        }
        worlds.push(self.edited(|request| request.valid = !request.valid));
        worlds.push(self.edited(|request| request.delete = true));
        worlds.push(self.edited(|request| request.force = true));
        worlds.push(self.edited(|request| request.deleting = true));
        worlds.push(self.edited(|request| request.deleting = true).with(|world| {
            world.terminating = true;
            world.restore = false;
        }));
        worlds
    }

    fn progress(&self) -> Option<World> {
        if let Some(deletion) = self.deletion.filter(|deletion| *deletion != Deleting::Refused { rested: true }) {
            return Some(self.with(|world| match (deletion, self.backup) {
                (Deleting::Asked, Some(Backup { running: true, .. })) => {
                    world.deletion = Some(Deleting::Refused { rested: false });
                    world.backup = self.backup.map(|backup| Backup { running: false, ..backup });
                }
                (Deleting::Asked, _) => (world.backup, world.deletion) = (None, None),
                (Deleting::Refused { .. }, _) => world.deletion = Some(Deleting::Refused { rested: true }),
            }));
        }
        let backup = self.backup.filter(|backup| backup.ours && backup.running)?;
        Some(self.with(|world| world.backup = Some(Backup { running: false, ..backup })))
    }

    fn check(&self, before: &World) {
        if let (Some(before), Some(after)) = (&before.request, &self.request) {
            assert_forward(before.status.phase, after.status.phase);
            let was_queued = before.status.conditions.is_true("Queued");
            assert!(!was_queued || after.status.conditions.is_true("Queued"), "forgot that Velero had it");
        }
        if before.backup.is_some_and(|backup| !backup.ours) {
            assert_eq!(before.backup, self.backup, "touched somebody else's backup");
        }
        if let Some(request) = &self.request {
            let copied = request.status.velero_backup.as_ref().and_then(|reference| reference.status.as_ref());
            assert!(copied.is_none_or(|status| status["phase"] != "Foreign"), "read somebody else's backup");
            assert!(!self.has_our_backup() || request.finalizer, "a backup that nothing holds");
        }
    }

    fn check_settled(&self) {
        let Some(request) = &self.request else { return };
        assert!(!request.force && !request.delete && !self.terminating, "a request that never goes: {self:?}");
        let status = &request.status;
        let queued = status.conditions.is_true("Queued");
        if request.deleting {
            assert!(self.has_our_backup() && self.on_delete == OnDelete::Hold, "held for nothing: {self:?}");
            assert_eq!(status.phase, Some(Phase::Deleting));
        } else if self.has_our_backup() {
            assert_eq!(status.phase, Some(Phase::Created));
            assert!(queued && status.conditions.is_true("Accepted"));
            assert_eq!(status.queue_info.map(|queue| queue.estimated_queue_position), Some(0));
        } else if queued {
            assert_eq!(status.conditions.reason("Accepted"), Some("VeleroBackupNotFound"));
        } else if self.backup.is_some() {
            assert_eq!(status.conditions.reason("Accepted"), Some("VeleroBackupTaken"));
        } else {
            assert!(!request.valid || !self.location_is_ready, "a good request that nobody serves: {self:?}");
            assert_eq!(status.phase, Some(Phase::BackingOff));
        }
    }
}

#[test]
fn every_backup_keeps_its_promises_whatever_goes_wrong() {
    let theirs = Backup { ours: false, running: true };
    let mut starts = Vec::new();
    for valid in [true, false] {
        for ready in [true, false] {
            for on_delete in [OnDelete::Hold, OnDelete::Release] {
                starts.push(World::new(valid, ready, None, on_delete));
                starts.push(World::new(valid, ready, Some(theirs), on_delete));
            }
        }
    }
    let worlds = explore::explore(starts);
    assert!(worlds > 1_000, "only {worlds} worlds");
}

/// The plan and the conditions at every look, until nothing moves.
fn story(mut world: World) -> Vec<String> {
    let mut story = Vec::new();
    loop {
        let plan =
            world.observe().map(|seen| world.plan(&seen).to_string().replace(&name(), "NAME").replace(UID, "UID"));
        let next = explore::reconciled(&world);
        let told = next.request.as_ref().map(|request| (request.status.phase, told(&request.status.conditions)));
        story.push(format!("{} -> {told:?}", plan.unwrap_or_default()));
        if next == world {
            return story;
        }
        world = next;
    }
}

#[test]
fn a_backup_is_recorded_then_held_then_made() {
    assert_eq!(
        story(World::new(true, true, None, OnDelete::Hold)),
        [
            r#"nothing to do -> Some((Some(New), ["Accepted=True BackupAccepted"]))"#,
            r#"add finalizer (uid UID): a Velero Backup will need cleaning up -> Some((Some(New), ["Accepted=True BackupAccepted"]))"#,
            r#"create Velero Backup NAME (absent): accepted -> Some((Some(Created), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]))"#,
            r#"nothing to do -> Some((Some(Created), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]))"#,
            r#"nothing to do -> Some((Some(Created), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]))"#,
        ]
    );
}

#[test]
fn plain_deletion_holds_and_says_what_to_do() {
    let world = explore::come_to_rest(&World::new(true, true, None, OnDelete::Hold));
    let held = explore::come_to_rest(&world.edited(|request| request.deleting = true));
    let status = &held.request.expect("held").status;
    assert_eq!(
        status.conditions.get("Deleting").map(|condition| condition.message.as_str()),
        Some(
            "backup deletion requires setting spec.deleteBackup or spec.forceDeleteBackup to true or finalizer removal"
        )
    );
}

#[test]
fn an_unusable_location_is_named_exactly() {
    let mut seen = World::new(true, false, None, OnDelete::Hold).observe().expect("there");
    let mut message = |location: Location| {
        seen.location = location;
        let status = report(&seen, &settings(), &[], &now()).expect("a status");
        status.conditions.get("Accepted").map(|condition| condition.message.clone()).unwrap_or_default()
    };
    let found =
        |phase, nacuuid: Option<&str>, velero| Location::Found { phase, nacuuid: nacuuid.map(Into::into), velero };
    assert_eq!(
        message(Location::Missing { name: "wrong".into() }),
        r#"NonAdminBackupStorageLocation not found in the namespace: nonadminbackupstoragelocations.oadp.openshift.io "wrong" not found"#
    );
    assert_eq!(
        message(found(Some(Phase::BackingOff), Some("u"), Some(LocationPhase::Available))),
        "NonAdminBackupStorageLocation is not in created state and can not be used for the NonAdminBackup"
    );
    assert_eq!(
        message(found(Some(Phase::Created), None, None)),
        "unable to get VeleroBackupStorageLocation UUID from NonAdminBackupStorageLocation Status"
    );
    assert_eq!(
        message(found(Some(Phase::Created), Some("u"), None)),
        "VeleroBackupStorageLocation with NACUUID u not found in the OADP namespace"
    );
    assert_eq!(
        message(found(Some(Phase::Created), Some("u"), Some(LocationPhase::Other))),
        "VeleroBackupStorageLocation with NACUUID u is not in available state and can not be used for the NonAdminBackup"
    );
}

#[test]
fn a_refusal_from_before_the_end_of_the_backup_is_asked_again_at_once() {
    let world = World::new(true, true, Some(Backup { ours: true, running: false }), OnDelete::Hold).edited(|request| {
        request.finalizer = true;
        request.delete = true;
        request.deleting = true;
        request.status.phase = Some(Phase::Deleting);
    });
    let mut seen = world.observe().expect("there");
    seen.restores.clear();
    let refused = Deleting::Refused { rested: false }.seen();
    seen.deletions = vec![Deletion { created: Timestamp("2026-01-01T00:00:05Z".into()), ..refused.clone() }];
    assert_eq!(plan(&seen, &settings()).iter().count(), 2);
    seen.deletions = vec![refused];
    assert_eq!(plan(&seen, &settings()), Plan::settled().look_again(ASK_AGAIN));
}
