//! One bucket on its way.

use std::collections::BTreeSet;

use super::{
    super::{
        CephUser, KeyPair, Place,
        bucket::{LONGEST_POLICY, Note},
        claim::Record,
        record_name,
    },
    Becomes, Decision, Reached,
    observed::{BucketSeen, Gateway, InCeph, Move, MoveState, MovedIn, Object, Observed, PolicySeen, Status},
    policy,
    room::{self, Room},
    step::Step,
    stop, unavailable, usable,
};
use crate::{
    conditions::Readiness,
    plan::{Outcome, Outcomes},
};

/// The reason of a gateway that refuses a call because of a bucket's policy.
const DENIED: &str = "AccessDenied";

const DELETED: &str = "the migration was deleted before it was moved";

/// Whether a bucket can be moved, before any is.
pub(super) fn judge(seen: &Observed, found: &BucketSeen) -> Move {
    let moved = |state, id, message| Move { name: found.name.clone(), state, id, policy: None, message };
    let refused = |message: String| moved(MoveState::Failed, None, Some(message));
    let target_claim = &seen.migration.spec.target.name;
    match (&found.in_current, &found.in_target, &found.target_object) {
        (None, _, _) => refused("there is no such bucket".to_owned()),
        (Some(bucket), _, _) if Some(&bucket.owner) != seen.current.user() => {
            refused(format!("it belongs to Ceph user {}", bucket.owner))
        }
        (_, Some(clash), _) => refused(format!(
            "Ceph user {} has a bucket of this name where it would go; remove one of them",
            clash.owner
        )),
        (_, _, Some(object)) if object.claim != *target_claim || object.deleting => {
            refused(format!("S3Bucket {} is of claim {}; remove it", object.target, object.claim))
        }
        (Some(bucket), None, _) => match unremovable(&found.policy) {
            Some(why) => refused(why),
            None => moved(MoveState::Pending, Some(bucket.id.clone()), None),
        },
    }
}

/// Why a policy cannot be taken off, and put back should the bucket stay.
fn unremovable(policy: &PolicySeen) -> Option<String> {
    match policy {
        PolicySeen::Unreadable(why) => {
            Some(format!("its policy cannot be read by its owner ({why}); replace or remove it first"))
        }
        PolicySeen::Text(text) if text.len() > LONGEST_POLICY => {
            Some(format!("its policy is longer than {LONGEST_POLICY} bytes; shorten or remove it first"))
        }
        _ => None,
    }
}

/// Says on the target's S3User who had the buckets that are about to come, unless it does. What it says of buckets that are gone
/// is forgotten.
pub(super) fn remember(seen: &Observed, reached: &Reached, moves: &[Move]) -> Option<Step> {
    let (record, from, to) = (seen.target.record.as_ref()?, seen.current.user()?, seen.target.user()?);
    let has = |name: &String| reached.target.as_ref().is_some_and(|target| target.buckets.contains_key(name));
    let stays = seen.target.moved_in.iter().filter(|it| has(&it.name) && moves.iter().all(|new| new.name != it.name));
    let comes = moves.iter().filter_map(|new| {
        let id = new.id.clone()?;
        let mut former = MovedIn::former_of(&seen.current.moved_in, &id).cloned().unwrap_or_default();
        former.insert(from.tenant.clone());
        former.remove(&to.tenant);
        Some(MovedIn { name: new.name.clone(), id, former })
    });
    let moved_in: Vec<_> = stays.cloned().chain(comes).collect();
    let spec = &seen.migration.spec;
    let name = record_name(&spec.target.namespace, &spec.target.name);
    (moved_in != seen.target.moved_in).then(|| Step::Remember { record: name, seen: record.version(), moved_in })
}

/// Where the bucket is.
enum Located<'a> {
    Home,
    /// Where it is to go. Unless it is the new owner's, the gateway was interrupted in the middle of it.
    There {
        arrived: bool,
    },
    Blocked(&'a InCeph),
    Nowhere,
}

