//! How a class reaches its namespaces: which revision each has, who moves on next, and what keeps everybody where they are.
//!
//! Two records decide what a namespace has, and nothing else does, so that no edit of a class takes effect before it was let in
//! here. The class's status says which revision is *released*: namespaces have that one, unless they were moved. Without stages
//! releasing a revision is all there is to a roll-out. With stages namespaces are moved on one batch after the other, by a record
//! on their bindings, and the revision is released when nobody is left behind.

mod guard;
mod revision;
mod share;
mod step;
mod telling;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp as Moment;
use serde::{Deserialize, Serialize};

use self::revision::newest_kept;
pub use self::{
    guard::{Deletions, deletions_in},
    revision::{Kept, MOST_REVISIONS, content, digest_of, name_of},
    share::Share,
    step::RolloutStep,
    telling::unconfirmed,
};
pub(super) use self::{
    step::plan,
    telling::{awaited, trouble},
};
use super::class::{Bound, Observed};
use crate::time::Timestamp;

/// How many failing namespaces stop a roll-out where the class does not say.
const STOP_WHEN_FAILING: Share = Share::Number(1);

/// A namespace that was moved and is not ready for this long fails, whatever it says of itself: nobody waits for it for ever.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a class says about its roll-outs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Namespaces that move at once; without it all do, at once.
    pub batch: Option<Share>,
    /// Between one batch that is through and the next.
    pub pause: Duration,
    pub stop_when_failing: Option<Share>,
    pub paused: bool,
    pub max_deletions: Option<Share>,
}

/// What a class's reconciler knows about revisions, besides what class and bindings record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Digest of what the class says now; none while something is wrong with it.
    pub newest: Option<String>,
    pub wishes: Wishes,
    pub kept: Vec<Kept>,
    /// Why the newest revision cannot be kept.
    pub not_kept: Option<String>,
    /// The uid of what has the newest revision's name, and is left of an earlier class that said the same.
    pub predecessor: Option<String>,
    /// The revision whose deletions somebody confirmed: see [`confirmation`].
    pub confirmed: Option<String>,
    /// What the newest revision would delete, where [`must_count`] asks for it.
    pub deletions: Deletions,
    pub now: Timestamp,
}

/// The part of the class's status that is about roll-outs, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub revision: String,
    pub number: i64,
    pub phase: Phase,
    pub progress: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resting_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Every namespace has the revision.
    Complete,
    #[default]
    RollingOut,
    /// The class says so.
    Paused,
    /// Too many namespaces fail with it.
    Stopped,
    /// It would delete much, and nobody has confirmed that.
    Unconfirmed,
}

/// What a binding records about being moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub revision: String,
    /// It counts while the class is rolled out in the stages that began with this number.
    pub since: i64,
    /// It was not well already when it was moved: that it is not still says nothing about the revision.
    pub failed_before: bool,
}

/// The revision a namespace has, or is on its way to: drift is repaired towards it.
pub fn in_force<'r>(released: Option<&'r str>, staged_since: Option<i64>, moved: Option<&'r Moved>) -> Option<&'r str> {
    let moved = moved.filter(|moved| staged_since == Some(moved.since));
    moved.map(|moved| moved.revision.as_str()).or(released)
}

/// When a namespace's turn comes: the first of the labels it carries, or after all of them.
pub fn turn(order: &[BTreeMap<String, String>], labels: &BTreeMap<String, String>) -> usize {
    let carries = |wanted: &BTreeMap<String, String>| wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
    order.iter().position(carries).unwrap_or(order.len())
}

/// Whether it must be known what the newest revision would delete: it has not been let in yet, and is not in force everywhere.
pub fn must_count(seen: &Observed) -> bool {
    let Some(newest) = seen.rollout.newest.as_deref() else { return false };
    !seen.is_let_in(newest) && seen.namespaces.iter().any(|bound| !bound.updated)
}

/// What confirms the deletions of a revision. What a class says again gets another number, and is asked about again.
pub fn confirmation(number: i64, revision: &str) -> String {
    format!("{number}-{revision}")
}

/// What is decided about the newest revision.
#[derive(Debug)]
struct Judgement<'o> {
    phase: Phase,
    released: Option<&'o str>,
    staged_since: Option<i64>,
    /// Whom to move now.
    batch: Vec<&'o Bound>,
    /// Namespaces that were moved to it; none without stages.
    moved: Option<i64>,
    resting_since: Option<Timestamp>,
    /// Until the next batch.
    wait: Option<Duration>,
}

