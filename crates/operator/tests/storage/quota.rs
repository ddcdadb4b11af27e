//! Quota: exact whatever happens at once, and given back.

use std::time::Duration;

use anyhow::{Context, Result};
use croft_api::storage::{S3QuotaLedger, S3TeamQuota, S3UserClaim};
use croft_rgw::{BucketLimit, Quota};
use croft_testbed::{
    S3Call, Testbed,
    fault::{Action, FaultProxy, Match},
    wait,
};
use futures::future::join_all;
use http::Method;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, apply, gone},
    support::{PATIENCE, eventually},
};

/// Two namespaces of a team whose limit is this.
pub(crate) async fn team_of_two(name: &str, hard: Value) -> Result<[Plot<'static>; 2]> {
    team_of_two_on(&crate::plot::world().await.bed, name, hard).await
}

pub(crate) async fn team_of_two_on<'a>(bed: &'a Testbed, name: &str, hard: Value) -> Result<[Plot<'a>; 2]> {
    let plots = [Plot::on(bed, name).await?, Plot::on(bed, name).await?];
    let quotas: Api<S3TeamQuota> = Api::all(plots[0].client.clone());
    apply(&quotas, &plots[0].namespace, json!({ "spec": { "hard": hard } })).await?;
    for plot in &plots {
        let label = json!({ "metadata": { "labels": { "snappcloud.io/team": plots[0].namespace } } });
        plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
    }
    Ok(plots)
}

pub(crate) fn claim_of(name: &str, size: u64) -> S3UserClaim {
    let object = json!({
        "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": name },
        "spec": {
            "adminSecretName": format!("{name}-admin"), "readSecretName": format!("{name}-read"),
            "quota": { "size": size, "objects": 1, "buckets": 0 },
        },
    });
    serde_json::from_value(object).expect("a claim")
}

pub(crate) async fn ledger(plot: &Plot<'_>, name: &str) -> Result<Option<S3QuotaLedger>> {
    Ok(Api::<S3QuotaLedger>::all(plot.client.clone()).get_opt(name).await?)
}

/// The team's ledger, once both namespaces are known to be the team's.
pub(crate) async fn team_is_known(plots: &[Plot<'_>; 2]) {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for plot in plots {
        eventually("the team's limit to hold", || async {
            let refused = plot.claims().create(&dry, &claim_of("too-much", 1 << 40)).await.is_err();
            Ok(refused.then_some(()))
        })
        .await;
    }
}

#[tokio::test]
async fn of_many_claims_at_once_exactly_those_are_admitted_that_fit() -> Result<()> {
    let plots = team_of_two("exact", json!({ "size": 37, "objects": "1M", "buckets": 100 })).await?;
    team_is_known(&plots).await;
    let create = |number: usize| {
        let claims = plots[number % 2].claims();
        async move {
            let claim = claim_of(&format!("c{number}"), 1);
            // A hundred at once may be more than a busy machine answers in time: who is not answered asks again.
            for _ in 0..5 {
                match claims.create(&PostParams::default(), &claim).await {
                    Err(kube::Error::Api(answer)) if answer.code >= 500 => {}
                    answer => return answer,
                }
            }
            claims.create(&PostParams::default(), &claim).await
        }
    };
    let answers = join_all((0..120).map(create)).await;
    let refusals: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).map(ToString::to_string).collect();
    for told in &refusals {
        assert!(told.contains("exceeded cluster quota") && told.contains("spec.quota"), "{told}");
    }
    assert_eq!(answers.len() - refusals.len(), 37);
    Ok(())
}

