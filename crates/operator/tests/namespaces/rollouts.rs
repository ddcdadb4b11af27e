//! Revisions, stages, the way back, and the guard against deletions.

use anyhow::{Context, Result, bail};
use croft_api::namespaces::{NamespaceClassStatus, REVISION_LABEL, RolloutPhase};
use croft_testbed::Testbed;
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Proxied, Space, config_map, gone, may_be_in_classes, world},
    support::{apply, croft, eventually},
};

/// Config maps, rolled out like this.
fn rolled_out(rollout: Value, items: &[(&str, &str)]) -> Value {
    let items: Vec<_> = items.iter().map(|(name, value)| config_map(name, value)).collect();
    json!({"resources": items, "rollout": rollout})
}

fn revisions(client: Client) -> Api<ControllerRevision> {
    Api::namespaced(client, "croft-system")
}

/// The revisions that are kept of a class, the latest first.
async fn kept(client: Client, class: &str) -> Result<Vec<ControllerRevision>> {
    let labelled = ListParams::default().labels(&format!("{REVISION_LABEL}={class}"));
    let mut kept = revisions(client).list(&labelled).await?.items;
    kept.sort_by_key(|revision| std::cmp::Reverse(revision.revision));
    Ok(kept)
}

/// Runs the command line as the administrator.
async fn steer(bed: &Testbed, arguments: &[&str]) -> Result<String> {
    let output = tokio::process::Command::new(croft())
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&bed.admin().kubeconfig)
        .output()
        .await?;
    if !output.status.success() {
        bail!("croft {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn is_in(status: &NamespaceClassStatus, phase: RolloutPhase) -> bool {
    status.rollout.as_ref().is_some_and(|rollout| rollout.phase == phase)
}

fn says(status: &NamespaceClassStatus, reason: &str) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.reason == reason)
}

fn message(status: &NamespaceClassStatus) -> String {
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map(|ready| ready.message.clone()).unwrap_or_default()
}

impl Class {
    /// Waits until it says this about itself.
    async fn reports(&self, reason: &str) -> NamespaceClassStatus {
        self.status(reason, |status| says(status, reason)).await.status.unwrap_or_default()
    }

    /// Waits until everybody has what it says in this generation.
    async fn is_rolled_out(&self) -> NamespaceClassStatus {
        let generation = self.api.get(&self.name).await.ok().and_then(|class| class.metadata.generation);
        let is_out = |status: &NamespaceClassStatus| {
            status.observed_generation >= generation
                && says(status, "RolledOut")
                && is_in(status, RolloutPhase::Complete)
        };
        self.status("been rolled out", is_out).await.status.unwrap_or_default()
    }
}

/// Namespaces of the class, bound and furnished.
async fn spaces<const COUNT: usize>(bed: &Testbed, class: &Class) -> Result<[Space; COUNT]> {
    let mut spaces = Vec::new();
    for number in 0..COUNT {
        spaces.push(Space::of(bed, &format!("{}-{number}", class.name), &class.name).await?);
    }
    for space in &spaces {
        space.follows(class).await;
    }
    class.is_rolled_out().await;
    spaces.try_into().map_err(|_| anyhow::anyhow!("as many as asked for"))
}

#[tokio::test]
async fn an_edit_that_fits_nowhere_is_asked_about_what_it_would_delete_once_it_does() -> Result<()> {
    let world = world().await;
    let asked = json!({"maxDeletions": 0});
    let before = rolled_out(asked.clone(), &[("kept", "1"), ("dropped", "1")]);
    let class = Class::with_spec(world.client(), "asked-first", before).await?;
    let [space] = spaces::<1>(&world.bed, &class).await?;
    let noted = ("noted", "{{ namespace.annotations['example.com/note'] }}");
    class.set_spec(rolled_out(asked, &[("kept", "1"), noted])).await?;
    class.reports("DeletionsUnconfirmed").await;
    space.annotate("example.com/note", Some("x")).await?;
    class.reports("DeletionsUnconfirmed").await;
    assert_eq!(space.names().await?, ["dropped", "kept"], "nothing of it is applied");
    Ok(())
}

