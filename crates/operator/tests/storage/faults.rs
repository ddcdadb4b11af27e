//! A gateway that is down, an operator that is down while somebody takes a finalizer off.

use anyhow::Result;
use croft_api::storage::S3UserClaim;
use croft_testbed::{Testbed, wait};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    plot::{Plot, gone},
    support::{PATIENCE, World, eventually},
};

#[tokio::test]
async fn an_outage_of_the_gateway_is_told_and_survived() -> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "outage").await?;
    world.bed.ceph().stop_gateway();
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "ClassNotReady").await;
    world.bed.ceph().start_gateway().await?;
    // Ceph waits 30 s for the gateway that is gone before it writes for the new one.
    wait::until_true("the claim to be ready", 3 * PATIENCE, || async {
        let conditions = plot.claims().get("data").await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    })
    .await?;
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!(user.keys.len(), 2, "calls that ended without an answer left no second key");
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_is_stopped_in_the_middle_of_many_things_leaves_nothing_half_done() -> Result<()> {
    const CLAIMS: usize = 8;
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "midway").await?;
    let name = |number: usize| format!("c{number}");
    let secrets = |number: usize| (format!("admin-{number}"), format!("read-{number}"));
    let claim = async |number: usize, objects: u32| -> Result<()> {
        let (admin, read) = secrets(number);
        let spec = json!({ "adminSecretName": admin, "readSecretName": read, "subusers": ["one"], "quota": { "objects": objects } });
        plot.claim_called(&name(number), spec).await
    };
    for number in 0..CLAIMS {
        claim(number, 10).await?;
    }
    plot.bucket("photos", json!({ "s3UserRef": name(0), "s3SubuserBinding": [{ "name": "one" }] })).await?;
    plot.ready(&name(0)).await;
    // While some are made one is changed, one is deleted, and the gateway dies as a process.
    claim(0, 20).await?;
    plot.claims().delete(&name(1), &DeleteParams::default()).await?;
    world.bed.ceph().stop_gateway();
    claim(2, 20).await?;
    eventually("the gateway to be missed", || async {
        let conditions = plot.classes().get("default").await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().any(|it| it.type_ == "Ready" && it.status == "False").then_some(()))
    })
    .await;
    world.bed.ceph().start_gateway().await?;
    // Ceph waits 30 s for the gateway that is gone before it writes for the new one.
    wait::until_true("everybody to have what he asks for", 4 * PATIENCE, || async {
        let claims = plot.claims().list(&ListParams::default()).await?.items;
        let is_ready = |claim: &S3UserClaim| {
            let told = claim.status.clone().unwrap_or_default().conditions;
            told.iter().any(|it| {
                it.type_ == "Ready" && it.status == "True" && it.observed_generation == claim.metadata.generation
            })
        };
        Ok(claims.len() == CLAIMS - 1 && claims.iter().all(is_ready))
    })
    .await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    assert_eq!(plot.user(&name(1)).await?, None, "nothing is left of the one that was deleted");
    gone(&plot.users(), &plot.record_name(&name(1))).await;
    for number in (0..CLAIMS).filter(|number| *number != 1) {
        let user = plot.user(&name(number)).await?.expect("a Ceph user");
        let objects = if [0, 2].contains(&number) { 20 } else { 10 };
        assert_eq!(user.user_quota.max_objects, Some(objects), "{}", name(number));
        let (admin, read) = secrets(number);
        for secret in [admin, read, format!("{}-one", name(number))] {
            let told = plot.secret(&secret).await?;
            let key = user.key(&told["accessKey"]).expect("a key that Ceph knows");
            assert_eq!(key.credentials.secret_key.expose(), told["secretKey"], "{secret}");
        }
        assert_eq!(user.keys.len(), 3, "calls that ended without an answer left no other key");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_that_ceph_lost_in_a_crash_is_replaced_and_that_is_said() -> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "lostkey").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("admin").await?.put_object("photos", "cat.jpg", "x").await?;
    let lost = plot.secret("admin").await?["accessKey"].clone();
    world.bed.ceph().stop_gateway();
    world.bed.ceph().lose("default.rgw.meta", "users.keys", &lost).await?;
    world.bed.ceph().start_gateway().await?;
    let old = plot.s3("admin").await?;
    wait::until_true("the key to be unknown", 3 * PATIENCE, || async {
        Ok(old.bucket_policy("photos").await.is_err_and(|error| error.reason() == "InvalidAccessKeyId"))
    })
    .await?;
    assert!(plot.user("data").await?.expect("a user").keys.iter().any(|key| key.credentials.access_key == lost));
    // Nothing is asked with the key until the bucket is looked at.
    plot.bucket("photos", json!({ "versioning": "enabled" })).await?;
    wait::until_true("the Secret to have another key", 3 * PATIENCE, || async {
        Ok(plot.secret("admin").await?["accessKey"] != lost)
    })
    .await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.ready("data").await;
    assert_eq!(plot.s3("admin").await?.get_object("photos", "cat.jpg").await?.as_deref(), Some(b"x".as_slice()));
    let keys = plot.user("data").await?.expect("a user").keys;
    assert!(keys.len() == 2 && keys.iter().all(|key| key.credentials.access_key != lost), "the lost one is gone");
    let events: Api<Event> = Api::namespaced(plot.client.clone(), &plot.namespace);
    eventually("somebody to be told", || async {
        let told = events.list(&ListParams::default()).await?.items;
        let is_told = |event: &Event| event.note.as_ref().is_some_and(|note| note.contains("the gateway lost the key"));
        Ok(told.iter().any(is_told).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_taken_off_by_hand_leaves_no_user_behind() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&bed, "stripped").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    drop(operator);
    // Admission goes on, storage does not.
    let door = installed.start(&bed, "door", &installed.identity.kubeconfig, &["--enable", "namespaces"])?;
    door.ready(PATIENCE).await?;
    let none = json!({ "metadata": { "finalizers": null } });
    eventually("the finalizer to be taken off", || async {
        Ok(Some(plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&none)).await?))
    })
    .await;
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    assert!(plot.user("data").await?.is_some());

    drop(door);
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    plot.user_is_gone("data").await;
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}
