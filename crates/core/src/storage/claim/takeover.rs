//! A user that was an earlier claim's, or ceph-s3-operator's, becomes this claim's.
//!
//! Whoever held it before is out before it can be used again, wherever the operator dies on the way: the record says first who
//! gets what from whom; then the old keys go, while the user is suspended; then one call makes it the claim's and lifts the
//! suspension; then new keys are made.

use super::{
    super::{display_name, is_of_ceph_s3_operator, names_claim},
    observed::{Claim, Observed, Record, User},
};

/// How a claim stands to the Ceph user of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Title {
    Own,
    /// It is to be this claim's and nobody else's.
    Given,
    /// It has been this very claim's all along, by the word of an administrator: who has its keys keeps them.
    Adopted,
    None,
}

pub(super) fn title(seen: &Observed, claim: &Claim, user: &User) -> Title {
    let (namespace, name) = (&claim.target.namespace, &claim.target.name);
    let Some(record) = seen.record.as_ref().filter(|_| !user.is_of(&claim.target.uid)) else {
        return if user.is_of(&claim.target.uid) { Title::Own } else { Title::None };
    };
    let is_adopted = record.adopts && is_of_ceph_s3_operator(&user.display_name, namespace, name);
    if record.is_of(claim) {
        return if record.takes_over(&user.display_name) {
            Title::Given
        } else if is_adopted {
            Title::Adopted
        } else {
            Title::None
        };
    }
    let is_offered = record.is_meant_for(claim) && (is_adopted || names_claim(&user.display_name, namespace, name));
    let is_returned = seen.comes_back(record) && record.claim_uid().is_some_and(|uid| user.is_of(uid));
    if is_offered || is_returned { Title::Given } else { Title::None }
}

/// The class the record names, if the claim asks for another one: a user cannot change its gateway.
pub(super) fn other_class<'a>(claim: &Claim, record: &'a Record) -> Option<&'a str> {
    let asked = claim.spec.as_ref().ok()?.class.as_deref()?;
    record.body.class.as_deref().filter(|recorded| !record.is_of(claim) && *recorded != asked)
}

/// The user once it is taken over.
pub(super) fn taken_over(title: Title, claim: &Claim, user: &User) -> User {
    let target = &claim.target;
    let display_name = display_name(&target.namespace, &target.name, &target.uid);
    match title {
        Title::Given => User { display_name, suspended: false, keys: Vec::new(), ..user.clone() },
        _ => User { display_name, ..user.clone() },
    }
}
