//! Every order in which people, admission, the controller and Ceph can act on a small ledger: Ceph never has more than the limit.

use std::collections::{BTreeSet, HashSet, VecDeque};

use croft_core::storage::ledger::{
    Asks, Bounds, Entry, Form, GRACE, Ledger, Limits, Reservation, Settled, Units, entry_key, needs_promise,
};

const LIMIT: u64 = 2;
const CLAIMS: [&str; 2] = ["x", "y"];

/// The generation every claim is counted from, so that there is room below it.
const NOW: i64 = 10;

fn units(size: u64) -> Units {
    Units { size, ..Units::default() }
}

fn limits(size: u64) -> Limits {
    Limits { team: Bounds { size: Some(size), ..Bounds::default() }, ..Limits::default() }
}

fn form(generation: i64) -> Form {
    Form { uid: "u".into(), generation }
}

/// What the controller has seen of a claim, in which generation, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pass {
    size: u64,
    generation: i64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Seen,
    Confirmed,
    Driven,
}

/// What was asked for by who has lost the lease since, and may be heard at any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Late {
    /// What it has in Ceph, and in which generation that was seen; nothing: it is all to be given back.
    settles: Option<(u64, i64)>,
    seen: Entry,
}

/// One claim, its requests under way, its user in Ceph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Claim {
    /// Two requests may be under way at once: what each asks for, and the generation it is to have.
    asked: [Option<(u64, i64)>; 2],
    spec: Option<u64>,
    generation: i64,
    pass: Option<Pass>,
    late: Option<Late>,
    /// Deleted, and its user may still be there.
    is_going: bool,
    /// What Ceph gives,
    ceph: u64,
    /// and what it has: uploads that began under a higher quota bring what they bring.
    stored: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    ledger: Ledger,
    claims: [Claim; 2],
}

impl Claim {
    fn at(&self, stage: Stage) -> Option<Pass> {
        self.pass.filter(|pass| pass.stage == stage)
    }
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
    /// The controller dies and forgets,
    Crash,
    /// or is replaced while it gives back what is free,
    Replace,
    /// and heard after that.
    HearLate,
    RemoveUser,
    Release,
    Repair,
    /// As much is stored as Ceph gives, and stays when that is lowered. Or an upload that began under a higher quota ends;
    /// no upload can be larger than the limit.
    Upload,
    /// It is removed again.
    Tidy,
}

/// All that can happen to a claim with so many requests under way at once, and with a controller that may be replaced.
fn acts(slots: usize, is_replaced: bool) -> Vec<Act> {
    let of_slot = |slot| [Act::Ask(slot, 1), Act::Ask(slot, 2), Act::Store(slot), Act::Fail(slot)];
    let of_controller = [Act::Look, Act::Confirm, Act::Drive, Act::Settle, Act::Crash, Act::Repair];
    let of_deletion = [Act::Delete, Act::RemoveUser, Act::Release];
    let of_another = [Act::Replace, Act::HearLate].into_iter().filter(|_| is_replaced);
    (0..slots).flat_map(of_slot).chain(of_controller).chain(of_deletion).chain(of_another).collect()
}

impl World {
    /// The world after one act on one claim; nothing where it cannot happen.
    fn after(&self, number: usize, act: Act) -> Option<World> {
        let mut world = self.clone();
        let (claim, ledger) = (&mut world.claims[number], &mut world.ledger);
        let key = entry_key("a", CLAIMS[number]);
        match act {
            Act::Ask(slot, size) if claim.asked[slot].is_none() && !claim.is_going => {
                let generation = claim.generation + 1;
                if needs_promise(claim.spec.map(units), units(size)) {
                    let promise =
                        Reservation { units: units(size), at: 0, request: String::new(), form: form(generation) };
                    ledger.reserve(&key, promise, &limits(LIMIT)).ok()?;
                }
                claim.asked[slot] = Some((size, generation));
            }
            Act::Store(slot) => {
                let (size, generation) = claim.asked[slot].take()?;
                // The API server stores over what was looked at; where that has changed, it asks again.
                if generation != claim.generation + 1 || claim.is_going {
                    return None;
                }
                (claim.spec, claim.generation) = (Some(size), generation);
            }
            Act::Fail(slot) => drop(claim.asked[slot].take()?),
            Act::Delete if claim.spec.is_some() => {
                (claim.spec, claim.pass, claim.is_going) = (None, None, true);
                // No request for what was there can be stored any more.
                claim.generation += 1;
            }
            Act::Look => {
                claim.pass = Some(Pass { size: claim.spec?, generation: claim.generation, stage: Stage::Seen });
            }
            Act::Confirm => {
                let pass = claim.at(Stage::Seen)?;
                ledger.confirm(&key, &form(pass.generation), units(pass.size), &limits(LIMIT)).ok()?;
                claim.pass = Some(Pass { stage: Stage::Confirmed, ..pass });
            }
            Act::Drive => {
                let pass = claim.at(Stage::Confirmed)?;
                (claim.ceph, claim.pass) = (pass.size, Some(Pass { stage: Stage::Driven, ..pass }));
            }
            Act::Settle => {
                let pass = claim.at(Stage::Driven)?;
                let seen = ledger.entries.get(&key)?.clone();
                let has = Settled::at(units(pass.size), units(claim.stored));
                ledger.settle(&key, &seen, &form(pass.generation), has).ok()?;
                claim.pass = None;
            }
            Act::Replace => {
                let seen = Entry { pending: None, ..ledger.entries.get(&key)?.clone() };
                let settles = claim.at(Stage::Driven).map(|pass| (pass.size, pass.generation));
                (settles.is_some() || (claim.is_going && claim.ceph == 0)).then_some(())?;
                (claim.pass, claim.late) = (None, Some(Late { settles, seen }));
            }
            Act::HearLate => {
                let Late { settles, seen } = claim.late.take()?;
                let heard = match settles {
                    Some((size, generation)) => {
                        ledger.settle(&key, &seen, &form(generation), Settled::at(units(size), units(0)))
                    }
                    None => ledger.release(&key, &seen),
                };
                let _ = heard;
            }
            Act::Crash => drop(claim.pass.take()?),
            Act::RemoveUser if claim.is_going => (claim.ceph, claim.stored) = (0, 0),
            Act::Upload if claim.spec.is_some() && claim.stored == 0 => claim.stored = LIMIT,
            Act::Tidy if claim.stored > 0 => claim.stored = 0,
            Act::Release if claim.is_going && claim.ceph == 0 => {
                if let Some(seen) = ledger.entries.get(&key).cloned() {
                    ledger.release(&key, &seen).ok()?;
                }
                claim.is_going = false;
            }
            // No request is under way for as long as a promise is left alone.
            Act::Repair if claim.asked == [None, None] => {
                let asks = claim.spec.map(|size| Asks { form: form(claim.generation), units: units(size) });
                ledger.repair(&key, asks.as_ref(), GRACE.as_secs());
                world.forget_times();
            }
            _ => return None,
        }
        world.count_anew(number);
        Some(world)
    }

