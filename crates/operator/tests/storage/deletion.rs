//! Deleting a claim: nothing of value is lost by surprise, nothing is left for nothing, nothing hangs.

use anyhow::Result;
use croft_api::storage::S3UserPhase;
use croft_core::storage::{claim::LISTED, door::BUCKETS_FIRST};
use croft_rgw::UserChange;
use croft_testbed::{
    fault::{Action, FaultProxy, Match, Seen},
    wait,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::{
    plot::{Plot, gone},
    support::{PATIENCE, eventually},
};

async fn delete_claim(plot: &Plot<'_>) -> Result<()> {
    plot.claims().delete("data", &DeleteParams::default()).await?;
    Ok(())
}

/// Waits until the S3User says that its claim is gone and its buckets are kept.
async fn released(plot: &Plot<'_>) {
    eventually("the S3User to be released", || async {
        let user = plot.users().get(&plot.record_name("data")).await?;
        Ok((user.status.and_then(|status| status.phase) == Some(S3UserPhase::Released)).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn deleting_a_claim_removes_the_ceph_user() -> Result<()> {
    let plot = Plot::new("remove").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    assert_eq!(plot.user("data").await?, None);
    gone(&plot.users(), &plot.record_name("data")).await;
    // Kubernetes' own garbage collector learns of new kinds every 30 s only.
    let secrets = plot.secrets();
    wait::until_true("the Secret to go with its claim", 3 * PATIENCE, || async {
        Ok(secrets.get_opt("admin").await?.is_none())
    })
    .await
}

#[tokio::test]
async fn deleting_a_claim_with_data_suspends_the_user_and_keeps_the_data() -> Result<()> {
    let plot = Plot::new("keep").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    assert!(plot.user("data").await?.expect("the user is kept").suspended);
    assert!(s3.get_object("photos", "cat.jpg").await.is_err(), "a suspended user's keys do not work");
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1));

    // A claim of the same name is another claim: it does not get the data.
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    assert!(plot.user("data").await?.expect("the user is kept").suspended);
    Ok(())
}

#[tokio::test]
async fn deleting_a_claim_of_a_purging_class_removes_the_data() -> Result<()> {
    let plot = Plot::new("purge").await?;
    let class = format!("purge-{}", plot.namespace);
    plot.class(&class, json!({ "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    assert_eq!(plot.user("data").await?, None);
    assert_eq!(plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?, None);
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}

#[tokio::test]
async fn a_retained_bucket_outlives_a_purge_although_its_s3user_was_removed_and_made_anew() -> Result<()> {
    let plot = Plot::new("anew").await?;
    let class = format!("purge-{}", plot.namespace);
    plot.class(&class, json!({ "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.bucket("drafts", json!({})).await?;
    for bucket in ["photos", "drafts"] {
        plot.bucket_says(bucket, "True", "Provisioned").await;
    }
    let s3 = plot.s3("admin").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    let record = plot.record_name("data");
    let before = plot.users().get(&record).await?;
    plot.users().delete(&record, &DeleteParams::default()).await?;
    eventually("the S3User made anew to keep what no S3Bucket answers for", || async {
        let user = plot.users().get_opt(&record).await?.filter(|user| user.metadata.uid != before.metadata.uid);
        let kept = user.and_then(|user| user.status).unwrap_or_default().kept_buckets;
        Ok((kept == ["photos"]).then_some(()))
    })
    .await;
    plot.buckets().delete("drafts", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "drafts").await;
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1), "retained");
    Ok(())
}

#[tokio::test]
async fn a_user_with_more_kept_buckets_than_its_s3user_lists_is_never_purged() -> Result<()> {
    let plot = Plot::new("many").await?;
    let class = format!("purge-{}", plot.namespace);
    plot.class(&class, json!({ "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class, "quota": { "buckets": 5 } })).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let s3 = plot.s3("admin").await?;
    for name in ["photos", "early"] {
        s3.create_bucket(name).await?;
        s3.put_object(name, "cat.jpg", "meow").await?;
    }
    // As if a thousand had been made, kept and removed over S3.
    let record = plot.record_name("data");
    let mut names: Vec<_> = (1..LISTED).map(|number| format!("kept-{number}")).collect();
    names.push("early".to_owned());
    let listed = Patch::Merge(json!({ "status": { "keptBuckets": names } }));
    plot.users().patch_status(&record, &PatchParams::default(), &listed).await?;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    let status = plot.users().get(&record).await?.status.unwrap_or_default();
    assert!(status.keeps_all_buckets && status.kept_buckets.is_empty(), "{status:?}");
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    let status = plot.users().get(&record).await?.status.unwrap_or_default();
    assert_eq!((status.keeps_all_buckets, status.kept_buckets), (false, vec!["early".to_owned(), "photos".to_owned()]));
    for name in ["early", "photos"] {
        let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), name).await?;
        assert_eq!(bucket.map(|bucket| bucket.objects), Some(1), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_that_can_make_no_s3user_and_its_bucket_on_the_way_out_do_not_wait_for_each_other() -> Result<()> {
    for policy in ["retain", "delete"] {
        wait_for_nothing(policy).await?;
    }
    Ok(())
}

async fn wait_for_nothing(policy: &str) -> Result<()> {
    let plot = Plot::new("barred").await?;
    let class = format!("barred-{}", plot.namespace);
    plot.class(&class, json!({})).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": policy })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("admin").await?.put_object("photos", "cat.jpg", "meow").await?;
    // The class no longer serves the namespace, and an administrator removes the S3User.
    let nobody = json!({ "allowedNamespaces": { "matchLabels": { "is": "elsewhere" } } });
    plot.class(&class, nobody).await?;
    plot.claim_says("data", "False", "NotAllowed").await;
    let record = plot.record_name("data");
    plot.users().delete(&record, &DeleteParams::default()).await?;
    gone(&plot.users(), &record).await;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    plot.bucket_says("photos", "False", "WaitingForClaim").await;
    // As its message says.
    delete_claim(&plot).await?;
    gone(&plot.buckets(), "photos").await;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1), "nobody asked to remove what is in it");
    Ok(())
}

#[tokio::test]
async fn a_claim_and_its_bucket_go_although_somebody_removed_the_user_in_ceph() -> Result<()> {
    let plot = Plot::new("userless").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    delete_claim(&plot.seen_by_the_cluster()?).await?;
    plot.claim_says("data", "False", "BucketsInUse").await;
    plot.gateway().remove_bucket(plot.user_id("data").tenant(), "photos", true).await?;
    plot.gateway().remove_user(&plot.user_id("data"), false).await?;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    gone(&plot.claims(), "data").await;
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}

#[tokio::test]
async fn a_purge_ends_although_the_users_list_names_a_bucket_that_is_gone() -> Result<()> {
    let plot = Plot::new("ghost").await?;
    let class = format!("ghost-{}", plot.namespace);
    plot.class(&class, json!({ "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class, "quota": { "buckets": 3 } })).await?;
    plot.ready("data").await;
    let (s3, id) = (plot.s3("admin").await?, plot.user_id("data"));
    for bucket in ["ghost", "real"] {
        s3.create_bucket(bucket).await?;
    }
    s3.put_object("real", "cat.jpg", "meow").await?;
    plot.ceph.copy_bucket_entry("ghost", &id.to_string()).await?;
    s3.delete_bucket("ghost").await?;
    // Ceph suspends nobody whose list names what is not there.
    plot.gateway().modify_user(&id, &UserChange { suspended: Some(true), ..UserChange::default() }).await?;
    plot.ceph.put_bucket_entry("ghost", &id.to_string()).await?;
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    assert_eq!(plot.gateway().bucket(id.tenant(), "real").await?, None, "purged as the class says");
    assert!(kept(&plot).await?.is_empty());
    let status = plot.users().get(&plot.record_name("data")).await?.status.unwrap_or_default();
    let told = status.conditions.iter().find(|it| it.type_ == "Ready").map(|it| it.message.as_str());
    assert!(told.is_some_and(|told| told.contains("not there any more") && told.contains("ghost")), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_claim_waits_for_its_buckets_to_go_first() -> Result<()> {
    let plot = Plot::new("order").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let refused = plot.claims().delete("data", &DeleteParams::default()).await.expect_err("a person is told to wait");
    let kube::Error::Api(refused) = refused else { panic!("{refused}") };
    assert_eq!((refused.code, refused.reason.as_str()), (400, "BadRequest"), "nobody tries that again: {refused:?}");
    assert!(refused.message.contains(BUCKETS_FIRST), "{refused:?}");
    delete_claim(&plot.seen_by_the_cluster()?).await?;
    plot.claim_says("data", "False", "BucketsInUse").await;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    gone(&plot.claims(), "data").await;
    plot.user_is_gone("data").await;
    Ok(())
}

#[tokio::test]
async fn a_claim_whose_buckets_are_gone_may_be_deleted_by_anybody() -> Result<()> {
    let plot = Plot::new("emptied").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    assert!(delete_claim(&plot).await.is_err());
    let all = plot.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    assert!(all.expect_err("one by one or all at once").to_string().contains(BUCKETS_FIRST));
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    Ok(())
}

#[tokio::test]
async fn a_dying_namespace_takes_its_empty_storage_with_it() -> Result<()> {
    let plot = Plot::new("dying").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.delete_namespace().await?;
    plot.namespace_is_gone().await;
    plot.user_is_gone("data").await;
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}

#[tokio::test]
async fn a_dying_namespace_never_hangs_on_a_bucket_with_objects() -> Result<()> {
    let plot = Plot::new("filled").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("admin").await?.put_object("photos", "cat.jpg", "meow").await?;
    plot.delete_namespace().await?;
    plot.namespace_is_gone().await;
    released(&plot).await;
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1), "data is never lost by surprise");
    assert_eq!(kept(&plot).await?, ["photos"]);
    Ok(())
}

#[tokio::test]
async fn a_dying_namespace_never_hangs_on_a_class_that_is_gone() -> Result<()> {
    let plot = Plot::new("classless").await?;
    let class = format!("gone-{}", plot.namespace);
    plot.class(&class, json!({})).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.seen_by_the_cluster()?.classes().delete(&class, &DeleteParams::default()).await?;
    // It is in use and would stay: an administrator insists.
    let none = json!({ "metadata": { "finalizers": null } });
    plot.classes().patch(&class, &PatchParams::default(), &Patch::Merge(&none)).await?;
    gone(&plot.classes(), &class).await;
    plot.delete_namespace().await?;
    plot.namespace_is_gone().await;
    assert!(plot.user("data").await?.is_some(), "nobody could be asked");

    // The record remembers: when the class is back, the clean-up goes on, and an empty bucket is not kept for ever.
    plot.class(&class, json!({})).await?;
    plot.user_is_gone("data").await;
    gone(&plot.users(), &plot.record_name("data")).await;
    assert_eq!(plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?, None);
    Ok(())
}

#[tokio::test]
async fn a_purge_goes_bucket_by_bucket_and_never_touches_one_to_retain() -> Result<()> {
    let plot = Plot::new("spare").await?;
    let class = format!("spare-{}", plot.namespace);
    plot.class(&class, json!({ "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class, "quota": { "buckets": 5 } })).await?;
    plot.bucket("retained", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.bucket_says("retained", "True", "Provisioned").await;
    let s3 = plot.s3("admin").await?;
    for name in ["one-more", "and-another", "retained"] {
        s3.create_bucket(name).await?;
        s3.put_object(name, "cat.jpg", "meow").await?;
    }
    plot.buckets().delete("retained", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "retained").await;
    assert_eq!(kept(&plot).await?, ["retained"], "noted before the S3Bucket went");
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    assert_eq!(kept(&plot).await?, ["retained"]);
    assert!(plot.user("data").await?.expect("the user is kept").suspended);
    assert_eq!(plot.gateway().buckets_of(&plot.user_id("data")).await?, ["retained"]);
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "retained").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1));
    Ok(())
}

#[tokio::test]
async fn a_purge_does_not_touch_a_bucket_of_another_claim_that_is_on_the_users_list() -> Result<()> {
    let plot = Plot::new("twice").await?;
    let class = format!("twice-{}", plot.namespace);
    plot.class(&class, json!({ "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.claim_called("other", json!({ "s3ClassName": class, "adminSecretName": "others", "readSecretName": "reads" }))
        .await?;
    plot.ready("data").await;
    plot.ready("other").await;
    let (mine, others) = (plot.s3("admin").await?, plot.s3("others").await?);
    mine.create_bucket("mine").await?;
    others.create_bucket("photos").await?;
    others.put_object("photos", "cat.jpg", "meow").await?;
    let (user, other) = (plot.user_id("data").to_string(), plot.user_id("other").to_string());
    plot.bed.ceph().list_bucket_twice("photos", &other, &user).await?;
    assert_eq!(plot.gateway().buckets_of(&plot.user_id("data")).await?, ["mine", "photos"]);
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    released(&plot).await;
    let bucket = async |name| plot.gateway().bucket(plot.user_id("data").tenant(), name).await;
    assert_eq!(bucket("photos").await?.map(|bucket| bucket.objects), Some(1));
    assert!(bucket("mine").await?.is_none(), "purged as the class says");
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_is_counted_as_empty_and_will_not_go_holds_up_no_claim_and_lets_nobody_in() -> Result<()> {
    let plot = Plot::new("miscounted").await?;
    let proxy = FaultProxy::rgw(&plot.ceph.endpoint).await?;
    let class = format!("miscounted-{}", plot.namespace);
    plot.class(&class, json!({ "endpoint": proxy.endpoint(), "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.ready("data").await;
    plot.s3("admin").await?.create_bucket("hollow").await?;
    proxy.clear_log();
    // As it answers whose count is wrong: what it takes for empty it will not remove as such.
    let refused = proxy.on(Match::verb("delete").resource("/admin/bucket")).before(Action::Status(409));
    delete_claim(&plot).await?;
    gone(&plot.claims(), "data").await;
    assert_eq!(refused.fired(), 1, "{:#?}", proxy.log());
    let log = proxy.log();
    let suspends = |seen: &Seen| seen.request.verb == "post" && seen.request.resource == "/admin/user";
    let removes = |seen: &Seen| seen.request.verb == "delete" && seen.request.resource == "/admin/bucket";
    let [first, next] = [log.iter().position(suspends), log.iter().position(removes)];
    assert!(first.is_some() && first < next, "somebody could still write: {log:#?}");
    assert_eq!(plot.user("data").await?, None);
    assert_eq!(plot.gateway().bucket(plot.user_id("data").tenant(), "hollow").await?, None, "purged after all");
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_never_was_is_kept_by_nobody_however_often_it_is_asked_for() -> Result<()> {
    let plot = Plot::new("never").await?;
    plot.claim(json!({ "quota": { "buckets": 1 } })).await?;
    plot.bucket("there", json!({})).await?;
    plot.bucket_says("there", "True", "Provisioned").await;
    for number in 0..3 {
        let name = format!("never-{number}");
        plot.bucket(&name, json!({ "s3DeletionPolicy": "retain" })).await?;
        plot.bucket_says(&name, "False", "TooManyBuckets").await;
        plot.buckets().delete(&name, &DeleteParams::default()).await?;
        gone(&plot.buckets(), &name).await;
    }
    assert!(kept(&plot).await?.is_empty(), "{:?}", kept(&plot).await?);
    Ok(())
}

/// What the S3User says is never removed.
async fn kept(plot: &Plot<'_>) -> Result<Vec<String>> {
    let user = plot.users().get(&plot.record_name("data")).await?;
    Ok(user.status.unwrap_or_default().kept_buckets)
}

#[tokio::test]
async fn a_claim_made_anew_and_the_bucket_of_the_one_before_do_not_wait_for_each_other() -> Result<()> {
    let plot = Plot::new("deadlock").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    delete_claim(&plot.seen_by_the_cluster()?).await?;
    plot.claim_says("data", "False", "BucketsInUse").await;
    let none = json!({ "metadata": { "finalizers": null } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&none)).await?;
    gone(&plot.claims(), "data").await;
    plot.claim(json!({})).await?;
    let told = plot.claim_says("data", "False", "BucketsInUse").await.status.unwrap_or_default();
    let ready = told.conditions.iter().find(|condition| condition.type_ == "Ready").expect("a condition");
    assert!(ready.message.contains("photos") && ready.message.contains("delete them"), "{}", ready.message);
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    // The Secrets of the claim before are Kubernetes' to collect, whose collector learns of new kinds every 30 s only.
    wait::until_true("the claim to be ready", 3 * PATIENCE, || async {
        let conditions = plot.claims().get("data").await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    })
    .await
}

#[tokio::test]
async fn a_kept_bucket_is_taken_back_by_its_s3bucket() -> Result<()> {
    let plot = Plot::new("back").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("admin").await?.put_object("photos", "cat.jpg", "meow").await?;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    assert_eq!(kept(&plot).await?, ["photos"]);
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    eventually("the bucket to be taken back", || async { Ok(kept(&plot).await?.is_empty().then_some(())) }).await;
    assert_eq!(plot.s3("admin").await?.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
    Ok(())
}

#[tokio::test]
async fn a_bucket_to_retain_waits_until_that_can_be_noted() -> Result<()> {
    let plot = Plot::new("unnoted").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let record = plot.record_name("data");
    let reference = plot.users().get(&record).await?.spec.claim_ref;
    let refer = async |to: serde_json::Value| {
        let edited = Patch::Merge(json!({ "spec": { "claimRef": to } }));
        plot.users().patch(&record, &PatchParams::default(), &edited).await
    };
    refer(json!(null)).await?;
    plot.claim_says("data", "False", "RecordTaken").await;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    plot.bucket_says("photos", "False", "RecordTaken").await;
    refer(json!(reference)).await?;
    gone(&plot.buckets(), "photos").await;
    let kept = plot.users().get(&record).await?.status.unwrap_or_default().kept_buckets;
    assert_eq!(kept, ["photos"]);
    Ok(())
}
