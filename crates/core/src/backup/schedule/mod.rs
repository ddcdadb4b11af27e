//! A `BackupSchedule`: `NonAdminBackups` by the clock, and an end to those that are no longer kept.
//!
//! ```text
//! a time has come              a NonAdminBackup named after that time is made: the same time never gives two
//! the one before still runs    the next waits for it; of all times missed meanwhile, or while nobody looked, one is made up for
//! more than are to be kept     the oldest are deleted with their data, one after the other; the last good one always stays
//! suspended                    nothing is made; what is there is kept as before
//! deleted                      its backups stay
//! ```

pub mod cron;

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::{SignedDuration, Timestamp as Moment, tz::TimeZone};
use serde::{Deserialize, Serialize};

use self::cron::Cron;
use super::{Phase, Policy, Progress, Victim, backup::NOT_FOUND, is_denied, policy::HeldBack, velero::Fields};
use crate::{
    conditions::{Conditions, Readiness},
    plan::{self, FailureClass, Outcomes, Plan, first_failure},
    problem::Problem,
    time::Timestamp,
};

/// Backups that came to nothing are kept so many, for people to look at.
const FAILURES: usize = 3;
/// Clocks differ by less. What was made for a later time was made by a clock that was wrong.
const SKEW: SignedDuration = SignedDuration::from_hours(1);
/// What the name of a backup ends with: year, month, day, hour and minute.
const TIME_DIGITS: usize = 12;
/// The longest name of a schedule: those of its backups end with a time.
pub const LONGEST_NAME: usize = 200;

/// The world around one `BackupSchedule`.
#[derive(Clone, Debug)]
pub struct Observed {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub created: Moment,
    pub is_deleting: bool,
    pub spec: Result<Spec, Vec<Problem>>,
    pub status: Status,
    /// The backups it made that are there, in no order.
    pub backups: Vec<Backup>,
    /// Names of backups of the namespace that it did not make, as far as it could want to have them.
    pub others: BTreeSet<String>,
    /// Schedules of the namespace that came before it.
    pub ahead: u64,
    pub now: Moment,
}

/// A valid spec.
#[derive(Clone, Debug)]
pub struct Spec {
    pub cron: Cron,
    pub zone: TimeZone,
    pub is_suspended: bool,
    pub backup_spec: Fields,
    pub keep: Keep,
}

/// What is kept; all of it where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    pub last: Option<u32>,
    pub at_most: Option<Duration>,
}

/// A backup the schedule made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub name: String,
    pub uid: String,
    /// The time it was made for.
    pub due: Moment,
    pub state: State,
    /// It goes already.
    pub is_going: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for Velero, or at work.
    Unfinished,
    /// All of it can be restored.
    Good,
    /// Something can be restored from it.
    Partial,
    /// Refused, denied or failed.
    Failed,
}

/// `status` of a `BackupSchedule`, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: Option<i64>,
    /// The time the last backup was made for.
    pub last_schedule_time: Option<Moment>,
    pub last_backup_name: Option<String>,
    pub next_schedule_time: Option<Moment>,
    pub conditions: Conditions,
}

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    CreateBackup {
        name: String,
        due: Moment,
        spec: Fields,
    },
    /// Asks for the backup to be deleted with its data.
    DeleteBackup(Victim),
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::CreateBackup { .. } => "CreateNonAdminBackup",
            Step::DeleteBackup(_) => "DeleteNonAdminBackup",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::CreateBackup { name, due, .. } => write!(out, "create NonAdminBackup {name} (absent): due at {due}"),
            Step::DeleteBackup(Victim { name, uid }) => {
                write!(out, "delete NonAdminBackup {name} (uid {uid}) with its data: it is no longer to be kept")
            }
        }
    }
}

impl State {
    /// From where the `NonAdminBackup` stands, what it says of itself, and what Velero says of it.
    pub fn of(phase: Option<Phase>, conditions: &Conditions, velero: Option<&Fields>) -> Self {
        let progress = velero.map(Progress);
        let is_finished = progress.is_some_and(Progress::is_finished);
        let is_lost = conditions.reason("Accepted") == Some(NOT_FOUND);
        // Nobody knows whether it is ever let pass, and the next one may be: it is made from the template as it is then.
        let is_denied = conditions.get("Queued").is_some_and(|queued| is_denied(queued.status, &queued.reason));
        match progress.and_then(Progress::phase) {
            Some("Completed") => State::Good,
            Some("PartiallyFailed") => State::Partial,
            _ if phase == Some(Phase::BackingOff) || is_finished || is_lost || is_denied => State::Failed,
            _ => State::Unfinished,
        }
    }
}

