//! Amounts, names and times out of arbitrary text.

use std::time::Duration;

use croft_core::{
    backup::names::nacuuid,
    budget::Budget,
    quantity::Quantity,
    storage::{Amount, CephUser, owner_in},
    time::Instant,
};
use proptest::prelude::*;

use crate::json::text;

proptest! {
    #[test]
    fn any_text_is_a_quantity_that_reads_back_or_is_refused(text in text()) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let printed = quantity.to_string();
            let read: Quantity = printed.parse().unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}, which {error}"));
            prop_assert_eq!(read.to_string(), printed);
            prop_assert_eq!(read.as_whole(), quantity.as_whole());
            prop_assert_eq!(quantity.is_negative(), text.starts_with('-') && quantity.to_string() != "0");
            let _ = Amount::try_from(quantity);
        }
    }

    #[test]
    fn a_quantity_at_the_edge_of_what_can_be_counted_is_read_or_refused(
        below in 0_u8..3, above in 0_u8..3, rest in "[0-9]{0,3}", suffix in "(|k|E|n|e3|e-9|Ki|Ei)", sign in "(|-|\\+)",
    ) {
        let edge = i128::MAX / 1_000_000_000 - i128::from(below) + i128::from(above);
        for whole in [edge.to_string(), i128::MAX.to_string()] {
            for fraction in ["", "884105727", "884105728", "999999999"] {
                let text = format!("{sign}{whole}.{fraction}{rest}{suffix}");
                if let Ok(quantity) = text.parse::<Quantity>() {
                    let negative = sign == "-";
                    prop_assert_eq!(quantity.is_negative(), negative, "{}", text);
                    prop_assert_eq!(quantity.to_string().starts_with('-'), negative, "{}", text);
                }
            }
        }
    }

    #[test]
    fn a_recorded_name_of_anything_is_short_and_ends_with_the_uid(namespace in text(), name in text(), uid in "[0-9a-f-]{36}") {
        let made = nacuuid(&namespace, &name, &uid);
        prop_assert!(made.len() <= 63 && made.ends_with(&uid), "{}", made);
        let _ = nacuuid(&namespace, &name, &namespace);
    }

    #[test]
    fn names_in_ceph_are_read_or_not(text in text()) {
        let _ = owner_in(&text);
        if let Ok(user) = text.parse::<CephUser>() {
            prop_assert_eq!(user.to_string(), text);
        }
    }

    #[test]
    fn time_never_overflows(start in any::<u64>(), seconds in any::<u64>(), burst in any::<u32>(), every in any::<u64>()) {
        let later = Instant(start) + Duration::new(seconds, 0);
        prop_assert!(later >= Instant(start));
        let _ = (later.since(Instant(start)), Instant(start).since(later));
        let mut budget = Budget::new(burst, Duration::from_millis(every));
        for now in [start, seconds, u64::MAX, 0] {
            let _ = budget.spend(Instant(now));
        }
    }
}
