//! Who comes before whom, in every small line.

use std::{collections::BTreeSet, time::Duration};

use super::*;
use crate::time::Timestamp;

const TURNS: [Turn; 6] = [Turn::Running, Turn::HandedOver, Turn::Waiting, Turn::Elsewhere, Turn::Denied, Turn::Over];

/// What the requests of a line need: each what nobody else does, or all the same.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Different,
    Same,
}

const NEEDS: [Needs; 2] = [Needs::Different, Needs::Same];

impl Needs {
    fn member(self, (turn, came): (Turn, usize)) -> Member<'static, usize> {
        let needs = match self {
            Needs::Different => ["a", "b", "c", "d"].get(came).copied(),
            Needs::Same => Some("a"),
        };
        Member { turn, needs, came }
    }

    fn is_held_back(self, line: &[(Turn, usize)], own: (Turn, usize), limit: u64) -> bool {
        let others = line.iter().filter(|other| other.1 != own.1).map(|other| self.member(*other));
        ahead(&self.member(own), others, limit) >= limit
    }
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
        is_denied: bits & 64 != 0,
    };
    phases.into_iter().flat_map(|phase| (0..128).map(move |bits| said(phase, bits))).collect()
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
        let is_denied = waits && said.is_denied && said.is_accepted;
        assert_eq!(turn == Turn::Denied, is_denied, "{said:?}");
        assert_eq!(turn == Turn::Elsewhere, waits && said.waits_elsewhere && !is_denied, "{said:?}");
    }
}

#[test]
fn a_place_is_free_once_who_had_it_is_over_or_gone() {
    let sides = || TURNS.into_iter().map(Some).chain([None]);
    for (before, after) in sides().flat_map(|before| sides().map(move |after| (before, after))) {
        let is_with_velero = |turn| matches!(turn, Some(Turn::Running | Turn::HandedOver));
        let is_in_the_way = |turn| is_with_velero(turn) || turn == Some(Turn::Waiting);
        let is_there = |turn: Option<Turn>| turn.is_some_and(|turn| !matches!(turn, Turn::Denied | Turn::Over));
        let for_all = is_in_the_way(before) && !is_in_the_way(after);
        let for_some = is_there(before) && !is_there(after);
        let for_earlier = is_with_velero(before) && !is_with_velero(after);
        let room = Turn::room(before, after);
        assert_eq!(room != Room::Nobody, for_all || for_some || for_earlier, "{before:?} {after:?}");
    }
}

/// One request of a line changes: who is woken, of those whom the limit does not hold back any more.
fn woken(needs: Needs, line: &[(Turn, usize)], own: usize, after: Turn, limit: u64) -> [BTreeSet<usize>; 2] {
    let mut changed = line.to_vec();
    changed[own].0 = after;
    let is_to_come = |turn: Turn| matches!(turn, Turn::HandedOver | Turn::Waiting);
    let others = line.iter().filter(|other| other.1 != own && is_to_come(other.0)).copied();
    let is_held_back = |line: &[(Turn, usize)], other| needs.is_held_back(line, other, limit);
    let freed = others.filter(|other| is_held_back(line, *other) && !is_held_back(&changed, *other));
    let room = Turn::room(Some(line[own].0), Some(after));
    let all = changed.iter().map(|one| needs.member(*one));
    let woken = whose_turn(room, &needs.member(changed[own]), all, limit);
    [woken.into_iter().collect(), freed.map(|(_, came)| came).collect()]
}

#[test]
fn whoever_is_not_held_back_any_more_is_woken_and_nobody_by_his_own_failure() {
    for (line, needs, limit) in lines_and_limits() {
        let changes = (0..line.len()).flat_map(|own| TURNS.map(|after| (own, after)));
        // What Velero has had it does not give back.
        for (own, after) in changes.filter(|(own, after)| line[*own].0 != Turn::Running || !after.is_to_come()) {
            let [woken, freed] = woken(needs, &line, own, after, limit);
            let told = || format!("{line:?} {needs:?}, {own} is {after:?}, {limit}: woken {woken:?}, freed {freed:?}");
            assert!(woken.is_superset(&freed), "{}", told());
            let has_failed = after == Turn::Denied && line[own].0 == Turn::HandedOver;
            assert!(!(has_failed || after == Turn::Waiting) || woken == freed, "{}", told());
        }
    }
}

#[test]
fn two_of_whom_nothing_comes_do_not_wake_each_other_for_ever() {
    let fails = |line: &[(Turn, usize)], own| woken(Needs::Different, line, own, Turn::Waiting, 2)[0].clone();
    assert_eq!(fails(&[(Turn::HandedOver, 0), (Turn::Waiting, 1)], 0), [].into());
    assert_eq!(fails(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], 1), [].into(), "the limit never held it back");
    assert_eq!(fails(&[(Turn::HandedOver, 0), (Turn::HandedOver, 1)], 0), [].into());
    assert_eq!(fails(&[(Turn::HandedOver, 0), (Turn::HandedOver, 1)], 1), [].into());
    let third = [(Turn::Waiting, 0), (Turn::HandedOver, 1), (Turn::HandedOver, 2)];
    assert_eq!(fails(&third, 2), [0].into(), "it was passed, and may go now");
    let denied = |line: &[(Turn, usize)], own| woken(Needs::Different, line, own, Turn::Denied, 1)[0].clone();
    assert_eq!(denied(&[(Turn::HandedOver, 0), (Turn::Denied, 1)], 0), [].into(), "they would be denied in turn");
    assert_eq!(denied(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], 1), [0].into());
    assert_eq!(denied(&[(Turn::HandedOver, 0), (Turn::Waiting, 1)], 0), [1].into(), "it is in nobody's way any more");
}

