//! What a class says about itself: which kinds it needs watched, and how its namespaces are doing.

use std::{borrow::Cow, collections::BTreeSet, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    budget::{Budget, Budgets},
    conditions::{Conditions, Truth},
    namespaces::{
        gate::{self, GateStep},
        manifest::group_of,
        rollout::{self, RolloutStep},
    },
    plan::{Failure, FailureClass, Next, Outcome, Plan, Step},
    problem::Problem,
    time::{Instant, Timestamp},
};

/// A class is big, and so is every write of its status: how far a roll-out has come is told this often.
const PROGRESS: Duration = Duration::from_secs(1);

/// A class that is deleted looks this often whether everything it leaves behind is left.
const LEAVING: Duration = Duration::from_secs(2);

/// Most failing namespaces named in the status.
const MOST_FAILING: usize = 10;

/// The reason while some namespaces are behind.
const ROLLING_OUT: &str = "RollingOut";

/// The reason while a class that is being deleted waits.
pub const DELETING: &str = "ClassDeleting";

/// What is known about one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub name: String,
    pub generation: i64,
    pub deleting: bool,
    pub held: bool,
    /// Its policy needs us to act before it goes: what it made is left behind, or deletion is blocked.
    pub must_hold: bool,
    pub problems: Vec<Problem>,
    pub resources: i64,
    /// Kinds its items use, as the API server serves them; a kind that is not installed is not among them.
    pub uses: BTreeSet<Kind>,
    /// Kinds of which objects of this class exist.
    pub live: BTreeSet<Kind>,
    pub namespaces: Vec<Bound>,
    /// Namespaces of another class that have something of it still, which it leaves behind: only the class can tell that.
    pub left_by: Vec<String>,
    pub gate: gate::Seen,
    pub rollout: rollout::Seen,
    pub status: Status,
}

/// One bound namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct Bound {
    pub name: String,
    /// Those of its binding.
    pub uid: String,
    pub version: String,
    /// It has what this very class says now.
    pub updated: bool,
    pub ready: bool,
    /// Since when it is not ready, where it says that it is not.
    pub unready_since: Option<Timestamp>,
    /// The reason, if somebody must act.
    pub stalled: Option<String>,
    /// What it says is about what its binding asks for now.
    pub heard: bool,
    /// The revision it has, as far as its binding tells.
    pub has: Option<String>,
    /// Where a roll-out in stages moved it.
    pub moved: Option<rollout::Moved>,
    /// When its turn comes: see [`rollout::turn`].
    pub turn: usize,
    /// It is on its way out of the class: no roll-out waits for it.
    pub leaving: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    pub api_version: String,
    pub kind: String,
    pub resource: String,
}

impl Kind {
    /// Group and kind.
    pub fn identity(&self) -> (&str, &str) {
        (group_of(&self.api_version), &self.kind)
    }
}

/// The class's status, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<i64>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub kinds: BTreeSet<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_namespaces: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_namespaces: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_namespaces: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_namespaces: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<Failing>,
    /// The revision that is released: see [`rollout`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<rollout::Status>,
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failing {
    pub namespace: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassStep {
    /// Keep the class until its namespaces have let go.
    Hold,
    LetGo,
    Gate(GateStep),
    RollOut(RolloutStep),
}

impl Step for ClassStep {
    fn kind(&self) -> &'static str {
        match self {
            ClassStep::Hold => "HoldClass",
            ClassStep::LetGo => "ReleaseClass",
            ClassStep::Gate(step) => step.kind(),
            ClassStep::RollOut(step) => step.kind(),
        }
    }

    /// A gate that cannot be raised keeps nobody from what the class says.
    fn needs(&self, earlier: &Self) -> bool {
        !matches!(earlier, ClassStep::Gate(_))
    }
}

impl fmt::Display for ClassStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClassStep::Hold => out.write_str("hold the class: its deletion needs our help"),
            ClassStep::LetGo => out.write_str("let the class go"),
            ClassStep::Gate(step) => step.fmt(out),
            ClassStep::RollOut(step) => step.fmt(out),
        }
    }
}

pub fn plan(seen: &Observed) -> Plan<ClassStep> {
    let mut plan = plan_class(seen);
    // Before anything goes through it. Where the class goes it goes with it.
    if let Some(step) = gate::step(&seen.gate).filter(|_| !seen.deleting) {
        plan.groups.insert(0, vec![ClassStep::Gate(step)]);
    }
    plan
}

