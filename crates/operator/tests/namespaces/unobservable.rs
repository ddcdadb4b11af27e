//! Kinds that come, go and cannot be seen: each blocks its own items, says so, and is asked about no more than needed.

use std::time::Duration;

use anyhow::{Context, Result};
use croft_testbed::{
    Operator,
    fault::{Action, Match},
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Proxied, Space, applied, condition, config_map, crd, may_be_in_classes},
    support::{apply, eventually},
};

fn item(group: &str, version: &str, kind: &str) -> Value {
    json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": "it"}, "spec": {"v": "1"}})
}

fn api(space: &Space, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    };
    Api::namespaced_with(space.client.clone(), &space.name, &resource)
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_blocks_its_own_items_says_so_and_heals() -> Result<()> {
    const GROUP: &str = "blind.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let _operator = world.started().await?;
    // As when the webhook that converts the kind is down.
    let broken = world.proxy.on(Match::verb("list").resource("lamps")).before(Action::Status(500)).always();
    let resources = json!({"resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    let class = Class::with_spec(world.client(), "blind", resources).await?;
    let space = Space::of(&world.bed, "blind", "blind").await?;
    space.has_value("made", "1").await;
    let binding = space.says("Unobservable").await;
    let ready = condition(&binding, "Ready").context("a condition")?;
    assert_eq!((ready.status.as_str(), ready.message.contains("Lamp/it")), ("False", true), "{}", ready.message);
    assert!(broken.fired() > 0);
    // Drift of what can be seen is put right meanwhile.
    space.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    space.has_value("made", "1").await;
    broken.remove();
    space.follows(&class).await;
    Ok(())
}

#[tokio::test]
async fn a_binding_waits_for_what_it_made_of_a_kind_that_cannot_be_seen() -> Result<()> {
    const GROUP: &str = "hidden.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let operator = world.started().await?;
    let spec =
        json!({"policy": {"onUnbind": "Orphan"}, "resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    let class = Class::with_spec(world.client(), "hidden", spec).await?;
    let space = Space::of(&world.bed, "hidden", "hidden").await?;
    space.follows(&class).await;
    let broken = world.proxy.on(Match::verb("list").resource("lamps")).before(Action::Status(500)).always();
    let _operator = world.restart(operator).await?;
    space.label(None).await?;
    space.says("Unobservable").await;
    let lamps = api(&space, GROUP, "v1", "Lamp", "lamps");
    assert!(lamps.get("it").await.is_ok(), "had the binding gone, so had what is to stay");
    broken.remove();
    space.is_unbound().await;
    assert!(lamps.get("it").await?.owner_references().is_empty(), "released, as the class says");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_can_be_listed_and_not_watched_blocks_its_own_items_says_so_and_heals() -> Result<()> {
    const GROUP: &str = "deaf.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let _operator = world.started().await?;
    let refused = world.proxy.on(Match::verb("watch").resource("lamps")).before(Action::Status(405)).always();
    let resources = json!({"resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    let class = Class::with_spec(world.client(), "deaf", resources).await?;
    let space = Space::of(&world.bed, "deaf", "deaf").await?;
    space.has_value("made", "1").await;
    eventually("the watch to be refused again and again", || async { Ok((refused.fired() > 4).then_some(())) }).await;
    space.says("Unobservable").await;
    let log = world.proxy.log();
    let lists = log.iter().filter(|seen| seen.request.verb == "list" && seen.request.resource.ends_with("/lamps"));
    let lists = lists.filter(|seen| seen.status == Some(200));
    assert_eq!(lists.count(), 1, "what cannot be watched is not listed over and over");
    refused.remove();
    space.follows(&class).await;
    Ok(())
}

#[tokio::test]
async fn what_went_with_its_kind_while_nobody_watched_holds_neither_binding_nor_class() -> Result<()> {
    const GROUP: &str = "vanished.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let _operator = world.started().await?;
    let spec =
        json!({"policy": {"onUnbind": "Orphan"}, "resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    let class = Class::with_spec(world.client(), "vanished", spec).await?;
    let space = Space::of(&world.bed, "vanished", "vanished").await?;
    space.follows(&class).await;
    let unseen = world.proxy.on(Match::verb("watch").resource("lamps")).before(Action::Drop).always();
    world.proxy.cut_watches();
    eventually("the watch to be down", || async { Ok((unseen.fired() > 0).then_some(())) }).await;
    admin.kubectl(&["delete", "crd", "lamps.vanished.croft.dev"]).await?;
    unseen.remove();
    space.says("KindNotInstalled").await;
    space.label(None).await?;
    space.is_unbound().await;
    assert!(space.has("made").await.owner_references().is_empty(), "released, as the class says");
    eventually("the class to forget the kind", || async {
        let kinds = class.api.get(&class.name).await?.status.unwrap_or_default().kinds;
        Ok(kinds.iter().all(|kind| kind.kind != "Lamp").then_some(()))
    })
    .await;
    Ok(())
}

/// Kinds of `*.k8s.io` groups need not come with Kubernetes: Gateway API's are CRDs.
#[tokio::test]
async fn a_namespace_that_cannot_be_looked_at_says_so_instead_of_ready_and_heals() -> Result<()> {
    let world = Proxied::new().await?;
    let _operator = world.started().await?;
    let class = Class::with_spec(world.client(), "dim", json!({"resources": [config_map("made", "1")]})).await?;
    let space = Space::of(&world.bed, "dim", "dim").await?;
    space.follows(&class).await;
    // That a class is gone counts only after a live look, which fails.
    let broken = world.proxy.on(Match::verb("get").resource("namespaceclasses")).before(Action::Status(500)).always();
    world.bed.admin().kubectl(&["delete", "namespaceclass", "dim"]).await?;
    let binding = space.says("CannotObserve").await;
    assert_eq!(condition(&binding, "Ready").context("a condition")?.status, "Unknown");
    space.has_value("made", "1").await;
    broken.remove();
    space.is_unbound().await;
    Ok(())
}

#[tokio::test]
async fn a_kind_of_a_kubernetes_group_that_is_uninstalled_is_not_asked_for_in_a_loop() -> Result<()> {
    const GROUP: &str = "lamps.x-k8s.io";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let _operator = world.started().await?;
    let spec = json!({"resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    let class = Class::with_spec(world.client(), "gateway", spec).await?;
    let space = Space::of(&world.bed, "gateway", "gateway").await?;
    space.follows(&class).await;
    admin.kubectl(&["delete", "crd", "lamps.lamps.x-k8s.io"]).await?;
    let binding = space.says("KindNotInstalled").await;
    assert!(applied(&binding, "it").is_some_and(|applied| applied.uid.is_none()));
    // All moments at which it may be served again have passed.
    world.quiet(Duration::from_secs(13)).await;
    world.proxy.clear_log();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = world.proxy.log();
    let asked: Vec<_> = asked.iter().filter(|seen| !seen.request.resource.ends_with("leases")).collect();
    assert!(asked.is_empty(), "{asked:#?}");
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    space.follows(&class).await;
    Ok(())
}

/// How often bindings were looked at.
async fn looks(operator: &Operator) -> Result<u64> {
    let metrics = operator.metrics().await?;
    let lines = metrics.lines().filter(|line| line.starts_with("croft_reconciles_total{"));
    let lines = lines.filter(|line| line.contains("work=\"namespaceclassbinding\""));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

#[tokio::test]
async fn a_change_of_a_kind_no_class_uses_makes_nobody_look() -> Result<()> {
    const GROUP: &str = "unused.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let operator = world.started().await?;
    let class = Class::with_spec(world.client(), "still", json!({"resources": [config_map("made", "1")]})).await?;
    for number in 0..4 {
        Space::of(&world.bed, &format!("still-{number}"), "still").await?.follows(&class).await;
    }
    world.quiet(Duration::from_secs(3)).await;
    let before = looks(&operator).await?;
    world.proxy.clear_log();
    admin.kubectl(&["annotate", "crd", "lamps.unused.croft.dev", "touched=true"]).await?;
    eventually("all moments at which the change may show to pass", || async {
        let log = world.proxy.log();
        let asked = log
            .iter()
            .filter(|seen| seen.request.resource.is_empty() && seen.request.name.as_deref() == Some("/api/v1"));
        Ok((asked.count() >= 3).then_some(()))
    })
    .await;
    world.quiet(Duration::from_secs(1)).await;
    let looked = looks(&operator).await? - before;
    assert!(looked <= 1, "{looked} looks; a slow resync makes one at most in this time");
    Ok(())
}

#[tokio::test]
async fn a_version_that_a_kind_gains_later_is_used_as_soon_as_it_is_served() -> Result<()> {
    const GROUP: &str = "growing.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let _operator = world.started().await?;
    let class = Class::with_spec(world.client(), "growing", json!({"resources": [item(GROUP, "v2", "Lamp")]})).await?;
    let space = Space::of(&world.bed, "growing", "growing").await?;
    space.says("KindNotInstalled").await;
    let mut grown: Value = serde_json::from_str(&crd(GROUP, "Lamp", "lamps", "Namespaced"))?;
    let mut second = grown["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    grown["spec"]["versions"].as_array_mut().context("versions")?.push(second);
    apply(admin, &grown.to_string()).await?;
    space.follows(&class).await;
    eventually("the object", || async { Ok(api(&space, GROUP, "v2", "Lamp", "lamps").get_opt("it").await?) }).await;
    Ok(())
}

#[tokio::test]
async fn a_kind_is_seen_in_a_version_that_is_still_served_when_another_goes() -> Result<()> {
    const GROUP: &str = "aging.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    let versions = |early_is_served: bool| -> Result<String> {
        let mut crd: Value = serde_json::from_str(&crd(GROUP, "Lamp", "lamps", "Namespaced"))?;
        let mut early = crd["spec"]["versions"][0].clone();
        (early["name"], early["storage"], early["served"]) = ("v1beta1".into(), false.into(), early_is_served.into());
        crd["spec"]["versions"].as_array_mut().context("versions")?.push(early);
        Ok(crd.to_string())
    };
    apply(admin, &versions(true)?).await?;
    let _operator = world.started().await?;
    let early =
        Class::with_spec(world.client(), "early", json!({"resources": [item(GROUP, "v1beta1", "Lamp")]})).await?;
    let space = Space::of(&world.bed, "early", "early").await?;
    space.follows(&early).await;
    let stable = Class::with_spec(world.client(), "stable", json!({"resources": [item(GROUP, "v1", "Lamp")]})).await?;
    let other = Space::of(&world.bed, "stable", "stable").await?;
    other.follows(&stable).await;
    apply(admin, &versions(false)?).await?;
    space.says("KindNotInstalled").await;
    let lamps = api(&other, GROUP, "v1", "Lamp", "lamps");
    let edit = json!({"spec": {"v": "edited"}});
    lamps.patch("it", &PatchParams::default(), &Patch::Merge(&edit)).await?;
    eventually("the drift to be put right", || async {
        Ok((lamps.get("it").await?.data["spec"]["v"] == "1").then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn objects_in_another_version_than_the_watched_one_are_read_once_and_then_known() -> Result<()> {
    const GROUP: &str = "mixed.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    let mut both: Value = serde_json::from_str(&crd(GROUP, "Lamp", "lamps", "Namespaced"))?;
    let mut early = both["spec"]["versions"][0].clone();
    (early["name"], early["storage"]) = ("v1beta1".into(), false.into());
    both["spec"]["versions"].as_array_mut().context("versions")?.push(early);
    apply(admin, &both.to_string()).await?;
    let operator = world.started().await?;
    let stable = Class::with_spec(world.client(), "stable", json!({"resources": [item(GROUP, "v1", "Lamp")]})).await?;
    Space::of(&world.bed, "stable", "stable").await?.follows(&stable).await;
    let spec = json!({"resources": [config_map("made", "1"), item(GROUP, "v1beta1", "Lamp")]});
    let early = Class::with_spec(world.client(), "early", spec).await?;
    let space = Space::of(&world.bed, "early", "early").await?;
    space.follows(&early).await;
    world.quiet(Duration::from_secs(3)).await;
    world.proxy.clear_log();
    // Each of these is a look at all of the namespace.
    for value in ["a", "b", "c"] {
        space.edit("made", "somebody", json!({"data": {"key": value}})).await?;
        space.has_value("made", "1").await;
        world.quiet(Duration::from_secs(1)).await;
    }
    let log = world.proxy.log();
    let reads = log.iter().filter(|seen| seen.request.verb == "get" && seen.request.resource.ends_with("/lamps"));
    assert!(reads.count() <= 1, "{log:#?}");
    drop(operator);
    Ok(())
}

#[tokio::test]
async fn an_api_that_never_answers_blocks_its_own_items_only_and_is_asked_rarely() -> Result<()> {
    const GROUP: &str = "mute.croft.dev";
    let world = Proxied::new().await?;
    let _operator = world.started().await?;
    let mute = Match::any().resource("").name("/apis/mute.croft.dev/v1");
    let mute = world.proxy.on(mute).before(Action::Hold).always();
    let spec = json!({"resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    Class::with_spec(world.client(), "mute", spec).await?;
    let mut spaces = Vec::new();
    for number in 0..20 {
        spaces.push(Space::of(&world.bed, &format!("mute-{number}"), "mute").await?);
    }
    for space in &spaces {
        space.has_value("made", "1").await;
        space.says("Unobservable").await;
    }
    assert!((1..=8).contains(&mute.fired()), "asked {} times", mute.fired());
    Ok(())
}

#[tokio::test]
async fn a_kind_whose_writes_never_end_keeps_nobody_else_waiting() -> Result<()> {
    const GROUP: &str = "stuck.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    apply(admin, &crd(GROUP, "Lamp", "lamps", "Namespaced")).await?;
    let _operator = world.started().await?;
    // As when an admission webhook of the kind accepts connections and says nothing.
    let _stuck = world.proxy.on(Match::verb("create").resource("stuck.croft.dev/lamps")).before(Action::Hold).always();
    let spec = json!({"resources": [config_map("made", "1"), item(GROUP, "v1", "Lamp")]});
    Class::with_spec(world.client(), "stuck", spec).await?;
    let free = Class::with_spec(world.client(), "free", json!({"resources": [config_map("made", "1")]})).await?;
    let mut spaces = Vec::new();
    for number in 0..60 {
        spaces.push(Space::of(&world.bed, &format!("stuck-{number}"), "stuck").await?);
    }
    for round in 0..5 {
        let other = Space::of(&world.bed, &format!("free-{round}"), "free").await?;
        let begun = std::time::Instant::now();
        other.follows(&free).await;
        assert!(begun.elapsed() < Duration::from_secs(4), "round {round}: {:?}", begun.elapsed());
    }
    for space in &spaces {
        space.has_value("made", "1").await;
        space.says("ApplyFailed").await;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_to_be_kept_outlives_the_version_it_was_made_in() -> Result<()> {
    const GROUP: &str = "kept.croft.dev";
    let world = Proxied::new().await?;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes(GROUP, "lamps")).await?;
    let versions = |early_is_served: bool| -> Result<String> {
        let mut crd: Value = serde_json::from_str(&crd(GROUP, "Lamp", "lamps", "Namespaced"))?;
        let mut early = crd["spec"]["versions"][0].clone();
        (early["name"], early["storage"], early["served"]) = ("v1beta1".into(), false.into(), early_is_served.into());
        crd["spec"]["versions"].as_array_mut().context("versions")?.push(early);
        Ok(crd.to_string())
    };
    apply(admin, &versions(true)?).await?;
    let operator = world.started().await?;
    let spec = json!({"policy": {"onUnbind": "Orphan"}, "resources": [item(GROUP, "v1beta1", "Lamp")]});
    let class = Class::with_spec(world.client(), "kept", spec).await?;
    let space = Space::of(&world.bed, "kept", "kept").await?;
    space.follows(&class).await;
    apply(admin, &versions(false)?).await?;
    let binding = space.says("KindNotInstalled").await;
    let message = &condition(&binding, "Ready").context("a condition")?.message;
    assert!(message.contains("change the class to kept.croft.dev/v1"), "{message}");
    let _operator = world.restart(operator).await?;
    space.label(None).await?;
    space.is_unbound().await;
    let lamp = api(&space, GROUP, "v1", "Lamp", "lamps").get("it").await?;
    assert!(
        lamp.owner_references().is_empty() && lamp.metadata.deletion_timestamp.is_none(),
        "released, as the class says"
    );
    Ok(())
}