#[test]
fn who_is_denied_by_a_rule_costs_nobody_a_turn() {
    let said = Said {
        phase: Some(Phase::New),
        is_deleting: false,
        is_accepted: true,
        waits_elsewhere: false,
        was_queued: false,
        is_denied: handover::is_denied(Truth::False, "Rejected"),
        is_tried: false,
        is_finished: false,
    };
    assert_eq!(Turn::of(said), Turn::Denied);
    for reason in ["Forbidden", "QuotaExceeded"] {
        assert!(handover::is_denied(Truth::False, reason), "{reason}");
    }
    assert!(!handover::is_denied(Truth::Unknown, "Rejected"));
    let denied = (0..10_u32).map(|came| Member { turn: Turn::of(said), needs: Some("there"), came });
    let own = Member { turn: Turn::Waiting, needs: Some("there"), came: 10 };
    assert_eq!(ahead(&own, denied.clone(), 10), 0);
    assert_eq!(whose_turn(Room::Everybody, &own, denied.chain([own]), 10), [10]);
    let own = Member { turn: Turn::Denied, ..own };
    let waiting = (0..10_u32).map(|came| Member { turn: Turn::Waiting, needs: None, came });
    assert_eq!(ahead(&own, waiting, 10), 10, "once it is let pass, it takes its turn as all do");
    let held_back = Said { is_accepted: false, ..said };
    assert_eq!(Turn::of(held_back), Turn::Waiting, "and is woken with those it waits with");
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

fn lines_and_limits() -> impl Iterator<Item = (Vec<(Turn, usize)>, Needs, u64)> {
    let lines = lines().into_iter();
    lines.flat_map(|line| {
        NEEDS.into_iter().flat_map(move |needs| {
            (1..=3).map({
                let line = line.clone();
                move |limit| (line.clone(), needs, limit)
            })
        })
    })
}

#[test]
fn it_is_the_turn_of_exactly_those_whom_the_limit_does_not_hold_back() {
    let nobody = Needs::Different.member((Turn::Over, usize::MAX));
    for (line, needs, limit) in lines_and_limits() {
        let turns = whose_turn(Room::Everybody, &nobody, line.iter().map(|one| needs.member(*one)), limit);
        for own in line.iter().filter(|(turn, _)| matches!(turn, Turn::HandedOver | Turn::Waiting)) {
            let is_held_back = needs.is_held_back(&line, *own, limit);
            assert_eq!(turns.contains(&own.1), !is_held_back, "{own:?} of {line:?} {needs:?}, {limit}");
        }
        let running = line.iter().filter(|(turn, _)| *turn == Turn::Running).count();
        let most = usize::try_from(limit).unwrap().max(running);
        assert!(running + turns.len() <= most, "{line:?} {needs:?}, {limit}");
    }
}

#[test]
fn who_waits_elsewhere_costs_nobody_a_turn_but_those_who_wait_there_as_well() {
    let elsewhere = |needs| (0..20_u32).map(move |came| Member { turn: Turn::Elsewhere, needs, came });
    let own = Member { turn: Turn::Elsewhere, needs: Some("there"), came: 20 };
    assert_eq!(ahead(&own, elsewhere(Some("here")), 20), 0);
    assert_eq!(ahead(&own, elsewhere(Some("there")), 20), 20, "when that is ready they do not all go at once");
    let waiting = Member { turn: Turn::Waiting, ..own };
    assert_eq!(whose_turn(Room::Everybody, &own, elsewhere(None).chain([waiting]), 20), [20]);
}

#[test]
fn who_is_being_handed_over_counts_for_everybody_before_it_is_told() {
    // Five places become ready at a time: whoever is looked at first is handed over, and says so when it is looked at again.
    let places = ["a", "b", "c", "d", "e"];
    let waiting = (0..100_usize).map(|came| (Turn::Elsewhere, places[came % places.len()], came));
    let mut all: Vec<_> = waiting.collect();
    for own in 0..all.len() {
        let members = all.iter().map(|(turn, needs, came)| Member { turn: *turn, needs: Some(*needs), came: *came });
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
        let mut to_come = line.iter().filter(|(turn, _)| matches!(turn, Turn::HandedOver | Turn::Waiting)).peekable();
        let is_stuck = to_come.peek().is_some() && to_come.all(|own| Needs::Different.is_held_back(&line, *own, limit));
        assert!(!is_stuck || running >= limit, "{line:?}, {limit}");
    }
    let held = |line: &[(Turn, usize)], own| Needs::Different.is_held_back(line, own, 1);
    assert!(!held(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], (Turn::HandedOver, 1)));
    assert!(held(&[(Turn::Waiting, 0), (Turn::HandedOver, 1)], (Turn::Waiting, 0)));
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
    let nobody = Needs::Different.member((Turn::Over, 0));
    for line in lines() {
        let all = line.iter().map(|one| Needs::Same.member(*one));
        assert_eq!(whose_turn(Room::Everybody, &nobody, all, 0), [0; 0]);
    }
}