fn plan_class(seen: &Observed) -> Plan<ClassStep> {
    match (seen.deleting, seen.held) {
        (false, false) if seen.must_hold => Plan::step(ClassStep::Hold),
        (false, true) if !seen.must_hold => Plan::step(ClassStep::LetGo),
        (true, true) if !seen.is_awaited() => Plan::step(ClassStep::LetGo),
        // Nobody tells a class what becomes of objects.
        (true, true) if !seen.left_by.is_empty() => Plan::settled().look_again(LEAVING),
        (true, _) => Plan::settled(),
        (false, _) => roll_out(seen),
    }
}

fn roll_out(seen: &Observed) -> Plan<ClassStep> {
    let Plan { groups, next } = rollout::plan(seen);
    let steps = |group: Vec<RolloutStep>| group.into_iter().map(ClassStep::RollOut).collect();
    Plan { groups: groups.into_iter().map(steps).collect(), next }
}

/// The version in which a kind is watched, of those in which classes use it. The one that is watched stays while it is served.
pub fn version_to_watch<'k>(used: &[&'k Kind], watched: Option<(&Kind, bool)>) -> Option<&'k Kind> {
    if let Some((watched, true)) = watched
        && let Some(same) = used.iter().find(|kind| **kind == watched)
    {
        return Some(same);
    }
    let is_dead = |kind: &Kind| watched.is_some_and(|(watched, is_served)| !is_served && watched == kind);
    let is_stable = |kind: &Kind| !["alpha", "beta"].iter().any(|early| kind.api_version.contains(early));
    used.iter().copied().max_by_key(|kind| (!is_dead(kind), is_stable(kind), &kind.api_version))
}

/// Which classes have just told how far their roll-out is.
#[derive(Clone, Debug)]
pub struct Progress(Budgets<String>);

impl Default for Progress {
    fn default() -> Self {
        Self(Budgets::new(Budget::new(1, PROGRESS)))
    }
}

/// What is known after these steps, without another look: a revision that is kept now may be let in at once, and what could not be
/// done is in the way.
pub fn after<'s>(seen: &'s Observed, outcomes: &[(&ClassStep, Outcome)]) -> Cow<'s, Observed> {
    let is_told = |failure: &Failure| failure.class != FailureClass::Stale;
    let mut after = Cow::Borrowed(seen);
    for (step, outcome) in outcomes {
        match (step, outcome) {
            (ClassStep::RollOut(step), Outcome::Done { uid, .. }) => {
                if let Some(kept) = step.kept(uid.as_deref()) {
                    after.to_mut().rollout.kept.push(kept);
                }
            }
            (ClassStep::RollOut(RolloutStep::Keep { .. }), Outcome::Failed(failure)) if is_told(failure) => {
                let why = format!("its newest revision cannot be kept: {failure}");
                after.to_mut().rollout.not_kept = Some(why);
            }
            (ClassStep::Gate(_), Outcome::Failed(failure)) if is_told(failure) => {
                after.to_mut().gate.failure = Some(failure.to_string());
            }
            _ => {}
        }
    }
    after
}

/// The new status, if it is new and not only progress that was told just now; and when to look again.
pub fn tell(
    class: &str,
    seen: &Observed,
    progress: &mut Progress,
    now: &Timestamp,
    at: Instant,
) -> (Option<Status>, Next) {
    let Some(status) = report(seen, now) else { return (None, Next::Settled) };
    if status.conditions.reason("Ready") == Some(ROLLING_OUT) {
        let may_tell = progress.0.spend(class.to_owned(), at);
        if !may_tell && seen.status.without_progress() == status.without_progress() {
            return (None, Next::After(PROGRESS));
        }
    }
    // What was let in may go on from here: nobody announces what we wrote ourselves.
    let plan = plan(&Observed { status: status.clone(), ..seen.clone() });
    let next = if plan.is_settled() { plan.next } else { Next::After(Duration::ZERO) };
    (Some(status), next)
}

impl Status {
    /// Without what only tells how far a roll-out is.
    fn without_progress(&self) -> Self {
        let mut status = Self {
            bound_namespaces: None,
            updated_namespaces: None,
            ready_namespaces: None,
            rollout: self.rollout.as_ref().map(rollout::Status::without_progress),
            ..self.clone()
        };
        for condition in status.conditions.0.iter_mut().filter(|condition| condition.reason == ROLLING_OUT) {
            condition.message.clear();
        }
        status
    }
}

