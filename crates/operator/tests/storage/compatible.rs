//! The manifests of ceph-s3-operator, as its own end-to-end suite applies them.

use anyhow::Result;
use croft_api::{Quantity, storage::S3UserPhase};
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, apply, gone, world},
    support::eventually,
};

const PREFIX: &str = "okd4_main_";

async fn namespace(bed: &'static Testbed, name: &str) -> Result<Plot<'static>> {
    let client = bed.admin().client.clone();
    apply(&kube::Api::<Namespace>::all(client.clone()), name, json!({})).await?;
    Ok(Plot { bed, client, ceph: bed.ceph(), namespace: name.to_owned() })
}

fn claim(secrets: &str, size: u32, subusers: &[&str]) -> Value {
    json!({ "spec": {
        "s3UserClass": "ceph-default",
        "adminSecret": format!("{secrets}-admin-secret"), "readonlySecret": format!("{secrets}-readonly-secret"),
        "quota": { "maxSize": size, "maxObjects": 500, "maxBuckets": 5 }, "subusers": subusers,
    } })
}

fn bucket(claim: &str, policy: &str) -> Value {
    json!({ "spec": { "s3UserRef": claim, "s3DeletionPolicy": policy } })
}

#[tokio::test]
async fn the_manifests_of_ceph_s3_operator_work_as_they_are() -> Result<()> {
    let bed = world().await.bed;
    let (test, test2) = (namespace(bed, "s3-test").await?, namespace(bed, "s3-test2").await?);
    test.class("ceph-default", json!({ "tenantPrefix": PREFIX })).await?;

    apply(&test.claims(), "s3userclaim-sample", claim("s3-sample", 10_000, &[])).await?;
    apply(&test2.claims(), "s3userclaim-extra", claim("s3-extra", 5_000, &[])).await?;
    let sample = test.ready("s3userclaim-sample").await;
    test2.ready("s3userclaim-extra").await;
    let quota = sample.status.unwrap_or_default().quota.unwrap_or_default();
    let quantity = |shown: &str| Some(Quantity(shown.to_owned()));
    assert_eq!((quota.max_size, quota.max_objects, quota.max_buckets), (quantity("10k"), quantity("500"), Some(5)));
    let record = test.users().get("s3-test.s3userclaim-sample").await?.spec;
    assert_eq!(record.ceph_user.as_deref(), Some("okd4_main__s3_test$s3userclaim-sample"));
    let reference = record.claim_ref.unwrap_or_default();
    assert_eq!(reference.api_version.as_deref(), Some("s3.snappcloud.io/v1alpha1"));
    assert_eq!(
        (reference.kind.as_deref(), reference.namespace.as_deref(), reference.name.as_deref()),
        (Some("S3UserClaim"), Some("s3-test"), Some("s3userclaim-sample"))
    );
    for (plot, name) in [(&test, "s3-sample"), (&test2, "s3-extra")] {
        for kind in ["admin", "readonly"] {
            let secret = plot.secrets().get(&format!("{name}-{kind}-secret")).await?;
            assert_eq!(secret.type_.as_deref(), Some("Opaque"));
            let owner = secret.metadata.owner_references.unwrap_or_default().remove(0);
            assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        }
    }

    apply(&test.buckets(), "s3bucket-sample-delete", bucket("s3userclaim-sample", "delete")).await?;
    apply(&test.buckets(), "s3bucket-sample-retain", bucket("s3userclaim-sample", "retain")).await?;
    apply(&test2.buckets(), "s3bucket-extra-delete", bucket("s3userclaim-extra", "delete")).await?;
    for (plot, name) in [(&test, "sample-delete"), (&test, "sample-retain"), (&test2, "extra-delete")] {
        plot.bucket_says(&format!("s3bucket-{name}"), "True", "Provisioned").await;
    }
    let s3 = test.s3("s3-sample-admin-secret").await?;
    s3.put_object("s3bucket-sample-delete", "test-object.txt", "test").await?;
    s3.put_object("s3bucket-sample-retain", "test-object.txt", "test").await?;
    let moved = json!({ "spec": { "s3UserRef": "other" } });
    let refused = test.buckets().patch("s3bucket-sample-delete", &PatchParams::default(), &Patch::Merge(&moved)).await;
    assert!(format!("{:?}", refused.expect_err("immutable")).contains("s3UserRef is immutable"));

    apply(&test.claims(), "s3userclaim-sample", claim("s3-sample", 10_000, &["subuser1", "subuser2"])).await?;
    let told = test.ready("s3userclaim-sample").await.status.unwrap_or_default().subusers;
    assert_eq!(told, ["subuser1", "subuser2"]);
    let subuser = test.s3("s3userclaim-sample-subuser1").await?;
    assert!(subuser.get_object("s3bucket-sample-delete", "test-object.txt").await.is_err());
    apply(&test.claims(), "s3userclaim-sample", claim("s3-sample", 10_000, &["subuser2"])).await?;
    gone(&test.secrets(), "s3userclaim-sample-subuser1").await;
    test.ready("s3userclaim-sample").await;
    assert!(subuser.head_bucket("nothing").await.is_err(), "its key is gone");

    s3.delete_object("s3bucket-sample-delete", "test-object.txt").await?;
    for name in ["s3bucket-sample-delete", "s3bucket-sample-retain"] {
        test.buckets().delete(name, &DeleteParams::default()).await?;
        gone(&test.buckets(), name).await;
    }
    assert!(!s3.head_bucket("s3bucket-sample-delete").await? && s3.head_bucket("s3bucket-sample-retain").await?);

    // Here we differ: what was to be retained is.
    test.claims().delete("s3userclaim-sample", &DeleteParams::default()).await?;
    gone(&test.claims(), "s3userclaim-sample").await;
    let user = eventually("the S3User to be released", || async {
        let user = test.users().get("s3-test.s3userclaim-sample").await?.status.unwrap_or_default();
        Ok((user.phase == Some(S3UserPhase::Released)).then_some(user))
    })
    .await;
    assert_eq!(user.kept_buckets, ["s3bucket-sample-retain"]);

    test2.buckets().delete("s3bucket-extra-delete", &DeleteParams::default()).await?;
    gone(&test2.buckets(), "s3bucket-extra-delete").await;
    test2.claims().delete("s3userclaim-extra", &DeleteParams::default()).await?;
    gone(&test2.claims(), "s3userclaim-extra").await;
    gone(&test2.users(), "s3-test2.s3userclaim-extra").await;
    Ok(())
}
