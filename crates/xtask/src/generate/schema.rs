//! One row per field, out of the schema of a CRD.

use std::fmt::Write;

use serde_json::Value;

/// A field with its path from the top of the object, for example `spec.quota.size`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) path: String,
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) description: String,
}

/// The field `name` of the object `schema` describes, and everything below it.
pub(super) fn fields(schema: &Value, name: &str) -> Vec<Field> {
    let mut found = Vec::new();
    if let Some(inner) = schema["properties"].get(name) {
        walk(inner, name.to_owned(), is_required(schema, name), &mut found);
    }
    found
}

/// The messages of all rules in `schema`, in order.
pub(super) fn rules(schema: &Value) -> Vec<String> {
    let mut messages = Vec::new();
    collect_rules(schema, &mut messages);
    messages
}

fn walk(schema: &Value, path: String, required: bool, found: &mut Vec<Field>) {
    found.push(Field { kind: kind(schema), required, description: description(schema), path: path.clone() });
    let (inner, path) = match schema["type"].as_str() {
        Some("array") => (&schema["items"], format!("{path}[]")),
        Some("object") if schema["additionalProperties"].is_object() => {
            (&schema["additionalProperties"], format!("{path}.*"))
        }
        _ => (schema, path),
    };
    // Conditions are the same everywhere: the index explains them once.
    if path.ends_with("conditions[]") {
        return;
    }
    for (name, property) in inner["properties"].as_object().into_iter().flatten() {
        walk(property, format!("{path}.{name}"), is_required(inner, name), found);
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return "quantity".to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    }
}

/// The text of the schema, then its default and bounds where the text does not say them.
fn description(schema: &Value) -> String {
    let mut text = schema["description"].as_str().unwrap_or_default().to_owned();
    if let Some(default) = schema.get("default").filter(|default| !default.is_object() && !text.contains("efault")) {
        let _ = write!(text, " Default: `{default}`.");
    }
    text.trim().to_owned()
}

fn collect_rules(schema: &Value, messages: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if let Some(message) = rule["message"].as_str().filter(|message| !messages.iter().any(|seen| seen == message)) {
            messages.push(message.to_owned());
        }
    }
    for (_, property) in schema["properties"].as_object().into_iter().flatten() {
        collect_rules(property, messages);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            collect_rules(&schema[inner], messages);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_fields_are_listed_with_their_path() {
        let schema = json!({ "properties": { "spec": {
            "type": "object",
            "required": ["buckets"],
            "properties": {
                "buckets": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            },
        } } });
        let rows: Vec<_> =
            fields(&schema, "spec").into_iter().map(|field| (field.path, field.kind, field.required)).collect();
        let row = |path: &str, kind: &str, required| (path.to_owned(), kind.to_owned(), required);
        assert_eq!(
            rows,
            [
                row("spec", "object", false),
                row("spec.buckets", "list of object", true),
                row("spec.buckets[].name", "string", false),
                row("spec.labels", "map to string", false),
            ]
        );
    }

    #[test]
    fn every_rule_is_named_once() {
        let rule = json!([{ "rule": "self == oldSelf", "message": "cannot be changed" }]);
        let schema = json!({
            "x-kubernetes-validations": rule,
            "properties": { "a": { "x-kubernetes-validations": rule } },
        });
        assert_eq!(rules(&schema), ["cannot be changed"]);
    }
}
