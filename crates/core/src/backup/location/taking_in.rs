//! What Velero takes in from the bucket of a location: nothing unless that was asked for, nothing while nobody judges it, and not more
//! than there is room for.

use serde_json::Value;

use super::{Observed, Status, Step, Target};
use crate::{
    backup::{duration, velero::Fields},
    conditions::Truth,
    time::Timestamp,
};

pub(in crate::backup) const SYNC_PERIOD: &str = "backupSyncPeriod";

/// More backups than this Velero does not find in a tenant's own bucket: each is an object in the cluster, and who writes the bucket
/// decides how many there are.
const MOST_TAKEN_IN: usize = 5_000;
/// Said of a location that has too many to look for more.
const SYNCHRONISED: &str = "Synchronised";

impl Observed {
    /// What others put into a bucket appears in the cluster only where that was asked for in so many words, and while there is room.
    pub(super) fn synchronised(&self, spec: &Fields) -> Fields {
        let mut spec = spec.clone();
        if self.is_full() || spec.get(SYNC_PERIOD).is_none_or(Value::is_null) {
            spec.insert(SYNC_PERIOD.to_owned(), "0s".into());
        }
        spec
    }

    /// Once it has too many, it has to be rid of some before it looks for more.
    fn is_full(&self) -> bool {
        let most =
            if self.status.conditions.get(SYNCHRONISED).is_some() { MOST_TAKEN_IN / 10 * 9 } else { MOST_TAKEN_IN };
        self.is_own_bucket() && self.taken_in >= most
    }
}

/// Nothing is taken in from a tenant's own bucket while nobody judges it, whatever else is wrong. Where Velero has it, it says whose it
/// is.
pub(super) fn silence(seen: &Observed) -> Option<Step> {
    let Target::Ours(velero) = seen.velero() else { return None };
    let is_judged = !seen.is_own_bucket() || seen.missing_fences.is_empty();
    if is_judged || (velero.is_own_bucket && is_synchronised_never(&velero.spec)) {
        return None;
    }
    let mut spec = velero.spec.clone();
    spec.insert(SYNC_PERIOD.to_owned(), "0s".into());
    Some(Step::UpdateLocation { name: seen.origin().nacuuid, uid: velero.uid.clone(), spec, is_own_bucket: true })
}

/// One length of time says something even at nought: that Velero does not synchronise.
pub(crate) fn is_synchronised_never(spec: &Fields) -> bool {
    spec.get(SYNC_PERIOD).and_then(Value::as_str).and_then(duration::nanoseconds) == Some(0.0)
}

pub(super) fn tell(status: &mut Status, seen: &Observed, now: &Timestamp) {
    let is_asked =
        seen.spec.get(SYNC_PERIOD).is_some_and(|period| !period.is_null()) && !is_synchronised_never(&seen.spec);
    if is_asked && seen.is_full() {
        let message =
            format!("there are {MOST_TAKEN_IN} backups in this location: Velero looks for more when there are fewer");
        status.conditions.set(SYNCHRONISED, Truth::False, "TooManyBackups", message, now);
    } else {
        status.conditions.remove(SYNCHRONISED);
    }
}
