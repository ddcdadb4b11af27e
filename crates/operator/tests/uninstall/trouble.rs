//! Clusters in trouble are those that need it most.

use anyhow::{Context, Result};
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::ResourceQuota, networking::v1::NetworkPolicy,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{
    furnished, goes, names, nothing_is_left, said,
    support::{World, apply, croft, eventually},
    uninstall,
};

fn crd(stored: &str) -> Value {
    let version = |name: &str| {
        json!({ "name": name, "served": true, "storage": name == stored,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
    };
    let nowhere = json!({ "service": { "name": "nowhere", "namespace": "default" } });
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "widgets.example.com" },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
                      "versions": [version("v1"), version("v2")],
                      "conversion": { "strategy": "Webhook",
                                      "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": nowhere } } } })
}

/// One object of a kind that nobody can read any more, since who converted it is gone.
async fn a_kind_nobody_can_list(admin: &Identity) -> Result<()> {
    apply(admin, &crd("v1").to_string()).await?;
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "default" } });
    eventually("the kind to be served", || async { apply(admin, &widget.to_string()).await.map(Some) }).await;
    apply(admin, &crd("v2").to_string()).await?;
    eventually("the kind to be unreadable", || async {
        Ok(admin.kubectl(&["get", "widgets.v2.example.com", "-A"]).await.is_err().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_listed_or_changed_keeps_no_policy_alive_and_no_namespace_from_going() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let (client, admin) = (world.client(), world.bed.admin());
    let namespace = furnished(&world.bed).await?;
    a_kind_nobody_can_list(admin).await?;
    let rule = json!({ "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["networkpolicies"] });
    let webhook = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "dead" }, "webhooks": [{ "name": "dead.example.com", "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/" } }] });
    apply(admin, &webhook.to_string()).await?;
    drop(world.operator);
    let kubeconfig = admin.kubeconfig.clone();

    let stuck = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(!stuck.status.success() && said(&stuck).contains("NetworkPolicy"), "{}", said(&stuck));
    assert!(said(&stuck).contains("widgets.example.com"), "{}", said(&stuck));
    let webhooks = names::<ValidatingWebhookConfiguration>(&client).await?;
    assert!(!webhooks.iter().any(|name| name == "croft"), "{webhooks:?}");
    let quota = Api::<ResourceQuota>::namespaced(client.clone(), &namespace).get("team").await?;
    assert_eq!(quota.owner_references().len(), 0, "the others are let go of");
    let held = ["get", "namespaceclassbinding", "-A", "-o", "jsonpath={.items[*].metadata.finalizers}"];
    assert_eq!(admin.kubectl(&held).await?, "", "nothing is held");

    admin.kubectl(&["delete", "validatingwebhookconfiguration", "dead"]).await?;
    let stuck = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(!stuck.status.success() && said(&stuck).contains("cannot be listed"), "{}", said(&stuck));
    admin.kubectl(&["delete", "crd", "widgets.example.com", "--wait=false"]).await?;
    admin
        .kubectl(&["patch", "crd", "widgets.example.com", "--type=merge", "-p", "{\"metadata\":{\"finalizers\":null}}"])
        .await?;
    let done = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&client).await?;
    Api::<NetworkPolicy>::namespaced(client.clone(), &namespace).get("deny-all").await?;
    goes(&client, &namespace).await
}

/// An S3Class on a gateway that never answers with a user there, for whom a purge waits; and a NamespaceClass that somebody else holds.
async fn what_a_purge_waits_for(admin: &Identity) -> Result<()> {
    let keys = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": "croft-system" },
                       "stringData": { "accessKey": "a", "secretKey": "b" } });
    let class = json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Class", "metadata": { "name": "away" },
                        "spec": { "endpoint": "http://127.0.0.1:9", "tenantPrefix": "away", "onDelete": "Retain",
                                  "region": "us-east-1", "adminSecret": { "name": "keys" } } });
    let held = json!({ "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "spec": { "resources": [] },
                       "metadata": { "name": "held", "finalizers": ["example.com/held"] } });
    let user = json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3User", "metadata": { "name": "shop.store" },
                       "spec": { "s3ClassName": "away", "cephUser": "away_shop$store",
                                 "claimRef": { "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim",
                                               "namespace": "shop", "name": "store", "uid": "gone" } } });
    for object in [keys, class, user, held] {
        eventually("it to be let in", || async { apply(admin, &object.to_string()).await.map(Some) }).await;
    }
    Ok(())
}

async fn away_says(admin: &Identity) -> Result<String> {
    let said = "jsonpath={.spec.onDelete} {.metadata.annotations}";
    admin.kubectl(&["get", "s3class", "away", "-o", said]).await
}

async fn gives_up(admin: &Identity, what: &str, wanted: bool) {
    eventually(what, || async {
        let said = away_says(admin).await?;
        Ok((said.contains("give-up") == wanted && said.starts_with("Purge") == wanted).then_some(()))
    })
    .await;
}

/// Whoever runs the tests may have had himself left alone when his terminal goes.
fn begun(kubeconfig: &std::path::Path, choice: &str, timeout: &str) -> Result<tokio::process::Child> {
    let mut command = tokio::process::Command::new("env");
    command.arg("--default-signal=HUP").arg(croft()).args(["uninstall", choice, "--timeout", timeout, "--kubeconfig"]);
    command.arg(kubeconfig).kill_on_drop(true);
    Ok(command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn()?)
}

