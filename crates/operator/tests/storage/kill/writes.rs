//! The operator dies at every write to the API server while a bucket changes hands.

use anyhow::{Context, Result};
use croft_testbed::{Testbed, fault::FaultProxy};
use serde_json::json;

use super::{CLASS, Fault, PREFIX, Rough, Tale};
use crate::{migration::migrations, plot::Plot, support::World};

/// Both users, the bucket and its S3Bucket, a claim that comes and one that goes.
const LEAST: usize = 15;

impl Rough {
    async fn at_the_api_server() -> Result<Self> {
        let (bed, installed) = World::installed(Testbed::kubernetes().with_ceph()).await?;
        let api = FaultProxy::kubernetes(&bed, &installed.identity).await?;
        Self::on(bed, installed, Some(api)).await
    }
}

async fn a_migration_survives(fault: Fault) -> Result<()> {
    let rough = Box::pin(Rough::at_the_api_server()).await?;
    let (from, to) = (Plot::on(&rough.bed, "from").await?, Plot::on(&rough.bed, "to").await?);
    from.class(CLASS, json!({ "endpoint": rough.proxy.endpoint(), "tenantPrefix": PREFIX })).await?;
    let tale = Tale { rough: &rough, from, to };
    let (from, to) = (&tale.from, &tale.to);
    tale.claim(10).await?;
    from.bucket("photos", json!({ "s3DeletionPolicy": "retain", "s3SubuserBinding": [{ "name": "one" }] })).await?;
    rough
        .until("a bucket to move", || async { Ok(tale.is_ready(from).await? && tale.has_bucket(from).await?) })
        .await?;
    tale.s3(from).await?.put_object("photos", "cat.jpg", "meow").await?;
    tale.put_own_policy().await?;

    let mut faults = Vec::new();
    tale.move_over(fault, &mut faults).await?;
    let settled = rough.until("nothing to be left to do", || async {
        let is_over = migrations(from).get("rough").await?.metadata.finalizers.is_none();
        let user = to.users().get(&to.record_name("data")).await?;
        let is_forgotten = from.users().get_opt(&from.record_name("data")).await?.is_none();
        let is_gone = from.claims().get_opt("data").await?.is_none() && tale.booked(from).await?.is_none();
        let is_free = is_over && user.spec.held_by.is_none() && is_forgotten && is_gone;
        Ok(is_free && tale.is_ready(to).await? && tale.has_bucket(to).await? && tale.has_its_keys(to).await?)
    });
    faults.push(("settle", settled.await?));
    rough.place().clear_rules();
    let (_, deaths) = *faults.last().context("a story")?;
    assert!(deaths >= LEAST, "{faults:?}: {}", rough.told());
    println!("{fault:?}: {faults:?}");
    assert_eq!(tale.s3(to).await?.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
    Ok(())
}

#[tokio::test]
async fn killed_before_every_write_to_the_api_server_a_migration_ends_the_same() -> Result<()> {
    a_migration_survives(Fault::DeathBefore).await
}

#[tokio::test]
async fn killed_after_every_write_to_the_api_server_a_migration_ends_the_same() -> Result<()> {
    a_migration_survives(Fault::DeathAfter).await
}
