//! What is stored, as quotas count it.

use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes; each object counts rounded up to 4 KiB.
    #[serde(with = "binary")]
    pub size: u64,
    pub objects: u64,
    /// Of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u64>,
}

impl Usage {
    /// What to tell: the same as before unless a figure moved by more than a hundredth, or came from or went to nothing. So a
    /// busy bucket does not keep the API server busy.
    pub fn told(before: Option<Self>, now: Self) -> Self {
        let is_same = |before: Self| {
            is_about(before.size, now.size) && is_about(before.objects, now.objects) && before.buckets == now.buckets
        };
        before.filter(|before| is_same(*before)).unwrap_or(now)
    }

    /// The size as a quantity.
    pub fn shown_size(self) -> String {
        binary::text(self.size)
    }
}

fn is_about(before: u64, now: u64) -> bool {
    (before == 0) == (now == 0) && u128::from(before.abs_diff(now)) * 100 <= u128::from(before)
}

/// Bytes as a quantity in canonical form with a binary suffix.
mod binary {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Quantity;

    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

    pub(super) fn text(bytes: u64) -> String {
        let fits = |power: u32| bytes != 0 && bytes.trailing_zeros() >= 10 * power;
        let (power, suffix) =
            (0..).zip(SUFFIXES).take_while(|(power, _)| *power == 0 || fits(*power)).last().unwrap_or_default();
        format!("{}{suffix}", bytes >> (10 * power))
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(*bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let quantity: Quantity = String::deserialize(deserializer)?.parse().map_err(D::Error::custom)?;
        u64::try_from(quantity.floor()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn usage(size: u64, objects: u64) -> Usage {
        Usage { size, objects, buckets: None }
    }

    #[test]
    fn sizes_are_told_with_a_binary_suffix() {
        for (bytes, text) in
            [(0, "0"), (1, "1"), (4096, "4Ki"), (5 << 20, "5Mi"), (1 << 30, "1Gi"), (u64::MAX, "18446744073709551615")]
        {
            assert_eq!(usage(bytes, 0).shown_size(), text);
        }
    }

    #[test]
    fn only_what_moved_noticeably_is_told_anew() {
        let before = usage(1_000_000, 1000);
        for (now, is_told) in [
            (usage(1_010_000, 1000), false),
            (usage(1_010_001, 1000), true),
            (usage(989_999, 1000), true),
            (usage(1_000_000, 1010), false),
            (usage(1_000_000, 1011), true),
            (usage(0, 0), true),
            (Usage { buckets: Some(1), ..before }, true),
        ] {
            assert_eq!(Usage::told(Some(before), now) == now, is_told, "{now:?}");
        }
        assert_eq!(Usage::told(Some(usage(0, 0)), usage(1, 1)), usage(1, 1));
        assert_eq!(Usage::told(None, before), before);
    }

    proptest! {
        #[test]
        fn any_usage_is_read_as_it_was_told(size in 0..=i64::MAX.unsigned_abs(), objects in any::<u64>()) {
            let told = json!(usage(size, objects));
            prop_assert_eq!(serde_json::from_value::<Usage>(told).ok(), Some(usage(size, objects)));
        }
    }
}
