use std::time::Duration;

use croft_core::{
    backup::{
        Handed, Object, Phase,
        left_out::{Asked, List, Listing, Tally},
        restore::{FINISHING, Observed, Source, Status, Step, plan, report},
    },
    plan::{Outcome, Plan},
};
use serde_json::json;

use crate::{
    EVERYTHING, UID, assert_forward_unless_edited, done,
    explorer::{self, Act, explore, stale},
    fields, handed, judged_at, now, object, policy,
    request::{self, Stored, Told, Tried},
};

/// A Velero Restore under the name of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Restore {
    ours: bool,
    running: bool,
    /// The API server judges by it.
    counts: bool,
    /// Velero cleans up before a Restore goes.
    deleting: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether it is allowed.
    stored: Stored<bool, Told<Status>>,
    terminating: bool,
    backup_is_ready: bool,
    has_modifiers: bool,
    restore: Option<Restore>,
    /// Our requests for Velero's lists.
    lists: [Asking; 2],
    /// Velero has had it.
    was_made: bool,
}

/// How far a request for a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asking {
    Not,
    Waits,
    Signed,
}

impl Asking {
    fn seen(self, list: List) -> Listing {
        let asked = (self != Asking::Not).then(|| Asked { uid: "asked".into(), age: Duration::from_secs(1) });
        let read = (self == Asking::Signed).then(|| Ok(Tally::default()));
        Listing { list, asked, read }
    }
}

type Look = request::Look<bool, Told<Status>, Observed>;

impl World {
    fn new(valid: bool, backup_is_ready: bool, restore: Option<Restore>) -> Self {
        World {
            stored: Stored::new(valid),
            terminating: false,
            backup_is_ready,
            has_modifiers: false,
            restore,
            lists: [Asking::Not; 2],
            was_made: false,
        }
    }

    fn has_our_restore(&self) -> bool {
        self.restore.is_some_and(|restore| restore.ours)
    }

    fn list(&self, list: List) -> Asking {
        let [contents, restored] = self.lists;
        if list == List::Contents { contents } else { restored }
    }

    fn list_mut(&mut self, list: List) -> &mut Asking {
        let [contents, restored] = &mut self.lists;
        if list == List::Contents { contents } else { restored }
    }

    fn seen(&self) -> Option<Observed> {
        let request = self.stored.request.as_ref()?;
        let ready = Source::Ready { velero_backup: "shop-nightly-1".into() };
        Some(Observed {
            object: Object {
                generation: request.generation,
                tried: request.tried.map(Tried::seen),
                ..object(request.finalizer, request.deleting, self.terminating)
            },
            spec: fields(json!({ "backupName": if request.asked { "nightly" } else { "" } })),
            status: Status::clone(&request.status),
            source: if self.backup_is_ready { ready } else { Source::NotReady },
            velero: self.restore.map(seen_restore),
            counts_as_unfinished: self.restore.is_some_and(|restore| restore.counts),
            missing_fences: Vec::new(),
            ahead: None,
            has_modifiers: self.has_modifiers,
            lists: List::ALL.map(|list| self.list(list).seen(list)),
            finishing: None,
            ended: self.restore.filter(|restore| !restore.running).map(|_| Duration::from_secs(1)),
        })
    }
}

fn seen_restore(restore: Restore) -> Handed {
    let status = match restore {
        Restore { ours: false, .. } => json!({ "phase": "Foreign" }),
        Restore { running: true, .. } => json!({ "phase": "InProgress" }),
        Restore { running: false, .. } => {
            json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" })
        }
    };
    handed(restore.ours, status, restore.deleting, u64::from(restore.running))
}

