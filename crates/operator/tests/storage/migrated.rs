//! What the gateway does for a bucket that has changed hands, and what keeps it from getting an S3Bucket.

use anyhow::{Context, Result};
use croft_api::storage::MigrationPhase;
use croft_rgw::{Lifecycle, LifecycleRule, UserId};
use croft_testbed::{
    S3Call, Testbed,
    fault::{Action, FaultProxy, Match, Rule},
    wait,
};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    migration::{ends, message, migrate, migrations, put_with},
    plot::{Plot, apply, gone, world},
    support::{PATIENCE, World, eventually},
};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn the_gateway_goes_on_with_the_lifecycle_of_a_bucket_that_was_moved() -> Result<()> {
    let (from, to) = (Plot::new("cycled").await?, Plot::new("cycles").await?);
    from.claim(json!({})).await?;
    from.bucket("photos", json!({ "lifecycle": [{ "id": "tmp", "prefix": "tmp/", "expirationDays": 7 }] })).await?;
    from.bucket("own", json!({})).await?;
    for bucket in ["photos", "own"] {
        from.bucket_says(bucket, "True", "Provisioned").await;
    }
    let rule = LifecycleRule {
        id: "mine".into(),
        prefix: "old/".into(),
        enabled: true,
        expiration_days: Some(3),
        noncurrent_expiration_days: None,
        abort_multipart_days: None,
    };
    let mine = Lifecycle { rules: vec![rule], others: vec![] };
    from.s3("admin").await?.put_bucket_lifecycle("own", &mine).await?;
    let name = migrate(&from, &to, &["photos", "own"], json!({})).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    assert_eq!(to.s3("admin").await?.bucket_lifecycle("own").await?, Some(mine));
    // What is not in this list is never looked after.
    let listed = to.ceph.admin(&["lc", "list"]).await?;
    for bucket in ["photos", "own"] {
        let entry = format!("{}:{bucket}:", to.user_id("data").tenant());
        assert!(listed.contains(&entry), "{entry} is not in {listed}");
    }
    Ok(())
}

/// What the rule `and` of the bucket `photos` is for, as the gateway goes by it.
async fn filter(plot: &Plot<'_>) -> Result<Value> {
    let bucket = format!("--bucket={}/photos", plot.user_id("data").tenant());
    let rules: Value = serde_json::from_str(&plot.ceph.admin(&["lc", "get", &bucket]).await?)?;
    let mut rules = rules["rule_map"].as_array().into_iter().flatten().map(|entry| &entry["rule"]);
    Ok(rules.find(|rule| rule["id"] == "and").with_context(|| format!("a rule among {rules:?}"))?["filter"].clone())
}

#[tokio::test]
async fn a_rule_of_the_tenants_own_with_a_prefix_and_tags_stays_as_narrow_as_it_was_when_ours_change_and_the_bucket_moves()
-> Result<()> {
    let (from, to) = (Plot::new("narrow").await?, Plot::new("narrows").await?);
    from.claim(json!({})).await?;
    from.bucket("photos", json!({})).await?;
    from.bucket_says("photos", "True", "Provisioned").await;
    let rules = b"<LifecycleConfiguration><Rule><ID>and</ID><Filter><And><Prefix>old/</Prefix><Tag><Key>a</Key><Value>1</Value>\
                  </Tag><Tag><Key>b</Key><Value>2</Value></Tag></And></Filter><Status>Enabled</Status><Expiration><Days>1</Days>\
                  </Expiration></Rule></LifecycleConfiguration>";
    let keys = from.secret("admin").await?;
    let put = S3Call { method: Method::PUT, path: "/photos", query: "lifecycle=", body: rules, ..S3Call::default() };
    let (status, answer) = from.ceph.call((&keys["accessKey"], &keys["secretKey"]), &put).await?;
    anyhow::ensure!(status.is_success(), "{status} {answer}");
    let narrow = filter(&from).await?;
    assert_eq!(narrow["prefix"], "old/", "{narrow}");

    from.bucket("photos", json!({ "lifecycle": [{ "id": "tmp", "prefix": "tmp/", "expirationDays": 7 }] })).await?;
    from.bucket_says("photos", "True", "Provisioned").await;
    assert_eq!(filter(&from).await?, narrow);

    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    assert_eq!(filter(&to).await?, narrow);
    Ok(())
}

