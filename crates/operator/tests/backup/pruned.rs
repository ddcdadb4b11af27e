//! A field that Velero's kind, as it is installed, does not know: the API server leaves it out, and is not asked for it for ever.

use anyhow::{Result, ensure};
use croft_api::{backup::NonAdminBackupStorageLocation, velero::BackupStorageLocation};
use croft_testbed::wait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    kill::{Death, Person, Rough},
    plot::VELERO_PATIENCE,
    support::eventually,
};

const FIELD: &str = "validationFrequency";

/// The one location that was made for the namespace, as Velero has it.
async fn velero_has(one: &Person) -> Result<Value> {
    let all = one.veleros::<BackupStorageLocation>().list(&ListParams::default()).await?;
    ensure!(all.items.len() == 1, "{} locations", all.items.len());
    Ok(json!(all.items[0]))
}

#[tokio::test]
async fn a_field_that_veleros_kind_does_not_know_is_asked_for_once_and_not_for_ever() -> Result<()> {
    // Nobody is killed here: it is started behind the proxy that counts.
    let rough = Box::pin(Rough::new(Death::BeforeTheWrite)).await?;
    let kinds: Api<CustomResourceDefinition> = Api::all(rough.bed.admin().client.clone());
    let field = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{FIELD}");
    let pruned: Patch<Value> = Patch::Json(serde_json::from_value(json!([{ "op": "remove", "path": field }]))?);
    kinds.patch("backupstoragelocations.velero.io", &PatchParams::default(), &pruned).await?;
    // The API server takes a changed kind up a moment later.
    eventually("the field to be left out", || async {
        let probe = json!({
            "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": { "name": "probe", "namespace": "velero" },
            "spec": { "provider": "aws", "objectStorage": { "bucket": "b" }, FIELD: "1h" },
        });
        let arguments = ["create", "--dry-run=server", "--validate=ignore", "-o", "json", "-f", "-"];
        let made = rough.bed.admin().kubectl_stdin(&arguments, &probe.to_string()).await?;
        let made: DynamicObject = serde_json::from_str(&made)?;
        Ok(made.data["spec"][FIELD].is_null().then_some(()))
    })
    .await;

    let (one, mut location) = rough.person().await?;
    location["backupStorageLocationSpec"][FIELD] = json!("1s");
    one.make::<NonAdminBackupStorageLocation>("here", location).await?;
    let phase = "/status/veleroBackupStorageLocation/status/phase";
    wait::until("the location", VELERO_PATIENCE, || async {
        one.says::<NonAdminBackupStorageLocation>("here", phase, "Available").await.map(Some)
    })
    .await?;
    // Each time Velero looks at its location it is looked at here, too.
    let checked = || async {
        let has = velero_has(&one).await?;
        ensure!(has["spec"].get(FIELD).is_none(), "it was stored all the same: {has}");
        anyhow::Ok(has["status"]["lastValidationTime"].clone())
    };
    for _ in 0..3 {
        let before = checked().await?;
        eventually("Velero to look at it again", || async { Ok((checked().await? != before).then_some(())) }).await;
    }
    let writes = rough.writes_of("velero.io/backupstoragelocations");
    ensure!(writes <= 3, "{writes} writes for one location");
    // What can be stored still is.
    let read_only = json!({ "spec": { "backupStorageLocationSpec": { "accessMode": "ReadOnly" } } });
    let locations = one.api::<NonAdminBackupStorageLocation>();
    locations.patch("here", &PatchParams::default(), &Patch::Merge(&read_only)).await?;
    eventually("another change to be stored", || async {
        Ok((velero_has(&one).await?["spec"]["accessMode"] == "ReadOnly").then_some(()))
    })
    .await;
    Ok(())
}
