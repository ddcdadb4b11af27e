//! All CRDs, as Kubernetes wants them.

use std::collections::BTreeMap;

use croft_core::uninstall::PART_OF;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::{backup, namespaces, storage};

/// Every CRD of the product, always in the same order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        namespaces::NamespaceClass::crd(),
        namespaces::NamespaceClassBinding::crd(),
        storage::S3UserClaim::crd(),
        storage::S3User::crd(),
        storage::S3Bucket::crd(),
        storage::S3Class::crd(),
        storage::S3TeamQuota::crd(),
        storage::S3QuotaLedger::crd(),
        storage::UserMigration::crd(),
        backup::NonAdminBackup::crd(),
        backup::NonAdminRestore::crd(),
        backup::NonAdminBackupStorageLocation::crd(),
        backup::NonAdminBackupStorageLocationRequest::crd(),
        backup::NonAdminDownloadRequest::crd(),
        backup::BackupVault::crd(),
        backup::BackupSchedule::crd(),
    ]
    .into_iter()
    .map(tidied)
    .collect()
}

/// [`crds`] as one YAML stream for `kubectl apply`. The same types give the same bytes.
pub fn crds_yaml() -> String {
    yaml_stream(crds().iter().map(yaml_document))
}

/// Documents as one YAML stream for `kubectl apply`.
pub fn yaml_stream(documents: impl IntoIterator<Item = String>) -> String {
    documents.into_iter().collect::<Vec<_>>().join("---\n")
}

/// A Kubernetes object as one YAML document.
#[expect(
    clippy::expect_used,
    reason = "Kubernetes types have text for keys and nothing that JSON or YAML could not say"
)]
pub fn yaml_document<T: Serialize>(object: &T) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 120, compact_list_indent: true };
    let mut value = serde_json::to_value(object).expect("a Kubernetes object is JSON");
    print_whole_numbers_whole(&mut value);
    serde_saphyr::to_string_with_options(&value, options).expect("JSON is YAML")
}

/// `minimum: 0` and not `0.0`: the typed CRD holds bounds as floating point.
fn print_whole_numbers_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.to_string().strip_suffix(".0").and_then(|text| text.parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(print_whole_numbers_whole),
        Value::Object(fields) => fields.values_mut().for_each(print_whole_numbers_whole),
        _ => {}
    }
}

#[expect(clippy::expect_used, reason = "nobody's input: what is made of our own types is the same in every test")]
fn tidied(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a CRD is JSON");
    let versions = value.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let schemas = versions.into_iter().flatten().filter_map(|version| version.pointer_mut("/schema/openAPIV3Schema"));
    schemas.for_each(tidy);
    let mut crd: CustomResourceDefinition = serde_json::from_value(value).expect("tidying keeps a CRD a CRD");
    // By this they are known as ours: a kind that another operator installed is not ours to remove.
    crd.metadata.labels = Some([(PART_OF.0.to_owned(), PART_OF.1.to_owned())].into());
    crd.metadata.annotations = Some(never_pruned());
    crd
}

/// What others may depend on: programs that deploy what a repository says do not delete it because it is not said there any more. With
/// a kind all objects of it would go, and with them everything that classes made, in every namespace.
pub fn never_pruned() -> BTreeMap<String, String> {
    [("argocd.argoproj.io/sync-options", "Prune=false,Delete=false"), ("kustomize.toolkit.fluxcd.io/prune", "disabled")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Takes out what the derives add and an API has no use for.
fn tidy(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    // Without it the API server drops a `null` instead of storing it.
    fields.remove("nullable");
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    fields.remove("title");
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = unwrapped(text);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(nested) {
            tidy(schema);
        }
    }
    // Open objects are written by hand; the API server drops nothing in them, so their `nullable` is meant.
    if fields.contains_key("x-kubernetes-preserve-unknown-fields") {
        return;
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
}

/// Joins the lines of a doc comment; an empty line still ends a paragraph.
fn unwrapped(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
