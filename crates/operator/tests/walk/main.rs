//! One tenant walks through all three parts, while the operator is killed at write after write.

#[path = "../support/mod.rs"]
mod support;

mod regime;
mod tenant;

use anyhow::Result;
use regime::Regime;

#[tokio::test]
async fn an_operator_killed_right_after_its_writes_still_walks_the_tenant_to_the_end() -> Result<()> {
    tenant::walk(Regime::AfterAWrite).await
}

#[tokio::test]
async fn an_operator_killed_right_before_its_writes_still_walks_the_tenant_to_the_end() -> Result<()> {
    tenant::walk(Regime::BeforeAWrite).await
}
