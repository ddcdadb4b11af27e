//! Which fields of an object are ours, as its managedFields have it: needed to take fields away again that a class drops.
//!
//! Whoever may update an object may write anything here. So this decides how an object is applied, never whether.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Value, json};

use super::stamping::STAMP_MANAGER;

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(STAMP_MANAGER) && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn ours(metadata: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    metadata.managed_fields.iter().flatten().filter(|entry| is_ours(entry))
}

/// Whether the object was made by a plain create whose fields no apply has taken over.
pub(crate) fn was_created(metadata: &ObjectMeta) -> bool {
    ours(metadata).any(|entry| entry.operation.as_deref() == Some("Update"))
}

/// Who else manages fields of the object, and did so last: a hint for people, who may be told anything here.
pub(crate) fn changed_last_by(metadata: &ObjectMeta) -> Option<String> {
    let others =
        metadata.managed_fields.iter().flatten().filter(|entry| !is_ours(entry) && entry.subresource.is_none());
    others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?.manager.clone()
}

/// The object's managedFields with our create turned into an apply; `None` if there is nothing to turn.
pub(crate) fn taken_over(metadata: &ObjectMeta) -> Option<Value> {
    if !was_created(metadata) {
        return None;
    }
    let all = metadata.managed_fields.clone().unwrap_or_default();
    let (mine, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_ours);
    let mut apply = mine.iter().find(|entry| entry.operation.as_deref() == Some("Apply")).or(mine.first())?.clone();
    let mut fields = json!({});
    for entry in &mine {
        merge(&mut fields, entry.fields_v1.as_ref().map_or(&Value::Null, |fields| &fields.0));
    }
    apply.operation = Some("Apply".into());
    apply.fields_v1 = Some(FieldsV1(fields));
    others.push(apply);
    serde_json::to_value(others).ok()
}

/// The union of two field sets.
fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        for (key, value) in from {
            merge(into.entry(key).or_insert_with(|| json!({})), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(entries: &Value) -> ObjectMeta {
        serde_json::from_value(json!({ "managedFields": entries })).unwrap()
    }

    fn entry(manager: &str, operation: &str, field: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
               "fieldsV1": {"f:data": {field: {}}}, "time": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn taking_over_makes_one_apply_entry_of_ours_and_leaves_others() {
        let before = metadata(&json!([
            entry("kubectl", "Update", "f:k"),
            entry("croft", "Update", "f:a"),
            entry("croft", "Apply", "f:b")
        ]));
        let after = metadata(&taken_over(&before).unwrap());
        assert!(!was_created(&after));
        assert_eq!(after.managed_fields.as_ref().unwrap().len(), 2);
        let mine = ours(&after).next().unwrap();
        assert_eq!(mine.fields_v1.as_ref().unwrap().0, json!({"f:data": {"f:a": {}, "f:b": {}}}));
        assert_eq!(taken_over(&after), None);
    }
}
