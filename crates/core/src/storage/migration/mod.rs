//! A migration: buckets go from the user of one claim to that of another, once.
//!
//! - It begins only when it can end: both users are there on one gateway, every bucket is the first one's, no name is taken, and
//!   the second one has room. Otherwise it fails with nothing moved.
//! - While it runs both S3Users are held: nobody else of us makes, changes or removes a bucket of theirs.
//! - A bucket is known by its id, which is recorded before it moves, and its policy is recorded before it goes: so wherever the
//!   operator dies, the next look knows what is done.
//! - It always ends: a bucket that cannot be moved after all stays with its first owner, or goes back to it unless that has made
//!   another one of its name, and the others go on. A migration that is deleted stops before the next bucket.
//! - Nothing is ever purged: the first claim goes only if its user has no bucket left, and what somebody makes until it is gone is
//!   kept. So is what has come to a second claim that goes meanwhile; nothing more comes to that one.

mod bucket;
mod observed;
mod permits;
pub mod policy;
mod room;
mod step;

use std::{collections::BTreeSet, time::Duration};

pub use observed::{
    BucketSeen, Gateway, InCeph, Migration, Move, MoveState, MovedIn, Object, Observed, Phase, PolicySeen, Reached,
    Side, Spec, Status,
};
use room::Room;
pub use step::Step;

use super::{
    KeyPair, RECHECK, Reason,
    claim::{Claim, Record, User},
    reason::readiness_of,
};
use crate::{
    conditions::Readiness,
    plan::{FailureClass, Outcome, Outcomes, Plan, first_failure},
    time::Timestamp,
};

/// What to do, what to say if it works, and what the status says then.
struct Decision {
    steps: Vec<Step>,
    verdict: Readiness,
    becomes: Becomes,
    again: Option<Duration>,
}

/// How the status goes on once the steps are done.
enum Becomes {
    Unchanged,
    Running(Vec<Move>),
    Moved { name: String, message: Option<String> },
    GivenUp { name: String, message: String, policy_is_lost: bool },
    Succeeded,
    Failed(Vec<Move>),
}

impl Becomes {
    /// The same, with more to say of a bucket that is moved.
    fn with(self, more: Option<String>) -> Self {
        match (self, more) {
            (Becomes::Moved { name, message }, Some(more)) => {
                let told = message.into_iter().chain([more]).collect::<Vec<_>>().join("; ");
                Becomes::Moved { name, message: Some(told) }
            }
            (same, _) => same,
        }
    }
}

impl Decision {
    fn wait(verdict: Readiness) -> Self {
        Self { steps: Vec::new(), verdict, becomes: Becomes::Unchanged, again: None }
    }

    /// A person puts that right in Ceph, which tells nobody.
    fn wait_for_ceph(verdict: Readiness) -> Self {
        Self { again: Some(RECHECK), ..Self::wait(verdict) }
    }

    /// There is more to do, which no watch may tell.
    fn goes_on(steps: Vec<Step>, becomes: Becomes, told: impl Into<String>) -> Self {
        Self { steps, verdict: Reason::Migrating.progressing(told), becomes, again: Some(Duration::ZERO) }
    }
}

/// What the gateway is to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look<'a> {
    /// The buckets to ask about, by name.
    pub buckets: Vec<&'a str>,
    /// Whether to ask what all buckets of the two users are, and what is in those of the second one, which takes long where there are
    /// many.
    pub all_of_current: bool,
    pub all_of_target: bool,
}

/// No more than the next decision needs.
pub fn look<'a>(migration: &'a Migration, current: &Side, target: &Side) -> Look<'a> {
    let holds = |side: &Side| side.record.as_ref().is_some_and(|record| migration.holds(record));
    match (migration.phase(), migration.next()) {
        (Phase::Pending, _) if holds(current) && holds(target) => {
            let buckets = migration.spec.buckets.iter().map(String::as_str).collect();
            Look { buckets, all_of_target: true, ..Look::default() }
        }
        // Both may have stored more since the beginning.
        (Phase::Running, Some(next)) => {
            let all_of_target = next.state != MoveState::Returning && !migration.deleting;
            Look { buckets: vec![next.name.as_str()], all_of_target, ..Look::default() }
        }
        (Phase::Running, None) => {
            Look { all_of_current: migration.may_delete_current() && !migration.deleting, ..Look::default() }
        }
        _ => Look::default(),
    }
}

impl Migration {
    pub fn phase(&self) -> Phase {
        self.status.phase.unwrap_or_default()
    }

    /// Whether it has ended: nothing moves any more.
    pub fn is_over(&self) -> bool {
        matches!(self.phase(), Phase::Succeeded | Phase::Failed)
    }

    fn next(&self) -> Option<&Move> {
        self.status.buckets.iter().find(|bucket| !bucket.state.is_over())
    }

