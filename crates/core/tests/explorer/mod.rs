//! One explorer for every pure plan: walks through all worlds that can be reached from the given ones, whatever goes wrong
//! on the way.
//!
//! - The operator looks, plans, and carries out step by step. It may die after any of them, and then starts anew from
//!   nothing but the world.
//! - The reply to any step may get lost, and any step may be refused.
//! - Others act between two reconciles and between any two steps of one: what was seen may be stale by then.
//! - Left alone, every world comes to rest in a few reconciles, with nothing left to do.
//!
//! Breadth first: whatever breaks a promise is told with as few acts of others, and then in as few moves, as it takes.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own share of this")]

mod reconcile;
mod search;
mod story;

use std::{fmt, hash::Hash, rc::Rc};

use croft_core::plan::{Failure, FailureClass, Outcome, Plan};

pub use self::story::Counterexample;
use self::{reconcile::Reconcile, search::Search};

/// A small world: the API server, Ceph or Velero in miniature, and everybody who acts in it.
pub trait World: Clone + Eq + Hash + fmt::Debug {
    type Seen;
    type Step: fmt::Display;

    /// What the operator sees, for each kind of work (by name) there is now.
    fn observe(&self) -> Vec<(&'static str, Self::Seen)>;

    fn plan(&self, seen: &Self::Seen) -> Plan<Self::Step>;

    /// Whether a step must not be begun where an earlier one of its plan was not done.
    fn needs(&self, _step: &Self::Step, _earlier: &Self::Step) -> bool {
        true
    }

    /// Carries out one step of a plan made from `seen`, if its precondition still holds. Panics on what must never be done.
    fn execute(&mut self, seen: &Self::Seen, step: &Self::Step) -> Outcome;

    /// Writes the status, if there still is something that has one.
    fn report(&mut self, seen: &Self::Seen, outcomes: &[(&Self::Step, Outcome)]);

    /// What people and other controllers may do now.
    fn others(&self) -> Vec<Act<Self>>;

    /// What is bound to happen if nobody does anything: time passes, Velero works.
    fn passes(&self) -> Option<Self> {
        None
    }

    /// Panics unless everything holds that must hold at any time.
    fn check(&self) {}

    /// Panics if one step or one report of ours did what none may do.
    fn check_ours(&self, _before: &Self) {}

    /// Panics unless everything holds that must hold once nothing moves any more.
    fn check_rest(&self) {}
}

/// Something somebody else does.
#[derive(Clone, Debug)]
pub struct Act<W> {
    pub what: String,
    pub after: W,
    /// It may also happen while the operator is at work. Not so where no call to the outside can carry a precondition.
    pub any_time: bool,
}

impl<W: Clone> Act<W> {
    pub fn new(what: impl Into<String>, world: &W, change: impl FnOnce(&mut W)) -> Self {
        let mut after = world.clone();
        change(&mut after);
        Self { what: what.into(), after, any_time: true }
    }

    #[must_use]
    pub fn between_reconciles(self) -> Self {
        Self { any_time: false, ..self }
    }
}

/// How much may go wrong. A crash may come at any time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Acts of others, in all.
    pub acts: usize,
    /// Replies get lost, and steps are refused.
    pub faults: bool,
    /// Acts of others and faults, during one reconcile.
    pub at_once: usize,
}

/// Reconciles in which every world must come to rest.
const ROUNDS: usize = 40;

/// What an exploration went through.
#[derive(Debug)]
pub struct Explored<W> {
    pub worlds: Vec<Rc<W>>,
    /// Ways from one world to another that were tried.
    pub moves: usize,
    /// Most reconciles it took any of the worlds to come to rest.
    pub reconciles: usize,
}

/// Explores everything; fails with the shortest story of how a promise is broken.
pub fn explore<W: World>(name: &str, starts: impl IntoIterator<Item = W>, limits: Limits) -> Explored<W> {
    let explored = try_to_explore(starts, limits).unwrap_or_else(|broken| panic!("{name}: {broken}"));
    let Explored { worlds, moves, reconciles } = &explored;
    println!("{name}: {} worlds, {moves} moves, at rest after at most {reconciles} reconciles", worlds.len());
    explored
}

pub fn try_to_explore<W: World>(
    starts: impl IntoIterator<Item = W>,
    limits: Limits,
) -> Result<Explored<W>, Box<Counterexample>> {
    Search::new(limits).run(starts)
}

/// Every world the operator may die in on its way from `start` to rest, with nobody else acting.
pub fn reachable<W: World>(name: &str, start: &W) -> Vec<W> {
    let explored = explore(name, [start.clone()], Limits { acts: 0, faults: true, at_once: 1 });
    assert!(explored.worlds.len() > 2, "{name}: there is no way to go");
    explored.worlds.iter().map(|world| W::clone(world)).collect()
}

/// Every kind of work done once, with nothing in its way.
pub fn reconciled<W: World>(world: &W) -> W {
    world.observe().into_iter().fold(world.clone(), |world, (work, _)| worked(&world, work))
}

/// This kind of work done once, with nothing in its way.
pub fn worked<W: World>(world: &W, work: &str) -> W {
    Reconcile::of(world, work).map_or_else(|| world.clone(), |reconcile| reconcile.undisturbed(world).0)
}

/// What becomes of the world if it is left alone.
pub fn at_rest<W: World>(start: &W) -> W {
    let mut world = start.clone();
    for _ in 0..ROUNDS {
        match left_alone(&world) {
            Some(next) => world = next,
            None => return world,
        }
    }
    panic!("no rest after {ROUNDS} reconciles: {world:#?}");
}

/// The world a moment later, if nobody interferes: the operator comes first, then time. `None` at rest.
fn left_alone<W: World>(world: &W) -> Option<W> {
    for (work, seen) in world.observe() {
        let reconcile = Reconcile::new(world, work, seen);
        let (after, is_waiting) = reconcile.undisturbed(world);
        if after != *world {
            return Some(after);
        }
        assert!(
            is_waiting || world.passes().is_some(),
            "done again and again without any effect: {}",
            reconcile.plan()
        );
    }
    world.passes()
}

/// The precondition of a step does not hold.
pub fn stale() -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::Stale, "Stale", "the world has moved on"))
}

/// The plan for each kind of work, as text.
pub fn plans<W: World>(world: &W) -> Vec<String> {
    world.observe().iter().map(|(_, seen)| world.plan(seen).to_string()).collect()
}