async fn signalled(child: &tokio::process::Child, signal: &str) -> Result<()> {
    let pid = child.id().context("it runs")?.to_string();
    anyhow::ensure!(tokio::process::Command::new("kill").args(["-s", signal, &pid]).status().await?.success());
    Ok(())
}

#[tokio::test]
async fn a_purge_that_is_ended_takes_back_what_it_gave_up_and_no_api_server_that_restarts_ends_it() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let (admin, kubeconfig) = (world.bed.admin(), world.bed.admin().kubeconfig.clone());
    what_a_purge_waits_for(admin).await?;
    for signal in ["HUP", "TERM"] {
        let running = begun(&kubeconfig, "--purge", "60")?;
        gives_up(admin, "the class to give up", true).await;
        if signal == "HUP" {
            world.bed.stop_api_server()?;
            world.bed.start_api_server().await?;
        }
        signalled(&running, signal).await?;
        let ended = running.wait_with_output().await?;
        assert_eq!(ended.status.code(), Some(2), "{}", said(&ended));
        assert!(said(&ended).contains("interrupted"), "{}", said(&ended));
        gives_up(admin, "the class to say what it said", false).await;
    }
    Ok(())
}

#[tokio::test]
async fn keeping_data_after_a_purge_that_was_killed_first_takes_back_what_was_given_up() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let (admin, kubeconfig) = (world.bed.admin(), world.bed.admin().kubeconfig.clone());
    what_a_purge_waits_for(admin).await?;
    let running = begun(&kubeconfig, "--purge", "60")?;
    gives_up(admin, "the class to give up", true).await;
    signalled(&running, "KILL").await?;
    running.wait_with_output().await?;
    let running = begun(&kubeconfig, "--keep-data", "15")?;
    // The operator still runs.
    gives_up(admin, "the class to say what it said", false).await;
    drop(world.operator);
    let stuck = running.wait_with_output().await?;
    assert!(
        !stuck.status.success() && said(&stuck).contains("is left: held"),
        "who is held is named: {}",
        said(&stuck)
    );
    let free = r#"{"metadata":{"finalizers":null}}"#;
    admin.kubectl(&["patch", "namespaceclass", "held", "--type=merge", "-p", free]).await?;
    let done = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&world.bed.admin().client).await
}

#[tokio::test]
async fn an_api_that_does_not_answer_keeps_the_kinds() -> Result<()> {
    let (bed, _installed) = World::installed(Testbed::kubernetes()).await?;
    let (admin, kubeconfig) = (bed.admin(), bed.admin().kubeconfig.clone());
    let api = json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v1.down.example.com" },
                      "spec": { "group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                                "service": { "name": "nowhere", "namespace": "default" } } });
    apply(admin, &api.to_string()).await?;
    eventually("the API to be known and not to answer", || async {
        let told = uninstall(&kubeconfig, &["--dry-run"]).await?;
        Ok(said(&told).contains("down.example.com/v1").then_some(()))
    })
    .await;
    let stuck = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(!stuck.status.success() && said(&stuck).contains("down.example.com/v1"), "{}", said(&stuck));
    let kinds = admin.kubectl(&["get", "crd", "-o", "name"]).await?;
    assert!(kinds.contains("namespaceclassbindings.akuity.io"), "{kinds}");
    admin.kubectl(&["delete", "apiservice", "v1.down.example.com"]).await?;
    eventually("all of it to go", || async {
        Ok(uninstall(&kubeconfig, &["--keep-data"]).await?.status.success().then_some(()))
    })
    .await;
    nothing_is_left(&bed.admin().client).await
}

#[tokio::test]
async fn whoever_holds_objects_of_several_kinds_is_named_at_every_one_and_holds_up_no_purge() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let (admin, kubeconfig) = (world.bed.admin(), world.bed.admin().kubeconfig.clone());
    let namespace = world.bed.namespace("held").await?;
    let object = |kind: &str, spec: Value| {
        json!({ "apiVersion": "croft.dev/v1alpha1", "kind": kind, "spec": spec,
                "metadata": { "name": "hers", "namespace": namespace, "finalizers": ["example.com/hers"] } })
    };
    let schedule = object("BackupSchedule", json!({ "schedule": "0 3 * * *", "template": { "backupSpec": {} } }));
    let mut backup = object("NonAdminBackup", json!({ "backupSpec": {} }));
    backup["apiVersion"] = "oadp.openshift.io/v1alpha1".into();
    for object in [schedule, backup] {
        eventually("it to be let in", || async { apply(admin, &object.to_string()).await.map(Some) }).await;
    }
    let running = tokio::spawn(async move { uninstall(&kubeconfig, &["--purge", "--timeout", "20"]).await });
    let webhooks = world.client();
    eventually("the purge to be over and the operator to be waited for", || async {
        let left =
            admin.kubectl(&["get", "nonadminbackup", "hers", "-n", &namespace, "-o", "jsonpath={.metadata}"]).await?;
        let kinds = names::<ValidatingWebhookConfiguration>(&webhooks).await?;
        Ok((left.contains("deletionTimestamp") && !kinds.iter().any(|name| name == "croft")).then_some(()))
    })
    .await;
    drop(world.operator);
    let stuck = running.await.context("croft uninstall")??;
    let told = said(&stuck);
    assert!(!stuck.status.success(), "{told}");
    for kind in ["backupschedules.croft.dev", "nonadminbackups.oadp.openshift.io"] {
        let named = format!("of {kind} is left: {namespace}/hers (");
        assert!(told.contains(&named) && told.contains("held by the finalizers of others: example.com/hers"), "{told}");
    }
    Ok(())
}