impl<'o> Judgement<'o> {
    /// Everybody stays where they are.
    fn unchanged(seen: &'o Observed, phase: Phase) -> Self {
        Self {
            phase,
            released: seen.status.revision.as_deref(),
            staged_since: seen.staged_since(),
            batch: Vec::new(),
            moved: None,
            resting_since: None,
            wait: None,
        }
    }

    /// Everybody has it.
    fn released(seen: &'o Observed, target: &'o str) -> Self {
        let is_through = |bound: &Bound| bound.leaving || (bound.updated && bound.ready);
        let phase = if seen.namespaces.iter().all(is_through) { Phase::Complete } else { Phase::RollingOut };
        let staged_since = seen.rollout.wishes.batch.map(|_| seen.staged_since().unwrap_or_else(|| seen.new_stages()));
        Self { released: Some(target), staged_since, ..Self::unchanged(seen, phase) }
    }
}

impl Observed {
    fn staged_since(&self) -> Option<i64> {
        self.status.rollout.as_ref()?.staged_since
    }

    /// A number no namespace was moved by: those of an earlier class of this name may be there still.
    fn new_stages(&self) -> i64 {
        let last = self.namespaces.iter().filter_map(|bound| Some(bound.moved.as_ref()?.since)).max();
        last.map_or(self.generation, |last| self.generation.max(last.saturating_add(1)))
    }

    /// That the revision was let in is on record.
    fn has_begun(&self, target: &str) -> bool {
        self.status.rollout.as_ref().is_some_and(|begun| begun.has_let_in(target))
    }

    /// Nobody needs to be asked about it, or has to be any more.
    fn is_let_in(&self, target: &str) -> bool {
        let kept = self.rollout.kept.iter().find(|kept| kept.digest == target);
        let asked = kept.map(|kept| confirmation(kept.number, &kept.digest));
        let is_confirmed = asked.is_some_and(|asked| self.rollout.confirmed == Some(asked));
        let is_released = self.status.revision.as_deref() == Some(target);
        self.has_begun(target) || is_confirmed || is_released
    }

    fn in_force<'o>(&'o self, bound: &'o Bound) -> Option<&'o str> {
        in_force(self.status.revision.as_deref(), self.staged_since(), bound.moved.as_ref())
    }

    /// Where it was moved in the stages that are going on.
    fn moved<'o>(&self, bound: &'o Bound) -> Option<&'o Moved> {
        bound.moved.as_ref().filter(|moved| self.staged_since() == Some(moved.since))
    }

    /// It was moved in the stages that are going on, has never been there, and nothing says that it fails. Who has been there is
    /// through, whatever becomes of it later.
    fn is_restless(&self, bound: &Bound) -> bool {
        self.moved(bound).is_some_and(|moved| !bound.has(&moved.revision)) && !self.is_failing(bound)
    }

    /// Somebody must act, it says about what it has to be; or it has been unready for too long to be waited for.
    fn is_failing(&self, bound: &Bound) -> bool {
        bound.is_stalled() || self.patience_with(bound).is_some_and(|left| left.is_zero())
    }

    /// Where it was moved it fails, and was well before. Who is through has something else.
    fn fails_with_revision(&self, bound: &Bound) -> bool {
        let moved = self.moved(bound);
        let is_through = moved.is_some_and(|moved| bound.has(&moved.revision));
        let failed_before = moved.is_some_and(|moved| moved.failed_before);
        self.is_failing(bound) && !failed_before && !is_through
    }

    /// How long a namespace that is not ready is waited for yet.
    fn patience_with(&self, bound: &Bound) -> Option<Duration> {
        let passed = passed(bound.unready_since.as_ref()?, &self.rollout.now).unwrap_or_default();
        Some(PATIENCE.saturating_sub(passed))
    }

    fn is_guarded(&self, target: &str) -> bool {
        !self.is_let_in(target) && self.rollout.deletions.are_beyond(self.rollout.wishes.max_deletions)
    }
}

impl Bound {
    fn is_stalled(&self) -> bool {
        self.heard && self.stalled.is_some()
    }

