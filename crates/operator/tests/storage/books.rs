//! The books and the records, whatever somebody writes into them.

use anyhow::Result;
use croft_api::storage::S3QuotaLedger;
use croft_testbed::{Testbed, fault::FaultProxy};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::Plot,
    quota::ledger,
    support::{PATIENCE, World, eventually},
};

/// A promise nobody confirmed, of some time ago.
fn old_promise() -> Value {
    json!({ "pending": { "size": 1, "objects": 1, "buckets": 0 }, "reservedAt": "2026-01-01T00:00:00Z" })
}

fn books_of(plot: &Plot<'_>) -> String {
    format!("namespace.{}", plot.namespace)
}

async fn write(plot: &Plot<'_>, spec: Value) -> Result<()> {
    let ledgers: Api<S3QuotaLedger> = Api::all(plot.client.clone());
    ledgers.patch(&books_of(plot), &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await?;
    Ok(())
}

/// Waits until just these have entries.
async fn entries_are(plot: &Plot<'_>, names: &[String]) {
    let wanted: Vec<_> = names.iter().map(|name| format!("{}/{name}", plot.namespace)).collect();
    eventually("only claims that are there to be in the books", || async {
        let books = ledger(plot, &books_of(plot)).await?.unwrap_or_default();
        let entries: Vec<_> = books.spec.entries.into_keys().collect();
        anyhow::ensure!(entries == wanted, "there are {entries:?}");
        Ok(Some(()))
    })
    .await;
}

#[tokio::test]
async fn an_entry_that_no_claim_can_have_stops_nobody_and_goes() -> Result<()> {
    let plot = Plot::new("stray").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let granted = json!({ "granted": { "size": 1, "objects": 1, "buckets": 0 } });
    let at = |name: &str| format!("{}/{name}", plot.namespace);
    let strays =
        json!({ at("b/c"): granted, at("Not A Name"): granted, "nowhere": granted, at("ghost"): old_promise() });
    write(&plot, json!({ "entries": strays })).await?;
    entries_are(&plot, &["data".to_owned()]).await;
    Ok(())
}

#[tokio::test]
async fn books_that_somebody_writes_another_name_into_are_put_right() -> Result<()> {
    let plot = Plot::new("mislabelled").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    write(&plot, json!({ "namespace": "elsewhere" })).await?;
    eventually("the books to say whose they are", || async {
        let spec = ledger(&plot, &books_of(&plot)).await?.unwrap_or_default().spec;
        anyhow::ensure!(spec.entries.len() == 1, "no claim was forgotten");
        Ok((spec.namespace.as_ref() == Some(&plot.namespace)).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_reference_of_an_s3user_that_somebody_edits_is_put_right_at_once() -> Result<()> {
    let plot = Plot::new("misnamed").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let before = plot.users().get(&plot.record_name("data")).await?;
    let keys = plot.user("data").await?.expect("a Ceph user").keys;
    for edit in [json!({ "name": "other" }), json!({ "namespace": "elsewhere" }), json!({ "uid": "of-nobody" })] {
        let edited = Patch::Merge(json!({ "spec": { "claimRef": edit } }));
        plot.users().patch(&plot.record_name("data"), &PatchParams::default(), &edited).await?;
        eventually("the S3User to name its claim", || async {
            let now = plot.users().get_opt(&plot.record_name("data")).await?;
            Ok(now.filter(|now| now.spec.claim_ref == before.spec.claim_ref))
        })
        .await;
    }
    plot.ready("data").await;
    assert_eq!(plot.user("data").await?.expect("a Ceph user").keys, keys, "nobody's keys are changed by that");
    Ok(())
}

#[tokio::test]
async fn where_the_data_of_a_user_is_cannot_be_edited() -> Result<()> {
    let plot = Plot::new("fixed").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    for (edit, told) in [
        (json!({ "cephUser": "elsewhere$data" }), "cephUser is immutable"),
        (json!({ "cephUser": null }), "cephUser is immutable"),
        (json!({ "s3ClassName": "another" }), "the class of a user is immutable"),
        (json!({ "s3ClassName": null, "s3UserClass": "another" }), "the class of a user is immutable"),
        (json!({ "s3ClassName": null, "s3UserClass": null }), "the class of a user is immutable"),
    ] {
        let edited = Patch::Merge(json!({ "spec": edit }));
        let refused = plot.users().patch(&plot.record_name("data"), &PatchParams::default(), &edited).await;
        let refused = refused.expect_err("it says where the data is").to_string();
        assert!(refused.contains(told), "{edit}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn an_s3user_that_names_another_claim_is_told_with_whom_and_made_anew_once_it_is_removed() -> Result<()> {
    let (plot, other) = (Plot::new("swapped").await?, Plot::new("swapped").await?);
    for plot in [&plot, &other] {
        plot.claim(json!({})).await?;
        plot.ready("data").await;
    }
    let theirs = plot.users().get(&other.record_name("data")).await?.spec.claim_ref;
    let swapped = Patch::Merge(json!({ "spec": { "claimRef": theirs } }));
    plot.users().patch(&plot.record_name("data"), &PatchParams::default(), &swapped).await?;
    let told = plot.claim_says("data", "False", "RecordTaken").await.status.unwrap_or_default().conditions;
    let named = format!("names S3UserClaim {}/data", other.namespace);
    assert!(told.iter().any(|it| it.message.contains(&named)), "{told:?}");
    plot.users().delete(&plot.record_name("data"), &DeleteParams::default()).await?;
    plot.ready("data").await;
    other.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn promises_to_claims_that_wait_are_asked_after_by_nobody() -> Result<()> {
    let (bed, installed) = Box::pin(World::installed(Testbed::kubernetes().with_ceph())).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "proxied", proxy.kubeconfig(), &[])?;
    operator.ready(PATIENCE).await?;
    let plot = Plot::on(&bed, "waiting").await?;
    let names: Vec<_> = (0..20).map(|number| format!("c{number:02}")).collect();
    for name in &names {
        let secrets = (format!("{name}-a"), format!("{name}-r"));
        let spec =
            json!({ "s3ClassName": "nobody-made-it", "adminSecretName": secrets.0, "readSecretName": secrets.1 });
        plot.claim_called(name, spec).await?;
        plot.claim_says(name, "False", "ClassNotFound").await;
    }
    entries_are(&plot, &names).await;
    // Two minutes pass, and there is one promise too many.
    let old = json!({ "reservedAt": "2026-01-01T00:00:00Z" });
    let mut entries: serde_json::Map<_, _> =
        names.iter().map(|name| (format!("{}/{name}", plot.namespace), old.clone())).collect();
    // In a namespace that was not in the books before: that is when the keeper looks.
    entries.insert("waited-for-nobody/ghost".to_owned(), old_promise());
    proxy.clear_log();
    write(&plot, json!({ "entries": entries })).await?;
    entries_are(&plot, &names).await;
    let log = proxy.log();
    let asked = log
        .iter()
        .filter(|seen| seen.request.verb == "get" && seen.request.resource == "s3.snappcloud.io/s3userclaims");
    let asked: Vec<_> = asked.map(|seen| seen.request.to_string()).collect();
    assert!(asked.iter().all(|request| request.contains("ghost")) && asked.len() <= 2, "{asked:#?}");
    Ok(())
}

#[tokio::test]
async fn what_a_claim_was_promised_that_never_got_a_user_is_given_back_when_it_goes() -> Result<()> {
    let plot = Plot::new("ungranted").await?;
    let name = "data".to_owned();
    plot.claim(json!({ "s3ClassName": "nobody-made-it" })).await?;
    plot.claim_says(&name, "False", "ClassNotFound").await;
    entries_are(&plot, std::slice::from_ref(&name)).await;
    // Two minutes pass.
    let entry = format!("{}/{name}", plot.namespace);
    write(&plot, json!({ "entries": { entry: { "reservedAt": "2026-01-01T00:00:00Z" } } })).await?;
    plot.claims().delete(&name, &DeleteParams::default()).await?;
    entries_are(&plot, &[]).await;
    Ok(())
}

#[tokio::test]
async fn what_was_not_given_back_because_the_operator_died_is_given_back_when_it_is_there_again() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&bed, "interrupted").await?;
    plot.claim(json!({ "quota": { "size": 3, "objects": 1, "buckets": 0 } })).await?;
    plot.ready("data").await;
    drop(operator);
    // As it was when Ceph had just been given less.
    let entry = format!("{}/data", plot.namespace);
    write(&plot, json!({ "entries": { &entry: { "granted": { "size": 10 } } } })).await?;
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    eventually("the books to say what Ceph has", || async {
        let books = ledger(&plot, &books_of(&plot)).await?.unwrap_or_default();
        let granted = books.spec.entries.get(&entry).and_then(|entry| entry.granted);
        anyhow::ensure!(granted.is_some_and(|granted| granted.size == 3), "they say {granted:?}");
        Ok(Some(()))
    })
    .await;
    Ok(())
}
