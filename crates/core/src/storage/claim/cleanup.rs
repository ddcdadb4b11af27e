//! A claim that goes, or is gone: its user is removed, or kept where it has buckets and the class keeps them.

use std::time::Duration;

use super::{
    super::{OnDelete, Reason, reason::readiness_of, record_name},
    Decision,
    observed::{Backend, Claim, ClaimIdentity, Observed, Phase, Purge, Record, RecordBody},
    step::{Mark, Step},
    take_down::{Left, TakeDown},
};

/// The claim is being deleted.
pub(super) fn of_claim(seen: &Observed, claim: &Claim) -> Decision {
    // A record of an earlier claim is not this one's business: it is looked at again when this claim is gone.
    let record = seen.record.as_ref().filter(|record| record.belongs_to(&claim.target.uid));
    let identity = ClaimIdentity {
        namespace: claim.target.namespace.clone(),
        name: claim.target.name.clone(),
        uid: claim.target.uid.clone(),
    };
    let going = |mut steps: Vec<Step>| {
        steps.extend(claim.finalizer.then(|| Step::RemoveFinalizer { claim: claim.target.clone() }));
        Decision::new(steps, Reason::Deleting.progressing("the user is being removed"))
    };
    // A namespace never waits for a gateway: the record stays behind, says what was meant, and the clean-up goes on from it.
    // What we take away ourselves nobody gave up.
    let deleted = !seen.is_withdrawn();
    let given_up = |record: &Record| removing(&identity, record, None).filter(|_| deleted);
    let leave_to_record = |record: &Record| going(given_up(record).into_iter().collect());
    // Unless there is one of another claim in its place.
    let recorded = || {
        let body = body_of_unknown(claim, identity.clone());
        seen.record.is_none().then(|| Step::CreateRecord { name: claim.record_name(), body })
    };
    match (seen.holder(), record) {
        (Some(_), Some(record)) if seen.namespace_terminating => return leave_to_record(record),
        (Some(_), Some(_)) => return super::held(seen),
        _ => {}
    }
    if !seen.buckets.is_empty() {
        return Decision::wait(Reason::BucketsInUse.progressing(in_use(seen)));
    }
    match (&seen.backend, record) {
        (Backend::Reached(reached), record) => {
            let take_down = TakeDown { seen, reached, claim: &identity, record, deleted };
            match (take_down.decide(), record) {
                // It may take more than one look until they are gone.
                (Left::Nothing(steps), Some(record)) if seen.namespace_terminating && removes_buckets(&steps) => {
                    leave_to_record(record)
                }
                (Left::Nothing(steps), _) => going(steps),
                (Left::Unknown(steps, _), Some(record)) if seen.namespace_terminating => {
                    going(steps.into_iter().chain(given_up(record)).collect())
                }
                (Left::Unknown(steps, _), None) if seen.namespace_terminating => {
                    going(steps.into_iter().chain(recorded()).collect())
                }
                (Left::Unknown(steps, failure), _) => Decision::new(steps, readiness_of(&failure)),
                (Left::Kept(steps), _) => {
                    let message =
                        format!("the user is suspended and its buckets are kept; see S3User {}", claim.record_name());
                    Decision { verdict: Reason::BucketsKept.progressing(message), ..going(steps) }
                }
                (Left::Purging { .. }, Some(record)) if seen.namespace_terminating => leave_to_record(record),
                (Left::Purging { steps, told, next }, _) => {
                    Decision::new(steps, Reason::Deleting.progressing(told)).again(next)
                }
            }
        }
        // Somebody may have removed the record of a user that is there.
        (_, None) if seen.may_have_user(claim) && seen.namespace_terminating => going(recorded().into_iter().collect()),
        (backend, None) if seen.may_have_user(claim) => super::unavailable(backend),
        (_, None) => going(release(seen, &identity, None).into_iter().collect()),
        (_, Some(record)) if seen.namespace_terminating => leave_to_record(record),
        (backend, Some(_)) => super::unavailable(backend),
    }
}

/// What can be said of a user nobody can ask after; the clean-up finds it by this.
fn body_of_unknown(claim: &Claim, identity: ClaimIdentity) -> RecordBody {
    let asked = claim.spec.as_ref().ok().and_then(|spec| spec.class.clone());
    RecordBody {
        claim: Some(identity),
        class: claim.status.class.clone().or(asked),
        quota: claim.status.quota,
        ..RecordBody::default()
    }
}

/// The claim is gone and its S3User is not: somebody took the finalizer off, or its namespace could not wait.
pub(super) fn of_orphan(seen: &Observed, record: &Record) -> Decision {
    let offered = match &seen.backend {
        Backend::Reached(reached) => record.last_of(reached),
        _ => None,
    };
    let Some(identity) = record.body.claim.as_ref().or(offered.as_ref()) else {
        return Decision::wait(match &record.body.offered_to {
            Some(place) => Reason::ClaimGone.progressing(format!("the user waits for S3UserClaim {place}")),
            // Ours name their claim, so this is not ours.
            None => Reason::RecordTaken.stalled("the S3User names no claim"),
        });
    };
    let verdict = |told: String| Reason::ClaimGone.progressing(told);
    let removed = || verdict("the user of a claim that is gone is being removed".to_owned());
    let told = |reason, message: String| {
        let phase = record.phase.unwrap_or(Phase::Bound);
        let mark = Mark { phase, reason, message, purge: None, ..unchanged(record) };
        Decision::new(marked(identity, Some(record), mark).into_iter().collect(), removed())
    };
    match &seen.backend {
        _ if !seen.buckets.is_empty() => told(Reason::BucketsInUse, in_use(seen)),
        Backend::NoClass(why) => told(why.reason(), why.message()),
        backend @ Backend::Unreachable(_) => super::unavailable(backend),
        Backend::Reached(reached) => {
            // Only a deletion that we saw ourselves means that the data are given up: a record may also be there without
            // its claim because somebody restores one after the other.
            let deleted = record.phase == Some(Phase::Removing);
            let take_down = TakeDown { seen, reached, claim: identity, record: Some(record), deleted };
            match take_down.decide() {
                // What nothing was known of goes with the next look, and what we note ourselves wakes nobody.
                Left::Kept(steps) if reached.class.on_delete == OnDelete::GiveUp && !steps.is_empty() => {
                    Decision::new(steps, removed()).again(Duration::ZERO)
                }
                Left::Nothing(steps) | Left::Kept(steps) => Decision::new(steps, removed()),
                Left::Unknown(steps, failure) => Decision::new(steps, readiness_of(&failure)),
                Left::Purging { steps, told, next } => Decision::new(steps, verdict(told)).again(next),
            }
        }
    }
}