#[tokio::test]
async fn who_leaves_while_it_fails_stops_nobody_any_more() -> Result<()> {
    let world = world().await;
    let staged = json!({"batch": 1, "order": [{"matchLabels": {"example.com/stage": "canary"}}]});
    let class = Class::with_spec(world.client(), "deserted", rolled_out(staged.clone(), &[("level", "old")])).await?;
    let [other, canary] = spaces::<2>(&world.bed, &class).await?;
    canary.merge(json!({"metadata": {"labels": {"example.com/stage": "canary"}}})).await?;
    canary.stranger_makes(config_map("taken", "mine")).await?;
    class.set_spec(rolled_out(staged, &[("level", "new"), ("taken", "ours")])).await?;
    class.reports("RolloutStopped").await;
    // What its binding says does not change by that.
    canary.label(Some("nowhere")).await?;
    other.has_value("level", "new").await;
    Ok(())
}

#[tokio::test]
async fn a_failing_canary_stops_a_roll_out_the_others_are_kept_at_their_revision_and_a_rollback_mends_all() -> Result<()>
{
    let world = world().await;
    let staged = json!({"batch": 1, "order": [{"matchLabels": {"example.com/stage": "canary"}}]});
    let old = rolled_out(staged.clone(), &[("level", "old")]);
    let class = Class::with_spec(world.client(), "canaried", old).await?;
    let [first, second, canary] = spaces::<3>(&world.bed, &class).await?;
    canary.merge(json!({"metadata": {"labels": {"example.com/stage": "canary"}}})).await?;
    canary.stranger_makes(config_map("taken", "mine")).await?;

    class.set_spec(rolled_out(staged.clone(), &[("level", "new"), ("taken", "ours")])).await?;
    let status = class.reports("RolloutStopped").await;
    assert!(is_in(&status, RolloutPhase::Stopped));
    let told = message(&status);
    assert!(told.contains(&format!("{} (Conflict)", canary.name)), "{told}");
    assert!(told.contains("croft rollback canaried"), "{told}");
    assert_eq!(status.rollout.unwrap_or_default().progress, "0/3");
    canary.has_value("level", "new").await;
    for other in [&first, &second] {
        assert_eq!(other.names().await?, ["level"], "nobody else is touched");
        other.edit("level", "somebody", json!({"data": {"key": "drifted"}})).await?;
        other.has_value("level", "old").await;
    }
    let late = Space::of(&world.bed, "canaried-late", &class.name).await?;
    late.has_value("level", "old").await;

    let said = steer(&world.bed, &["rollback", "canaried"]).await?;
    assert!(said.contains("class canaried says again what revision 1 said"), "{said}");
    canary.has_value("level", "old").await;
    let status = class.is_rolled_out().await;
    assert_eq!(status.rollout.context("a roll-out")?.progress, "4/4");
    for space in [&first, &second, &canary, &late] {
        assert!(!space.names().await?.contains(&"taken".to_owned()) || space.name == canary.name);
        space.has_value("level", "old").await;
    }
    let now = class.api.get("canaried").await?.spec;
    assert_eq!(json!(now.rollout), staged, "how it is rolled out is not rolled back");
    Ok(())
}

#[tokio::test]
async fn a_staged_change_reaches_everybody_one_batch_after_the_other() -> Result<()> {
    let world = world().await;
    let staged = json!({"batch": 1, "pause": "2s"});
    let class = Class::with_spec(world.client(), "batched", rolled_out(staged.clone(), &[("level", "1")])).await?;
    let spaces = spaces::<3>(&world.bed, &class).await?;
    class.set_spec(rolled_out(staged, &[("level", "2")])).await?;
    // The third one waits for the pause after the second.
    let has_new = |space: &Space| {
        let maps = space.config_maps();
        async move { anyhow::Ok(maps.get("level").await?.data.unwrap_or_default()["key"] == "2") }
    };
    let half = class.status("rested", |status| {
        let rollout = status.rollout.clone().unwrap_or_default();
        rollout.resting_since.is_some() && rollout.progress == "1/3"
    });
    half.await;
    let mut moved = Vec::new();
    for space in &spaces {
        moved.push(has_new(space).await?);
    }
    assert_eq!(moved, [true, false, false], "by name, one at a time");
    class.is_rolled_out().await;
    for space in &spaces {
        let binding = space.follows(&class).await;
        let (spec, status) = (binding.spec, binding.status.unwrap_or_default());
        assert!(spec.revision.is_some() && spec.revision == status.observed_revision);
    }
    let table = world.bed.admin().kubectl(&["get", "nc", "batched"]).await?;
    assert!(table.contains("ROLLOUT") && table.contains("3/3"), "{table}");
    Ok(())
}

