//! The search itself: every world once, those that need fewer acts of others first.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use super::{
    Explored, Limits, ROUNDS, World, left_alone,
    reconcile::{Event, Reconcile, Visit},
    story::{Counterexample, Story, Way},
};

pub(super) struct Search<W: World> {
    limits: Limits,
    known: Vec<Known<W>>,
    numbers: HashMap<Rc<W>, usize>,
    /// What is still to be looked at, by the acts of others it took to get there.
    waiting: BTreeMap<usize, VecDeque<usize>>,
    moves: usize,
    /// Where the search is: if a world panics, this is what led to it.
    here: Here,
}

struct Known<W> {
    world: Rc<W>,
    /// Acts of others on the cheapest way here.
    acts: usize,
    /// The world before, and how it became this one; none for a start.
    came: Option<(usize, Way)>,
    is_explored: bool,
    /// What becomes of it when left alone, once explored; itself at rest.
    next: usize,
}

#[derive(Default)]
struct Here {
    number: usize,
    work: &'static str,
    events: Vec<Event>,
    /// Beyond the last known world nothing happened but time and undisturbed work.
    alone: bool,
}

impl<W: World> Search<W> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            known: Vec::new(),
            numbers: HashMap::new(),
            waiting: BTreeMap::new(),
            moves: 0,
            here: Here::default(),
        }
    }

    pub(super) fn run(mut self, starts: impl IntoIterator<Item = W>) -> Result<Explored<W>, Box<Counterexample>> {
        for start in starts {
            self.offer(&start, 0, || None);
        }
        while let Some(number) = self.take() {
            catch_unwind(AssertUnwindSafe(|| self.look_at(number))).map_err(|panic| {
                let why = panic.downcast_ref::<String>().cloned();
                let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
                Box::new(self.broken(why.unwrap_or_default()))
            })?;
        }
        let reconciles = self.longest_way_to_rest()?;
        let worlds = self.known.into_iter().map(|known| known.world).collect();
        Ok(Explored { worlds, moves: self.moves, reconciles })
    }

    fn take(&mut self) -> Option<usize> {
        loop {
            let mut cheapest = self.waiting.first_entry()?;
            let Some(number) = cheapest.get_mut().pop_front() else {
                cheapest.remove();
                continue;
            };
            if !std::mem::replace(&mut self.known[number].is_explored, true) {
                return Some(number);
            }
        }
    }

    fn look_at(&mut self, number: usize) {
        let world = self.known[number].world.clone();
        self.here = Here { number, ..Here::default() };
        world.check();
        self.let_others_act(number, &world);
        for (work, seen) in world.observe() {
            self.here = Here { number, work, ..Here::default() };
            let reconcile = Reconcile::new(&*world, work, seen);
            reconcile.explore(&reconcile.begin(&world), self.limits.at_once, self);
        }
        self.here = Here { number, alone: true, ..Here::default() };
        self.known[number].next = if let Some(next) = left_alone(&*world) {
            self.offer(&next, self.known[number].acts, || Some((number, Way::LeftAlone)))
        } else {
            world.check_rest();
            number
        };
    }

    fn let_others_act(&mut self, number: usize, world: &W) {
        let acts = self.known[number].acts;
        if self.can_afford(acts + 1) {
            for (which, act) in world.others().iter().enumerate() {
                self.offer(&act.after, acts + 1, || Some((number, Way::Act(which))));
            }
        }
        if let Some(later) = world.passes() {
            self.offer(&later, acts, || Some((number, Way::Time)));
        }
    }

    /// Acts of others up to now, those during the reconcile under way included.
    fn acts_here(&self) -> usize {
        let during = self.here.events.iter().filter(|event| matches!(event, Event::Act(_))).count();
        self.known[self.here.number].acts + during
    }

    fn can_afford(&self, acts: usize) -> bool {
        acts <= self.limits.acts
    }

    /// Notes a world, unless it is known to be as cheap to get to already.
    fn offer(&mut self, world: &W, acts: usize, came: impl FnOnce() -> Option<(usize, Way)>) -> usize {
        self.moves += 1;
        if let Some(number) = self.numbers.get(world).copied() {
            let known = &mut self.known[number];
            if acts < known.acts {
                (known.acts, known.came) = (acts, came());
                self.waiting.entry(acts).or_default().push_back(number);
            }
            return number;
        }
        let (number, world) = (self.known.len(), Rc::new(world.clone()));
        self.known.push(Known { world: world.clone(), acts, came: came(), is_explored: false, next: number });
        self.numbers.insert(world, number);
        self.waiting.entry(acts).or_default().push_back(number);
        number
    }

    /// Follows every world to its rest.
    fn longest_way_to_rest(&self) -> Result<usize, Box<Counterexample>> {
        let mut left = vec![None; self.known.len()];
        for start in 0..self.known.len() {
            let mut way = vec![start];
            let mut end = start;
            while left[end].is_none() && self.known[end].next != end {
                end = self.known[end].next;
                way.push(end);
                if way.len() > ROUNDS {
                    return Err(Box::new(self.restless(start)));
                }
            }
            let known = left[end].unwrap_or(0);
            for (distance, world) in way.iter().rev().enumerate() {
                left[*world].get_or_insert(known + distance);
            }
        }
        let longest = left.into_iter().flatten().max().unwrap_or_default();
        Ok(longest)
    }

    fn story_of(&self, number: usize) -> Story<W> {
        let mut ways = Vec::new();
        let mut start = number;
        while let Some((before, way)) = &self.known[start].came {
            ways.push(way.clone());
            start = *before;
        }
        ways.reverse();
        Story::new(&self.known[start].world, &ways)
    }

    fn broken(&self, why: String) -> Counterexample {
        let Here { number, work, events, alone } = &self.here;
        let mut story = self.story_of(*number);
        if *alone {
            story.goes_wrong_when_left_alone();
        } else if !work.is_empty() {
            story.goes_wrong_during(work, events);
        }
        story.end(why)
    }

    fn restless(&self, start: usize) -> Counterexample {
        let mut story = self.story_of(start);
        for _ in 0..ROUNDS {
            story.tell(&Way::LeftAlone);
        }
        story.end(format!("no rest after {ROUNDS} reconciles"))
    }
}

impl<W: World> Visit<W> for Search<W> {
    fn events(&mut self) -> &mut Vec<Event> {
        &mut self.here.events
    }

    fn reached(&mut self, world: &W) {
        let (number, work) = (self.here.number, self.here.work);
        let acts = self.acts_here();
        let events = std::mem::take(&mut self.here.events);
        self.offer(world, acts, || Some((number, Way::Reconcile { work, events: events.clone() })));
        self.here.events = events;
    }

    fn may_others_act(&self) -> bool {
        self.can_afford(self.acts_here() + 1)
    }

    fn may_fail(&self) -> bool {
        self.limits.faults
    }
}
