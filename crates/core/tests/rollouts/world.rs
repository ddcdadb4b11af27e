//! One class, its revisions and a few namespaces, small enough to explore.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use croft_core::{
    namespaces::{
        class::{self, Bound, ClassStep, Observed},
        rollout::{self, Deletions, Kept, Moved, RolloutStep, Share, Wishes, in_force, must_count},
    },
    plan::{Outcome, Plan},
    time::Timestamp,
};

use crate::explorer::{self, Act, stale};

/// Names of the works there are.
const WORKS: [&str; 3] = ["first", "second", "third"];

/// What a class that says this has made in a namespace goes, all of it.
const NOTHING: u8 = 0;

/// More than anybody may delete unasked.
const MUCH: u64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    says: u8,
    generation: i64,
    staged: bool,
    paused: bool,
    confirmed: Option<u8>,
    /// As the API server has it, in JSON.
    status: String,
    /// Numbers of the revisions that are kept.
    kept: BTreeMap<u8, i64>,
    namespaces: BTreeMap<u8, Space>,
    /// Which namespaces fail with which revisions.
    spoilt: BTreeSet<(u8, u8)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Space {
    /// Of its binding.
    generation: u8,
    moved: Option<(u8, i64)>,
    /// The revision whose objects are really there.
    carries: Option<u8>,
    /// What the binding says: about which generation of it, that it has this revision, and that all is well.
    heard: Option<u8>,
    has: Option<u8>,
    ready: bool,
}

pub enum Seen {
    Class(Box<Observed>),
    Space { name: u8, generation: u8, wanted: Option<u8> },
}

pub enum Step {
    Class(ClassStep),
    Furnish(u8, u8),
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Class(step) => step.fmt(out),
            Step::Furnish(space, revision) => write!(out, "furnish {space} with r{revision}"),
        }
    }
}

fn name(revision: u8) -> String {
    format!("r{revision}")
}

fn number(name: &str) -> u8 {
    name.strip_prefix('r').and_then(|number| number.parse().ok()).expect("a revision of this world")
}

fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

impl World {
    /// A class nobody has looked at yet, and namespaces that ask for it.
    pub fn new(namespaces: u8, staged: bool) -> Self {
        Self {
            says: 1,
            generation: 1,
            staged,
            paused: false,
            confirmed: None,
            status: "{}".into(),
            kept: BTreeMap::new(),
            namespaces: (0..namespaces).map(|name| (name, Space::default())).collect(),
            spoilt: BTreeSet::new(),
        }
    }

    pub fn edit(&mut self, says: u8) {
        (self.says, self.generation) = (says, self.generation + 1);
    }

    pub fn pause(&mut self, paused: bool) {
        (self.paused, self.generation) = (paused, self.generation + 1);
    }

    pub fn stage(&mut self, staged: bool) {
        (self.staged, self.generation) = (staged, self.generation + 1);
    }

    pub fn confirm(&mut self, revision: u8) {
        self.confirmed = Some(revision);
    }

    pub fn spoil(&mut self, space: u8, revision: u8) {
        self.spoilt.insert((space, revision));
    }

    pub fn mend(&mut self) {
        self.spoilt.clear();
    }

    /// What is really there, namespace by namespace.
    pub fn carried(&self) -> Vec<u8> {
        self.namespaces.values().filter_map(|space| space.carries).collect()
    }

    fn status(&self) -> class::Status {
        serde_json::from_str(&self.status).expect("we wrote it")
    }

    pub fn reason(&self) -> String {
        self.status().conditions.reason("Ready").unwrap_or_default().to_owned()
    }

    pub fn message(&self) -> String {
        self.status().conditions.get("Ready").map(|ready| ready.message.clone()).unwrap_or_default()
    }

    fn staged_since(&self) -> Option<i64> {
        self.status().rollout.and_then(|rollout| rollout.staged_since)
    }

    /// The revision each namespace is kept at.
    fn in_force(&self, space: &Space) -> Option<u8> {
        let (status, since) = (self.status(), self.staged_since());
        let moved = space.moved.map(|(revision, since)| Moved { revision: name(revision), since });
        in_force(status.revision.as_deref(), since, moved.as_ref()).map(number)
    }

    fn fails(&self, space: &Space) -> bool {
        space.heard == Some(space.generation) && !space.ready
    }

    /// Moved, not there yet, and not failing.
    fn restless(&self) -> usize {
        let since = self.staged_since();
        let restless = |space: &&Space| {
            let moved = space.moved.filter(|(_, then)| Some(*then) == since);
            let is_there = space.heard == Some(space.generation) && space.ready;
            moved.is_some_and(|(revision, _)| !(is_there && space.has == Some(revision)) && !self.fails(space))
        };
        self.namespaces.values().filter(restless).count()
    }