#[tokio::test]
async fn a_paused_class_changes_nothing_until_it_is_resumed() -> Result<()> {
    let world = world().await;
    for (name, staged) in [("paused-at-once", json!({})), ("paused-in-stages", json!({"batch": 1}))] {
        let class = Class::with_spec(world.client(), name, rolled_out(staged.clone(), &[("level", "1")])).await?;
        let [space] = spaces::<1>(&world.bed, &class).await?;
        steer(&world.bed, &["pause", name]).await?;
        let mut paused = staged.clone();
        paused["paused"] = json!(true);
        class.set_spec(rolled_out(paused, &[("level", "2")])).await?;
        let told = message(&class.reports("RolloutPaused").await);
        assert!(told.contains(&format!("croft resume {name}")), "{told}");
        space.edit("level", "somebody", json!({"data": {"key": "drifted"}})).await?;
        space.has_value("level", "1").await;
        steer(&world.bed, &["resume", name]).await?;
        space.has_value("level", "2").await;
        class.is_rolled_out().await;
    }
    Ok(())
}

#[tokio::test]
async fn an_edit_that_would_delete_much_waits_whole_until_the_command_it_names_confirms_it() -> Result<()> {
    let world = world().await;
    let items = [("one", "1"), ("two", "1")];
    let spec = rolled_out(json!({"maxDeletions": 2}), &items);
    let class = Class::with_spec(world.client(), "emptied", spec).await?;
    let [first, second] = spaces::<2>(&world.bed, &class).await?;
    class.set_spec(rolled_out(json!({"maxDeletions": 2}), &[("three", "1")])).await?;
    let status = class.reports("DeletionsUnconfirmed").await;
    let told = message(&status);
    assert!(told.contains("would delete 4 of 4 objects"), "{told}");
    assert_eq!(status.rollout.unwrap_or_default().deletions, Some(4));
    for space in [&first, &second] {
        assert_eq!(space.names().await?, ["one", "two"], "nothing of it is applied");
        space.config_maps().delete("one", &DeleteParams::default()).await?;
        space.has("one").await;
    }
    let (_, command) = told.split_once("To confirm it: kubectl ").context("the command")?;
    let (command, _) = command.split_once(". To take").context("its end")?;
    world.bed.admin().kubectl(&command.split(' ').collect::<Vec<_>>()).await?;
    for space in [&first, &second] {
        space.has("three").await;
        space.lacks("one").await;
    }
    class.is_rolled_out().await;
    Ok(())
}

#[tokio::test]
async fn taking_rights_away_never_waits_for_the_guard() -> Result<()> {
    let world = world().await;
    for plural in ["roles", "rolebindings"] {
        apply(world.bed.admin(), &may_be_in_classes("rbac.authorization.k8s.io", plural)).await?;
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "readers"},
                      "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "readers"},
                         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers"},
                         "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}]});
    let spec = |items: Value| json!({"resources": items, "rollout": {"maxDeletions": 0}});
    let with_rights = spec(json!([config_map("kept", "1"), role, binding]));
    let class = Class::with_spec(world.client(), "rights-go", with_rights).await?;
    let [space] = spaces::<1>(&world.bed, &class).await?;
    class.set_spec(spec(json!([config_map("kept", "1")]))).await?;
    gone(&space.api::<RoleBinding>(), "readers").await;
    gone(&space.api::<Role>(), "readers").await;
    class.set_spec(spec(json!([]))).await?;
    class.reports("DeletionsUnconfirmed").await;
    assert_eq!(space.names().await?, ["kept"]);
    // Deleting the class is not guarded.
    class.delete().await?;
    space.lacks("kept").await;
    Ok(())
}

