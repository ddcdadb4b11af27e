//! Download requests: signed URLs to files of a tenant's own backups and restores, for as long as they live.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminDownloadRequest, NonAdminRestore},
    velero::DownloadRequest,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    plot::{Plot, SETTINGS, message, somebody_of, told, velero_name},
    support::eventually,
};

impl Plot {
    pub(crate) async fn ask_for(&self, name: &str, kind: &str, of: &str) -> Result<NonAdminDownloadRequest> {
        self.create(name, json!({ "target": { "kind": kind, "name": of } })).await
    }

    /// As clients ask, with a name the API server chooses.
    async fn ask_anyhow(&self, kind: &str, of: &str) -> Result<String> {
        let requests = self.api::<NonAdminDownloadRequest>();
        let request = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminDownloadRequest",
            "metadata": { "generateName": "get-" }, "spec": { "target": { "kind": kind, "name": of } },
        });
        Ok(requests.create(&PostParams::default(), &serde_json::from_value(request)?).await?.name_any())
    }

    async fn answered(&self, name: &str) -> Result<String> {
        let signed = |status: &Value| status["velero"]["status"]["downloadURL"].is_string();
        let status = self.status::<NonAdminDownloadRequest>(name, "to have its URL", signed).await;
        assert_eq!((&status["phase"], told(&status)), (&json!("Created"), vec!["Processed=True Success".to_owned()]));
        status["velero"]["status"]["downloadURL"].as_str().map(str::to_owned).context("a URL")
    }
}

/// What is behind a URL on this machine.
async fn fetched(url: &str) -> Result<Vec<u8>> {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).context("a plain URL")?;
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("an answer")?;
    let (head, body) = answer.split_at(head);
    let head = String::from_utf8_lossy(head);
    ensure!(head.contains(" 200 "), "{head}");
    Ok(body[4..].to_vec())
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

#[tokio::test]
async fn a_tenant_fetches_log_and_contents_of_her_backup_and_restore() -> Result<()> {
    let plot = Plot::with_vault("fetch").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    plot.create::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("undo", "Completed").await;
    for (kind, of) in [("BackupLog", "nightly"), ("BackupContents", "nightly"), ("RestoreLog", "undo")] {
        let name = plot.ask_anyhow(kind, of).await?;
        let file = fetched(&plot.answered(&name).await?).await?;
        assert_eq!(file[..2], GZIP, "{kind}");
        let request = plot.api::<NonAdminDownloadRequest>().get(&name).await?;
        let velero =
            plot.veleros::<DownloadRequest>().get(&format!("nadr-{}", request.uid().unwrap_or_default())).await?;
        assert_eq!(velero.spec.target_kind(), Some(kind));
    }
    Ok(())
}

#[tokio::test]
async fn whoever_may_only_look_sees_backups_and_no_url_to_what_is_in_them() -> Result<()> {
    let plot = Plot::empty("onlooker").await?;
    let onlooker = somebody_of(&plot.world.bed, &plot.namespace, "onlooker", "view").await?;
    let may = |verb: &'static str, kind: &'static str| {
        let (onlooker, namespace) = (&onlooker, &plot.namespace);
        async move { onlooker.can(verb, &format!("oadp.openshift.io/{kind}"), Some(namespace)).await }
    };
    eventually("the role to count", || async { Ok(may("get", "nonadminbackups").await?.then_some(())) }).await;
    for kind in ["nonadminrestores", "nonadminbackupstoragelocations"] {
        assert!(may("list", kind).await?, "{kind}");
    }
    for verb in ["get", "list", "watch", "create", "delete"] {
        assert!(!may(verb, "nonadmindownloadrequests").await?, "{verb}");
    }
    plot.ask_for("log", "BackupLog", "nightly").await?;
    let requests: Api<NonAdminDownloadRequest> = Api::namespaced(onlooker.client.clone(), &plot.namespace);
    let read = requests.get("log").await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(read.contains("forbidden"), "{read:?}");
    Ok(())
}

#[tokio::test]
async fn what_another_tenant_has_cannot_be_downloaded() -> Result<()> {
    let (hers, his) = (Plot::with_vault("hers").await?, Plot::with_vault("his").await?);
    hers.add_config_map("prices").await?;
    hers.back_up_somewhere("nightly").await?;
    let backup = hers.backup_completes("nightly").await?;
    his.ask_for("by-name", "BackupContents", "nightly").await?;
    his.ask_for("by-velero-name", "BackupContents", &velero_name(&backup)).await?;
    his.ask_for("restore", "RestoreLog", "undo").await?;
    for (name, kind, text) in [
        ("by-name", "NonAdminBackupNotAvailable", "cannot get nonadminbackup"),
        ("by-velero-name", "NonAdminBackupNotAvailable", "cannot get nonadminbackup"),
        ("restore", "NonAdminRestoreNotAvailable", "cannot get nonadminrestore"),
    ] {
        let refused = |status: &Value| message(status, kind) == text;
        let status = his.status::<NonAdminDownloadRequest>(name, "to be refused", refused).await;
        assert_eq!((&status["phase"], &status["velero"]), (&json!("BackingOff"), &Value::Null));
    }
    // Forged in her own status it does not help him either: what counts is what Velero's object says.
    his.add_config_map("prices").await?;
    his.back_up_somewhere("mine").await?;
    his.backup_completes("mine").await?;
    let forged =
        json!({ "status": { "veleroBackup": { "nacuuid": velero_name(&backup), "name": velero_name(&backup) } } });
    let backups = his.administrators::<NonAdminBackup>();
    backups.patch_status("mine", &PatchParams::default(), &Patch::Merge(&forged)).await?;
    his.ask_for("forged", "BackupContents", "mine").await?;
    let waits = |status: &Value| message(status, "Processed").contains("is not known to be it");
    his.status::<NonAdminDownloadRequest>("forged", "to find nothing of his", waits).await;
    Ok(())
}