pub(super) fn decide(seen: &Observed, next: &Move) -> Decision {
    let (Some(from), Some(to)) = (seen.current.user(), seen.target.user()) else {
        let mut decision = give_up(next, "the S3User of one of the claims is gone");
        if let Becomes::GivenUp { policy_is_lost, .. } = &mut decision.becomes {
            *policy_is_lost = true;
        }
        return decision;
    };
    let reached = match &seen.gateway {
        Gateway::Reached(reached) => reached,
        other => return unavailable(other),
    };
    let Some(found) = reached.buckets.iter().find(|found| found.name == next.name) else {
        return unavailable(&seen.gateway);
    };
    let moving = Moving { seen, reached, next, found, from, to };
    let located = moving.locate();
    match located {
        Located::Nowhere => give_up(next, "it is gone: somebody deleted it in Ceph"),
        located if next.state == MoveState::Returning => moving.send_back(&located),
        Located::Home if seen.migration.deleting => match moving.restore() {
            Ok(restored) => stop(seen, DELETED, moving.is_policy_lost(), restored),
            Err(why) => Decision::wait_for_ceph(why),
        },
        Located::Home | Located::Blocked(_) => match (moving.obstacle(&located), room::room(seen, reached)) {
            (Some(why), _) | (None, Room::Lacking(why)) => moving.stays(&why),
            (None, Room::Unknown) if reached.target.is_some() => room::is_asked_again(seen),
            (None, Room::Unknown | Room::Enough) => moving.goes(true),
        },
        Located::There { arrived } => match moving.forsaken() {
            None => moving.goes(!arrived),
            Some(why) => moving.goes_back(&why),
        },
    }
}

/// The bucket is left where it is, and the others go on.
fn give_up(next: &Move, why: &str) -> Decision {
    let becomes = Becomes::GivenUp { name: next.name.clone(), message: why.to_owned(), policy_is_lost: false };
    Decision::goes_on(Vec::new(), becomes, format!("bucket {} is not moved: {why}", next.name))
}

struct Moving<'a> {
    seen: &'a Observed,
    reached: &'a Reached,
    next: &'a Move,
    found: &'a BucketSeen,
    from: &'a CephUser,
    to: &'a CephUser,
}

impl<'a> Moving<'a> {
    fn is_it(&self, bucket: &InCeph) -> bool {
        Some(&bucket.id) == self.next.id.as_ref()
    }

