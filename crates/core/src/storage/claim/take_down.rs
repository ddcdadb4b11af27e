//! Takes down what a claim has in Ceph: buckets an S3Bucket left behind go if they are empty, all of them go one by one where the
//! class says `Purge`, and the user goes once it has none. What was set aside is purged only where the class gives everything up.

use std::time::Duration;

use super::{
    super::{CephUser, OnDelete, Place, Reason, ledger::Units, record_name},
    cleanup::{given_up, marked, release, removing},
    observed::{ClaimIdentity, Observed, Phase, Purge, Reached, Record, RecordBody, User, ceph_user},
    set_aside::SetAside,
    step::{Mark, Step},
};
use crate::plan::Failure;

/// A purge goes on in the gateway although nobody waits for its answer. It is asked for again only if the bucket has not
/// changed for this long.
pub const STILL: Duration = Duration::from_secs(20);
/// How often a bucket is looked at that the gateway empties.
const LOOK: Duration = Duration::from_secs(5);

/// The user of a claim that goes or is gone, and needed by no S3Bucket.
pub(super) struct TakeDown<'a> {
    pub(super) seen: &'a Observed,
    pub(super) reached: &'a Reached,
    pub(super) claim: &'a ClaimIdentity,
    /// That of the claim.
    pub(super) record: Option<&'a Record>,
    /// Whether the claim is known to have been deleted on purpose.
    pub(super) deleted: bool,
}

/// What is left of the claim in Ceph once the steps are done.
pub(super) enum Left {
    Nothing(Vec<Step>),
    Kept(Vec<Step>),
    /// Nobody knows: its buckets could not be told. Nobody gets in meanwhile.
    Unknown(Vec<Step>, Failure),
    Purging {
        steps: Vec<Step>,
        told: String,
        next: Duration,
    },
}

