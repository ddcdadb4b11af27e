//! Lists and selectors that contradict each other. Velero refuses them only once a backup's turn has come, and a backup that it
//! refuses then may hold up everybody's: none gets there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::velero::{Fields, SCOPED_LISTS, field, has_items};

/// Lists of what a backup takes and of what it leaves out.
const PAIRS: [(&str, &str); 2] = [
    ("includedResources", "excludedResources"),
    ("includedNamespaceScopedResources", "excludedNamespaceScopedResources"),
];

/// What Velero would refuse of a `backupSpec`, as it would get it. `place` is where the spec stands.
pub(super) fn objection(place: &str, sent: &Fields) -> Option<String> {
    if let Some(objection) = two_selectors(place, sent) {
        return Some(objection);
    }
    let chooses_by_scope = SCOPED_LISTS.iter().any(|list| has_items(sent, list));
    if let Some(list) = ["includedResources", "excludedResources"].into_iter().find(|list| has_items(sent, list))
        && chooses_by_scope
    {
        return Some(format!("{place}.{list} can not be used together with lists of one scope"));
    }
    PAIRS.into_iter().find_map(|(taken, left_out)| {
        let told = contradiction((taken, &names(sent, taken)), (left_out, &names(sent, left_out)))?;
        Some(format!("{place}.{told}"))
    })
}

/// Of the two ways to choose by label Velero takes one.
pub(super) fn two_selectors(place: &str, sent: &Fields) -> Option<String> {
    let is_there = |name: &str| field(sent, name).is_some();
    let both = is_there("labelSelector") && is_there("orLabelSelectors");
    both.then(|| format!("{place}.labelSelector and orLabelSelectors can not be used together, leave out one of them"))
}

fn contradiction(taken: (&str, &BTreeSet<&str>), left_out: (&str, &BTreeSet<&str>)) -> Option<String> {
    for (list, names) in [taken, left_out] {
        if names.contains("*") && names.len() > 1 {
            return Some(format!("{list} can contain * or names, not both"));
        }
    }
    if left_out.1.contains("*") {
        return Some(format!("{} leaves nothing to be backed up", left_out.0));
    }
    let both = taken.1.intersection(left_out.1).next()?;
    Some(format!("{} can not contain {both}, which is left out", taken.0))
}

fn names<'a>(sent: &'a Fields, list: &str) -> BTreeSet<&'a str> {
    field(sent, list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backup::{Policy, validate};

    fn told(spec: Value) -> Option<String> {
        let spec: Fields = serde_json::from_value(spec).expect("fields");
        validate::backup(&spec, "shop", &Policy::default()).err().map(|invalid| invalid.to_string())
    }

    #[test]
    fn what_contradicts_itself_never_gets_as_far_as_velero() {
        let selector = json!({ "matchLabels": { "tier": "gold" } });
        for (spec, why) in [
            (
                json!({ "labelSelector": selector, "orLabelSelectors": [selector] }),
                "orLabelSelectors can not be used together",
            ),
            (json!({ "labelSelector": {}, "orLabelSelectors": [] }), "orLabelSelectors can not be used together"),
            (json!({ "includedResources": ["*", "pods"] }), "includedResources can contain * or names"),
            (json!({ "excludedResources": ["*"] }), "excludedResources"),
            (json!({ "includedResources": ["pods"], "excludedResources": ["pods"] }), "can not contain pods"),
            (json!({ "includedResources": ["nonadminbackups"] }), "can not contain nonadminbackups"),
            (
                json!({ "includedNamespaceScopedResources": ["pods"], "excludedNamespaceScopedResources": ["pods"] }),
                "can not contain pods",
            ),
            (json!({ "includedNamespaceScopedResources": ["*", "pods"] }), "can contain * or names"),
            (json!({ "excludedNamespaceScopedResources": ["*"] }), "leaves nothing"),
            (json!({ "excludedNamespaceScopedResources": ["*", "pods"] }), "excludedNamespaceScopedResources"),
            (
                json!({ "includedResources": ["pods"], "includedNamespaceScopedResources": ["pods"] }),
                "lists of one scope",
            ),
            (
                json!({ "excludedResources": ["pods"], "excludedClusterScopedResources": ["nodes"] }),
                "lists of one scope",
            ),
        ] {
            let said = told(spec.clone()).unwrap_or_default();
            assert!(said.contains(why), "{spec}: {said:?}");
        }
    }

    #[test]
    fn a_restore_chooses_by_label_one_way_too() {
        let told = |spec: Value| {
            let spec: Fields = serde_json::from_value(spec).expect("fields");
            validate::restore(&spec, "shop", &Policy::default()).err().map(|invalid| invalid.to_string())
        };
        let selector = json!({ "matchLabels": { "tier": "gold" } });
        assert_eq!(
            told(json!({ "backupName": "nightly", "labelSelector": selector, "orLabelSelectors": [selector] }))
                .as_deref(),
            Some(
                "NonAdminRestore spec.restoreSpec.labelSelector and orLabelSelectors can not be used together, leave out one of them"
            )
        );
        assert_eq!(told(json!({ "backupName": "nightly", "labelSelector": selector })), None);
    }

    #[test]
    fn what_does_not_is_let_through() {
        let selector = json!({ "matchLabels": { "tier": "gold" } });
        for spec in [
            json!({}),
            json!({ "labelSelector": selector, "orLabelSelectors": null }),
            json!({ "orLabelSelectors": [selector] }),
            json!({ "includedResources": ["*"], "excludedResources": ["pods"] }),
            json!({ "includedResources": ["*", "*"] }),
            json!({ "includedNamespaceScopedResources": ["pods"], "excludedNamespaceScopedResources": ["jobs"] }),
            json!({ "includedNamespaceScopedResources": ["*"], "includeClusterResources": false }),
        ] {
            assert_eq!(told(spec.clone()), None, "{spec}");
        }
    }
}
