//! Every order in which people, admission, the controller and Ceph can act on a small ledger: Ceph never has more than the limit.

use std::collections::{HashSet, VecDeque};

use croft_core::storage::ledger::{Bounds, GRACE, Ledger, Limits, Reservation, Units, entry_key};

const LIMIT: u64 = 2;
const CLAIMS: [&str; 2] = ["x", "y"];

fn units(size: u64) -> Units {
    Units { size, ..Units::default() }
}

fn limits(size: u64) -> Limits {
    Limits { team: Bounds { size: Some(size), ..Bounds::default() }, ..Limits::default() }
}

/// What the controller has seen of a claim and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Seen(u64),
    Confirmed(u64),
    Driven(u64),
}

/// One claim, its requests under way, its user in Ceph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Claim {
    /// Two requests may be under way at once: what each asks for, and what was stored when it was let in.
    asked: [Option<(u64, Option<u64>)>; 2],
    spec: Option<u64>,
    stage: Option<Stage>,
    /// Deleted, and its user may still be there.
    is_going: bool,
    ceph: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    ledger: Ledger,
    claims: [Claim; 2],
}

/// Who acts, and how.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Somebody asks; admission decides.
    Ask(usize, u64),
    /// The API server stores what was let in,
    Store(usize),
    /// or fails to.
    Fail(usize),
    Delete,
    Look,
    Confirm,
    Drive,
    Settle,
    /// The controller dies and forgets.
    Crash,
    RemoveUser,
    Release,
    Repair,
}

/// All that can happen to a claim with so many requests under way at once.
fn acts(slots: usize) -> Vec<Act> {
    let of_slot = |slot| [Act::Ask(slot, 1), Act::Ask(slot, 2), Act::Store(slot), Act::Fail(slot)];
    let of_controller = [Act::Look, Act::Confirm, Act::Drive, Act::Settle, Act::Crash, Act::Repair];
    let of_deletion = [Act::Delete, Act::RemoveUser, Act::Release];
    (0..slots).flat_map(of_slot).chain(of_controller).chain(of_deletion).collect()
}

impl World {
    /// The world after one act on one claim; nothing where it cannot happen.
    fn after(&self, number: usize, act: Act) -> Option<World> {
        let mut world = self.clone();
        let (claim, ledger) = (&mut world.claims[number], &mut world.ledger);
        let key = entry_key("a", CLAIMS[number]);
        match act {
            Act::Ask(slot, size) if claim.asked[slot].is_none() && !claim.is_going => {
                // What does not grow is let in without asking.
                if claim.spec.is_none_or(|spec| size > spec) {
                    let promise = Reservation { units: units(size), at: 0, request: String::new() };
                    ledger.reserve(&key, promise, &limits(LIMIT)).ok()?;
                }
                claim.asked[slot] = Some((size, claim.spec));
            }
            Act::Store(slot) => {
                let (size, over) = claim.asked[slot].take()?;
                // The API server stores over what was looked at; where that has changed, it asks again.
                if over != claim.spec || claim.is_going {
                    return None;
                }
                claim.spec = Some(size);
            }
            Act::Fail(slot) => drop(claim.asked[slot].take()?),
            Act::Delete if claim.spec.is_some() => (claim.spec, claim.stage, claim.is_going) = (None, None, true),
            Act::Look => claim.stage = Some(Stage::Seen(claim.spec?)),
            Act::Confirm => {
                let Stage::Seen(size) = claim.stage? else { return None };
                ledger.confirm(&key, "u", units(size), &limits(LIMIT)).ok()?;
                claim.stage = Some(Stage::Confirmed(size));
            }
            Act::Drive => {
                let Stage::Confirmed(size) = claim.stage? else { return None };
                (claim.ceph, claim.stage) = (size, Some(Stage::Driven(size)));
            }
            Act::Settle => {
                let Stage::Driven(size) = claim.stage? else { return None };
                ledger.settle(&key, "u", units(size));
                claim.stage = None;
            }
            Act::Crash => drop(claim.stage.take()?),
            Act::RemoveUser if claim.is_going => claim.ceph = 0,
            Act::Release if claim.is_going && claim.ceph == 0 => {
                ledger.release(&key);
                claim.is_going = false;
            }
            // No request is under way for as long as a promise is left alone.
            Act::Repair if claim.asked == [None, None] => {
                ledger.repair(&key, claim.spec.map(units), GRACE.as_secs());
                world.forget_times();
            }
            _ => return None,
        }
        Some(world)
    }