impl TakeDown<'_> {
    pub(super) fn decide(&self) -> Left {
        let Some(found) = self.reached.user.as_ref().filter(|found| self.is_theirs(found)) else {
            return Left::Nothing(
                release(self.seen, self.claim, self.record).into_iter().chain(self.delete_record()).collect(),
            );
        };
        let user = ceph_user(&self.reached.class, &self.claim.namespace, &self.claim.name, self.record);
        if let Some(failure) = &found.unlisted {
            let suspend = (!found.suspended).then_some(Step::SuspendUser { user });
            return Left::Unknown(suspend.into_iter().collect(), failure.clone());
        }
        let set_aside = self.set_aside(found);
        // What a tenant made himself is his, even empty, unless the class gives it up.
        let goes_empty = |name: &String| self.purges() || set_aside.left.contains(name);
        let (empty, full): (Vec<_>, Vec<_>) = (found.buckets.iter())
            .filter(|(name, _)| !set_aside.keeps(name))
            .partition(|(name, objects)| **objects == 0 && goes_empty(name));
        if let Some(mark) = self.announcement(&set_aside, empty.iter().map(|(name, _)| *name)) {
            let told = "its buckets are being removed".to_owned();
            return Left::Purging { steps: vec![mark], told, next: Duration::ZERO };
        }
        // Nobody gets in any more, whatever becomes of the buckets: one that is said to be empty may be refused.
        let suspended = !empty.is_empty() && !found.suspended;
        let mut steps: Vec<_> = suspended.then(|| Step::SuspendUser { user: user.clone() }).into_iter().collect();
        steps.extend(
            empty.iter().map(|(bucket, _)| Step::RemoveEmptyBucket { user: user.clone(), bucket: (*bucket).clone() }),
        );
        let found = &User { suspended: suspended || found.suspended, ..found.clone() };
        if empty.len() == found.buckets.len() {
            steps.push(Step::RemoveUser { user });
            steps.extend(release(self.seen, self.claim, self.record));
            steps.extend(self.delete_record());
            return Left::Nothing(steps);
        }
        let given_up: Vec<_> = full.into_iter().filter(|(name, _)| !set_aside.left.contains(*name)).collect();
        if let (true, Some(record), Some((bucket, objects))) = (self.purges(), self.record, given_up.first()) {
            let (bucket, objects) = ((*bucket).clone(), **objects);
            return self.purge(record, found, user, Next { bucket, objects, remaining: given_up.len() }, steps);
        }
        // The gateway may be about to take off the user's list what it was asked to remove.
        if self.record.is_some_and(|record| record.has_just_purged(&found.gone_buckets)) {
            let told = "its buckets are being removed".to_owned();
            return Left::Purging { steps, told, next: LOOK };
        }
        steps.extend(self.release(found, &user, &set_aside));
        Left::Kept(steps)
    }

    /// Before buckets go that nobody left behind: said on the record as it was seen, which fails if one is to be kept by now.
    fn announcement<'n>(&self, set_aside: &SetAside, mut empty: impl Iterator<Item = &'n String>) -> Option<Step> {
        let deleting = Reason::Deleting.as_str();
        let is_said =
            |record: &Record| record.phase == Some(Phase::Removing) || record.reason.as_deref() == Some(deleting);
        let record = self.record.filter(|record| !is_said(record))?;
        empty.any(|name| !set_aside.left.contains(name)).then(|| self.removing(record, None)).flatten()
    }

    /// What outlives the claim: all of it, where nothing is known of the past.
    fn set_aside(&self, found: &User) -> SetAside {
        let mut set_aside = match self.record.filter(|record| record.knows_of_its_buckets()) {
            Some(_) if self.gives_up() => SetAside::default(),
            Some(record) => record.set_aside.clone(),
            None => SetAside { everything: true, ..SetAside::default() },
        };
        set_aside.kept.extend(found.others_buckets.union(&found.gone_buckets).cloned());
        set_aside
    }

    /// Whether the user is the claim's, or was on its way to be.
    fn is_theirs(&self, found: &User) -> bool {
        found.is_of(&self.claim.uid) || self.record.is_some_and(|record| record.takes_over(&found.display_name))
    }

    /// Who was let go with his data keeps it, even if the class has become stricter since, and so does who made some while a
    /// migration ended.
    fn purges(&self) -> bool {
        let keeps = |record: &Record| record.phase == Some(Phase::Released) || record.body.moved_away;
        let is_asked = self.deleted && !self.record.is_some_and(keeps);
        self.gives_up() || (is_asked && self.reached.class.on_delete == OnDelete::Purge)
    }

    fn gives_up(&self) -> bool {
        self.reached.class.on_delete == OnDelete::GiveUp
    }

    fn removing(&self, record: &Record, purge: Option<Purge>) -> Option<Step> {
        if self.gives_up() {
            given_up(self.claim, record, self.deleted, purge)
        } else {
            removing(self.claim, record, purge)
        }
    }

    fn purge(&self, record: &Record, found: &User, user: CephUser, next: Next, mut steps: Vec<Step>) -> Left {
        let Next { bucket, objects, remaining } = next;
        let before = record.purge.as_ref();
        let buckets = before.map_or(0, |before| before.purge.buckets).max(remaining);
        let told = format!("{} of {buckets} buckets are removed", buckets - remaining);
        let asked = before.filter(|before| before.purge.bucket == bucket);
        let is_under_way = asked.is_some_and(|asked| asked.age < STILL || asked.purge.objects != objects);
        let progress = Purge { buckets, bucket: bucket.clone(), objects };
        steps.extend((!found.suspended).then(|| Step::SuspendUser { user: user.clone() }));
        if is_under_way {
            steps.extend(self.removing(record, Some(progress)));
            return Left::Purging { steps, told, next: LOOK };
        }
        // Said anew even where it was said before: from now on the gateway is at it again.
        let unsaid = Record { purge: None, ..record.clone() };
        steps.extend(self.removing(&unsaid, Some(progress)));
        steps.push(Step::PurgeBucket { user, bucket });
        Left::Purging { steps, told, next: Duration::ZERO }
    }

    fn release(&self, found: &User, user: &CephUser, set_aside: &SetAside) -> Vec<Step> {
        let name = record_name(&self.claim.namespace, &self.claim.name);
        // Somebody may have removed the record, and another one may be in its place.
        let lost = self.record.is_none() && self.seen.record.is_none();
        let mut steps = Vec::new();
        steps.extend(lost.then(|| Step::CreateRecord { name, body: self.body_of_kept(user) }));
        steps.extend((!found.suspended).then(|| Step::SuspendUser { user: user.clone() }));
        steps.extend(self.settlement(found));
        if lost || self.record.is_some() {
            // Of what is gone nothing needs to be remembered.
            let stays =
                |name: &String, objects: u64| set_aside.keeps(name) || (objects > 0 && set_aside.left.contains(name));
            let there = found.buckets.iter().filter(|(name, _)| !found.gone_buckets.contains(*name));
            let kept = there.filter(|(name, objects)| stays(name, **objects));
            let set_aside = SetAside::keeping(kept.map(|(name, _)| name.clone()).collect());
            let mark = Mark {
                phase: Phase::Released,
                reason: Reason::BucketsKept,
                message: told_of_kept(user, found),
                set_aside,
                purge: None,
                returns_to: self.returns_to(),
            };
            steps.extend(marked(self.claim, self.record, mark));
        }
        steps
    }

    /// An upload that was under way when the claim went may have brought more than is booked.
    fn settlement(&self, found: &User) -> Option<Step> {
        let (books, stored) = (&self.seen.books, Units::from(found.usage?));
        let (seen, has) = books.settled(books.entry.as_ref()?.granted?, stored)?;
        let claim = Place { namespace: self.claim.namespace.clone(), name: self.claim.name.clone() };
        Some(Step::Settle { claim, form: seen.form.clone().unwrap_or_default(), seen: seen.clone(), has })
    }

    /// What we take away comes back to the same namespace if its class brings it again.
    fn returns_to(&self) -> Option<String> {
        let before = self.record.and_then(|record| record.returns_to.clone());
        if self.seen.claim.as_ref().is_some_and(|claim| claim.deleting) && self.seen.is_withdrawn() {
            return self.seen.namespace_uid.clone();
        }
        before
    }

    fn body_of_kept(&self, user: &CephUser) -> RecordBody {
        RecordBody {
            claim: Some(self.claim.clone()),
            class: Some(self.reached.class.name.clone()),
            user: Some(user.clone()),
            ..RecordBody::default()
        }
    }

    fn delete_record(&self) -> Option<Step> {
        let name = record_name(&self.claim.namespace, &self.claim.name);
        self.record.map(|record| Step::DeleteRecord { name, seen: record.version() })
    }
}

fn told_of_kept(user: &CephUser, found: &User) -> String {
    found.noting_gone(format!("the claim is gone; Ceph user {user} is suspended and its buckets are kept"))
}

/// The bucket to purge next.
struct Next {
    bucket: String,
    objects: u64,
    /// How many there are to purge, this one included.
    remaining: usize,
}
