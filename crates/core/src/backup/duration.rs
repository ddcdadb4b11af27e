//! Lengths of time as Velero reads them. One it cannot read ends its view of all objects of the kind, everybody's included, so none
//! gets there.

use std::time::Duration;

use serde_json::Value;

use super::velero::Fields;

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

/// Objects deeper than this are no specs.
const DEEPEST: usize = 64;

/// The path of the first length of time that Velero could not read.
pub(super) fn unreadable(spec: &Fields) -> Option<String> {
    spec.iter().find_map(|(name, value)| search(name, value, 0))
}

fn search(name: &str, value: &Value, depth: usize) -> Option<String> {
    let inside = |part: String, value: &Value, key: &str| {
        let found = search(key, value, depth + 1)?;
        Some(if part.is_empty() {
            format!("{name}.{found}")
        } else {
            format!("{name}{part}{}", &found.get(key.len()..)?)
        })
    };
    match value {
        _ if depth > DEEPEST => Some(name.to_owned()),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| inside(String::new(), value, key)),
        Value::Array(items) => items.iter().enumerate().find_map(|(at, item)| inside(format!("[{at}]"), item, "")),
        Value::Null => None,
        value if DURATIONS.contains(&name) => (!value.as_str().is_some_and(is_duration)).then(|| name.to_owned()),
        _ => None,
    }
}

/// A length of time as Go reads it: `1h30m`, `1.5s`, `0`. Less than nothing is nothing.
pub fn parse(text: &str) -> Option<Duration> {
    let nanoseconds = nanoseconds(text.strip_prefix(['-', '+']).unwrap_or(text))?;
    if text.starts_with('-') { Some(Duration::ZERO) } else { Duration::try_from_secs_f64(nanoseconds / 1e9).ok() }
}

/// Whether Go reads the text as a length of time: `1h30m`, `1.5s`, `-2us`, `0`.
fn is_duration(text: &str) -> bool {
    nanoseconds(text.strip_prefix(['-', '+']).unwrap_or(text)).is_some()
}

fn nanoseconds(unsigned: &str) -> Option<f64> {
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
    (!unsigned.is_empty() && nanoseconds < 9.2e18).then_some(nanoseconds)
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
    use serde_json::json;

    use super::*;

    #[test]
    fn what_go_reads_is_a_duration_and_nothing_else() {
        for text in ["0", "0s", "1h30m", "720h0m0s", "1.5s", ".5m", "1.s", "-2us", "+3ms", "10ns", "7\u{b5}s"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["", "banana", "1", "1d", "h", "-", ".s", "1..5s", "1h ", "s1", "999999999999h", "1e3s", "NaNs"] {
            assert!(!is_duration(text), "{text}");
        }
    }

    #[test]
    fn a_length_of_time_is_read_as_go_reads_it() {
        assert_eq!(parse("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!((parse("1.5s"), parse("-3h")), (Some(Duration::from_millis(1500)), Some(Duration::ZERO)));
        assert_eq!((parse("0"), parse("1d"), parse("")), (Some(Duration::ZERO), None, None));
    }

    #[test]
    fn a_duration_velero_cannot_read_is_found_wherever_it_stands() {
        let found = |spec: Value| unreadable(spec.as_object().unwrap());
        assert_eq!(found(json!({"ttl": "banana"})).as_deref(), Some("ttl"));
        assert_eq!(found(json!({"ttl": 5})).as_deref(), Some("ttl"));
        let hooks =
            json!({"hooks": {"resources": [{"pre": [{"exec": {"timeout": "1h"}}, {"exec": {"timeout": "x"}}]}]}});
        assert_eq!(found(hooks).as_deref(), Some("hooks.resources[0].pre[1].exec.timeout"));
        assert_eq!(found(json!({"ttl": "720h", "hooks": {}, "itemOperationTimeout": null, "name": "banana"})), None);
    }
}
