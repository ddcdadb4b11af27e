//! Labels and annotations that a class with `protect: true` sets on the Namespace are written by the operator alone.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use croft::namespaces::fences::{METADATA, SIZE};
use croft_api::namespaces::{CLASS_LABEL, NamespaceClassBinding, PROTECTED_LABELS_ANNOTATION};
use croft_testbed::{
    Testbed,
    fault::{Action, Match},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{Patch, PostParams},
};
use serde_json::json;

use super::{Plot, Target, Way, assert_refused, choice::doors, is_fence};
use crate::{
    scene::{Class, Proxied, Space, gone},
    support::{Shared, World, eventually, shared},
};

const LABEL: &str = "pod-security.kubernetes.io/enforce";

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

/// A namespace whose class sets a label, protected or not.
async fn furnished(name: &str, protect: bool) -> Result<Plot> {
    furnished_in(&world().await.bed, name, protect).await
}

async fn furnished_in(bed: &Testbed, name: &str, protect: bool) -> Result<Plot> {
    let plot = Plot::new(bed, name).await?;
    let metadata = json!({"labels": {LABEL: "restricted"}, "annotations": {"example.com/a": "1"}});
    Class::with_spec(plot.admin.clone(), name, json!({"protect": protect, "namespaceMetadata": metadata})).await?;
    // Not by an apply: the next one of the same manager would take the class away with the label.
    Target::namespace(&plot.admin, &plot.namespace).write(Way::Merge, CLASS_LABEL, Some(name)).await?;
    plot.ready().await;
    Ok(plot)
}

async fn label(plot: &Plot) -> Result<Option<String>> {
    let api: Api<Namespace> = Api::all(plot.admin.clone());
    Ok(api.get(&plot.namespace).await?.labels().get(LABEL).cloned())
}

#[tokio::test]
async fn a_label_that_a_protecting_class_set_is_not_changed_in_any_way() -> Result<()> {
    let plot = furnished("kept-label", true).await?;
    for (target, ways) in doors(&plot.owner.client, &plot.namespace).await? {
        // What is only tried out changes nothing.
        for way in ways.into_iter().filter(|_| !target.dry_run) {
            for to in [Some("privileged"), None] {
                // What another manager set, an apply does not take away by leaving it out.
                if way == Way::Apply && to.is_none() {
                    continue;
                }
                let what = format!("{to:?} by {way:?} on {:?}", target.subresource);
                let message = assert_refused(METADATA, &target.write(way, LABEL, to).await, &what);
                assert!(message.contains(&format!("class kept-label protects the label {LABEL}")), "{message}");
            }
        }
    }
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    let annotations = |key: &str, value: Option<&str>| Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    let message = assert_refused(METADATA, &target.patch(&annotations("example.com/a", Some("2"))).await, "annotation");
    assert!(message.contains("the annotation example.com/a"), "{message}");
    for value in [None, Some("")] {
        let note = annotations(PROTECTED_LABELS_ANNOTATION, value);
        assert_refused(METADATA, &target.patch(&note).await, "the note");
    }
    assert_eq!(label(&plot).await?.as_deref(), Some("restricted"));
    target.patch(&annotations("example.com/mine", Some("x"))).await.context("what the class does not set")?;
    Ok(())
}