    /// Only what was moved as asked for leaves nothing behind.
    fn may_delete_current(&self) -> bool {
        self.spec.delete_current && self.status.buckets.iter().all(|bucket| bucket.state == MoveState::Moved)
    }

    fn holds(&self, record: &Record) -> bool {
        record.body.held_by.as_ref().is_some_and(|holder| holder.uid == self.target.uid)
    }
}

pub fn plan(seen: &Observed) -> Plan<Step> {
    let decision = decide(seen);
    let plan = Plan::steps(decision.steps);
    match decision.again {
        Some(after) => plan.look_again(after),
        None => plan,
    }
}

fn decide(seen: &Observed) -> Decision {
    let migration = &seen.migration;
    match migration.phase() {
        Phase::Succeeded | Phase::Failed => {
            let step = migration.finalizer.then(|| Step::RemoveFinalizer { migration: migration.target.clone() });
            let verdict = Reason::Migrated.ready("the migration is over");
            Decision { steps: step.into_iter().collect(), ..Decision::wait(verdict) }
        }
        Phase::Pending if migration.deleting => Decision {
            steps: let_go(seen)
                .into_iter()
                .chain([Step::RemoveFinalizer { migration: migration.target.clone() }])
                .collect(),
            ..Decision::wait(Reason::Deleting.progressing("nothing was moved"))
        },
        Phase::Pending => prepare(seen),
        Phase::Running => match (bucket::keep_arrived(seen), migration.next()) {
            (Some(kept), _) => {
                let told = format!("S3UserClaim {} is gone, or going: what it got is kept", migration.spec.target);
                Decision::goes_on(vec![kept], Becomes::Unchanged, told)
            }
            (None, Some(next)) => bucket::decide(seen, next),
            (None, None) => finish(seen),
        },
    }
}

/// Makes sure that all can be moved before anything is.
fn prepare(seen: &Observed) -> Decision {
    let Spec { current, target, .. } = &seen.migration.spec;
    if current.namespace == target.namespace {
        return fail(seen, "both claims are in one namespace, where they share all names: use another namespace");
    }
    // Who waits holds nobody: a claim may be on its way out.
    let waits = |message: String| Decision {
        steps: let_go(seen),
        ..Decision::wait(Reason::WaitingForClaim.progressing(message))
    };
    let Some((_, current_record)) = ready(&seen.current) else {
        return waits(format!("S3UserClaim {current} must be there and ready"));
    };
    let target_record = match (ready(&seen.target), &seen.target.claim) {
        (Some((_, record)), _) => record,
        (None, Some(_)) => return waits(format!("S3UserClaim {target} is not ready yet")),
        (None, None) if !seen.target.namespace => {
            return waits(format!("namespace {} does not exist", target.namespace));
        }
        (None, None) => {
            let mut decision = waits(format!("S3UserClaim {target} is being made"));
            decision.steps.push(Step::CreateClaim { like: current.clone(), claim: target.clone() });
            return decision;
        }
    };
    let reached = match &seen.gateway {
        Gateway::Apart => {
            return fail(seen, "the two claims are served by two gateways, between which no bucket can be moved");
        }
        Gateway::Reached(reached) => reached,
        other => return unavailable(other),
    };
    if let Some(steps) = holds(seen, [current_record, target_record]) {
        return match steps {
            Ok(steps) => Decision::goes_on(steps, Becomes::Unchanged, "the users are being held"),
            Err(holder) => Decision::wait(Reason::Migrating.progressing(format!("UserMigration {holder} is at work"))),
        };
    }
    for (side, user) in [(&seen.current, &reached.current), (&seen.target, &reached.target)] {
        match usable(side, user.as_ref(), &reached.lost) {
            Ok(_) => {}
            Err(Readiness::Stalled { message, .. }) => return fail(seen, &message),
            Err(why) => return Decision::wait_for_ceph(why),
        }
    }
    let moves: Vec<_> = reached.buckets.iter().map(|found| bucket::judge(seen, found)).collect();
    if moves.iter().any(|found| found.state == MoveState::Failed) {
        return Decision { becomes: Becomes::Failed(moves.clone()), ..fail(seen, &told_of_failed(&moves)) };
    }
    match room::room(seen, reached) {
        Room::Enough => {}
        Room::Lacking(why) => return fail(seen, &why),
        Room::Unknown => return room::is_asked_again(seen),
    }
    let remember = bucket::remember(seen, reached, &moves).into_iter().collect();
    Decision::goes_on(remember, Becomes::Running(moves), "all buckets can be moved")
}

fn told_of_failed(moves: &[Move]) -> String {
    let failed = moves.iter().filter(|it| it.state == MoveState::Failed);
    let told = failed.map(|it| format!("{}: {}", it.name, it.message.as_deref().unwrap_or_default()));
    told.collect::<Vec<_>>().join("; ")
}

