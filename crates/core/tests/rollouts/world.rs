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
};

use crate::{
    explorer::{self, Act, stale},
    space::{Since, Space, State, now},
};

/// Names of the works there are.
const WORKS: [&str; 3] = ["first", "second", "third"];

/// What a class that says this has made in a namespace goes, all of it.
const NOTHING: u8 = 0;

/// Objects in a namespace: those of two are more than anybody may delete unasked.
const MANY: u64 = 60;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct World {
    says: u8,
    generation: i64,
    staged: bool,
    paused: bool,
    /// Number and revision.
    confirmed: Option<(i64, u8)>,
    /// As the API server has it, in JSON.
    status: String,
    /// Numbers of the revisions that are kept.
    kept: BTreeMap<u8, i64>,
    /// Revisions of an earlier class of this name, whose objects are there still.
    left: BTreeSet<u8>,
    was_made_again: bool,
    namespaces: BTreeMap<u8, Space>,
    /// Which namespaces fail with which revisions.
    spoilt: BTreeSet<(u8, u8)>,
    /// One that comes to no end with any revision, and does not say that somebody must act.
    stuck: Option<u8>,
    /// Whether namespaces get stuck and the class is made again: worlds in which anything happens are too many to explore far.
    is_unruly: bool,
}

pub enum Seen {
    /// And whether it is the class that was made again.
    Class(Box<Observed>, bool),
    Space {
        name: u8,
        generation: u8,
        wanted: Option<u8>,
    },
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
            left: BTreeSet::new(),
            was_made_again: false,
            stuck: None,
            is_unruly: false,
            namespaces: (0..namespaces).map(|name| (name, Space::default())).collect(),
            spoilt: BTreeSet::new(),
        }
    }

    pub fn unruly(mut self) -> Self {
        self.is_unruly = true;
        self
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

    /// Its deletions, as it is numbered now.
    pub fn confirm(&mut self, revision: u8) {
        self.confirmed = self.kept.get(&revision).map(|number| (*number, revision));
    }

    pub fn get_stuck(&mut self, space: Option<u8>) {
        self.stuck = space;
    }

    pub fn wait_long(&mut self) {
        for space in self.namespaces.values_mut().filter(|space| space.state == State::Unready(Since::JustNow)) {
            space.state = State::Unready(Since::LongAgo);
        }
    }

    /// Somebody deletes the class and makes one of the same name that says this; the bindings do not notice.
    pub fn make_again(&mut self, says: u8) {
        (self.says, self.generation, self.was_made_again) = (says, 1, true);
        (self.status, self.confirmed) = ("{}".into(), None);
        self.left = std::mem::take(&mut self.kept).into_keys().collect();
        for space in self.namespaces.values_mut() {
            space.has = None;
        }
    }

    pub fn spoil(&mut self, space: u8, revision: u8) {
        self.spoilt.insert((space, revision));
    }

    pub fn come(&mut self, space: u8) {
        self.namespaces.insert(space, Space::default());
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
        let moved = moved_of(space);
        in_force(status.revision.as_deref(), since, moved.as_ref()).map(number)
    }

    /// Moved, not there yet, and not failing.
    fn restless(&self) -> usize {
        let since = self.staged_since();
        let is_moved = |space: &&Space| space.moved.is_some_and(|(_, then, _)| Some(then) == since);
        self.namespaces.values().filter(is_moved).filter(|space| !space.is_through() && !space.fails()).count()
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
                predecessor: self.left.get(&self.says).map(|left| name(*left)),
                confirmed: self.confirmed.map(|(number, revision)| format!("{number}-{}", name(revision))),
                now: now(),
                ..rollout::Seen::default()
            },
            status: self.status(),
            ..Observed::default()
        };
        if must_count(&seen) && self.says == NOTHING {
            let full = self.namespaces.values().filter(|space| space.carries.is_some_and(|has| has != NOTHING));
            let objects = MANY * u64::try_from(full.count()).expect("few");
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
            ready: space.state == State::Ready,
            stalled: (space.state == State::Stalled).then(|| "Conflict".to_owned()),
            unready_since: space.unready_since(),
            heard: space.is_heard(),
            has: space.has.map(name),
            moved: moved_of(space),
            ..Bound::default()
        }
    }

    fn do_rollout(&mut self, step: &RolloutStep) -> Outcome {
        match step {
            RolloutStep::Discard { revision, .. } => {
                self.left.remove(&number(revision));
            }
            RolloutStep::Keep { revision, number: at } => {
                assert!(!self.left.contains(&number(revision)), "its name is taken");
                assert!(self.kept.insert(number(revision), *at).is_none(), "kept twice");
            }
            RolloutStep::Renumber { revision, version, number: at, .. } => match self.kept.get_mut(&number(revision)) {
                Some(kept) if kept.to_string() == *version => *kept = *at,
                _ => return stale(),
            },
            RolloutStep::Move { namespace, version, revision, since, failing, .. } => {
                let space = namespace.parse().ok().and_then(|name: u8| self.namespaces.get_mut(&name));
                match space {
                    Some(space) if space.generation.to_string() == *version => {
                        let moved = (number(revision), *since);
                        assert_ne!(space.moved.map(|(to, since, _)| (to, since)), Some(moved), "moved where it is");
                        space.moved = Some((moved.0, moved.1, *failing));
                        space.generation += 1;
                    }
                    _ => return stale(),
                }
            }
            RolloutStep::Forget { revision, .. } => {
                let is_there = self.kept.remove(&number(revision)).is_some();
                assert!(is_there || self.was_made_again, "forgotten twice");
            }
        }
        Outcome::done()
    }

    /// What happens only in unruly worlds.
    fn unruly_acts(&self) -> Vec<Act<World>> {
        let mut acts = Vec::new();
        if !self.is_unruly {
            return acts;
        }
        match self.stuck {
            None => acts.extend(
                self.namespaces
                    .keys()
                    .next()
                    .map(|name| self.act(format!("{name} comes to no end"), |world| world.get_stuck(Some(*name)))),
            ),
            Some(_) => acts.push(self.act("it comes to its end after all", |world| world.get_stuck(None))),
        }
        if self.namespaces.values().any(|space| space.state == State::Unready(Since::JustNow)) {
            acts.push(self.act("an hour passes", World::wait_long));
        }
        if !self.was_made_again {
            let made_again = |says: u8| move |world: &mut World| world.make_again(says);
            acts.extend(
                [1, 2].map(|says| Act::new(format!("the class is made again: r{says}"), self, made_again(says))),
            );
        }
        acts
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

fn moved_of(space: &Space) -> Option<Moved> {
    let moved = space.moved;
    moved.map(|(revision, since, failed_before)| Moved { revision: name(revision), since, failed_before })
}

/// Nobody who is well is moved where others are seen to fail, unless it is the way back.
fn check_move(seen: &Observed, step: &ClassStep) {
    let ClassStep::RollOut(RolloutStep::Move { namespace, revision, since, .. }) = step else { return };
    let fails = |bound: &&Bound| bound.heard && bound.stalled.is_some() && bound.has.as_ref() != Some(revision);
    let target = Moved { revision: revision.clone(), since: *since, failed_before: false };
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
        let class = Seen::Class(Box::new(self.see_class()), self.was_made_again);
        spaces.chain([("class", class)]).collect()
    }

    fn plan(&self, seen: &Seen) -> Plan<Step> {
        match seen {
            Seen::Class(seen, _) => {
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

    fn execute(&mut self, seen: &Seen, step: &Step) -> Outcome {
        let is_of_earlier = matches!(seen, Seen::Class(_, was_made_again) if *was_made_again != self.was_made_again);
        match step {
            Step::Class(ClassStep::RollOut(RolloutStep::Keep { revision, .. })) if is_of_earlier => {
                if self.left.insert(number(revision)) { Outcome::done() } else { stale() }
            }
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
            Seen::Class(seen, was_made_again) => {
                let is_as_it_was = self.was_made_again == *was_made_again
                    && (self.generation, self.status()) == (seen.generation, seen.status.clone());
                let outcomes = outcomes.iter().filter_map(|(step, outcome)| match step {
                    Step::Class(step) => Some((step, outcome.clone())),
                    Step::Furnish(..) => None,
                });
                let after = class::after(seen, &outcomes.collect::<Vec<_>>());
                if let Some(status) = class::report(&after, &now()).filter(|_| is_as_it_was) {
                    self.status = serde_json::to_string(&status).expect("plain data");
                }
            }
            Seen::Space { name, generation, wanted: Some(wanted) } => {
                let (is_stuck, is_spoilt) = (self.stuck == Some(*name), self.spoilt.contains(&(*name, *wanted)));
                let space = self.namespaces.get_mut(name).filter(|space| space.generation == *generation);
                if let Some(space) = space
                    && outcomes.iter().all(|(_, outcome)| outcome.is_done())
                {
                    space.heard = Some(*generation);
                    space.state = match (space.state, is_stuck, is_spoilt) {
                        (same @ State::Unready(_), true, _) => same,
                        (_, true, _) => State::Unready(Since::JustNow),
                        (_, false, true) => State::Stalled,
                        (_, false, false) => State::Ready,
                    };
                    if space.state == State::Ready {
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
        if self.confirmed.map(|(_, revision)| revision) != Some(self.says) {
            acts.push(self.act("the deletions are confirmed", |world| world.confirm(world.says)));
        }
        let free = (0..3).find(|name| !self.namespaces.contains_key(name));
        acts.extend(free.map(|name| self.act(format!("namespace {name} comes"), |world| world.come(name))));
        acts.extend(self.namespaces.keys().map(|name| {
            self.act(format!("namespace {name} goes"), |world| {
                world.namespaces.remove(name);
            })
        }));
        acts.extend(self.unruly_acts());
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
        let fails_with_it = |space: &Space| self.in_force(space) == Some(self.says) && space.fails();
        for (space_name, space) in &self.namespaces {
            let in_force = self.in_force(space);
            // A class that is made again and held up takes nothing over from the one before.
            let is_held_up = matches!(rollout.phase, rollout::Phase::Paused | rollout::Phase::Unconfirmed);
            let is_nobodys = in_force.is_none() && self.was_made_again && is_held_up;
            assert!(is_nobodys || space.carries == in_force, "{space_name} is not kept at its revision");
        }
        let behind = self.namespaces.values().any(|space| self.in_force(space) != Some(self.says));
        match rollout.phase {
            rollout::Phase::Unconfirmed => {
                let asked = self.kept.get(&NOTHING).map(|number| (*number, NOTHING));
                assert!(self.says == NOTHING && self.confirmed != asked && behind, "it waits for nothing");
            }
            rollout::Phase::Paused => assert!(self.paused, "nobody paused it"),
            rollout::Phase::Stopped => {
                assert!(behind && self.namespaces.values().any(fails_with_it), "nothing fails");
            }
            rollout::Phase::RollingOut => {
                let is_unwell = |space: &Space| space.state != State::Ready;
                assert!(self.namespaces.values().any(is_unwell), "it is not going on");
                assert!(!behind || self.restless() > 0, "nobody is waited for");
            }
            rollout::Phase::Complete => {
                assert!(!behind && status.revision == Some(name(self.says)), "it is not complete");
            }
        }
    }
}
