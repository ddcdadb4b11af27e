//! Wrong flags, wrong settings, no cluster, missing rights: one sentence that names the cause and the fix.

use std::{
    process::{Command, Output},
    time::Duration,
};

use anyhow::Result;
use croft_testbed::{Testbed, process, wait};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};

use crate::{
    support::{PATIENCE, World, croft, eventually},
    tenant::{ask, define_class, served},
};

/// A cluster nobody answers for.
const NOWHERE: &str = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], \
                       clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x, user: {token: t}}]}";

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(croft()).args(arguments).env_remove("KUBECONFIG").output()?)
}

fn refused(arguments: &[&str], mentions: &[&str]) -> Result<()> {
    let output = run(arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    for word in mentions {
        assert!(said.contains(word), "{arguments:?} should mention {word:?}: {said}");
    }
    Ok(())
}

#[test]
fn wrong_flags_and_settings_end_with_code_2_and_name_the_fix() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("croft-settings-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let file = directory.join("croft.yaml");
    std::fs::write(&file, "backup:\n  veleroNamespce: x\n")?;
    let path = file.to_string_lossy().into_owned();
    refused(&["run", "--config", &path], &["veleroNamespce", "did you mean `veleroNamespace`", &path])?;
    std::fs::write(&file, "concurrency: many\n")?;
    refused(&["run", "--config", &path], &["many"])?;
    refused(&["run", "--config", "/no/such/file"], &["/no/such/file", "--config"])?;
    refused(&["run", "--enabel", "storage"], &["--enable"])?;
    refused(&["run", "--enable", "storag"], &["storag", "storage"])?;
    refused(&["run", "--kubeconfig", "/no/such/file"], &["/no/such/file", "--kubeconfig"])?;
    refused(&["run", "--log", "croft=loud"], &["--log", "croft=debug"])?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

#[test]
fn help_teaches_the_first_steps() -> Result<()> {
    let help = String::from_utf8(run(&["--help"])?.stdout)?;
    for word in ["croft manifests --image IMAGE | kubectl apply", "Run the operator", "namespaceclass.akuity.io/name"] {
        assert!(help.contains(word), "{help}");
    }
    Ok(())
}

#[tokio::test]
async fn an_unreachable_cluster_is_said_in_one_sentence_and_retried() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("croft-unreachable-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(&kubeconfig, NOWHERE)?;
    let mut command = Command::new(croft());
    command
        .args(["run", "--metrics-listen", "127.0.0.1:0", "--webhook-listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(&kubeconfig);
    let process = process::spawn("croft", &command, &directory.join("log"))?;
    wait::until_true("the log to name the cause", Duration::from_secs(10), || async {
        let log = process.log();
        Ok(log.contains("cannot reach the API server, will keep trying") && log.contains("refused"))
    })
    .await?;
    assert!(process.is_running(), "it keeps trying");
    process.terminate();
    assert!(process.wait(PATIENCE).expect("it ends when asked").success());
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

#[tokio::test]
async fn it_is_reached_by_addresses_of_either_kind() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("croft-addresses-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(&kubeconfig, NOWHERE)?;
    let ports = croft_testbed::ports::PortBlock::reserve()?;
    let every = |place| format!("[::]:{}", ports.get(place));
    let mut command = Command::new(croft());
    command
        .args(["run", "--metrics-listen", &every(0), "--webhook-listen", &every(1), "--kubeconfig"])
        .arg(&kubeconfig);
    let process = process::spawn("croft", &command, &directory.join("log"))?;
    for host in ["127.0.0.1", "::1"] {
        wait::until(&format!("an answer at {host}"), PATIENCE, || async {
            process.ensure_running()?;
            Ok(Some(tokio::net::TcpStream::connect((host, ports.get(0))).await?))
        })
        .await?;
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

#[tokio::test]
async fn a_missing_right_is_named_in_the_log_and_heals_when_granted() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    bed.admin().kubectl(&["delete", "clusterrolebinding", "croft"]).await?;
    let operator = installed.start(&bed, "own", &installed.identity.kubeconfig, &[])?;
    eventually("the log to name the missing right", || async {
        operator.process.ensure_running()?;
        Ok(operator.process.log().contains("may not list").then_some(()))
    })
    .await;
    bed.admin()
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "croft",
            "--clusterrole=croft",
            "--serviceaccount=croft-system:croft",
        ])
        .await?;
    operator.ready(Duration::from_secs(60)).await?;
    Ok(())
}

#[tokio::test]
async fn settings_are_reloaded_and_a_bad_file_changes_nothing() -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
    let file = bed.dir().join("croft.yaml");
    std::fs::write(&file, "namespaces: {systemNamespaces: [theirs]}\n")?;
    let path = file.to_string_lossy().into_owned();
    let operator = installed.start(&bed, "own", &installed.identity.kubeconfig, &["--config", &path])?;
    operator.ready(PATIENCE).await?;
    define_class(&bed).await?;
    let says = |text: &'static str| {
        let process = &operator.process;
        async move { eventually(text, || async { Ok(process.log().contains(text).then_some(())) }).await }
    };

    std::fs::write(&file, "namespaces: {systemNamspaces: []}\n")?;
    says("settings not reloaded; the old ones stay in force").await;
    ask(&bed, "theirs").await?;
    is_refused(&bed, "theirs").await;

    std::fs::write(&file, "namespaces: {systemNamespaces: []}\n")?;
    says("settings reloaded").await;
    bed.admin().kubectl(&["annotate", "namespace", "theirs", "looked-at=again"]).await?;
    served(&bed, "theirs").await;
    Ok(())
}

/// Waits until the owner of the namespace has been told that it cannot have a class.
async fn is_refused(bed: &Testbed, namespace: &str) {
    let events: Api<Event> = Api::namespaced(bed.admin().client.clone(), "default");
    eventually(&format!("the refusal of {namespace}"), || async {
        let mut told = events.list(&ListParams::default()).await?.items.into_iter();
        let is_about = |event: &Event| {
            event.reason.as_deref() == Some("NotAllowed")
                && event.regarding.as_ref().is_some_and(|about| about.name.as_deref() == Some(namespace))
        };
        Ok(told.find(is_about))
    })
    .await;
}