fn ready(side: &Side) -> Option<(&Claim, &Record)> {
    side.bound().filter(|(claim, record)| claim.is_settled() && record.body.user.is_some())
}

/// What is left to do before both are held: nothing, or the steps, or who else holds one. Always in the same order, so that no
/// two migrations wait for each other.
fn holds(seen: &Observed, records: [&Record; 2]) -> Option<Result<Vec<Step>, String>> {
    let mut named = Vec::new();
    for record in records {
        if seen.migration.holds(record) {
            continue;
        }
        if let Some(holder) = &record.body.held_by {
            return Some(Err(holder.name.clone()));
        }
        if let Some(claim) = &record.body.claim {
            named.push((super::record_name(&claim.namespace, &claim.name), record.version()));
        }
    }
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    let migration = &seen.migration;
    let finalizer = (!migration.finalizer).then(|| Step::AddFinalizer { migration: migration.target.clone() });
    // One at a time: whoever has the first waits for the second.
    let next = named.into_iter().next().map(|(record, seen)| Step::Hold { record, seen });
    (finalizer.is_some() || next.is_some()).then(|| Ok(finalizer.into_iter().chain(next).collect()))
}

fn fail(seen: &Observed, why: &str) -> Decision {
    let again = Some(Duration::ZERO);
    let verdict = Reason::Refused.stalled(format!("nothing was moved: {why}"));
    Decision { steps: let_go(seen), verdict, becomes: Becomes::Failed(seen.migration.status.buckets.clone()), again }
}

/// Lifts what holds we have.
fn let_go(seen: &Observed) -> Vec<Step> {
    let spec = &seen.migration.spec;
    let sides = [(&spec.current, &seen.current), (&spec.target, &seen.target)];
    let held = sides.into_iter().filter_map(|(place, side)| {
        let record = side.record.as_ref().filter(|record| seen.migration.holds(record))?;
        Some(Step::LetGo { record: super::record_name(&place.namespace, &place.name), seen: record.version() })
    });
    held.collect()
}

fn finish(seen: &Observed) -> Decision {
    let migration = &seen.migration;
    if migration.status.buckets.iter().any(|bucket| bucket.state == MoveState::Failed) {
        return end(seen, migration.status.buckets.clone(), Vec::new());
    }
    let mut told = "all buckets are moved".to_owned();
    let mut steps = Vec::new();
    match seen.current.bound() {
        Some((claim, record)) if migration.may_delete_current() && !claim.deleting && !migration.deleting => {
            let left = match &seen.gateway {
                Gateway::Reached(reached) => reached.current.as_ref().map(|user| &user.buckets),
                other => return unavailable(other),
            };
            let names = left.into_iter().flat_map(|left| left.keys()).chain(&seen.current.buckets);
            let names: BTreeSet<_> = names.map(String::as_str).collect();
            if names.is_empty() && !record.body.moved_away {
                let note = Step::GiveUpNothing {
                    record: super::record_name(&claim.target.namespace, &claim.target.name),
                    seen: record.version(),
                };
                return Decision::goes_on(vec![note], Becomes::Unchanged, told);
            } else if names.is_empty() {
                steps.push(Step::DeleteClaim { claim: claim.target.clone() });
            } else {
                let names: Vec<_> = names.into_iter().collect();
                told = format!("{told}; S3UserClaim {} stays, it has buckets: {}", claim.target, names.join(", "));
            }
        }
        _ => {}
    }
    steps.extend(let_go(seen));
    Decision { steps, verdict: Reason::Migrated.ready(told), becomes: Becomes::Succeeded, again: Some(Duration::ZERO) }
}

/// Nothing more is begun: what was not moved stays where it is.
fn stop(seen: &Observed, why: &str, policy_is_lost: bool, last: Option<Step>) -> Decision {
    let mut buckets = seen.migration.status.buckets.clone();
    for bucket in buckets.iter_mut().filter(|bucket| !bucket.state.is_over()) {
        *bucket = given_up(bucket, why.to_owned(), policy_is_lost);
    }
    end(seen, buckets, last.into_iter().collect())
}

/// It ends with buckets that were not moved.
fn end(seen: &Observed, buckets: Vec<Move>, mut steps: Vec<Step>) -> Decision {
    let moved = buckets.iter().filter(|bucket| bucket.state == MoveState::Moved).count();
    let told = format!("{moved} of {} buckets are moved; {}", buckets.len(), told_of_failed(&buckets));
    steps.extend(let_go(seen));
    let (verdict, becomes) = (Reason::Refused.stalled(told), Becomes::Failed(buckets));
    Decision { steps, verdict, becomes, again: Some(Duration::ZERO) }
}

