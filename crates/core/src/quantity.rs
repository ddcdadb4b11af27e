//! Amounts as Kubernetes writes them (`10k`, `5Gi`, `1e3`, `250m`), exact and in canonical form.
//!
//! - Nothing is lost: a value is kept in whole thousand-millionths, and finer fractions round away from zero, so that who
//!   asks for something never gets nothing.
//! - Printing a quantity gives the one text Kubernetes itself would print, so comparing texts compares values of one format.

use std::{fmt, str::FromStr};

const NANOS: i128 = 1_000_000_000;
/// No format reaches further: above this the value has no more decimal suffix.
const LARGEST_DECIMAL_EXPONENT: i32 = 18;
const DECIMAL_SUFFIXES: [(&str, i32); 9] =
    [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How a quantity was written, and so how it prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Format {
    /// `10k`
    Decimal,
    /// `5Gi`
    Binary,
    /// `1e3`
    Exponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    NoNumber,
    UnknownSuffix,
    TooLarge,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            QuantityError::NoNumber => "is not a quantity: write a number with an optional suffix, for example 10k or 5Gi",
            QuantityError::UnknownSuffix => {
                "has an unknown suffix: use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an exponent such as e3"
            }
            QuantityError::TooLarge => "is too large to be a quantity",
        })
    }
}

impl std::error::Error for QuantityError {}

impl Quantity {
    /// A whole number, printed with decimal suffixes.
    pub fn whole(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANOS, format: Format::Decimal }
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The largest whole number that is not larger.
    pub fn floor(self) -> i128 {
        self.nanos.div_euclid(NANOS)
    }

    /// The value, if it is a whole number.
    pub fn as_whole(self) -> Option<i128> {
        (self.nanos.rem_euclid(NANOS) == 0).then(|| self.nanos.div_euclid(NANOS))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
            (Some(unsigned), _) => (true, unsigned),
            (_, Some(unsigned)) => (false, unsigned),
            _ => (false, text),
        };
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::NoNumber);
        }
        let magnitude = Magnitude::of_suffix(suffix)?;
        let mut quantity = magnitude.apply(whole, fraction)?;
        if negative {
            quantity.nanos = -quantity.nanos;
        }
        Ok(quantity)
    }
}

/// What a suffix multiplies by.
enum Magnitude {
    PowerOfTen(i32, Format),
    PowerOf1024(u32),
}

impl Magnitude {
    fn of_suffix(suffix: &str) -> Result<Self, QuantityError> {
        if suffix.is_empty() {
            return Ok(Self::PowerOfTen(0, Format::Decimal));
        }
        if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
            return Ok(Self::PowerOfTen(*exponent, Format::Decimal));
        }
        if let Some(index) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
            return Ok(Self::PowerOf1024(u32::try_from(index + 1).unwrap_or(u32::MAX)));
        }
        match suffix.strip_prefix(['e', 'E']).map(str::parse) {
            Some(Ok(exponent)) => Ok(Self::PowerOfTen(exponent, Format::Exponent)),
            _ => Err(QuantityError::UnknownSuffix),
        }
    }

    fn apply(self, whole: &str, fraction: &str) -> Result<Quantity, QuantityError> {
        match self {
            Self::PowerOfTen(exponent, format) => {
                let nanos = scaled_digits(whole, fraction, i64::from(exponent) + 9)?;
                Ok(Quantity { nanos, format })
            }
            Self::PowerOf1024(power) => {
                let factor = 1_i128 << (10 * power);
                let nanos = binary_nanos(whole, fraction, factor)?;
                // Kubernetes caps binary quantities at what 64 bits hold.
                let nanos = nanos.min(i128::from(i64::MAX) * NANOS);
                let format = if nanos < NANOS { Format::Decimal } else { Format::Binary };
                Ok(Quantity { nanos, format })
            }
        }
    }
}