#[tokio::test]
async fn a_request_made_too_early_waits_for_its_backup() -> Result<()> {
    let plot = Plot::with_vault("early-fetch").await?;
    plot.ask_for("log", "BackupLog", "nightly").await?;
    plot.status::<NonAdminDownloadRequest>("log", "to miss the backup", |status| status["phase"] == "BackingOff").await;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    let url = plot.answered("log").await?;
    assert_eq!(fetched(&url).await?[..2], GZIP);
    Ok(())
}

#[tokio::test]
async fn a_request_is_gone_once_its_url_has_expired() -> Result<()> {
    let plot = Plot::with_vault("expired").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    plot.ask_for("log", "BackupLog", "nightly").await?;
    plot.answered("log").await?;
    // Ten minutes are long: the end is brought nearer.
    let soon = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_secs(2))?.to_string();
    let patch = json!({ "status": { "velero": { "status": { "expiration": soon } } } });
    let requests = plot.administrators::<NonAdminDownloadRequest>();
    requests.patch_status("log", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    plot.vanishes(&requests, "log").await
}

/// As many notes as whoever makes an object may put on it.
fn notes() -> Value {
    let notes = (0..50).map(|note| (format!("tenant.example/note-{note}"), json!("x".repeat(1000))));
    Value::Object(notes.collect())
}

#[tokio::test]
async fn notes_on_requests_that_nobody_reads_take_no_memory() -> Result<()> {
    let plot = Box::pin(Plot::alone("loaded", SETTINGS)).await?;
    let process = &plot.world.operator.process;
    let before = process.rss_kib();
    for number in 0..600 {
        let metadata = json!({ "name": format!("loaded-{number}"), "annotations": notes() });
        let request = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminDownloadRequest", "metadata": metadata,
            "spec": { "target": { "kind": "BackupLog", "name": "nightly" } },
        });
        let requests = plot.api::<NonAdminDownloadRequest>();
        requests.create(&PostParams::default(), &serde_json::from_value(request)?).await?;
        let backup = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup", "metadata": metadata,
            "spec": { "backupSpec": { "storageLocation": "nowhere" } },
        });
        plot.api::<NonAdminBackup>().create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    }
    let refused = |status: &Value| status["phase"] == "BackingOff";
    plot.status::<NonAdminDownloadRequest>("loaded-599", "to be refused", refused).await;
    plot.status::<NonAdminBackup>("loaded-599", "to be refused", refused).await;
    let after = process.rss_kib();
    // They are 60 MiB, and more than that in a cache.
    assert!(after < before + (40 << 10), "{before} KiB before, {after} KiB after");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_the_name_of_anything_is_not_asked_for() -> Result<()> {
    let plot = Plot::empty("nameless").await?;
    let file = |name: &str| json!({ "target": { "kind": "BackupLog", "name": name } });
    for name in ["", "..", "Nightly", "nightly/status", "nightly?watch=true"] {
        let told = plot.refusal::<NonAdminDownloadRequest>("log", file(name)).await?;
        assert!(told.contains("spec.target.name must be the name of a NonAdminBackup"), "{name:?}: {told}");
    }
    let told = plot.refusal::<NonAdminDownloadRequest>("log", file(&"x".repeat(254))).await?;
    assert!(told.contains("spec.target.name"), "{told}");
    plot.ask_for("log", "BackupLog", "nightly").await?;
    Ok(())
}

#[tokio::test]
async fn a_request_waits_for_the_location_of_its_backup_and_goes_on_when_that_is_back() -> Result<()> {
    let plot = Plot::asked("fetch-later").await?;
    plot.is_asked_for(|_| true).await;
    plot.decide("approve").await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;
    plot.decide("reject").await?;
    plot.velero_has(0).await;
    plot.ask_for("log", "BackupLog", "nightly").await?;
    let waits = |status: &Value| message(status, "Processed").contains("the location of the backup is gone");
    plot.status::<NonAdminDownloadRequest>("log", "to wait for the location", waits).await;
    plot.decide("approve").await?;
    let url = plot.answered("log").await?;
    assert_eq!(fetched(&url).await?[..2], GZIP);
    Ok(())
}
