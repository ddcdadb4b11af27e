//! What a gateway is asked: no more than is needed, and nothing that others pay for.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use croft_rgw::UserChange;
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match, Seen},
};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, gone, world},
    quota::ledger,
    support::{PATIENCE, World, eventually},
};

/// For so long a gateway at rest is watched.
const BUSY: Duration = Duration::from_secs(20);

/// A plot with a class of its own behind a proxy.
async fn proxied(prefix: &str) -> Result<(Plot<'static>, String, FaultProxy)> {
    proxied_on(&world().await.bed, prefix).await
}

/// The same, somewhere else than in the world all tests share.
async fn proxied_on<'a>(bed: &'a Testbed, prefix: &str) -> Result<(Plot<'a>, String, FaultProxy)> {
    let plot = Plot::on(bed, prefix).await?;
    let proxy = FaultProxy::rgw(&bed.ceph().endpoint).await?;
    let class = format!("{prefix}-{}", plot.namespace);
    plot.class(&class, json!({ "endpoint": proxy.endpoint() })).await?;
    eventually("the class to be ready", || async {
        let conditions = plot.classes().get(&class).await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True").then_some(()))
    })
    .await;
    Ok((plot, class, proxy))
}

fn about_users(proxy: &FaultProxy) -> Vec<String> {
    let log = proxy.log();
    // A class that is looked at asks for the administrator, by its key.
    let is_probe = |names: &Option<String>| names.as_deref().is_some_and(|names| !names.contains("uid"));
    let users = log.iter().filter(|seen| seen.request.resource == "/admin/user");
    users.filter(|seen| !is_probe(&seen.request.subresource)).map(|seen| seen.request.to_string()).collect()
}

#[tokio::test]
async fn a_new_claim_takes_four_calls_to_its_gateway() -> Result<()> {
    let (plot, class, proxy) = proxied("four").await?;
    proxy.clear_log();
    for number in 0..5 {
        let name = format!("c{number}");
        let secrets = json!({ "s3ClassName": class, "adminSecretName": format!("a{number}"), "readSecretName": format!("r{number}") });
        plot.claim_called(&name, secrets).await?;
        plot.ready(&name).await;
    }
    let calls = about_users(&proxy);
    assert_eq!(calls.len(), 20, "user, quota, subuser, and the keys read back, for each: {calls:#?}");
    Ok(())
}

#[tokio::test]
async fn however_often_a_claim_is_looked_at_the_gateway_counts_what_it_stores_now_and_then() -> Result<()> {
    let (plot, class, proxy) = proxied("counts").await?;
    let asks = |quota: Value| plot.claim(json!({ "s3ClassName": class, "quota": quota }));
    asks(json!({ "size": "64Ki", "objects": 9, "buckets": 1 })).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", vec![b'x'; 40 << 10]).await?;
    // From now on more is booked than it may have: what is stored.
    asks(json!({ "size": 0, "objects": 0, "buckets": 0 })).await?;
    let (books, entry) = (format!("namespace.{}", plot.namespace), format!("{}/data", plot.namespace));
    eventually("what is stored to be all that is booked", || async {
        let stored = ledger(&plot, &books).await?.and_then(|books| books.spec.entries.get(&entry)?.stored);
        Ok(stored.is_some_and(|stored| stored.size == 40 << 10).then_some(()))
    })
    .await;
    proxy.clear_log();
    for _ in 0..20 {
        let read = plot.secrets().get("read").await?.metadata.uid;
        plot.secrets().delete("read", &DeleteParams::default()).await?;
        eventually("the Secret to be back", || async {
            Ok(plot.secrets().get_opt("read").await?.filter(|secret| secret.metadata.uid != read))
        })
        .await;
    }
    let log = proxy.log();
    let counts = |seen: &&Seen| seen.request.subresource.as_deref() == Some("stats&uid");
    let (looks, counted) = (about_users(&proxy).len(), log.iter().filter(counts).count());
    assert!(looks >= 20 && counted <= 6, "{counted} times in {looks} looks");
    Ok(())
}

