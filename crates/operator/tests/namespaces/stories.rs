//! Define, apply, unlabel, switch, update, delete.

use anyhow::Result;
use k8s_openapi::api::core::v1::{ResourceQuota, Secret};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Space, config_map, crd, gone, may_be_in_classes, refusal, world},
    support::{apply, eventually},
};

#[tokio::test]
async fn a_labelled_namespace_gets_every_object_of_its_class_owned_by_its_binding() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "apply").await?;
    Class::define(world.client(), "apply-all", &[("one", "1"), ("two", "2")]).await?;
    space.label(Some("apply-all")).await?;
    for name in ["one", "two"] {
        let object = space.has(name).await;
        let owner = &object.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("NamespaceClassBinding", Some(true)));
    }
    let binding = space.says("ReconcileSuccess").await;
    let status = binding.status.clone().unwrap();
    assert_eq!(status.observed_class_name.as_deref(), Some("apply-all"));
    assert_eq!(status.applied_resources.len(), 2);
    assert!(status.applied_resources.iter().all(|applied| applied.uid.is_some() && applied.digest.is_some()));
    assert_eq!(binding.owner_references()[0].kind, "Namespace");
    Ok(())
}

#[tokio::test]
async fn unlabelling_takes_away_what_the_class_made_and_nothing_else() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "unlabel").await?;
    space.stranger_makes(config_map("mine", "x")).await?;
    Class::define(world.client(), "unlabel", &[("made", "1")]).await?;
    space.label(Some("unlabel")).await?;
    space.has("made").await;
    space.label(None).await?;
    space.lacks("made").await;
    space.is_unbound().await;
    assert!(space.config_maps().get_opt("mine").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn switching_class_keeps_the_shared_object_and_replaces_the_rest() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "switch").await?;
    Class::define(world.client(), "switch-a", &[("shared", "same"), ("only-a", "1")]).await?;
    Class::define(world.client(), "switch-b", &[("shared", "same"), ("only-b", "1")]).await?;
    space.label(Some("switch-a")).await?;
    let before = space.has("shared").await;
    space.has("only-a").await;
    space.label(Some("switch-b")).await?;
    space.has("only-b").await;
    space.lacks("only-a").await;
    assert_eq!(space.has("shared").await.uid(), before.uid(), "never deleted and made anew");
    Ok(())
}

#[tokio::test]
async fn an_edited_class_reaches_its_namespaces_in_place_and_prunes_what_it_dropped() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "update").await?;
    let class = Class::define(world.client(), "update", &[("keep", "old"), ("drop", "1")]).await?;
    space.label(Some("update")).await?;
    let before = space.has("keep").await;
    space.has("drop").await;
    class.set(&[("keep", "new"), ("add", "1")]).await?;
    space.has("add").await;
    space.lacks("drop").await;
    let after = space.has("keep").await;
    assert_eq!((after.uid(), after.data.unwrap()["key"].as_str()), (before.uid(), "new"));
    Ok(())
}

#[tokio::test]
async fn a_quota_that_a_class_dropped_is_listed_no_more_once_it_is_gone() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "drop-quota").await?;
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" },
                        "spec": { "hard": { "pods": "1" } } });
    let spec = json!({ "resources": [quota, config_map("keep", "1")] });
    let class = Class::with_spec(world.client(), "drop-quota", spec).await?;
    space.label(Some("drop-quota")).await?;
    assert_eq!(space.follows(&class).await.status.unwrap_or_default().applied_resources.len(), 2);
    class.set(&[("keep", "1")]).await?;
    // The API server answers the deletion of a quota with the quota.
    gone(&space.api::<ResourceQuota>(), "q").await;
    eventually("the inventory to be of one object", || async {
        let status = space.bindings().get(&space.name).await?.status.unwrap_or_default();
        Ok((status.applied_resources.len() == 1).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn deleting_a_class_removes_its_objects_and_making_it_again_brings_them_back() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "delete").await?;
    let class = Class::define(world.client(), "delete-me", &[("made", "1")]).await?;
    space.label(Some("delete-me")).await?;
    space.has("made").await;
    class.api.delete("delete-me", &DeleteParams::default()).await?;
    space.lacks("made").await;
    class.set(&[("made", "2")]).await?;
    space.has_value("made", "2").await;
    Ok(())
}

#[tokio::test]
async fn a_class_that_comes_later_than_its_label_is_applied_at_once() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "late").await?;
    space.label(Some("late-class")).await?;
    space.event("ClassNotFound").await;
    Class::define(world.client(), "late-class", &[("made", "1")]).await?;
    space.has("made").await;
    Ok(())
}

