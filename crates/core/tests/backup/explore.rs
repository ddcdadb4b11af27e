//! Walks through every world that can be reached from the given ones, with everything that can go wrong on the way:
//! a crash after every step, a lost reply or a rejection at every step, and everybody else acting between any two steps.

use std::{collections::HashSet, fmt};

use croft_core::plan::{Failure, FailureClass, Outcome, Plan};

pub(crate) trait World: Clone + PartialEq + fmt::Debug {
    type Seen;
    type Step: fmt::Display;

    /// What the operator sees; nothing if the request is gone.
    fn observe(&self) -> Option<Self::Seen>;

    fn plan(&self, seen: &Self::Seen) -> Plan<Self::Step>;

    /// Carries out one step, if its precondition holds. Panics on what must never be done.
    fn execute(&mut self, step: &Self::Step) -> Outcome;

    /// Writes the status, if the request is still there.
    fn report(&mut self, seen: &Self::Seen, outcomes: &[(&Self::Step, Outcome)]);

    /// The worlds that somebody else may turn this one into.
    fn others(&self) -> Vec<Self>;

    /// What Velero or time is bound to do next, if anything.
    fn progress(&self) -> Option<Self>;

    /// What must hold at any time, and from one moment to the next.
    fn check(&self, before: &Self);

    /// What must hold once nothing moves any more.
    fn check_settled(&self);
}

/// Rounds in which every world must come to rest.
const ROUNDS: usize = 30;

/// Explores all worlds; returns how many there are.
pub(crate) fn explore<W: World>(starts: impl IntoIterator<Item = W>) -> usize {
    let mut visited = HashSet::new();
    let mut waiting: Vec<W> = starts.into_iter().collect();
    while let Some(world) = waiting.pop() {
        if !visited.insert(format!("{world:?}")) {
            continue;
        }
        let mut ahead: Vec<W> = Vec::new();
        for next in successors(&world) {
            next.check(&world);
            // Telling worlds apart is what costs time here: most ways lead to the same few.
            if next != world && !ahead.contains(&next) {
                ahead.push(next);
            }
        }
        waiting.extend(ahead);
        come_to_rest(&world);
    }
    visited.len()
}

fn successors<W: World>(world: &W) -> Vec<W> {
    let mut next = world.others();
    let Some(seen) = world.observe() else { return next };
    let plan = world.plan(&seen);
    let steps: Vec<_> = plan.iter().collect();
    for position in 0..=steps.len() {
        next.push(attempt(world, &seen, &steps, position, &Fault::Crash));
        if position < steps.len() {
            next.push(attempt(world, &seen, &steps, position, &Fault::LostReply));
            next.push(attempt(world, &seen, &steps, position, &Fault::Rejection));
        }
        let mut reached = world.clone();
        for step in &steps[..position] {
            reached.execute(step);
        }
        for other in reached.others() {
            next.push(attempt(world, &seen, &steps, position, &Fault::Interference(other)));
        }
    }
    next.push(reconciled(world));
    next
}

enum Fault<W> {
    Crash,
    LostReply,
    Rejection,
    /// The world is suddenly this one.
    Interference(W),
}

/// One reconcile with a fault at the step of that number, or behind the last.
fn attempt<W: World>(world: &W, seen: &W::Seen, steps: &[&W::Step], position: usize, fault: &Fault<W>) -> W {
    let mut world = world.clone();
    let mut outcomes = Vec::new();
    let mut failed = false;
    for (number, step) in steps.iter().enumerate() {
        let outcome = match fault {
            _ if failed => Outcome::NotRun,
            Fault::Crash if number == position => return world,
            Fault::LostReply if number == position => {
                world.execute(step);
                failure(FailureClass::Transient)
            }
            Fault::Rejection if number == position => failure(FailureClass::Rejected),
            Fault::Interference(other) if number == position => {
                world = other.clone();
                world.execute(step)
            }
            _ => world.execute(step),
        };
        failed |= !outcome.is_done();
        outcomes.push((*step, outcome));
    }
    match fault {
        Fault::Crash => return world,
        Fault::Interference(other) if position == steps.len() => world = other.clone(),
        _ => {}
    }
    world.report(seen, &outcomes);
    world
}

fn failure(class: FailureClass) -> Outcome {
    Outcome::Failed(Failure::new(class, "Injected", "an injected failure"))
}

/// One reconcile in which nothing goes wrong.
pub(crate) fn reconciled<W: World>(world: &W) -> W {
    let Some(seen) = world.observe() else { return world.clone() };
    let plan = world.plan(&seen);
    let steps: Vec<_> = plan.iter().collect();
    attempt(world, &seen, &steps, usize::MAX, &Fault::Rejection)
}

/// Left alone with Velero, every world ends where nothing is to be done, and says the right thing.
pub(crate) fn come_to_rest<W: World>(start: &W) -> W {
    let mut world = start.clone();
    let mut story = Vec::new();
    for _ in 0..ROUNDS {
        let next = reconciled(&world);
        next.check(&world);
        let next = if next != world {
            next
        } else if let Some(moved) = world.progress() {
            moved
        } else {
            let steps = world.observe().map(|seen| world.plan(&seen).to_string());
            assert!(steps.as_deref().is_none_or(|steps| steps == "nothing to do"), "{steps:?} for ever: {world:?}");
            world.check_settled();
            return world;
        };
        story.push(std::mem::replace(&mut world, next));
    }
    panic!("no rest after {ROUNDS} rounds: {story:#?}");
}