/// Copies what is in `photos` of another tenant as a part of an upload to one's own bucket `sink`; whether the gateway lets that happen.
async fn copies_in_parts(plot: &Plot<'_>, (there, object): (&Plot<'_>, &str)) -> Result<bool> {
    let keys = plot.secret("admin").await?;
    let keys = (keys["accessKey"].as_str(), keys["secretKey"].as_str());
    let begin = S3Call { method: Method::POST, path: "/sink/copy", query: "uploads=", ..S3Call::default() };
    let (_, answer) = plot.ceph.call(keys, &begin).await?;
    let (_, rest) = answer.split_once("<UploadId>").with_context(|| answer.clone())?;
    let (id, _) = rest.split_once('<').context("an id")?;
    let query = format!("partNumber=1&uploadId={id}");
    let source = format!("/{}%3Aphotos/{object}", there.user_id("data").tenant());
    let header = Some(("x-amz-copy-source", source.as_str()));
    let part = S3Call { method: Method::PUT, path: "/sink/copy", query: &query, header, body: b"" };
    let (status, answer) = plot.ceph.call(keys, &part).await?;
    anyhow::ensure!(status.is_success() || status == StatusCode::FORBIDDEN, "{object}: {status} {answer}");
    Ok(status.is_success())
}

/// The gateway asks no policy there, only the access list of the object. A release of Ceph that changes this is to be noticed:
/// docs/moving-buckets.md tells of it.
#[tokio::test]
async fn a_part_copy_goes_by_the_access_list_of_an_object_until_that_is_of_the_new_owner() -> Result<()> {
    let (from, to, stranger) = (Plot::new("parts").await?, Plot::new("whole").await?, Plot::new("passer").await?);
    for plot in [&from, &to, &stranger] {
        plot.claim(json!({ "quota": { "buckets": 3 } })).await?;
        plot.ready("data").await;
        plot.s3("admin").await?.create_bucket("sink").await?;
    }
    from.bucket("photos", json!({})).await?;
    from.bucket_says("photos", "True", "Provisioned").await;
    for object in ["cat.jpg", "dog.jpg"] {
        put_with(&from, object, ("x-amz-acl", "private")).await?;
    }
    for object in ["open.jpg", "public.jpg"] {
        put_with(&from, object, ("x-amz-acl", "public-read")).await?;
    }
    let name = migrate(&from, &to, &["photos"], json!({ "deleteCurrentUser": false })).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    to.bucket_says("photos", "True", "Provisioned").await;
    let new = to.s3("admin").await?;
    new.put_object("photos", "new.jpg", "woof").await?;
    // Who copies what in parts: of old objects those whom their lists name, and of new ones their owner.
    let copied = async || {
        let mut copied = Vec::new();
        for (who, plot) in [("former", &from), ("stranger", &stranger), ("owner", &to)] {
            for object in ["cat.jpg", "dog.jpg", "open.jpg", "public.jpg", "new.jpg"] {
                copied.extend(copies_in_parts(plot, (&to, object)).await?.then(|| format!("{who} {object}")));
            }
        }
        anyhow::Ok(copied)
    };
    let former = ["former cat.jpg", "former dog.jpg", "former open.jpg", "former public.jpg"];
    let strangers = ["stranger open.jpg", "stranger public.jpg"];
    let owner = ["owner open.jpg", "owner public.jpg", "owner new.jpg"];
    assert_eq!(copied().await?, [&former[..], &strangers, &owner].concat());
    for plot in [&from, &stranger] {
        let there = plot.s3("admin").await?.in_tenant(to.user_id("data").tenant())?;
        assert!(there.get_object("photos", "public.jpg").await.is_err(), "read it");
    }

    for object in ["cat.jpg", "public.jpg"] {
        assert!(new.rewrite_object("photos", object).await?);
    }
    let left = ["former dog.jpg", "former open.jpg", "stranger open.jpg"];
    let owner = ["owner cat.jpg", "owner open.jpg", "owner public.jpg", "owner new.jpg"];
    assert_eq!(copied().await?, [&left[..], &owner].concat());

    let (user, bucket) =
        (format!("--uid={}", to.user_id("data")), format!("--bucket={}/photos", to.user_id("data").tenant()));
    to.ceph.admin(&["bucket", "chown", &user, &bucket]).await?;
    let owner = ["owner cat.jpg", "owner dog.jpg", "owner open.jpg", "owner public.jpg", "owner new.jpg"];
    assert_eq!(
        copied().await?,
        [&["former open.jpg", "stranger open.jpg"][..], &owner].concat(),
        "what is public stays so"
    );
    assert_eq!(new.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
    Ok(())
}

#[tokio::test]
async fn what_a_migration_brings_counts_against_the_quota_of_its_new_owner_at_once() -> Result<()> {
    let (from, to) = (Plot::new("heavy").await?, Plot::new("bounded").await?);
    from.claim(json!({})).await?;
    from.bucket("photos", json!({})).await?;
    from.bucket_says("photos", "True", "Provisioned").await;
    from.s3("admin").await?.put_object("photos", "large", vec![0; 6 * MIB]).await?;
    to.claim(json!({ "quota": { "size": "8Mi", "objects": "1k", "buckets": 2 } })).await?;
    to.ready("data").await;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    let refused = to.s3("admin").await?.put_object("photos", "more", vec![0; 4 * MIB]).await;
    assert_eq!(refused.expect_err("6 and 4 are more than 8").reason(), "QuotaExceeded");
    Ok(())
}

#[tokio::test]
async fn a_quota_that_keeps_an_s3bucket_out_is_named_and_the_migration_ends_once_it_is_lifted() -> Result<()> {
    let (from, to) = (Plot::new("barred").await?, Plot::new("bars").await?);
    from.claim(json!({})).await?;
    from.bucket("photos", json!({})).await?;
    from.bucket_says("photos", "True", "Provisioned").await;
    let quotas: Api<ResourceQuota> = Api::namespaced(to.client.clone(), &to.namespace);
    let hard = json!({ "count/s3buckets.s3.snappcloud.io": "0" });
    apply(&quotas, "none", json!({ "spec": { "hard": &hard } })).await?;
    // As Kubernetes' own controller counts it, which hears of a new kind only after minutes.
    let counted = json!({ "status": { "hard": hard, "used": hard } });
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(counted)).await?;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    eventually("the migration to say what it waits for", || async {
        let told = message(&migrations(&from).get(&name).await?);
        anyhow::ensure!(told.contains("exceeded quota: none"), "it says {told}");
        Ok(Some(()))
    })
    .await;
    quotas.delete("none", &DeleteParams::default()).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    to.bucket_says("photos", "True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_migration_goes_on_as_soon_as_the_namespace_it_waits_for_is_there() -> Result<()> {
    let from = Plot::new("waits").await?;
    from.claim(json!({})).await?;
    from.ready("data").await;
    from.s3("admin").await?.create_bucket("photos").await?;
    let late = format!("{}-late", from.namespace);
    let spec = json!({
        "currentUser": { "namespace": from.namespace, "name": "data" },
        "targetUser": { "namespace": late, "name": "data" },
        "buckets": ["photos"],
    });
    apply(&migrations(&from), &from.namespace, json!({ "spec": spec })).await?;
    says(&from, &format!("namespace {late} does not exist")).await;
    apply(&from.namespaces(), &late, json!({})).await?;
    ends(&from, &from.namespace, MigrationPhase::Succeeded).await;
    Ok(())
}

#[tokio::test]
async fn a_migration_goes_on_as_soon_as_its_class_is_ready_again() -> Result<()> {
    let (from, to) = (Plot::new("classed").await?, Plot::new("classed").await?);
    let class = format!("of-{}", from.namespace);
    from.class(&class, json!({})).await?;
    for plot in [&from, &to] {
        plot.claim(json!({ "s3ClassName": class })).await?;
        plot.ready("data").await;
    }
    from.s3("admin").await?.create_bucket("photos").await?;
    from.class(&class, json!({ "adminSecret": { "name": class, "namespace": "croft-system" } })).await?;
    eventually("the class not to be ready", || async {
        let status = from.classes().get(&class).await?.status.unwrap_or_default();
        Ok(status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "False").then_some(()))
    })
    .await;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    says(&from, &class).await;
    from.class(&class, json!({})).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    Ok(())
}

