//! How a world came to be, in words.

use std::fmt;

use super::{
    World, left_alone,
    reconcile::{Event, Reconcile},
};

/// How one world becomes another.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Somebody else acts, while the operator rests.
    Act(usize),
    Time,
    /// The operator works; it dies after the last event, unless that is its report.
    Reconcile {
        work: &'static str,
        events: Vec<Event>,
    },
    /// One undisturbed reconcile or, at rest, time.
    LeftAlone,
}

/// A promise that was broken, and the shortest way to it.
#[derive(Debug)]
pub struct Counterexample {
    start: String,
    lines: Vec<String>,
    end: String,
    why: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, lines, end, why } = self;
        write!(out, "{why}\n\nstart: {start}\n{}\nend: {end}", lines.join("\n"))
    }
}

impl Counterexample {
    /// What happened, line by line.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    pub fn why(&self) -> &str {
        &self.why
    }
}

pub(super) struct Story<W: World> {
    start: W,
    world: W,
    lines: Vec<String>,
}

impl<W: World> Story<W> {
    pub(super) fn new(start: &W, ways: &[Way]) -> Self {
        let mut story = Self { start: start.clone(), world: start.clone(), lines: Vec::new() };
        for way in ways {
            story.tell(way);
        }
        story
    }

    pub(super) fn tell(&mut self, way: &Way) {
        match way {
            Way::Act(number) => {
                let act = self.world.others().swap_remove(*number);
                self.lines.push(act.what);
                self.world = act.after;
            }
            Way::Time => {
                self.lines.push("time passes".to_owned());
                self.world = self.world.passes().expect("time passed here before");
            }
            Way::Reconcile { work, events } => self.tell_reconcile(work, events),
            Way::LeftAlone => self.tell_left_alone(),
        }
    }

    fn tell_reconcile(&mut self, work: &str, events: &[Event]) {
        let reconcile = Reconcile::of(&self.world, work).expect("there was work here before");
        self.lines.push(format!("the operator looks ({work})"));
        let mut moment = reconcile.begin(&self.world);
        for event in events {
            let act = match event {
                Event::Act(number) => moment.world.others().swap_remove(*number).what,
                _ => String::new(),
            };
            reconcile.happens(&mut moment, *event);
            self.lines.push(match event {
                Event::Step(number) => format!("  {}: {}", reconcile.step(*number), moment.told(*number)),
                Event::LostReply(number) => format!("  {}: done, but the reply is lost", reconcile.step(*number)),
                Event::Refusal(number) => format!("  {}: refused", reconcile.step(*number)),
                Event::Act(_) => format!("  [{act}]"),
                Event::Time => "  [time passes]".to_owned(),
                Event::Meanwhile(work) => format!("  [the operator does other work: {work}]"),
                Event::Report => "  report".to_owned(),
            });
        }
        if events.last() != Some(&Event::Report) {
            self.lines.push("  crash".to_owned());
        }
        self.world = moment.world;
    }

    fn tell_left_alone(&mut self) {
        let plans: Vec<_> =
            self.world.observe().iter().map(|(work, seen)| format!("{work}: {}", self.world.plan(seen))).collect();
        self.lines.push(format!("left alone ({})", plans.join("; ").replace('\n', ", ")));
        if let Some(next) = left_alone(&self.world) {
            self.world = next;
        }
    }

    /// The last of the events is the one that broke a promise.
    pub(super) fn goes_wrong_during(&mut self, work: &str, events: &[Event]) {
        let Some((last, before)) = events.split_last() else { return };
        let Some(reconcile) = Reconcile::of(&self.world, work) else { return };
        self.tell_reconcile(work, before);
        // Not a crash: this is where it goes on.
        self.lines.pop_if(|line| line == "  crash");
        self.lines.push(match last {
            Event::Step(number) | Event::LostReply(number) | Event::Refusal(number) => {
                format!("  {}: breaks a promise", reconcile.step(*number))
            }
            Event::Act(_) | Event::Time => "  [what others do breaks a promise]".to_owned(),
            Event::Meanwhile(work) => format!("  [the operator does other work: {work}]: breaks a promise"),
            Event::Report => "  report: breaks a promise".to_owned(),
        });
    }

    pub(super) fn goes_wrong_when_left_alone(&mut self) {
        self.lines.push("left alone: breaks a promise".to_owned());
    }

    pub(super) fn end(self, why: String) -> Counterexample {
        Counterexample { start: format!("{:?}", self.start), lines: self.lines, end: format!("{:?}", self.world), why }
    }
}
