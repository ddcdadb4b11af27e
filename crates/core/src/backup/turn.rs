//! Whose turn it is in a namespace where only so many requests may be with Velero at a time; see [`super::Limits`].

use super::Phase;

/// How a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Velero has it and is not done with it.
    Running,
    /// It waits to be handed over.
    Waiting,
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
            _ => Turn::Waiting,
        }
    }

    fn counts(self) -> bool {
        self != Turn::Over
    }

    /// Whether a place has become free between two looks at one request; none where it is not there.
    pub fn is_freed(before: Option<Turn>, after: Option<Turn>) -> bool {
        before.is_some_and(Turn::counts) && !after.is_some_and(Turn::counts)
    }
}

/// How many count before one that waits and came at `came`: those at work, and those that wait longer. No more are counted
/// than it takes to be held back by `limit`.
pub fn ahead<C: Ord>(came: &C, others: impl IntoIterator<Item = (Turn, C)>, limit: u64) -> u64 {
    let counts = |(turn, other): &(Turn, C)| match turn {
        Turn::Running => true,
        Turn::Waiting => other < came,
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
    let counting = all.into_iter().filter(|(turn, _)| turn.counts());
    let (running, waiting): (Vec<_>, Vec<_>) = counting.partition(|(turn, _)| *turn == Turn::Running);
    let mut waiting: Vec<_> = waiting.into_iter().map(|(_, came)| came).collect();
    waiting.sort();
    waiting.truncate(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(running.len()));
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNS: [Turn; 3] = [Turn::Running, Turn::Waiting, Turn::Over];

    fn everything_said() -> Vec<Said> {
        let phases = [None, Some(Phase::New), Some(Phase::BackingOff), Some(Phase::Created), Some(Phase::Deleting)];
        let said = |phase, bits: u8| Said {
            phase,
            is_deleting: bits & 1 != 0,
            is_accepted: bits & 2 != 0,
            was_queued: bits & 4 != 0,
            is_finished: bits & 8 != 0,
        };
        phases.into_iter().flat_map(|phase| (0..16).map(move |bits| said(phase, bits))).collect()
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
        }
    }

    #[test]
    fn a_place_is_free_once_who_had_it_is_over_or_gone() {
        let sides = || TURNS.into_iter().map(Some).chain([None]);
        for (before, after) in sides().flat_map(|before| sides().map(move |after| (before, after))) {
            let had = matches!(before, Some(Turn::Running | Turn::Waiting));
            let has = matches!(after, Some(Turn::Running | Turn::Waiting));
            assert_eq!(Turn::is_freed(before, after), had && !has, "{before:?} {after:?}");
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
                let others = line.iter().copied().filter(|other| other.1 != *came);
                let is_held_back = ahead(came, others, limit) >= limit;
                assert_eq!(turns.contains(came), !is_held_back, "{turn:?} {came} of {line:?}, {limit}");
            }
            let running = line.iter().filter(|(turn, _)| *turn == Turn::Running).count();
            let most = usize::try_from(limit).unwrap().max(running);
            assert!(running + turns.len() <= most, "{line:?}, {limit}");
        }
    }

    #[test]
    fn without_a_limit_nobody_waits_for_others() {
        for line in lines() {
            assert_eq!(whose_turn(line, 0), [0; 0]);
        }
    }
}
