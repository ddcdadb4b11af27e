//! What others do to stamped objects is seen by their content: what was ours comes back, what is theirs stays, and where nothing
//! happened nothing is asked and nothing is written.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use croft_api::namespaces::{AppliedState, NamespaceClassBinding, STAMP_LABEL};
use croft_testbed::fault::Seen;
use k8s_openapi::api::{
    core::v1::{ResourceQuota, Secret},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    scene::{Class, Proxied, Space, applied, config_map, make, proxied, world},
    support::{PATIENCE, eventually},
};

/// Nothing may happen for this long before "nothing happens" is believed.
const QUIET: Duration = Duration::from_secs(2);

/// On an idle cluster drift is healed in well under a second; other tests run beside this one.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A namespace that has everything of a class with one config map `made`.
async fn furnished(name: &str) -> Result<Space> {
    let world = world().await;
    let class = Class::define(world.client(), name, &[("made", "as the class says")]).await?;
    let space = Space::of(&world.bed, name, name).await?;
    space.follows(&class).await;
    Ok(space)
}

/// As [`furnished`], behind the proxy.
async fn watched(name: &str) -> Result<(&'static Proxied, Space)> {
    let proxied = proxied().await;
    let class = Class::define(proxied.client(), name, &[("made", "as the class says")]).await?;
    let space = Space::of(&proxied.bed, name, name).await?;
    space.follows(&class).await;
    Ok((proxied, space))
}

/// What was asked for in one namespace since the log was `mark` long.
fn asked_in(proxied: &Proxied, space: &Space, mark: usize) -> Vec<Seen> {
    let log = proxied.proxy.log();
    log.into_iter().skip(mark).filter(|seen| seen.request.namespace.as_deref() == Some(&space.name)).collect()
}

/// The log's length once the namespace has been quiet for a while.
async fn settled(proxied: &Proxied, space: &Space) -> usize {
    eventually("the namespace to rest", || async {
        let mark = proxied.proxy.log().len();
        tokio::time::sleep(QUIET).await;
        Ok(asked_in(proxied, space, mark).is_empty().then_some(mark))
    })
    .await
}

#[tokio::test]
async fn a_foreign_edit_is_put_back_in_place_and_at_once() -> Result<()> {
    let space = furnished("foreign-edit").await?;
    let before = space.has("made").await;
    let edited = space.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    ensure!(edited.data.as_ref().is_some_and(|data| data["key"] == "edited"), "the edit was made");
    let clock = Instant::now();
    let after = space.has_value("made", "as the class says").await;
    assert!(clock.elapsed() < AT_ONCE, "healed after {:?}", clock.elapsed());
    assert_eq!(after.uid(), before.uid());
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn drift_is_put_back_however_large_somebody_made_the_object() -> Result<()> {
    let space = furnished("bulky").await?;
    let many: BTreeMap<_, _> = (0..60_000).map(|number| (format!("k{number}"), "")).collect();
    space.edit("made", "stranger", json!({ "data": many })).await?;
    space.edit("made", "stranger", json!({ "data": { "key": "changed" } })).await?;
    space.has_value("made", "as the class says").await;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_and_a_deletion_do_not_keep_an_edit() -> Result<()> {
    let space = furnished("held").await?;
    let held = space.edit("made", "somebody", json!({"metadata": {"finalizers": ["example.com/mine"]}})).await?;
    space.config_maps().delete("made", &DeleteParams::default()).await?;
    space.says("Terminating").await;
    space.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    let after = space.has_value("made", "as the class says").await;
    assert_eq!(after.uid(), held.uid());
    space.says("Terminating").await;
    space.edit("made", "somebody", json!({"metadata": {"finalizers": null}})).await?;
    space.says("ReconcileSuccess").await;
    assert_ne!(space.has_value("made", "as the class says").await.uid(), held.uid(), "made anew");
    Ok(())
}

#[tokio::test]
async fn a_field_taken_by_another_applier_is_taken_back() -> Result<()> {
    let space = furnished("foreign-apply").await?;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "theirs", "other": "theirs"}});
    space.config_maps().patch("made", &PatchParams::apply("somebody").force(), &Patch::Apply(&theirs)).await?;
    let after = space.has_value("made", "as the class says").await;
    assert_eq!(after.data.unwrap()["other"], "theirs", "what the class does not set stays theirs");
    Ok(())
}

