//! What got past the door, because it was open or not there yet.

use anyhow::Result;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClass};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    first_refusal, kubernetes,
    support::{World, eventually},
};

async fn define(client: &Client, name: &str, resource: Value) -> Result<()> {
    let class = json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": name },
        "spec": { "resources": [resource] },
    });
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    classes.patch(name, &PatchParams::apply("test"), &Patch::Apply(&class)).await?;
    Ok(())
}

/// A namespace called like its class.
async fn use_class(client: &Client, name: &str) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": { CLASS_LABEL: name } },
    });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(name, &PatchParams::apply("test"), &Patch::Apply(&namespace)).await?;
    Ok(())
}

fn config_map(value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "made" }, "data": { "key": value } })
}

async fn has_value(client: &Client, namespace: &str, value: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    eventually(&format!("{namespace} to have {value:?}"), || async {
        let made = maps.get_opt("made").await?.and_then(|map| map.data).unwrap_or_default();
        Ok((made.get("key").is_some_and(|found| found == value)).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn a_stored_class_that_cannot_be_carried_out_is_told_and_stops_no_other() -> Result<()> {
    let world = World::own(kubernetes()).await?;
    let client = world.client();
    first_refusal(&client).await;
    world.bed.admin().kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    for (class, data) in [("text", json!("x")), ("list", json!(["x"])), ("number", json!(5))] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": data, "stringData": { "a": "b" },
        });
        define(&client, class, secret).await?;
        use_class(&client, class).await?;
    }
    define(&client, "good", config_map("1")).await?;
    use_class(&client, "good").await?;
    has_value(&client, "good", "1").await;
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    for class in ["text", "list", "number"] {
        let told = eventually(&format!("class {class} to say what is wrong"), || async {
            let conditions = classes.get(class).await?.status.unwrap_or_default().conditions;
            Ok(conditions.into_iter().find(|told| told.type_ == "Accepted" && told.status == "False"))
        })
        .await;
        assert!(told.message.starts_with("spec.resources[0].data: must be a map of texts, not a "), "{}", told.message);
    }
    define(&client, "good", config_map("2")).await?;
    has_value(&client, "good", "2").await;
    world.operator.process.ensure_running()
}
