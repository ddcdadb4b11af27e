//! How many are ahead in Velero's queue, and whose place changes when one leaves it. An estimate: Velero does not promise to
//! work in the order of creation.
//!
//! Velero keeps what it has done for weeks, so that those still waiting are few among many. Only they are in a [`Line`].

use super::velero::{Fields, Progress};
use crate::time::Timestamp;

/// The place to tell: Velero's own word where it has one, else that `in_line`.
pub fn told(status: &Fields, in_line: u64) -> u64 {
    let own = Progress(status).queue_position().filter(|_| in_line > 0);
    own.unwrap_or(in_line)
}

/// One Backup (or Restore) in Velero's namespace, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<At = Timestamp> {
    pub created: At,
    /// Velero is done with it, well or badly.
    pub finished: bool,
}

/// One that Velero is not done with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting<At, Who> {
    created: At,
    name: String,
    /// Whom to tell when its place changes, if anybody.
    who: Option<Who>,
}

/// Everything Velero is not done with, in the order of creation.
#[derive(Clone, Debug)]
pub struct Line<Who, At = Timestamp> {
    waiting: Vec<Waiting<At, Who>>,
}

impl<Who, At> Default for Line<Who, At> {
    fn default() -> Self {
        Self { waiting: Vec::new() }
    }
}

impl<Who, At: Ord + Clone> Line<Who, At> {
    /// 0: served. 1: running, or first in line. Otherwise one more than the number of those waiting that came before; of those
    /// that came in the same second, by name.
    pub fn position(&self, name: &str, own: &Turn<At>) -> u64 {
        if own.finished {
            return 0;
        }
        let ahead = self.place_of(name, own).unwrap_or_else(|place| place);
        1 + u64::try_from(ahead).unwrap_or(u64::MAX - 1)
    }