impl explorer::World for World {
    type Seen = Look;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Look)> {
        self.stored.look("restore", self.seen())
    }

    fn plan(&self, look: &Look) -> Plan<Step> {
        plan(&look.observed, &policy())
    }

    fn execute(&mut self, look: &Look, step: &Step) -> Outcome {
        match step {
            Step::AddFinalizer { .. } => return self.stored.add_finalizer(&look.request),
            Step::Hold { .. } => return self.stored.hold(&look.request, |status| &mut status.conditions),
            Step::CreateRestore { .. } if self.restore.is_some() => return stale(),
            Step::WriteModifiers => self.has_modifiers = true,
            Step::End { .. } => panic!("ended what is not overdue"),
            Step::CountAsFinished(victim) => match &mut self.restore {
                Some(restore) if victim.uid == seen_restore(*restore).uid => {
                    assert!(restore.ours && !restore.running, "one that is not done judges nothing any more");
                    restore.counts = false;
                }
                _ => return stale(),
            },
            Step::CreateRestore { spec, .. } => {
                assert!(self.has_modifiers, "restored without rules");
                let was_told = look.observed.status.conditions.is_true("Queued");
                assert!(!was_told && !self.was_made, "ran a restore again");
                let is_held = self.stored.request.as_ref().is_some_and(|request| request.finalizer);
                assert!(is_held || self.stored.let_go_by_hand, "made a restore that nothing holds");
                assert_eq!(spec["backupName"], "shop-nightly-1");
                self.restore = Some(Restore { ours: true, running: true, counts: true, deleting: false });
                self.was_made = true;
            }
            Step::AskForList { list, .. } if self.list(*list) != Asking::Not => return stale(),
            Step::AskForList { list, .. } => {
                assert!(look.observed.status.left_out.is_none(), "asked for what is known");
                *self.list_mut(*list) = Asking::Waits;
            }
            Step::ForgetList(victim) => {
                for list in List::ALL.into_iter().filter(|list| list.request(UID) == victim.name) {
                    *self.list_mut(list) = Asking::Not;
                }
            }
            Step::DeleteRestore { restore: victim, .. } => match &mut self.restore {
                None => {}
                Some(restore) if victim.uid == seen_restore(*restore).uid => {
                    assert!(restore.ours, "deleted somebody else's restore");
                    assert!(!restore.running, "deleted a restore under Velero's hands");
                    restore.deleting = true;
                }
                Some(_) => return stale(),
            },
            Step::ReleaseFinalizer { .. } => {
                let left = self.has_our_restore() && !self.terminating;
                return self.stored.release_finalizer(&look.request, left);
            }
        }
        done()
    }

    fn report(&mut self, look: &Look, outcomes: &[(&Step, Outcome)]) {
        self.stored.write_status(report(&look.observed, &policy(), outcomes, &now()));
    }

    fn others(&self) -> Vec<Act<World>> {
        let mut acts = vec![Act::new("the backup becomes ready, or is ready no more", self, |world| {
            world.backup_is_ready = !world.backup_is_ready;
        })];
        let noted = self.stored.request.as_ref().is_none_or(|request| request.status.conditions.is_true("Queued"));
        if self.stored.is_beyond_doubt() && !noted {
            let later = Act::new("a long time passes", self, |world| world.stored.is_left_alone_for_long());
            acts.push(later.between_reconciles());
        }
        if self.has_our_restore() && (noted || !self.stored.is_beyond_doubt()) {
            acts.push(Act::new("an administrator deletes the Velero Restore", self, |world| world.restore = None));
        }
        if self.restore.is_none() && noted {
            let theirs = Restore { ours: false, running: true, counts: false, deleting: false };
            acts.push(Act::new("somebody takes the name in Velero", self, |world| world.restore = Some(theirs)));
        }
        acts.push(Act::new("the user edits the spec", self, |world| {
            world.stored.edit(|request| request.asked = !request.asked);
        }));
        acts.extend(self.stored.acts(self, |world| &mut world.stored));
        acts.push(Act::new("the namespace is deleted", self, |world| {
            world.terminating = true;
            world.stored.edit(|request| request.deleting = true);
        }));
        acts
    }

    fn passes(&self) -> Option<World> {
        if self.lists.contains(&Asking::Waits) {
            let lists = self.lists.map(|asking| if asking == Asking::Waits { Asking::Signed } else { asking });
            return Some(World { lists, ..self.clone() });
        }
        let restore = self.restore.filter(|restore| restore.ours && (restore.running || restore.deleting))?;
        let restore = (!restore.deleting).then_some(Restore { running: false, ..restore });
        Some(World { restore, ..self.clone() })
    }

    fn check(&self) {
        let Some(request) = &self.stored.request else { return };
        let copied = request.status.velero_restore.as_ref().and_then(|reference| reference.status.as_ref());
        assert!(copied.is_none_or(|status| status["phase"] != "Foreign"), "read somebody else's restore");
        assert!(
            !self.has_our_restore() || request.finalizer || self.stored.let_go_by_hand,
            "a restore that nothing holds"
        );
    }

    fn check_ours(&self, before: &World) {
        if let (Some(before), Some(after)) = (&before.stored.request, &self.stored.request) {
            assert_forward_unless_edited(before, after, |s| s.phase, |s| judged_at(&s.conditions));
        }
        if before.restore.is_some_and(|restore| !restore.ours) {
            assert_eq!(before.restore, self.restore, "touched somebody else's restore");
        }
    }

    fn check_rest(&self) {
        let Some(request) = &self.stored.request else {
            // What Velero is working on while a namespace goes is a leftover, and goes as those do.
            let is_left_over = self.terminating || self.stored.let_go_by_hand;
            assert!(!self.has_our_restore() || is_left_over, "left a restore behind");
            assert!(self.lists == [Asking::Not; 2] || self.stored.let_go_by_hand, "left a request for a list behind");
            return;
        };
        assert!(!request.deleting, "a request that never goes");
        assert!(!self.has_our_restore() || request.finalizer, "a restore that nothing holds");
        let (status, conditions) = (&request.status, &request.status.conditions);
        match (self.has_our_restore(), conditions.is_true("Queued"), self.restore.is_some()) {
            (true, queued, _) => {
                assert!(self.restore.is_some_and(|restore| !restore.counts), "one that is done judges for ever");
                assert!(queued && conditions.is_true("Accepted") && status.phase == Some(Phase::Created));
                assert!(status.left_out.is_some(), "nobody says what was left out");
                assert_eq!(self.lists, [Asking::Not; 2], "a list nobody reads any more");
                assert_eq!(status.queue_info.map(|queue| queue.estimated_queue_position), Some(0));
            }
            (false, true, _) => assert_eq!(conditions.reason("Accepted"), Some("VeleroRestoreNotFound")),
            _ if conditions.reason("Accepted") == Some("VeleroRestoreNotFound") => {
                assert!(self.was_made || request.tried == Some(Tried::LongAgo), "lost what nobody has tried");
                assert_eq!(status.phase, Some(Phase::Created));
            }
            (false, false, true) => assert_eq!(conditions.reason("Accepted"), Some("VeleroRestoreTaken")),
            (false, false, false) => {
                assert!(!request.asked || !self.backup_is_ready, "a good request that nobody serves");
                assert_eq!(status.phase, Some(if request.asked { Phase::New } else { Phase::BackingOff }));
            }
        }
    }
}

