//! How much is used: told where the limit is, and nowhere else.

use anyhow::Result;
use croft_api::storage::S3TeamQuota;
use k8s_openapi::{
    api::core::v1::ResourceQuota, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    plot::{Plot, apply, gone},
    quota::{claim_of, ledger, team_is_known, team_of_two},
    support::{World, eventually},
};

async fn used(plot: &Plot<'_>, quota: &str) -> Result<serde_json::Value> {
    let quotas: Api<ResourceQuota> = Api::namespaced(plot.client.clone(), &plot.namespace);
    Ok(json!(quotas.get(quota).await?.status.unwrap_or_default().used))
}

async fn uses(plot: &Plot<'_>, quota: &str, wanted: serde_json::Value) {
    eventually(&format!("{quota} to say that {wanted} is used"), || async {
        let used = used(plot, quota).await?;
        anyhow::ensure!(used == wanted, "it says {used}");
        Ok(Some(()))
    })
    .await;
}

#[tokio::test]
async fn a_resource_quota_tells_what_is_used_of_the_storage_it_limits_and_nothing_else() -> Result<()> {
    let plot = Plot::new("used").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(plot.client.clone(), &plot.namespace);
    let hard = json!({ "s3/size": "1Gi", "s3/buckets": "5", "pods": "3" });
    apply(&quotas, "storage", json!({ "metadata": { "labels": { "mine": "yes" } }, "spec": { "hard": hard } })).await?;
    apply(&quotas, "pods", json!({ "spec": { "hard": { "pods": "3" } } })).await?;
    uses(&plot, "storage", json!({ "pods": "0", "s3/buckets": "0", "s3/size": "0" })).await;
    plot.claims().create(&PostParams::default(), &claim_of("data", 4000)).await?;
    uses(&plot, "storage", json!({ "pods": "0", "s3/buckets": "0", "s3/size": "4k" })).await;
    uses(&plot, "pods", json!({ "pods": "0" })).await;
    let labels = quotas.get("storage").await?.labels().clone();
    assert_eq!(labels.get("mine").map(String::as_str), Some("yes"), "telling leaves the rest of it alone");
    // Somebody writes over it: it is put right.
    let forged = json!({ "status": { "used": { "s3/size": "1" } } });
    quotas.patch_status("storage", &PatchParams::default(), &Patch::Merge(&forged)).await?;
    uses(&plot, "storage", json!({ "pods": "0", "s3/buckets": "0", "s3/size": "4k" })).await;
    plot.ready("data").await;
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    uses(&plot, "storage", json!({ "pods": "0", "s3/buckets": "0", "s3/size": "0" })).await;
    Ok(())
}

#[tokio::test]
async fn a_team_sees_what_it_has_and_which_namespace_has_it() -> Result<()> {
    let plots = team_of_two("teamuse", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    plots[0].claims().create(&PostParams::default(), &claim_of("data", 3)).await?;
    plots[1].claims().create(&PostParams::default(), &claim_of("data", 4)).await?;
    let quotas: Api<S3TeamQuota> = Api::all(plots[0].client.clone());
    let team = plots[0].namespace.clone();
    let says = async |size: &str, reason: &str| {
        eventually(&format!("{size} to be used because {reason}"), || async {
            let status = quotas.get(&team).await?.status.unwrap_or_default();
            let used = status.used.clone().and_then(|used| used.size).map(|size| size.0);
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            let is_it = used.as_deref() == Some(size) && ready.is_some_and(|ready| ready.reason == reason);
            anyhow::ensure!(is_it, "it says {status:?}");
            Ok(Some(status))
        })
        .await
    };
    let status = says("7", "WithinLimits").await;
    let mut namespaces: Vec<_> = status.namespaces.iter().map(|it| (it.name.clone(), it.size.clone())).collect();
    namespaces.sort();
    let mut wanted = [(plots[0].namespace.clone(), "3".to_owned()), (plots[1].namespace.clone(), "4".to_owned())];
    wanted.sort();
    assert_eq!(namespaces, wanted);
    apply(&quotas, &team, json!({ "spec": { "hard": { "size": 5 } } })).await?;
    says("7", "QuotaExceeded").await;
    Ok(())
}

#[tokio::test]
async fn a_team_whose_name_is_no_object_name_is_limited_by_the_quota_that_names_it() -> Result<()> {
    let plot = Plot::new("oddly").await?;
    let quotas: Api<S3TeamQuota> = Api::all(plot.client.clone());
    let team = format!("Team_{}", plot.namespace.replace('-', "_"));
    apply(&quotas, &plot.namespace, json!({ "spec": { "team": team, "hard": { "size": 5 } } })).await?;
    let label = json!({ "metadata": { "labels": { "snappcloud.io/team": team } } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let told = eventually("the limit to hold", || async {
        Ok(plot.claims().create(&dry, &claim_of("much", 6)).await.err().map(|error| error.to_string()))
    })
    .await;
    assert!(told.contains("exceeded cluster quota: 6 bytes asked for, 5 of the team's 5 left"), "{told}");
    plot.claims().create(&PostParams::default(), &claim_of("data", 5)).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn openshifts_cluster_resource_quota_of_the_teams_name_limits_too() -> Result<()> {
    let world = Box::pin(World::own(croft_testbed::Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "openshift").await?;
    let definition = json!({
        "spec": {
            "group": "quota.openshift.io", "scope": "Cluster",
            "names": { "kind": "ClusterResourceQuota", "plural": "clusterresourcequotas" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(plot.client.clone());
    apply(&definitions, "clusterresourcequotas.quota.openshift.io", definition).await?;
    let resource = ApiResource {
        plural: "clusterresourcequotas".into(),
        ..ApiResource::from_gvk(&GroupVersionKind::gvk("quota.openshift.io", "v1", "ClusterResourceQuota"))
    };
    let quotas: Api<DynamicObject> = Api::all_with(plot.client.clone(), &resource);
    let quota = json!({
        "apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota", "metadata": { "name": "red" },
        "spec": { "selector": {}, "quota": { "hard": { "s3/size": "5", "pods": "10" } } },
    });
    eventually("the kind to be served", || async {
        Ok(Some(quotas.patch("red", &PatchParams::apply("test"), &Patch::Apply(&quota)).await?))
    })
    .await;
    let label = json!({ "metadata": { "labels": { "snappcloud.io/team": "red" } } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually("the limit to hold", || async {
        let refused = plot.claims().create(&dry, &claim_of("much", 6)).await.err().map(|error| error.to_string());
        Ok(refused.filter(|told| told.contains("exceeded cluster quota")))
    })
    .await;
    plot.claims().create(&PostParams::default(), &claim_of("data", 5)).await?;
    plot.ready("data").await;
    assert!(ledger(&plot, "team.red").await?.is_some_and(|ledger| ledger.name_any() == "team.red"));
    Ok(())
}
