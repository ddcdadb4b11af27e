//! One reconcile, with everything that can happen while it is under way.

use croft_core::plan::{Failure, FailureClass, Outcome, Plan};

use super::World;

/// What was seen and what is to be done about it.
pub(super) struct Reconcile<W: World> {
    work: &'static str,
    seen: W::Seen,
    plan: Plan<W::Step>,
}

/// One thing that happens during a reconcile. Steps and acts are told by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Step(usize),
    /// Carried out, but the operator does not hear of it.
    LostReply(usize),
    Refusal(usize),
    Act(usize),
    Time,
    /// The operator does this other work, start to end.
    Meanwhile(&'static str),
    Report,
}

/// How far a reconcile is, and what the world is like by then.
#[derive(Clone, Debug)]
pub(super) struct Moment<W> {
    pub(super) world: W,
    outcomes: Vec<Option<Outcome>>,
}

/// Is told every world in which the operator may die, or is done, with the events that led there.
pub(super) trait Visit<W> {
    /// The events since the reconcile began. What is pushed stays there if the world panics.
    fn events(&mut self) -> &mut Vec<Event>;

    fn reached(&mut self, world: &W);

    /// Whether others may act once more.
    fn may_others_act(&self) -> bool;

    /// Whether replies get lost and steps are refused.
    fn may_fail(&self) -> bool;
}

impl<W: World> Reconcile<W> {
    pub(super) fn new(world: &W, work: &'static str, seen: W::Seen) -> Self {
        let plan = world.plan(&seen);
        Self { work, seen, plan }
    }

    /// The reconcile of this kind of work, if there is any now.
    pub(super) fn of(world: &W, work: &str) -> Option<Self> {
        let (work, seen) = world.observe().into_iter().find(|(name, _)| *name == work)?;
        Some(Self::new(world, work, seen))
    }

    pub(super) fn plan(&self) -> &Plan<W::Step> {
        &self.plan
    }

    pub(super) fn step(&self, number: usize) -> &W::Step {
        self.plan.iter().nth(number).expect("a step of this plan")
    }

    pub(super) fn begin(&self, world: &W) -> Moment<W> {
        Moment { world: world.clone(), outcomes: vec![None; self.plan.iter().count()] }
    }

    /// Everything that can happen from here on, with so many troubles.
    pub(super) fn explore(&self, moment: &Moment<W>, troubles: usize, visit: &mut impl Visit<W>) {
        let ready = self.ready(moment);
        if ready.is_empty() {
            self.go_on(moment, Event::Report, 0, visit);
        }
        for number in ready {
            self.go_on(moment, Event::Step(number), troubles, visit);
            if troubles > 0 && visit.may_fail() {
                self.go_on(moment, Event::LostReply(number), troubles - 1, visit);
                self.go_on(moment, Event::Refusal(number), troubles - 1, visit);
            }
        }
        if troubles > 0 {
            self.be_disturbed(moment, troubles - 1, visit);
        }
    }

    fn be_disturbed(&self, moment: &Moment<W>, troubles: usize, visit: &mut impl Visit<W>) {
        let acts = if visit.may_others_act() { moment.world.others() } else { Vec::new() };
        for (number, act) in acts.into_iter().enumerate().filter(|(_, act)| act.any_time) {
            self.be_overtaken(moment, Event::Act(number), act.after, troubles, visit);
        }
        if let Some(later) = moment.world.passes() {
            self.be_overtaken(moment, Event::Time, later, troubles, visit);
        }
        for (work, seen) in moment.world.observe().into_iter().filter(|(work, _)| *work != self.work) {
            let other = Self::new(&moment.world, work, seen);
            let (after, _) = other.undisturbed(&moment.world);
            self.be_overtaken(moment, Event::Meanwhile(work), after, troubles, visit);
        }
    }

    /// The world has become another one while the operator is at work.
    fn be_overtaken(&self, moment: &Moment<W>, event: Event, world: W, troubles: usize, visit: &mut impl Visit<W>) {
        if world != moment.world {
            visit.events().push(event);
            self.explore(&Moment { world, outcomes: moment.outcomes.clone() }, troubles, visit);
            visit.events().pop();
        }
    }

