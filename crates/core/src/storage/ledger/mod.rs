//! The books of a team's storage: what each of its claims was promised.
//!
//! Admission reserves, the controller confirms before it gives Ceph more and lowers after it has given Ceph less; whatever
//! was reserved in vain is given back once it is old. A claim is charged with the largest of what it was granted, what it was
//! promised and what it has stored, member by member, so in between the sum is never below what Ceph may have.
//!
//! Guarantees:
//! - no growth passes a limit; reaching it is allowed, and a limit that is missing limits nothing;
//! - what is stored counts, also where it passes a limit, as an upload does that began under a higher quota: nobody gets more then,
//!   and who stores it has no right to as much;
//! - what does not grow is never refused, also while a limit is passed because it was lowered or a namespace came;
//! - a promise is kept until somebody who has seen the claim as the promise is for it confirms or settles it, or it is old and
//!   not what the claim asks for;
//! - what is given back is what whoever gives it back has seen: a word that comes late does nothing to a grant that came after it.

mod entry;
mod names;
mod units;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::Quota;
pub use entry::{Asks, Entry, Form, Regranted, Reservation, Settled};
pub use names::{BooksOf, claim_of_entry, entry_key, ledger_name, vault_entry_key, vault_of_entry};
use units::CLAIMS;
pub use units::{Bounds, Exceeded, Limits, Member, Scope, Units};

/// Reservations are left alone for this long: longer than any request to the API server takes.
pub const GRACE: Duration = Duration::from_secs(120);

/// The most claims of one namespace: so that one namespace cannot fill the books of all its team, which are one object.
pub const MOST_CLAIMS: usize = 1000;

/// The most claims of one team: so that its books can be stored whatever its claims and namespaces are called. With the longest names,
/// a promise each and more stored than was granted they have 1.45 MB, and etcd takes 1.5.
pub const MOST_IN_BOOKS: usize = 2000;

/// Books that take no more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Whether a request has to be promised what it asks for: one that asks for no more than the claim `had` is let in unasked.
pub fn needs_promise(had: Option<Units>, wanted: Units) -> bool {
    !had.is_some_and(|had| wanted.is_within(had))
}

/// The entries of a ledger by `<namespace>/<claim>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    pub entries: BTreeMap<String, Entry>,
    /// Those of them that have no place in these books, and only count in them while they are worked on.
    pub(super) seated: BTreeSet<String>,
}

impl Ledger {
    pub fn with(entries: impl IntoIterator<Item = (String, Entry)>) -> Self {
        Self { entries: entries.into_iter().collect(), seated: BTreeSet::new() }
    }

    /// Books that are lost, made anew of what is on record: of each user where it is booked, the UID of its claim, and what it was
    /// granted.
    pub fn rebuilt(records: impl IntoIterator<Item = (String, Option<String>, Option<Quota>)>) -> Self {
        let mut ledger = Self::default();
        for (place, uid, granted) in records {
            // Whatever form of the claim is there now is a later one.
            let form = uid.map(|uid| Form { uid, generation: 0 });
            ledger.adopt(&place, &Entry { form, granted: granted.as_ref().map(Units::from), ..Entry::default() });
        }
        ledger
    }

    pub fn sum(&self) -> Units {
        self.entries.values().map(Entry::charge).fold(Units::default(), Units::plus)
    }

    pub fn sum_of(&self, namespace: &str) -> Units {
        self.of(namespace).map(Entry::charge).fold(Units::default(), Units::plus)
    }

    /// The entries of one namespace.
    fn of(&self, namespace: &str) -> impl Iterator<Item = &Entry> {
        let prefix = entry_key(namespace, "");
        let own = self.entries.range(prefix.clone()..);
        own.take_while(move |(key, _)| key.starts_with(&prefix)).map(|(_, entry)| entry)
    }

    /// What each namespace is charged with.
    pub fn sums(&self) -> BTreeMap<&str, Units> {
        let mut sums = BTreeMap::<&str, Units>::new();
        for (key, entry) in &self.entries {
            let sum = sums.entry(claim_of_entry(key).map_or("", |(namespace, _)| namespace)).or_default();
            *sum = sum.plus(entry.charge());
        }
        sums
    }

    /// Whether the claim may have this much: what is more than it may have already must fit. What does not grow always fits.
    pub fn fits(&self, key: &str, wanted: Units, limits: &Limits) -> Result<(), Exceeded> {
        let namespace = claim_of_entry(key).map_or("", |(namespace, _)| namespace);
        let before = self.entries.get(key).map(Entry::may_have).unwrap_or_default();
        let counted = self.entries.get(key).map(Entry::charge).unwrap_or_default();
        if !self.entries.contains_key(key) {
            self.has_room(namespace)?;
        } else if self.seated.contains(key) && !wanted.is_within(before) {
            self.has_a_place()?;
        }
        let bounds =
            [(Scope::Namespace, limits.namespace, self.sum_of(namespace)), (Scope::Team, limits.team, self.sum())];
        for (scope, bounds, sum) in bounds {
            for (member, asked) in wanted.members() {
                let (had, Some(limit)) = (before.get(member), bounds.get(member)) else { continue };
                // Others' share: the sum is at least the claim's own charge, unless it is beyond what can be counted.
                let others = sum.get(member).saturating_sub(counted.get(member));
                let left = limit.saturating_sub(others);
                if asked > had && asked > left {
                    return Err(Exceeded { scope, units: member.units(), asked, left, limit });
                }
            }
        }
        Ok(())
    }