    fn locate(&self) -> Located<'a> {
        let BucketSeen { in_current, in_target, .. } = self.found;
        match (in_current.as_ref().filter(|bucket| self.is_it(bucket)), in_target.as_ref()) {
            (_, Some(bucket)) if self.is_it(bucket) => Located::There { arrived: bucket.owner == *self.to },
            (Some(_), Some(other)) => Located::Blocked(other),
            (Some(_), None) => Located::Home,
            (None, _) => Located::Nowhere,
        }
    }

    /// What stands in the way of a bucket that is still its first owner's.
    fn obstacle(&self, located: &Located<'_>) -> Option<String> {
        match located {
            Located::Blocked(other) => {
                Some(format!("Ceph user {} made a bucket of this name where it would go", other.owner))
            }
            _ if !self.seen.target.namespace => {
                Some(format!("namespace {} is gone, or going", self.seen.migration.spec.target.namespace))
            }
            _ if !self.seen.target.stays() => {
                Some(format!("S3UserClaim {} is gone, or going", self.seen.migration.spec.target))
            }
            _ => self.forsaken().or_else(|| unremovable(&self.found.policy)),
        }
    }

    /// Why its new owner cannot be worked with, where that is not waited for: nobody is there to put it right, or to have use of it.
    fn forsaken(&self) -> Option<String> {
        let target = &self.seen.target;
        let is_awaited = !self.seen.migration.deleting && target.bound().is_some_and(|(claim, _)| !claim.deleting);
        let unusable = usable(target, self.reached.target.as_ref(), &self.reached.lost).err();
        unusable.filter(|_| !is_awaited).map(|why| format!("its new owner cannot be worked with: {}", why.message()))
    }

    /// It is not moved after all. What was taken off it is put on again.
    fn stays(&self, why: &str) -> Decision {
        match self.restore() {
            Ok(restored) => {
                let (name, message) = (self.next.name.clone(), why.to_owned());
                let becomes = Becomes::GivenUp { name, message, policy_is_lost: self.is_policy_lost() };
                Decision { steps: restored.into_iter().collect(), becomes, ..give_up(self.next, why) }
            }
            Err(why) => Decision::wait_for_ceph(why),
        }
    }

    /// Its new owner has it, and can do nothing for it.
    fn goes_back(&self, why: &str) -> Decision {
        match &self.found.in_current {
            Some(other) if !self.is_it(other) => {
                let why = format!(
                    "{why}; it has it without a policy, and it cannot go back, as Ceph user {} made a bucket of its name there",
                    other.owner
                );
                self.stays_there(&why)
            }
            _ => {
                let told = format!("bucket {} goes back", self.next.name);
                Decision::goes_on(vec![self.link(self.from)], Becomes::Unchanged, told)
            }
        }
    }

    /// It can neither be finished nor go back. Whoever has it did not ask for it in that state, and gives up nothing with his claim.
    fn stays_there(&self, why: &str) -> Decision {
        let becomes = Becomes::GivenUp { name: self.next.name.clone(), message: why.to_owned(), policy_is_lost: true };
        let target = self.seen.target.record.as_ref();
        let steps = target.and_then(|target| self.is_kept_there(target)).into_iter().collect();
        Decision { steps, becomes, ..give_up(self.next, why) }
    }

    /// All that is left to do for the bucket; `links`: that it is given to its new owner, too.
    fn goes(&self, links: bool) -> Decision {
        let (seen, name) = (self.seen, &self.next.name);
        let key = match usable(&seen.target, self.reached.target.as_ref(), &self.reached.lost) {
            Ok(key) => key.clone(),
            Err(why) => return Decision::wait_for_ceph(why),
        };
        let mut steps = Vec::new();
        if links {
            match self.hand_over() {
                Ok(handing_over) => steps.extend(handing_over),
                Err(why) if self.gets_a_key() => return Decision::wait_for_ceph(why),
                Err(_) => return self.stays("its owner is being deleted and has no key that can be used"),
            }
        }
        let (bucket, user) = (|| name.clone(), || self.to.clone());
        steps.push(Step::PutPolicy { bucket: bucket(), user: user(), key: key.clone(), policy: self.policy() });
        steps.extend(self.notes());
        steps.extend(self.objects());
        // Last of what may be refused: nothing else waits for it.
        steps.push(Step::RenewLifecycle { bucket: bucket(), user: user(), key });
        steps.push(Step::CountUsage { user: user() });
        let message = self.own_policy().and_then(policy::left_out);
        let becomes = Becomes::Moved { name: name.clone(), message };
        Decision::goes_on(steps, becomes, format!("bucket {name} is moved"))
    }

    /// The policy goes first: one that names the old tenant would lock everybody out, the new owner included.
    fn hand_over(&self) -> Result<Vec<Step>, Readiness> {
        let bucket = || self.next.name.clone();
        let mut steps = Vec::new();
        if self.is_first_owners() {
            // Without it nobody could tell what policy there is.
            let key = self.current_key()?;
            let PolicySeen::Text(policy) = &self.found.policy else { return Ok(vec![self.link(self.to)]) };
            if self.next.policy.as_ref() != Some(policy) {
                steps.push(Step::SavePolicy { bucket: bucket(), policy: policy.clone() });
            }
            steps.push(Step::DeletePolicy { bucket: bucket(), user: self.from.clone(), key: key.clone() });
        }
        steps.push(self.link(self.to));
        Ok(steps)
    }

    fn is_first_owners(&self) -> bool {
        self.found.in_current.as_ref().is_some_and(|bucket| self.is_it(bucket) && bucket.owner == *self.from)
    }

    fn current_key(&self) -> Result<&'a KeyPair, Readiness> {
        usable(&self.seen.current, self.reached.current.as_ref(), &self.reached.lost)
    }

    /// From wherever it is.
    fn link(&self, to: &CephUser) -> Step {
        let is_there = self.found.in_target.as_ref().is_some_and(|bucket| self.is_it(bucket));
        let tenant = if is_there { &self.to.tenant } else { &self.from.tenant };
        let (bucket, id) = (self.next.name.clone(), self.next.id.clone().unwrap_or_default());
        Step::LinkBucket { tenant: tenant.clone(), bucket, id, to: to.clone() }
    }

    /// A policy that came between ours keeps the new owner from setting any: whoever put it has the bucket again.
    fn send_back(&self, located: &Located<'_>) -> Decision {
        let refused = "a policy that was put on it while it moved keeps its new owner from setting one";
        match (located, &self.found.in_current) {
            (Located::There { .. }, Some(other)) if !self.is_it(other) => {
                let why = format!(
                    "{refused}; it cannot go back, as Ceph user {} made a bucket of its name there: an administrator of Ceph must remove \
                     the policy",
                    other.owner
                );
                self.stays_there(&why)
            }
            _ if !self.is_first_owners() => self.goes_back(refused),
            _ => self.stays(&format!("{refused}; it stays with its old owner")),
        }
    }

    /// What was taken off a bucket that stays is put on again, as soon as there is a key for that if there is one to come.
    fn restore(&self) -> Result<Option<Step>, Readiness> {
        let Some(policy) = self.taken_off().cloned() else { return Ok(None) };
        let (bucket, user) = (self.next.name.clone(), self.from.clone());
        match self.current_key() {
            Ok(key) => Ok(Some(Step::PutPolicy { bucket, user, key: key.clone(), policy })),
            Err(why @ Readiness::Progressing { .. }) if self.gets_a_key() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// The policy it had, if it was taken off, or may have been where nobody can look.
    fn taken_off(&self) -> Option<&'a String> {
        self.next.policy.as_ref().filter(|_| self.found.policy == PolicySeen::None)
    }

    /// Whether nobody can put it on again: its old owner has no key, and gets none.
    fn is_policy_lost(&self) -> bool {
        self.taken_off().is_some() && matches!(self.restore(), Ok(None))
    }

    /// Whether the first owner's claim is there to have a key made.
    fn gets_a_key(&self) -> bool {
        self.seen.current.bound().is_some_and(|(claim, _)| !claim.deleting)
    }

    /// What its first owner's policy said.
    fn own_policy(&self) -> Option<&str> {
        match &self.found.policy {
            PolicySeen::Text(policy) => Some(policy),
            _ => self.next.policy.as_deref(),
        }
    }

    /// The policy it is to have.
    fn policy(&self) -> String {
        let bound: BTreeSet<_> = [&self.found.target_object, &self.found.current_object]
            .into_iter()
            .flatten()
            .flat_map(|object| object.bound.iter().cloned())
            .collect();
        let subusers = self.seen.target.record.iter().flat_map(|record| &record.body.subusers).cloned().collect();
        let unbound = &subusers - &bound;
        let id = self.next.id.as_deref().unwrap_or_default();
        let mut former = MovedIn::former_of(&self.seen.target.moved_in, id).cloned().unwrap_or_default();
        former.insert(self.from.tenant.clone());
        let (bucket, owner) = (&self.next.name, self.to);
        policy::Moved { bucket, owner, former: &former, subusers: &subusers, unbound: &unbound }.policy()
    }

    /// Its S3Bucket in the first namespace.
    fn own_object(&self) -> Option<&'a Object> {
        self.found.current_object.as_ref().filter(|object| object.claim == self.seen.migration.spec.current.name)
    }

    /// Whether an S3Bucket is to be made, and can be.
    fn needs_object(&self) -> Option<bool> {
        let is_missing = self.own_object().is_some() && self.found.target_object.is_none();
        is_missing.then_some(self.seen.target.stays() && !self.seen.migration.deleting)
    }

    /// Says that the new owner's claim does not take the bucket along when it goes, unless that is said.
    fn is_kept_there(&self, target: &Record) -> Option<Step> {
        let name = &self.next.name;
        let is_unsaid = !target.set_aside.keeps(name);
        is_unsaid.then(|| note(&self.seen.migration.spec.target, target, name, Note::Kept))
    }

    /// What was to be kept without an S3Bucket is to be kept there, too, and so is what cannot get one, or comes to a claim that does
    /// not stay.
    fn notes(&self) -> Vec<Step> {
        let (Some(current), Some(target)) = (&self.seen.current.record, &self.seen.target.record) else {
            return Vec::new();
        };
        let name = &self.next.name;
        let was_listed = current.set_aside.lists(name);
        let answers = self.own_object().is_some() || self.found.target_object.is_some();
        let was_kept = was_listed || (current.set_aside.everything && !answers);
        let is_to_be_kept = was_kept || self.needs_object() == Some(false) || !self.seen.target.stays();
        let kept = if is_to_be_kept { self.is_kept_there(target) } else { None };
        let home = &self.seen.migration.spec.current;
        kept.into_iter().chain(was_listed.then(|| note(home, current, name, Note::TakenBack))).collect()
    }

    /// The S3Bucket follows: the new one first, so that what is to be made is not forgotten.
    fn objects(&self) -> Vec<Step> {
        let Some(object) = self.own_object() else { return Vec::new() };
        let mut steps = Vec::new();
        if self.needs_object() == Some(true) {
            let claim = self.seen.migration.spec.target.clone();
            steps.push(Step::CreateObject { like: object.target.clone(), claim });
        }
        steps.extend(object.finalizer.then(|| Step::ReleaseObject { object: object.target.clone() }));
        steps.extend((!object.deleting).then(|| Step::DeleteObject { object: object.target.clone() }));
        steps
    }
}

