//! `croft plan --delete`, `--unlabel` and `--to`.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    desk::{class, config_map, define, effects, furnished, run, says, versions, with_policy, world},
    support::{Shared, eventually},
};

/// Asks as the administrator.
async fn asked(world: &Shared, arguments: &[&str]) -> Result<crate::desk::Said> {
    let arguments: Vec<_> = ["plan"].into_iter().chain(arguments.iter().copied()).collect();
    run(&world.bed.admin().kubeconfig, &arguments, "").await
}

#[tokio::test]
async fn what_deleting_a_class_would_take_away_is_told_and_nothing_goes() -> Result<()> {
    let world = world().await;
    let two = json!([config_map("one", &json!({})), config_map("two", &json!({}))]);
    let namespace = furnished(world, "deletion", &class("plan-deletion", &two)).await?;
    let before = versions(world, &namespace).await?;
    let said = asked(world, &["--delete", "plan-deletion", "-o", "json"]).await?.ends_with_code(1).json();
    let unbind = format!("unbind NamespaceClassBinding/{namespace}");
    assert_eq!(effects(&said), ["prune ConfigMap/one", "prune ConfigMap/two", unbind.as_str()]);
    assert_eq!(versions(world, &namespace).await?, before);

    let kept = with_policy(class("plan-deletion", &two), &json!({"onClassDelete": "Orphan"}));
    define(world, &kept).await?;
    let said = asked(world, &["--delete", "plan-deletion", "-o", "json"]).await?.ends_with_code(1).json();
    assert_eq!(effects(&said)[..2], ["release ConfigMap/one", "release ConfigMap/two"]);

    let blocked = with_policy(class("plan-deletion", &two), &json!({"onClassDelete": "Block"}));
    define(world, &blocked).await?;
    let said = asked(world, &["--delete", "plan-deletion"]).await?.ends_with_code(0);
    said.mentions(&["wait", "NamespaceClass/plan-deletion: policy.onClassDelete is Block"]);
    asked(world, &["--delete", "no-such"]).await?.ends_with_code(2).mentions(&["there is no NamespaceClass no-such"]);
    Ok(())
}

#[tokio::test]
async fn what_removing_a_label_would_take_away_is_told_and_nothing_goes() -> Result<()> {
    let world = world().await;
    let namespace =
        furnished(world, "unlabel", &class("plan-unlabel", &json!([config_map("one", &json!({}))]))).await?;
    let before = versions(world, &namespace).await?;
    let said = asked(world, &["--unlabel", "-n", &namespace, "-o", "json"]).await?.ends_with_code(1).json();
    let unbind = format!("unbind NamespaceClassBinding/{namespace}");
    assert_eq!(effects(&said), ["prune ConfigMap/one", unbind.as_str()]);
    assert_eq!(versions(world, &namespace).await?, before);
    let bare = world.bed.namespace("unlabel-bare").await?;
    asked(world, &["--unlabel", "-n", &bare]).await?.ends_with_code(2).mentions(&["has no class"]);
    asked(world, &["--unlabel"]).await?.ends_with_code(2).mentions(&["--namespace"]);
    Ok(())
}

#[tokio::test]
async fn what_going_back_to_a_revision_would_do_is_told_and_nothing_is_done() -> Result<()> {
    let world = world().await;
    let level = |level: &str| class("plan-back", &json!([config_map("level", &json!({"level": level}))]));
    let namespace = furnished(world, "back", &level("1")).await?;
    define(world, &level("2")).await?;
    let number = |said: &Value| said["sum"]["change"].clone();
    // The revision is kept before anything of it reaches a namespace.
    let said = eventually("revision 2 to be the newest", || async {
        let said = asked(world, &["plan-back", "--to", "1", "-o", "json"]).await?;
        Ok((said.code == 1).then(|| said.json()))
    })
    .await;
    says(world, &namespace, "ReconcileSuccess").await;
    assert_eq!((effects(&said), number(&said)), (vec!["change ConfigMap/level".to_owned()], json!(1)));
    let before = versions(world, &namespace).await?;
    asked(world, &["plan-back", "--to", "2"]).await?.ends_with_code(0);
    asked(world, &["plan-back", "--to", "9"])
        .await?
        .ends_with_code(2)
        .mentions(&["it has no revision 9", "kept are: 2"]);
    assert_eq!(versions(world, &namespace).await?, before);
    Ok(())
}
