//! A claim of a class that purges goes with its buckets, full and empty ones, but for what is to be kept.

use anyhow::{Context, Result};
use croft_api::storage::S3UserPhase;
use kube::api::DeleteParams;
use serde_json::json;

use super::{Fault, Faults, Tale};

const CLASS: &str = "purging";
const PREFIX: &str = "purged";
const CLAIM: &str = "given-up";

impl Tale<'_> {
    pub(super) async fn purge(&self, fault: Fault, faults: &mut Faults) -> Result<()> {
        let (rough, plot) = (self.rough, &self.from);
        let (gateway, user) = (plot.gateway(), plot.user_id_with(PREFIX, CLAIM));
        rough.proxy.clear_rules();
        plot.class(CLASS, json!({ "endpoint": rough.proxy.endpoint(), "tenantPrefix": PREFIX, "onDelete": "Purge" }))
            .await?;
        let claim = json!({
            "s3ClassName": CLASS, "adminSecretName": "given-up", "readSecretName": "given-up-read", "quota": { "buckets": 5 },
        });
        rough.ask(|| plot.claim_called(CLAIM, claim.clone())).await?;
        let retained = json!({ "s3UserRef": CLAIM, "s3DeletionPolicy": "retain" });
        rough.ask(|| plot.bucket("retained", retained.clone())).await?;
        rough
            .until("a bucket to keep", || async {
                let bucket = plot.buckets().get("retained").await?.status.unwrap_or_default();
                Ok(bucket.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
            })
            .await?;
        let secret = plot.secret("given-up").await?;
        let key = gateway.user(&user).await?.context("a user")?;
        let key = key.key(&secret["accessKey"]).context("a key")?;
        let s3 = gateway.s3(key.credentials.clone());
        for bucket in ["full", "hollow", "retained"] {
            s3.create_bucket(bucket).await?;
        }
        for bucket in ["full", "retained"] {
            s3.put_object(bucket, "cat.jpg", "meow").await?;
        }
        rough.ask(|| async { Ok(plot.buckets().delete("retained", &DeleteParams::default()).await?) }).await?;
        rough.until("its note", || async { Ok(plot.buckets().get_opt("retained").await?.is_none()) }).await?;

        rough.strike(fault);
        rough.ask(|| async { Ok(plot.claims().delete(CLAIM, &DeleteParams::default()).await?) }).await?;
        let purged = rough.until("the buckets to be purged", || async {
            let record = plot.users().get(&plot.record_name(CLAIM)).await?.status.unwrap_or_default();
            let is_released = record.phase == Some(S3UserPhase::Released) && record.kept_buckets == ["retained"];
            Ok(is_released && plot.claims().get_opt(CLAIM).await?.is_none())
        });
        faults.push(("purge", purged.await?));
        assert_eq!(gateway.buckets_of(&user).await?, ["retained"]);
        let left = gateway.bucket(user.tenant(), "retained").await?.context("it is kept")?;
        assert_eq!(left.objects, 1);
        assert!(gateway.user(&user).await?.context("a user")?.suspended);
        Ok(())
    }
}