#[tokio::test]
async fn a_removed_field_is_put_back() -> Result<()> {
    let space = furnished("foreign-removal").await?;
    space.edit("made", "somebody", json!({"data": null})).await?;
    space.has_value("made", "as the class says").await;
    Ok(())
}

#[tokio::test]
async fn a_foreign_addition_stays_and_costs_one_read() -> Result<()> {
    let (proxied, space) = watched("foreign-addition").await?;
    let mark = settled(proxied, &space).await;
    let mine = json!({"data": {"mine": "1"}, "metadata": {"labels": {"mine": "1"}, "annotations": {"mine": "1"}}});
    let edited = space.edit("made", "somebody", mine).await?;
    tokio::time::sleep(QUIET).await;
    let asked = asked_in(proxied, &space, mark);
    let asked: Vec<_> = asked.iter().map(|seen| (seen.request.verb.as_str(), seen.request.name.as_deref())).collect();
    assert_eq!(asked, [("get", Some("made"))], "one read, and nothing is written");
    assert_eq!(space.has("made").await.resource_version(), edited.resource_version());
    // Nor does it go when a field beside it is healed.
    space.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    let after = space.has_value("made", "as the class says").await;
    assert_eq!((after.data.as_ref().unwrap()["mine"].as_str(), after.labels()["mine"].as_str()), ("1", "1"));
    Ok(())
}

#[tokio::test]
async fn a_selector_that_somebody_narrows_is_put_back() -> Result<()> {
    let world = world().await;
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny"},
                        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    let class = Class::with_spec(world.client(), "selector", json!({"resources": [policy]})).await?;
    let space = Space::of(&world.bed, "selector", "selector").await?;
    space.follows(&class).await;
    let policies: Api<NetworkPolicy> = Api::namespaced(world.client(), &space.name);
    let narrow = json!({"spec": {"podSelector": {"matchLabels": {"no": "pod"}}}});
    policies.patch("deny", &PatchParams::default(), &Patch::Merge(&narrow)).await?;
    eventually("the policy to select every pod again", || async {
        let selector = policies.get("deny").await?.spec.and_then(|spec| spec.pod_selector).unwrap_or_default();
        Ok(selector.match_labels.is_none().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_churn_of_a_quotas_status_causes_no_request() -> Result<()> {
    let proxied = proxied().await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"}, "spec": {"hard": {"configmaps": "50"}},
    });
    let class = Class::with_spec(proxied.client(), "churn", json!({"resources": [quota]})).await?;
    let space = Space::of(&proxied.bed, "churn", "churn").await?;
    space.follows(&class).await;
    let quotas = space.api::<ResourceQuota>();
    let used = |wanted: &'static str| {
        let quotas = quotas.clone();
        async move {
            eventually("the quota to count", || async {
                let used = quotas.get("limits").await?.status.and_then(|status| status.used).unwrap_or_default();
                Ok(used.get("configmaps").filter(|used| used.0 == wanted).map(|_| ()))
            })
            .await;
        }
    };
    // One is Kubernetes' own.
    used("1").await;
    let mark = settled(proxied, &space).await;
    for (name, count) in [("a", "2"), ("b", "3"), ("c", "4"), ("d", "5")] {
        space.stranger_makes(config_map(name, "")).await?;
        used(count).await;
    }
    tokio::time::sleep(QUIET).await;
    let asked = asked_in(proxied, &space, mark);
    assert!(asked.is_empty(), "{asked:#?}");
    Ok(())
}

#[tokio::test]
async fn an_edit_under_our_own_manager_name_is_put_back() -> Result<()> {
    let space = furnished("own-name").await?;
    let patch = json!({"data": {"key": "edited"}}).to_string();
    let admin = world().await.bed.admin();
    let arguments =
        ["patch", "configmap", "made", "-n", &space.name, "--field-manager=croft", "--type=merge", "-p", &patch];
    admin.kubectl(&arguments).await?;
    space.has_value("made", "as the class says").await;
    Ok(())
}

/// The entries tell time in seconds: whoever writes under our name within the second of our own write leaves no trace there.
#[tokio::test]
async fn edits_under_our_own_manager_name_are_put_back_however_fast_they_come() -> Result<()> {
    let space = furnished("own-name-fast").await?;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "applied"}});
    for _ in 0..2 {
        space.edit("made", "croft", json!({"data": {"key": "edited"}})).await?;
        space.has_value("made", "as the class says").await;
        space.config_maps().patch("made", &PatchParams::apply("croft").force(), &Patch::Apply(&theirs)).await?;
        space.has_value("made", "as the class says").await;
    }
    space.says("ReconcileSuccess").await;
    Ok(())
}

