//! A vault that goes, or is gone: what is stored is kept and the user suspended, unless the spec says otherwise or the class gives
//! everything up.

use std::time::Duration;

use super::{
    Decision, names,
    observed::{Observed, Vault},
    provision::{ceph_user, record_body},
    step::Step,
};
use crate::{
    backup::Victim,
    conditions::Readiness,
    plan::Failure,
    storage::{
        CephUser, NoClass, OnDelete, Reason,
        claim::{self, Backend, ClaimIdentity, Mark, Phase, Purge, Reached, Record, STILL, SetAside, User},
        readiness_of,
    },
};

/// How often a bucket is looked at that the gateway empties.
const LOOK: Duration = Duration::from_secs(5);

/// The vault is being deleted.
pub(super) fn of_vault(seen: &Observed, vault: &Vault) -> Decision {
    let identity = vault.identity();
    let finalizer = || vault.finalizer.then(|| Step::RemoveFinalizer { vault: vault.target.clone() });
    let going = |steps: Vec<Step>| {
        Decision::new(steps.into_iter().chain(finalizer()).collect(), deleting("what it has in Ceph is being removed"))
    };
    // Velero must not find a location without a bucket. In a namespace that goes it goes anyway, and nobody waits for it.
    let location = seen.location.as_ref().filter(|location| location.owner.as_ref() == Some(&identity.uid));
    if let Some(location) = location.filter(|_| !seen.namespace_terminating) {
        let victim = Victim { name: location.target.name.clone(), uid: location.target.uid.clone() };
        let steps = (!location.deleting).then_some(Step::DeleteLocation(victim)).into_iter().collect();
        return Decision::new(steps, deleting("its location is going"));
    }
    let purges = vault.spec.as_ref().is_ok_and(|spec| spec.on_delete == OnDelete::Purge);
    let record = seen.own_record(vault);
    let leave_to_record = |record: &Record| {
        // A namespace never waits for a gateway: the record says what was meant, and the rest is done from there.
        let purge = purges.then(|| Purge { buckets: 1, bucket: names::bucket(&identity.name), objects: 0 });
        going(removing(seen, &identity, record, Phase::Removing, purge).into_iter().collect())
    };
    match (&seen.backend, record) {
        (Backend::Reached(reached), Some(record)) => {
            let take_down = TakeDown { seen, reached, vault: &identity, record, purges };
            match take_down.decide() {
                left if seen.namespace_terminating && left.is_for(record) => leave_to_record(record),
                Left::Nothing(steps) => going(steps),
                Left::Unknown(steps, failure) => Decision::new(steps, readiness_of(&failure)),
                Left::Kept(steps) => {
                    let name = names::record_name(&identity.namespace, &identity.name);
                    let told = format!("the user is suspended and the backups are kept; see S3User {name}");
                    Decision { verdict: Reason::BucketsKept.progressing(told), ..going(steps) }
                }
                Left::Purging { steps, again } => {
                    Decision { again: Some(again), ..Decision::new(steps, deleting("the backups are being removed")) }
                }
            }
        }
        // Somebody removed the record: it is made again first, so that what is in Ceph can be found.
        (Backend::Reached(reached), None) if own_user(reached, &identity, None).is_some() && seen.record.is_none() => {
            let name = names::record_name(&identity.namespace, &identity.name);
            let user = ceph_user(&reached.class, &identity, None);
            let body = record_body(&identity, &reached.class, user, None);
            Decision::new(vec![Step::CreateRecord { name, body }], deleting("it is put on record again"))
        }
        // Nobody can tell what is on record.
        (backend @ Backend::NoClass(NoClass::Disabled), None) if vault.finalizer && !seen.namespace_terminating => {
            Decision::wait(backend.readiness())
        }
        // The record is made before the user: without one there is no user.
        (_, None) => going(nothing_left(seen, &identity, None)),
        (_, Some(record)) if seen.namespace_terminating => leave_to_record(record),
        (backend, Some(_)) => Decision::wait(backend.readiness()),
    }
}

/// The vault is gone and its S3User is not.
pub(super) fn of_orphan(seen: &Observed, record: &Record) -> Decision {
    let verdict = || Reason::ClaimGone.progressing("what a vault that is gone had in Ceph is being looked after");
    let (on_delete, offered) = match &seen.backend {
        Backend::Reached(reached) => (Some(reached.class.on_delete), record.last_of(reached)),
        _ => (None, None),
    };
    let Some(identity) = record.body.claim.as_ref().or(offered.as_ref()) else { return Decision::wait(verdict()) };
    if record.rests_without_claim(on_delete) {
        return Decision::wait(verdict());
    }
    let Backend::Reached(reached) = &seen.backend else { return Decision::wait(seen.backend.readiness()) };
    // Only a deletion that we saw ourselves means that the backups are given up.
    let purges = record.phase == Some(Phase::Removing) && record.purge.is_some();
    match (TakeDown { seen, reached, vault: identity, record, purges }).decide() {
        Left::Nothing(steps) | Left::Kept(steps) => Decision::new(steps, verdict()),
        Left::Unknown(steps, failure) => Decision::new(steps, readiness_of(&failure)),
        Left::Purging { steps, again } => Decision { again: Some(again), ..Decision::new(steps, verdict()) },
    }
}

