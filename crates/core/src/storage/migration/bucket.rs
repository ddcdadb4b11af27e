//! One bucket on its way.

use std::collections::BTreeSet;

use super::{
    super::{
        CephUser, Place, Reason, Usage,
        bucket::Note,
        claim::{Record, User},
        record_name,
    },
    Becomes, Decision, Reached,
    observed::{BucketSeen, Gateway, InCeph, Move, MoveState, Observed, Status},
    policy,
    step::Step,
    unavailable, usable,
};
use crate::plan::Outcomes;

/// Whether a bucket can be moved, before any is.
pub(super) fn judge(seen: &Observed, reached: &Reached, found: &BucketSeen) -> Move {
    let pending = |id: &str| Move { name: found.name.clone(), id: Some(id.to_owned()), ..Move::default() };
    let refused = |message: String| Move {
        name: found.name.clone(),
        state: MoveState::Failed,
        message: Some(message),
        ..Move::default()
    };
    for (side, user) in [(&seen.current, &reached.current), (&seen.target, &reached.target)] {
        if let Err(why) = usable(side, user.as_ref()) {
            return refused(why.reason().to_owned());
        }
    }
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
        (Some(bucket), None, _) => pending(&bucket.id),
    }
}

/// Why the target has no room for all of them. Nobody but us would mind: the gateway does not ask when it links.
pub(super) fn lack_of_room(seen: &Observed, reached: &Reached) -> Option<String> {
    let target = reached.target.as_ref()?;
    let has = target.usage.unwrap_or_default();
    let coming = || reached.buckets.iter().filter_map(|found| found.in_current.as_ref()).map(|bucket| bucket.stored);
    let sum = |figure: fn(Usage) -> u64| coming().map(figure).fold(figure(has), u64::saturating_add);
    let quota = Some(target.quota).filter(|quota| quota.enabled);
    let buckets = u64::try_from(target.buckets.len() + reached.buckets.len()).unwrap_or(u64::MAX);
    let figures = [
        ("buckets", buckets, target.max_buckets.map(u64::from)),
        ("size", sum(|usage| usage.size), quota.and_then(|quota| quota.size)),
        ("objects", sum(|usage| usage.objects), quota.and_then(|quota| quota.objects)),
    ];
    let (member, needed, limit) = figures
        .into_iter()
        .find_map(|(member, needed, limit)| Some((member, needed, limit.filter(|limit| needed > *limit)?)))?;
    Some(format!(
        "S3UserClaim {} may have {limit} {member} and would have {needed}; raise its spec.quota.{member} first",
        seen.migration.spec.target
    ))
}

/// Where the bucket is, and whether it has arrived.
enum Located<'a> {
    Arrived,
    /// In this tenant.
    At(&'a str),
    Blocked(&'a InCeph),
    Nowhere,
}

fn locate<'a>(next: &Move, found: &'a BucketSeen, from: &'a CephUser, to: &'a CephUser) -> Located<'a> {
    let is_it = |bucket: &&InCeph| Some(&bucket.id) == next.id.as_ref();
    match (found.in_current.as_ref().filter(is_it), found.in_target.as_ref()) {
        (_, Some(bucket)) if is_it(&bucket) && bucket.owner == *to => Located::Arrived,
        // The gateway was interrupted in the middle of it.
        (_, Some(bucket)) if is_it(&bucket) => Located::At(&to.tenant),
        (Some(_), Some(other)) => Located::Blocked(other),
        (Some(_), None) => Located::At(&from.tenant),
        (None, _) => Located::Nowhere,
    }
}

pub(super) fn decide(seen: &Observed, next: &Move) -> Decision {
    let reached = match &seen.gateway {
        Gateway::Reached(reached) => reached,
        other => return unavailable(other),
    };
    let found = reached.buckets.iter().find(|found| found.name == next.name);
    let (Some(found), Some(from), Some(to)) = (found, seen.current.user(), seen.target.user()) else {
        return Decision::wait(Reason::RecordTaken.stalled("the S3User of one of the claims is gone"));
    };
    let (current, target) =
        match (usable(&seen.current, reached.current.as_ref()), usable(&seen.target, reached.target.as_ref())) {
            (Ok(current), Ok(target)) => (current, target),
            (Err(why), _) | (_, Err(why)) => return Decision::wait(why),
        };
    let moving = Moving { seen, next, found, from, to };
    let mut steps = match locate(next, found, from, to) {
        Located::Arrived => Vec::new(),
        Located::At(tenant) => moving.hand_over(tenant, current),
        Located::Blocked(other) => {
            let message = format!("bucket {}: Ceph user {} made one of this name meanwhile", next.name, other.owner);
            return Decision::wait(Reason::BucketTaken.stalled(message));
        }
        Located::Nowhere => {
            let message = format!("bucket {} is gone: somebody deleted it in Ceph", next.name);
            return Decision::wait(Reason::BucketLost.stalled(message));
        }
    };
    let policy = moving.policy(!steps.is_empty());
    steps.extend(moving.welcome(!steps.is_empty(), target, &policy.policy));
    steps.extend(moving.notes());
    steps.extend(moving.objects());
    let becomes = Becomes::Moved { name: next.name.clone(), message: policy.left_out };
    Decision::goes_on(steps, becomes, format!("bucket {} is moved", next.name))
}

