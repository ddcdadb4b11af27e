//! A claim that goes, or is gone: its user is removed, or kept where it has buckets and the class keeps them.

use super::{
    super::{CephUser, OnDelete, Reason, record_name},
    Decision,
    observed::{Backend, Claim, ClaimIdentity, Observed, Phase, Record, RecordBody, ceph_user},
    step::{Mark, Step},
};

/// What of a claim is still in Ceph.
enum Remains {
    Nothing,
    /// A user without buckets, or one whose class gives up its data.
    Removable {
        user: CephUser,
        purge: bool,
    },
    /// A user whose buckets the class keeps.
    Kept {
        user: CephUser,
        suspended: bool,
    },
    /// S3Buckets need the user until they are gone themselves.
    InUse,
    /// The gateway could not be asked.
    Unknown,
}

/// The claim is being deleted.
pub(super) fn of_claim(seen: &Observed, claim: &Claim) -> Decision {
    // A record of an earlier claim is not this one's business: it is looked at again when this claim is gone.
    let record = seen.record.as_ref().filter(|record| record.is_of(claim));
    let identity = ClaimIdentity {
        namespace: claim.target.namespace.clone(),
        name: claim.target.name.clone(),
        uid: claim.target.uid.clone(),
    };
    let remove_finalizer = || claim.finalizer.then(|| Step::RemoveFinalizer { claim: claim.target.clone() });
    let going = |mut steps: Vec<Step>| {
        steps.extend(remove_finalizer());
        Decision::new(steps, Reason::Deleting.progressing("the user is being removed"))
    };
    match remains(seen, &identity, record) {
        Remains::InUse => Decision::wait(Reason::BucketsInUse.progressing(in_use(seen))),
        // The record is made before the user: without one there is no user.
        Remains::Unknown if record.is_none() => going(release(seen, &identity).into_iter().collect()),
        // A namespace never waits for a gateway: the record stays behind and the clean-up goes on from it.
        Remains::Unknown if seen.namespace_terminating => going(Vec::new()),
        Remains::Unknown => super::unavailable(&seen.backend),
        known => going(clear(seen, &identity, record, &known)),
    }
}

/// The claim is gone and its S3User is not: somebody took the finalizer off, or its namespace could not wait.
pub(super) fn of_orphan(seen: &Observed, record: &Record) -> Decision {
    let Some(identity) = &record.body.claim else {
        // Ours name their claim, so this is not ours.
        return Decision::wait(Reason::RecordTaken.stalled("the S3User names no claim"));
    };
    let verdict = Reason::ClaimGone.progressing("the user of a claim that is gone is being removed");
    match (remains(seen, identity, Some(record)), &seen.backend) {
        (Remains::InUse, _) => {
            let mark = mark(identity, Some(record), record.phase, Reason::BucketsInUse, in_use(seen));
            Decision::new(mark.into_iter().collect(), verdict)
        }
        (Remains::Unknown, Backend::NoClass(why)) => {
            let mark = mark(identity, Some(record), record.phase, why.reason(), why.message());
            Decision::new(mark.into_iter().collect(), verdict)
        }
        (Remains::Unknown, backend) => super::unavailable(backend),
        (known, _) => Decision::new(clear(seen, identity, Some(record), &known), verdict),
    }
}

/// There is a claim, but the S3User at its name was made for an earlier one.
pub(super) fn before_provisioning(seen: &Observed, record: &Record) -> Decision {
    let decision = of_orphan(seen, record);
    let name = seen.claim.as_ref().map(Claim::record_name).unwrap_or_default();
    let verdict = match (record.body.claim.is_some(), record.phase) {
        (false, _) => Reason::RecordTaken
            .stalled(format!("S3User {name} exists and names no claim; remove it or give the claim another name")),
        (true, Some(Phase::Released)) => Reason::UserTaken.stalled(format!(
            "S3User {name} keeps the buckets of an earlier claim of this name; remove them or give the claim another name"
        )),
        (true, _) => Reason::ClaimGone.progressing("the user of an earlier claim of this name is being removed"),
    };
    Decision { verdict, ..decision }
}

