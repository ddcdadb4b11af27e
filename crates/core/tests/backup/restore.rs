use croft_core::{
    backup::{
        Phase,
        ownership::Marks,
        restore::{Observed, Source, Status, Step, VeleroRestore, plan, report},
    },
    plan::{Outcome, Plan},
};
use serde_json::json;

use crate::{assert_forward, done, explore, explore::World as _, fields, now, object, settings, stale};

#[derive(Clone, Debug, PartialEq)]
struct Request {
    valid: bool,
    deleting: bool,
    finalizer: bool,
    status: Status,
}

/// A Velero Restore under the name of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Restore {
    ours: bool,
    running: bool,
    /// Velero cleans up before a Restore goes.
    deleting: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct World {
    request: Option<Request>,
    terminating: bool,
    backup_is_ready: bool,
    restore: Option<Restore>,
}

impl World {
    fn new(valid: bool, backup_is_ready: bool, restore: Option<Restore>) -> Self {
        let request = Request { valid, deleting: false, finalizer: false, status: Status::default() };
        World { request: Some(request), terminating: false, backup_is_ready, restore }
    }

    fn with(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        if world.request.as_ref().is_some_and(|request| request.deleting && !request.finalizer) {
            world.request = None;
        }
        world
    }

    fn edited(&self, change: impl FnOnce(&mut Request)) -> World {
        self.with(|world| {
            if let Some(request) = &mut world.request {
                change(request);
            }
        })
    }

    fn has_our_restore(&self) -> bool {
        self.restore.is_some_and(|restore| restore.ours)
    }
}

fn seen_restore(restore: Restore) -> VeleroRestore {
    let status = match restore {
        Restore { ours: false, .. } => json!({ "phase": "Foreign" }),
        Restore { running: true, .. } => json!({ "phase": "InProgress" }),
        Restore { running: false, .. } => {
            json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" })
        }
    };
    VeleroRestore {
        uid: if restore.ours { "ours" } else { "theirs" }.into(),
        marks: if restore.ours { object(true, false, false).origin(None).marks() } else { Marks::default() },
        status: fields(status),
        position: u64::from(restore.running),
    }
}

