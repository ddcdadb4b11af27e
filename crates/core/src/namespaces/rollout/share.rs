//! A part of a whole, as people give it: a number, or a percentage.

/// So many, or so many of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Number(u64),
    Percent(u64),
}

impl Share {
    /// `10`, or `10%` up to `100%`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_plain.then(|| digits.parse().ok()).flatten()
        };
        match text.strip_suffix('%') {
            Some(percent) => number(percent).filter(|percent| *percent <= 100).map(Share::Percent),
            None => number(text).map(Share::Number),
        }
    }

    /// How many of `whole` that is; part of one counts as one.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Share::Number(number) => number,
            Share::Percent(percent) => {
                let hundredths = u128::from(whole).saturating_mul(u128::from(percent));
                u64::try_from(hundredths.div_ceil(100)).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_a_percentage_and_nothing_else() {
        assert_eq!(Share::parse("7"), Some(Share::Number(7)));
        assert_eq!(Share::parse("7%"), Some(Share::Percent(7)));
        for wrong in ["", "%", "-1", "+1", "1.5%", "101%", "ten", "1 %", "99999999999999999999"] {
            assert_eq!(Share::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn part_of_one_counts_as_one() {
        assert_eq!(Share::Percent(10).of(1000), 100);
        assert_eq!(Share::Percent(10).of(1), 1);
        assert_eq!(Share::Percent(0).of(1000), 0);
        assert_eq!(Share::Percent(100).of(u64::MAX), u64::MAX);
        assert_eq!(Share::Number(3).of(2), 3);
    }
}