#[tokio::test]
async fn a_typo_in_the_label_keeps_what_is_there_and_says_so() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "typo").await?;
    Class::define(world.client(), "typo-right", &[("made", "1")]).await?;
    space.label(Some("typo-right")).await?;
    let before = space.has("made").await;
    space.label(Some("typo-wrong")).await?;
    space.says("ClassNotFound").await;
    assert_eq!(space.has("made").await.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn an_object_that_was_there_before_is_never_overwritten_nor_deleted() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "conflict").await?;
    let before = space.stranger_makes(config_map("taken", "mine")).await?;
    Class::define(world.client(), "conflict", &[("taken", "theirs"), ("free", "1")]).await?;
    space.label(Some("conflict")).await?;
    space.has("free").await;
    space.says("Conflict").await;
    space.label(None).await?;
    space.lacks("free").await;
    let after = space.has("taken").await;
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()), "untouched");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_turns_out_to_be_cluster_scoped_is_never_made() -> Result<()> {
    let world = world().await;
    let world_wide = json!({"apiVersion": "scope.croft.dev/v1", "kind": "Planet", "metadata": {"name": "p"}});
    // Nobody can tell yet what a Planet is: the class is let in.
    let spec = json!({"resources": [world_wide, config_map("fine", "1")]});
    let class = Class::with_spec(world.client(), "scope", spec.clone()).await?;
    let space = Space::of(&world.bed, "scope", "scope").await?;
    space.says("KindNotInstalled").await;
    apply(world.bed.admin(), &may_be_in_classes("scope.croft.dev", "planets")).await?;
    apply(world.bed.admin(), &crd("scope.croft.dev", "Planet", "planets", "Cluster")).await?;
    space.says("InvalidClass").await;
    space.has("fine").await;
    let planets = world.bed.admin().kubectl(&["get", "planets.scope.croft.dev", "-o", "name"]).await?;
    assert_eq!(planets.trim(), "");
    // And from now on no class gets in with one.
    let message = refusal(&format!("{}-again", class.name), spec).await;
    assert!(message.contains("spec.resources[0]: Forbidden: Planet is not namespaced"), "{message}");
    Ok(())
}

#[tokio::test]
async fn the_text_of_a_secret_arrives_and_a_key_taken_out_of_the_class_goes() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "secret").await?;
    let class = Class::named(world.client(), "secret");
    let secret = |data: Value| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": data});
        json!({"resources": [secret]})
    };
    class.set_spec(secret(json!({"a": "1", "b": "2"}))).await?;
    space.label(Some("secret")).await?;
    let secrets: Api<Secret> = space.api();
    let keys = |wanted: usize| {
        let secrets = secrets.clone();
        async move {
            eventually("the keys of the secret", || async {
                let found = secrets.get_opt("s").await?.and_then(|secret| secret.data).unwrap_or_default();
                Ok((found.len() == wanted).then_some(found))
            })
            .await
        }
    };
    assert_eq!(keys(2).await["a"].0, b"1");
    class.set_spec(secret(json!({"a": "1"}))).await?;
    assert!(keys(1).await.contains_key("a"));
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_installed_later_is_applied_when_it_appears() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "kind").await?;
    let gadget = json!({"apiVersion": "late.croft.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    Class::with_spec(world.client(), "late-kind", json!({"resources": [gadget, config_map("now", "1")]})).await?;
    space.label(Some("late-kind")).await?;
    space.has("now").await;
    space.says("KindNotInstalled").await;
    apply(world.bed.admin(), &crd("late.croft.dev", "Gadget", "gadgets", "Namespaced")).await?;
    // The operator was given no right to gadgets: it says exactly that.
    space.says("Forbidden").await;
    apply(world.bed.admin(), GADGET_RIGHTS).await?;
    space.says("ReconcileSuccess").await;
    Ok(())
}

const GADGET_RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: croft-gadgets}
rules: [{apiGroups: [late.croft.dev], resources: [gadgets], verbs: [create, delete, get, list, patch, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: croft-gadgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: croft-gadgets}
subjects: [{kind: ServiceAccount, name: croft, namespace: croft-system}]
";

#[tokio::test]
async fn a_namespace_with_a_class_is_deleted_without_hanging() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "dying").await?;
    Class::define(world.client(), "dying", &[("made", "1")]).await?;
    space.label(Some("dying")).await?;
    space.has("made").await;
    space.namespaces().delete(&space.name, &DeleteParams::default()).await?;
    gone(&space.namespaces(), &space.name).await;
    Ok(())
}