struct Moving<'a> {
    seen: &'a Observed,
    next: &'a Move,
    found: &'a BucketSeen,
    from: &'a CephUser,
    to: &'a CephUser,
}

impl Moving<'_> {
    /// The policy goes first: one that names the old tenant would lock everybody out, the new owner included.
    fn hand_over(&self, tenant: &str, current: &User) -> Vec<Step> {
        let bucket = || self.next.name.clone();
        let mut steps = Vec::new();
        let is_at_home = tenant == self.from.tenant;
        if let (Some(policy), Some(key), true) = (&self.found.policy, current.key(None, None), is_at_home) {
            if self.next.policy.as_ref() != Some(policy) {
                steps.push(Step::SavePolicy { bucket: bucket(), policy: policy.clone() });
            }
            steps.push(Step::DeletePolicy { bucket: bucket(), user: self.from.clone(), key: key.clone() });
        }
        let id = self.next.id.clone().unwrap_or_default();
        steps.push(Step::LinkBucket { tenant: tenant.to_owned(), bucket: bucket(), id, to: self.to.clone() });
        steps
    }

    /// The policy it is to have. Before it went its policy was its old owner's: that is the one to go on from. Afterwards the
    /// saved one is.
    fn policy(&self, is_new: bool) -> policy::Moved {
        let before = self.found.policy.as_ref().filter(|_| is_new).or(self.next.policy.as_ref());
        let bound: BTreeSet<_> = [&self.found.target_object, &self.found.current_object]
            .into_iter()
            .flatten()
            .flat_map(|object| object.bound.iter().cloned())
            .collect();
        let subusers = self.seen.target.record.iter().flat_map(|record| &record.body.subusers);
        let unbound = subusers.filter(|name| !bound.contains(*name)).cloned().collect();
        policy::moved(before.map(String::as_str), &self.next.name, self.from, self.to, &unbound)
    }

    /// Lets the new owner read what is there, and the old one no more.
    fn welcome(&self, is_new: bool, target: &User, policy: &str) -> Option<Step> {
        if !is_new && policy::is_same(self.found.policy.as_deref(), policy) {
            return None;
        }
        let (bucket, user, policy) = (self.next.name.clone(), self.to.clone(), policy.to_owned());
        target.key(None, None).map(|key| Step::PutPolicy { bucket, user, key: key.clone(), policy })
    }

    /// What was to be kept without an S3Bucket is to be kept there, too.
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
        if !current.set_aside.holds(&self.next.name) {
            return Vec::new();
        }
        let kept = (!target.set_aside.kept.contains(&self.next.name)).then(|| note(&spec.target, target, Note::Kept));
        kept.into_iter().chain([note(&spec.current, current, Note::TakenBack)]).collect()
    }

    /// The S3Bucket follows: the new one first, so that what is to be made is not forgotten.
    fn objects(&self) -> Vec<Step> {
        let spec = &self.seen.migration.spec;
        let mine = self.found.current_object.as_ref().filter(|object| object.claim == spec.current.name);
        let Some(object) = mine else { return Vec::new() };
        let mut steps = Vec::new();
        if self.found.target_object.is_none() {
            steps.push(Step::CreateObject { like: object.target.clone(), claim: spec.target.clone() });
        }
        steps.extend(object.finalizer.then(|| Step::ReleaseObject { object: object.target.clone() }));
        steps.extend((!object.deleting).then(|| Step::DeleteObject { object: object.target.clone() }));
        steps
    }
}

/// What the steps that were done mean for their bucket, also if a later one failed.
pub(super) fn progress(status: &mut Status, outcomes: Outcomes<'_, Step>) {
    for (step, _) in outcomes.iter().filter(|(_, outcome)| outcome.is_done()) {
        let (name, state, saved) = match step {
            Step::SavePolicy { bucket, policy } => (bucket, MoveState::Pending, Some(policy)),
            Step::DeletePolicy { bucket, .. } => (bucket, MoveState::PolicyRemoved, None),
            Step::LinkBucket { bucket, .. } => (bucket, MoveState::Linked, None),
            _ => continue,
        };
        for bucket in status.buckets.iter_mut().filter(|bucket| bucket.name == *name) {
            bucket.state = state;
            bucket.policy = saved.cloned().or(bucket.policy.take());
        }
    }
}
