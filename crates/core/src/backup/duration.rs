//! Lengths of time as Velero reads them. One it cannot read ends its view of all objects of the kind, everybody's included, so none
//! gets there.

use std::time::Duration;

/// The fields of Velero's specs that are lengths of time, wherever they stand.
const DURATIONS: [&str; 9] = [
    "ttl",
    "timeout",
    "execTimeout",
    "waitTimeout",
    "csiSnapshotTimeout",
    "itemOperationTimeout",
    "resourceTimeout",
    "backupSyncPeriod",
    "validationFrequency",
];

/// Whether a field of this name is a length of time.
pub(super) fn is_duration_field(name: &str) -> bool {
    DURATIONS.contains(&name)
}

/// A length of time as Go reads it. Less than nothing is nothing.
pub fn parse(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(nanoseconds(text)?.max(0.0) / 1e9).ok()
}

/// The length of what Go reads as a length of time: `1h30m`, `1.5s`, `-2us`, `0`.
pub(super) fn nanoseconds(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned == "0" {
        return Some(0.0);
    }
    let (mut rest, mut nanoseconds) = (unsigned, 0_f64);
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        nanoseconds += amount_of(amount)? * nanoseconds_in(unit)?;
        rest = after;
    }
    // Go counts nanoseconds in 64 bits, signed; a little less is near enough to forever.
    (!unsigned.is_empty() && nanoseconds < 9.2e18).then_some(sign * nanoseconds)
}

/// A length of time as Go writes it: `36h` as `36h0m0s`. What is shorter than a second is told as it was written.
pub(super) fn go_style(text: &str) -> String {
    let Some(length) = nanoseconds(text).filter(|length| *length >= 1e9 && *length % 1e9 == 0.0) else {
        return text.to_owned();
    };
    let seconds = length / 1e9;
    let (hours, minutes, rest) = ((seconds / 3600.0).floor(), (seconds / 60.0).floor() % 60.0, seconds % 60.0);
    match (hours > 0.0, minutes > 0.0) {
        (true, _) => format!("{hours}h{minutes}m{rest}s"),
        (false, true) => format!("{minutes}m{rest}s"),
        (false, false) => format!("{rest}s"),
    }
}

fn amount_of(text: &str) -> Option<f64> {
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_plain = text.len() <= 32 && text.bytes().filter(|byte| *byte == b'.').count() <= 1;
    if has_digit && is_plain { text.trim_end_matches('.').parse().ok() } else { None }
}

fn nanoseconds_in(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 6e10,
        "h" => 3.6e12,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_a_duration_and_nothing_else() {
        for text in ["0", "0s", "1h30m", "720h0m0s", "1.5s", ".5m", "1.s", "-2us", "+3ms", "10ns", "7\u{b5}s"] {
            assert!(nanoseconds(text).is_some(), "{text}");
        }
        for text in ["", "banana", "1", "1d", "h", "-", ".s", "1..5s", "1h ", "s1", "999999999999h", "1e3s", "NaNs"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_length_of_time_is_read_as_go_reads_it() {
        assert_eq!(parse("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!((parse("1.5s"), parse("-3h")), (Some(Duration::from_millis(1500)), Some(Duration::ZERO)));
        assert_eq!((parse("0"), parse("1d"), parse("")), (Some(Duration::ZERO), None, None));
    }

    #[test]
    fn lengths_of_time_are_told_as_go_tells_them() {
        for (text, told) in [("36h", "36h0m0s"), ("90s", "1m30s"), ("60m", "1h0m0s"), ("5s", "5s"), ("5ms", "5ms")] {
            assert_eq!(go_style(text), told);
        }
    }
}
