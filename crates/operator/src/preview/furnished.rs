//! Labels and annotations of a Namespace: which of them its class has set.

use std::collections::BTreeMap;

use croft_core::namespaces::{inventory::Furnished, resources::Binding};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

/// One line for each that a class has set, with what was there before; nothing where none has.
pub(super) fn lines(namespace: &Namespace, binding: &Binding) -> Vec<String> {
    let Furnished { labels, annotations, labels_before, annotations_before, .. } = &binding.status.namespace_metadata;
    let all = [
        ("label", labels, namespace.labels(), labels_before),
        ("annotation", annotations, namespace.annotations(), annotations_before),
    ];
    let line = |what: &str, key: &str, has: &BTreeMap<String, String>, before: &BTreeMap<String, String>| {
        let value = has.get(key).map_or("is not there any more".to_owned(), |value| format!("= {value}"));
        let before =
            before.get(key).map(|before| format!("; {before} before, which comes back when the namespace leaves"));
        format!("{what} {key} {value}{}", before.unwrap_or_default())
    };
    let lines = all.into_iter().flat_map(|(what, keys, has, before)| {
        keys.iter().map(move |key| line(what, key, has, before)).collect::<Vec<_>>()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use croft_core::namespaces::inventory::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_class_has_set_is_told_with_what_was_there_before() {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"labels": {"a": "1", "mine": "x"}}})).unwrap();
        let furnished = Furnished {
            labels: ["a".to_owned(), "gone".to_owned()].into(),
            labels_before: [("a".to_owned(), "0".to_owned())].into(),
            ..Furnished::default()
        };
        let status = Status { namespace_metadata: furnished, ..Status::default() };
        let binding = Binding { status, ..Binding::default() };
        assert_eq!(
            lines(&namespace, &binding),
            ["label a = 1; 0 before, which comes back when the namespace leaves", "label gone is not there any more",]
        );
    }
}
