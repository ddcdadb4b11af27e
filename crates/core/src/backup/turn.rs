//! Whose turn it is in a namespace where only so many requests may be with Velero at a time; see [`super::Limits`].

use std::collections::BTreeMap;

use super::{Phase, Tried, handover, policy::HeldBack};
use crate::conditions::Truth;

/// Why a request waits that others are before.
pub const HELD_BACK: &str = HeldBack::REASON;

/// Whether a request that waits for this reason waits for what it needs itself. What all wait for at a time ends for all at a time, and
/// then they take turns.
pub fn is_of_its_own(reason: &str) -> bool {
    matches!(reason, "LocationNotReady" | "BackupNotReady" | "NoVault")
}

/// How a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Velero has it and is not done with it.
    Running,
    /// It is noted on it that it is handed over: Velero may have it before it says so itself. Whoever writes that note himself is
    /// before others of his own namespace, and before no more of them than there are places.
    HandedOver,
    /// It waits to be handed over, for its turn or for nothing.
    Waiting,
    /// It waits for something else, such as a location that is not ready.
    Elsewhere,
    /// A rule, a missing right or a quota kept it from Velero, and it is tried again now and then. Nobody knows whether it is ever let
    /// pass, so it costs nobody a turn.
    Denied,
    /// It is done or refused, or goes and Velero has nothing to do with it.
    Over,
}

/// What a request says of itself.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub phase: Option<Phase>,
    pub is_deleting: bool,
    /// By its condition `Accepted`.
    pub is_accepted: bool,
    /// By the same: it waits for something of its own; see [`is_of_its_own`].
    pub waits_elsewhere: bool,
    /// By its condition `Queued`.
    pub was_queued: bool,
    /// By the same; see [`handover::is_denied`].
    pub is_denied: bool,
    /// By the note on it and by its condition `Queued`; see [`is_tried`].
    pub is_tried: bool,
    /// By what Velero says.
    pub is_finished: bool,
}

/// Whether a request may be with Velero since a try to hand it over, by what its condition `Queued` says of that: status, reason and
/// since when. What Velero has it has shown before long; whoever waits for something of its own by then costs nobody a turn.
pub fn is_tried(tried: &Tried, queued: Option<(Truth, &str, &str)>) -> bool {
    let may_be_there = tried.ago < handover::BEYOND_DOUBT;
    may_be_there
        && !queued.is_some_and(|(status, reason, since)| handover::has_failed_since(tried, status, reason, since))
}

impl Turn {
    pub fn of(said: Said) -> Self {
        // Velero has it no more.
        let is_lost = matches!(said.phase, Some(Phase::Created | Phase::Deleting)) && !said.is_accepted;
        let goes = said.is_deleting || said.phase == Some(Phase::Deleting);
        match said.phase {
            Some(Phase::BackingOff) => Turn::Over,
            _ if said.is_finished || is_lost => Turn::Over,
            // Who deletes what waits in Velero's queue has no room for more until it is out of it.
            _ if said.was_queued => Turn::Running,
            _ if goes => Turn::Over,
            _ if said.is_tried => Turn::HandedOver,
            // Once others are before it, it stands in line as everybody does, or nobody would wake it.
            _ if said.is_denied && said.is_accepted => Turn::Denied,
            _ if said.waits_elsewhere => Turn::Elsewhere,
            _ => Turn::Waiting,
        }
    }

    /// Whether it may still be handed over.
    pub fn is_to_come(self) -> bool {
        matches!(self, Turn::HandedOver | Turn::Waiting | Turn::Elsewhere | Turn::Denied)
    }

    /// How much of a place it takes.
    fn takes(self) -> u8 {
        match self {
            Turn::Running | Turn::HandedOver => 3,
            Turn::Waiting => 2,
            Turn::Elsewhere => 1,
            Turn::Denied | Turn::Over => 0,
        }
    }

    /// For whom a change of one request makes room; it is not there before it comes, nor once it is gone.
    pub fn room(before: Option<Turn>, after: Option<Turn>) -> Room {
        let takes = |turn: Option<Turn>| turn.map_or(0, Turn::takes);
        match after {
            _ if takes(before) <= takes(after) => Room::Nobody,
            Some(Turn::Waiting | Turn::Denied) if before == Some(Turn::HandedOver) => Room::WhoWasPassed,
            _ => Room::Everybody,
        }
    }
}

/// For whom a place has become free, if only for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Nobody,
    /// Nothing came of handing it over. If it waits again, it is before whoever waits and came later, as it was all the time. That frees
    /// nobody whom the limit did not hold back.
    WhoWasPassed,
    Everybody,
}

