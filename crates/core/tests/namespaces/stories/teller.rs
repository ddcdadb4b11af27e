//! Tells what the operator does after each event, until there is nothing left to do or to tell.

use std::fmt::Write;

use croft_core::{
    namespaces::{
        binding, class,
        inventory::{Difference, Status},
        resources,
    },
    plan::{Outcome, Plan},
    time::Instant,
};

use super::words;
use crate::{
    explorer::{World as _, at_rest},
    others::{Seen, Step, is_let_go, of_resources},
    world::{World, now},
};

/// Looks after which every event must be dealt with.
const MOST_LOOKS: usize = 12;

#[derive(Debug, Default)]
pub struct Teller {
    text: String,
    /// The trouble that was last told on the namespace.
    trouble: Option<String>,
}

impl Teller {
    pub fn text(self) -> String {
        self.text
    }

    fn line(&mut self, line: &str) {
        writeln!(self.text, "{}", line.trim_end()).expect("a String takes everything");
    }

    fn lines(&mut self, first: &str, lines: &[String]) {
        for (number, line) in lines.iter().enumerate() {
            let lead = if number == 0 { first.to_owned() } else { " ".repeat(first.len()) };
            self.line(&format!("{lead}{line}"));
        }
    }

    pub fn title(&mut self, title: &str, about: &str) {
        self.line(title);
        self.line(&"=".repeat(title.len()));
        self.line("");
        self.line(about);
    }

    /// What follows is with this choice of the class.
    pub fn policy(&mut self, policy: &str) {
        self.line("");
        self.line(policy);
        self.line(&"-".repeat(policy.len()));
    }

    /// Begins with a world at rest.
    pub fn given(&mut self, world: World) -> World {
        let world = at_rest(&World { tends_classes: true, ..world });
        self.trouble = None;
        self.line("");
        self.lines("given     ", &words::scene(&world));
        world
    }

    /// Something happens, and the operator looks until all is quiet.
    pub fn event(&mut self, world: &mut World, what: &str, change: impl FnOnce(&mut World)) {
        change(world);
        self.line("");
        self.line(&format!("* {what}"));
        self.line("");
        for _ in 0..MOST_LOOKS {
            if !self.look_everywhere(world) {
                let is_settled = world.observe().iter().all(|(_, seen)| world.plan(seen).is_settled());
                let left = if is_settled { "nothing to do" } else { "tried again, ever more rarely" };
                self.line(&format!("  quiet: {left}, nothing to tell"));
                self.line("");
                self.lines("now       ", &words::scene(world));
                world.check_truth();
                return;
            }
        }
        panic!("never quiet after: {what}\n{}", self.text);
    }

    /// Does every kind of work once; says whether there was any. Time passes where there was none.
    fn look_everywhere(&mut self, world: &mut World) -> bool {
        let works: Vec<_> = world.observe().into_iter().map(|(work, _)| work).collect();
        let worked = works.into_iter().filter(|work| self.look(world, work)).count() > 0;
        match world.passes() {
            Some(later) if !worked => {
                self.line("  the garbage collector takes what belonged to the binding");
                *world = later;
                true
            }
            _ => worked,
        }
    }

    /// One reconcile; says whether there was anything to do or to tell that is new.
    fn look(&mut self, world: &mut World, work: &str) -> bool {
        let Some((_, seen)) = world.observe().into_iter().find(|(name, _)| *name == work) else { return false };
        let (plan, before) = (world.plan(&seen), self.text.len());
        self.line(&match &seen {
            Seen::Binding(_) => "  looks at the namespace".to_owned(),
            Seen::Resources(_) => "  looks at the binding".to_owned(),
            Seen::Class(name, _, _) => format!("  looks at class {name}"),
        });
        let heading = self.text.len();
        let outcomes = self.carry_out(world, &seen, &plan);
        self.tell(&seen, &outcomes);
        world.report(&seen, &outcomes);
        let is_news = self.text.len() > heading;
        if !is_news {
            self.text.truncate(before);
        }
        is_news
    }

