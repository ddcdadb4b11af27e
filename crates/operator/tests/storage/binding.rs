//! Which claim has which user: a released one is given away, taken over, restored, or comes back with its class.

use anyhow::Result;
use croft_api::{
    namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding},
    storage::S3UserPhase,
};
use croft_rgw::{Access, BucketLimit, NewUser, S3};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    plot::{Plot, apply, gone},
    support::eventually,
};

/// A claim with a bucket that has an S3Bucket and an object in it; gives the key it had then.
async fn furnished(plot: &Plot<'_>) -> Result<S3> {
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let s3 = plot.s3("admin").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    Ok(s3)
}

async fn takes_away(plot: &Plot<'_>) -> Result<()> {
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    phase(plot, S3UserPhase::Released).await;
    Ok(())
}

async fn phase(plot: &Plot<'_>, wanted: S3UserPhase) {
    eventually(&format!("the S3User to be {wanted:?}"), || async {
        let user = plot.users().get(&plot.record_name("data")).await?;
        Ok((user.status.and_then(|status| status.phase) == Some(wanted)).then_some(()))
    })
    .await;
}

/// An administrator gives the user to whichever claim has its name.
async fn give(plot: &Plot<'_>) -> Result<()> {
    let patch = json!({ "spec": { "claimRef": { "uid": null } } });
    plot.users().patch(&plot.record_name("data"), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Whoever has the Secret now reads what was stored, and whoever had the keys before is out.
async fn has_it_back(plot: &Plot<'_>, before: &S3) -> Result<()> {
    plot.ready("data").await;
    phase(plot, S3UserPhase::Bound).await;
    let user = plot.user("data").await?.expect("the user");
    assert!(!user.suspended);
    let uid = plot.claims().get("data").await?.metadata.uid.unwrap_or_default();
    assert_eq!(user.display_name, format!("data in {} [{uid}]", plot.namespace));
    let now = plot.s3("admin").await?;
    assert_eq!(now.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
    assert!(before.get_object("photos", "cat.jpg").await.is_err(), "the old key still works");
    assert_eq!(user.keys.len(), 2, "one key for the user and one for its reader");
    Ok(())
}

#[tokio::test]
async fn a_released_user_is_given_to_the_claim_of_its_name_by_an_administrator_and_by_nobody_else() -> Result<()> {
    let plot = Plot::new("again").await?;
    let before = furnished(&plot).await?;
    takes_away(&plot).await?;
    plot.claim(json!({})).await?;
    let told = plot.claim_says("data", "False", "UserTaken").await.status.unwrap_or_default().conditions;
    assert!(told.iter().any(|said| said.message.contains("spec.claimRef.uid")), "{told:?}");
    assert!(plot.user("data").await?.expect("the user").suspended);
    give(&plot).await?;
    has_it_back(&plot, &before).await?;

    // The bucket that was kept has its S3Bucket again.
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    eventually("the bucket to be taken back", || async {
        let status = plot.users().get(&plot.record_name("data")).await?.status.unwrap_or_default();
        Ok(status.kept_buckets.is_empty().then_some(()))
    })
    .await;
    let record = plot.users().get(&plot.record_name("data")).await?.spec;
    assert_eq!(record.taken_over_from, None);
    Ok(())
}

#[tokio::test]
async fn a_user_offered_before_the_claim_comes_waits_for_it() -> Result<()> {
    let plot = Plot::new("offered").await?;
    let before = furnished(&plot).await?;
    takes_away(&plot).await?;
    give(&plot).await?;
    plot.claim(json!({})).await?;
    has_it_back(&plot, &before).await
}

#[tokio::test]
async fn a_released_user_stays_where_its_class_is() -> Result<()> {
    let plot = Plot::new("elsewhere").await?;
    let class = format!("elsewhere-{}", plot.namespace);
    plot.class(&class, json!({})).await?;
    furnished(&plot).await?;
    takes_away(&plot).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    give(&plot).await?;
    eventually("the claim to tell which class it is", || async {
        let told = plot.claims().get("data").await?.status.unwrap_or_default().conditions;
        Ok(told.iter().any(|said| said.message.contains("is of S3Class default")).then_some(()))
    })
    .await;
    assert!(plot.user("data").await?.expect("the user").suspended);
    Ok(())
}

/// What a restore brings is without owners, UIDs and status, and comes in any order.
async fn restored(prefix: &str, claim_first: bool) -> Result<()> {
    let plot = Plot::new(prefix).await?;
    let before = furnished(&plot).await?;
    let (secret, record) = (plot.secrets().get("admin").await?, plot.users().get(&plot.record_name("data")).await?);
    takes_away(&plot).await?;
    gone_with_its_claim(&plot).await;
    plot.users().delete(&plot.record_name("data"), &DeleteParams::default()).await?;
    let copy = json!({ "metadata": { "labels": secret.metadata.labels }, "data": secret.data, "type": "Opaque" });
    apply(&plot.secrets(), "admin", copy).await?;
    let velero = plot.seen_by_velero().await?;
    eventually("the bucket to be brought back", || async {
        Ok(Some(velero.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?))
    })
    .await;
    if claim_first {
        // It makes an S3User of its own, so that the restore brings none.
        velero.claim(json!({})).await?;
        plot.claim_says("data", "False", "UserTaken").await;
        give(&plot).await?;
    } else {
        let mut spec = json!(record.spec);
        spec["claimRef"].as_object_mut().expect("a reference").remove("uid");
        apply(&plot.users(), &plot.record_name("data"), json!({ "spec": spec })).await?;
        velero.claim(json!({})).await?;
    }
    has_it_back(&plot, &before).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let owner = plot.secrets().get("admin").await?.metadata.owner_references.unwrap_or_default();
    assert_eq!(owner.first().and_then(|owner| owner.controller), Some(true), "the Secret is the claim's again");
    Ok(())
}

#[tokio::test]
async fn a_restored_claim_finds_its_user_by_the_restored_s3user() -> Result<()> {
    restored("restored", false).await
}

#[tokio::test]
async fn a_claim_restored_before_anything_else_finds_its_user_once_an_administrator_says_so() -> Result<()> {
    restored("first", true).await
}

async fn gone_with_its_claim(plot: &Plot<'_>) {
    // As a namespace that is gone leaves none.
    for secret in ["admin", "read"] {
        let _ = plot.secrets().delete(secret, &DeleteParams::default()).await;
        gone(&plot.secrets(), secret).await;
    }
}

/// What ceph-s3-operator leaves for the claim `data` in this namespace: user, subuser and bucket in Ceph.
async fn made_by_ceph_s3_operator(plot: &Plot<'_>) -> Result<S3> {
    let (gateway, id) = (plot.gateway(), plot.user_id("data"));
    let key = format!("THEIRS{}", plot.namespace.to_uppercase().replace('-', ""));
    let display_name = format!("data in {}.okd4-main", plot.namespace);
    let new = NewUser { id: id.clone(), display_name, max_buckets: BucketLimit::AtMost(5), access_key: key.clone() };
    let user = gateway.create_user(&new).await?;
    gateway.create_subuser(&id, "readonly", Access::Nothing, &format!("{key}RO")).await?;
    let s3 = gateway.s3(user.key(&key).expect("its key").credentials.clone());
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    Ok(s3)
}

#[tokio::test]
async fn a_user_of_ceph_s3_operator_is_taken_over_by_the_word_of_an_administrator() -> Result<()> {
    let plot = Plot::new("theirs").await?;
    let before = made_by_ceph_s3_operator(&plot).await?;
    plot.claim(json!({ "quota": { "buckets": 5 } })).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    assert!(before.get_object("photos", "cat.jpg").await?.is_some(), "nothing of theirs is touched");
    let adopt = json!({ "metadata": { "annotations": { "s3.snappcloud.io/adopt": "ceph-s3-operator" } } });
    plot.users().patch(&plot.record_name("data"), &PatchParams::default(), &Patch::Merge(&adopt)).await?;
    plot.ready("data").await;
    // It was the same claim's all along: who has the keys keeps them.
    assert!(before.get_object("photos", "cat.jpg").await?.is_some());
    assert!(plot.s3("read").await?.get_object("photos", "cat.jpg").await?.is_some(), "the read key reads");
    let user = plot.user("data").await?.expect("the user");
    assert!(user.display_name.ends_with(']') && user.keys.len() == 2, "{}", user.display_name);
    Ok(())
}

#[tokio::test]
async fn a_user_of_ceph_s3_operator_is_given_to_a_claim_of_another_cluster_with_new_keys() -> Result<()> {
    let plot = Plot::new("moved").await?;
    let before = made_by_ceph_s3_operator(&plot).await?;
    let record = json!({
        "metadata": { "annotations": { "s3.snappcloud.io/adopt": "ceph-s3-operator" } },
        "spec": { "s3ClassName": "default", "claimRef": { "namespace": plot.namespace, "name": "data" } },
    });
    apply(&plot.users(), &plot.record_name("data"), record).await?;
    plot.claim(json!({ "quota": { "buckets": 5 } })).await?;
    has_it_back(&plot, &before).await
}

#[tokio::test]
async fn no_tenant_can_say_whose_a_user_is() -> Result<()> {
    let plot = Plot::new("forged").await?;
    let before = made_by_ceph_s3_operator(&plot).await?;
    plot.claim(json!({})).await?;
    let adopt = json!({ "metadata": { "annotations": { "s3.snappcloud.io/adopt": "ceph-s3-operator" } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&adopt)).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    assert!(before.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}

/// A NamespaceClass with a claim and a bucket in it.
async fn class_with_storage(plot: &Plot<'_>) -> Result<String> {
    let name = format!("with-storage-{}", plot.namespace);
    let claim = json!({
        "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": "data" },
        "spec": { "adminSecretName": "admin", "readSecretName": "read" },
    });
    let bucket = json!({
        "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket", "metadata": { "name": "photos" },
        "spec": { "s3UserRef": "data" },
    });
    let classes: Api<NamespaceClass> = Api::all(plot.client.clone());
    apply(&classes, &name, json!({ "spec": { "resources": [claim, bucket] } })).await?;
    Ok(name)
}

async fn label(plot: &Plot<'_>, class: Option<&str>) -> Result<()> {
    let label = json!({ "metadata": { "labels": { CLASS_LABEL: class } } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
    Ok(())
}

async fn stamped(plot: &Plot<'_>, class: &str) -> Result<S3> {
    label(plot, Some(class)).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let s3 = plot.s3("admin").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    Ok(s3)
}

/// Nothing is left but what is stored.
async fn let_go(plot: &Plot<'_>) -> Result<()> {
    gone(&plot.buckets(), "photos").await;
    gone(&plot.claims(), "data").await;
    phase(plot, S3UserPhase::Released).await;
    let status = plot.users().get(&plot.record_name("data")).await?.status.unwrap_or_default();
    assert_eq!(status.kept_buckets, ["photos"]);
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1));
    Ok(())
}

/// Reasons of the events about an object.
async fn told(plot: &Plot<'_>, kind: &str) -> Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(plot.client.clone(), &plot.namespace);
    let events = events.list(&ListParams::default()).await?;
    let about = events.iter().filter(|event| event.regarding.as_ref().and_then(|it| it.kind.as_deref()) == Some(kind));
    Ok(about.filter_map(|event| event.reason.clone()).collect())
}

#[tokio::test]
async fn storage_of_a_class_goes_with_the_label_and_comes_back_with_its_data() -> Result<()> {
    let plot = Plot::new("relabel").await?;
    let class = class_with_storage(&plot).await?;
    let before = stamped(&plot, &class).await?;
    label(&plot, None).await?;
    let_go(&plot).await?;
    for kind in ["S3Bucket", "S3UserClaim"] {
        eventually(&format!("an event about the {kind}"), || async {
            Ok(told(&plot, kind).await?.contains(&"BucketsKept".to_owned()).then_some(()))
        })
        .await;
    }
    label(&plot, Some(&class)).await?;
    has_it_back(&plot, &before).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    eventually("the bucket to be taken back", || async {
        let status = plot.users().get(&plot.record_name("data")).await?.status.unwrap_or_default();
        Ok((status.kept_buckets.is_empty() && status.returns_to.is_none()).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn storage_of_a_class_comes_back_with_the_class_made_again() -> Result<()> {
    let plot = Plot::new("reclass").await?;
    let class = class_with_storage(&plot).await?;
    let before = stamped(&plot, &class).await?;
    let classes: Api<NamespaceClass> = Api::all(plot.client.clone());
    classes.delete(&class, &DeleteParams::default()).await?;
    let_go(&plot).await?;
    gone(&classes, &class).await;
    class_with_storage(&plot).await?;
    has_it_back(&plot, &before).await
}

#[tokio::test]
async fn what_a_class_took_away_is_not_for_a_claim_somebody_makes() -> Result<()> {
    let plot = Plot::new("grab").await?;
    let class = class_with_storage(&plot).await?;
    stamped(&plot, &class).await?;
    label(&plot, None).await?;
    let_go(&plot).await?;
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    assert!(plot.user("data").await?.expect("the user").suspended);
    Ok(())
}

#[tokio::test]
async fn what_a_class_took_away_is_not_for_a_claim_that_says_it_is_the_classs() -> Result<()> {
    let plot = Plot::new("forge").await?;
    let class = class_with_storage(&plot).await?;
    stamped(&plot, &class).await?;
    // The binding stays, and wants no storage any more.
    let classes: Api<NamespaceClass> = Api::all(plot.client.clone());
    apply(&classes, &class, json!({ "spec": { "resources": [] } })).await?;
    let_go(&plot).await?;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(plot.client.clone(), &plot.namespace);
    let binding = bindings.list(&ListParams::default()).await?.items.pop().expect("the binding");
    let owner = json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClassBinding", "controller": true,
        "name": binding.metadata.name, "uid": binding.metadata.uid,
    });
    let spec = json!({ "adminSecretName": "admin", "readSecretName": "read" });
    apply(&plot.claims(), "data", json!({ "metadata": { "ownerReferences": [owner] }, "spec": spec })).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    assert!(plot.user("data").await?.expect("the user").suspended);
    Ok(())
}

#[tokio::test]
async fn what_a_class_put_into_a_namespace_is_kept_when_that_goes_although_the_storage_class_says_purge() -> Result<()>
{
    let plot = Plot::new("withdrawn").await?;
    let storage = format!("purge-{}", plot.namespace);
    plot.class(&storage, json!({ "onDelete": "Purge" })).await?;
    let claim = json!({
        "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": "data" },
        "spec": { "s3ClassName": storage, "adminSecretName": "admin", "readSecretName": "read" },
    });
    let classes: Api<NamespaceClass> = Api::all(plot.client.clone());
    let name = format!("with-purge-{}", plot.namespace);
    apply(&classes, &name, json!({ "spec": { "resources": [claim] } })).await?;
    label(&plot, Some(&name)).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    plot.delete_namespace().await?;
    plot.namespace_is_gone().await;
    phase(&plot, S3UserPhase::Released).await;
    let bucket = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(bucket.map(|bucket| bucket.objects), Some(1), "nobody gave it up");
    Ok(())
}