#[tokio::test]
async fn the_last_ten_revisions_are_kept_and_go_with_the_class() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "often-edited", &[("level", "0")]).await?;
    for level in 1..=12 {
        class.is_rolled_out().await;
        class.set(&[("level", &level.to_string())]).await?;
    }
    class.is_rolled_out().await;
    let numbers = eventually("ten revisions", || async {
        let kept = kept(world.client(), "often-edited").await?;
        let numbers: Vec<_> = kept.iter().map(|revision| revision.revision).collect();
        if numbers.len() == 10 { Ok(Some(numbers)) } else { bail!("there are {numbers:?}") }
    })
    .await;
    assert_eq!(numbers, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);

    // What it said before is known again, and is its latest revision.
    class.set(&[("level", "10")]).await?;
    eventually("revision 11 to be number 14", || async {
        let kept = kept(world.client(), "often-edited").await?;
        let numbers: Vec<_> = kept.iter().map(|revision| revision.revision).collect();
        if numbers == [14, 13, 12, 10, 9, 8, 7, 6, 5, 4] { Ok(Some(())) } else { bail!("there are {numbers:?}") }
    })
    .await;
    class.delete().await?;
    eventually("the revisions to go", || async {
        Ok(kept(world.client(), "often-edited").await?.is_empty().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_revision_that_is_lost_is_told_changes_nothing_and_keeps_nobody_from_leaving() -> Result<()> {
    let world = world().await;
    let paused = json!({"batch": 1, "paused": true});
    let class =
        Class::with_spec(world.client(), "forgetful", rolled_out(json!({"batch": 1}), &[("level", "1")])).await?;
    let [leaves, stays] = spaces::<2>(&world.bed, &class).await?;
    class.set_spec(rolled_out(paused, &[("level", "2")])).await?;
    class.reports("RolloutPaused").await;
    let old = kept(world.client(), "forgetful").await?.pop().context("the first revision")?;

    // Somebody puts another content under its name.
    revisions(world.client()).delete(&old.name_any(), &DeleteParams::default()).await?;
    let mut forged = old.clone();
    forged.metadata.resource_version = None;
    forged.metadata.uid = None;
    forged.data = Some(serde_json::from_value(json!({"resources": []}))?);
    revisions(world.client()).create(&PostParams::default(), &forged).await?;
    leaves.says("RevisionLost").await;
    assert_eq!(leaves.names().await?, ["level"], "what is there stays");
    leaves.label(None).await?;
    leaves.is_unbound().await;
    leaves.lacks("level").await;

    steer(&world.bed, &["resume", "forgetful"]).await?;
    stays.has_value("level", "2").await;
    class.is_rolled_out().await;
    Ok(())
}

/// As an operator without revisions has left it: none is kept, and nothing is said about any.
async fn forget_revisions(world: &Proxied, class: &Class, space: &Space) -> Result<()> {
    revisions(world.client()).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let forget = json!({"status": {"revision": null, "rollout": null}});
    class.api.patch_status(&class.name, &PatchParams::default(), &Patch::Merge(&forget)).await?;
    let forget = json!({"status": {"observedRevision": null}});
    space.bindings().patch_status(&space.name, &PatchParams::default(), &Patch::Merge(&forget)).await?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_from_before_there_were_revisions_is_taken_over_without_touching_a_namespace() -> Result<()> {
    let world = Proxied::new().await?;
    let operator = world.started().await?;
    let class = Class::define(world.client(), "upgraded", &[("level", "1")]).await?;
    let [space] = spaces::<1>(&world.bed, &class).await?;
    operator.process.kill();
    forget_revisions(&world, &class, &space).await?;
    let seen = || async {
        let (object, binding) = (space.has("level").await, space.bindings().get(&space.name).await?);
        anyhow::Ok((object.resource_version(), binding.resource_version()))
    };
    let before = seen().await?;
    world.forget_leader().await?;
    let _operator = world.started().await?;
    class.is_rolled_out().await;
    assert_eq!(kept(world.client(), "upgraded").await?.len(), 1);
    assert_eq!(seen().await?, before, "neither the objects nor the binding is written");

    // What it has is known all the same when the next change is staged.
    let paused = json!({"batch": 1, "paused": true});
    class.set_spec(rolled_out(paused, &[("level", "2")])).await?;
    class.reports("RolloutPaused").await;
    space.edit("level", "somebody", json!({"data": {"key": "drifted"}})).await?;
    space.has_value("level", "1").await;
    Ok(())
}