    /// Whether the books can take one more entry.
    fn has_room(&self, namespace: &str) -> Result<(), Exceeded> {
        let counts = [
            (Scope::Namespace, self.of(namespace).count(), MOST_CLAIMS),
            (Scope::Team, self.entries.len(), MOST_IN_BOOKS),
        ];
        match counts.into_iter().find(|(_, count, most)| count >= most) {
            Some((scope, _, most)) => Err(too_many(scope, most)),
            None => Ok(()),
        }
    }

    /// Whether one who only counts in these books can have a place of his own.
    fn has_a_place(&self) -> Result<(), Exceeded> {
        let taken = self.entries.len().saturating_sub(self.seated.len());
        if taken < MOST_IN_BOOKS { Ok(()) } else { Err(too_many(Scope::Team, MOST_IN_BOOKS)) }
    }

    /// Promises a claim this much. What was promised before and is not confirmed stays promised: the request that asked for
    /// it may still be under way.
    pub fn reserve(&mut self, key: &str, reservation: Reservation, limits: &Limits) -> Result<(), Exceeded> {
        self.fits(key, reservation.units, limits)?;
        self.seated.remove(key);
        let entry = self.entries.entry(key.to_owned()).or_default();
        entry.pending = Some(match entry.pending.take() {
            None => reservation,
            Some(before) => {
                let units = before.units.or_more(reservation.units);
                let is_later = before.form.uid == reservation.form.uid && before.form.succeeds(&reservation.form);
                let form = if is_later { before.form } else { reservation.form };
                Reservation { units, form, ..reservation }
            }
        });
        Ok(())
    }

    /// Grants a stored claim what it asks for: what was promised, else what fits. From now on Ceph may have it.
    pub fn confirm(&mut self, key: &str, form: &Form, wanted: Units, limits: &Limits) -> Result<(), Exceeded> {
        self.fits(key, wanted, limits)?;
        self.seated.remove(key);
        let entry = self.entries.entry(key.to_owned()).or_default();
        entry.granted = Some(entry.granted.unwrap_or_default().or_more(wanted));
        entry.forget_what_is_granted();
        entry.note(form);
        Ok(())
    }

    /// Ceph has this: what it had beyond that before is free again, and what is stored beyond what was granted counts, whatever the limits.
    pub fn settle(&mut self, key: &str, seen: &Entry, form: &Form, has: Settled) -> Result<(), Regranted> {
        let Some(entry) = self.granted_as(key, seen)? else { return Ok(()) };
        if entry.granted.is_some() {
            (entry.granted, entry.stored) = (Some(has.granted), has.stored);
        }
        entry.note(form);
        Ok(())
    }

    /// Ceph has nothing any more. A promise to the next claim of that name stays.
    pub fn release(&mut self, key: &str, seen: &Entry) -> Result<(), Regranted> {
        let Some(entry) = self.granted_as(key, seen)? else { return Ok(()) };
        (entry.granted, entry.stored, entry.form) = (None, None, None);
        self.drop_if_empty(key);
        Ok(())
    }

    /// The entry as it was seen, but for what is promised meanwhile; nothing if it is gone.
    fn granted_as(&mut self, key: &str, seen: &Entry) -> Result<Option<&mut Entry>, Regranted> {
        match self.entries.get_mut(key) {
            Some(entry) if !entry.is_granted_as(seen) => Err(Regranted),
            entry => Ok(entry),
        }
    }

    /// A promise nobody has confirmed in time becomes what the claim, read just now, asks for, and never more than was
    /// promised. What the claim asks for stays promised although it is granted: the grant may be about to be lowered by who has
    /// not seen the claim since.
    pub fn repair(&mut self, key: &str, asks: Option<&Asks>, now: u64) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.is_in_vain(asks, now) {
            entry.pending = entry.repaired(asks, now);
        }
        self.drop_if_empty(key);
    }

    /// Takes over an entry from other books, or from what Ceph has. Limits do not count: it is there already.
    pub fn adopt(&mut self, key: &str, entry: &Entry) {
        let own = self.entries.entry(key.to_owned()).or_default();
        own.form = own.form.take().or_else(|| entry.form.clone());
        let larger = |own: Option<Units>, other: Option<Units>| match (own, other) {
            (Some(own), Some(other)) => Some(own.or_more(other)),
            (own, other) => own.or(other),
        };
        (own.granted, own.stored) = (larger(own.granted, entry.granted), larger(own.stored, entry.stored));
        own.forget_what_is_granted();
        own.pending = match (own.pending.take(), entry.pending.clone()) {
            (Some(own), Some(other)) => Some(Reservation { units: own.units.or_more(other.units), ..own }),
            (own, other) => own.or(other),
        };
        self.drop_if_empty(key);
    }

    /// Takes over an entry from other books, unless these would become too long to be stored: where it stands it counts as well.
    pub fn take_over(&mut self, key: &str, entry: &Entry) -> Result<(), Full> {
        if !self.entries.contains_key(key) && self.entries.len() >= MOST_IN_BOOKS {
            return Err(Full);
        }
        self.adopt(key, entry);
        Ok(())
    }

    /// Lets go of an entry that stands in other books as it was seen here; one that has changed since stays.
    pub fn forget(&mut self, key: &str, seen: &Entry) {
        if self.entries.get(key) == Some(seen) {
            self.entries.remove(key);
        }
    }

    fn drop_if_empty(&mut self, key: &str) {
        if self.entries.get(key).is_some_and(Entry::is_empty) {
            self.entries.remove(key);
        }
    }
}

fn too_many(scope: Scope, most: usize) -> Exceeded {
    Exceeded { scope, units: CLAIMS, asked: 1, left: 0, limit: u64::try_from(most).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests;
