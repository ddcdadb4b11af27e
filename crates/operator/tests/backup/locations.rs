//! Storage locations: made from a tenant's own Secret, kept up to date, taken away without a trace.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NABSL_ORIGIN_NACUUID_LABEL, NonAdminBackup, NonAdminBackupStorageLocation},
    velero::{Backup, BackupStorageLocation},
};
use croft_core::backup::location::CONFIRM_MOVE;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, message, told},
    support::eventually,
};

#[tokio::test]
async fn a_location_becomes_available_from_the_tenants_own_secret() -> Result<()> {
    let plot = Plot::furnished("location").await?;
    let location = plot.api::<NonAdminBackupStorageLocation>().get("here").await?;
    let status = serde_json::to_value(&location.status)?;
    assert_eq!(status["phase"], "Created");
    assert_eq!(
        told(&status),
        [
            "Accepted=True BslSpecValidation",
            "ClusterAdminApproved=True BslSpecApproved",
            "SecretSynced=True SecretCreated",
            "BackupStorageLocationSynced=True BackupStorageLocationCreated",
        ]
    );

    let velero = plot.velero_location().await?;
    let name = velero.name_any();
    assert!(name.starts_with(&plot.namespace) && name.ends_with(&location.uid().unwrap_or_default()), "{name}");
    assert_eq!(velero.labels().get(NABSL_ORIGIN_NACUUID_LABEL), Some(&name));
    assert_eq!(velero.spec.prefix(), Some(plot.namespace.as_str()));
    assert_eq!(velero.spec.credential().map(|credential| credential.name), Some(name.as_str()));

    let copy = plot.veleros::<Secret>().get(&name).await?;
    let keys: Vec<_> = copy.data.unwrap_or_default().into_keys().collect();
    assert_eq!(keys, ["cloud"], "only the key that was named is copied");
    Ok(())
}