    fn carry_out<'p>(&mut self, world: &mut World, seen: &Seen, plan: &'p Plan<Step>) -> Vec<(&'p Step, Outcome)> {
        let mut outcomes: Vec<(&Step, Outcome)> = Vec::new();
        let mut told = Vec::new();
        for (number, group) in plan.groups.iter().enumerate() {
            let before = outcomes.clone();
            for (place, step) in group.iter().enumerate() {
                let may_begin =
                    before.iter().all(|(earlier, outcome)| outcome.is_done() || !world.needs(step, earlier));
                let outcome = if may_begin { world.execute(seen, step) } else { Outcome::NotRun };
                let lead = match (number, place) {
                    (0, 0) => "    first ",
                    (_, 0) => "    then  ",
                    _ => "          ",
                };
                told.push(format!("{lead}{}{}", words::step(seen, step), words::outcome(&outcome)));
                outcomes.push((step, outcome));
            }
        }
        if !is_known(seen, &outcomes) {
            for line in &told {
                self.line(line);
            }
        }
        outcomes
    }

    fn tell(&mut self, seen: &Seen, outcomes: &[(&Step, Outcome)]) {
        match seen {
            Seen::Binding(seen) => self.tell_namespace(seen),
            Seen::Resources(seen) => self.tell_binding(seen, outcomes),
            Seen::Class(_, _, seen) if !is_let_go(outcomes) => self.tell_class(seen),
            Seen::Class(..) => {}
        }
    }

    fn tell_namespace(&mut self, seen: &binding::Observed) {
        let trouble = binding::trouble(seen).map(|trouble| format!("Warning {}: {trouble}", trouble.reason()));
        if let (Some(trouble), true) = (&trouble, trouble != self.trouble) {
            self.line(&format!("    event {trouble}"));
        }
        self.trouble = trouble;
    }

    fn tell_binding(&mut self, seen: &resources::Observed, outcomes: &[(&Step, Outcome)]) {
        let (outcomes, stored) = (of_resources(outcomes), &seen.binding.status);
        let told =
            resources::tell(seen, stored, &outcomes, &mut None, &mut resources::Routine::default(), &now(), Instant(0));
        let ends = |step: &resources::ResourceStep| matches!(step, resources::ResourceStep::DeleteBinding { .. });
        if outcomes.iter().any(|(step, outcome)| ends(step) && outcome.is_done()) {
            return;
        }
        let status = resources::report(seen, &outcomes, &now());
        match stored.difference(&status) {
            Difference::None => {}
            Difference::Vouched => self.line("    notes that nothing of ours has changed"),
            Difference::Routine => self.line("    notes which objects stand now"),
            Difference::News => self.tell_status(stored, &status),
        }
        if let Some((warning, reason, message)) = told.event {
            self.line(&format!("    event {} {reason}: {message}", if warning { "Warning" } else { "Normal" }));
        }
    }

    fn tell_status(&mut self, before: &Status, status: &Status) {
        if before.conditions != status.conditions {
            self.lines("    says  ", &words::conditions(&status.conditions));
        }
        if words::inventory(before) != words::inventory(status) {
            self.lines("    lists ", &words::inventory(status));
        }
        if before.observed_class_generation != status.observed_class_generation
            && before.conditions == status.conditions
        {
            self.line("    notes that this is the class as it is now");
        }
    }

    fn tell_class(&mut self, seen: &class::Observed) {
        let Some(status) = class::report(seen, &now()) else { return };
        if words::conditions(&status.conditions) != words::conditions(&seen.status.conditions) {
            self.lines("    says  ", &words::conditions(&status.conditions));
        } else if status.observed_generation != seen.status.observed_generation {
            self.line("    notes that this is the class as it is now");
        }
        if words::counts(&status) != words::counts(&seen.status) {
            self.line(&format!("    counts {}", words::counts(&status)));
        }
        if status.kinds != seen.status.kinds {
            let kinds: Vec<_> = status.kinds.iter().map(|kind| kind.resource.as_str()).collect();
            self.line(&format!("    watches {}", kinds.join(", ")));
        }
    }
}

/// Whether the binding says already how this attempt ended.
fn is_known(seen: &Seen, outcomes: &[(&Step, Outcome)]) -> bool {
    let Seen::Resources(seen) = seen else { return false };
    let is_failed = outcomes.iter().any(|(_, outcome)| outcome.failure().is_some());
    is_failed && resources::report(seen, &of_resources(outcomes), &now()) == seen.binding.status
}