/// The new status, if it is new.
pub fn report(seen: &Observed, now: &Timestamp) -> Option<Status> {
    let status = status(seen, now);
    (status != seen.status).then_some(status)
}

fn status(seen: &Observed, now: &Timestamp) -> Status {
    let count =
        |which: fn(&Bound) -> bool| i64::try_from(seen.namespaces.iter().filter(|bound| which(bound)).count()).ok();
    let mut failing: Vec<_> = seen
        .namespaces
        .iter()
        .filter_map(|bound| Some(Failing { namespace: bound.name.clone(), reason: bound.stalled.clone()? }))
        .collect();
    failing.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    failing.truncate(MOST_FAILING);
    let (revision, rollout) = rollout::report(seen);
    let mut status = Status {
        observed_generation: Some(seen.generation),
        resources: Some(seen.resources),
        kinds: kinds(seen),
        bound_namespaces: count(|_| true),
        updated_namespaces: count(|bound| bound.updated),
        ready_namespaces: count(|bound| bound.ready && bound.updated),
        failing_namespaces: count(|bound| bound.stalled.is_some()),
        failing,
        revision,
        rollout,
        conditions: seen.status.conditions.clone(),
    };
    write_conditions(seen, &mut status, now);
    status
}

/// What is used now, and what is left of earlier: versions are transport, so the one in use stands for its kind.
fn kinds(seen: &Observed) -> BTreeSet<Kind> {
    let is_used = |kind: &Kind| seen.uses.iter().any(|used| used.identity() == kind.identity());
    seen.uses.iter().chain(seen.live.iter().filter(|kind| !is_used(kind))).cloned().collect()
}

impl Observed {
    /// Whether a namespace has something of it.
    fn is_awaited(&self) -> bool {
        !self.namespaces.is_empty() || !self.left_by.is_empty()
    }
}

/// The namespaces that keep a class from being deleted.
fn waits_for(seen: &Observed) -> String {
    let names = seen.namespaces.iter().map(|bound| &bound.name).chain(&seen.left_by);
    let mut names: Vec<_> = names.map(String::as_str).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MOST_FAILING);
    names.truncate(MOST_FAILING);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("it is deleted when no namespace has it any more: {}{more}", names.join(", "))
}