/// An edit, and at once the managedFields of before, as anybody may write them who may update the object.
async fn edit_and_forge(space: &Space) -> Result<()> {
    let config_maps = space.config_maps();
    let before = config_maps.get("made").await?;
    space.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    let mut forged = config_maps.get("made").await?;
    forged.metadata.managed_fields = before.metadata.managed_fields;
    let forged = config_maps.replace("made", &PostParams::default(), &forged).await?;
    ensure!(forged.data.as_ref().is_some_and(|data| data["key"] == "edited"), "the edit stands");
    Ok(())
}

#[tokio::test]
async fn forged_managed_fields_do_not_switch_drift_correction_off() -> Result<()> {
    let proxied = Proxied::new().await?;
    let operator = proxied.started().await?;
    let class = Class::define(proxied.client(), "forged", &[("made", "as the class says")]).await?;
    let space = Space::of(&proxied.bed, "forged", "forged").await?;
    space.follows(&class).await;
    // While the operator sees nothing, so that it finds both changes as one.
    proxied.proxy.pause_watches();
    edit_and_forge(&space).await?;
    proxied.proxy.resume_watches();
    space.has_value("made", "as the class says").await;
    proxied.quiet(QUIET).await;

    operator.process.kill();
    operator.process.wait(PATIENCE);
    edit_and_forge(&space).await?;
    proxied.forget_leader().await?;
    let _operator = proxied.started().await?;
    space.has_value("made", "as the class says").await;
    Ok(())
}

#[tokio::test]
async fn digests_on_a_binding_do_not_tell_what_is_in_a_secret() -> Result<()> {
    let proxied = Proxied::new().await?;
    let operator = proxied.started().await?;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"pin": "1234"}});
    let class = Class::with_spec(proxied.client(), "sealed", json!({"resources": [secret]})).await?;
    let space = Space::of(&proxied.bed, "sealed", "sealed").await?;
    let digest = |binding: &NamespaceClassBinding| applied(binding, "s").and_then(|applied| applied.digest);
    let before = digest(&space.follows(&class).await);
    // Another key gives other digests of the same Secret: who does not have the key cannot compute them.
    let keys: Api<Secret> = Api::namespaced(proxied.client(), &proxied.installed.namespace);
    keys.delete("croft-digest-key", &DeleteParams::default()).await?;
    let _operator = proxied.restart(operator).await?;
    eventually("other digests", || async {
        let after = digest(&space.bindings().get(&space.name).await?);
        Ok((after.is_some() && after != before).then_some(()))
    })
    .await;
    space.follows(&class).await;
    Ok(())
}

