//! One bucket on its way.

use std::collections::BTreeSet;

use super::{
    super::{
        CephUser, KeyPair, Place, Usage,
        bucket::{LONGEST_POLICY, Note},
        claim::Record,
        record_name,
    },
    Becomes, Decision, Reached,
    observed::{BucketSeen, Gateway, InCeph, Move, MoveState, MovedIn, Object, Observed, PolicySeen, Status},
    policy,
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

/// Whether the target has room for all of them. Nobody but us would mind: the gateway does not ask when it links.
pub(super) enum Room {
    Enough,
    Lacking(String),
    /// What the target has stored was not told, and it may have no more than so much.
    Unknown,
}

pub(super) fn room(seen: &Observed, reached: &Reached) -> Room {
    let Some(target) = &reached.target else { return Room::Unknown };
    let has = target.usage.unwrap_or_default();
    let coming = || reached.buckets.iter().filter_map(|found| found.in_current.as_ref()).map(|bucket| bucket.stored);
    let sum = |figure: fn(Usage) -> u64| coming().map(figure).fold(figure(has), u64::saturating_add);
    let quota = Some(target.quota).filter(|quota| quota.enabled);
    let (size, objects) = (quota.and_then(|quota| quota.size), quota.and_then(|quota| quota.objects));
    let buckets = u64::try_from(target.buckets.len() + reached.buckets.len()).unwrap_or(u64::MAX);
    let figures = [
        ("buckets", buckets, target.max_buckets.map(u64::from)),
        ("size", sum(|usage| usage.size), size),
        ("objects", sum(|usage| usage.objects), objects),
    ];
    let exceeded = figures
        .into_iter()
        .find_map(|(member, needed, limit)| Some((member, needed, limit.filter(|limit| needed > *limit)?)));
    match exceeded {
        Some((member, needed, limit)) => Room::Lacking(format!(
            "S3UserClaim {} may have {limit} {member} and would have {needed}; raise its spec.quota.{member} first",
            seen.migration.spec.target
        )),
        None if target.usage.is_none() && (size.is_some() || objects.is_some()) => Room::Unknown,
        None => Room::Enough,
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
        Located::Home | Located::Blocked(_) => match moving.obstacle(&located) {
            None => moving.goes(true),
            Some(why) => moving.stays(&why),
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
                give_up(self.next, &why)
            }
            _ => {
                let told = format!("bucket {} goes back", self.next.name);
                Decision::goes_on(vec![self.link(self.from)], Becomes::Unchanged, told)
            }
        }
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
        steps.push(Step::RenewLifecycle { bucket: bucket(), user: user(), key });
        steps.extend(self.notes());
        steps.extend(self.objects());
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
                give_up(self.next, &why)
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
        is_missing.then_some(self.seen.target.namespace && !self.seen.migration.deleting)
    }

    /// What was to be kept without an S3Bucket is to be kept there, too, and so is what cannot get one.
    fn notes(&self) -> Vec<Step> {
        let spec = &self.seen.migration.spec;
        let note = |place: &Place, record: &Record, note| Step::Note {
            record: record_name(&place.namespace, &place.name),
            seen: record.version(),
            bucket: self.next.name.clone(),
            note,
        };
        let (Some(current), Some(target)) = (&self.seen.current.record, &self.seen.target.record) else {
            return Vec::new();
        };
        let name = &self.next.name;
        let was_listed = current.set_aside.lists(name);
        let answers = self.own_object().is_some() || self.found.target_object.is_some();
        let was_kept = was_listed || (current.set_aside.everything && !answers);
        let is_to_be_kept = was_kept || self.needs_object() == Some(false);
        let kept = is_to_be_kept && !target.set_aside.keeps(name);
        let kept = kept.then(|| note(&spec.target, target, Note::Kept));
        kept.into_iter().chain(was_listed.then(|| note(&spec.current, current, Note::TakenBack))).collect()
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