    fn go_on(&self, moment: &Moment<W>, event: Event, troubles: usize, visit: &mut impl Visit<W>) {
        visit.events().push(event);
        let mut next = moment.clone();
        self.happens(&mut next, event);
        visit.reached(&next.world);
        if event != Event::Report {
            self.explore(&next, troubles, visit);
        }
        visit.events().pop();
    }

    /// The steps that may be carried out now: those of one group side by side that need nothing which is not done.
    fn ready(&self, moment: &Moment<W>) -> Vec<usize> {
        let mut first = 0;
        for group in &self.plan.groups {
            let numbers = first..first + group.len();
            let ready: Vec<_> = numbers
                .filter(|number| moment.outcomes[*number].is_none() && self.may_begin(moment, *number, first))
                .collect();
            if !ready.is_empty() {
                return ready;
            }
            first += group.len();
        }
        Vec::new()
    }

    /// Whether a step needs nothing of the `before` first ones that is not done.
    fn may_begin(&self, moment: &Moment<W>, number: usize, before: usize) -> bool {
        let is_done = |earlier: usize| moment.outcomes[earlier].as_ref().is_some_and(Outcome::is_done);
        (0..before).all(|earlier| is_done(earlier) || !moment.world.needs(self.step(number), self.step(earlier)))
    }

    pub(super) fn happens(&self, moment: &mut Moment<W>, event: Event) {
        match event {
            Event::Step(number) => moment.outcomes[number] = Some(self.carry_out(&mut moment.world, number)),
            Event::LostReply(number) => {
                self.carry_out(&mut moment.world, number);
                moment.outcomes[number] = Some(failed(FailureClass::Transient, "TimedOut", "no reply"));
            }
            Event::Refusal(number) => {
                // Not for what was asked for, so it may go well the next time.
                moment.outcomes[number] = Some(failed(FailureClass::Rejected, "Refused", "refused"));
            }
            Event::Act(number) => moment.world = moment.world.others().swap_remove(number).after,
            Event::Time => moment.world = moment.world.passes().unwrap_or_else(|| moment.world.clone()),
            Event::Meanwhile(work) => {
                if let Some(other) = Self::of(&moment.world, work) {
                    moment.world = other.undisturbed(&moment.world).0;
                }
            }
            Event::Report => self.report(moment),
        }
    }

    fn carry_out(&self, world: &mut W, number: usize) -> Outcome {
        let before = world.clone();
        let outcome = world.execute(&self.seen, self.step(number));
        world.check_ours(&before);
        outcome
    }

    fn report(&self, moment: &mut Moment<W>) {
        let outcomes = moment.outcomes.iter().map(|outcome| outcome.clone().unwrap_or(Outcome::NotRun));
        let outcomes: Vec<_> = self.plan.iter().zip(outcomes).collect();
        let before = moment.world.clone();
        moment.world.report(&self.seen, &outcomes);
        moment.world.check_ours(&before);
    }

    /// The world after a reconcile in which nothing goes wrong, and whether there was nothing to do that could be done: no
    /// step, or one that is refused until somebody helps.
    pub(super) fn undisturbed(&self, world: &W) -> (W, bool) {
        let mut moment = self.begin(world);
        while let Some(number) = self.ready(&moment).first() {
            self.happens(&mut moment, Event::Step(*number));
        }
        let refused = |outcome: &Outcome| outcome.failure().is_some_and(|failure| is_refusal(failure.class));
        let is_waiting = self.plan.is_settled() || moment.outcomes.iter().flatten().any(refused);
        self.report(&mut moment);
        (moment.world, is_waiting)
    }
}

impl<W> Moment<W> {
    /// How a step ended, in a word.
    pub(super) fn told(&self, number: usize) -> String {
        match &self.outcomes[number] {
            Some(Outcome::Failed(failure)) => failure.to_string(),
            Some(Outcome::Done { .. }) => "done".to_owned(),
            Some(Outcome::NotRun) | None => "not run".to_owned(),
        }
    }
}

fn is_refusal(class: FailureClass) -> bool {
    matches!(class, FailureClass::Rejected | FailureClass::Forbidden)
}

fn failed(class: FailureClass, reason: &'static str, message: &str) -> Outcome {
    Outcome::Failed(Failure::new(class, reason, message))
}
