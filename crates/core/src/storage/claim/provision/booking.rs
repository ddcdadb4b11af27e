//! What the books of its team are told about a claim that stays.

use super::{
    super::super::ledger::Units,
    super::{observed::User, step::Step},
    Wanted,
};

impl Wanted<'_> {
    /// Before Ceph is given more.
    pub(super) fn confirmation(&self) -> Option<Step> {
        let units = Units::from(&self.quota);
        let books = &self.seen.books;
        let has = self.seen.record.as_ref().and_then(|record| record.body.quota);
        let confirm = || Step::Confirm { claim: self.claim.target.clone(), generation: self.claim.generation, units };
        (books.exceeded.is_none() && !books.grant(&self.claim.form(), units, has)).then(confirm)
    }

    /// After Ceph was given less. What is stored beyond that counts until it is gone, also what an upload that was under way then has
    /// brought since; and what a migration brings is stored when it is over.
    pub(super) fn settlement(&self, user: Option<&User>) -> Option<Step> {
        if self.seen.holder().is_some() {
            return None;
        }
        let (seen, has) = self.seen.books.settled(Units::from(&self.quota), self.stored(user)?)?;
        Some(Step::Settle { claim: self.claim.target.place(), form: self.claim.form(), seen: seen.clone(), has })
    }

    /// What the user has stored and cannot add to beyond its quota, if it was told.
    fn stored(&self, user: Option<&User>) -> Option<Units> {
        match user {
            None => Some(Units::default()),
            Some(user) => user.usage.filter(|_| self.user_itself(Some(user)).is_empty()).map(Units::from),
        }
    }

    /// Whether it has yet to be asked what is stored, before what Ceph was given less of is free.
    pub(super) fn is_to_settle(&self, user: Option<&User>) -> bool {
        let is_beyond = self.seen.books.beyond(Units::from(&self.quota)).is_some();
        is_beyond && self.stored(user).is_none() && self.seen.holder().is_none()
    }
}
