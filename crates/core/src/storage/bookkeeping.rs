//! Keeping a ledger: gives back what was promised in vain, drops what nobody has, moves what belongs into other books, and
//! closes books nobody needs.
//!
//! An entry that moves stands in both books for a moment, never in none: it is taken over first, and forgotten only as it was
//! taken over.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use super::{
    claim::Books,
    ledger::{Asks, Entry, GRACE, Ledger, Limits, Units, claim_of_entry, vault_of_entry},
};
use crate::plan::{self, Plan};

#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub ledger: Ledger,
    /// What is known of each entry that needs looking after; one that is missing is left alone.
    pub known: BTreeMap<String, Known>,
    /// Whether a namespace that would use the ledger is there.
    pub is_needed: bool,
    /// Whether it says of somebody else that it is his.
    pub is_mislabelled: bool,
    /// In seconds since 1970.
    pub now: u64,
}

impl Observed {
    /// Whether something belongs into other books: only one at a time takes over and forgets.
    pub fn has_to_move(&self) -> bool {
        self.known.values().any(|known| matches!(known, Known::Elsewhere { .. }))
    }
}

/// Where an entry belongs, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its namespace is booked elsewhere now: there.
    Elsewhere { ledger: String },
    /// There is no such claim, asked of the API server itself; `is_recorded`: it has a user all the same.
    NoClaim { is_recorded: bool },
    /// What the claim asks for, as it is stored; nothing if it is invalid.
    Claim { asks: Option<Asks> },
}

/// What the caches know of whom an entry is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// The books its namespace belongs into, if that is there.
    pub ledger: Option<String>,
    pub is_there: bool,
    /// What a claim asks for.
    pub asks: Option<Asks>,
    /// Whether there is a record of its user.
    pub is_recorded: bool,
}

/// What has to be found out about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<'a> {
    /// All is well with it.
    Nothing,
    Known(Known),
    /// The claim as it is stored.
    Claim {
        namespace: &'a str,
        name: &'a str,
    },
    /// Whether there is such a vault.
    Vault {
        namespace: &'a str,
        name: &'a str,
    },
}

/// To keep a promise an old picture will do: it is only to give one back, or to drop what nobody has, that the API server itself is
/// asked.
pub fn look<'a>(books: &str, key: &'a str, entry: &Entry, cached: &Cached, now: u64) -> Look<'a> {
    let Some((namespace, name)) = claim_of_entry(key) else {
        return Look::Known(Known::NoClaim { is_recorded: false });
    };
    if let Some(ledger) = cached.ledger.as_ref().filter(|ledger| *ledger != books) {
        return Look::Known(Known::Elsewhere { ledger: ledger.clone() });
    }
    let is_orphan = entry.pending.is_none() && !cached.is_there && !cached.is_recorded;
    match vault_of_entry(name) {
        // What is booked for one that is neither there nor on record is nobody's.
        Some(vault) if !cached.is_recorded => Look::Vault { namespace, name: vault },
        // Nothing is promised to a vault at the door.
        Some(_) if entry.is_in_vain(None, now) => Look::Known(Known::NoClaim { is_recorded: true }),
        None if is_orphan || entry.is_in_vain(cached.asks.as_ref(), now) => Look::Claim { namespace, name },
        _ => Look::Nothing,
    }
}

/// Each is one change of one ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Whose it is follows from its name, whatever somebody has it say.
    SayWhose,
    /// A promise nobody confirmed in time becomes what the claim asks for, if there is one.
    Repair { entry: String, asks: Option<Asks>, now: u64 },
    /// Neither claim nor user is there. Fails if it was granted anew since.
    Drop { entry: String, book: Entry },
    /// Into the books its namespace belongs to. Fails if that is not these any more.
    TakeOver { entry: String, book: Entry, ledger: String },
    /// Out of these books, unless it has changed since it was taken over.
    Forget { entry: String, book: Entry },
    /// Nobody is left to keep books for. Fails if the ledger is not the one seen.
    Close,
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::SayWhose => "SayWhose",
            Step::Repair { .. } => "Repair",
            Step::Drop { .. } => "Drop",
            Step::TakeOver { .. } => "TakeOver",
            Step::Forget { .. } => "Forget",
            Step::Close => "Close",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::SayWhose => out.write_str("say whose books they are: it is not who they say"),
            Step::Repair { entry, .. } => write!(out, "give back what was promised to {entry} in vain"),
            Step::Drop { entry, .. } => write!(out, "drop {entry}: neither claim nor user is there"),
            Step::TakeOver { entry, .. } => write!(out, "take {entry} over into the books of its namespace"),
            Step::Forget { entry, .. } => write!(out, "forget {entry}: it stands in the books of its namespace"),
            Step::Close => out.write_str("close the ledger: nobody is left"),
        }
    }
}

