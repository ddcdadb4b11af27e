//! Limits, and what counts against them.

use serde::{Deserialize, Deserializer, de::Error as _};

/// A quota on bytes and objects. `None` is no limit and 0 allows nothing. While not enabled it limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Whether it is in force.
    pub enabled: bool,
    /// In bytes; each object counts rounded up to 4 KiB.
    pub max_size: Option<u64>,
    /// How many objects.
    pub max_objects: Option<u64>,
}

/// What a user's buckets hold, as quotas count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In bytes; each object counts rounded up to 4 KiB.
    pub size: u64,
    /// How many objects there are.
    pub objects: u64,
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `max_size_kb` is never read: it is rounded, and 0 where there is no limit.
        #[derive(Deserialize)]
        struct Answer {
            enabled: Flag,
            max_size: i64,
            max_objects: i64,
        }
        let answer = Answer::deserialize(deserializer)?;
        Ok(Self {
            enabled: answer.enabled.0,
            max_size: u64::try_from(answer.max_size).ok(),
            max_objects: u64::try_from(answer.max_objects).ok(),
        })
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            size_actual: u64,
            #[serde(default)]
            num_objects: u64,
        }
        let answer = Answer::deserialize(deserializer)?;
        Ok(Self { size: answer.size_actual, objects: answer.num_objects })
    }
}

/// A boolean in any of the spellings the releases use: `true`, `1`, `"true"`.
#[derive(Default)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Bool(flag) => Ok(Self(flag)),
            serde_json::Value::Number(number) => Ok(Self(number.as_i64() != Some(0))),
            serde_json::Value::String(word) if word == "true" || word == "1" => Ok(Self(true)),
            serde_json::Value::String(word) if word == "false" || word == "0" => Ok(Self(false)),
            _ => Err(D::Error::custom("neither true nor false")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn flags_are_read_in_every_spelling() {
        for (spelling, expected) in
            [("1", true), ("0", false), ("true", true), (r#""true""#, true), (r#""0""#, false), ("false", false)]
        {
            assert_eq!(serde_json::from_str::<Flag>(spelling).unwrap().0, expected, "{spelling}");
        }
        for spelling in ["null", r#""maybe""#, "[]"] {
            assert!(serde_json::from_str::<Flag>(spelling).is_err(), "{spelling}");
        }
    }

    #[test]
    fn usage_is_what_quotas_count() {
        let json = r#"{"size":10000,"size_actual":16384,"size_utilized":0,"size_kb":10,"size_kb_actual":16,
            "size_kb_utilized":0,"num_objects":2}"#;
        assert_eq!(serde_json::from_str::<Usage>(json).unwrap(), Usage { size: 16384, objects: 2 });
    }

    proptest! {
        #[test]
        fn a_limit_below_zero_is_none(size in any::<i64>(), objects in any::<i64>()) {
            let json = format!(r#"{{"enabled":true,"max_size":{size},"max_size_kb":7,"max_objects":{objects}}}"#);
            let quota: Quota = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(quota.max_size.is_none(), size < 0);
            prop_assert_eq!(quota.max_objects, u64::try_from(objects).ok());
        }
    }
}
