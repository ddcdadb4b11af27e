//! Whose turn it is in a namespace of which Velero is to have only so many requests at a time: the same order whoever looks, and
//! whatever is told of it already. What was asked for just now is not seen yet: by so much the limit may be passed.

use super::{Observed, PROCESSED, Subject};
use crate::backup::is_denied;

impl Observed {
    /// Whether Velero is to be asked for it, and has not been.
    pub fn is_to_be_asked_for(&self) -> bool {
        let is_proven = matches!(self.subject, Subject::Proven(_));
        let is_over = self.is_deleting || self.has_url() || self.is_of_another_life();
        is_proven && !is_over && self.velero.is_none()
    }

    /// The same, and it costs those that came later a turn: what is kept from Velero may be so for ever.
    pub fn is_in_line(&self) -> bool {
        let said = self.status.conditions.get(PROCESSED);
        self.is_to_be_asked_for() && !said.is_some_and(|said| is_denied(said.status, &said.reason))
    }
}

/// How many count before `own`: those that Velero has been asked for, and of the others those in line that came earlier. No more are
/// looked at than it takes to be held back by `limit`.
pub fn ahead<C: Ord, T>(
    own: &C,
    asked: u64,
    others: impl IntoIterator<Item = (C, T)>,
    is_in_line: impl Fn(&T) -> bool,
    limit: u64,
) -> u64 {
    let enough = usize::try_from(limit.saturating_sub(asked)).unwrap_or(usize::MAX);
    let earlier = others.into_iter().filter(|(came, other)| came < own && is_in_line(other));
    asked.saturating_add(earlier.take(enough).count() as u64)
}

/// Those in line whose turn it is, in the order in which they came.
pub fn whose_turn<C: Ord, T>(
    asked: u64,
    all: impl IntoIterator<Item = (C, T)>,
    is_in_line: impl Fn(&T) -> bool,
    limit: u64,
) -> Vec<C> {
    let free = usize::try_from(limit.saturating_sub(asked)).unwrap_or(usize::MAX);
    if free == 0 {
        return Vec::new();
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all.into_iter().filter(|(_, one)| is_in_line(one)).take(free).map(|(came, _)| came).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a request of a line stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Stands {
        Asked,
        InLine,
        Aside,
    }

    const STANDS: [Stands; 3] = [Stands::Asked, Stands::InLine, Stands::Aside];

    fn asked(line: &[Stands]) -> u64 {
        line.iter().filter(|stands| **stands == Stands::Asked).count() as u64
    }

    fn is_held_back(line: &[Stands], own: usize, limit: u64) -> bool {
        let others = line.iter().enumerate().filter(|(came, _)| *came != own);
        ahead(&own, asked(line), others, |stands| **stands == Stands::InLine, limit) >= limit
    }

    #[test]
    fn as_many_are_asked_for_as_may_be_and_in_the_order_of_coming_whoever_looks_first() {
        let lines = (0..3_usize.pow(5))
            .map(|number| (0..5_u32).map(|place| STANDS[number / 3_usize.pow(place) % 3]).collect::<Vec<_>>());
        for (line, limit) in lines.flat_map(|line| (1..=3_u64).map(move |limit| (line.clone(), limit))) {
            let in_line =
                |line: &[Stands]| (0..line.len()).filter(|at| line[*at] == Stands::InLine).collect::<Vec<_>>();
            let free = usize::try_from(limit.saturating_sub(asked(&line))).unwrap();
            let first: Vec<_> = in_line(&line).into_iter().take(free).collect();
            let goes: Vec<_> = in_line(&line).into_iter().filter(|own| !is_held_back(&line, *own, limit)).collect();
            assert_eq!(goes, first, "all look at a time: {line:?}, {limit}");
            let all = line.iter().enumerate();
            assert_eq!(
                whose_turn(asked(&line), all, |stands| **stands == Stands::InLine, limit),
                first,
                "{line:?}, {limit}"
            );
            // The last looks first, and what it does is seen by the next.
            let mut one_by_one = line.clone();
            for own in in_line(&line).into_iter().rev() {
                if !is_held_back(&one_by_one, own, limit) {
                    one_by_one[own] = Stands::Asked;
                }
            }
            assert!(asked(&one_by_one) <= limit.max(asked(&line)), "{line:?}, {limit}: {one_by_one:?}");
        }
    }

    #[test]
    fn of_very_many_in_line_few_are_looked_at() {
        let looked = std::cell::Cell::new(0);
        let is_in_line = |(): &()| {
            looked.set(looked.get() + 1);
            true
        };
        let all = || (0..10_000).map(|came| (came, ()));
        assert_eq!((ahead(&9_999, 4, all(), is_in_line, 10), looked.take()), (10, 6));
        assert_eq!((whose_turn(7, all(), is_in_line, 10), looked.take()), (vec![0, 1, 2], 3));
        assert_eq!((ahead(&9_999, 4, all(), is_in_line, 0), looked.take()), (4, 0), "where there is no limit");
    }
}
