//! The password of Velero's repositories: that it is one everybody has is told, and nothing waits for it.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::{plot::Plot, support::eventually};

const SECRET: &str = "velero-repo-credentials";

/// Waits until the readiness says this of the Secret; `None`: nothing.
async fn is_said(plot: &Plot, wanted: Option<&str>) {
    eventually(&format!("the readiness to say {wanted:?}"), || async {
        let (ready, detail) = plot.world.operator.readiness().await?;
        let said: Vec<_> = detail.lines().filter(|line| line.contains(SECRET)).collect();
        let is_said =
            |wanted: &str| said.len() == 1 && said[0].contains(wanted) && said[0].contains("kubectl create secret");
        ensure!(ready && wanted.map_or(said.is_empty(), is_said), "{detail}");
        Ok(Some(()))
    })
    .await;
}

#[tokio::test]
async fn a_password_of_veleros_repositories_that_is_the_same_everywhere_is_told_until_there_is_another() -> Result<()> {
    let plot = Plot::empty("password").await?;
    let secrets = plot.veleros::<Secret>();
    // Velero has made it.
    is_said(&plot, Some("has the password that is the same in every installation")).await;
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    is_said(&plot, Some("is missing")).await;
    let own = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET },
                      "stringData": { "repository-password": "of-our-own" } });
    secrets.patch(SECRET, &PatchParams::apply("test").force(), &Patch::Apply(&own)).await?;
    is_said(&plot, None).await;
    let logged = plot.world.operator.process.log();
    ensure!(!logged.contains("of-our-own"), "the password is in the log");
    Ok(())
}
