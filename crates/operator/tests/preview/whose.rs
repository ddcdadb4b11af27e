//! Which cluster, which namespace and whose rights: as kubectl has it.

use anyhow::Result;
use serde_json::json;

use crate::{
    desk::{class, config_map, furnished, run, world},
    support::croft,
};

#[tokio::test]
async fn whoever_may_impersonate_can_plan_and_ask_with_the_rights_of_others() -> Result<()> {
    let world = world().await;
    let class = class("whose-rights", &json!([config_map("made", &json!({}))]));
    let namespace = furnished(world, "whose-rights", &class).await?;
    let admin = &world.bed.admin().kubeconfig;
    let class = class.to_string();
    run(admin, &["plan", "-", "--as", "nobody-at-all"], &class).await?.ends_with_code(2).mentions(&["nobody-at-all"]);
    let as_admin = ["plan", "-", "--as", "somebody", "--as-group", "system:masters"];
    run(admin, &as_admin, &class).await?.ends_with_code(0);
    let explain = ["explain", "cm/made", "-n", &namespace, "--as", "nobody-at-all"];
    run(admin, &explain, "").await?.ends_with_code(2).mentions(&["nobody-at-all"]);
    for command in [vec!["pause", "whose-rights"], vec!["resume", "whose-rights"], vec!["rollback", "whose-rights"]] {
        let arguments: Vec<_> = command.into_iter().chain(["--as", "nobody-at-all"]).collect();
        run(admin, &arguments, "").await?.ends_with_code(2).mentions(&["nobody-at-all"]);
    }
    Ok(())
}

#[tokio::test]
async fn the_namespace_comes_from_the_context_where_none_is_given() -> Result<()> {
    let world = world().await;
    let class = class("whose-context", &json!([config_map("made", &json!({}))]));
    let namespace = furnished(world, "whose-context", &class).await?;
    let admin = world.bed.admin();
    let copy = world.bed.dir().join("with-namespace.kubeconfig");
    std::fs::copy(&admin.kubeconfig, &copy)?;
    let path = copy.display().to_string();
    let current = admin.kubectl(&["config", "current-context"]).await?;
    let set = ["config", "set-context", current.trim(), "--namespace", &namespace, "--kubeconfig", &path];
    admin.kubectl(&set).await?;
    run(&copy, &["explain", "cm/made"], "").await?.ends_with_code(0).mentions(&[&namespace]);
    run(&copy, &["explain", "cm/made", "--context", current.trim()], "").await?.ends_with_code(0);
    run(&copy, &["explain", "cm/made", "--context", "no-such-context"], "")
        .await?
        .ends_with_code(2)
        .mentions(&["no-such-context"]);
    Ok(())
}

#[tokio::test]
async fn without_a_cluster_one_sentence_says_what_to_give() -> Result<()> {
    let said = tokio::process::Command::new(croft())
        .args(["explain", "cm/made"])
        .env_clear()
        .env("HOME", "/nonexistent")
        .output()
        .await?;
    let complaint = String::from_utf8(said.stderr)?;
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster"), "{complaint}");
    Ok(())
}