#[tokio::test]
async fn a_label_of_a_protecting_class_replaces_the_one_a_tenant_set_first_which_comes_back_when_she_leaves()
-> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "first-label").await?;
    let target = Target::namespace(&plot.admin, &plot.namespace);
    target.write(Way::Merge, LABEL, Some("privileged")).await?;
    let metadata = json!({"labels": {LABEL: "restricted"}});
    Class::with_spec(world.client(), "first-label", json!({"protect": true, "namespaceMetadata": metadata})).await?;
    target.write(Way::Merge, CLASS_LABEL, Some("first-label")).await?;
    plot.ready().await;
    assert_eq!(label(&plot).await?.as_deref(), Some("restricted"));
    let hers = Target::namespace(&plot.owner.client, &plot.namespace);
    assert_refused(METADATA, &hers.write(Way::Merge, LABEL, Some("privileged")).await, "her own value again");
    target.write(Way::Merge, CLASS_LABEL, None).await?;
    eventually("her own label to be back", || async {
        Ok((label(&plot).await?.as_deref() == Some("privileged")).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_label_that_was_there_first_stays_where_the_class_has_come_to_say_the_same() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "same-again").await?;
    let target = Target::namespace(&plot.admin, &plot.namespace);
    target.write(Way::Merge, LABEL, Some("baseline")).await?;
    let spec = |level: &str| json!({"protect": true, "namespaceMetadata": {"labels": {LABEL: level}}});
    let class = Class::with_spec(world.client(), "same-again", spec("restricted")).await?;
    target.write(Way::Merge, CLASS_LABEL, Some("same-again")).await?;
    for level in ["restricted", "baseline"] {
        class.set_spec(spec(level)).await?;
        eventually("the level of the class", || async {
            Ok((label(&plot).await?.as_deref() == Some(level)).then_some(()))
        })
        .await;
        plot.ready().await;
    }
    target.write(Way::Merge, CLASS_LABEL, None).await?;
    gone(&Api::<NamespaceClassBinding>::namespaced(world.client(), &plot.namespace), &plot.namespace).await;
    assert_eq!(label(&plot).await?.as_deref(), Some("baseline"));
    Ok(())
}

#[tokio::test]
async fn what_an_administrator_sets_while_a_namespace_leaves_is_not_put_back() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "set-since").await?;
    let target = Target::namespace(&plot.admin, &plot.namespace);
    target.write(Way::Merge, LABEL, Some("privileged")).await?;
    let spec = json!({"policy": {"onConflict": "Adopt"}, "namespaceMetadata": {"labels": {LABEL: "restricted"}}});
    Class::with_spec(world.client(), "set-since", spec).await?;
    target.write(Way::Merge, CLASS_LABEL, Some("set-since")).await?;
    plot.ready().await;
    assert_eq!(label(&plot).await?.as_deref(), Some("restricted"));
    let leaves = json!({"metadata": {"labels": {CLASS_LABEL: null, LABEL: "baseline"}}});
    target.patch(&Patch::Merge(leaves)).await?;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &plot.namespace);
    gone(&bindings, &plot.namespace).await;
    assert_eq!(label(&plot).await?.as_deref(), Some("baseline"));
    Ok(())
}

#[tokio::test]
async fn what_is_set_between_look_and_call_is_not_put_back() -> Result<()> {
    let world = Proxied::new().await?;
    let _operator = world.started().await?;
    let space = Space::new(&world.bed, "between").await?;
    let target = Target::namespace(&world.client(), &space.name);
    target.write(Way::Merge, LABEL, Some("privileged")).await?;
    let spec = json!({"policy": {"onConflict": "Adopt"}, "namespaceMetadata": {"labels": {LABEL: "restricted"}}});
    let class = Class::with_spec(world.client(), "between", spec).await?;
    space.label(Some("between")).await?;
    space.follows(&class).await;
    let back = Match::verb("patch").resource("namespaces").name(&space.name);
    let back = world.proxy.on(back).before(Action::Hold).always();
    target.write(Way::Merge, CLASS_LABEL, None).await?;
    eventually("the label to be put back in a moment", || async { Ok((back.fired() > 0).then_some(())) }).await;
    target.write(Way::Merge, LABEL, Some("baseline")).await?;
    back.remove();
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &space.name);
    gone(&bindings, &space.name).await;
    let namespaces: Api<Namespace> = Api::all(world.client());
    let label = namespaces.get(&space.name).await?.labels().get(LABEL).cloned();
    assert_eq!(label.as_deref(), Some("baseline"));
    Ok(())
}