/// A policy that was taken off and cannot be put back stays where it was noted.
fn given_up(bucket: &Move, mut message: String, policy_is_lost: bool) -> Move {
    let (name, id, policy) = (bucket.name.clone(), bucket.id.clone(), bucket.policy.clone().filter(|_| policy_is_lost));
    if policy.is_some() {
        message.push_str("; its policy was taken off and could not be put back: see policy in status.buckets");
    }
    Move { name, id, state: MoveState::Failed, message: Some(message), policy }
}

fn unavailable(gateway: &Gateway) -> Decision {
    Decision::wait(match gateway {
        Gateway::NoClass(why) => why.readiness(),
        Gateway::Unreachable(failure) => readiness_of(failure),
        _ => Reason::Migrating.progressing("the users are looked up"),
    })
}

/// The key of a user that is that of its record and can be worked with.
fn usable<'a>(side: &Side, user: Option<&'a User>, lost: &BTreeSet<String>) -> Result<&'a KeyPair, Readiness> {
    let uid = side.record.as_ref().and_then(Record::claim_uid).unwrap_or_default();
    let name = side.user().map(ToString::to_string).unwrap_or_default();
    match user.filter(|user| user.is_of(uid)) {
        None => Err(Reason::UserTaken.stalled(format!("Ceph user {name} is not there, or not its claim's"))),
        Some(user) if user.suspended => Err(Reason::UserSuspended.stalled(format!("Ceph user {name} is suspended"))),
        Some(user) => side.key(user, lost).ok_or_else(|| {
            Reason::WaitingForClaim.progressing(format!("Ceph user {name} has no key of its own that can be used"))
        }),
    }
}

/// Whether to try again although no step failed: a gateway cannot be watched.
pub fn must_retry(seen: &Observed) -> bool {
    matches!(seen.gateway, Gateway::Unreachable(_))
}

/// The new status. `outcomes` are those of [`plan`]'s steps on the same observation.
pub fn report(seen: &Observed, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Status {
    let migration = &seen.migration;
    let mut status = Status { observed_generation: Some(migration.generation), ..migration.status.clone() };
    if migration.is_over() {
        return migration.status.clone();
    }
    bucket::progress(seen, &mut status, outcomes);
    let decision = decide(seen);
    let needed: Vec<_> = outcomes.iter().filter(|(step, ended)| is_needed(migration, step, ended)).cloned().collect();
    let verdict = match first_failure(&needed) {
        // The world has moved on: the next look will tell.
        Some(failure) if failure.class == FailureClass::Stale => return status,
        Some(failure) => readiness_of(failure),
        None => {
            become_(&mut status, decision.becomes.with(bucket::unrenewed(outcomes)), now);
            decision.verdict
        }
    };
    status.phase.get_or_insert_default();
    let moved = status.buckets.iter().filter(|bucket| bucket.state == MoveState::Moved).count();
    status.moved = Some(format!("{moved}/{}", migration.spec.buckets.len()));
    verdict.write(&mut status.conditions, migration.generation, now);
    status
}

/// Whether a bucket is not moved before the step is done.
fn is_needed(migration: &Migration, step: &Step, ended: &Outcome) -> bool {
    match step {
        // The gateway counts by itself in the end: for a user with many buckets that takes longer than anybody waits.
        Step::CountUsage { .. } => false,
        // What the gateway does not take back as it told it, it never will; and who is told to stop waits for nothing.
        Step::RenewLifecycle { .. } => {
            !ended.failure().is_some_and(|failure| migration.deleting || failure.class == FailureClass::Rejected)
        }
        _ => true,
    }
}

fn become_(status: &mut Status, becomes: Becomes, now: &Timestamp) {
    match becomes {
        Becomes::Unchanged => {}
        Becomes::Running(buckets) => {
            (status.phase, status.buckets) = (Some(Phase::Running), buckets);
            status.start_time = Some(now.0.clone());
        }
        Becomes::Moved { name, message } => {
            for bucket in status.buckets.iter_mut().filter(|bucket| bucket.name == name) {
                let (id, message) = (bucket.id.take(), message.clone());
                *bucket = Move { name: name.clone(), state: MoveState::Moved, id, message, ..Move::default() };
            }
        }
        Becomes::GivenUp { name, message, policy_is_lost } => {
            for bucket in status.buckets.iter_mut().filter(|bucket| bucket.name == name) {
                *bucket = given_up(bucket, message.clone(), policy_is_lost);
            }
        }
        Becomes::Succeeded => (status.phase, status.completion_time) = (Some(Phase::Succeeded), Some(now.0.clone())),
        Becomes::Failed(buckets) => {
            (status.phase, status.buckets) = (Some(Phase::Failed), buckets);
            status.completion_time = Some(now.0.clone());
        }
    }
}