#[tokio::test]
async fn a_stripped_label_is_put_back_because_the_owner_proves_it() -> Result<()> {
    let space = furnished("label-stripped").await?;
    let before = space.has("made").await;
    space.edit("made", "somebody", json!({"metadata": {"labels": {STAMP_LABEL: null}}})).await?;
    eventually("the label to be back", || async {
        let object = space.config_maps().get("made").await?;
        ensure!(object.uid() == before.uid(), "never made anew");
        Ok(object.labels().contains_key(STAMP_LABEL).then_some(()))
    })
    .await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn a_stripped_owner_is_put_back_because_label_and_record_prove_it() -> Result<()> {
    let space = furnished("owner-stripped").await?;
    let before = space.has("made").await;
    space.edit("made", "somebody", json!({"metadata": {"ownerReferences": null}})).await?;
    eventually("the owner to be back", || async {
        let object = space.config_maps().get("made").await?;
        ensure!(object.uid() == before.uid(), "never made anew");
        Ok((object.owner_references() == before.owner_references()).then_some(()))
    })
    .await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn an_object_stripped_of_label_and_owner_is_released_and_left_alone() -> Result<()> {
    let space = furnished("released").await?;
    let strip =
        json!({"metadata": {"labels": {STAMP_LABEL: null}, "ownerReferences": null}, "data": {"key": "mine now"}});
    let mine = space.edit("made", "somebody", strip).await?;
    let binding = space.says("Conflict").await;
    assert_eq!(applied(&binding, "made").unwrap().state, AppliedState::Conflict);
    space.label(None).await?;
    space.is_unbound().await;
    assert_eq!(space.has("made").await.resource_version(), mine.resource_version(), "untouched");
    Ok(())
}

#[tokio::test]
async fn a_deleted_object_comes_back_at_once() -> Result<()> {
    let space = furnished("deleted").await?;
    let before = space.has("made").await;
    space.config_maps().delete("made", &DeleteParams::default()).await?;
    let clock = Instant::now();
    let after = space.has_value("made", "as the class says").await;
    assert!(clock.elapsed() < AT_ONCE, "back after {:?}", clock.elapsed());
    assert_ne!(after.uid(), before.uid());
    let binding = space.says("ReconcileSuccess").await;
    eventually("the inventory to name the new one", || async {
        let binding = space.bindings().get(&space.name).await?;
        Ok((applied(&binding, "made").and_then(|applied| applied.uid) == after.uid()).then_some(()))
    })
    .await;
    assert_eq!(binding.spec.class_name, "deleted");
    Ok(())
}

/// An object deleted and made anew by somebody else between two looks of the operator.
async fn made_anew(name: &str, labels: serde_json::Value) -> Result<()> {
    let (proxied, space) = watched(name).await?;
    proxied.proxy.pause_watches();
    space.config_maps().delete("made", &DeleteParams::default()).await?;
    let mut manifest = config_map("made", "theirs");
    manifest["metadata"]["labels"] = labels;
    let theirs = space.stranger_makes(manifest).await?;
    proxied.proxy.resume_watches();
    let binding = space.says("Conflict").await;
    assert_eq!(applied(&binding, "made").unwrap().state, AppliedState::Conflict);
    space.label(None).await?;
    space.is_unbound().await;
    assert_eq!(space.has("made").await.resource_version(), theirs.resource_version(), "untouched");
    Ok(())
}

#[tokio::test]
async fn an_object_made_anew_by_somebody_else_is_theirs() -> Result<()> {
    made_anew("made-anew", json!({})).await
}

#[tokio::test]
async fn an_object_made_anew_by_somebody_else_is_theirs_even_with_our_label() -> Result<()> {
    made_anew("made-anew-labelled", json!({STAMP_LABEL: "made-anew-labelled"})).await
}

#[tokio::test]
async fn at_rest_and_after_a_restart_nothing_is_written_and_no_stamped_object_is_read() -> Result<()> {
    let proxied = Proxied::new().await?;
    let operator = proxied.started().await?;
    let spec = json!({
        "resources": [
            config_map("one", "1"),
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "two"}, "stringData": {"a": "b"}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "three"}},
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "four"}, "spec": {"hard": {"pods": "5"}}},
            {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "five"}, "spec": {"podSelector": {}}},
        ],
        "namespaceMetadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
    });
    let class = Class::with_spec(proxied.client(), "rest", spec).await?;
    let mut spaces = Vec::new();
    for name in ["rest-one", "rest-two", "rest-three"] {
        let space = Space::of(&proxied.bed, name, "rest").await?;
        space.follows(&class).await;
        // Changed and healed, adopted by nobody: all of it must be at rest afterwards.
        space.edit("one", "somebody", json!({"data": {"key": "edited"}})).await?;
        space.has_value("one", "1").await;
        spaces.push(space);
    }
    let empty = Space::new(&proxied.bed, "rest-none").await?;
    make(&empty.config_maps(), config_map("mine", "1")).await?;
    proxied.quiet(QUIET).await;
    class.status("all namespaces", |status| status.ready_namespaces == Some(3)).await;
    proxied.proxy.clear_log();
    proxied.slow_to_tell("configmaps");
    let restarted = proxied.restart(operator).await?;
    tokio::time::sleep(QUIET).await;
    let writes = proxied.proxy.writes();
    assert!(writes.is_empty(), "writes after a restart: {writes:#?}");
    let reads: Vec<_> = proxied.proxy.log().into_iter().filter(|seen| seen.request.verb == "get").collect();
    let read: Vec<_> =
        reads.iter().filter(|seen| seen.request.namespace.as_deref().is_some_and(|n| n.starts_with("rest"))).collect();
    assert!(read.is_empty(), "reads after a restart: {read:#?}");
    proxied.proxy.clear_log();
    tokio::time::sleep(QUIET).await;
    // Whether kinds that nobody serves here are served is asked now and then.
    let is_unserved = |seen: &Seen| seen.request.verb == "list" && seen.status == Some(404);
    let counts = |seen: &Seen| !seen.request.resource.ends_with("leases") && !is_unserved(seen);
    let asked: Vec<_> = proxied.proxy.log().into_iter().filter(counts).collect();
    assert!(asked.is_empty(), "requests at rest: {asked:#?}");
    restarted.process.ensure_running()
}