/// There is a vault, but the S3User at its name was made for an earlier one.
pub(super) fn before_provisioning(seen: &Observed, vault: &Vault, record: &Record) -> Decision {
    let name = names::record_name(&vault.target.namespace, &vault.target.name);
    let verdict = match (record.body.claim.is_some(), record.phase) {
        (false, _) => Reason::RecordTaken
            .stalled(format!("S3User {name} exists and names no vault; remove it or give the vault another name")),
        (true, Some(Phase::Released)) if record.purge.is_none() => {
            let whose = match &record.returns_to {
                Some(_) => "an earlier namespace of this name",
                None => "an earlier vault of this name, and nobody knows whether that was in this namespace",
            };
            Reason::UserTaken.stalled(format!(
                "S3User {name} keeps the backups of {whose}; give the vault another name, or ask the administrator to remove \
                 spec.claimRef.uid from the S3User, which gives them to this vault"
            ))
        }
        (true, _) => Reason::ClaimGone.progressing("an earlier vault of this name is being removed"),
    };
    Decision { verdict, ..of_orphan(seen, record) }
}

/// What is left of the vault in Ceph once the steps are done.
enum Left {
    Nothing(Vec<Step>),
    Kept(Vec<Step>),
    /// Nobody knows: its buckets could not be told. Nobody gets in meanwhile.
    Unknown(Vec<Step>, Failure),
    Purging {
        steps: Vec<Step>,
        again: Duration,
    },
}

impl Left {
    /// Whether there is more to ask of the gateway, which may not answer, than a vault in a namespace that goes can wait for. By a
    /// record that names no vault nothing is done once the vault is gone.
    fn is_for(&self, record: &Record) -> bool {
        let asks_gateway = |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Ceph(_)));
        match self {
            Left::Nothing(steps) | Left::Kept(steps) => record.body.claim.is_some() && asks_gateway(steps),
            Left::Unknown(..) | Left::Purging { .. } => true,
        }
    }
}

struct TakeDown<'a> {
    seen: &'a Observed,
    reached: &'a Reached,
    vault: &'a ClaimIdentity,
    record: &'a Record,
    purges: bool,
}

impl TakeDown<'_> {
    fn decide(&self) -> Left {
        let Some(found) = own_user(self.reached, self.vault, Some(self.record)) else {
            return Left::Nothing(nothing_left(self.seen, self.vault, Some(self.record)));
        };
        let user = ceph_user(&self.reached.class, self.vault, Some(self.record));
        let mut steps = self.close(found, &user);
        if let Some(failure) = &found.unlisted {
            return Left::Unknown(steps, failure.clone());
        }
        // What the list names and another user has is not removed, and neither is who has it on the list.
        if found.others_buckets.is_empty() && found.buckets.values().all(|objects| *objects == 0) {
            let buckets = found
                .buckets
                .keys()
                .map(|bucket| claim::Step::RemoveEmptyBucket { user: user.clone(), bucket: bucket.clone() });
            let steps = buckets.chain([claim::Step::RemoveUser { user: user.clone() }]).map(Step::Ceph);
            return Left::Nothing(steps.chain(nothing_left(self.seen, self.vault, Some(self.record))).collect());
        }
        let is_own = |name: &String| !found.gone_buckets.contains(name) && !found.others_buckets.contains(name);
        let full = found.buckets.iter().find(|(name, objects)| is_own(name) && **objects > 0);
        if let Some((bucket, objects)) = full.filter(|_| self.purges()) {
            return self.purge(steps, user, bucket, *objects);
        }
        // The gateway may be about to take off the user's list what it was asked to remove.
        if self.record.has_just_purged(&found.gone_buckets) {
            return Left::Purging { steps, again: LOOK };
        }
        steps.extend(self.released(found, &user));
        Left::Kept(steps)
    }

    fn purges(&self) -> bool {
        self.purges || self.reached.class.on_delete == OnDelete::GiveUp
    }

    /// Nobody gets in any more.
    fn close(&self, found: &User, user: &CephUser) -> Vec<Step> {
        let keys = found
            .keys
            .iter()
            .map(|key| claim::Step::RemoveKey { user: user.clone(), access_key: key.pair.access_key.clone() });
        let suspend = (!found.suspended).then(|| claim::Step::SuspendUser { user: user.clone() });
        keys.chain(suspend).map(Step::Ceph).chain(delete_keys(self.seen, self.vault)).collect()
    }

    fn released(&self, found: &User, user: &CephUser) -> Option<Step> {
        let mark = Mark {
            phase: Phase::Released,
            reason: Reason::BucketsKept,
            message: found
                .noting_gone(format!("the vault is gone; Ceph user {user} is suspended and the backups are kept")),
            set_aside: SetAside::default(),
            purge: None,
            returns_to: namespace_of(self.seen, self.vault, self.record),
        };
        marked(self.vault, self.record, mark)
    }

    fn purge(&self, mut steps: Vec<Step>, user: CephUser, bucket: &str, objects: u64) -> Left {
        let progress = Purge { buckets: 1, bucket: bucket.to_owned(), objects };
        let asked = self.record.purge.as_ref().filter(|asked| asked.purge.objects > 0);
        let is_under_way = asked.is_some_and(|asked| asked.age < STILL || asked.purge.objects != objects);
        // What only the class gives up is kept once that thinks better of it, and says so.
        let phase = if self.purges { Phase::Removing } else { Phase::Released };
        if is_under_way {
            steps.extend(removing(self.seen, self.vault, self.record, phase, Some(progress)));
            return Left::Purging { steps, again: LOOK };
        }
        // Said anew even where it was said before: from now on the gateway is at it.
        let unsaid = Record { purge: None, ..self.record.clone() };
        steps.extend(removing(self.seen, self.vault, &unsaid, phase, Some(progress)));
        steps.push(Step::Ceph(claim::Step::PurgeBucket { user, bucket: bucket.to_owned() }));
        Left::Purging { steps, again: Duration::ZERO }
    }
}

