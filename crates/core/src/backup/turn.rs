//! Whose turn it is in a namespace where only so many requests may be with Velero at a time; see [`super::Limits`].

use super::{Phase, policy::HeldBack};

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
    /// It waits to be handed over, for its turn or for nothing.
    Waiting,
    /// It waits for something else, such as a location that is not ready.
    Elsewhere,
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
    /// By what Velero says.
    pub is_finished: bool,
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
            _ if said.waits_elsewhere => Turn::Elsewhere,
            _ => Turn::Waiting,
        }
    }

    /// Whether it may still be handed over.
    pub fn is_to_come(self) -> bool {
        matches!(self, Turn::Waiting | Turn::Elsewhere)
    }

    /// How it counts for one that needs nothing of what it waits for: that may take for ever, and costs nobody else a turn.
    #[must_use]
    pub fn to_others(self) -> Self {
        if self == Turn::Elsewhere { Turn::Over } else { self }
    }

    /// How much of a place it takes.
    fn takes(self) -> u8 {
        match self {
            Turn::Running | Turn::Waiting => 2,
            Turn::Elsewhere => 1,
            Turn::Over => 0,
        }
    }

    /// Whether a place has become free between two looks at one request, if only for some; none where it is not there.
    pub fn is_freed(before: Option<Turn>, after: Option<Turn>) -> bool {
        let takes = |turn: Option<Turn>| turn.map_or(0, Turn::takes);
        takes(before) > takes(after)
    }
}

/// How many count before one that waits and came at `came`: those at work, and those that wait longer. No more are counted
/// than it takes to be held back by `limit`.
pub fn ahead<C: Ord>(came: &C, others: impl IntoIterator<Item = (Turn, C)>, limit: u64) -> u64 {
    let counts = |(turn, other): &(Turn, C)| match turn {
        Turn::Running => true,
        Turn::Waiting | Turn::Elsewhere => other < came,
        Turn::Over => false,
    };
    let enough = usize::try_from(limit).unwrap_or(usize::MAX);
    others.into_iter().filter(counts).take(enough).count() as u64
}