fn write_conditions(seen: &Observed, status: &mut Status, now: &Timestamp) {
    let generation = Some(seen.generation);
    // What a roll-out waits for is said nowhere else.
    let trouble = rollout::trouble(seen, status.rollout.as_ref()).or_else(|| gate::trouble(&seen.gate));
    let conditions = &mut status.conditions;
    if seen.problems.is_empty() {
        conditions.set_observed("Accepted", Truth::True, "Valid", "the class is well formed", generation, now);
    } else {
        conditions.set_observed(
            "Accepted",
            Truth::False,
            "InvalidClass",
            Problem::list(&seen.problems),
            generation,
            now,
        );
    }
    // Who is on its way out does not come along, and is not waited for.
    let staying = || seen.namespaces.iter().filter(|bound| !bound.leaving);
    let behind = staying().filter(|bound| !(bound.ready && bound.updated)).count();
    let (truth, reason, message) = match (seen.problems.is_empty(), trouble, behind) {
        _ if seen.deleting && seen.is_awaited() => (Truth::False, DELETING, waits_for(seen)),
        (false, _, _) => (Truth::False, "InvalidClass", "the class has problems; no namespace is changed".to_owned()),
        (true, Some((reason, message)), _) => (Truth::False, reason, message),
        (true, None, 0) => (Truth::True, "RolledOut", format!("{} namespaces have the class", staying().count())),
        (true, None, behind) => {
            let awaited = rollout::awaited(seen).map(|names| format!("; it waits for {names}")).unwrap_or_default();
            let all = staying().count();
            (Truth::False, ROLLING_OUT, format!("{behind} of {all} namespaces are not there yet{awaited}"))
        }
    };
    conditions.set_observed("Ready", truth, reason, message, generation, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(version: &str) -> Kind {
        Kind { api_version: format!("apps.dev/{version}"), kind: "Lamp".into(), resource: "lamps".into() }
    }

    /// What is told of these many namespaces with the class of `all`, failing ones among them, at this time.
    fn told(
        progress: &mut Progress,
        before: &mut Status,
        (ready, all, failing): (usize, usize, usize),
        at: u64,
    ) -> bool {
        let bound = |index: usize| Bound {
            name: format!("n{index}"),
            updated: index < ready,
            ready: index < ready,
            stalled: (index + failing >= all).then(|| "Conflict".to_owned()),
            ..Bound::default()
        };
        let seen =
            Observed { namespaces: (0..all).map(bound).collect(), status: before.clone(), ..Observed::default() };
        let (status, next) = tell("web", &seen, progress, &Timestamp::default(), Instant(at));
        assert_eq!(status.is_none() && report(&seen, &Timestamp::default()).is_some(), next != Next::Settled);
        let is_told = status.is_some();
        *before = status.unwrap_or_else(|| before.clone());
        is_told
    }

    #[test]
    fn a_roll_out_is_told_at_once_then_now_and_then_and_its_end_at_once() {
        let (progress, before) = (&mut Progress::default(), &mut Status::default());
        assert!(told(progress, before, (0, 9, 0), 1000), "it begins");
        assert!(!told(progress, before, (1, 9, 0), 1100) && !told(progress, before, (2, 9, 0), 1999));
        assert!(told(progress, before, (3, 9, 0), 2000), "a second later");
        assert!(!told(progress, before, (4, 9, 0), 2100));
        assert!(told(progress, before, (4, 9, 1), 2200), "who fails is news");
        assert!(told(progress, before, (9, 9, 0), 2300), "its end");
    }

    #[test]
    fn a_revision_is_released_by_the_look_that_keeps_it_and_only_if_it_does() {
        let mut seen = Observed::default();
        seen.rollout.newest = Some("new".into());
        let plan = plan(&seen);
        let keep = plan.iter().next().unwrap();
        let released = |outcome: Outcome| {
            let after = after(&seen, &[(keep, outcome)]);
            report(&after, &Timestamp::default()).and_then(|status| status.revision)
        };
        assert_eq!(released(Outcome::done()).as_deref(), Some("new"));
        let failed = |class: FailureClass| Outcome::Failed(Failure::new(class, "Forbidden", "no right"));
        assert_eq!(released(failed(FailureClass::Rejected)), None);
        assert_eq!(released(Outcome::NotRun), None);
        let told = |class| after(&seen, &[(keep, failed(class))]).rollout.not_kept.clone();
        assert!(told(FailureClass::Rejected).is_some_and(|why| why.contains("no right")));
        assert_eq!(told(FailureClass::Stale), None, "it is looked at again at once");
    }

    #[test]
    fn a_class_that_is_being_deleted_names_the_namespaces_it_waits_for() {
        let bound = |number: usize| Bound { name: format!("team-{number:02}"), ..Bound::default() };
        let told = |count: usize| {
            let namespaces = (0..count).rev().map(bound).collect();
            let seen = Observed { deleting: true, held: true, namespaces, ..Observed::default() };
            let status = report(&seen, &Timestamp::default()).unwrap();
            let ready = status.conditions.get("Ready").unwrap().clone();
            (ready.reason, ready.message)
        };
        let left = Observed { deleting: true, held: true, left_by: vec!["left".into()], ..Observed::default() };
        assert!(plan(&left).is_settled());
        assert!(plan(&Observed { left_by: Vec::new(), ..left.clone() }).iter().eq([&ClassStep::LetGo]));
        let status = report(&left, &Timestamp::default()).unwrap();
        assert!(status.conditions.get("Ready").unwrap().message.ends_with("any more: left"));
        let (reason, message) = told(2);
        assert_eq!(reason, DELETING);
        assert_eq!(message, "it is deleted when no namespace has it any more: team-00, team-01");
        assert!(told(12).1.ends_with("team-09 and 2 more"));
    }

    #[test]
    fn a_kind_is_watched_in_a_version_that_is_served_and_moves_only_when_it_must() {
        let (early, stable, later) = (kind("v1beta1"), kind("v1"), kind("v2alpha1"));
        let all = [&early, &stable, &later];
        assert_eq!(version_to_watch(&all, None), Some(&stable), "not the one whose name is greatest");
        assert_eq!(version_to_watch(&all, Some((&early, true))), Some(&early), "moving costs a list");
        assert_eq!(version_to_watch(&all, Some((&stable, false))), Some(&later));
        assert_eq!(version_to_watch(&[&early], Some((&early, false))), Some(&early), "there is no other");
        assert_eq!(version_to_watch(&[&stable], Some((&early, true))), Some(&stable), "nobody uses the other any more");
        assert_eq!(version_to_watch(&[], Some((&early, true))), None);
    }
}