#[test]
fn every_restore_keeps_its_promises_whatever_goes_wrong() {
    let theirs = Restore { ours: false, running: true, counts: false, deleting: false };
    let mut starts = Vec::new();
    for valid in [true, false] {
        for ready in [true, false] {
            starts.push(World::new(valid, ready, None));
            starts.push(World::new(valid, ready, Some(theirs)));
        }
    }
    let worlds = explore("restore", starts, EVERYTHING).worlds.len();
    assert!(worlds > 300, "only {worlds} worlds");
}

#[test]
fn nothing_is_restored_until_the_api_server_judges_it() {
    let mut seen = World::new(true, true, None).seen().expect("there");
    seen.object.has_finalizer = true;
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert!(!plan(&seen, &policy()).is_settled());
    seen.missing_fences = vec!["a-fence".into()];
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!((status.phase, status.conditions.reason("Accepted")), (Some(Phase::New), Some("PoliciesMissing")));
    seen.missing_fences.clear();
    seen.ahead = Some("of-the-administrator".into());
    assert!(plan(&seen, &policy()).is_settled());
}

#[test]
fn a_missing_backup_is_named_exactly() {
    let mut seen = World::new(true, false, None).seen().expect("there");
    let mut message = |source: Source| {
        seen.source = source;
        let status = report(&seen, &policy(), &[], &now()).expect("a status");
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

/// Velero has had it, and is where `status` says.
fn with_velero(status: serde_json::Value) -> Observed {
    let mut seen = World::new(true, true, None).seen().expect("there");
    seen.object.has_finalizer = true;
    seen.velero = Some(handed(true, status, false, 1));
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    seen
}

#[test]
fn what_velero_does_not_get_done_with_is_ended_and_not_before_its_time() {
    for phase in ["Finalizing", "FinalizingPartiallyFailed"] {
        let mut seen = with_velero(json!({ "phase": phase }));
        assert!(seen.status.conditions.is_true(FINISHING), "since when is on record");
        seen.finishing = Some(Duration::from_secs(3600));
        assert_eq!(plan(&seen, &policy()), Plan::settled().look_again(Duration::from_secs(23 * 3600)));
        seen.finishing = Some(Duration::from_secs(24 * 3600));
        let ends = |seen: &Observed| plan(seen, &policy()).iter().any(|step| matches!(step, Step::End { .. }));
        assert!(ends(&seen));
        (seen.object.is_deleting, seen.status.phase) = (true, Some(Phase::Deleting));
        assert!(ends(&seen), "nor is it waited for where it is deleted");
        seen.finishing = Some(Duration::from_secs(60));
        assert!(plan(&seen, &policy()).is_settled(), "deleted under Velero's hands");
        seen.object.namespace_is_terminating = true;
        let steps = plan(&seen, &policy());
        assert!(steps.iter().all(|step| matches!(step, Step::ReleaseFinalizer { .. })), "{steps}");
    }
    let running = with_velero(json!({ "phase": "InProgress" }));
    assert!(plan(&Observed { finishing: Some(Duration::MAX), ..running.clone() }, &policy()).is_settled());
    assert!(!running.status.conditions.is_true(FINISHING));
}

#[test]
fn a_restore_that_goes_says_what_it_waits_for() {
    let said = |status: serde_json::Value, is_deleting: bool| {
        let mut seen = with_velero(status);
        seen.object.is_deleting = true;
        seen.velero = seen.velero.map(|velero| Handed { is_deleting, ..velero });
        let told = report(&seen, &policy(), &[], &now()).expect("a status");
        told.conditions.get("Deleting").map(|said| said.message.clone()).unwrap_or_default()
    };
    let done = json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" });
    assert_eq!(said(done.clone(), false), "restore accepted for deletion");
    assert!(said(done, true).contains("reach the storage location"));
    assert!(said(json!({ "phase": "Finalizing" }), false).starts_with("Velero is finishing"));
}

#[test]
fn of_a_restore_that_ended_long_ago_nobody_asks_what_was_left_out() {
    let done = json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" });
    let asks = |ended: u64| {
        let seen = Observed { ended: Some(Duration::from_secs(ended)), ..with_velero(done.clone()) };
        plan(&seen, &policy()).iter().any(|step| matches!(step, Step::AskForList { .. }))
    };
    assert!(asks(60) && !asks(3600));
}

#[test]
fn a_restore_from_what_is_gone_is_refused_and_says_so() {
    let done = fields(json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" }));
    let of = |accepted: &str, status| Source::of(Some(Phase::Created), Some(accepted), Some("b".into()), status, true);
    assert_eq!(of("VeleroBackupNotFound", None), Source::Gone);
    assert_eq!(of("BackupAccepted", None), Source::NotReady);
    assert_eq!(of("BackupAccepted", Some(&done)), Source::Ready { velero_backup: "b".into() });
    for phase in [None, Some(Phase::New)] {
        let early = Source::of(phase, None, Some("b".into()), Some(&done), true);
        assert_eq!(early, Source::NotReady, "it is on record soon, and a refusal would stay");
    }
    let seen = Observed { source: Source::Gone, ..World::new(true, true, None).seen().expect("there") };
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    let said = status.conditions.get("Accepted").map(|condition| condition.message.clone()).unwrap_or_default();
    assert!(said.ends_with("what NonAdminBackup \"nightly\" stored is gone"), "{said}");
    assert_eq!(status.phase, Some(Phase::BackingOff));
}

#[test]
fn what_failed_or_goes_is_not_restored_from_and_what_failed_in_part_is() {
    let done = |phase: &str| fields(json!({ "phase": phase, "completionTimestamp": "2026-01-01T00:00:10Z" }));
    let of = |phase, velero: &str| Source::of(Some(phase), None, Some("b".into()), Some(&done(velero)), true);
    for good in ["Completed", "PartiallyFailed"] {
        assert_eq!(of(Phase::Created, good), Source::Ready { velero_backup: "b".into() }, "{good}");
    }
    for bad in ["Failed", "FailedValidation"] {
        assert_eq!(of(Phase::Created, bad), Source::Unusable, "{bad}");
    }
    for phase in [Phase::BackingOff, Phase::Deleting] {
        assert_eq!(of(phase, "Completed"), Source::Unusable, "{phase:?}");
    }
    let mut seen = Observed { source: Source::Unusable, ..World::new(true, true, None).seen().expect("there") };
    assert!(plan(&seen, &policy()).is_settled());
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    let said = seen.status.conditions.get("Accepted").map(|said| (said.reason.clone(), said.message.clone()));
    let (reason, message) = said.unwrap_or_default();
    assert_eq!((seen.status.phase, reason.as_str()), (Some(Phase::BackingOff), "InvalidRestoreSpec"));
    assert!(message.ends_with("NonAdminBackup is not ready to be restored"), "{message}");
    seen.source = Source::Ready { velero_backup: "b".into() };
    assert!(plan(&seen, &policy()).is_settled(), "a refused restore ran later by itself");
}

#[test]
fn a_restore_waits_for_the_location_of_its_backup_and_then_goes_on_by_itself() {
    let done = fields(json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" }));
    let source = |is_reachable| {
        Source::of(Some(Phase::Created), Some("BackupAccepted"), Some("b".into()), Some(&done), is_reachable)
    };
    let mut seen = Observed { source: source(false), ..World::new(true, true, None).seen().expect("there") };
    assert!(plan(&seen, &policy()).is_settled(), "Velero would refuse it for good");
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(
        (seen.status.phase, seen.status.conditions.reason("Accepted")),
        (Some(Phase::New), Some("LocationNotReady"))
    );
    seen.source = source(true);
    assert!(!plan(&seen, &policy()).is_settled());
}