/// What is booked for the claim `data`, in bytes.
async fn booked(plot: &Plot<'_>) -> Result<i64> {
    let (books, entry) = (format!("namespace.{}", plot.namespace), format!("{}/data", plot.namespace));
    let booked = ledger(plot, &books).await?.and_then(|books| books.spec.entries.get(&entry).cloned());
    let booked = booked.context("an entry")?;
    Ok([booked.granted, booked.stored].into_iter().flatten().map(|amount| amount.size).max().unwrap_or_default())
}

#[tokio::test]
async fn nothing_is_given_back_while_nobody_knows_of_a_bucket_the_gateway_leaves_out_of_its_count() -> Result<()> {
    let (plot, class, proxy) = proxied("left-out").await?;
    let asks = |size: u64| plot.claim(json!({ "s3ClassName": class, "quota": { "size": size, "buckets": 2 } }));
    asks(10 << 20).await?;
    plot.ready("data").await;
    // The user's list names what the gateway cannot look into.
    let (s3, user) = (plot.s3("admin").await?, plot.user_id("data").to_string());
    s3.create_bucket("unseen").await?;
    plot.ceph.copy_bucket_entry("unseen", &user).await?;
    s3.delete_bucket("unseen").await?;
    plot.ceph.put_bucket_entry("unseen", &user).await?;
    let single = Match::verb("get").resource("/admin/bucket").subresource("bucket&stats");
    let silent = proxy.on(single).before(Action::Status(503)).always();
    proxy.clear_log();
    asks(1 << 20).await?;
    plot.ready("data").await;
    // Whatever the first look led to is done when the second begins.
    eventually("the gateway to be asked twice", || async {
        let counts = |seen: &&Seen| seen.request.subresource.as_deref() == Some("stats&uid");
        Ok((proxy.log().iter().filter(counts).count() >= 2).then_some(()))
    })
    .await;
    assert!(silent.fired() > 0, "{:#?}", proxy.log());
    assert_eq!(booked(&plot).await?, 10 << 20, "nobody knows what is stored");
    // There is no such bucket, so there is nothing in it.
    silent.remove();
    eventually("the rest to be free", || async { Ok((booked(&plot).await? == 1 << 20).then_some(())) }).await;
    Ok(())
}