    /// What it says is about what its binding asks for, and it has had this revision.
    fn has(&self, revision: &str) -> bool {
        self.heard && self.has.as_deref() == Some(revision)
    }
}

fn judge<'o>(seen: &'o Observed, target: &'o str) -> Judgement<'o> {
    let wishes = &seen.rollout.wishes;
    let released = seen.status.revision.as_deref();
    if seen.is_guarded(target) {
        return Judgement::unchanged(seen, Phase::Unconfirmed);
    }
    match (released, wishes.batch) {
        // Nothing of the class is in force that stages could start from.
        (None, _) if wishes.paused && !seen.namespaces.is_empty() => Judgement::unchanged(seen, Phase::Paused),
        (Some(released), None) if wishes.paused && (released != target || seen.staged_since().is_some()) => {
            Judgement::unchanged(seen, Phase::Paused)
        }
        (None, _) | (Some(_), None) => Judgement::released(seen, target),
        (Some(released), Some(batch)) => staged(seen, target, released, batch),
    }
}

/// Who is where on the way to a revision.
struct Ranks<'o> {
    /// Not moved to it yet; whose turn is next first.
    behind: Vec<&'o Bound>,
    moved: u64,
    /// Moved to it, and neither there yet nor failing.
    in_flight: u64,
    /// Moved to it, and failing since.
    failing: u64,
    /// How long the first of those in flight is waited for yet.
    patience: Option<Duration>,
}

impl<'o> Ranks<'o> {
    fn of(seen: &'o Observed, target: &str) -> Self {
        let mut ranks = Self { behind: Vec::new(), moved: 0, in_flight: 0, failing: 0, patience: None };
        for bound in seen.namespaces.iter().filter(|bound| !bound.leaving) {
            if seen.in_force(bound) != Some(target) {
                ranks.behind.push(bound);
                continue;
            }
            ranks.moved = ranks.moved.saturating_add(1);
            if seen.fails_with_revision(bound) {
                ranks.failing = ranks.failing.saturating_add(1);
            }
            if seen.is_restless(bound) {
                ranks.in_flight = ranks.in_flight.saturating_add(1);
                ranks.patience = ranks.patience.into_iter().chain(seen.patience_with(bound)).min();
            }
        }
        ranks.behind.sort_by(|a, b| place(seen, a).cmp(&place(seen, b)).then_with(|| a.name.cmp(&b.name)));
        ranks
    }

    /// The namespaces that move next: at most so many, and none of a later place in the order, so that canaries are through
    /// before others move.
    fn next(&self, seen: &Observed, most: u64) -> Vec<&'o Bound> {
        let Some(first) = self.behind.first().map(|first| place(seen, first)) else { return Vec::new() };
        let alike = self.behind.iter().copied().take_while(|bound| place(seen, bound) == first);
        alike.take(usize::try_from(most).unwrap_or(usize::MAX)).collect()
    }
}

/// Who is on the way to a revision that is no longer wanted is put right first, since it is changing anyway; who fails already
/// comes last, since it would stop everybody behind it.
fn place(seen: &Observed, bound: &Bound) -> (u8, usize) {
    match (seen.is_restless(bound), seen.is_failing(bound)) {
        (true, _) => (0, 0),
        (false, false) => (1, bound.turn),
        (false, true) => (2, bound.turn),
    }
}

fn staged<'o>(seen: &'o Observed, target: &'o str, released: &'o str, batch: Share) -> Judgement<'o> {
    let wishes = &seen.rollout.wishes;
    let all = count(seen.namespaces.len());
    let ranks = Ranks::of(seen, target);
    if ranks.behind.is_empty() && ranks.in_flight == 0 {
        return Judgement::released(seen, target);
    }
    // Back to what everybody had: that is known to work, or nobody could help it.
    let is_way_back = released == target;
    let stops_at = wishes.stop_when_failing.unwrap_or(STOP_WHEN_FAILING).of(all).max(1);
    let somebody_is_well = ranks.behind.iter().any(|bound| !seen.is_failing(bound));
    let phase = if ranks.behind.is_empty() {
        Phase::RollingOut
    } else if wishes.paused {
        Phase::Paused
    } else if ranks.failing >= stops_at && somebody_is_well && !is_way_back {
        Phase::Stopped
    } else {
        Phase::RollingOut
    };
    let pause = if is_way_back { Duration::ZERO } else { wishes.pause };
    let rest = Rest::of(seen, &ranks, pause);
    // What lets it in, and that namespaces are moved at all, is on record before the first one is.
    let is_recorded = seen.has_begun(target) && seen.staged_since().is_some();
    let may_move = phase == Phase::RollingOut && ranks.in_flight == 0 && is_recorded && rest.is_over();
    Judgement {
        batch: if may_move { ranks.next(seen, batch.of(all).max(1)) } else { Vec::new() },
        staged_since: Some(seen.staged_since().unwrap_or_else(|| seen.new_stages())),
        moved: i64::try_from(ranks.moved).ok(),
        wait: rest.left.filter(|_| phase == Phase::RollingOut).into_iter().chain(ranks.patience).min(),
        resting_since: rest.since,
        ..Judgement::unchanged(seen, phase)
    }
}