#[tokio::test]
async fn a_dry_run_reserves_nothing_and_a_deleted_claim_gives_back() -> Result<()> {
    let plots = team_of_two("giveback", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    plot.claims().create(&dry, &claim_of("dry", 10)).await?;
    plot.claims().create(&PostParams::default(), &claim_of("data", 10)).await?;
    plot.ready("data").await;
    let refused = other.claims().create(&PostParams::default(), &claim_of("late", 1)).await.unwrap_err();
    assert!(
        refused.to_string().contains("exceeded cluster quota: 1 bytes asked for, 0 of the team's 10 left"),
        "{refused}"
    );
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    other.claims().create(&PostParams::default(), &claim_of("late", 10)).await?;
    other.ready("late").await;
    Ok(())
}

#[tokio::test]
async fn a_dry_run_leaves_nothing_behind() -> Result<()> {
    let plot = Plot::new("dry").await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    plot.claims().create(&dry, &claim_of("data", 1)).await?;
    assert_eq!(ledger(&plot, &format!("namespace.{}", plot.namespace)).await?, None);
    Ok(())
}

#[tokio::test]
async fn ceph_holds_the_most_that_may_be_asked_for_and_does_not_take_it_for_no_limit() -> Result<()> {
    let plot = Plot::new("most").await?;
    plot.claim(json!({ "quota": { "size": "1Ei", "objects": "1Ei", "buckets": i32::MAX } })).await?;
    plot.ready("data").await;
    plot.bucket("photos", json!({ "quota": { "size": "1Ei", "objects": "1Ei" } })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let most = Quota { enabled: true, max_size: Some(1 << 60), max_objects: Some(1 << 60) };
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!((user.user_quota, user.max_buckets), (most, BucketLimit::AtMost(i32::MAX.unsigned_abs())));
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?.expect("a bucket");
    assert_eq!(bucket.quota, most);
    Ok(())
}

#[tokio::test]
async fn a_claim_whose_name_the_api_server_chooses_is_booked_by_that_name() -> Result<()> {
    let plot = Plot::new("generated").await?;
    let mut claim = claim_of("data", 1);
    claim.metadata = serde_json::from_value(json!({ "generateName": "some-" }))?;
    let name = plot.claims().create(&PostParams::default(), &claim).await?.metadata.name.unwrap_or_default();
    plot.ready(&name).await;
    let books = ledger(&plot, &format!("namespace.{}", plot.namespace)).await?.expect("books");
    let entries: Vec<_> = books.spec.entries.keys().cloned().collect();
    assert_eq!(entries, [format!("{}/{name}", plot.namespace)]);
    Ok(())
}

#[tokio::test]
async fn what_is_lowered_is_free_for_others_only_when_ceph_has_less() -> Result<()> {
    let plots = team_of_two("steal", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    let proxy = FaultProxy::rgw(&plot.ceph.endpoint).await?;
    let class = format!("steal-{}", plot.namespace);
    plot.class(&class, json!({ "endpoint": proxy.endpoint() })).await?;
    let mut claim = claim_of("data", 10);
    claim.spec.s3_class_name = Some(class);
    plot.claims().create(&PostParams::default(), &claim).await?;
    plot.ready("data").await;
    let under_way = proxy.on(Match::verb("put").resource("/admin/user")).before(Action::Hold).always();
    let less = json!({ "spec": { "quota": { "size": 4 } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&less)).await?;
    eventually("Ceph to be given less", || async { Ok((under_way.fired() > 0).then_some(())) }).await;
    let thief = async || other.claims().create(&PostParams::default(), &claim_of("thief", 6)).await;
    let refused = thief().await.expect_err("Ceph still has it").to_string();
    assert!(refused.contains("exceeded cluster quota"), "{refused}");
    under_way.remove();
    under_way.release();
    eventually("the rest to be free", || async { Ok(Some(thief().await?)) }).await;
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!(user.user_quota.max_size, Some(4), "somebody got what Ceph still gave to another");
    Ok(())
}

/// When what is stored is counted once more after a quota was lowered.
const RECOUNT: Duration = Duration::from_secs(60);

/// Waits until the S3TeamQuota of the plot's name says that its team has so many bytes.
async fn uses(plot: &Plot<'_>, wanted: &str) -> Result<()> {
    let quotas: Api<S3TeamQuota> = Api::all(plot.client.clone());
    wait::until(&format!("{wanted} bytes to be used"), RECOUNT + PATIENCE, || async {
        let used = quotas.get(&plot.namespace).await?.status.and_then(|status| status.used);
        let size = used.as_ref().and_then(|used| used.size.as_ref());
        anyhow::ensure!(size.is_some_and(|size| size.0 == wanted), "{used:?} is used");
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
async fn what_an_upload_brings_that_began_before_its_quota_was_lowered_counts_for_its_team_until_it_is_gone()
-> Result<()> {
    let plots = team_of_two("slow", json!({ "size": "64Ki" })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    plot.claim(json!({ "quota": { "size": "64Ki", "objects": 9, "buckets": 1 } })).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    let keys = plot.secret("admin").await?;
    let picture = vec![b'x'; 40 << 10];
    let put = S3Call { method: Method::PUT, path: "/photos/cat.jpg", body: &picture, ..S3Call::default() };
    let upload = plot.ceph.begin((&keys["accessKey"], &keys["secretKey"]), &put).await?;
    plot.claim(json!({ "quota": { "size": 0, "objects": 9, "buckets": 1 } })).await?;
    let fair = async || other.claims().create(&PostParams::default(), &claim_of("fair", 30 << 10)).await;
    eventually("the rest to be free", || async { Ok(Some(fair().await?)) }).await;
    other.ready("fair").await;
    upload.finish().await.context("the gateway goes by the quota there was")?;

    uses(plot, "71680").await?;
    let quotas: Api<S3TeamQuota> = Api::all(plot.client.clone());
    let told = quotas.get(&plot.namespace).await?.status.unwrap_or_default().conditions;
    assert!(told.iter().any(|it| it.type_ == "Ready" && it.reason == "QuotaExceeded"), "{told:?}");
    let more = other.claims().create(&PostParams::default(), &claim_of("late", 1)).await;
    assert!(more.expect_err("there is no room").to_string().contains("exceeded cluster quota"));
    let raised = plot.claim(json!({ "quota": { "size": "64Ki", "objects": 9, "buckets": 1 } })).await;
    let refused = format!("{:#}", raised.expect_err("what it has stored is no right to as much"));
    assert!(refused.contains("exceeded cluster quota"), "{refused}");
    assert_eq!(plot.user("data").await?.expect("a Ceph user").user_quota.max_size, Some(0));

    s3.delete_object("photos", "cat.jpg").await?;
    // A Secret that is lost has its claim looked at before its turn.
    plot.secrets().delete("read", &DeleteParams::default()).await?;
    uses(plot, "30720").await
}

#[tokio::test]
async fn what_is_stored_counts_for_its_team_until_it_is_gone_however_low_its_quota_is_and_also_without_its_claim()
-> Result<()> {
    let plots = team_of_two("hoard", json!({ "size": "64Ki" })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    plot.claim(json!({ "quota": { "size": "64Ki", "objects": 9, "buckets": 1 } })).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", vec![b'x'; 40 << 10]).await?;
    plot.claim(json!({ "quota": { "size": 0, "objects": 0, "buckets": 0 } })).await?;
    uses(plot, "40960").await?;
    let too_much = other.claims().create(&PostParams::default(), &claim_of("thief", 25 << 10)).await;
    assert!(too_much.expect_err("24Ki are left").to_string().contains("exceeded cluster quota"));
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    uses(plot, "40960").await?;
    other.claims().create(&PostParams::default(), &claim_of("fair", 24 << 10)).await?;
    other.ready("fair").await;
    Ok(())
}

#[tokio::test]
async fn a_namespace_is_limited_by_all_its_resource_quotas_and_may_shrink_below_a_lowered_one() -> Result<()> {
    let plot = Plot::new("namespaced").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(plot.client.clone(), &plot.namespace);
    apply(&quotas, "loose", json!({ "spec": { "hard": { "s3/size": "100", "s3/buckets": "3" } } })).await?;
    apply(&quotas, "tight", json!({ "spec": { "hard": { "s3/size": "10" } } })).await?;
    let refused = plot.claims().create(&PostParams::default(), &claim_of("data", 11)).await.unwrap_err();
    assert!(refused.to_string().contains("exceeded namespace quota"), "{refused}");
    plot.claims().create(&PostParams::default(), &claim_of("data", 10)).await?;
    plot.ready("data").await;
    apply(&quotas, "tight", json!({ "spec": { "hard": { "s3/size": "5" } } })).await?;
    let resize = async |size: u64| {
        let change = json!({ "spec": { "quota": { "size": size } } });
        plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&change)).await
    };
    assert!(resize(11).await.unwrap_err().to_string().contains("exceeded namespace quota"));
    resize(8).await?;
    plot.ready("data").await;
    assert_eq!(plot.user("data").await?.expect("a Ceph user").user_quota.max_size, Some(8));
    let books = ledger(&plot, &format!("namespace.{}", plot.namespace)).await?.expect("a ledger");
    eventually("the books to say what Ceph has", || async {
        let books = ledger(&plot, &format!("namespace.{}", plot.namespace)).await?.unwrap_or_else(|| books.clone());
        let entry = &books.spec.entries[&format!("{}/data", plot.namespace)];
        Ok((entry.granted.is_some_and(|granted| granted.size == 8) && entry.pending.is_none()).then_some(()))
    })
    .await;
    Ok(())
}
