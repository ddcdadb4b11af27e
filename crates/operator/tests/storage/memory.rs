//! What others write costs the operator no memory.

use anyhow::Result;
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::json;

use crate::{
    plot::Plot,
    support::{PATIENCE, World},
};

/// A Secret with as many notes as the API server takes.
fn loaded(number: usize) -> Result<Secret> {
    let notes: serde_json::Map<_, _> =
        (0..250).map(|note| (format!("tenant.example/note-{note}"), json!("x".repeat(1000)))).collect();
    let finalizers: Vec<_> = (0..500).map(|it| format!("tenant.example/{}-{it}", "x".repeat(50))).collect();
    let metadata = json!({ "name": format!("loaded-{number}"), "annotations": notes, "finalizers": finalizers });
    Ok(serde_json::from_value(json!({ "metadata": metadata }))?)
}

#[tokio::test]
async fn notes_on_secrets_that_nobody_reads_take_no_memory() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&bed, "loaded").await?;
    let before = operator.process.rss_kib();
    for number in 0..200 {
        plot.secrets().create(&PostParams::default(), &loaded(number)?).await?;
    }
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let live = operator.process.rss_kib();
    drop(operator);
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    plot.claim_called("other", json!({ "adminSecretName": "a", "readSecretName": "r" })).await?;
    plot.ready("other").await;
    let listed = operator.process.rss_kib();
    // They are 57 MiB, and more than that in a cache.
    let most = before + (40 << 10);
    assert!(live < most && listed < most, "{before} KiB before, {live} KiB live, {listed} KiB after a restart");
    Ok(())
}
