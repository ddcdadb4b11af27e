//! The books of a team's storage: what each of its claims was promised.
//!
//! Admission reserves, the controller confirms before it gives Ceph more and lowers after it has given Ceph less; whatever
//! was reserved in vain is given back once it is old. A claim is charged with the larger of what it has and what it was
//! promised, member by member, so in between the sum is never below what Ceph may have.
//!
//! Guarantees:
//! - no growth passes a limit; reaching it is allowed, and a limit that is missing limits nothing;
//! - what is stored counts, also where it passes a limit, as an upload does that began under a higher quota: nobody gets more then;
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
pub use entry::{Asks, Entry, Form, Regranted, Reservation};
pub use names::{BooksOf, claim_of_entry, entry_key, ledger_name, vault_entry_key, vault_of_entry};
use units::CLAIMS;
pub use units::{Bounds, Exceeded, Limits, Member, Scope, Units};

/// Reservations are left alone for this long: longer than any request to the API server takes.
pub const GRACE: Duration = Duration::from_secs(120);

/// The most claims of one namespace: so that one namespace cannot fill the books of all its team, which are one object.
pub const MOST_CLAIMS: usize = 1000;

/// The most claims of one team: so that its books can be stored whatever its claims and namespaces are called. With the longest names
/// and a promise each they have 1.3 MB, and etcd takes 1.5.
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
            ledger.adopt(&place, &Entry { form, granted: granted.as_ref().map(Units::from), pending: None });
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

    /// Whether the claim may have this much: what grows its charge must fit. What does not grow always fits.
    pub fn fits(&self, key: &str, wanted: Units, limits: &Limits) -> Result<(), Exceeded> {
        let namespace = claim_of_entry(key).map_or("", |(namespace, _)| namespace);
        let before = self.entries.get(key).map(Entry::charge).unwrap_or_default();
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
                let others = sum.get(member).saturating_sub(had);
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
        entry.note(form);
        Ok(())
    }

    /// Ceph has this: what it had beyond that before is free again, and what it has beyond what was granted counts, whatever the limits.
    pub fn settle(&mut self, key: &str, seen: &Entry, form: &Form, has: Units) -> Result<(), Regranted> {
        let Some(entry) = self.granted_as(key, seen)? else { return Ok(()) };
        entry.granted = entry.granted.map(|_| has);
        entry.note(form);
        Ok(())
    }

    /// Ceph has nothing any more. A promise to the next claim of that name stays.
    pub fn release(&mut self, key: &str, seen: &Entry) -> Result<(), Regranted> {
        let Some(entry) = self.granted_as(key, seen)? else { return Ok(()) };
        (entry.granted, entry.form) = (None, None);
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
        own.granted = match (own.granted, entry.granted) {
            (Some(own), Some(other)) => Some(own.or_more(other)),
            (own, other) => own.or(other),
        };
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
mod tests {
    use super::{super::Amount, *};
    use crate::quantity::Quantity;

    fn size(size: u64) -> Units {
        Units { size, ..Units::default() }
    }

    fn at_most(most: u64) -> Limits {
        Limits { team: Bounds { size: Some(most), ..Bounds::default() }, ..Limits::default() }
    }

    fn form(generation: i64) -> Form {
        Form { uid: "u".into(), generation }
    }

    fn promise(units: Units) -> Reservation {
        promise_for(1, units)
    }

    fn promise_for(generation: i64, units: Units) -> Reservation {
        Reservation { units, at: 0, request: "r".into(), form: form(generation) }
    }

    fn settle(ledger: &mut Ledger, form: &Form, has: Units) {
        let seen = ledger.entries["a/x"].clone();
        ledger.settle("a/x", &seen, form, has).unwrap();
    }

    #[test]
    fn books_that_are_lost_are_made_anew_of_what_is_on_record() {
        let amount = |text: &str| Amount::try_from(text.parse::<Quantity>().unwrap()).unwrap();
        let quota = Quota { size: amount("8"), objects: amount("0"), buckets: 0 };
        let records = [("a/x", Some("u"), Some(quota)), ("a/y", None, Some(quota)), ("a/z", Some("v"), None)];
        let owned = |text: &str| text.to_owned();
        let mut ledger = Ledger::rebuilt(records.map(|(place, uid, granted)| (owned(place), uid.map(owned), granted)));
        assert_eq!(ledger.entries.keys().collect::<Vec<_>>(), ["a/x", "a/y"]);
        assert_eq!(ledger.sum().size, 16);
        ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
        assert!(ledger.entries["a/x"].is_granted_to(&form(1)), "its claim takes it up as it is");
    }

    #[test]
    fn reaching_a_limit_is_allowed_and_passing_it_is_not() {
        let mut ledger = Ledger::default();
        ledger.reserve("a/x", promise(size(6)), &at_most(10)).unwrap();
        let refused = ledger.reserve("b/y", promise(size(5)), &at_most(10)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "exceeded cluster quota: 5 bytes asked for, 4 of the team's 10 left; ask for less, or for a higher limit"
        );
        ledger.reserve("b/y", promise(size(4)), &at_most(10)).unwrap();
        assert_eq!(ledger.sum(), size(10));
    }

    #[test]
    fn a_vault_counts_beside_the_claims_of_its_namespace_and_is_none_of_them() {
        let mut ledger = Ledger::default();
        ledger.reserve(&entry_key("a", "x"), promise(size(6)), &at_most(10)).unwrap();
        let vault = vault_entry_key("a", "x");
        assert_eq!(ledger.confirm(&vault, &form(1), size(5), &at_most(10)).unwrap_err().left, 4);
        ledger.confirm(&vault, &form(1), size(4), &at_most(10)).unwrap();
        assert_eq!((ledger.sum_of("a"), ledger.entries.len()), (size(10), 2));
        assert_eq!(claim_of_entry(&vault).and_then(|(_, name)| vault_of_entry(name)), Some("x"));
        assert_eq!(vault_of_entry("x"), None);
    }

    #[test]
    fn a_namespace_counts_its_own_claims_only() {
        let mut ledger = Ledger::default();
        ledger.reserve("a/x", promise(size(6)), &Limits::default()).unwrap();
        let limits = Limits { namespace: Bounds { size: Some(5), ..Bounds::default() }, ..Limits::default() };
        ledger.reserve("a-b/x", promise(size(5)), &limits).unwrap();
        let refused = ledger.reserve("a/y", promise(size(1)), &limits).unwrap_err();
        assert_eq!((refused.scope, refused.left), (Scope::Namespace, 0));
    }

    #[test]
    fn what_does_not_grow_passes_a_lowered_limit() {
        let mut ledger = Ledger::default();
        ledger.confirm("a/x", &form(1), size(8), &Limits::default()).unwrap();
        assert!(ledger.confirm("a/x", &form(1), size(8), &at_most(5)).is_ok());
        assert!(ledger.confirm("a/x", &form(1), size(7), &at_most(5)).is_ok());
        assert!(ledger.confirm("a/x", &form(1), size(9), &at_most(5)).is_err());
        let other_member = Units { size: 8, objects: 3, buckets: 0 };
        assert!(ledger.confirm("a/x", &form(1), other_member, &at_most(5)).is_ok());
    }

    #[test]
    fn what_is_lowered_is_free_only_when_ceph_has_less() {
        let mut ledger = Ledger::default();
        ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
        ledger.confirm("a/x", &form(1), size(3), &at_most(10)).unwrap();
        assert!(ledger.reserve("a/y", promise(size(5)), &at_most(10)).is_err());
        settle(&mut ledger, &form(1), size(3));
        assert!(ledger.entries["a/x"].is_settled_at(size(3)));
        assert!(ledger.reserve("a/y", promise(size(7)), &at_most(10)).is_ok());
    }

    #[test]
    fn what_is_stored_beyond_what_was_granted_counts_whatever_the_limits_say_until_it_is_gone() {
        let mut ledger = Ledger::default();
        ledger.confirm("a/x", &form(1), size(3), &at_most(10)).unwrap();
        ledger.confirm("a/y", &form(1), size(4), &at_most(10)).unwrap();
        settle(&mut ledger, &form(1), size(8));
        assert_eq!(ledger.sum(), size(12));
        assert!(ledger.reserve("a/y", promise(size(5)), &at_most(10)).is_err(), "nobody gets more");
        settle(&mut ledger, &form(1), size(3));
        assert!(ledger.reserve("a/y", promise(size(7)), &at_most(10)).is_ok());
    }

    #[test]
    fn who_gives_back_late_gives_back_nothing_that_was_granted_since() {
        let mut ledger = Ledger::default();
        ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
        let seen = ledger.entries["a/x"].clone();
        ledger.confirm("a/x", &form(3), size(8), &at_most(10)).unwrap();
        assert_eq!(ledger.settle("a/x", &seen, &form(2), size(3)), Err(Regranted));
        assert_eq!(ledger.release("a/x", &seen), Err(Regranted));
        assert!(ledger.entries["a/x"].is_settled_at(size(8)), "although it is as much as before");
        let seen = ledger.entries["a/x"].clone();
        ledger.reserve("a/x", promise_for(4, size(9)), &at_most(10)).unwrap();
        ledger.release("a/x", &seen).unwrap();
        assert_eq!(ledger.sum(), size(9), "what is only promised since stays");
        ledger.release("a/y", &seen).unwrap();
    }

    #[test]
    fn a_promise_outlives_the_claim_before_it_and_ends_in_time() {
        let mut ledger = Ledger::default();
        ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
        ledger.reserve("a/x", promise(size(8)), &at_most(10)).unwrap();
        let seen = ledger.entries["a/x"].clone();
        ledger.release("a/x", &seen).unwrap();
        assert_eq!(ledger.sum(), size(8));
        ledger.repair("a/x", None, GRACE.as_secs() - 1);
        assert_eq!(ledger.sum(), size(8));
        ledger.repair("a/x", None, GRACE.as_secs());
        assert_eq!(ledger, Ledger::default());
    }

    #[test]
    fn repair_never_promises_more_than_was_promised() {
        let mut ledger = Ledger::default();
        ledger.reserve("a/x", promise(size(4)), &at_most(10)).unwrap();
        ledger.repair("a/x", Some(&Asks { form: form(1), units: size(9) }), GRACE.as_secs());
        assert_eq!(ledger.sum(), size(4));
    }

    #[test]
    fn a_promise_is_kept_until_the_claim_was_seen_as_it_is_for_it() {
        let mut ledger = Ledger::default();
        ledger.reserve("a/x", promise_for(1, size(9)), &at_most(10)).unwrap();
        ledger.reserve("a/x", promise_for(3, size(9)), &at_most(10)).unwrap();
        ledger.confirm("a/x", &form(1), size(9), &at_most(10)).unwrap();
        settle(&mut ledger, &form(2), size(3));
        assert!(ledger.reserve("b/y", promise(size(2)), &at_most(10)).is_err(), "the third form needs it");
        let another = Form { uid: "v".into(), generation: 7 };
        ledger.confirm("a/x", &another, size(3), &at_most(10)).unwrap();
        assert!(ledger.entries["a/x"].pending.is_some(), "another claim of that name knows nothing of it");
        ledger.confirm("a/x", &form(3), size(9), &at_most(10)).unwrap();
        assert!(ledger.entries["a/x"].is_settled_at(size(9)));
    }

    #[test]
    fn a_claim_made_again_confirms_what_it_was_promised_although_one_before_it_was_promised_something() {
        let mut ledger = Ledger::default();
        ledger.reserve("a/x", promise(size(9)), &at_most(10)).unwrap();
        let again = Form { uid: "v".into(), generation: 1 };
        ledger.reserve("a/x", Reservation { form: again.clone(), ..promise(size(9)) }, &at_most(10)).unwrap();
        ledger.confirm("a/x", &again, size(9), &at_most(10)).unwrap();
        assert!(ledger.entries["a/x"].is_settled_at(size(9)));
    }

    #[test]
    fn what_a_request_that_failed_was_promised_is_confirmed_away_once_it_is_old() {
        let mut ledger = Ledger::default();
        ledger.confirm("a/x", &form(1), size(4), &at_most(10)).unwrap();
        ledger.reserve("a/x", promise_for(2, size(9)), &at_most(10)).unwrap();
        ledger.confirm("a/x", &form(1), size(4), &at_most(10)).unwrap();
        assert_eq!(ledger.sum(), size(9), "its request may still be under way");
        ledger.repair("a/x", Some(&Asks { form: form(1), units: size(4) }), GRACE.as_secs());
        assert_eq!(ledger.sum(), size(4));
        assert!(ledger.entries["a/x"].promises(&form(1)), "who confirms it next takes it away");
    }

    #[test]
    fn a_namespace_cannot_fill_the_books_with_claims_for_nothing() {
        let mut ledger = Ledger::default();
        for number in 0..MOST_CLAIMS {
            ledger.reserve(&format!("a/{number}"), promise(size(0)), &Limits::default()).unwrap();
        }
        let refused = ledger.reserve("a/more", promise(size(0)), &Limits::default()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "exceeded namespace quota: the namespace has 1000 claims, and more cannot be kept count of; delete some that nobody \
             needs, or make this one in another namespace"
        );
        assert!(ledger.confirm("a/more", &form(1), size(0), &Limits::default()).is_err());
        ledger.reserve("a/0", promise(size(1)), &Limits::default()).unwrap();
        ledger.reserve("b/x", promise(size(0)), &Limits::default()).unwrap();
    }

    #[test]
    fn full_books_take_over_nothing_more_than_they_have_and_go_on() {
        let entry = Entry { granted: Some(size(1)), ..Entry::default() };
        let mut ledger = Ledger::default();
        for number in 0..MOST_IN_BOOKS {
            ledger.take_over(&format!("n{number}/x"), &entry).unwrap();
        }
        assert_eq!(ledger.take_over("more/x", &entry), Err(Full));
        assert_eq!(ledger.entries.len(), MOST_IN_BOOKS);
        let more = Entry { granted: Some(size(2)), ..Entry::default() };
        ledger.take_over("n0/x", &more).unwrap();
        assert_eq!(ledger.entries["n0/x"].granted, Some(size(2)), "what has its place there");
        ledger.entries.remove("n0/x");
        ledger.take_over("more/x", &entry).unwrap();
    }

    #[test]
    fn a_team_is_told_that_its_books_are_full_before_the_api_server_refuses_them() {
        let mut ledger = Ledger::default();
        for number in 0..MOST_IN_BOOKS {
            let key = format!("n{}/{number}", number / MOST_CLAIMS);
            ledger.reserve(&key, promise(size(0)), &Limits::default()).unwrap();
        }
        let refused = ledger.reserve("more/x", promise(size(0)), &Limits::default()).unwrap_err();
        assert!(refused.to_string().starts_with("exceeded cluster quota: the team has 2000 claims"), "{refused}");
        assert!(refused.to_string().ends_with("or make this one in a namespace of another team"), "{refused}");
        ledger.reserve("n0/0", promise(size(1)), &Limits::default()).unwrap();
    }

    #[test]
    fn sums_beyond_what_can_be_counted_are_beyond_every_limit() {
        let mut ledger = Ledger::default();
        ledger.reserve("a/x", promise(size(u64::MAX)), &Limits::default()).unwrap();
        ledger.reserve("a/y", promise(size(u64::MAX)), &Limits::default()).unwrap();
        assert!(ledger.reserve("a/z", promise(size(1)), &at_most(u64::MAX - 1)).is_err());
    }
}