#[tokio::test]
async fn a_location_waits_for_its_secret_and_goes_on_by_itself() -> Result<()> {
    let plot = Plot::bare("early").await?;
    plot.add_location(json!({})).await?;
    let waiting = plot.status::<NonAdminBackupStorageLocation>("here", "to wait", |s| s["phase"] == "BackingOff").await;
    assert_eq!(message(&waiting, "Accepted"), r#"BSL credentials secret not found: secrets "keys" not found"#);
    plot.add_secret("cloud").await?;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn a_secret_without_the_named_key_is_said_and_healed() -> Result<()> {
    let plot = Plot::bare("keyless").await?;
    plot.add_secret("wrong").await?;
    plot.add_location(json!({})).await?;
    let failed = |status: &serde_json::Value| message(status, "Accepted").contains("has no key \"cloud\"");
    plot.status::<NonAdminBackupStorageLocation>("here", "to miss the key", failed).await;
    plot.add_secret("cloud").await?;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn a_changed_secret_and_a_changed_spec_reach_velero() -> Result<()> {
    let plot = Plot::furnished("changes").await?;
    let name = plot.velero_location().await?.name_any();
    let rotated = "# new\naws_secret_access_key = b\naws_access_key_id = a\n";
    plot.patch::<Secret>("keys", json!({ "stringData": { "cloud": rotated, "other": "x" } })).await?;
    eventually("the copy to follow", || async {
        let copy = plot.veleros::<Secret>().get(&name).await?.data.unwrap_or_default();
        let file = b"[default]\naws_access_key_id=a\naws_secret_access_key=b\n";
        ensure!(copy.len() == 1 && copy["cloud"].0 == file, "it does not");
        Ok(Some(()))
    })
    .await;

    plot.patch::<Secret>("keys", json!({ "stringData": { "renamed": plot.credentials() } })).await?;
    let change = json!({ "spec": { "backupStorageLocationSpec": {
        "credential": { "name": "keys", "key": "renamed" },
        "objectStorage": { "bucket": plot.namespace, "prefix": "deeper" },
    } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", change).await?;
    eventually("Velero's location and Secret to follow", || async {
        let velero = plot.velero_location().await?;
        ensure!(velero.spec.prefix() == Some(&format!("{}/deeper", plot.namespace)), "{:?}", velero.spec);
        let copy = plot.veleros::<Secret>().get(&name).await?.data.unwrap_or_default();
        ensure!(copy.keys().eq(["renamed"]), "the copy has {:?}", copy.keys());
        Ok(Some(()))
    })
    .await;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn keys_that_somebody_writes_into_the_copy_are_put_right_and_then_nothing_is_written_any_more() -> Result<()> {
    let plot = Plot::furnished("meddler").await?;
    let name = plot.velero_location().await?.name_any();
    let secrets = plot.veleros::<Secret>();
    let ours = secrets.get(&name).await?;
    let edit = json!({ "stringData": { "cloud": "[default]\nrole_arn=x\n", "more": "x" }, "metadata": { "labels": { "theirs": "x" } } });
    secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&edit)).await?;
    let right = eventually("the copy to be put right", || async {
        let copy = secrets.get(&name).await?;
        ensure!(
            copy.data == ours.data,
            "it holds {:?}",
            copy.data.map(|data| data.keys().cloned().collect::<Vec<_>>())
        );
        Ok(Some(copy))
    })
    .await;
    assert_eq!(right.labels().get("theirs").map(String::as_str), Some("x"), "what is beside it is not ours to remove");
    let written = json!({ "uid": right.uid(), "resourceVersion": right.resource_version() });
    plot.status::<NonAdminBackupStorageLocation>("here", "to know its copy", |status| status["secretCopy"] == written)
        .await;
    plot.location_is_available().await;
    assert_eq!(secrets.get(&name).await?.resource_version(), right.resource_version(), "written once for one edit");
    Ok(())
}

#[tokio::test]
async fn a_location_that_somebody_removed_is_made_again() -> Result<()> {
    let plot = Plot::furnished("drift").await?;
    let velero = plot.velero_location().await?;
    let name = velero.name_any();
    plot.veleros::<Secret>().delete(&name, &DeleteParams::default()).await?;
    plot.veleros::<BackupStorageLocation>().delete(&name, &DeleteParams::default()).await?;
    eventually("both to be back", || async {
        let again = plot.veleros::<BackupStorageLocation>().get(&name).await?;
        plot.veleros::<Secret>().get(&name).await?;
        Ok((again.uid() != velero.uid()).then_some(()))
    })
    .await;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn a_settled_location_is_left_alone_while_velero_keeps_checking_it() -> Result<()> {
    let plot = Plot::furnished("quiet").await?;
    let before = plot.api::<NonAdminBackupStorageLocation>().get("here").await?;
    let checked = |velero: &BackupStorageLocation| {
        velero.status.as_ref().and_then(|status| status.timestamp("lastValidationTime"))
    };
    let mut last = checked(&plot.velero_location().await?);
    for _ in 0..2 {
        last = eventually("Velero to check again", || async {
            let now = checked(&plot.velero_location().await?);
            Ok((now > last).then_some(now))
        })
        .await;
    }
    let after = plot.api::<NonAdminBackupStorageLocation>().get("here").await?;
    assert_eq!(before.resource_version(), after.resource_version());
    Ok(())
}

#[tokio::test]
async fn a_location_that_would_borrow_or_reach_anything_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::bare("escape").await?;
    let storage = |storage: serde_json::Value| json!({ "objectStorage": storage });
    let config = |key: &str, value: &str| json!({ "config": { "region": "eu", key: value } });
    for (changes, told) in [
        (storage(json!({ "bucket": "b", "prefix": "../bank" })), "must not contain . or .. as a segment"),
        (
            storage(json!({ "bucket": "b", "caCertRef": { "name": "s", "key": "k" } })),
            "objectStorage.caCertRef is restricted",
        ),
        (json!({ "default": true }), "cannot be used as a default BSL"),
        (json!({ "credential": null }), "spec.bslSpec.credential is not set"),
        (json!({ "provider": "gcp" }), "provider is restricted, can only be set to: aws"),
        (config("credentialsFile", "/x"), "config.credentialsFile is restricted"),
        (config("profile", "velero"), "config.profile is restricted"),
        (config("insecureSkipTLSVerify", "true"), "config.insecureSkipTLSVerify is restricted"),
        (config("s3Url", "http://169.254.169.254"), "config.s3Url is restricted"),
        (config("s3Url", "https://kubernetes.default.svc"), "config.s3Url is restricted"),
    ] {
        let spec = plot.location_spec(changes);
        let refusal = plot.refusal::<NonAdminBackupStorageLocation>("here", spec).await?;
        assert!(refusal.contains(told), "{refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn credentials_that_are_more_than_keys_never_reach_velero() -> Result<()> {
    let plot = Plot::bare("borrow").await?;
    plot.add_secret("cloud").await?;
    let borrowing = format!("{}web_identity_token_file = /var/run/secrets/token\n", plot.credentials());
    plot.patch::<Secret>("keys", json!({ "stringData": { "cloud": borrowing } })).await?;
    plot.add_location(json!({})).await?;
    let refused =
        plot.status::<NonAdminBackupStorageLocation>("here", "to be refused", |s| s["phase"] == "BackingOff").await;
    assert_eq!(
        message(&refused, "Accepted"),
        r#"BSL credentials secret "keys" key "cloud": only access keys are allowed, found web_identity_token_file"#
    );
    assert!(refused.get("veleroBackupStorageLocation").is_none(), "{refused}");
    plot.add_secret("cloud").await?;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn a_second_location_in_the_same_place_waits_until_it_is_free() -> Result<()> {
    let plot = Plot::furnished("twin").await?;
    let first = plot.api::<NonAdminBackupStorageLocation>().get("here").await?;
    let spec = serde_json::to_value(&first.spec)?;
    plot.create::<NonAdminBackupStorageLocation>("there", spec).await?;
    let refused =
        plot.status::<NonAdminBackupStorageLocation>("there", "to wait", |s| s["phase"] == "BackingOff").await;
    assert!(message(&refused, "Accepted").contains("same place as here,"), "{refused}");
    plot.delete::<NonAdminBackupStorageLocation>("here").await?;
    plot.status::<NonAdminBackupStorageLocation>("there", "to go on", |s| s["phase"] == "Created").await;
    Ok(())
}

#[tokio::test]
async fn deleting_a_location_takes_its_velero_objects_and_lets_its_backups_go_but_not_their_data() -> Result<()> {
    let plot = Plot::furnished("gone").await?;
    let (_, velero) = plot.completed_backup().await?;
    let name = plot.velero_location().await?.name_any();
    plot.delete::<NonAdminBackupStorageLocation>("here").await?;
    plot.vanishes(&plot.api::<NonAdminBackupStorageLocation>(), "here").await?;
    plot.vanishes(&plot.veleros::<BackupStorageLocation>(), &name).await?;
    plot.vanishes(&plot.veleros::<Secret>(), &name).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    plot.vanishes(&plot.veleros::<Backup>(), &velero.name_any()).await?;
    let stored = plot.stored().await?;
    assert!(stored.iter().any(|path| path.contains(&velero.name_any())), "the data is gone: {stored:?}");
    Ok(())
}

#[tokio::test]
async fn a_location_with_backups_moves_elsewhere_only_once_that_is_confirmed() -> Result<()> {
    let plot = Plot::furnished("move").await?;
    plot.completed_backup().await?;
    let before = plot.velero_location().await?;
    let elsewhere = json!({ "spec": { "backupStorageLocationSpec": {
        "objectStorage": { "bucket": plot.namespace, "prefix": "elsewhere" },
    } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", elsewhere).await?;
    let warned = |status: &Value| message(status, "Accepted").contains("which would vanish: set the annotation");
    plot.status::<NonAdminBackupStorageLocation>("here", "to warn", warned).await;
    ensure!(plot.velero_location().await?.spec == before.spec, "it stores elsewhere unasked");
    let confirmed = json!({ "metadata": { "annotations": { CONFIRM_MOVE: "true" } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", confirmed).await?;
    eventually("it to store elsewhere", || async {
        let velero = plot.velero_location().await?;
        ensure!(velero.spec.prefix() == Some(&format!("{}/elsewhere", plot.namespace)), "{:?}", velero.spec);
        Ok(Some(()))
    })
    .await;
    plot.location_is_available().await;
    Ok(())
}
