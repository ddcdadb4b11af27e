//! What a look at a claim asks its gateway: no more than the decision needs.

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::ledger::{Entry, Units},
    observed::{Claim, Record},
    set_aside::SetAside,
};

/// Whether the Ceph user may be there already. A claim that bears no mark of ours has none: it is made without asking, and
/// should there be one after all, of somebody else, the gateway refuses.
pub fn may_exist(claim: Option<&Claim>, record: Option<&Record>) -> bool {
    record.is_some() || claim.is_none_or(|claim| claim.finalizer || claim.deleting)
}

/// Whether nothing of it can be in Ceph yet: a class may take nobody new and still have to let those go that it has.
pub fn is_new(claim: Option<&Claim>, record: Option<&Record>) -> bool {
    record.is_none() && claim.is_none_or(|claim| !claim.deleting && claim.status.s3_user.is_none())
}

/// Whether the plan will ask if the user has buckets.
pub fn is_cleanup(claim: Option<&Claim>, record: Option<&Record>) -> bool {
    match (claim, record) {
        (None, _) => true,
        (Some(claim), None) => claim.deleting,
        (Some(claim), Some(record)) => claim.deleting || !record.is_meant_for(claim),
    }
}

/// Whether the user of a claim may have a past its record knows nothing of: somebody removed the one before, or restored it without
/// what it said, or it is made for a user that is there already.
pub(super) fn is_made_anew(claim: &Claim, record: Option<&Record>) -> bool {
    record.is_none_or(|record| {
        let body = &record.body;
        let is_handed_down = body.taken_over_from.is_some() || body.offered_to.is_some() || record.adopts;
        record.is_blank() && (is_handed_down || claim.status.s3_user.is_some())
    })
}

/// A claim that became ready less than this ago has nothing stored worth asking for.
const NEW: Duration = Duration::from_secs(60);

/// What to ask of a user besides itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    Nothing,
    /// What it has stored. If that cannot be found out it is not told, and what is booked for it stays booked.
    Usage {
        /// Whether quota is given back by it, so that no bucket may be missing in it.
        exactly: bool,
    },
    /// Its buckets, which decide what becomes of it. How many there are, what is in those that are left is needed, and what is in those
    /// that are kept is not.
    Buckets(SetAside),
}

/// Whether the buckets of the user decide what becomes of it, or of its record.
fn needs_buckets(claim: Option<&Claim>, record: Option<&Record>) -> bool {
    is_cleanup(claim, record) || claim.is_some_and(|claim| is_made_anew(claim, record))
}

/// Whether what is stored decides how much is free of what is booked: that is more than is on record.
pub fn has_to_settle(claim: Option<&Claim>, record: Option<&Record>, booked: Option<&Entry>) -> bool {
    let has = record.and_then(|record| record.body.quota).map(|quota| Units::from(&quota)).unwrap_or_default();
    let has_more = booked.and_then(Entry::has).is_some_and(|booked| !booked.is_within(has));
    has_more && !needs_buckets(claim, record)
}

/// To take a user down its buckets must be known, and to record one that was there before; what one has stored for which more is
/// booked than it was granted, or that has had all it asks for `for_some_time`, is told.
pub fn inquiry(
    claim: Option<&Claim>,
    record: Option<&Record>,
    booked: Option<&Entry>,
    for_some_time: Duration,
) -> Inquiry {
    if needs_buckets(claim, record) {
        return Inquiry::Buckets(record.map(|record| record.set_aside.clone()).unwrap_or_default());
    }
    let is_at_rest = for_some_time >= NEW && claim.is_some_and(Claim::is_settled);
    let exactly = has_to_settle(claim, record, booked);
    if is_at_rest || exactly { Inquiry::Usage { exactly } } else { Inquiry::Nothing }
}

/// Up to so many buckets are asked for with their contents at once. Each look at a user that goes asks again, and there is at least
/// one for each bucket.
pub const COUNTED_AT_ONCE: usize = 100;
/// What a bucket is taken to hold that was not looked into: the most that can be written down.
pub const UNCOUNTED: u64 = i64::MAX.unsigned_abs();
/// Of more, the contents of the first few are asked for one by one, and all others are taken to hold something until it is their
/// turn.
const COUNTED_SINGLY: usize = 8;

/// The buckets to look into, of too many to look into all.
pub fn to_count<'a>(names: &'a BTreeSet<String>, set_aside: &'a SetAside) -> impl Iterator<Item = &'a String> {
    let left = names.intersection(&set_aside.left);
    left.chain(names.iter().filter(|name| !set_aside.holds(name)).take(COUNTED_SINGLY))
}
