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

    /// Full books elsewhere keep back what was to go there, and nothing that goes into others.
    fn needs(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Step::Forget { entry, .. }, Step::TakeOver { entry: taken, .. }) => entry == taken,
            (Step::Forget { .. }, Step::Repair { .. } | Step::Drop { .. }) => false,
            _ => true,
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
        if before.is_none() && with_guest.is_some() {
            ledger.seated.insert(key.clone());
        }
        seated.push((key, before, with_guest));
    }
    let done = change(ledger);
    ledger.seated.clear();
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
    !entry.is_some_and(|entry| wanted.is_within(entry.may_have()))
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
mod tests;