#[tokio::test]
async fn a_label_goes_with_its_class_whoever_says_that_it_is_his_as_well() -> Result<()> {
    let world = world().await;
    let (dropped, left) = (furnished("shared-label", true).await?, furnished("left-label", true).await?);
    let applied = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {LABEL: "restricted"}}});
    let emptied = Patch::Merge(json!({"metadata": {"managedFields": [{}]}}));
    for plot in [&dropped, &left] {
        let hers = Target::namespace(&plot.owner.client, &plot.namespace);
        hers.patch(&Patch::Apply(applied.clone())).await.context("the same value by apply")?;
        hers.patch(&emptied).await.context("managed by nobody")?;
        hers.patch(&Patch::Apply(applied.clone())).await?;
    }
    Class::with_spec(world.client(), "shared-label", json!({"protect": true})).await?;
    Target::namespace(&left.admin, &left.namespace).write(Way::Merge, CLASS_LABEL, None).await?;
    for plot in [&dropped, &left] {
        eventually("the label to go", || async { Ok(label(plot).await?.is_none().then_some(())) }).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_with_a_class_has_no_more_labels_than_can_be_read() -> Result<()> {
    let plot = furnished("many-labels", false).await?;
    let many = |count: usize| {
        let labels: BTreeMap<_, _> = (0..count).map(|number| (format!("l{number}"), "")).collect();
        Patch::Merge(json!({"metadata": {"labels": labels, "annotations": labels}}))
    };
    let hers = Target::namespace(&plot.owner.client, &plot.namespace);
    hers.patch(&many(300)).await.context("many")?;
    let message = assert_refused(SIZE, &hers.patch(&many(501)).await, "too many");
    assert!(message.contains("at most 500 labels"), "{message}");
    // What was there before the fence may become less.
    Target::namespace(&plot.admin, &plot.namespace).patch(&many(600)).await?;
    hers.patch(&Patch::Merge(json!({"metadata": {"labels": {"l1": null}}}))).await.context("one less")?;
    assert_refused(
        SIZE,
        &hers.patch(&Patch::Merge(json!({"metadata": {"labels": {"m": ""}, "annotations": {"m": ""}}}))).await,
        "and one more",
    );
    let finalizers: Vec<_> = (0..501).map(|number| format!("example.com/{number}")).collect();
    let held = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let message = assert_refused(SIZE, &hers.patch(&held).await, "held by too many");
    assert!(message.contains("at most 500 finalizers"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_cannot_be_read_is_told_and_followed_once_it_can() -> Result<()> {
    // Every class there is takes a look at it, and the API server its time: not in the world that other tests share.
    let world = World::own(Testbed::kubernetes()).await?;
    let plot = furnished_in(&world.bed, "unreadable", false).await?;
    let labels = |value: Option<&str>| (0..101_000).map(|number| (format!("l{number:x}"), json!(value))).collect();
    let labels = |value| -> serde_json::Map<_, _> { labels(value) };
    let target = Target::namespace(&plot.admin, &plot.namespace);
    let much = json!({"metadata": {"labels": labels(Some("")), "managedFields": [{}]}});
    target.patch(&Patch::Merge(much)).await.context("more than can be read")?;
    let (_, message) = plot.ready_reason("CannotObserve").await;
    assert!(message.contains("remove labels"), "{message}");
    let mut fewer = labels(None);
    fewer.insert(CLASS_LABEL.to_owned(), json!(null));
    let leaves = json!({"metadata": {"labels": fewer}});
    target.patch(&Patch::Merge(leaves)).await?;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &plot.namespace);
    gone(&bindings, &plot.namespace).await;
    Ok(())
}

#[tokio::test]
async fn no_status_and_no_owner_makes_a_namespace_that_cannot_be_read() -> Result<()> {
    let plot = furnished("much-unread", false).await?;
    // Six times as long once it is written as JSON.
    let much = "<".repeat(540_000);
    let hers = Target::namespace(&plot.owner.client, &plot.namespace);
    let condition = json!({"status": {"conditions": [{"type": "a", "status": "True", "message": much}]}});
    hers.through("status").patch(&Patch::Merge(condition)).await.context("her status")?;
    let metadata = json!({"labels": {LABEL: "baseline"}});
    Class::with_spec(world().await.client(), "much-unread", json!({"namespaceMetadata": metadata})).await?;
    let is_baseline = || async { Ok((label(&plot).await?.as_deref() == Some("baseline")).then_some(())) };
    eventually("the class to be followed whatever is in its status", is_baseline).await;
    hers.through("status").patch(&Patch::Merge(json!({"status": {"conditions": null}}))).await?;
    let owner = json!([{"apiVersion": "example.com/v1", "kind": "Nothing", "name": much, "uid": "u"}]);
    hers.patch(&Patch::Merge(json!({"metadata": {"ownerReferences": owner}}))).await.context("an owner")?;
    Target::namespace(&plot.admin, &plot.namespace).write(Way::Merge, CLASS_LABEL, None).await?;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(world().await.client(), &plot.namespace);
    gone(&bindings, &plot.namespace).await;
    Ok(())
}

/// The owner of a namespace cannot say which of its labels are kept.
pub(super) async fn assert_no_way(plot: &Plot) {
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    let note = Patch::Merge(json!({"metadata": {"annotations": {PROTECTED_LABELS_ANNOTATION: "example.com/x"}}}));
    assert_refused(METADATA, &target.patch(&note).await, "a note of a tenant's");
}

#[tokio::test]
async fn nobody_else_says_which_labels_are_kept() -> Result<()> {
    let plot = furnished("false-note", false).await?;
    assert_no_way(&plot).await;
    let velero = world().await.bed.cluster_admin("velero", "restores-namespaces").await?;
    let restored: Namespace = serde_json::from_value(json!({"metadata": {
        "generateName": "restored-note-", "annotations": {PROTECTED_LABELS_ANNOTATION: LABEL}, "labels": {LABEL: "restricted"},
    }}))?;
    let api: Api<Namespace> = Api::all(velero.client.clone());
    let restored =
        eventually("a restored namespace", || async { Ok(Some(api.create(&PostParams::default(), &restored).await?)) })
            .await;
    let target = Target::namespace(&velero.client, &restored.name_any());
    target.write(Way::Merge, LABEL, None).await.context("without a class nothing is kept")?;
    Ok(())
}

#[tokio::test]
async fn what_a_backup_says_is_kept_is_forgotten_where_no_class_has_said_so() -> Result<()> {
    let world = world().await;
    let velero = world.bed.cluster_admin("velero", "restores-notes").await?;
    Class::with_spec(world.client(), "stale-note", json!({"resources": []})).await?;
    let restored: Namespace = serde_json::from_value(json!({"metadata": {
        "generateName": "stale-note-", "annotations": {PROTECTED_LABELS_ANNOTATION: LABEL},
        "labels": {CLASS_LABEL: "stale-note", LABEL: "restricted"},
    }}))?;
    let api: Api<Namespace> = Api::all(velero.client.clone());
    let restored =
        eventually("a restored namespace", || async { Ok(Some(api.create(&PostParams::default(), &restored).await?)) })
            .await;
    eventually("the note to be forgotten", || async {
        let now = api.get(&restored.name_any()).await?;
        Ok((!now.annotations().contains_key(PROTECTED_LABELS_ANNOTATION)).then_some(()))
    })
    .await;
    let target = Target::namespace(&velero.client, &restored.name_any());
    target.write(Way::Merge, LABEL, None).await.context("no class in force keeps it")?;
    Ok(())
}

#[tokio::test]
async fn without_protect_a_label_is_put_right_and_not_fenced() -> Result<()> {
    let plot = furnished("loose-label", false).await?;
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    target.write(Way::Merge, LABEL, Some("privileged")).await?;
    eventually("the label to be put right", || async {
        Ok((label(&plot).await?.as_deref() == Some("restricted")).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_operator_takes_protected_labels_away_with_the_class() -> Result<()> {
    let plot = furnished("left-label", true).await?;
    Target::namespace(&plot.admin, &plot.namespace).write(Way::Merge, CLASS_LABEL, None).await?;
    eventually("the label to go", || async { Ok(label(&plot).await?.is_none().then_some(())) }).await;
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    eventually("the label to be free", || async {
        let answer = target.write(Way::Merge, LABEL, Some("baseline")).await;
        Ok((!is_fence(METADATA, &answer)).then_some(()))
    })
    .await;
    Ok(())
}