/// A request among the others of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a, C> {
    pub turn: Turn,
    /// What it may have to wait for: the location of a backup, the backup of a restore.
    pub needs: Option<&'a str>,
    /// In the order of coming.
    pub came: C,
}

impl<C: Ord> Member<'_, C> {
    /// Whether `other` counts before this one, which is to come. What waits for something that this one does not need may do so for
    /// ever, and costs it no turn.
    fn is_behind(&self, other: &Self) -> bool {
        let came_later = other.came < self.came;
        let is_handed_over = self.turn == Turn::HandedOver;
        match other.turn {
            Turn::Running => true,
            Turn::HandedOver => !is_handed_over || came_later,
            Turn::Waiting => !is_handed_over && came_later,
            Turn::Elsewhere => !is_handed_over && came_later && other.needs == self.needs,
            Turn::Denied | Turn::Over => false,
        }
    }

    /// Whether `other` does not count before this one any more since nothing came of handing it over.
    fn was_passed_by(&self, other: &Self) -> bool {
        match self.turn {
            Turn::Waiting => other.turn == Turn::Denied || self.came < other.came,
            Turn::HandedOver => other.came < self.came,
            _ => false,
        }
    }
}

/// How many count before one that is to come: those at work, and those that wait longer. No more are counted than it takes to be held
/// back by `limit`.
pub fn ahead<'a, C: Ord>(own: &Member<'a, C>, others: impl IntoIterator<Item = Member<'a, C>>, limit: u64) -> u64 {
    let enough = usize::try_from(limit).unwrap_or(usize::MAX);
    others.into_iter().filter(|other| own.is_behind(other)).take(enough).count() as u64
}

/// Those who wait for others and whose turn it is once `own`, as it is now, has made room for them, in the order in which they came, first
/// those of whom it is noted that it was: nobody does where there is no limit.
pub fn whose_turn<'a, C: Ord>(
    room: Room,
    own: &Member<'a, C>,
    all: impl IntoIterator<Item = Member<'a, C>>,
    limit: u64,
) -> Vec<C> {
    if limit == 0 || room == Room::Nobody {
        return Vec::new();
    }
    let mut line: Vec<_> = all.into_iter().filter(|one| !matches!(one.turn, Turn::Denied | Turn::Over)).collect();
    line.sort_by(|one, other| one.came.cmp(&other.came));
    let count = |turn| line.iter().filter(|one| one.turn == turn).count() as u64;
    let (running, handed_over) = (count(Turn::Running), count(Turn::HandedOver));
    let (mut noted, mut waiting, mut elsewhere) = (0_u64, 0_u64, BTreeMap::<_, u64>::new());
    let mut turns = Vec::new();
    for one in line {
        // As many as `ahead` counts.
        let ahead = match one.turn {
            Turn::HandedOver => {
                noted = noted.saturating_add(1);
                running.saturating_add(noted.saturating_sub(1))
            }
            Turn::Waiting => {
                let there = elsewhere.get(&one.needs).copied().unwrap_or_default();
                let before = running.saturating_add(handed_over).saturating_add(waiting).saturating_add(there);
                waiting = waiting.saturating_add(1);
                before
            }
            Turn::Elsewhere => {
                let there = elsewhere.entry(one.needs).or_default();
                *there = there.saturating_add(1);
                continue;
            }
            Turn::Running | Turn::Denied | Turn::Over => continue,
        };
        // Whoever is woken without having been held back fails as well, and wakes others in turn, for ever.
        let is_freed = || ahead.saturating_add(1) == limit && one.came != own.came && one.was_passed_by(own);
        if ahead < limit && (room == Room::Everybody || is_freed()) {
            turns.push((one.turn == Turn::Waiting, one.came));
        }
    }
    turns.sort();
    turns.into_iter().map(|(_, came)| came).collect()
}

/// How many of those that came in a namespace came before `own`. No more are counted than it takes to be held back by `limit`, and
/// where there is none nobody is.
pub fn earlier<C: Ord>(own: &C, others: impl IntoIterator<Item = C>, limit: u64) -> u64 {
    let enough = usize::try_from(limit).unwrap_or(usize::MAX);
    others.into_iter().filter(|other| other < own).take(enough).count() as u64
}

/// Of those that are held back the ones who may have a place now that one is free: as many as there are places, however many wait.
pub fn next_of<C: Ord>(held_back: impl IntoIterator<Item = C>, limit: u64) -> Vec<C> {
    first(held_back, usize::try_from(limit).unwrap_or(usize::MAX))
}

fn first<C: Ord>(all: impl IntoIterator<Item = C>, most: usize) -> Vec<C> {
    let mut first: Vec<_> = all.into_iter().collect();
    first.sort();
    first.truncate(most);
    first
}

#[cfg(test)]
mod tests;
