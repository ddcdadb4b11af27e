//! What is in `examples/` works as it is.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    scene::{Space, world},
    support::apply,
};

#[tokio::test]
async fn every_example_class_can_be_applied_and_furnishes_a_namespace() -> Result<()> {
    let world = world().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = 0;
    for file in std::fs::read_dir(&folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(class) = name.strip_prefix("namespaceclass-").and_then(|rest| rest.strip_suffix(".yaml")) else {
            continue;
        };
        found += 1;
        apply(world.bed.admin(), &std::fs::read_to_string(&path)?).await.with_context(|| name.clone())?;
        let space = Space::of(&world.bed, &format!("example-{class}"), class).await?;
        space.says("ReconcileSuccess").await;
    }
    assert_eq!(found, 6, "six example classes in {}", folder.display());
    Ok(())
}

/// Every other example, as far as somebody makes one by hand or could.
const OTHERS: [&str; 4] = ["s3", "usermigration", "backup", "nonadmin"];

#[tokio::test]
async fn every_example_of_storage_and_backup_is_accepted_by_the_api_server_and_by_the_operators_door() -> Result<()> {
    let world = world().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let namespace = world.bed.namespace("examples").await?;
    let text = |name: &str| anyhow::Ok(std::fs::read_to_string(folder.join(name))?.replace("team-a", &namespace));
    // The bucket's example needs the claim's.
    apply(world.bed.admin(), &text("s3userclaim.yaml")?).await?;
    let names = std::fs::read_dir(&folder)?.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<_> = names.collect::<Result<_>>()?;
    names.retain(|name| OTHERS.iter().any(|prefix| name.starts_with(prefix)));
    names.sort();
    let dry_run = ["apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-"];
    for name in &names {
        let answer = world.bed.admin().kubectl_stdin(&dry_run, &text(name)?).await.with_context(|| name.clone())?;
        assert!(answer.contains("(server dry run)"), "{name}: {answer}");
    }
    assert_eq!(names.len(), 15, "fifteen other examples in {}: {names:?}", folder.display());
    Ok(())
}
