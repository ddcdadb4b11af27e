//! The one table of fields against the specs of the Velero that is installed.

use anyhow::Result;
use croft_api::backup::{BackupSchedule, NonAdminBackup, NonAdminRestore};
use croft_core::backup::fields::{self, Field, Rule, Shape};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Value, json};

use crate::plot::Plot;

#[tokio::test]
async fn every_field_of_veleros_specs_is_in_the_table_and_no_other() -> Result<()> {
    let plot = Plot::bare("fields").await?;
    let crds: Api<CustomResourceDefinition> = Api::all(plot.world.client());
    let mut differences = Vec::new();
    for (plural, table) in
        [("backups", fields::BACKUP), ("restores", fields::RESTORE), ("backupstoragelocations", fields::LOCATION)]
    {
        let crd = serde_json::to_value(crds.get(&format!("{plural}.velero.io")).await?)?;
        let spec = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").cloned().unwrap_or_default();
        compare(table, &spec, plural, &mut differences);
    }
    assert!(differences.is_empty(), "{differences:#?}");
    Ok(())
}

fn compare(table: &[Field], schema: &Value, place: &str, differences: &mut Vec<String>) {
    let none = serde_json::Map::new();
    let known = schema["properties"].as_object().unwrap_or(&none);
    for (name, schema) in known {
        let path = format!("{place}.{name}");
        let Some(field) = table.iter().find(|field| field.name == name) else {
            differences.push(format!("{path} is not in the table"));
            continue;
        };
        match field.shape {
            // Nobody looks into what must not be there.
            _ if field.rule == Rule::Forbidden => {}
            Shape::Object(inner) => compare(inner, schema, &path, differences),
            Shape::Objects(inner) => compare(inner, &schema["items"], &path, differences),
            shape if !looks_like(shape, schema) => differences.push(format!("{path} is no {shape:?}: {schema}")),
            _ => {}
        }
    }
    let gone = table.iter().filter(|field| !known.contains_key(field.name));
    differences.extend(gone.map(|field| format!("{place}.{} is in the table only", field.name)));
}

fn looks_like(shape: Shape, schema: &Value) -> bool {
    let kind = schema["type"].as_str().unwrap_or_default();
    match shape {
        Shape::Text | Shape::Name | Shape::Duration => kind == "string",
        Shape::Flag => kind == "boolean",
        Shape::Number => kind == "integer",
        Shape::Texts => kind == "array" && schema["items"]["type"] == "string",
        Shape::TextMap => kind == "object" && schema["additionalProperties"]["type"] == "string",
        Shape::Object(_) | Shape::Objects(_) => false,
    }
}

#[tokio::test]
async fn what_velero_could_make_nothing_of_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::bare("senseless").await?;
    let selector = |operator: &str| json!({ "labelSelector": { "matchExpressions": [{ "key": "app", "operator": operator, "values": [] }] } });
    for (spec, told) in [
        (json!({ "ttl": "-5h" }), "spec.backupSpec.ttl must not be negative: give a duration such as 30m or 720h"),
        (selector("Foo"), "labelSelector.matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist"),
        (selector("In"), "labelSelector.matchExpressions[0].values must name at least one value"),
    ] {
        let refusal = plot.refusal::<NonAdminBackup>("nightly", json!({ "backupSpec": spec })).await?;
        assert!(refusal.contains(told), "{refusal}");
        let template = json!({ "schedule": "@yearly", "template": { "backupSpec": spec } });
        let refusal = plot.refusal::<BackupSchedule>("nightly", template).await?;
        assert!(refusal.contains(told), "{refusal}");
    }
    let restore =
        json!({ "restoreSpec": { "backupName": "nightly", "orLabelSelectors": [selector("Foo")["labelSelector"]] } });
    let refusal = plot.refusal::<NonAdminRestore>("back", restore).await?;
    assert!(refusal.contains("orLabelSelectors[0].matchExpressions[0].operator must be In"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn what_is_no_name_of_an_object_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::bare("nameless").await?;
    for text in ["../v", "v/status", "?watch=true&timeoutSeconds=3000"] {
        let backup = json!({ "backupSpec": { "storageLocation": text } });
        let told = plot.refusal::<NonAdminBackup>("nightly", backup).await?;
        assert!(told.contains("storageLocation must be the name of an object"), "{told}");
        let restore = json!({ "restoreSpec": { "backupName": text } });
        let told = plot.refusal::<NonAdminRestore>("back", restore).await?;
        assert!(told.contains("backupName must be the name of an object"), "{told}");
    }
    Ok(())
}
