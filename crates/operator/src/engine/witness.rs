//! Our own entries in an object's managedFields: an exact witness of whether anybody changed what we set.
//!
//! A foreign change to a field of ours takes the field out of our entry; a foreign addition or a status update leaves the
//! entry as it was; an edit under our own name moves its time.

use std::hash::{DefaultHasher, Hash, Hasher};

use croft_core::namespaces::manifest::digest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Value, json};

use super::write::STAMP_MANAGER;

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(STAMP_MANAGER) && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn ours(metadata: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    metadata.managed_fields.iter().flatten().filter(|entry| is_ours(entry))
}

/// Digest of our entries: fields and time.
pub fn entry_digest(metadata: &ObjectMeta) -> String {
    let entries: Vec<Value> = ours(metadata)
        .map(|entry| json!([entry.operation, entry.fields_v1.as_ref().map(|fields| &fields.0), entry.time]))
        .collect();
    digest(&Value::Array(entries))
}

/// All entries, if ours is the newest of them: a change that leaves all of them as they were happened within the second of
/// that entry, perhaps under our own name. `None` if somebody wrote later than we did, which would have told on them.
pub fn trail(metadata: &ObjectMeta) -> Option<u64> {
    let all = || metadata.managed_fields.iter().flatten();
    let newest = all().filter_map(|entry| entry.time.as_ref()).max();
    let ours = ours(metadata).filter_map(|entry| entry.time.as_ref()).max();
    let mut hasher = DefaultHasher::new();
    json!(all().collect::<Vec<_>>()).hash(&mut hasher);
    (ours.is_some() && ours == newest).then(|| hasher.finish())
}

/// Whether the object was made by a plain create whose fields no apply has taken over.
pub fn was_created(metadata: &ObjectMeta) -> bool {
    ours(metadata).any(|entry| entry.operation.as_deref() == Some("Update"))
}

/// The object's managedFields with our create turned into an apply; `None` if there is nothing to turn.
pub fn taken_over(metadata: &ObjectMeta) -> Option<Value> {
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
    apply.fields_v1 = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1(fields));
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
    fn only_our_own_entries_count() {
        let ours = metadata(&json!([entry("croft", "Apply", "f:a")]));
        let with_others = metadata(&json!([entry("kubectl", "Update", "f:b"), entry("croft", "Apply", "f:a")]));
        assert_eq!(entry_digest(&ours), entry_digest(&with_others));
        assert_ne!(entry_digest(&ours), entry_digest(&metadata(&json!([entry("croft", "Apply", "f:b")]))));
    }

    #[test]
    fn who_wrote_after_us_would_have_told_on_themselves() {
        let at = |manager: &str, second: u32| {
            let mut entry = entry(manager, "Update", "f:a");
            entry["time"] = format!("2026-01-01T00:00:0{second}Z").into();
            entry
        };
        let trail = |entries: Value| trail(&metadata(&entries));
        assert!(trail(json!([at("croft", 1)])).is_some());
        assert!(trail(json!([at("croft", 1), at("kubectl", 1)])).is_some());
        assert_ne!(trail(json!([at("croft", 1)])), trail(json!([at("croft", 1), at("kubectl", 1)])));
        assert_eq!(trail(json!([at("croft", 1), at("kubectl", 2)])), None);
        assert_eq!(trail(json!([])), None);
    }

    #[test]
    fn a_status_written_under_our_name_does_not_count() {
        let mut status = entry("croft", "Update", "f:x");
        status["subresource"] = "status".into();
        let plain = metadata(&json!([entry("croft", "Apply", "f:a")]));
        assert_eq!(entry_digest(&plain), entry_digest(&metadata(&json!([entry("croft", "Apply", "f:a"), status]))));
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