/// `whole.fraction` times ten to the `exponent`, rounded up.
fn scaled_digits(whole: &str, fraction: &str, exponent: i64) -> Result<i128, QuantityError> {
    let digits = || whole.bytes().chain(fraction.bytes()).map(value_of);
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let kept = length(whole).saturating_add(exponent);
    let mut value: i128 = 0;
    for digit in digits().take(usize::try_from(kept).unwrap_or(0)) {
        value = shift_in(value, digit)?;
    }
    let missing = kept.saturating_sub(length(whole)).saturating_sub(length(fraction));
    if value != 0 {
        for _ in 0..missing {
            value = shift_in(value, 0)?;
        }
    }
    let cut_off = digits().skip(usize::try_from(kept).unwrap_or(0)).any(|digit| digit != 0);
    value.checked_add(cut_off.into()).ok_or(QuantityError::TooLarge)
}

fn value_of(digit: u8) -> i128 {
    i128::from(digit.saturating_sub(b'0'))
}

fn shift_in(value: i128, digit: i128) -> Result<i128, QuantityError> {
    value.checked_mul(10).and_then(|value| value.checked_add(digit)).ok_or(QuantityError::TooLarge)
}

/// `whole.fraction` times `factor`, in nanos, rounded up. The fraction is worked out digit by digit from the right, so it is
/// exact whatever its length: at each step only "something is left" has to be remembered.
fn binary_nanos(whole: &str, fraction: &str, factor: i128) -> Result<i128, QuantityError> {
    let whole = whole.trim_start_matches('0');
    if whole.len() > 19 {
        return Ok(i128::MAX);
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| QuantityError::TooLarge)? };
    let Some(integral) = whole.checked_mul(factor).and_then(|value| value.checked_mul(NANOS)) else {
        return Ok(i128::MAX);
    };
    Ok(integral.saturating_add(fraction_times(fraction, factor * NANOS)))
}

/// `0.fraction` times `unit`, rounded up, by long division: `(d1 + (d2 + ...)/10)/10 * unit`.
fn fraction_times(fraction: &str, unit: i128) -> i128 {
    // value = floor(0.d1d2... * unit), left = whether something was cut off.
    let (value, left) = fraction.bytes().rev().fold((0_i128, false), |(value, left), digit| {
        let sum = value_of(digit) * unit + value;
        (sum / 10, left || sum % 10 != 0)
    });
    if left { value + 1 } else { value }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.nanos.abs() < 1024 * NANOS;
        match self.format {
            _ if self.nanos == 0 => out.write_str("0"),
            Format::Binary if !small && self.nanos % NANOS == 0 => write_binary(self.nanos / NANOS, out),
            Format::Binary | Format::Decimal => {
                let (mantissa, exponent) = in_thousands(self.nanos, LARGEST_DECIMAL_EXPONENT);
                let suffix =
                    DECIMAL_SUFFIXES.iter().find(|(_, known)| *known == exponent).map_or("", |(suffix, _)| suffix);
                write!(out, "{mantissa}{suffix}")
            }
            Format::Exponent => match in_thousands(self.nanos, i32::MAX) {
                (mantissa, 0) => write!(out, "{mantissa}"),
                (mantissa, exponent) => write!(out, "{mantissa}e{exponent}"),
            },
        }
    }
}

/// A whole mantissa with the largest exponent that is a multiple of three.
fn in_thousands(nanos: i128, largest: i32) -> (i128, i32) {
    let (mut mantissa, mut exponent) = (nanos, -9);
    while mantissa % 1000 == 0 && exponent < largest {
        mantissa /= 1000;
        exponent += 3;
    }
    (mantissa, exponent)
}

