//! Pieces of CRD schema that the derives cannot express.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// What Kubernetes itself accepts as a quantity.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A quantity that is not negative, written as a number (`1000`) or as text (`5Gi`).
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": QUANTITY_PATTERN,
        // Bounds the cost of the rule below; no quantity that fits 64 bits needs more.
        "maxLength": 40,
        "x-kubernetes-validations": [{
            "rule": "!string(self).startsWith('-')",
            "message": "must not be negative",
        }],
    })
}

/// A part of a whole, written as a number (`10`) or as a percentage (`10%`).
pub(crate) fn share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": "^(100|[1-9]?[0-9])%$",
        "maxLength": 4,
        "minimum": 0,
    })
}

/// An object of which every field is kept.
pub(crate) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Conditions merged by their type.
pub(crate) fn conditions_by_type(_: &mut SchemaGenerator) -> Schema {
    let mut list = conditions();
    list.insert("x-kubernetes-list-type".into(), json!("map"));
    list.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
    list
}

/// Conditions whose order is part of the interface: clients compare them by index.
pub(crate) fn conditions_in_order(_: &mut SchemaGenerator) -> Schema {
    let mut list = conditions();
    list.insert("x-kubernetes-list-type".into(), json!("atomic"));
    list
}

/// A list of whole manifests. `metadata` is spelled out instead of `x-kubernetes-embedded-resource`, because the API server
/// would then check label values by itself and refuse a `{{ namespace.name }}` in them.
pub(crate) fn manifests(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "items": manifest(),
    })
}

fn manifest() -> Value {
    json!({
        "type": "object",
        "description": "A whole manifest, without `metadata.namespace`.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "apiVersion": { "type": "string", "maxLength": 317 },
            "kind": { "type": "string", "maxLength": 63 },
            "metadata": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "name": { "type": "string", "maxLength": 253 },
                    "generateName": { "type": "string", "maxLength": 253 },
                    "namespace": { "type": "string", "maxLength": 253 },
                },
            },
        },
        "x-kubernetes-validations": [
            rule("has(self.apiVersion) && self.apiVersion != ''", "apiVersion is required"),
            rule("has(self.kind) && self.kind != ''", "kind is required"),
            rule("has(self.metadata) && has(self.metadata.name) && self.metadata.name != ''", "metadata.name is required"),
            rule(
                "!has(self.metadata) || !has(self.metadata.generateName)",
                "metadata.generateName is not allowed: give the object a metadata.name, so that it can be found again",
            ),
            rule(
                "!has(self.metadata) || !has(self.metadata.__namespace__)",
                "metadata.namespace is not allowed: the object is made in every namespace of the class",
            ),
        ],
    })
}

fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// The standard condition, with the limits Kubernetes documents for it.
fn conditions() -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "What the condition is about, for example `Ready`.",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "`True`, `False` or `Unknown`.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "type": "string",
                    "description": "Why, in one word for programs.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "Why, in a sentence for people. May be empty.",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When `status` last changed.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The `metadata.generation` the condition was worked out from.",
                },
            },
        },
    })
}
