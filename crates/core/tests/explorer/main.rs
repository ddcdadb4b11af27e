//! The explorer finds what it is there to find, and tells it in the shortest way.

#[path = "mod.rs"]
mod explorer;

use std::fmt;

use croft_core::plan::{Outcome, Plan};
use explorer::{Act, Limits, World, at_rest, reconciled, stale, try_to_explore};

/// What is wrong with the operator of a lamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Flaw {
    None,
    /// It puts out whatever lamp is there by then.
    TrustsWhatItSaw,
    /// It knows its own lamp only from its last report.
    ForgetsInACrash,
    NeverContent,
    /// Its second step is wrong once somebody has come in.
    BlindBetweenSteps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lamp {
    Ours,
    Theirs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Room {
    flaw: Flaw,
    wanted: bool,
    lamp: Option<Lamp>,
    reported: bool,
    somebody_in: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Light,
    PutOut,
    LockTheDoor,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Step::Light => "light the lamp",
            Step::PutOut => "put out the lamp",
            Step::LockTheDoor => "lock the door",
        })
    }
}

fn room(flaw: Flaw, wanted: bool, lamp: Option<Lamp>) -> Room {
    Room { flaw, wanted, lamp, reported: lamp == Some(Lamp::Ours), somebody_in: false }
}

impl World for Room {
    type Seen = Room;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Room)> {
        vec![("lamp", self.clone())]
    }

    fn plan(&self, seen: &Room) -> Plan<Step> {
        let is_ours = match self.flaw {
            Flaw::ForgetsInACrash => seen.reported,
            _ => seen.lamp == Some(Lamp::Ours),
        };
        match (seen.wanted, seen.lamp) {
            (true, None) => Plan::step(Step::Light),
            (true, Some(Lamp::Ours)) if self.flaw == Flaw::NeverContent => Plan::step(Step::PutOut),
            (false, Some(_)) if is_ours && self.flaw == Flaw::BlindBetweenSteps => {
                Plan::steps([Step::PutOut, Step::LockTheDoor])
            }
            (false, Some(_)) if is_ours => Plan::step(Step::PutOut),
            _ => Plan::settled(),
        }
    }

    fn execute(&mut self, _: &Room, step: &Step) -> Outcome {
        match (step, self.lamp) {
            (Step::Light, None) => self.lamp = Some(Lamp::Ours),
            (Step::PutOut, Some(Lamp::Ours)) => self.lamp = None,
            (Step::PutOut, None) => {}
            (Step::PutOut, Some(Lamp::Theirs)) => {
                assert_ne!(self.flaw, Flaw::TrustsWhatItSaw, "put out a lamp of others");
                return stale();
            }
            (Step::Light, Some(_)) => return stale(),
            (Step::LockTheDoor, _) => assert!(!self.somebody_in, "locked somebody in"),
        }
        Outcome::done()
    }

    fn report(&mut self, _: &Room, outcomes: &[(&Step, Outcome)]) {
        let was_done = |wanted| outcomes.iter().any(|(step, outcome)| **step == wanted && outcome.is_done());
        self.reported = (self.reported || was_done(Step::Light)) && !was_done(Step::PutOut);
    }

    fn others(&self) -> Vec<Act<Room>> {
        vec![
            Act::new("somebody changes the wish", self, |room| room.wanted = !room.wanted),
            Act::new("somebody brings a lamp", self, |room| room.lamp = Some(Lamp::Theirs)),
            Act::new("somebody comes in", self, |room| room.somebody_in = true),
        ]
    }

    fn check_rest(&self) {
        assert!(self.wanted || self.lamp != Some(Lamp::Ours), "a lamp of ours burns for nobody");
    }
}

const TWO_ACTS: Limits = Limits { acts: 2, faults: true, at_once: 1 };

#[test]
fn a_sound_plan_is_explored_to_its_end() {
    let explored = try_to_explore([room(Flaw::None, true, None)], TWO_ACTS).expect("no promise is broken");
    assert!(explored.worlds.len() > 10, "{explored:?}");
    assert_eq!(explored.reconciles, 1);
}