pub fn plan(seen: &Observed) -> Plan<Step> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    first.extend(seen.is_mislabelled.then_some(Step::SayWhose));
    for (key, entry) in &seen.ledger.entries {
        let is_in_vain = |asks: Option<&Asks>| entry.is_in_vain(asks, seen.now);
        let repair = |asks| Step::Repair { entry: key.clone(), asks, now: seen.now };
        match seen.known.get(key) {
            Some(Known::Elsewhere { ledger }) => {
                // What was only promised is decided anew, by the limits there.
                let book = Entry { pending: None, ..entry.clone() };
                first.push(Step::TakeOver { entry: key.clone(), book, ledger: ledger.clone() });
                last.push(Step::Forget { entry: key.clone(), book: entry.clone() });
            }
            Some(Known::NoClaim { .. }) if is_in_vain(None) => first.push(repair(None)),
            Some(Known::Claim { asks }) if is_in_vain(asks.as_ref()) => first.push(repair(asks.clone())),
            Some(Known::NoClaim { is_recorded: false }) if entry.pending.is_none() => {
                first.push(Step::Drop { entry: key.clone(), book: entry.clone() });
            }
            _ => {}
        }
    }
    if seen.ledger.entries.is_empty() && !seen.is_needed {
        first.push(Step::Close);
    }
    let groups = [first, last].into_iter().filter(|group| !group.is_empty()).collect();
    let plan = Plan { groups, next: plan::Next::Settled };
    match next_look(&seen.ledger, seen.now) {
        Some(delay) => plan.look_again(delay),
        None => plan,
    }
}

/// When the next promise is due. Those that are, and stay, are looked at now and then with everything else.
fn next_look(ledger: &Ledger, now: u64) -> Option<Duration> {
    let waiting = ledger.entries.values().filter(|entry| !entry.is_due(now)).filter_map(|entry| entry.pending.as_ref());
    let due = waiting.map(|pending| pending.at.saturating_add(GRACE.as_secs()).saturating_sub(now)).min()?;
    Some(Duration::from_secs(due.max(1)))
}

/// Whose entries in other books count in these: those of namespaces the caches tell to belong here or that are `proven` to, and of
/// none that is proven to belong elsewhere.
pub fn comers(cached: impl IntoIterator<Item = String>, proven: &BTreeMap<String, bool>) -> BTreeSet<String> {
    let known = cached.into_iter().filter(|name| !proven.contains_key(name));
    known.chain(proven.iter().filter(|(_, is_here)| **is_here).map(|(name, _)| name.clone())).collect()
}

/// What namespaces have in books they have left. Of what stands in several of them the larger counts; what was only promised is
/// decided anew, by the limits where they belong.
pub fn guests(left: impl IntoIterator<Item = Ledger>) -> Ledger {
    let mut guests = Ledger::default();
    for (key, entry) in left.into_iter().flat_map(|ledger| ledger.entries) {
        guests.adopt(&key, &Entry { pending: None, ..entry });
    }
    guests
}

/// Makes a change that counts what belongs into these books and still stands in others: a namespace that has just come brings
/// its weight along at once. Who is not concerned by the change is left to be taken over in due course.
pub fn beside_guests<T>(ledger: &mut Ledger, guests: Ledger, change: impl FnOnce(&mut Ledger) -> T) -> T {
    let mut seated = Vec::new();
    for (key, entry) in guests.entries {
        let before = ledger.entries.get(&key).cloned();
        ledger.adopt(&key, &Entry { pending: None, ..entry });
        let with_guest = ledger.entries.get(&key).cloned();
        seated.push((key, before, with_guest));
    }
    let done = change(ledger);
    for (key, before, with_guest) in seated {
        if ledger.entries.get(&key) == with_guest.as_ref() {
            match before {
                Some(before) => drop(ledger.entries.insert(key, before)),
                None => drop(ledger.entries.remove(&key)),
            }
        }
    }
    done
}

/// Whether limits have a say in what an entry is to have: not in what it was granted or promised.
pub fn needs_limits(entry: Option<&Entry>, wanted: Units) -> bool {
    !entry.is_some_and(|entry| wanted.is_within(entry.charge()))
}