/// Waits until the migration of the plot's name says so.
async fn says(plot: &Plot<'_>, told: &str) {
    eventually(&format!("the migration to say {told}"), || async {
        let said = message(&migrations(plot).get(&plot.namespace).await?);
        anyhow::ensure!(said.contains(told), "it says {said}");
        Ok(Some(()))
    })
    .await;
}

/// Two plots whose claims are served by a class of their own behind a proxy; the first has a bucket with an object.
async fn proxied(bed: &Testbed) -> Result<(Plot<'_>, Plot<'_>, FaultProxy)> {
    let (from, to) = (Plot::on(bed, "gives").await?, Plot::on(bed, "takes").await?);
    let proxy = FaultProxy::rgw(&bed.ceph().endpoint).await?;
    let class = format!("proxied-{}", from.namespace);
    from.class(&class, json!({ "endpoint": proxy.endpoint() })).await?;
    from.claim(json!({ "s3ClassName": class })).await?;
    to.claim(json!({ "s3ClassName": class, "quota": { "size": "64Ki", "objects": 9, "buckets": 3 } })).await?;
    from.bucket("photos", json!({})).await?;
    from.bucket_says("photos", "True", "Provisioned").await;
    to.ready("data").await;
    from.s3("admin").await?.put_object("photos", "cat.jpg", vec![b'x'; 40 << 10]).await?;
    Ok((from, to, proxy))
}