fn note(place: &Place, record: &Record, bucket: &str, note: Note) -> Step {
    let name = record_name(&place.namespace, &place.name);
    Step::Note { record: name, seen: record.version(), bucket: bucket.to_owned(), note }
}

/// What has arrived at a claim that does not stay nobody gave up with it: its S3Bucket could not even answer for it yet, as its user is
/// held. One at a time, as each changes the S3User.
pub(super) fn keep_arrived(seen: &Observed) -> Option<Step> {
    let record = seen.target.record.as_ref().filter(|record| !seen.target.stays() && seen.migration.holds(record))?;
    let is_unsaid = |it: &&Move| it.state == MoveState::Moved && !record.set_aside.holds(&it.name);
    let bucket = seen.migration.status.buckets.iter().find(is_unsaid)?;
    Some(note(&seen.migration.spec.target, record, &bucket.name, Note::Kept))
}

/// What is to be told of a lifecycle that was not set again.
pub(super) fn unrenewed(outcomes: Outcomes<'_, Step>) -> Option<String> {
    let is_renewal = |step: &Step| matches!(step, Step::RenewLifecycle { .. });
    let failure = outcomes.iter().find(|(step, _)| is_renewal(step)).and_then(|(_, outcome)| outcome.failure())?;
    Some(format!("Ceph does not go on with its lifecycle before its new owner sets that again: {failure}"))
}