/// Whether a backup could be one that the schedule wants to make, by its name.
pub fn is_named_by(schedule: &str, backup: &str) -> bool {
    let time = backup.strip_prefix(schedule).and_then(|rest| rest.strip_prefix('-'));
    time.is_some_and(|time| time.len() == TIME_DIGITS && time.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Name of the backup that is made for a time.
pub fn backup_name(schedule: &str, due: Moment) -> String {
    format!("{schedule}-{}", due.strftime("%Y%m%d%H%M"))
}

/// What the clock says.
enum Clock {
    /// This time has come, and nothing was made for it.
    Due(Moment),
    /// This time has come, and a backup that is not of the schedule has the name of the one to be made.
    Taken(Moment),
    /// Nothing yet.
    Early,
}

impl Observed {
    /// The last time something was made for, by the status or by what was made: either may have been lost.
    fn served(&self) -> Moment {
        let made = self.backups.iter().map(|backup| backup.due);
        let told = self.status.last_schedule_time;
        made.chain(told).filter(|due| self.is_possible(*due)).fold(self.created, Moment::max)
    }

    /// Whether something can have been made for this time, unless by a clock that was wrong.
    fn is_possible(&self, due: Moment) -> bool {
        due.duration_since(self.now) <= SKEW
    }

    fn held_back(&self, policy: &Policy) -> Option<HeldBack> {
        HeldBack::by(policy.limits.schedules, self.ahead, "schedules")
    }

    fn clock(&self, spec: &Spec) -> Clock {
        let due = spec.cron.until(self.now, &spec.zone).filter(|due| *due > self.served());
        match due {
            Some(due) if self.others.contains(&backup_name(&self.name, due)) => Clock::Taken(due),
            Some(due) => Clock::Due(due),
            None => Clock::Early,
        }
    }

    fn next(&self, spec: &Spec) -> Option<Moment> {
        spec.cron.after(self.now, &spec.zone).filter(|_| !spec.is_suspended)
    }

    /// Also one that is deleted: Velero works on it until it is done.
    fn running(&self) -> Option<&Backup> {
        self.backups.iter().find(|backup| backup.state == State::Unfinished)
    }

    /// The oldest backup that is no longer to be kept.
    fn surplus(&self, keep: Keep) -> Option<&Backup> {
        // What a clock that was wrong has made may be the newest in truth, and must not pass for it for ever: nobody can tell before the
        // time comes that it tells.
        let is_told = |backup: &&Backup| backup.state != State::Unfinished && !backup.is_going;
        let mut finished: Vec<_> =
            self.backups.iter().filter(|backup| is_told(backup) && self.is_possible(backup.due)).collect();
        finished.sort_by_key(|backup| std::cmp::Reverse(backup.due));
        let newest = |states: &'static [State], most: usize| {
            finished.iter().filter(move |backup| states.contains(&backup.state)).take(most).map(|backup| &backup.uid)
        };
        let (usable, failed) = (&[State::Good, State::Partial], &[State::Failed]);
        let last = keep.last.and_then(|last| usize::try_from(last).ok()).unwrap_or(usize::MAX);
        let counted: BTreeSet<_> = newest(usable, last).chain(newest(failed, last.min(FAILURES))).collect();
        let is_too_old = |backup: &Backup| {
            let age = Duration::try_from(self.now.duration_since(backup.due)).unwrap_or_default();
            keep.at_most.is_some_and(|most| age > most)
        };
        // Nights that went wrong in part do not cost the last one that did not.
        let stay: BTreeSet<_> = newest(&[State::Good], 1).chain(newest(usable, 1)).collect();
        let goes =
            |backup: &&&Backup| !stay.contains(&backup.uid) && (!counted.contains(&backup.uid) || is_too_old(backup));
        finished.iter().rev().find(goes).copied()
    }

    /// When the first backup grows too old.
    fn next_end(&self, keep: Keep) -> Option<Moment> {
        let most = SignedDuration::try_from(keep.at_most?).ok()?;
        let ends = self.backups.iter().filter(|backup| !backup.is_going).filter_map(|it| it.due.checked_add(most).ok());
        ends.filter(|end| *end > self.now).min()
    }
}

/// What to do next.
pub fn plan(seen: &Observed, policy: &Policy) -> Plan<Step> {
    let Ok(spec) = seen.spec.as_ref() else { return Plan::settled() };
    if seen.is_deleting || seen.held_back(policy).is_some() {
        return Plan::settled();
    }
    let (clock, running) = (seen.clock(spec), seen.running());
    let create = match clock {
        Clock::Due(due) if running.is_none() && !spec.is_suspended => {
            Some(Step::CreateBackup { name: backup_name(&seen.name, due), due, spec: spec.backup_spec.clone() })
        }
        _ => None,
    };
    let surplus = seen
        .surplus(spec.keep)
        .map(|backup| Step::DeleteBackup(Victim { name: backup.name.clone(), uid: backup.uid.clone() }));
    let plan = Plan { groups: vec![create.into_iter().chain(surplus).collect()], next: plan::Next::Settled };
    let wakes = seen.next(spec).into_iter().chain(seen.next_end(spec.keep)).min();
    match wakes.map(|at| Duration::try_from(at.duration_since(seen.now)).unwrap_or_default()) {
        Some(wait) => plan.look_again(wait),
        None => plan,
    }
}

/// The status after the plan was carried out as `outcomes` say.
pub fn report(seen: &Observed, policy: &Policy, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Status {
    let mut status = Status { observed_generation: Some(seen.generation), ..seen.status.clone() };
    let verdict = match &seen.spec {
        Err(problems) => {
            status.next_schedule_time = None;
            stalled("InvalidSpec", Problem::list(problems))
        }
        Ok(spec) => {
            let made = outcomes.iter().find_map(|(step, outcome)| match step {
                Step::CreateBackup { name, due, .. } if outcome.is_done() => Some((*due, name.clone())),
                _ => None,
            });
            let possible = seen.backups.iter().filter(|backup| seen.is_possible(backup.due));
            let newest = possible.max_by_key(|backup| backup.due).map(|it| (it.due, it.name.clone()));
            let told = seen.status.last_schedule_time.filter(|told| seen.is_possible(*told));
            if let Some((due, name)) = made.or(newest).filter(|(due, _)| Some(*due) > told) {
                (status.last_schedule_time, status.last_backup_name) = (Some(due), Some(name));
            }
            let held_back = seen.held_back(policy);
            status.next_schedule_time = seen.next(spec).filter(|_| held_back.is_none());
            match held_back {
                Some(HeldBack(message)) => Readiness::Progressing { reason: HeldBack::REASON, message },
                None => verdict(seen, spec, outcomes),
            }
        }
    };
    verdict.write(&mut status.conditions, seen.generation, now);
    status
}

fn verdict(seen: &Observed, spec: &Spec, outcomes: Outcomes<'_, Step>) -> Readiness {
    let failure = first_failure(outcomes).filter(|failure| failure.class != FailureClass::Stale);
    if let Some(failure) = failure {
        return match failure.class {
            FailureClass::Rejected | FailureClass::Forbidden => stalled(failure.reason, failure.message.clone()),
            _ => Readiness::Progressing { reason: failure.reason, message: failure.message.clone() },
        };
    }
    if spec.is_suspended {
        return Readiness::Ready {
            reason: "Suspended",
            message: "nothing is backed up until spec.suspend is false".into(),
        };
    }
    match (seen.clock(spec), seen.running()) {
        (Clock::Due(_), Some(running)) => Readiness::Ready {
            reason: "Waiting",
            message: format!("a backup is due and waits for {}, which is not finished", running.name),
        },
        (Clock::Taken(due), _) => stalled(
            "NameTaken",
            format!(
                "NonAdminBackup {} is there and was not made by this schedule: nothing is backed up for {due} unless it goes",
                backup_name(&seen.name, due)
            ),
        ),
        _ => Readiness::Ready { reason: "Scheduled", message: "the next backup is made in time".into() },
    }
}

fn stalled(reason: &'static str, message: String) -> Readiness {
    Readiness::Stalled { reason, message }
}