    /// How many generations a claim has had is of no interest, only which of those somebody remembers came first.
    fn count_anew(&mut self, number: usize) {
        let claim = &mut self.claims[number];
        let entry = self.ledger.entries.get_mut(&entry_key("a", CLAIMS[number]));
        let mut remembered: Vec<&mut i64> = Vec::new();
        remembered.extend(claim.asked.iter_mut().flatten().map(|(_, generation)| generation));
        remembered.extend(claim.pass.as_mut().map(|pass| &mut pass.generation));
        let late = claim.late.as_mut();
        let (seen, settles) = late.map_or((None, None), |late| (Some(&mut late.seen), late.settles.as_mut()));
        remembered.extend(settles.map(|(_, generation)| generation));
        for Entry { form, pending, .. } in entry.into_iter().chain(seen) {
            remembered.extend(form.as_mut().map(|form| &mut form.generation));
            remembered.extend(pending.as_mut().map(|pending| &mut pending.form.generation));
        }
        let older: BTreeSet<_> =
            remembered.iter().map(|generation| **generation).filter(|it| *it < claim.generation).collect();
        let age =
            |generation: i64| (1..).zip(older.iter().rev()).find(|(_, it)| **it == generation).map(|(age, _)| age);
        for generation in remembered {
            *generation = NOW - age(*generation).unwrap_or(claim.generation - *generation);
        }
        claim.generation = NOW;
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

/// Every world that can come about with so many claims, if this can happen to each.
fn all(claims: usize, acts: &[Act]) -> HashSet<World> {
    let mut seen = HashSet::from([World::default()]);
    let mut next = VecDeque::from([World::default()]);
    while let Some(world) = next.pop_front() {
        for number in 0..claims {
            for act in acts.iter().copied() {
                let Some(after) = world.after(number, act) else { continue };
                let may_have: u64 = after.ledger.entries.values().map(|entry| entry.may_have().size).sum();
                assert!(may_have <= LIMIT, "{act:?} promises too much: {world:?}");
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
        for act in [Act::Tidy, Act::HearLate, Act::RemoveUser, Act::Release, Act::Crash, Act::Repair] {
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
            assert_eq!(claim.ceph, wanted, "what was stored is what Ceph gives: {world:?}");
            assert_eq!(booked, claim.ceph, "and nothing else is booked: {world:?}");
        }
    }
}

#[test]
fn two_claims_in_whatever_order_never_have_more_in_ceph_than_the_limit_and_the_books_come_true() {
    let worlds = all(2, &acts(1, false));
    assert!(worlds.len() > 5_000, "only {} worlds", worlds.len());
    assert_all_is_well(worlds);
}

#[test]
fn two_requests_at_once_for_one_claim_never_give_it_more_than_the_limit() {
    let worlds = all(1, &acts(2, false));
    assert!(worlds.len() > 500, "only {} worlds", worlds.len());
    assert_all_is_well(worlds);
}

#[test]
fn what_uploads_bring_beyond_a_quota_gives_nobody_a_right_to_more_than_the_limit() {
    // What comes of crashes and failed requests is tried above.
    let goes_well = |act: &Act| !matches!(act, Act::Crash | Act::Fail(_) | Act::Repair);
    let acts = acts(1, false).into_iter().filter(goes_well).chain([Act::Upload, Act::Tidy]);
    let worlds = all(2, &acts.collect::<Vec<_>>());
    let is_beyond = |world: &World| world.ledger.sum().size > LIMIT;
    assert!(worlds.iter().any(is_beyond), "what is stored counts, also where it passes the limit");
    assert_all_is_well(worlds);
}

#[test]
fn who_was_replaced_and_is_heard_late_frees_nothing_that_was_granted_since() {
    let worlds = all(1, &acts(1, true));
    assert!(worlds.len() > 500, "only {} worlds", worlds.len());
    assert_all_is_well(worlds);
}