    /// How often it was repaired is of no interest.
    fn forget_times(&mut self) {
        for entry in self.ledger.entries.values_mut() {
            if let Some(pending) = &mut entry.pending {
                pending.at = 0;
            }
        }
    }

    fn ceph(&self) -> u64 {
        self.claims.iter().map(|claim| claim.ceph).sum()
    }
}

/// Every world that can come about with so many claims, and so many requests for each at once.
fn all(claims: usize, slots: usize) -> HashSet<World> {
    let acts = acts(slots);
    let mut seen = HashSet::from([World::default()]);
    let mut next = VecDeque::from([World::default()]);
    while let Some(world) = next.pop_front() {
        for number in 0..claims {
            for act in acts.iter().copied() {
                let Some(after) = world.after(number, act) else { continue };
                assert!(after.ledger.sum().size <= LIMIT, "{act:?} promises too much: {world:?}");
                assert!(after.ceph() <= LIMIT, "{act:?} gives too much: {world:?}");
                for (claim, name) in after.claims.iter().zip(CLAIMS) {
                    let charge = after.ledger.entries.get(&entry_key("a", name)).map(|entry| entry.charge().size);
                    assert!(claim.ceph <= charge.unwrap_or_default(), "{act:?} frees what Ceph still gives: {world:?}");
                }
                if seen.insert(after.clone()) {
                    next.push_back(after);
                }
            }
        }
    }
    seen
}

/// The controller goes on until nothing changes, and every promise comes due.
fn at_rest(mut world: World) -> World {
    for number in 0..CLAIMS.len() {
        for slot in 0..2 {
            world = world.after(number, Act::Fail(slot)).unwrap_or(world);
        }
        for act in [Act::RemoveUser, Act::Release, Act::Crash, Act::Repair] {
            world = world.after(number, act).unwrap_or(world);
        }
    }
    // A claim that gets less may make room for another one.
    for _ in 0..CLAIMS.len() {
        for number in 0..CLAIMS.len() {
            for act in [Act::Look, Act::Confirm, Act::Drive, Act::Settle, Act::Crash, Act::Repair] {
                world = world.after(number, act).unwrap_or(world);
            }
        }
    }
    world
}

fn assert_all_is_well(worlds: HashSet<World>) {
    for world in worlds {
        let rest = at_rest(world.clone());
        for (claim, name) in rest.claims.iter().zip(CLAIMS) {
            let entry = rest.ledger.entries.get(&entry_key("a", name));
            let booked = entry.map(|entry| entry.charge().size).unwrap_or_default();
            let wanted = claim.spec.unwrap_or_default();
            // Whoever goes up, down and up again faster than the controller looks may find the room taken, and is told so.
            let is_short = wanted > claim.ceph && rest.ceph() - claim.ceph + wanted > LIMIT;
            assert!(
                claim.ceph == wanted || is_short,
                "what was stored is what Ceph gives, if there is room: {world:?}"
            );
            assert_eq!(booked, claim.ceph, "and nothing else is booked: {world:?}");
        }
    }
}

#[test]
fn two_claims_in_whatever_order_never_have_more_in_ceph_than_the_limit_and_the_books_come_true() {
    let worlds = all(2, 1);
    assert!(worlds.len() > 5_000, "only {} worlds", worlds.len());
    assert_all_is_well(worlds);
}

#[test]
fn two_requests_at_once_for_one_claim_never_give_it_more_than_the_limit() {
    let worlds = all(1, 2);
    assert!(worlds.len() > 500, "only {} worlds", worlds.len());
    assert_all_is_well(worlds);
}
