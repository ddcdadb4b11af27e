//! What is stored of a backup is deleted by Velero, on a request of ours.

use std::time::Duration;

use super::{Observed, Path, Status, Step};
use crate::{
    backup::{
        OnDelete, Phase, Policy, Victim,
        copied::copied,
        ownership::Marks,
        velero::{Fields, text},
    },
    conditions::Truth,
    plan::Plan,
    time::Timestamp,
};

/// How long a refused deletion rests at least before Velero is asked again; the longer it is refused, the longer.
pub const ASK_AGAIN: Duration = Duration::from_secs(60);
/// For so long it rests at most: Velero forgets what it refused after a day.
const ASK_AGAIN_AT_LAST: Duration = Duration::from_secs(24 * 3600);
/// What Velero has not deleted after that long is worth a word, and asking once more: one it has begun with when it is restarted it
/// leaves alone for a day. It serves one request at a time and takes the others of the same backup away, so that a second is of no harm.
const TAKES_LONG: Duration = Duration::from_secs(3600);

/// A Velero `DeleteBackupRequest`.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    pub name: String,
    pub uid: String,
    pub version: String,
    pub marks: Marks,
    pub age: Duration,
    pub status: Fields,
}

impl Deletion {
    pub(super) fn is_processed(&self) -> bool {
        text(&self.status, "phase") == Some("Processed")
    }

    /// Velero has begun with it and is not done.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(text(&self.status, "phase"), None | Some("New" | "Processed"))
    }

    fn takes_long(&self) -> bool {
        self.is_under_way() && self.age >= TAKES_LONG
    }

    pub(super) fn removal(&self) -> Step {
        let deletion = Victim { name: self.name.clone(), uid: self.uid.clone() };
        Step::DeleteDeletion { deletion, version: self.version.clone() }
    }
}

/// Gets a deletion under way. A refused one would stay for a day, so that it makes room for the next.
pub(super) fn ask(seen: &Observed, backup: Victim) -> Plan<Step> {
    let asked = seen.deletions.iter().filter(|deletion| !deletion.is_processed());
    if let Some(youngest) = asked.min_by_key(|deletion| deletion.age) {
        return match TAKES_LONG.saturating_sub(youngest.age) {
            Duration::ZERO if youngest.is_under_way() => ask_beside(seen, backup),
            Duration::ZERO => Plan::settled(),
            rest => Plan::settled().look_again(rest),
        };
    }
    let (origin, name) = (seen.origin(), seen.origin().nacuuid);
    let Some(refused) = seen.last_deletion() else {
        return Plan::step(Step::CreateDeletion { name, origin, backup });
    };
    match seen.rest_of(refused) {
        Duration::ZERO => Plan::steps([refused.removal(), Step::CreateDeletion { name, origin, backup }]),
        rest => Plan::settled().look_again(rest),
    }
}

/// Once more, under whichever of two names is free. The request Velero has begun with is left to it: the policies around own buckets
/// go by it.
fn ask_beside(seen: &Observed, backup: Victim) -> Plan<Step> {
    let origin = seen.origin();
    let is_free = |name: &String| seen.deletions.iter().all(|deletion| deletion.name != *name);
    let name = [origin.nacuuid.clone(), format!("{}-again", origin.nacuuid)].into_iter().find(is_free);
    // Velero drops what it does not get done with after a day.
    let later = || Plan::settled().look_again(TAKES_LONG);
    name.map_or_else(later, |name| Plan::step(Step::CreateDeletion { name, origin, backup }))
}

impl Observed {
    /// The last request of ours to delete it.
    fn last_deletion(&self) -> Option<&Deletion> {
        self.own_deletions().min_by_key(|deletion| deletion.age)
    }

    /// How long to leave a refusal alone. One from before the backup was finished says nothing any more; one that is said to be
    /// finished in times to come would never say anything.
    fn rest_of(&self, refused: &Deletion) -> Duration {
        match self.ended {
            Some(ended) if !ended.is_zero() && refused.age >= ended => Duration::ZERO,
            _ => (self.overdue / 10).clamp(ASK_AGAIN, ASK_AGAIN_AT_LAST).saturating_sub(refused.age),
        }
    }
}

/// What is told of a backup that goes.
pub(super) fn tell(status: &mut Status, seen: &Observed, policy: &Policy, path: Path, now: &Timestamp) {
    const ACCEPTED: &str = "backup accepted for deletion";
    const AT_WORK: &str = "Velero is working on this backup: it goes as soon as Velero is done with it";
    const STRANDED: &str = "Velero could not store this backup and has nothing of it: it goes";
    const LONG: &str = "Velero has been deleting what is stored of this backup for more than an hour and is asked again each hour, in \
                        case it was restarted meanwhile";
    let withheld = seen.own_backup().and_then(|_| seen.withheld());
    let out_of_reach = seen.own_backup().and_then(|_| seen.out_of_reach()).filter(|_| !seen.is_waiting());
    let message = match (path, policy.on_delete) {
        (Path::ApiDelete, _) if seen.is_stranded().is_some() => STRANDED,
        (Path::ApiDelete, OnDelete::Hold) if !seen.loses_its_location() => {
            "backup deletion requires setting spec.deleteBackup or spec.forceDeleteBackup to true or finalizer removal"
        }
        (Path::ApiDelete, _) if seen.is_in_veleros_hands() => AT_WORK,
        (Path::ApiDelete, _) => "permanent backup deletion requires setting spec.deleteBackup to true",
        (Path::DeleteWithData, _) if seen.is_at_work() => AT_WORK,
        (Path::DeleteWithData, _) if seen.own_backup().is_some() && seen.loses_its_location() => {
            "the storage location of this backup is gone and Velero deletes nothing there: only spec.forceDeleteBackup helps"
        }
        (Path::DeleteWithData, _) if seen.own_deletions().any(Deletion::takes_long) => LONG,
        (Path::DeleteWithData, _) => withheld.as_deref().or(out_of_reach).unwrap_or(ACCEPTED),
        _ if seen.is_in_veleros_hands() => AT_WORK,
        _ => ACCEPTED,
    };
    status.phase = Some(Phase::Deleting);
    status.conditions.set("Deleting", Truth::True, "DeletionPending", message, now);
    if let Some(deletion) = seen.last_deletion() {
        let reference = status.velero_delete_backup_request.get_or_insert_default();
        reference.record(&seen.origin(), policy);
        reference.name = Some(deletion.name.clone());
        reference.status = Some(copied(&deletion.status));
    }
}
