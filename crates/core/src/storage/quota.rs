//! How much a claim asks for and how much it gets.

use std::fmt;

use crate::quantity::Quantity;

/// The most anybody may ask for: 1 Ei. Ceph takes the largest numbers it can count for no limit at all.
const MOST: i64 = 1 << 60;

/// A quantity Ceph can enforce: whole, not negative, and not so large that Ceph takes it for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    quantity: Quantity,
    whole: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountError {
    Negative,
    Fraction,
    TooLarge,
}

impl fmt::Display for AmountError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AmountError::Negative => out.write_str("must not be negative"),
            AmountError::Fraction => out.write_str("must be a whole number"),
            AmountError::TooLarge => out.write_str("must be at most 1Ei"),
        }
    }
}

impl std::error::Error for AmountError {}

impl Amount {
    /// What Ceph is told.
    pub fn whole(self) -> u64 {
        self.whole
    }

    fn of_small(value: u32) -> Self {
        Self { quantity: Quantity::whole(value.into()), whole: value.into() }
    }
}

impl TryFrom<Quantity> for Amount {
    type Error = AmountError;

    fn try_from(quantity: Quantity) -> Result<Self, AmountError> {
        if quantity.is_negative() {
            return Err(AmountError::Negative);
        }
        let whole = quantity.as_whole().ok_or(AmountError::Fraction)?;
        let whole = i64::try_from(whole).ok().filter(|whole| *whole <= MOST).ok_or(AmountError::TooLarge)?;
        Ok(Self { quantity, whole: whole.unsigned_abs() })
    }
}

/// The canonical text of the quantity.
impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quantity.fmt(out)
    }
}

/// What somebody asks for; each member may be left to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaAsked {
    pub size: Option<Amount>,
    pub objects: Option<Amount>,
    pub buckets: Option<u32>,
}

impl QuotaAsked {
    /// Each member as asked, else as it was granted before.
    pub fn or(&self, granted: &Quota) -> Quota {
        Quota {
            size: self.size.unwrap_or(granted.size),
            objects: self.objects.unwrap_or(granted.objects),
            buckets: self.buckets.unwrap_or(granted.buckets),
        }
    }

    /// Each member as asked, else as the class has it, else 5 GiB, 1000 objects and 2 buckets. Nobody is without a limit, so
    /// that sums over claims mean something.
    pub fn or_default(&self, class: &QuotaAsked) -> Quota {
        let five_gib = Amount { quantity: Quantity::whole(5 << 30), whole: 5 << 30 };
        Quota {
            size: self.size.or(class.size).unwrap_or(five_gib),
            objects: self.objects.or(class.objects).unwrap_or(Amount::of_small(1000)),
            buckets: self.buckets.or(class.buckets).unwrap_or(2),
        }
    }
}

/// What a user may store over all its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub size: Amount,
    pub objects: Amount,
    pub buckets: u32,
}

impl fmt::Display for Quota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes, {} objects, {} buckets", self.size, self.objects, self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Result<Amount, AmountError> {
        Amount::try_from(text.parse::<Quantity>().unwrap())
    }

    #[test]
    fn only_what_ceph_can_enforce_is_an_amount() {
        assert_eq!(amount("-1"), Err(AmountError::Negative));
        assert_eq!(amount("1e19"), Err(AmountError::TooLarge));
        for beyond in ["9223372036854775807", "16Ei", "8Ei", "1152921504606846977"] {
            assert_eq!(amount(beyond), Err(AmountError::TooLarge), "{beyond}");
        }
        assert_eq!(amount("1Ei").unwrap().whole(), 1 << 60);
        assert_eq!(amount("1500m"), Err(AmountError::Fraction));
        assert_eq!(amount("2000m").unwrap().whole(), 2);
        assert_eq!(amount("0").unwrap().whole(), 0);
    }

    #[test]
    fn a_member_left_out_takes_the_default_of_the_class_then_ours() {
        let asked = QuotaAsked { size: amount("10000").ok(), ..QuotaAsked::default() };
        let class = QuotaAsked { size: amount("1Gi").ok(), objects: amount("7").ok(), buckets: None };
        assert_eq!(asked.or_default(&class).to_string(), "10k bytes, 7 objects, 2 buckets");
        assert_eq!(
            QuotaAsked::default().or_default(&QuotaAsked::default()).to_string(),
            "5368709120 bytes, 1k objects, 2 buckets"
        );
    }

    #[test]
    fn none_at_all_is_a_quota_too() {
        let nothing = QuotaAsked { size: amount("0").ok(), objects: amount("0").ok(), buckets: Some(0) };
        assert_eq!(nothing.or_default(&QuotaAsked::default()).to_string(), "0 bytes, 0 objects, 0 buckets");
    }
}