#[tokio::test]
async fn a_claim_goes_although_the_gateway_cannot_look_into_one_of_its_buckets() -> Result<()> {
    let (plot, class, proxy) = proxied("broken").await?;
    plot.claim(json!({ "s3ClassName": class, "quota": { "buckets": 2 } })).await?;
    plot.ready("data").await;
    let (s3, user) = (plot.s3("admin").await?, plot.user_id("data"));
    s3.create_bucket("broken").await?;
    plot.ceph.copy_bucket_entry("broken", &user.to_string()).await?;
    s3.delete_bucket("broken").await?;
    // Ceph suspends nobody whose list names what it cannot look into.
    plot.gateway().modify_user(&user, &UserChange { suspended: Some(true), ..UserChange::default() }).await?;
    plot.ceph.put_bucket_entry("broken", &user.to_string()).await?;
    let single = Match::verb("get").resource("/admin/bucket").subresource("bucket&stats");
    let silent = proxy.on(single).before(Action::Status(500)).always();
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    assert!(silent.fired() > 0, "{:#?}", proxy.log());
    assert!(plot.gateway().user(&user).await?.is_some(), "what may hold something is kept, and so is whose it is");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_counted_bucket_by_bucket_is_given_back_by_its_sum() -> Result<()> {
    let (plot, class, proxy) = proxied("summed").await?;
    let asks = |size: u64| plot.claim(json!({ "s3ClassName": class, "quota": { "size": size, "buckets": 1 } }));
    asks(10 << 20).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    s3.create_bucket("photos").await?;
    s3.put_object("photos", "cat.jpg", vec![b'x'; 40 << 10]).await?;
    // As where there are so many that it takes longer than anybody waits.
    let each = Match::verb("get").resource("/admin/bucket").subresource("stats&uid");
    let slow = proxy.on(each).before(Action::Status(503)).always();
    asks(20 << 10).await?;
    eventually("what is stored to be all that is booked", || async {
        Ok((booked(&plot).await? == 40 << 10).then_some(()))
    })
    .await;
    assert!(slow.fired() > 0, "{:#?}", proxy.log());
    Ok(())
}

/// Kinds this API server does not serve: from time to time it is asked whether it does by now.
const UNSERVED: [&str; 3] = ["velero.io", "quota.openshift.io", "dataprotectionapplications"];

/// What the API server was asked, but for leases and events: verb and kind, in order of the alphabet.
fn asked(proxy: &FaultProxy) -> Vec<String> {
    let log = proxy.log();
    let counts = log.iter().map(|seen| &seen.request).filter(|request| {
        // What is asked for no kind asks which kinds there are.
        let is_discovery = request.resource.is_empty() || request.resource.ends_with('/');
        let is_served = !is_discovery && !UNSERVED.iter().any(|kind| request.resource.contains(kind));
        request.is_deliberate_write()
            || (!request.write && is_served && !matches!(request.verb.as_str(), "watch" | "other"))
    });
    let mut asked: Vec<_> = counts
        .map(|request| {
            let kind = request.resource.rsplit('/').next().unwrap_or_default();
            let part = request.subresource.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
            format!("{} {kind}{part}", request.verb)
        })
        .collect();
    asked.sort();
    asked
}

#[tokio::test]
async fn a_new_claim_takes_as_many_calls_to_the_api_server_as_it_leaves_objects_and_its_quota_two_looks() -> Result<()>
{
    let (bed, installed) = Box::pin(World::installed(Testbed::kubernetes().with_ceph())).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "proxied", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    let plot = Plot::on(&bed, "counted").await?;
    // The first one finds no ledger.
    for name in ["first", "second"] {
        proxy.clear_log();
        let secrets = (format!("{name}-a"), format!("{name}-r"));
        plot.claim_called(name, json!({ "adminSecretName": secrets.0, "readSecretName": secrets.1 })).await?;
        plot.ready(name).await;
    }
    let quota = ["get namespaces", "list resourcequotas", "update s3quotaledgers"];
    let mut expected: Vec<_> = quota.iter().flat_map(|call| [*call, *call]).collect();
    expected.extend(["create s3users", "create secrets", "create secrets"]);
    expected.extend(["patch s3userclaims", "update s3userclaims/status", "update s3users/status"]);
    expected.sort_unstable();
    assert_eq!(asked(&proxy), expected);
    Ok(())
}

#[tokio::test]
async fn a_gateway_whose_claims_have_what_they_ask_for_is_asked_nothing_however_busy_another_is() -> Result<()> {
    // In a world that is older than ten minutes everybody is looked at now and then.
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let (plot, class, proxy) = proxied_on(&world.bed, "atrest").await?;
    for number in 0..5 {
        let name = format!("c{number}");
        let secrets = json!({ "s3ClassName": class, "adminSecretName": format!("a{number}"), "readSecretName": format!("r{number}") });
        plot.claim_called(&name, secrets).await?;
        plot.bucket(&format!("bucket-{number}"), json!({ "s3UserRef": name })).await?;
    }
    for number in 0..5 {
        plot.ready(&format!("c{number}")).await;
        plot.bucket_says(&format!("bucket-{number}"), "True", "Provisioned").await;
    }
    // What others in the namespace do is none of their business: claims and buckets of another class come, change and go.
    let come_and_go = async || -> Result<()> {
        plot.claim_called("other", json!({ "adminSecretName": "a", "readSecretName": "r" })).await?;
        plot.bucket("others", json!({ "s3UserRef": "other" })).await?;
        plot.bucket_says("others", "True", "Provisioned").await;
        plot.buckets().delete("others", &DeleteParams::default()).await?;
        gone(&plot.buckets(), "others").await;
        plot.claims().delete("other", &DeleteParams::default()).await?;
        gone(&plot.claims(), "other").await;
        Ok(())
    };
    // What there is left to look at after they became ready is looked at while the first one comes and goes.
    come_and_go().await?;
    proxy.clear_log();
    let busy = Instant::now();
    while busy.elapsed() < BUSY {
        come_and_go().await?;
    }
    // A class is looked at by itself: the administrator by its key, its buckets, and what Ceph it is.
    let is_probe = |seen: &Seen| {
        let names = seen.request.subresource.as_deref().unwrap_or_default();
        match seen.request.resource.as_str() {
            "/admin/info" => true,
            "/admin/user" => !names.contains("uid"),
            "/admin/bucket" => !names.contains("stats"),
            _ => false,
        }
    };
    let log = proxy.log();
    let asked: Vec<_> = log.iter().filter(|seen| !is_probe(seen)).map(|seen| seen.request.to_string()).collect();
    assert!(asked.is_empty(), "{asked:#?}");
    Ok(())
}

#[tokio::test]
async fn a_user_whose_buckets_cannot_be_listed_lets_nobody_in_and_holds_up_no_namespace() -> Result<()> {
    let (plot, class, proxy) = proxied("unlisted").await?;
    plot.claim(json!({ "s3ClassName": class, "quota": { "size": "1Gi", "objects": "10", "buckets": 3 } })).await?;
    plot.ready("data").await;
    plot.s3("admin").await?.create_bucket("mine").await?;
    let keys = plot.s3("admin").await?;
    // As one answers that will not tell.
    let rule = proxy
        .on(Match::verb("get").resource("/admin/bucket").subresource("stats&uid"))
        .before(Action::Status(403))
        .always();
    plot.delete_namespace().await?;
    plot.namespace_is_gone().await;
    eventually("the user to be suspended", || async {
        Ok(plot.user("data").await?.is_none_or(|user| user.suspended).then_some(()))
    })
    .await;
    assert!(keys.put_object("mine", "x", "y").await.is_err(), "the keys of a namespace that is gone open nothing");
    assert!(rule.fired() > 0, "{:#?}", proxy.log());
    rule.remove();
    eventually("the user to be kept with its bucket", || async {
        let user = plot.users().get(&plot.record_name("data")).await?;
        Ok(user.status.unwrap_or_default().phase.filter(|it| *it == croft_api::storage::S3UserPhase::Released))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_claim_that_waits_for_its_class_has_its_promise_rewritten_by_nobody() -> Result<()> {
    let plot = Plot::new("patient").await?;
    plot.claim(json!({ "s3ClassName": "nobody-made-it" })).await?;
    plot.claim_says("data", "False", "ClassNotFound").await;
    let (books, entry) = (format!("namespace.{}", plot.namespace), format!("{}/data", plot.namespace));
    let ledgers: kube::Api<croft_api::storage::S3QuotaLedger> = kube::Api::all(plot.client.clone());
    // Two minutes pass.
    let ghost = format!("{}/ghost", plot.namespace);
    let mut stored = ledgers.get(&books).await?;
    let promise = stored.spec.entries.get_mut(&entry).context("a promise")?;
    promise.reserved_at = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z"))?);
    let promise = promise.clone();
    // Beside it stands one that nobody can keep: once it is gone, the keeper has looked at both.
    stored.spec.entries.insert(ghost.clone(), promise);
    ledgers.replace(&books, &PostParams::default(), &stored).await?;
    plot.claim_called("other", json!({ "adminSecretName": "a", "readSecretName": "r" })).await?;
    plot.ready("other").await;
    plot.claims().delete("other", &DeleteParams::default()).await?;
    gone(&plot.claims(), "other").await;
    eventually("the keeper to have looked", || async {
        Ok((!ledgers.get(&books).await?.spec.entries.contains_key(&ghost)).then_some(()))
    })
    .await;
    let stored = ledgers.get(&books).await?;
    let promise = stored.spec.entries.get(&entry).and_then(|entry| entry.reserved_at.clone());
    assert_eq!(
        json!(promise),
        json!("2026-01-01T00:00:00Z"),
        "what it asks for stays promised, and nothing is written"
    );
    Ok(())
}
