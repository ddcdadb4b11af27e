//! What waits for Velero in a location that goes.

use croft_core::{
    backup::{
        Phase, Victim,
        approval::Standing,
        location::{InQueue, Observed, plan, report},
        ownership::{Marks, Origin},
    },
    plan::{Next, Outcome, Step},
};

use super::{Slot, Spec, World};
use crate::{
    EVERYTHING, done,
    explorer::{Act, explore, stale},
    now, policy,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Queued {
    Waiting,
    /// Velero looks at its location next: a moment later it has begun.
    Next,
}

impl Queued {
    pub(super) fn seen(self) -> InQueue {
        let origin = Origin { namespace: "shop".into(), name: "nightly".into(), nacuuid: "shop-nightly-1".into() };
        InQueue {
            backup: Victim { name: origin.nacuuid.clone(), uid: "queued".into() },
            version: format!("{self:?}"),
            marks: origin.marks(),
            is_next: self == Queued::Next,
        }
    }
}

impl World {
    pub(super) fn take_from_queue(&mut self, backup: &Victim, version: &str) -> Outcome {
        match self.queued {
            Some(queued) if queued.seen().backup == *backup && queued.seen().version == version => {
                assert_eq!(queued, Queued::Waiting, "deleted under Velero's hands");
                self.queued = None;
                done()
            }
            _ => stale(),
        }
    }

    /// Velero goes on with its queue.
    pub(super) fn queue_moves(&self) -> Option<Act<World>> {
        self.queued.map(|queued| match queued {
            Queued::Waiting => Act::new("its turn comes", self, |world| world.queued = Some(Queued::Next)),
            Queued::Next => Act::new("Velero begins with it", self, |world| world.queued = None),
        })
    }
}

#[test]
fn a_location_never_goes_while_a_backup_waits_for_its_turn_in_it() {
    let mut start = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1));
    start.queued = Some(Queued::Waiting);
    start.stored.edit(|request| request.finalizer = true);
    let worlds = explore("a location with a queue", vec![start], EVERYTHING).worlds.len();
    assert!(worlds > 100, "only {worlds} worlds");
}

/// A location in force with these in Velero's queue.
fn with(in_queue: Vec<InQueue>) -> Observed {
    let mut seen = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
    seen.object.has_finalizer = true;
    Observed { in_queue, ..seen }
}

fn kinds(seen: &Observed) -> (Vec<&'static str>, bool) {
    let plan = plan(seen, &policy());
    (plan.iter().map(Step::kind).collect(), plan.next != Next::Settled)
}

const AWAY: [&str; 2] = ["DeleteSecretCopy", "DeleteVeleroLocation"];

#[test]
fn what_is_taken_back_is_out_of_veleros_queue_before_its_location_is_gone() {
    for standing in [Standing::Rejected, Standing::Pending, Standing::Denied] {
        let taken_back = |in_queue| Observed { standing: standing.clone(), ..with(in_queue) };
        assert_eq!(kinds(&taken_back(vec![])), (AWAY.to_vec(), false));
        let both = vec![Queued::Waiting.seen(), Queued::Waiting.seen()];
        assert_eq!(kinds(&taken_back(both)).0, [["DeleteVeleroBackup"; 2], AWAY].concat());
        let next = vec![Queued::Waiting.seen(), Queued::Next.seen()];
        assert_eq!(kinds(&taken_back(next)), (vec!["DeleteVeleroBackup"], true), "the location is needed yet");
    }
}

#[test]
fn a_namespace_that_goes_does_not_wait_for_veleros_queue() {
    let mut seen = with(vec![Queued::Next.seen()]);
    seen.object.is_deleting = true;
    seen.status.phase = Some(Phase::Deleting);
    assert_eq!(kinds(&seen), (vec![], true));
    let told = |seen: &Observed| {
        let status = report(seen, &policy(), &[], &now()).expect("a status");
        status.conditions.get("Deleting").map(|said| said.message.clone())
    };
    assert!(told(&seen).is_some_and(|said| said.contains("Velero is about to begin")), "it is said what it waits for");
    assert_eq!(told(&Observed { in_queue: Vec::new(), ..seen.clone() }), None);
    seen.object.namespace_is_terminating = true;
    assert_eq!(kinds(&seen).0.last(), Some(&"ReleaseFinalizer"));
}

#[test]
fn a_namespace_that_goes_leaves_a_location_that_is_looked_at_next() {
    let mut seen = with(vec![Queued::Next.seen(), Queued::Waiting.seen()]);
    seen.object.is_deleting = true;
    seen.object.namespace_is_terminating = true;
    seen.status.phase = Some(Phase::Deleting);
    seen.backups.clear();
    assert_eq!(kinds(&seen).0, ["DeleteVeleroBackup", "ReleaseFinalizer"]);
    seen.in_queue.clear();
    assert_eq!(kinds(&seen).0, ["DeleteSecretCopy", "DeleteVeleroLocation", "ReleaseFinalizer"]);
}

#[test]
fn what_others_store_in_a_location_stays_in_veleros_queue() {
    let ours = Queued::Waiting.seen();
    let other = || Some("other".to_owned());
    for marks in [
        Marks { managed: false, ..ours.marks.clone() },
        Marks { namespace: other(), ..ours.marks.clone() },
        Marks { nacuuid: other(), ..ours.marks.clone() },
        Marks { name: None, ..ours.marks.clone() },
        Marks::default(),
    ] {
        for is_next in [false, true] {
            let theirs = InQueue { marks: marks.clone(), is_next, ..ours.clone() };
            let seen = Observed { standing: Standing::Rejected, ..with(vec![theirs]) };
            assert_eq!(kinds(&seen), (AWAY.to_vec(), false));
        }
    }
}