/// Those who wait for others and whose turn it is, in the order in which they came: nobody does where there is no limit.
pub fn whose_turn<C: Ord>(all: impl IntoIterator<Item = (Turn, C)>, limit: u64) -> Vec<C> {
    if limit == 0 {
        return Vec::new();
    }
    let counting = all.into_iter().filter(|(turn, _)| matches!(turn, Turn::Running | Turn::Waiting));
    let (running, waiting): (Vec<_>, Vec<_>) = counting.partition(|(turn, _)| *turn == Turn::Running);
    let waiting = waiting.into_iter().map(|(_, came)| came);
    first(waiting, usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(running.len()))
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
mod tests {
    use super::*;

    const TURNS: [Turn; 4] = [Turn::Running, Turn::Waiting, Turn::Elsewhere, Turn::Over];

    fn everything_said() -> Vec<Said> {
        let phases = [None, Some(Phase::New), Some(Phase::BackingOff), Some(Phase::Created), Some(Phase::Deleting)];
        let said = |phase, bits: u8| Said {
            phase,
            is_deleting: bits & 1 != 0,
            is_accepted: bits & 2 != 0,
            was_queued: bits & 4 != 0,
            is_finished: bits & 8 != 0,
            waits_elsewhere: bits & 16 != 0,
        };
        phases.into_iter().flat_map(|phase| (0..32).map(move |bits| said(phase, bits))).collect()
    }

    #[test]
    fn a_request_counts_from_its_coming_until_velero_is_done_with_it() {
        for said in everything_said() {
            let turn = Turn::of(said);
            let is_refused = said.phase == Some(Phase::BackingOff);
            let goes = said.is_deleting || said.phase == Some(Phase::Deleting);
            let is_lost = matches!(said.phase, Some(Phase::Created | Phase::Deleting)) && !said.is_accepted;
            let is_with_velero = said.was_queued && !is_lost && !said.is_finished;
            let is_over = is_refused || is_lost || said.is_finished || (goes && !is_with_velero);
            assert_eq!(turn == Turn::Over, is_over, "{said:?}");
            assert_eq!(turn == Turn::Running, turn != Turn::Over && said.was_queued, "{said:?}");
            assert_eq!(turn == Turn::Elsewhere, turn.is_to_come() && said.waits_elsewhere, "{said:?}");
        }
    }

    #[test]
    fn a_place_is_free_once_who_had_it_is_over_or_gone() {
        let sides = || TURNS.into_iter().map(Some).chain([None]);
        for (before, after) in sides().flat_map(|before| sides().map(move |after| (before, after))) {
            let is_in_the_way = |turn| matches!(turn, Some(Turn::Running | Turn::Waiting));
            let is_there = |turn: Option<Turn>| turn.is_some_and(|turn| turn != Turn::Over);
            let for_all = is_in_the_way(before) && !is_in_the_way(after);
            let for_some = is_there(before) && !is_there(after);
            assert_eq!(Turn::is_freed(before, after), for_all || for_some, "{before:?} {after:?}");
        }
    }

    /// Every way in which up to four requests can stand, in the order of their coming.
    fn lines() -> Vec<Vec<(Turn, usize)>> {
        let mut lines = vec![Vec::new()];
        for length in 0..4 {
            let longer = lines
                .iter()
                .filter(|line| line.len() == length)
                .flat_map(|line| TURNS.map(|turn| line.iter().copied().chain([(turn, length)]).collect::<Vec<_>>()));
            let longer: Vec<_> = longer.collect();
            lines.extend(longer);
        }
        lines
    }

    #[test]
    fn it_is_the_turn_of_exactly_those_whom_the_limit_does_not_hold_back() {
        for (line, limit) in lines().into_iter().flat_map(|line| (1..=3).map(move |limit| (line.clone(), limit))) {
            let turns = whose_turn(line.clone(), limit);
            for (turn, came) in line.iter().filter(|(turn, _)| *turn == Turn::Waiting) {
                let others = line.iter().filter(|other| other.1 != *came).map(|(turn, came)| (turn.to_others(), *came));
                let is_held_back = ahead(came, others, limit) >= limit;
                assert_eq!(turns.contains(came), !is_held_back, "{turn:?} {came} of {line:?}, {limit}");
            }
            let running = line.iter().filter(|(turn, _)| *turn == Turn::Running).count();
            let most = usize::try_from(limit).unwrap().max(running);
            assert!(running + turns.len() <= most, "{line:?}, {limit}");
        }
    }

    #[test]
    fn who_waits_elsewhere_costs_nobody_a_turn_but_those_who_wait_there_as_well() {
        let elsewhere = || (0..20_u32).map(|came| (Turn::Elsewhere, came));
        assert_eq!(ahead(&20, elsewhere().map(|(turn, came)| (turn.to_others(), came)), 20), 0);
        assert_eq!(ahead(&20, elsewhere(), 20), 20, "when that is ready they do not all go at once");
        assert_eq!(whose_turn(elsewhere().chain([(Turn::Waiting, 20)]), 20), [20]);
    }

    #[test]
    fn what_all_wait_for_ends_for_all_at_a_time_and_then_they_take_turns() {
        assert!(["LocationNotReady", "BackupNotReady", "NoVault"].into_iter().all(is_of_its_own));
        assert!(!["VeleroAway", "PolicyUnclear", "PoliciesMissing", HELD_BACK].into_iter().any(is_of_its_own));
    }

    #[test]
    fn of_very_many_that_are_held_back_few_are_looked_at() {
        let looked = std::cell::Cell::new(0);
        let others = (0..10_000).inspect(|_| looked.set(looked.get() + 1));
        assert_eq!((earlier(&9_999, others, 10), looked.get()), (10, 10));
        looked.set(0);
        let waiting = (0..10_000).map(|came| (Turn::Waiting, came)).inspect(|_| looked.set(looked.get() + 1));
        assert_eq!((ahead(&9_999, waiting, 20), looked.get()), (20, 20));
        assert_eq!((earlier(&5, 0..10_000, 10), earlier(&5, 0..10_000, 0)), (5, 0));
        assert_eq!(next_of((0..10_000).rev(), 3), [0, 1, 2]);
        assert_eq!(next_of(0..10_000, 0), [0; 0], "nobody is held back where there is no limit");
    }

    #[test]
    fn without_a_limit_nobody_waits_for_others() {
        for line in lines() {
            assert_eq!(whose_turn(line, 0), [0; 0]);
        }
    }
}