fn write_binary(mut value: i128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut suffix = "";
    for larger in BINARY_SUFFIXES {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = larger;
    }
    write!(out, "{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().unwrap_or_else(|error| panic!("{text} {error}")).to_string()
    }

    #[test]
    fn the_canonical_form_is_the_one_kubernetes_prints() {
        for (written, printed) in [
            ("0", "0"),
            ("-0", "0"),
            ("0Gi", "0"),
            ("500", "500"),
            ("1000", "1k"),
            ("10000", "10k"),
            ("1500", "1500"),
            ("1.5k", "1500"),
            ("+5", "5"),
            ("5.", "5"),
            (".5", "500m"),
            ("0.001", "1m"),
            ("1.5", "1500m"),
            ("1000000", "1M"),
            ("5368709120", "5368709120"),
            ("5Gi", "5Gi"),
            ("5120Mi", "5Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("1000Ki", "1000Ki"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e4", "120e3"),
            ("1e1", "10"),
            ("5e-3", "5e-3"),
            ("1E", "1E"),
            ("1Ei", "1Ei"),
            ("100E", "100E"),
            ("1000E", "1000E"),
            ("9Ei", "9223372036854775807"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("-5Gi", "-5Gi"),
            ("-2k", "-2k"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(canonical(written), printed, "{written}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", "+", ".", "Gi", "k", "1..2", "1.2.3", " 1", "--1", "e3"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::NoNumber), "{text:?}");
        }
        for text in ["1 ", "1K", "1gi", "1Kii", "1e", "1e1.5", "1eX", "5GB", "1ü"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::UnknownSuffix), "{text:?}");
        }
        assert_eq!("1e40".parse::<Quantity>(), Err(QuantityError::TooLarge));
        assert_eq!("0e2000000000".parse::<Quantity>().map(Quantity::as_whole), Ok(Some(0)));
        assert_eq!("1e-2000000000".parse::<Quantity>().map(|q| q.to_string()), Ok("1e-9".into()));
    }

    #[test]
    fn a_fraction_is_no_whole_number_however_it_is_written() {
        for (written, whole) in [
            ("1m", None),
            ("1500m", None),
            ("2000m", Some(2)),
            ("2", Some(2)),
            ("0.1Ki", None),
            ("0.5Ki", Some(512)),
            ("0", Some(0)),
            ("-1500m", None),
            ("5Gi", Some(5_368_709_120)),
        ] {
            assert_eq!(written.parse::<Quantity>().unwrap().as_whole(), whole, "{written}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in "[-+0-9.eEkKmMiGinu ]{0,48}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn printing_and_reading_gives_the_same_value_and_the_same_text(
            whole in 0_i64..=i64::MAX,
            fraction in "[0-9]{0,12}",
            suffix in "(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e3|e-2|)",
            negative in any::<bool>(),
        ) {
            let sign = if negative { "-" } else { "" };
            if let Ok(quantity) = format!("{sign}{whole}.{fraction}{suffix}").parse::<Quantity>() {
                let printed = quantity.to_string();
                let read: Quantity = printed.parse().unwrap();
                prop_assert_eq!(read.nanos, quantity.nanos, "{}", printed);
                prop_assert_eq!(read.to_string(), printed);
            }
        }

        #[test]
        fn whole_numbers_are_exact_in_every_format(value in 0_i64..=(i64::MAX >> 30)) {
            prop_assert_eq!(value.to_string().parse::<Quantity>().unwrap().as_whole(), Some(i128::from(value)));
            prop_assert_eq!(Quantity::whole(value).as_whole(), Some(i128::from(value)));
            prop_assert_eq!(format!("{value}Gi").parse::<Quantity>().unwrap().as_whole(), Some(i128::from(value) << 30));
            prop_assert_eq!(format!("{value}k").parse::<Quantity>().unwrap().as_whole(), Some(i128::from(value) * 1000));
            prop_assert_eq!(format!("{value}e2").parse::<Quantity>().unwrap().as_whole(), Some(i128::from(value) * 100));
        }

        #[test]
        fn binary_fractions_are_exact(sixteenths in 0_u32..16, whole in 0_u32..1_000_000) {
            let text = format!("{}Ki", f64::from(whole) + f64::from(sixteenths) / 16.0);
            let exact = i128::from(whole) * 1024 + i128::from(sixteenths) * 64;
            prop_assert_eq!(text.parse::<Quantity>().unwrap().as_whole(), Some(exact), "{}", text);
        }
    }
}
