//! Whose turn it is in a namespace where only so many requests may be with Velero at a time; see [`super::Limits`].

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
            _ if said.waits_elsewhere => Turn::Elsewhere,
            _ => Turn::Waiting,
        }
    }

    /// Whether it may still be handed over.
    pub fn is_to_come(self) -> bool {
        matches!(self, Turn::HandedOver | Turn::Waiting | Turn::Elsewhere)
    }

    /// How much of a place it takes.
    fn takes(self) -> u8 {
        match self {
            Turn::Running | Turn::HandedOver => 3,
            Turn::Waiting => 2,
            Turn::Elsewhere => 1,
            Turn::Over => 0,
        }
    }

    /// For whom a change of one request makes room; it is not there before it comes, nor once it is gone.
    pub fn room(before: Option<Turn>, after: Option<Turn>) -> Room {
        let takes = |turn: Option<Turn>| turn.map_or(0, Turn::takes);
        match after {
            _ if takes(before) <= takes(after) => Room::Nobody,
            Some(Turn::Waiting) if before == Some(Turn::HandedOver) => Room::WhoWasPassed,
            _ => Room::Everybody,
        }
    }
}

/// For whom a place has become free, if only for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Nobody,
    /// Nothing came of handing it over, and it waits again: before whoever waits and came later, as it did all the time. That frees one
    /// at most, and nobody whom the limit did not hold back.
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
            Turn::Over => false,
        }
    }
}

/// How many count before one that is to come: those at work, and those that wait longer. No more are counted than it takes to be held
/// back by `limit`.
pub fn ahead<'a, C: Ord>(own: &Member<'a, C>, others: impl IntoIterator<Item = Member<'a, C>>, limit: u64) -> u64 {
    let enough = usize::try_from(limit).unwrap_or(usize::MAX);
    others.into_iter().filter(|other| own.is_behind(other)).take(enough).count() as u64
}