/// The pause between two batches.
struct Rest {
    since: Option<Timestamp>,
    /// None where there is nothing to wait for.
    left: Option<Duration>,
}

impl Rest {
    fn of(seen: &Observed, ranks: &Ranks<'_>, pause: Duration) -> Self {
        if pause.is_zero() || ranks.moved == 0 || ranks.in_flight > 0 || ranks.behind.is_empty() {
            return Self { since: None, left: None };
        }
        let before = seen.status.rollout.as_ref();
        // Who was moved since then has begun another batch.
        let recorded = before.filter(|before| before.moved.is_some_and(|moved| count_of(moved) >= ranks.moved));
        let since = recorded.and_then(|before| before.resting_since.clone());
        let passed = since.as_ref().and_then(|since| passed(since, &seen.rollout.now));
        match passed {
            Some(passed) if passed >= pause => Self { since, left: None },
            Some(passed) => Self { since, left: Some(pause.saturating_sub(passed)) },
            None => Self { since: Some(seen.rollout.now.clone()), left: Some(pause) },
        }
    }

    fn is_over(&self) -> bool {
        self.left.is_none()
    }
}

/// How long ago that was; nothing if it was not, or cannot be told.
fn passed(since: &Timestamp, now: &Timestamp) -> Option<Duration> {
    let (since, now): (Moment, Moment) = (since.0.parse().ok()?, now.0.parse().ok()?);
    Duration::try_from(now.duration_since(since)).ok()
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn count_of(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// The revision that is released and how its roll-out stands, after this look. What cannot be judged stays as it is.
pub(super) fn report(seen: &Observed) -> (Option<String>, Option<Status>) {
    let before = || (seen.status.revision.clone(), seen.status.rollout.clone());
    let Some(target) = seen.rollout.newest.as_deref() else { return before() };
    let Some(kept) = newest_kept(&seen.rollout.kept, target) else { return before() };
    if seen.deleting {
        return before();
    }
    let judgement = judge(seen, target);
    let updated = seen.namespaces.iter().filter(|bound| bound.updated).count();
    let deletions = (judgement.phase == Phase::Unconfirmed).then_some(seen.rollout.deletions.objects);
    let status = Status {
        revision: target.to_owned(),
        number: kept.number,
        phase: judgement.phase,
        progress: format!("{updated}/{}", seen.namespaces.len()),
        staged_since: judgement.staged_since,
        moved: judgement.moved,
        resting_since: judgement.resting_since,
        deletions: deletions.and_then(|deletions| i64::try_from(deletions).ok()),
    };
    (judgement.released.map(str::to_owned), Some(status))
}

impl Status {
    /// The revision was let in. A pause before anybody was moved lets nothing in: until it ends, more may come that would be
    /// deleted.
    pub fn has_let_in(&self, revision: &str) -> bool {
        let has_begun = match self.phase {
            Phase::Unconfirmed => false,
            Phase::Paused => self.moved.is_some_and(|moved| moved > 0),
            Phase::Complete | Phase::RollingOut | Phase::Stopped => true,
        };
        self.revision == revision && has_begun
    }

    /// The number a revision has, or would get next.
    pub fn number_for(&self, revision: &str) -> i64 {
        if self.revision == revision { self.number } else { self.number.saturating_add(1) }
    }

    /// Without what only tells how far it is.
    pub(super) fn without_progress(&self) -> Self {
        Self { progress: String::new(), moved: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