    fn see_class(&self) -> Observed {
        let kept = self.kept.iter().map(|(revision, number)| Kept {
            digest: name(*revision),
            uid: name(*revision),
            number: *number,
            version: number.to_string(),
        });
        let mut seen = Observed {
            name: "web".into(),
            generation: self.generation,
            namespaces: self.namespaces.iter().map(|(name, space)| self.see_bound(*name, space)).collect(),
            rollout: rollout::Seen {
                newest: Some(name(self.says)),
                wishes: Wishes {
                    batch: self.staged.then_some(Share::Number(1)),
                    paused: self.paused,
                    ..Wishes::default()
                },
                kept: kept.collect(),
                confirmed: self.confirmed.map(name),
                now: now(),
                ..rollout::Seen::default()
            },
            status: self.status(),
            ..Observed::default()
        };
        if must_count(&seen) && self.says == NOTHING {
            let full = self.namespaces.values().filter(|space| space.carries.is_some_and(|has| has != NOTHING));
            let objects = MUCH * u64::try_from(full.count()).expect("few");
            seen.rollout.deletions = Deletions { objects, made: objects };
        }
        seen
    }

    fn see_bound(&self, name_of_space: u8, space: &Space) -> Bound {
        Bound {
            name: name_of_space.to_string(),
            uid: name_of_space.to_string(),
            version: space.generation.to_string(),
            updated: space.has == Some(self.says),
            ready: space.ready,
            stalled: (space.heard.is_some() && !space.ready).then(|| "Conflict".to_owned()),
            heard: space.heard == Some(space.generation),
            has: space.has.map(name),
            moved: space.moved.map(|(revision, since)| Moved { revision: name(revision), since }),
            ..Bound::default()
        }
    }

    fn do_rollout(&mut self, step: &RolloutStep) -> Outcome {
        match step {
            RolloutStep::Keep { revision, number: at } => {
                assert!(self.kept.insert(number(revision), *at).is_none(), "kept twice");
            }
            RolloutStep::Renumber { revision, version, number: at, .. } => match self.kept.get_mut(&number(revision)) {
                Some(kept) if kept.to_string() == *version => *kept = *at,
                _ => return stale(),
            },
            RolloutStep::Move { namespace, version, revision, since, .. } => {
                let space = namespace.parse().ok().and_then(|name: u8| self.namespaces.get_mut(&name));
                match space {
                    Some(space) if space.generation.to_string() == *version => {
                        let moved = Some((number(revision), *since));
                        assert_ne!(space.moved, moved, "moved where it is");
                        (space.moved, space.generation) = (moved, space.generation + 1);
                    }
                    _ => return stale(),
                }
            }
            RolloutStep::Forget { revision, .. } => {
                assert!(self.kept.remove(&number(revision)).is_some(), "forgotten twice");
            }
        }
        Outcome::done()
    }

    fn act(&self, what: impl Into<String>, change: impl FnOnce(&mut World)) -> Act<World> {
        let act = Act::new(what, self, change);
        for (name, space) in &act.after.namespaces {
            if let Some(before) = self.namespaces.get(name) {
                assert_eq!(
                    act.after.in_force(space),
                    self.in_force(before),
                    "{}: a namespace follows before its turn has come",
                    act.what
                );
            }
        }
        act
    }
}

/// Nobody who is well is moved where others are seen to fail, unless it is the way back.
fn check_move(seen: &Observed, step: &ClassStep) {
    let ClassStep::RollOut(RolloutStep::Move { namespace, revision, since, .. }) = step else { return };
    let fails = |bound: &&Bound| bound.heard && bound.stalled.is_some();
    let target = Moved { revision: revision.clone(), since: *since };
    let fails_with_it = seen.namespaces.iter().filter(fails).any(|bound| bound.moved.as_ref() == Some(&target));
    let was_well = seen.namespaces.iter().filter(|bound| bound.name == *namespace).any(|bound| !fails(&bound));
    let is_way_back = seen.status.revision.as_ref() == Some(revision);
    assert!(!fails_with_it || !was_well || is_way_back, "{namespace} is moved although others fail with {revision}");
    assert!(!seen.rollout.wishes.paused, "{namespace} is moved although the class is paused");
}