/// The vault's user, or one that was on its way to be.
fn own_user<'a>(reached: &'a Reached, vault: &ClaimIdentity, record: Option<&Record>) -> Option<&'a User> {
    let on_its_way = |user: &&User| record.is_some_and(|record| record.takes_over(&user.display_name));
    reached.user.as_ref().filter(|user| user.is_of(&vault.uid) || on_its_way(user))
}

/// The record goes last: what is in Ceph always counts, and can always be found.
fn nothing_left(seen: &Observed, vault: &ClaimIdentity, record: Option<&Record>) -> Vec<Step> {
    let (namespace, name) = (vault.namespace.clone(), vault.name.clone());
    // What is on record for another vault of the name still counts.
    let is_anothers = record.is_none() && seen.record.is_some();
    let booked = seen.books.granting().filter(|_| !is_anothers).cloned();
    let release = booked.map(|seen| Step::ReleaseQuota { namespace, vault: name, seen });
    let record = record.map(|record| Step::DeleteRecord {
        name: names::record_name(&vault.namespace, &vault.name),
        seen: record.version(),
    });
    delete_keys(seen, vault).into_iter().chain(release).chain(record).collect()
}

pub(super) fn delete_keys(seen: &Observed, vault: &ClaimIdentity) -> Option<Step> {
    let keys = seen.keys_of(vault)?;
    Some(Step::DeleteKeys(Victim { name: keys.target.name.clone(), uid: keys.target.uid.clone() }))
}

/// Says on the record that the vault was deleted, and how far its removal has come.
fn removing(
    seen: &Observed,
    vault: &ClaimIdentity,
    record: &Record,
    phase: Phase,
    purge: Option<Purge>,
) -> Option<Step> {
    let mark = Mark {
        phase,
        reason: Reason::Deleting,
        message: "the vault was deleted; what it has in Ceph is being looked after".to_owned(),
        set_aside: SetAside::default(),
        purge,
        returns_to: namespace_of(seen, vault, record),
    };
    marked(vault, record, mark)
}

/// UID of the namespace the vault is in; once it is gone, of that it was in: another one of the name is somebody else's.
fn namespace_of(seen: &Observed, vault: &ClaimIdentity, record: &Record) -> Option<String> {
    let is_there = seen.vault.as_ref().is_some_and(|found| found.target.uid == vault.uid);
    seen.namespace_uid.clone().filter(|_| is_there).or_else(|| record.returns_to.clone())
}

/// The mark, unless the record bears it already.
fn marked(vault: &ClaimIdentity, record: &Record, mark: Mark) -> Option<Step> {
    let name = names::record_name(&vault.namespace, &vault.name);
    (!record.bears(&mark)).then(|| Step::MarkRecord { name, seen: record.version(), mark })
}

fn deleting(told: &str) -> Readiness {
    Reason::Deleting.progressing(told)
}