fn remains(seen: &Observed, claim: &ClaimIdentity, record: Option<&Record>) -> Remains {
    if !seen.buckets.is_empty() {
        return Remains::InUse;
    }
    let Backend::Reached(reached) = &seen.backend else { return Remains::Unknown };
    let user = ceph_user(&reached.class, &claim.namespace, &claim.name, record);
    // Who was let go with his data keeps it, even if the class has become stricter since.
    let released = record.is_some_and(|record| record.phase == Some(Phase::Released));
    match &reached.user {
        Some(found) if !found.is_of(&claim.uid) => Remains::Nothing,
        None => Remains::Nothing,
        Some(found) if !found.has_buckets => Remains::Removable { user, purge: false },
        Some(_) if reached.class.on_delete == OnDelete::Purge && !released => Remains::Removable { user, purge: true },
        Some(found) => Remains::Kept { user, suspended: found.suspended },
    }
}

/// Takes down what remains, up to and including the record.
fn clear(seen: &Observed, claim: &ClaimIdentity, record: Option<&Record>, remains: &Remains) -> Vec<Step> {
    let mut steps = Vec::new();
    let delete_record = || {
        let name = record_name(&claim.namespace, &claim.name);
        record.map(|record| Step::DeleteRecord { name, uid: record.uid.clone() })
    };
    match remains {
        Remains::Nothing => {
            steps.extend(release(seen, claim));
            steps.extend(delete_record());
        }
        Remains::Removable { user, purge } => {
            steps.push(Step::RemoveUser { user: user.clone(), purge: *purge });
            steps.extend(release(seen, claim));
            steps.extend(delete_record());
        }
        Remains::Kept { user, suspended } => {
            // Somebody may have removed the record, and another one may be in its place.
            let lost = record.is_none() && seen.record.is_none();
            let (name, body) = (record_name(&claim.namespace, &claim.name), body_of_kept(seen, claim, user));
            steps.extend(lost.then_some(Step::CreateRecord { name, body }));
            steps.extend((!suspended).then(|| Step::SuspendUser { user: user.clone() }));
            if lost || record.is_some() {
                let message = format!("the claim is gone; Ceph user {user} is suspended and its buckets are kept");
                steps.extend(mark(claim, record, Some(Phase::Released), Reason::BucketsKept, message));
            }
        }
        Remains::InUse | Remains::Unknown => {}
    }
    steps
}

/// After the user, before its record: what is in Ceph always counts.
fn release(seen: &Observed, claim: &ClaimIdentity) -> Option<Step> {
    let release = || Step::ReleaseQuota { namespace: claim.namespace.clone(), claim: claim.name.clone() };
    seen.books.hold_something().then(release)
}

fn body_of_kept(seen: &Observed, claim: &ClaimIdentity, user: &CephUser) -> RecordBody {
    let class = match &seen.backend {
        Backend::Reached(reached) => Some(reached.class.name.clone()),
        _ => None,
    };
    RecordBody { claim: Some(claim.clone()), class, user: Some(user.clone()), ..RecordBody::default() }
}

/// The mark, unless the record bears it already.
fn mark(
    claim: &ClaimIdentity,
    record: Option<&Record>,
    phase: Option<Phase>,
    reason: Reason,
    message: String,
) -> Option<Step> {
    let phase = phase.unwrap_or(Phase::Bound);
    let name = record_name(&claim.namespace, &claim.name);
    let mark = Mark { phase, reason, message };
    match record {
        Some(record) if record.bears(&mark) => None,
        record => Some(Step::MarkRecord { name, uid: record.map(|record| record.uid.clone()), mark }),
    }
}

fn in_use(seen: &Observed) -> String {
    let names = seen.buckets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("S3Buckets still use this claim: {names}; delete them (with s3DeletionPolicy: retain their data is kept)")
}