/// There is a claim, but the S3User at its name was made for an earlier one.
pub(super) fn before_provisioning(seen: &Observed, record: &Record) -> Decision {
    let decision = of_orphan(seen, record);
    let name = seen.claim.as_ref().map(Claim::record_name).unwrap_or_default();
    let verdict = match (record.body.claim.is_some(), record.phase) {
        (false, _) => Reason::RecordTaken.stalled(match &record.misnamed {
            None => format!("S3User {name} exists and names no claim; remove it or give the claim another name"),
            Some(ClaimIdentity { namespace, name: other, uid }) => format!(
                "S3User {name} names S3UserClaim {namespace}/{other} with uid {uid} instead of this one: somebody edited its \
                 spec.claimRef; ask the administrator to put that right, or to remove the S3User, which is then made anew"
            ),
        }),
        (true, Some(Phase::Released)) => Reason::UserTaken.stalled(format!(
            "S3User {name} keeps the buckets of an earlier claim of this name; give the claim another name, or ask the \
             administrator to remove spec.claimRef.uid from the S3User, which gives them to this claim"
        )),
        (true, _) if !seen.buckets.is_empty() => Reason::BucketsInUse.stalled(format!(
            "S3Buckets use the user of an earlier claim of this name: {}; delete them (with s3DeletionPolicy: retain their \
             data is kept)",
            names(seen)
        )),
        (true, _) => match (&seen.backend, decision.verdict) {
            (Backend::Reached(_), verdict) => verdict,
            (backend, _) => super::unavailable(backend).verdict,
        },
    };
    Decision { verdict, ..decision }
}

/// Says on the record that the claim was deleted, and how far its removal has come.
pub(super) fn removing(claim: &ClaimIdentity, record: &Record, purge: Option<Purge>) -> Option<Step> {
    // What was let go stays so, and one that knows nothing of its buckets gives up none.
    if record.phase == Some(Phase::Released) || !record.knows_of_its_buckets() {
        return None;
    }
    going(claim, record, Phase::Removing, purge)
}

/// The same where the class gives everything up. What nobody else gave up is not said to be: the class may think better of it before
/// all is gone.
pub(super) fn given_up(claim: &ClaimIdentity, record: &Record, deleted: bool, purge: Option<Purge>) -> Option<Step> {
    let before = record.phase.unwrap_or(Phase::Bound);
    let phase = if deleted && before != Phase::Released { Phase::Removing } else { before };
    going(claim, record, phase, purge)
}

fn going(claim: &ClaimIdentity, record: &Record, phase: Phase, purge: Option<Purge>) -> Option<Step> {
    let message = "the claim was deleted; what it has in Ceph is being removed".to_owned();
    let mark = Mark { phase, reason: Reason::Deleting, message, purge, ..unchanged(record) };
    marked(claim, Some(record), mark)
}

/// What a record says of its buckets and of where it may return to.
fn unchanged(record: &Record) -> Mark {
    Mark {
        phase: Phase::Bound,
        reason: Reason::Provisioned,
        message: String::new(),
        set_aside: record.set_aside.clone(),
        purge: None,
        returns_to: record.returns_to.clone(),
    }
}

/// After the user, before its record: what is in Ceph always counts, and what another claim of the name has on record or in Ceph still
/// does.
pub(super) fn release(seen: &Observed, claim: &ClaimIdentity, record: Option<&Record>) -> Option<Step> {
    let has_user = match &seen.backend {
        Backend::Reached(reached) => reached.user.as_ref().is_some_and(|user| !user.is_of(&claim.uid)),
        _ => false,
    };
    let is_anothers = record.is_none() && (seen.record.is_some() || has_user);
    let seen = seen.books.granting().filter(|_| !is_anothers)?.clone();
    Some(Step::ReleaseQuota { namespace: claim.namespace.clone(), claim: claim.name.clone(), seen })
}

/// The mark, unless the record bears it already.
pub(super) fn marked(claim: &ClaimIdentity, record: Option<&Record>, mark: Mark) -> Option<Step> {
    let name = record_name(&claim.namespace, &claim.name);
    match record {
        Some(record) if record.bears(&mark) => None,
        record => Some(Step::MarkRecord { name, seen: record.map(Record::version), mark }),
    }
}

fn removes_buckets(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::RemoveEmptyBucket { .. }))
}

fn in_use(seen: &Observed) -> String {
    let names = names(seen);
    format!("S3Buckets still use this claim: {names}; delete them (with s3DeletionPolicy: retain their data is kept)")
}

fn names(seen: &Observed) -> String {
    seen.buckets.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