impl explore::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Option<Self::Seen> {
        let request = self.request.clone()?;
        let ready = Source::Ready { velero_backup: "shop-nightly-1".into() };
        Some(Observed {
            object: object(request.finalizer, request.deleting, self.terminating),
            spec: fields(json!({ "backupName": if request.valid { "nightly" } else { "" } })),
            status: request.status.clone(),
            source: if self.backup_is_ready { ready } else { Source::NotReady },
            velero: self.restore.map(seen_restore),
        })
    }

    fn plan(&self, seen: &Self::Seen) -> Plan<Step> {
        plan(seen)
    }

    fn execute(&mut self, step: &Step) -> Outcome {
        let Some(request) = &mut self.request else { return stale() };
        match step {
            Step::AddFinalizer { .. } if request.deleting => return stale(),
            Step::AddFinalizer { .. } => request.finalizer = true,
            Step::CreateRestore { .. } if self.restore.is_some() => return stale(),
            Step::CreateRestore { spec, .. } => {
                assert!(!request.status.conditions.is_true("Queued"), "ran a restore again");
                assert!(request.finalizer, "made a restore that nothing holds");
                assert_eq!(spec["backupName"], "shop-nightly-1");
                self.restore = Some(Restore { ours: true, running: true, deleting: false });
            }
            Step::DeleteRestore(victim) => match &mut self.restore {
                Some(restore) if victim.uid == seen_restore(*restore).uid => {
                    assert!(restore.ours, "deleted somebody else's restore");
                    restore.deleting = true;
                }
                _ => return stale(),
            },
            Step::ReleaseFinalizer { .. } => {
                let left = self.restore.is_some_and(|restore| restore.ours);
                assert!(!left || self.terminating, "let go of a request whose restore is still there");
                request.finalizer = false;
                *self = self.with(|_| {});
            }
        }
        done()
    }

    fn report(&mut self, seen: &Self::Seen, outcomes: &[(&Step, Outcome)]) {
        if let Some(status) = report(seen, &settings(), outcomes, &now())
            && let Some(request) = &mut self.request
        {
            request.status = status;
        }
    }

    fn others(&self) -> Vec<World> {
        let mut worlds: Vec<World> = self.progress().into_iter().collect();
        worlds.push(self.with(|world| world.backup_is_ready = !world.backup_is_ready));
        let noted = self.request.as_ref().is_none_or(|request| request.status.conditions.is_true("Queued"));
        if self.has_our_restore() && noted {
            worlds.push(self.with(|world| world.restore = None));
        }
        worlds.push(self.edited(|request| request.valid = !request.valid));
        worlds.push(self.edited(|request| request.deleting = true));
        worlds.push(self.edited(|request| request.deleting = true).with(|world| world.terminating = true));
        worlds
    }

    fn progress(&self) -> Option<World> {
        let restore = self.restore.filter(|restore| restore.ours && (restore.running || restore.deleting))?;
        Some(self.with(|world| {
            world.restore = (!restore.deleting).then_some(Restore { running: false, ..restore });
        }))
    }

    fn check(&self, before: &World) {
        if let (Some(before), Some(after)) = (&before.request, &self.request) {
            assert_forward(before.status.phase, after.status.phase);
        }
        if before.restore.is_some_and(|restore| !restore.ours) {
            assert_eq!(before.restore, self.restore, "touched somebody else's restore");
        }
        if let Some(request) = &self.request {
            let copied = request.status.velero_restore.as_ref().and_then(|reference| reference.status.as_ref());
            assert!(copied.is_none_or(|status| status["phase"] != "Foreign"), "read somebody else's restore");
            assert!(!self.has_our_restore() || request.finalizer, "a restore that nothing holds");
        }
    }

    fn check_settled(&self) {
        let Some(request) = &self.request else { return };
        assert!(!request.deleting, "a request that never goes: {self:?}");
        let conditions = &request.status.conditions;
        match (self.has_our_restore(), conditions.is_true("Queued"), self.restore.is_some()) {
            (true, queued, _) => {
                assert!(queued && conditions.is_true("Accepted") && request.status.phase == Some(Phase::Created));
                assert_eq!(request.status.queue_info.map(|queue| queue.estimated_queue_position), Some(0));
            }
            (false, true, _) => assert_eq!(conditions.reason("Accepted"), Some("VeleroRestoreNotFound")),
            (false, false, true) => assert_eq!(conditions.reason("Accepted"), Some("VeleroRestoreTaken")),
            (false, false, false) => {
                assert!(!request.valid || !self.backup_is_ready, "a good request that nobody serves: {self:?}");
                assert_eq!(request.status.phase, Some(Phase::BackingOff));
            }
        }
    }
}

#[test]
fn every_restore_keeps_its_promises_whatever_goes_wrong() {
    let theirs = Restore { ours: false, running: true, deleting: false };
    let mut starts = Vec::new();
    for valid in [true, false] {
        for ready in [true, false] {
            starts.push(World::new(valid, ready, None));
            starts.push(World::new(valid, ready, Some(theirs)));
        }
    }
    let worlds = explore::explore(starts);
    assert!(worlds > 300, "only {worlds} worlds");
}

#[test]
fn a_missing_backup_is_named_exactly() {
    let mut seen = World::new(true, false, None).observe().expect("there");
    let mut message = |source: Source| {
        seen.source = source;
        let status = report(&seen, &settings(), &[], &now()).expect("a status");
        status.conditions.get("Accepted").map(|condition| condition.message.clone()).unwrap_or_default()
    };
    assert_eq!(
        message(Source::Missing),
        r#"NonAdminRestore spec.restoreSpec.backupName is invalid: nonadminbackups.oadp.openshift.io "nightly" not found"#
    );
    assert_eq!(
        message(Source::NotReady),
        "NonAdminRestore spec.restoreSpec.backupName is invalid: NonAdminBackup is not ready to be restored"
    );
}