/// What the books say about the entry `place`, which is to have so much at most. What its namespace brings along counts as its own
/// before it is taken over.
pub fn books_of(mut ledger: Ledger, guests: Ledger, place: &str, wanted: Units, limits: &Limits) -> Books {
    beside_guests(&mut ledger, guests, |ledger| Books {
        entry: ledger.entries.get(place).cloned(),
        exceeded: ledger.fits(place, wanted, limits).err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ledger::{Bounds, Form, Reservation};

    fn units(size: u64) -> Units {
        Units { size, ..Units::default() }
    }

    fn form() -> Form {
        Form { uid: "u".into(), generation: 1 }
    }

    fn asks(size: u64) -> Asks {
        Asks { form: form(), units: units(size) }
    }

    fn granted(size: u64) -> Entry {
        Entry { form: Some(form()), granted: Some(units(size)), pending: None }
    }

    fn promised(entry: Entry, size: u64) -> Entry {
        Entry { pending: Some(Reservation { units: units(size), at: 100, request: "r".into(), form: form() }), ..entry }
    }

    fn seen(entry: Entry, known: Option<Known>, now: u64) -> Observed {
        let key = "a/x".to_owned();
        Observed {
            ledger: Ledger { entries: [(key.clone(), entry)].into() },
            known: known.map(|known| (key, known)).into_iter().collect(),
            is_needed: true,
            is_mislabelled: false,
            now,
        }
    }

    fn cached(asks: Option<Asks>, is_recorded: bool) -> Cached {
        Cached { ledger: Some("team.a".into()), is_there: asks.is_some(), asks, is_recorded }
    }

    fn needs_a_look(entry: &Entry, now: u64, cached: &Cached) -> bool {
        let looked = look("team.a", "a/x", entry, cached, now);
        assert!(matches!(looked, Look::Nothing | Look::Claim { namespace: "a", name: "x" }), "{looked:?}");
        looked != Look::Nothing
    }

    fn told(seen: &Observed) -> String {
        plan(seen).to_string()
    }

    #[test]
    fn what_is_granted_and_used_needs_nothing() {
        let plan = plan(&seen(granted(3), Some(Known::Claim { asks: Some(asks(3)) }), 1000));
        assert!(plan.is_settled() && plan.next == plan::Next::Settled);
        assert!(!needs_a_look(&granted(3), 1000, &cached(Some(asks(3)), true)));
        assert!(!needs_a_look(&granted(3), 1000, &cached(None, true)), "a released user keeps counting");
        assert!(needs_a_look(&granted(3), 1000, &cached(None, false)));
    }

    #[test]
    fn a_promise_is_looked_at_when_it_is_due_and_not_before() {
        let entry = promised(Entry::default(), 5);
        let early = plan(&seen(entry.clone(), None, 160));
        assert!(early.is_settled());
        assert_eq!(early.next, plan::Next::After(Duration::from_secs(60)));
        assert!(!needs_a_look(&entry, 219, &cached(None, false)), "its request may still be under way");
        assert!(needs_a_look(&entry, 220, &cached(None, true)));
        let late = seen(entry.clone(), Some(Known::NoClaim { is_recorded: false }), 220);
        assert_eq!(told(&late), "give back what was promised to a/x in vain");
        let lowered = plan(&seen(entry.clone(), Some(Known::Claim { asks: Some(asks(4)) }), 220));
        assert_eq!(lowered.groups, [[Step::Repair { entry: "a/x".into(), asks: Some(asks(4)), now: 220 }]]);
        let waiting = plan(&seen(entry, Some(Known::Claim { asks: Some(asks(5)) }), 220));
        assert!(
            waiting.is_settled() && waiting.next == plan::Next::Settled,
            "what it asks for stays promised, quietly"
        );
    }

    #[test]
    fn a_promise_that_stays_is_asked_after_by_nobody() {
        let entry = promised(Entry::default(), 5);
        assert!(!needs_a_look(&entry, 1000, &cached(Some(asks(5)), false)), "it waits for its class, for ever");
        assert!(needs_a_look(&entry, 1000, &cached(Some(asks(4)), false)), "the claim asks for less by now");
        let edited = Asks { form: Form { generation: 2, ..form() }, units: units(5) };
        assert!(needs_a_look(&entry, 1000, &cached(Some(edited), false)));
        let unreadable = Cached { is_there: true, ..cached(None, false) };
        assert!(needs_a_look(&entry, 1000, &unreadable));
    }

    #[test]
    fn what_belongs_elsewhere_or_to_nobody_is_known_without_asking_and_a_vault_is_asked_after_once_nothing_tells_of_it()
    {
        let looked = |key: &'static str, cached: &Cached| look("team.a", key, &granted(3), cached, 1000);
        assert_eq!(looked("a/b/c", &Cached::default()), Look::Known(Known::NoClaim { is_recorded: false }));
        let moved = Cached { ledger: Some("team.b".into()), ..cached(Some(asks(3)), true) };
        let elsewhere = Look::Known(Known::Elsewhere { ledger: "team.b".into() });
        assert_eq!([looked("a/x", &moved), looked("a/vault:x", &moved)], [elsewhere.clone(), elsewhere]);
        assert_eq!(looked("a/vault:x", &cached(None, true)), Look::Nothing);
        assert_eq!(looked("a/vault:x", &cached(None, false)), Look::Vault { namespace: "a", name: "x" });
        let promised = promised(granted(3), 5);
        let promised = look("team.a", "a/vault:x", &promised, &cached(None, true), 1000);
        assert_eq!(promised, Look::Known(Known::NoClaim { is_recorded: true }), "nobody promises a vault anything");
        let gone = Cached { ledger: None, ..cached(None, false) };
        assert_eq!(looked("a/x", &gone), Look::Claim { namespace: "a", name: "x" }, "its namespace is gone");
    }

    #[test]
    fn books_that_say_they_are_somebody_elses_are_put_right_first() {
        let seen = Observed { is_mislabelled: true, is_needed: true, ..Observed::default() };
        assert_eq!(told(&seen), "say whose books they are: it is not who they say");
    }

    #[test]
    fn an_entry_of_nobody_is_dropped_and_one_with_a_user_is_kept() {
        assert!(told(&seen(granted(3), Some(Known::NoClaim { is_recorded: false }), 0)).starts_with("drop a/x"));
        assert_eq!(told(&seen(granted(3), Some(Known::NoClaim { is_recorded: true }), 0)), "nothing to do");
    }

    #[test]
    fn what_belongs_elsewhere_is_there_before_it_is_not_here_and_its_promises_are_decided_anew() {
        let entry = promised(granted(3), 9);
        let plan = plan(&seen(entry.clone(), Some(Known::Elsewhere { ledger: "team.b".into() }), 100));
        let [first, last] = plan.groups.as_slice() else { panic!("{plan}") };
        assert_eq!(*first, [Step::TakeOver { entry: "a/x".into(), book: granted(3), ledger: "team.b".into() }]);
        assert_eq!(*last, [Step::Forget { entry: "a/x".into(), book: entry }]);
    }

    #[test]
    fn what_a_namespace_brings_counts_before_it_is_booked() {
        let mut ledger = Ledger { entries: [("a/x".to_owned(), granted(4))].into() };
        let guests = || Ledger { entries: [("b/y".to_owned(), promised(granted(5), 9))].into() };
        let limits = Limits { team: Bounds { size: Some(10), ..Bounds::default() }, ..Limits::default() };
        let reserve = |ledger: &mut Ledger, key: &str, size: u64| {
            let promise = Reservation { units: units(size), at: 0, request: "r".into(), form: form() };
            beside_guests(ledger, guests(), |ledger| ledger.reserve(key, promise, &limits))
        };
        assert_eq!(reserve(&mut ledger, "a/z", 2).unwrap_err().left, 1);
        assert_eq!(ledger.entries.len(), 1, "nobody is booked by a look");
        reserve(&mut ledger, "a/z", 1).unwrap();
        assert!(!ledger.entries.contains_key("b/y"), "who did not ask is taken over later");
        reserve(&mut ledger, "b/y", 5).unwrap();
        assert_eq!(ledger.entries["b/y"].granted, Some(units(5)), "who asks brings along what he has");
    }

    #[test]
    fn who_comes_to_a_team_without_room_keeps_what_he_has_and_gets_no_more() {
        let ledger = || Ledger { entries: [("a/x".to_owned(), granted(8))].into() };
        let guests = || Ledger { entries: [("b/y".to_owned(), granted(6))].into() };
        let limits = Limits { team: Bounds { size: Some(10), ..Bounds::default() }, ..Limits::default() };
        let books = books_of(ledger(), guests(), "b/y", units(6), &limits);
        assert_eq!(books, Books { entry: Some(granted(6)), exceeded: None });
        assert!(books_of(ledger(), guests(), "b/y", units(7), &limits).exceeded.is_some());
        assert!(books_of(ledger(), guests(), "a/x", units(9), &limits).exceeded.is_some());
        assert!(books_of(ledger(), Ledger::default(), "b/z", units(2), &limits).exceeded.is_none());
    }

    #[test]
    fn empty_books_are_closed_when_nobody_needs_them() {
        assert_eq!(told(&Observed { is_needed: true, ..Observed::default() }), "nothing to do");
        assert!(told(&Observed::default()).starts_with("close the ledger"));
    }
}