#[test]
fn acts_and_faults_are_limited() {
    let worlds = |acts, faults| {
        let limits = Limits { acts, faults, at_once: 1 };
        try_to_explore([room(Flaw::None, true, None)], limits).expect("no promise is broken").worlds.len()
    };
    assert!(worlds(0, true) < worlds(1, true) && worlds(1, true) < worlds(2, true));
    assert_eq!(worlds(8, true), worlds(9, true), "more acts lead nowhere new");
    // The lamp burns and nobody knows: a lost reply does that, and so does a crash.
    assert_eq!(worlds(0, false), worlds(0, true));
}

#[test]
fn a_stale_look_that_does_harm_is_told_in_the_shortest_way() {
    let start = room(Flaw::TrustsWhatItSaw, false, Some(Lamp::Ours));
    let broken = try_to_explore([start], TWO_ACTS).expect_err("a flaw");
    assert!(broken.why().contains("put out a lamp of others"), "{broken}");
    assert_eq!(
        broken.lines(),
        ["the operator looks (lamp)", "  [somebody brings a lamp]", "  put out the lamp: breaks a promise"]
    );
}

#[test]
fn others_also_act_between_two_steps() {
    let start = room(Flaw::BlindBetweenSteps, false, Some(Lamp::Ours));
    let broken = try_to_explore([start], TWO_ACTS).expect_err("a flaw");
    assert_eq!(
        broken.lines(),
        [
            "the operator looks (lamp)",
            "  put out the lamp: done",
            "  [somebody comes in]",
            "  lock the door: breaks a promise"
        ]
    );
}

#[test]
fn what_a_crash_makes_it_forget_is_found() {
    let start = room(Flaw::ForgetsInACrash, true, None);
    let broken = try_to_explore([start], TWO_ACTS).expect_err("a flaw");
    assert_eq!(
        broken.lines(),
        [
            "the operator looks (lamp)",
            "  [somebody changes the wish]",
            "  light the lamp: done",
            "  crash",
            "left alone: breaks a promise"
        ]
    );
}

#[test]
fn a_plan_that_never_comes_to_rest_is_found() {
    let broken = try_to_explore([room(Flaw::NeverContent, true, None)], TWO_ACTS).expect_err("a flaw");
    assert!(broken.why().contains("no rest"), "{broken}");
}

#[test]
fn a_world_can_be_led_to_its_rest() {
    let lit = at_rest(&room(Flaw::None, true, None));
    assert_eq!((lit.lamp, lit.reported), (Some(Lamp::Ours), true));
    assert_eq!(reconciled(&lit), lit);
}

/// Two independent steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Pair {
    made: [bool; 2],
}

impl World for Pair {
    type Seen = [bool; 2];
    type Step = usize;

    fn observe(&self) -> Vec<(&'static str, [bool; 2])> {
        vec![("pair", self.made)]
    }

    fn plan(&self, seen: &[bool; 2]) -> Plan<usize> {
        Plan { groups: vec![(0..2).filter(|number| !seen[*number]).collect()], ..Plan::settled() }
    }

    fn execute(&mut self, _: &[bool; 2], step: &usize) -> Outcome {
        self.made[*step] = true;
        Outcome::done()
    }

    fn report(&mut self, _: &[bool; 2], _: &[(&usize, Outcome)]) {}

    fn others(&self) -> Vec<Act<Pair>> {
        Vec::new()
    }
}

#[test]
fn steps_side_by_side_are_carried_out_in_any_order() {
    let explored = try_to_explore([Pair::default()], TWO_ACTS).expect("no promise is broken");
    let mut worlds: Vec<_> = explored.worlds.iter().map(|world| world.made).collect();
    worlds.sort_unstable();
    assert_eq!(worlds, [[false, false], [false, true], [true, false], [true, true]]);
}