/// What the steps that were done, or refused by the bucket's policy, mean for their bucket, also if a later one failed.
pub(super) fn progress(seen: &Observed, status: &mut Status, outcomes: Outcomes<'_, Step>) {
    for (step, outcome) in outcomes {
        let is_denied = matches!(outcome, Outcome::Failed(failure) if failure.reason == DENIED);
        let (name, state) = match step {
            Step::SavePolicy { bucket, .. } if outcome.is_done() => (bucket, MoveState::Pending),
            Step::DeletePolicy { bucket, .. } if outcome.is_done() => (bucket, MoveState::PolicyRemoved),
            Step::LinkBucket { bucket, to, .. } if outcome.is_done() && Some(to) == seen.target.user() => {
                (bucket, MoveState::Linked)
            }
            Step::PutPolicy { bucket, user, .. } if is_denied && Some(user) == seen.target.user() => {
                (bucket, MoveState::Returning)
            }
            Step::PutPolicy { bucket, .. } | Step::DeletePolicy { bucket, .. } if is_denied => {
                (bucket, MoveState::Failed)
            }
            _ => continue,
        };
        for bucket in status.buckets.iter_mut().filter(|bucket| bucket.name == *name) {
            bucket.state = state;
            if let Step::SavePolicy { policy, .. } = step {
                bucket.policy = Some(policy.clone());
            }
            if state == MoveState::Failed {
                let why = "a policy of its old owner keeps its own key from changing it; it stays with its old owner";
                (bucket.policy, bucket.message) = (None, Some(why.to_owned()));
            }
        }
    }
}