impl explorer::World for World {
    type Seen = Seen;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Seen)> {
        let spaces = self.namespaces.iter().map(|(name, space)| {
            let seen = Seen::Space { name: *name, generation: space.generation, wanted: self.in_force(space) };
            (WORKS[usize::from(*name)], seen)
        });
        spaces.chain([("class", Seen::Class(Box::new(self.see_class())))]).collect()
    }

    fn plan(&self, seen: &Seen) -> Plan<Step> {
        match seen {
            Seen::Class(seen) => {
                let Plan { groups, next } = class::plan(seen);
                groups.iter().flatten().for_each(|step| check_move(seen, step));
                let steps = |group: Vec<ClassStep>| group.into_iter().map(Step::Class).collect();
                Plan { groups: groups.into_iter().map(steps).collect(), next }
            }
            Seen::Space { name, wanted: Some(wanted), .. } => {
                let is_there = self.namespaces.get(name).is_none_or(|space| space.carries == Some(*wanted));
                if is_there { Plan::settled() } else { Plan::step(Step::Furnish(*name, *wanted)) }
            }
            Seen::Space { .. } => Plan::settled(),
        }
    }

    fn execute(&mut self, _: &Seen, step: &Step) -> Outcome {
        match step {
            Step::Class(ClassStep::RollOut(step)) => self.do_rollout(step),
            Step::Class(step) => panic!("a class without policies is neither held nor let go: {step}"),
            Step::Furnish(name, revision) => match self.namespaces.get_mut(name) {
                Some(space) => {
                    space.carries = Some(*revision);
                    Outcome::done()
                }
                None => stale(),
            },
        }
    }

    fn report(&mut self, seen: &Seen, outcomes: &[(&Step, Outcome)]) {
        match seen {
            Seen::Class(seen) => {
                if let Some(status) = class::report(seen, &now()) {
                    self.status = serde_json::to_string(&status).expect("plain data");
                }
            }
            Seen::Space { name, generation, wanted: Some(wanted) } => {
                let is_well = !self.spoilt.contains(&(*name, *wanted));
                let space = self.namespaces.get_mut(name).filter(|space| space.generation == *generation);
                if let Some(space) = space
                    && outcomes.iter().all(|(_, outcome)| outcome.is_done())
                {
                    (space.heard, space.ready) = (Some(*generation), is_well);
                    if is_well {
                        space.has = Some(*wanted);
                    }
                }
            }
            Seen::Space { .. } => {}
        }
    }

    fn others(&self) -> Vec<Act<Self>> {
        let mut acts = Vec::new();
        for says in (0..4).filter(|says| *says != self.says) {
            acts.push(self.act(format!("the class says r{says}"), |world| world.edit(says)));
        }
        let paused = !self.paused;
        acts.push(self.act(format!("paused: {paused}"), |world| world.pause(paused)));
        let staged = !self.staged;
        acts.push(self.act(format!("stages: {staged}"), |world| world.stage(staged)));
        if self.confirmed != Some(self.says) {
            acts.push(self.act("the deletions are confirmed", |world| world.confirm(world.says)));
        }
        let free = (0..3).find(|name| !self.namespaces.contains_key(name));
        acts.extend(free.map(|name| {
            self.act(format!("namespace {name} comes"), |world| {
                world.namespaces.insert(name, Space::default());
            })
        }));
        acts.extend(self.namespaces.keys().map(|name| {
            self.act(format!("namespace {name} goes"), |world| {
                world.namespaces.remove(name);
            })
        }));
        if self.spoilt.is_empty() {
            acts.extend(self.namespaces.keys().map(|name| {
                self.act(format!("r{} does not fit {name}", self.says), |world| world.spoil(*name, world.says))
            }));
        } else {
            acts.push(self.act("everything fits again", World::mend));
        }
        acts
    }

    fn check(&self) {
        for (name, space) in &self.namespaces {
            let in_force = self.in_force(space);
            assert!(in_force.is_none_or(|revision| self.kept.contains_key(&revision)), "{name}: not kept");
        }
        assert!(self.restless() <= 1, "more than a batch is on its way");
    }

    fn check_rest(&self) {
        let status = self.status();
        let rollout = status.rollout.clone().expect("it is told");
        assert_eq!(rollout.revision, name(self.says), "the roll-out is of what the class says");
        assert_eq!(self.kept.values().max(), self.kept.get(&self.says), "it has the highest number");
        let fails_with_it = |space: &Space| self.in_force(space) == Some(self.says) && self.fails(space);
        for (space_name, space) in &self.namespaces {
            assert_eq!(space.carries, self.in_force(space), "{space_name} is not kept at its revision");
        }
        let behind = self.namespaces.values().any(|space| self.in_force(space) != Some(self.says));
        match rollout.phase {
            rollout::Phase::Unconfirmed => {
                assert!(self.says == NOTHING && self.confirmed != Some(NOTHING) && behind, "it waits for nothing");
            }
            rollout::Phase::Paused => assert!(self.paused, "nobody paused it"),
            rollout::Phase::Stopped => {
                assert!(behind && self.namespaces.values().any(fails_with_it), "nothing fails");
            }
            rollout::Phase::RollingOut => {
                assert!(!behind && self.namespaces.values().any(fails_with_it), "it is not going on");
            }
            rollout::Phase::Complete => {
                assert!(!behind && status.revision == Some(name(self.says)), "it is not complete");
            }
        }
    }
}