    /// The object called `name` has changed (`None`: did not or does not exist). Gives those whose place has become better by
    /// that: all behind it, if it was waiting and is no more. Whom it passes by its name when it joins is not told: where many come in
    /// one second, each would tell half of the others.
    pub fn change<'line>(
        &'line mut self,
        name: &str,
        before: Option<&Turn<At>>,
        after: Option<&Turn<At>>,
        who: Option<Who>,
    ) -> impl Iterator<Item = &'line Who> + use<'line, Who, At> {
        let is_waiting = |turn: &&Turn<At>| !turn.finished;
        let (before, after) = (before.filter(is_waiting), after.filter(is_waiting));
        if let Some(place) = before.and_then(|before| self.place_of(name, before).ok()) {
            self.waiting.remove(place);
        }
        if let Some(after) = after {
            let place = self.place_of(name, after).unwrap_or_else(|place| place);
            self.waiting.insert(place, Waiting { created: after.created.clone(), name: name.to_owned(), who });
        }
        let behind = match (before, after) {
            (Some(left), None) => self.place_of(name, left).unwrap_or_else(|place| place),
            _ => self.waiting.len(),
        };
        self.waiting.iter().skip(behind).filter_map(|other| other.who.as_ref())
    }

    /// Where it is, or where it would be.
    fn place_of(&self, name: &str, turn: &Turn<At>) -> Result<usize, usize> {
        self.waiting
            .binary_search_by(|other| other.created.cmp(&turn.created).then_with(|| other.name.as_str().cmp(name)))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, cmp::Ordering, collections::BTreeMap};

    use proptest::prelude::*;

    use super::*;

    fn turn(second: u32, finished: bool) -> Turn {
        Turn { created: Timestamp(format!("2026-01-01T00:00:{second:02}Z")), finished }
    }

    /// A line of these, each called and to be told by its number.
    fn line(turns: &[Turn]) -> Line<usize> {
        let mut line = Line::default();
        for (number, turn) in turns.iter().enumerate() {
            assert_eq!(line.change(&number.to_string(), None, Some(turn), Some(number)).count(), 0);
        }
        line
    }

    #[test]
    fn the_running_one_is_first_and_the_finished_one_is_served() {
        assert_eq!(line(&[turn(5, false)]).position("0", &turn(5, false)), 1);
        assert_eq!(line(&[turn(1, false), turn(5, true)]).position("1", &turn(5, true)), 0);
    }

    #[test]
    fn veleros_own_word_counts_while_it_has_one() {
        let told = |status: serde_json::Value, in_line| told(status.as_object().expect("an object"), in_line);
        assert_eq!(told(serde_json::json!({ "phase": "Queued", "queuePosition": 7 }), 3), 7);
        assert_eq!(told(serde_json::json!({ "phase": "InProgress", "queuePosition": 0 }), 1), 1);
        assert_eq!(told(serde_json::json!({ "phase": "New" }), 3), 3);
        assert_eq!(told(serde_json::json!({ "phase": "Completed", "queuePosition": 7 }), 0), 0, "served");
        assert_eq!(told(serde_json::json!({ "phase": "InProgress", "queuePosition": 7 }), 1), 1, "it runs");
        assert_eq!(told(serde_json::json!({ "phase": "Queued", "queuePosition": "x" }), 3), 3);
    }

    #[test]
    fn only_unfinished_older_ones_are_ahead() {
        let all = [turn(1, true), turn(2, false), turn(3, false), turn(5, false), turn(6, false), turn(5, false)];
        assert_eq!(
            (line(&all).position("3", &all[3]), line(&all).position("5", &all[5])),
            (3, 4),
            "a tie is broken by name"
        );
    }

    #[test]
    fn who_leaves_makes_room_for_those_behind_and_nobody_else() {
        let all = [turn(1, false), turn(2, false), turn(2, false), turn(3, false), turn(4, true)];
        let told = |after: Option<Turn>| {
            line(&all).change("1", Some(&all[1]), after.as_ref(), Some(1)).copied().collect::<Vec<_>>()
        };
        assert_eq!(told(Some(turn(2, true))), [2, 3], "done");
        assert_eq!(told(None), [2, 3], "deleted");
        assert_eq!(told(Some(turn(2, false))), [0; 0], "still running");
    }

    #[test]
    fn nobody_is_told_about_one_that_is_not_ours() {
        let mut line = line(&[turn(1, false)]);
        assert_eq!(line.change("theirs", None, Some(&turn(2, false)), None).count(), 0);
        assert_eq!(line.change("0", Some(&turn(1, false)), None, None).count(), 0);
        assert_eq!(line.position("x", &turn(3, false)), 2, "but it counts");
    }

    type All = BTreeMap<usize, Turn<u8>>;

    /// The definition, read aloud.
    fn naive(number: usize, own: &Turn<u8>, all: &All) -> u64 {
        let is_ahead =
            |other: &usize, turn: &Turn<u8>| (turn.created, other.to_string()) < (own.created, number.to_string());
        let ahead = all.iter().filter(|(other, turn)| !turn.finished && is_ahead(other, turn)).count();
        if own.finished { 0 } else { 1 + ahead as u64 }
    }

    proptest! {
        #[test]
        fn every_position_and_everybody_told_is_as_the_definition_says(
            changes in prop::collection::vec((0..8_usize, prop::option::of((0..6_u8, any::<bool>()))), 1..60),
        ) {
            let (mut all, mut line) = (All::new(), Line::<usize, u8>::default());
            for (number, after) in changes {
                let after = after.map(|(created, finished)| Turn { created, finished });
                let before = all.clone();
                match after.clone() {
                    Some(after) => all.insert(number, after),
                    None => all.remove(&number),
                };
                let told = line.change(&number.to_string(), before.get(&number), after.as_ref(), Some(number));
                let mut told: Vec<_> = told.copied().collect();
                told.sort_unstable();
                let waits = |turn: Option<&Turn<u8>>| turn.is_some_and(|turn| !turn.finished);
                let has_left = waits(before.get(&number)) && !waits(after.as_ref());
                let moved = all.iter().filter(|(other, turn)| has_left && before.get(other) == Some(turn));
                let moved = moved.filter(|(other, turn)| naive(**other, turn, &before) != naive(**other, turn, &all));
                prop_assert_eq!(told, moved.map(|(other, _)| *other).collect::<Vec<_>>());
                for (number, turn) in &all {
                    prop_assert_eq!(line.position(&number.to_string(), turn), naive(*number, turn, &all));
                }
            }
        }
    }

    /// A time that counts how often it is looked at.
    #[derive(Clone, Debug)]
    struct Counted<'a>(u32, &'a Cell<u64>);

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Eq for Counted<'_> {}

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    #[test]
    fn one_that_is_done_costs_each_waiting_one_a_dozen_looks_however_many_were_done_before() {
        let looks = Cell::new(0);
        let turn = |created: u32, finished| Turn { created: Counted(created, &looks), finished };
        let mut line = Line::<u32, Counted<'_>>::default();
        for number in 0..2_000 {
            line.change(&number.to_string(), None, Some(&turn(number, number < 1_000)), Some(number)).count();
        }
        looks.set(0);
        let told: Vec<_> =
            line.change("1000", Some(&turn(1_000, false)), Some(&turn(1_000, true)), None).copied().collect();
        assert_eq!(told, (1_001..2_000).collect::<Vec<_>>());
        let positions: Vec<_> =
            told.iter().map(|number| line.position(&number.to_string(), &turn(*number, false))).collect();
        assert_eq!(positions, (1..1_000).collect::<Vec<_>>());
        assert!(looks.get() <= 12 * 1_000, "{} looks", looks.get());
    }
}
