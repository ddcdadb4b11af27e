//! Conditions as the API types have them <-> as the core has them: the same JSON on both sides.

use croft_core::conditions::Conditions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What cannot be read was not written by us and is written anew.
pub fn from_api(conditions: &[Condition]) -> Conditions {
    serde_json::to_value(conditions).and_then(serde_json::from_value).unwrap_or_default()
}

pub fn to_api(conditions: &Conditions) -> Vec<Condition> {
    serde_json::to_value(conditions).and_then(serde_json::from_value).unwrap_or_default()
}

/// Whether `Ready` is true.
pub fn is_ready<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> bool {
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use croft_core::{conditions::Truth, time::Timestamp};

    use super::*;

    #[test]
    fn conditions_survive_the_way_to_the_api_and_back() {
        let mut conditions = Conditions::default();
        conditions.set_observed(
            "Ready",
            Truth::True,
            "Done",
            "all there",
            Some(3),
            &Timestamp("2026-01-01T00:00:01Z".into()),
        );
        conditions.set("Stalled", Truth::Unknown, "Why", "", &crate::engine::timestamp());
        assert_eq!(to_api(&conditions).len(), 2);
        assert_eq!(from_api(&to_api(&conditions)), conditions);
    }
}