#[tokio::test]
async fn a_migration_asks_again_what_its_target_has_stored_before_it_takes_that_for_nothing() -> Result<()> {
    let (from, to, proxy) = proxied(&world().await.bed).await?;
    let new = to.s3("admin").await?;
    new.create_bucket("own").await?;
    new.put_object("own", "dog.jpg", vec![b'x'; 40 << 10]).await?;
    // Neither bucket by bucket nor as a sum.
    let stats = || Match::verb("get").resource("/admin/bucket").subresource("stats&uid");
    let sum = || Match::verb("get").resource("/admin/user").subresource("stats&sync&uid");
    let hiccups = [stats(), sum()].map(|call| proxy.on(call).before(Action::Status(503)).always());
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    eventually("it to say what it waits for", || async {
        let told = message(&migrations(&from).get(&name).await?);
        anyhow::ensure!(told.contains("does not say what S3UserClaim"), "it says {told}");
        Ok(Some(()))
    })
    .await;
    assert!(hiccups.iter().all(|rule| rule.fired() > 0), "{:#?}", proxy.log());
    let owner = from.gateway().bucket(from.user_id("data").tenant(), "photos").await?.map(|bucket| bucket.owner);
    assert_eq!(owner, Some(from.user_id("data")), "nothing is moved on a guess");
    hiccups[1].remove();
    // The sum will do.
    wait::until("it to be told", 3 * PATIENCE, || async {
        let migration = migrations(&from).get(&name).await?;
        let is_over = migration.status.as_ref().is_some_and(|status| status.phase == Some(MigrationPhase::Failed));
        let told = message(&migration);
        anyhow::ensure!(is_over && told.contains("raise its spec.quota.size first"), "it says {told}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
async fn a_migration_that_is_over_does_nothing_more_whether_the_operator_or_the_wish_comes_again() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let (from, to, proxy) = proxied(&bed).await?;
    let name = migrate(&from, &to, &["photos"], json!({ "deleteCurrentUser": false })).await?;
    let ended = ends(&from, &name, MigrationPhase::Succeeded).await;
    from.ready("data").await;
    to.bucket_says("photos", "True", "Provisioned").await;
    let bucket = async || to.gateway().bucket(to.user_id("data").tenant(), "photos").await;
    let before = bucket().await?.context("a bucket")?;
    drop(operator);
    proxy.clear_log();
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    // The same wish once more, by another name: what it asks for is not there any more.
    let spec = json!(ended.spec);
    apply(&migrations(&from), "again", json!({ "spec": spec })).await?;
    let told = message(&ends(&from, "again", MigrationPhase::Failed).await);
    assert!(told.contains("nothing was moved: photos: there is no such bucket"), "{told}");
    let writes: Vec<_> = proxy.writes().into_iter().map(|seen| seen.request.to_string()).collect();
    assert!(writes.is_empty(), "the gateway was told to do something: {writes:#?}");
    let now = migrations(&from).get(&name).await?;
    assert_eq!(now.metadata.resource_version, ended.metadata.resource_version, "nothing is written either");
    let after = bucket().await?.context("a bucket")?;
    assert_eq!((after.id, after.owner, after.objects), (before.id, before.owner, before.objects));
    assert!(to.s3("admin").await?.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}

/// Two plots whose claims are served by a class of their own behind a proxy, which purges; the first has two buckets to retain, with
/// 10 KiB each.
async fn on_their_way() -> Result<(Plot<'static>, Plot<'static>, FaultProxy)> {
    let (from, to) = (Plot::new("departs").await?, Plot::new("arrives").await?);
    let proxy = FaultProxy::rgw(&from.ceph.endpoint).await?;
    let class = format!("way-{}", from.namespace);
    from.class(&class, json!({ "endpoint": proxy.endpoint(), "onDelete": "Purge" })).await?;
    for (plot, size) in [(&from, "1Mi"), (&to, "64Ki")] {
        let quota = json!({ "size": size, "objects": 9, "buckets": 3 });
        plot.claim(json!({ "s3ClassName": class, "quota": quota })).await?;
        plot.ready("data").await;
    }
    let s3 = from.s3("admin").await?;
    for bucket in ["early", "late"] {
        from.bucket(bucket, json!({ "s3DeletionPolicy": "retain" })).await?;
        from.bucket_says(bucket, "True", "Provisioned").await;
        s3.put_object(bucket, "cat.jpg", vec![b'x'; 10 << 10]).await?;
    }
    Ok((from, to, proxy))
}

/// Moves both, and stops before the first one is linked.
async fn begun(from: &Plot<'_>, to: &Plot<'_>, proxy: &FaultProxy) -> Result<(String, Rule)> {
    let link = proxy.on(Match::verb("put").resource("/admin/bucket")).before(Action::Hold);
    let name = migrate(from, to, &["early", "late"], json!({})).await?;
    eventually("the first one to be on its way", || async { Ok((link.fired() > 0).then_some(())) }).await;
    Ok((name, link))
}

/// Whose bucket it is, and how many objects are in it.
async fn found(plot: &Plot<'_>, bucket: &str) -> Result<Option<(UserId, u64)>> {
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), bucket).await?;
    Ok(bucket.map(|bucket| (bucket.owner, bucket.objects)))
}

#[tokio::test]
async fn a_target_claim_that_is_deleted_meanwhile_destroys_nothing_that_was_moved() -> Result<()> {
    let (from, to, proxy) = on_their_way().await?;
    let (name, link) = begun(&from, &to, &proxy).await?;
    to.claims().delete("data", &DeleteParams::default()).await?;
    link.release();
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("1 of 2 buckets are moved; late: S3UserClaim") && told.contains("gone, or going"), "{told}");
    gone(&to.claims(), "data").await;
    assert_eq!(found(&to, "early").await?, Some((to.user_id("data"), 1)), "what was moved there is purged");
    let kept = to.users().get(&to.record_name("data")).await?.status.unwrap_or_default().kept_buckets;
    assert_eq!(kept, ["early"]);
    assert_eq!(found(&from, "late").await?, Some((from.user_id("data"), 1)));
    from.bucket_says("late", "True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_grew_meanwhile_stays_where_it_is() -> Result<()> {
    let (from, to, proxy) = on_their_way().await?;
    let (name, link) = begun(&from, &to, &proxy).await?;
    from.s3("admin").await?.put_object("late", "dog.jpg", vec![b'x'; 50 << 10]).await?;
    link.release();
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("late: S3UserClaim") && told.contains("raise its spec.quota.size first"), "{told}");
    assert_eq!(found(&to, "early").await?, Some((to.user_id("data"), 1)));
    assert_eq!(found(&from, "late").await?, Some((from.user_id("data"), 2)));
    from.bucket_says("late", "True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_lifecycle_that_the_gateway_does_not_take_back_holds_up_no_migration() -> Result<()> {
    let (from, to, proxy) = on_their_way().await?;
    let rule = LifecycleRule {
        id: "mine".into(),
        prefix: "old/".into(),
        enabled: true,
        expiration_days: Some(3),
        noncurrent_expiration_days: None,
        abort_multipart_days: None,
    };
    from.s3("admin").await?.put_bucket_lifecycle("late", &Lifecycle { rules: vec![rule], others: vec![] }).await?;
    let refused = proxy.on(Match::verb("put").subresource("lifecycle")).before(Action::Status(400)).always();
    let name = migrate(&from, &to, &["early", "late"], json!({})).await?;
    let buckets = ends(&from, &name, MigrationPhase::Succeeded).await.status.unwrap_or_default().buckets;
    assert!(refused.fired() > 0, "{:#?}", proxy.log());
    let told = buckets.iter().find(|it| it.name == "late").and_then(|it| it.message.clone()).unwrap_or_default();
    assert!(told.contains("does not go on with its lifecycle before its new owner sets that again"), "{told}");
    Ok(())
}
