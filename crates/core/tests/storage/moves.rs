//! A namespace that moves between two teams, with every old picture somebody may have of that: its claims never have more in Ceph
//! than its limit.

use std::collections::{BTreeMap, HashSet, VecDeque};

use croft_core::storage::{
    bookkeeping::{self, Known, Observed, Step, beside_guests, comers, guests},
    ledger::{Bounds, Entry, Form, Ledger, Limits, Reservation, Settled, Units, entry_key, needs_promise},
};

const LIMIT: u64 = 2;
const NAMESPACE: &str = "a";
const CLAIMS: [&str; 2] = ["x", "y"];
const BOOKS: [&str; 2] = ["team.one", "team.two"];
/// So often a claim is edited.
const EDITS: i64 = 2;

fn units(size: u64) -> Units {
    Units { size, ..Units::default() }
}

fn limits() -> Limits {
    Limits { namespace: Bounds { size: Some(LIMIT), ..Bounds::default() }, ..Limits::default() }
}

fn form(generation: i64) -> Form {
    Form { uid: "u".into(), generation }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Claim {
    spec: Option<u64>,
    generation: i64,
    /// What the controller has confirmed, for which generation, and has yet to give Ceph.
    confirmed: Option<(u64, i64)>,
    ceph: u64,
    /// What the keeper of these books has taken over into the others, and has yet to forget.
    taken: [Option<Entry>; 2],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    ledgers: [Ledger; 2],
    claims: [Claim; 2],
    /// Which of the two teams the namespace belongs to, and what the operator has heard of that.
    team: usize,
    heard: usize,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Somebody edits the claim, and is let in.
    Edit(u64),
    Confirm,
    Drive,
    Settle,
    /// The keeper of these books,
    TakeOver(usize),
    /// in two calls.
    Forget(usize),
    Move,
    Hear,
}

const ACTS: [Act; 11] = [
    Act::Edit(1),
    Act::Edit(2),
    Act::Confirm,
    Act::Drive,
    Act::Settle,
    Act::TakeOver(0),
    Act::TakeOver(1),
    Act::Forget(0),
    Act::Forget(1),
    Act::Move,
    Act::Hear,
];

impl World {
    /// A change for a claim of the namespace: in the books it belongs into by its label, which is looked at; beside what the caches
    /// tell of the others.
    fn change<T>(&mut self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let cached = (self.heard == self.team).then(|| NAMESPACE.to_owned());
        let proven = BTreeMap::from([(NAMESPACE.to_owned(), true)]);
        let [one, two] = &mut self.ledgers;
        let (here, there) = if self.team == 0 { (one, two) } else { (two, one) };
        let brought = comers(cached, &proven).into_iter().map(|_| there.clone());
        beside_guests(here, guests(brought), change)
    }

    fn after(&self, number: usize, act: Act) -> Option<World> {
        let mut world = self.clone();
        let (key, claim) = (entry_key(NAMESPACE, CLAIMS[number]), self.claims[number].clone());
        let own = |world: &mut World, change: &dyn Fn(&mut Claim)| change(&mut world.claims[number]);
        match act {
            Act::Edit(size) if claim.generation < EDITS => {
                let generation = claim.generation + 1;
                if needs_promise(claim.spec.map(units), units(size)) {
                    let promise =
                        Reservation { units: units(size), at: 0, request: String::new(), form: form(generation) };
                    world.change(|ledger| ledger.reserve(&key, promise, &limits())).ok()?;
                }
                own(&mut world, &|claim| (claim.spec, claim.generation) = (Some(size), generation));
            }
            Act::Confirm => {
                let (size, generation) = (claim.spec?, claim.generation);
                world.change(|ledger| ledger.confirm(&key, &form(generation), units(size), &limits())).ok()?;
                own(&mut world, &|claim| claim.confirmed = Some((size, generation)));
            }
            Act::Drive => {
                let (size, generation) = claim.confirmed?;
                // Who has seen an older form is told so by the version of the record.
                (generation == claim.generation).then_some(())?;
                own(&mut world, &|claim| (claim.ceph, claim.confirmed) = (size, None));
            }
            Act::Settle if claim.confirmed.is_none() && claim.spec == Some(claim.ceph) => {
                let seen = world.ledgers[self.heard].entries.get(&key)?.clone();
                let has = Settled::at(units(claim.ceph), units(0));
                world.change(|ledger| ledger.settle(&key, &seen, &form(claim.generation), has)).ok()?;
            }
            // One at a time moves entries.
            Act::TakeOver(from) if self.heard != from && !self.is_moving(1 - from) => {
                let Step::TakeOver { book, .. } = self.steps(from, &key)?.0 else { return None };
                world.ledgers[self.heard].adopt(&key, &book);
                world.claims[number].taken[from] = self.ledgers[from].entries.get(&key).cloned();
            }
            Act::Forget(from) => {
                let seen = world.claims[number].taken[from].take()?;
                world.ledgers[from].forget(&key, &seen);
            }
            // Who comes back finds no promise from before he left: the keeper has dropped it when it heard of the move.
            Act::Move if !self.is_promised(1 - self.team) => world.team = 1 - self.team,
            Act::Hear => world.heard = world.team,
            _ => return None,
        }
        (world != *self).then_some(world)
    }

    /// What the keeper of these books does about an entry that belongs into the others.
    fn steps(&self, from: usize, key: &str) -> Option<(Step, Step)> {
        let entries = self.ledgers[from].entries.get_key_value(key).map(|(key, entry)| (key.clone(), entry.clone()));
        let known = (key.to_owned(), Known::Elsewhere { ledger: BOOKS[self.heard].to_owned() });
        let seen =
            Observed { ledger: Ledger::with(entries), known: [known].into(), is_needed: true, ..Observed::default() };
        let plan = bookkeeping::plan(&seen);
        let mut steps = plan.iter().cloned();
        Some((steps.next()?, steps.next()?))
    }

    fn is_moving(&self, from: usize) -> bool {
        self.claims.iter().any(|claim| claim.taken[from].is_some())
    }

    fn is_promised(&self, books: usize) -> bool {
        self.ledgers[books].entries.values().any(|entry| entry.pending.is_some())
    }

    fn ceph(&self) -> u64 {
        self.claims.iter().map(|claim| claim.ceph).sum()
    }

    /// Everybody hears of everything and goes on until nothing changes.
    fn at_rest(mut self) -> World {
        let acts = [
            Act::Hear,
            Act::Forget(0),
            Act::Forget(1),
            Act::TakeOver(0),
            Act::Forget(0),
            Act::TakeOver(1),
            Act::Forget(1),
            Act::Confirm,
            Act::Drive,
            Act::Settle,
        ];
        for _ in 0..CLAIMS.len() {
            for number in 0..CLAIMS.len() {
                for act in acts {
                    self = self.after(number, act).unwrap_or(self);
                }
            }
        }
        self
    }
}

#[test]
fn a_namespace_that_changes_its_team_whoever_has_heard_of_it_never_has_more_than_its_limit() {
    let mut seen = HashSet::from([World::default()]);
    let mut next = VecDeque::from([World::default()]);
    while let Some(world) = next.pop_front() {
        for (number, act) in (0..CLAIMS.len()).flat_map(|number| ACTS.map(|act| (number, act))) {
            let Some(after) = world.after(number, act) else { continue };
            assert!(after.ceph() <= LIMIT, "{act:?} of {} gives too much: {world:#?}", CLAIMS[number]);
            for (claim, name) in after.claims.iter().zip(CLAIMS) {
                let entries = after.ledgers.iter().filter_map(|ledger| ledger.entries.get(&entry_key(NAMESPACE, name)));
                let booked = entries.map(|entry| entry.charge().size).max().unwrap_or_default();
                assert!(claim.ceph <= booked, "{act:?} of {name} frees what Ceph still gives: {world:#?}");
            }
            if seen.insert(after.clone()) {
                next.push_back(after);
            }
        }
    }
    assert!(seen.len() > 5_000, "only {} worlds", seen.len());
    for world in seen {
        let rest = world.clone().at_rest();
        let left = &rest.ledgers[1 - rest.team];
        assert!(left.entries.is_empty(), "nothing stands in books that were left: {world:#?}");
        for (claim, name) in rest.claims.iter().zip(CLAIMS) {
            let entry = rest.ledgers[rest.team].entries.get(&entry_key(NAMESPACE, name));
            let granted = entry.and_then(|entry| entry.granted).unwrap_or_default().size;
            assert!(claim.ceph <= granted, "Ceph gives what was not granted: {world:#?}");
            if claim.spec == Some(claim.ceph) {
                assert_eq!(granted, claim.ceph, "nothing else is booked for who has what he asks for: {world:#?}");
            }
        }
    }
}