/// Those who wait for others and whose turn it is once `own` has made room for them, in the order in which they came, first those of
/// whom it is noted that it was: nobody does where there is no limit.
pub fn whose_turn<C: Ord>(room: Room, own: &C, all: impl IntoIterator<Item = (Turn, C)>, limit: u64) -> Vec<C> {
    if limit == 0 || room == Room::Nobody {
        return Vec::new();
    }
    let mut free = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut line = Vec::new();
    for (turn, came) in all {
        match turn {
            Turn::Running => free = free.saturating_sub(1),
            Turn::HandedOver | Turn::Waiting => line.push((turn == Turn::Waiting, came)),
            Turn::Elsewhere | Turn::Over => {}
        }
    }
    let is_full = line.len() >= free;
    let line = first(line, free).into_iter();
    if room == Room::Everybody {
        return line.map(|(_, came)| came).collect();
    }
    // Whoever is woken without having been held back fails as well, and wakes others in turn, for ever.
    let last = line.last().filter(|_| is_full);
    let is_freed = |(waits, came): &(bool, C)| if *waits { came < own } else { own < came };
    last.filter(is_freed).map(|(_, came)| came).into_iter().collect()
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
    use std::time::Duration;

    use super::*;
    use crate::time::Timestamp;

    const TURNS: [Turn; 5] = [Turn::Running, Turn::HandedOver, Turn::Waiting, Turn::Elsewhere, Turn::Over];

    /// One that needs what nobody else needs.
    fn member(turn: Turn, came: usize) -> Member<'static, usize> {
        Member { turn, needs: ["a", "b", "c", "d"].get(came).copied(), came }
    }

    fn everything_said() -> Vec<Said> {
        let phases = [None, Some(Phase::New), Some(Phase::BackingOff), Some(Phase::Created), Some(Phase::Deleting)];
        let said = |phase, bits: u8| Said {
            phase,
            is_deleting: bits & 1 != 0,
            is_accepted: bits & 2 != 0,
            was_queued: bits & 4 != 0,
            is_finished: bits & 8 != 0,
            waits_elsewhere: bits & 16 != 0,
            is_tried: bits & 32 != 0,
        };
        phases.into_iter().flat_map(|phase| (0..64).map(move |bits| said(phase, bits))).collect()
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
            assert_eq!(turn == Turn::HandedOver, turn.is_to_come() && said.is_tried, "{said:?}");
            let waits = turn.is_to_come() && !said.is_tried;
            assert_eq!(turn == Turn::Elsewhere, waits && said.waits_elsewhere, "{said:?}");
        }
    }

    #[test]
    fn a_place_is_free_once_who_had_it_is_over_or_gone() {
        let sides = || TURNS.into_iter().map(Some).chain([None]);
        for (before, after) in sides().flat_map(|before| sides().map(move |after| (before, after))) {
            let is_with_velero = |turn| matches!(turn, Some(Turn::Running | Turn::HandedOver));
            let is_in_the_way = |turn| is_with_velero(turn) || turn == Some(Turn::Waiting);
            let is_there = |turn: Option<Turn>| turn.is_some_and(|turn| turn != Turn::Over);
            let for_all = is_in_the_way(before) && !is_in_the_way(after);
            let for_some = is_there(before) && !is_there(after);
            let for_earlier = is_with_velero(before) && !is_with_velero(after);
            let room = Turn::room(before, after);
            assert_eq!(room != Room::Nobody, for_all || for_some || for_earlier, "{before:?} {after:?}");
        }
    }

    /// One request of a line changes: who is woken, of those whom the limit does not hold back any more.
    fn woken(line: &[(Turn, usize)], own: usize, after: Turn, limit: u64) -> (Vec<usize>, Vec<usize>) {
        let mut changed = line.to_vec();
        changed[own].0 = after;
        let is_to_come = |turn: Turn| matches!(turn, Turn::HandedOver | Turn::Waiting);
        let others = line.iter().filter(|other| other.1 != own && is_to_come(other.0)).copied();
        let freed = others.filter(|other| is_held_back(line, *other, limit) && !is_held_back(&changed, *other, limit));
        let freed = freed.map(|(_, came)| came).collect();
        (whose_turn(Turn::room(Some(line[own].0), Some(after)), &own, changed, limit), freed)
    }

    #[test]
    fn whoever_is_not_held_back_any_more_is_woken_and_nobody_by_his_own_failure() {
        for (line, limit) in lines().into_iter().flat_map(|line| (1..=3).map(move |limit| (line.clone(), limit))) {
            let changes = (0..line.len()).flat_map(|own| TURNS.map(|after| (own, after)));
            // What Velero has had it does not give back.
            for (own, after) in changes.filter(|(own, after)| line[*own].0 != Turn::Running || !after.is_to_come()) {
                let (woken, freed) = woken(&line, own, after, limit);
                assert!(freed.iter().all(|came| woken.contains(came)), "{line:?}, {own} is {after:?}, {limit}");
                let is_exact = after != Turn::Waiting || woken == freed;
                assert!(is_exact, "{line:?}, {own} is {after:?}, {limit}: woken {woken:?}, freed {freed:?}");
            }
        }
    }

    #[test]
    fn two_of_whom_nothing_comes_do_not_wake_each_other_for_ever() {
        let fails = |line: &[(Turn, usize)], own| woken(line, own, Turn::Waiting, 2).0;
        assert_eq!(fails(&[(Turn::HandedOver, 0), (Turn::Waiting, 1)], 0), [0; 0]);
        assert_eq!(fails(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], 1), [0; 0], "the limit never held it back");
        assert_eq!(fails(&[(Turn::HandedOver, 0), (Turn::HandedOver, 1)], 0), [0; 0]);
        assert_eq!(fails(&[(Turn::HandedOver, 0), (Turn::HandedOver, 1)], 1), [0; 0]);
        let third = [(Turn::Waiting, 0), (Turn::HandedOver, 1), (Turn::HandedOver, 2)];
        assert_eq!(fails(&third, 2), [0], "it was passed, and may go now");
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

    fn is_held_back(line: &[(Turn, usize)], own: (Turn, usize), limit: u64) -> bool {
        let others = line.iter().filter(|other| other.1 != own.1).map(|(turn, came)| member(*turn, *came));
        ahead(&member(own.0, own.1), others, limit) >= limit
    }

    #[test]
    fn it_is_the_turn_of_exactly_those_whom_the_limit_does_not_hold_back() {
        for (line, limit) in lines().into_iter().flat_map(|line| (1..=3).map(move |limit| (line.clone(), limit))) {
            let turns = whose_turn(Room::Everybody, &usize::MAX, line.clone(), limit);
            for own in line.iter().filter(|(turn, _)| matches!(turn, Turn::HandedOver | Turn::Waiting)) {
                let is_held_back = is_held_back(&line, *own, limit);
                assert_eq!(turns.contains(&own.1), !is_held_back, "{own:?} of {line:?}, {limit}");
            }
            let running = line.iter().filter(|(turn, _)| *turn == Turn::Running).count();
            let most = usize::try_from(limit).unwrap().max(running);
            assert!(running + turns.len() <= most, "{line:?}, {limit}");
        }
    }

    #[test]
    fn who_waits_elsewhere_costs_nobody_a_turn_but_those_who_wait_there_as_well() {
        let elsewhere = |needs| (0..20_u32).map(move |came| Member { turn: Turn::Elsewhere, needs, came });
        let own = Member { turn: Turn::Elsewhere, needs: Some("there"), came: 20 };
        assert_eq!(ahead(&own, elsewhere(Some("here")), 20), 0);
        assert_eq!(ahead(&own, elsewhere(Some("there")), 20), 20, "when that is ready they do not all go at once");
        let all = elsewhere(None).map(|member| (member.turn, member.came)).chain([(Turn::Waiting, 20)]);
        assert_eq!(whose_turn(Room::Everybody, &0, all, 20), [20]);
    }

    #[test]
    fn who_is_being_handed_over_counts_for_everybody_before_it_is_told() {
        // Five places become ready at a time: whoever is looked at first is handed over, and says so when it is looked at again.
        let places = ["a", "b", "c", "d", "e"];
        let waiting = (0..100_usize).map(|came| (Turn::Elsewhere, places[came % places.len()], came));
        let mut all: Vec<_> = waiting.collect();
        for own in 0..all.len() {
            let members =
                all.iter().map(|(turn, needs, came)| Member { turn: *turn, needs: Some(*needs), came: *came });
            let members: Vec<_> = members.collect();
            let others = members.iter().filter(|other| other.came != own).copied();
            if ahead(&members[own], others, 20) < 20 {
                all[own].0 = Turn::HandedOver;
            }
        }
        assert_eq!(all.iter().filter(|(turn, ..)| *turn == Turn::HandedOver).count(), 20);
    }

    #[test]
    fn who_is_handed_over_and_was_not_seen_at_velero_goes_before_those_who_wait_and_no_two_wait_for_each_other() {
        for (line, limit) in lines().into_iter().flat_map(|line| (1..=3).map(move |limit| (line.clone(), limit))) {
            let running = line.iter().filter(|(turn, _)| *turn == Turn::Running).count() as u64;
            let mut to_come =
                line.iter().filter(|(turn, _)| matches!(turn, Turn::HandedOver | Turn::Waiting)).peekable();
            let is_stuck = to_come.peek().is_some() && to_come.all(|own| is_held_back(&line, *own, limit));
            assert!(!is_stuck || running >= limit, "{line:?}, {limit}");
        }
        assert!(!is_held_back(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], (Turn::HandedOver, 1), 1));
        assert!(is_held_back(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], (Turn::Waiting, 0), 1));
    }

    #[test]
    fn what_the_api_server_has_refused_is_not_with_velero() {
        let tried = Tried { at: Timestamp("2026-01-01T00:00:10Z".into()), ago: Duration::ZERO };
        let is_tried = |queued| is_tried(&tried, queued);
        assert!(is_tried(None) && is_tried(Some((Truth::True, "BackupScheduled", "2026-01-01T00:00:20Z"))));
        assert!(!is_tried(Some((Truth::False, "Forbidden", "2026-01-01T00:00:20Z"))));
        assert!(is_tried(Some((Truth::False, "Forbidden", "2026-01-01T00:00:00Z"))), "it was tried again");
        assert!(is_tried(Some((Truth::False, "TimedOut", "2026-01-01T00:00:20Z"))), "nobody knows");
        let long_ago = Tried { ago: handover::BEYOND_DOUBT, ..tried.clone() };
        assert!(!super::is_tried(&long_ago, None), "it would have been seen by now");
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
        let waiting = |came| Member { turn: Turn::Waiting, needs: None, came };
        let all = (0..10_000).map(waiting).inspect(|_| looked.set(looked.get() + 1));
        assert_eq!((ahead(&waiting(9_999), all, 20), looked.get()), (20, 20));
        assert_eq!((earlier(&5, 0..10_000, 10), earlier(&5, 0..10_000, 0)), (5, 0));
        assert_eq!(next_of((0..10_000).rev(), 3), [0, 1, 2]);
        assert_eq!(next_of(0..10_000, 0), [0; 0], "nobody is held back where there is no limit");
    }

    #[test]
    fn without_a_limit_nobody_waits_for_others() {
        for line in lines() {
            assert_eq!(whose_turn(Room::Everybody, &0, line, 0), [0; 0]);
        }
    }
}
