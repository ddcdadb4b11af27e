//! Objects that a release stored live on under today's kinds, on a real API server.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use croft_testbed::{Testbed, wait};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

fn releases() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/tests/released");
    Ok(fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?)
}

fn objects(release: &Path) -> Result<Vec<Value>> {
    let read = |path: PathBuf| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    fs::read_dir(release.join("objects"))?.map(|entry| read(entry?.path())).collect()
}

fn text<'a>(object: &'a Value, place: &str) -> &'a str {
    object.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// How kubectl is told of one object.
fn named(object: &Value) -> [String; 3] {
    let group = text(object, "/apiVersion").split('/').next().unwrap_or_default();
    let name = format!("{}.{group}/{}", text(object, "/kind").to_lowercase(), text(object, "/metadata/name"));
    let namespace = text(object, "/metadata/namespace");
    [name, "--namespace".into(), if namespace.is_empty() { "default".into() } else { namespace.to_owned() }]
}

#[tokio::test]
async fn what_a_release_stored_can_be_changed_under_todays_kinds() -> Result<()> {
    for release in releases()? {
        let bed = Testbed::kubernetes().start().await?;
        let admin = bed.admin();
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        admin.kubectl_stdin(&apply, &fs::read_to_string(release.join("crds.yaml"))?).await?;
        let objects = objects(&release)?;
        for object in &objects {
            let namespace = text(object, "/metadata/namespace");
            if !namespace.is_empty() {
                let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
                admin.kubectl_stdin(&apply, &made.to_string()).await?;
            }
            let file = object.to_string();
            wait::until("the kind to be served", PATIENCE, || async {
                admin.kubectl_stdin(&apply, &file).await.map(Some)
            })
            .await?;
            if object.get("status").is_some() {
                let status = json!({ "status": object["status"] }).to_string();
                let [name, flag, namespace] = named(object);
                let patch = ["patch", &name, &flag, &namespace, "--subresource=status", "--type=merge", "-p", &status];
                admin.kubectl(&patch).await.with_context(|| format!("the status of {name} as it was"))?;
            }
        }
        // Today's.
        admin.kubectl_stdin(&apply, &croft_api::crds_yaml()).await?;
        for object in &objects {
            let [name, flag, namespace] = named(object);
            let before = admin.kubectl(&["get", &name, &flag, &namespace, "-o", "json"]).await?;
            // Whatever is written, all of the object is judged anew; once of itself, once by way of its status.
            for (place, patch) in [
                ("--subresource=", json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } })),
                ("--subresource=status", json!({ "status": object["status"] })),
            ] {
                let patch = patch.to_string();
                let mut arguments = vec!["patch", &name, &flag, &namespace, "--type=merge", "-p", &patch];
                if place.ends_with("status") {
                    arguments.push(place);
                }
                admin.kubectl(&arguments).await.with_context(|| format!("{name} under today's kinds"))?;
            }
            let after = admin.kubectl(&["get", &name, &flag, &namespace, "-o", "json"]).await?;
            let (before, after): (Value, Value) = (serde_json::from_str(&before)?, serde_json::from_str(&after)?);
            assert_eq!((&before["spec"], &before["status"]), (&after["spec"], &after["status"]), "{name}");
        }
    }
    Ok(())
}
