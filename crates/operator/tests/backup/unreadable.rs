//! Requests that have grown beyond what is read: they hold nobody up, and are taken back like others.

use anyhow::{Context, Result, ensure};
use croft_testbed::{Testbed, wait};
use serde_json::{Value, json};

use crate::{
    away::{furnish, is_handed_over, namespace_goes},
    plot::{SETTINGS, VELERO_PATIENCE},
    support::{PATIENCE, World, apply, eventually},
};

/// As much as the API server lets anybody note on one object, which with the object itself is more than is read.
fn very_much() -> String {
    json!({ "metadata": { "annotations": { "tenant.example/note": "x".repeat((256 << 10) - 500) } } }).to_string()
}

const REQUESTS: [(&str, &str); 2] = [("nonadminbackup", "nightly"), ("nonadminbackupstoragelocation", "here")];

impl World {
    /// Nobody is at the door, and the requests of the namespace grow.
    async fn grow(&self, namespace: &str) -> Result<()> {
        let file = self.bed.dir().join("very-much.json");
        std::fs::write(&file, very_much())?;
        let file = file.display().to_string();
        for (kind, name) in REQUESTS {
            let grown = ["patch", kind, name, "-n", namespace, "--type=merge", "--patch-file", &file];
            eventually("the door to be open", || async { Ok(self.bed.admin().kubectl(&grown).await.ok()) }).await;
        }
        Ok(())
    }
}

/// The requests of a namespace, and where in each is room for anything.
const OPEN: [(&str, &str, &str); 3] = [
    ("nonadminrestores", "back", r#"{"spec":{"restoreSpec":{"hooks":DEEP}}}"#),
    ("nonadminbackups", "nightly", r#"{"spec":{"backupSpec":{"hooks":DEEP}}}"#),
    ("nonadminbackupstoragelocations", "here", r#"{"spec":{"backupStorageLocationSpec":{"x":DEEP}}}"#),
];

impl World {
    async fn says(&self, namespace: &str, object: &str, path: &str, wanted: &str) -> Result<()> {
        wait::until(&format!("{object} to say {wanted}"), VELERO_PATIENCE, || async {
            let path = format!("jsonpath={path}");
            let said = self.bed.admin().kubectl(&["get", object, "-n", namespace, "-o", &path]).await?;
            ensure!(said == wanted, "it says {said:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Nobody is at the door for a moment, and the requests of the namespace become what nobody can decode.
    async fn deepen(&self, namespace: &str) -> Result<()> {
        let admin = self.bed.admin();
        let kind = "validatingwebhookconfigurations";
        let mut door: Value = serde_json::from_str(&admin.kubectl(&["get", kind, "croft", "-o", "json"]).await?)?;
        for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"] {
            door["metadata"].as_object_mut().context("metadata")?.remove(field);
        }
        admin.kubectl(&["delete", kind, "croft"]).await?;
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for (plural, name, patch) in OPEN {
            let path = format!("/apis/oadp.openshift.io/v1alpha1/namespaces/{namespace}/{plural}/{name}");
            eventually("the door to be open", || async {
                let request = http::Request::patch(&path).header("Content-Type", "application/merge-patch+json");
                let request = request.body(patch.replace("DEEP", &deep).into_bytes())?;
                Ok(admin.client.request_text(request).await.ok())
            })
            .await;
        }
        apply(admin, &door.to_string()).await?;
        Ok(())
    }

    /// Names of what Velero has of a namespace.
    async fn with_velero(&self, kinds: &str, namespace: &str) -> Result<Vec<String>> {
        let left = self.bed.admin().kubectl(&["get", kinds, "-n", "velero", "-o", "name"]).await?;
        let begin = format!("/{namespace}-");
        Ok(left.lines().filter(|name| name.contains(&begin)).map(str::to_owned).collect())
    }
}

#[tokio::test]
async fn a_namespace_goes_although_its_requests_are_nested_too_deeply_to_be_read() -> Result<()> {
    let world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    let admin = world.bed.admin();
    let owner = furnish(&world, "deep").await?;
    is_handed_over(&world, "deep").await;
    world.says("deep", "nab/nightly", "{.status.veleroBackup.status.phase}", "Completed").await?;
    let restore = json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminRestore",
                          "metadata": { "name": "back", "namespace": "deep" },
                          "spec": { "restoreSpec": { "backupName": "nightly" } } });
    apply(&owner, &restore.to_string()).await?;
    world.says("deep", "nar/back", "{.status.phase}", "Created").await?;
    world.deepen("deep").await?;

    // The administrator takes back what she cannot read either.
    let request = world.with_velero("nabslrequest", "deep").await?;
    let reject = r#"{"spec":{"approvalDecision":"reject"}}"#;
    admin.kubectl(&["patch", request.first().context("asked")?, "-n", "velero", "--type=merge", "-p", reject]).await?;
    eventually("Velero's location and the copy of the keys to go", || async {
        let left = world.with_velero("backupstoragelocations.velero.io,secrets", "deep").await?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })
    .await;
    let approved = "{.status.conditions[?(@.type=='ClusterAdminApproved')].reason}";
    world.says("deep", "nabsl/here", approved, "BslSpecRejected").await?;
    namespace_goes(&world, "deep").await
}

#[tokio::test]
async fn a_namespace_goes_although_its_requests_have_grown_beyond_what_is_read() -> Result<()> {
    let mut world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    for namespace in ["grown", "overgrown"] {
        furnish(&world, namespace).await?;
        is_handed_over(&world, namespace).await;
    }
    world.bed.admin().kubectl(&["delete", "validatingwebhookconfigurations", "--all"]).await?;
    world.grow("grown").await?;
    namespace_goes(&world, "grown").await?;

    // Whoever starts finds them as they are, and has never seen them otherwise.
    world.operator.process.terminate();
    world.operator.process.wait(PATIENCE);
    world.grow("overgrown").await?;
    let config = world.bed.dir().join("settings.yaml").display().to_string();
    let kubeconfig = &world.installed.identity.kubeconfig;
    world.operator = world.installed.start(&world.bed, "after", kubeconfig, &["--config", &config])?;
    world.operator.ready(PATIENCE).await?;
    namespace_goes(&world, "overgrown").await?;
    wait::until("nothing to be left with Velero", VELERO_PATIENCE, || async {
        let kinds = "backups.velero.io,backupstoragelocations.velero.io,secrets";
        let left = world.bed.admin().kubectl(&["get", kinds, "-n", "velero", "-o", "name"]).await?;
        let left: Vec<_> = left.lines().filter(|name| name.contains("grown-")).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })
    .await
}
