//! Namespaces that come back from a backup, classes with secrets, and the end of the kinds themselves.

use anyhow::Result;
use croft_api::namespaces::STAMP_LABEL;
use croft_testbed::Testbed;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::{
    scene::{Class, Space, config_map, gone, world},
    support::{World, apply, eventually},
};

#[tokio::test]
async fn what_a_backup_brought_back_is_taken_over_in_place_and_goes_with_the_class() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "restored", &[("kept", "1"), ("lost", "1")]).await?;
    let before = Space::of(&world.bed, "restored", "restored").await?;
    before.follows(&class).await;
    let backup = before.has("kept").await;
    before.namespaces().delete(&before.name, &DeleteParams::default()).await?;
    gone(&before.namespaces(), &before.name).await;
    // A backup keeps names, labels and content; UIDs and owners of then mean nothing any more.
    let space = Space::new(&world.bed, "restored-again").await?;
    let mut content = config_map("kept", "changed since");
    content["metadata"]["labels"] = json!(backup.labels());
    let restored = space.stranger_makes(content).await?;
    let mut unrelated = config_map("unrelated", "1");
    unrelated["metadata"]["labels"] = json!({STAMP_LABEL: "restored"});
    space.stranger_makes(unrelated).await?;
    space.label(Some("restored")).await?;
    space.follows(&class).await;
    assert_eq!(space.has_value("kept", "1").await.uid(), restored.uid(), "taken over in place");
    space.label(None).await?;
    space.is_unbound().await;
    assert_eq!(space.names().await?, ["unrelated"], "what the class never wanted is left alone");
    Ok(())
}

#[tokio::test]
async fn the_author_of_a_class_with_a_secret_is_told_who_can_read_it() -> Result<()> {
    let world = world().await;
    let arguments = ["apply", "--dry-run=server", "--warnings-as-errors", "-f", "-"];
    eventually("a warning", || async {
        let Err(told) = world.bed.admin().kubectl_stdin(&arguments, WITH_SECRET).await else { return Ok(None) };
        let told = format!("{told:#}");
        assert!(!told.contains("hush"), "never the value itself: {told}");
        Ok(told.contains("whoever may read this class can read the values of this Secret").then_some(()))
    })
    .await;
    Ok(())
}

const WITH_SECRET: &str = "
apiVersion: akuity.io/v1alpha1
kind: NamespaceClass
metadata: {name: with-secret}
spec:
  resources:
  - {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hush}}
";

#[tokio::test]
async fn uninstalling_the_kind_takes_what_classes_made_but_leaves_orphans_where_they_say_so() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let plain = Class::define(world.client(), "plain", &[("made", "1")]).await?;
    let orphan = json!({"policy": {"onClassDelete": "Orphan"}, "resources": [config_map("made", "1")]});
    let orphan = Class::with_spec(world.client(), "orphan", orphan).await?;
    let (taken, kept) =
        (Space::of(&world.bed, "taken", "plain").await?, Space::of(&world.bed, "kept", "orphan").await?);
    taken.follows(&plain).await;
    kept.follows(&orphan).await;
    let before = kept.has("made").await;
    let admin = world.bed.admin();
    admin.kubectl(&["delete", "crd", "namespaceclasses.akuity.io"]).await?;
    taken.is_unbound().await;
    kept.is_unbound().await;
    assert!(taken.names().await?.is_empty());
    let after = kept.has("made").await;
    assert_eq!((after.uid(), after.owner_references().len()), (before.uid(), 0));
    // And the day it is installed again, everything works again.
    apply(admin, &croft_api::crds_yaml()).await?;
    Class::define(world.client(), "plain", &[("made", "2")]).await?;
    taken.has_value("made", "2").await;
    Ok(())
}
