//! The example classes in `examples/` work as they are.

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
