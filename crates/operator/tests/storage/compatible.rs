//! The manifests of ceph-s3-operator, as its own end-to-end suite applies them.

use std::collections::BTreeMap;

use anyhow::Result;
use croft_api::{
    Quantity,
    storage::{S3TeamQuota, S3UserPhase},
};
use croft_testbed::{S3Call, Testbed};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, apply, gone, world},
    support::eventually,
};

const PREFIX: &str = "okd4_main_";

async fn namespace(bed: &'static Testbed, name: &str) -> Result<Plot<'static>> {
    let client = bed.admin().client.clone();
    apply(&Api::<Namespace>::all(client.clone()), name, json!({})).await?;
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

/// The two namespaces of the suite. Each step is one of its own.
struct Suite {
    test: Plot<'static>,
    test2: Plot<'static>,
}

const SAMPLE: &str = "s3userclaim-sample";
const DELETED: &str = "s3bucket-sample-delete";
const RETAINED: &str = "s3bucket-sample-retain";
const OBJECT: &str = "test-object.txt";

impl Suite {
    async fn sample(&self, subusers: &[&str]) -> Result<()> {
        apply(&self.test.claims(), SAMPLE, claim("s3-sample", 10_000, subusers)).await
    }

    /// What the sample namespace's quota says is used.
    async fn uses(&self, buckets: &str, objects: &str, size: &str) {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.test.client.clone(), &self.test.namespace);
        let wanted = json!({ "s3/buckets": buckets, "s3/objects": objects, "s3/size": size });
        eventually(&format!("example-quota to say that {wanted} is used"), || async {
            let used = json!(quotas.get("example-quota").await?.status.unwrap_or_default().used);
            anyhow::ensure!(used == wanted, "it says {used}");
            Ok(Some(()))
        })
        .await;
    }

    async fn lists_buckets(&self, keys: &BTreeMap<String, String>) -> Result<bool> {
        let call = S3Call { path: "/", ..S3Call::default() };
        Ok(self.test.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?.0.is_success())
    }

    async fn set_up() -> Result<Self> {
        let bed = &world().await.bed;
        let suite = Self { test: namespace(bed, "s3-test").await?, test2: namespace(bed, "s3-test2").await? };
        suite.test.class("ceph-default", json!({ "tenantPrefix": PREFIX })).await?;
        let team = json!({ "spec": { "hard": { "objects": "5k", "size": "22k", "buckets": 5000 } } });
        apply(&Api::<S3TeamQuota>::all(suite.test.client.clone()), "myteam", team).await?;
        for plot in [&suite.test, &suite.test2] {
            let label = json!({ "metadata": { "labels": { "snappcloud.io/team": "myteam" } } });
            plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
        }
        let quotas: Api<ResourceQuota> = Api::namespaced(suite.test.client.clone(), &suite.test.namespace);
        let hard = json!({ "s3/objects": "1000", "s3/size": "20000", "s3/buckets": "15" });
        apply(&quotas, "example-quota", json!({ "spec": { "hard": hard } })).await?;
        Ok(suite)
    }

    async fn claims_are_served(&self) -> Result<()> {
        let Self { test, test2 } = self;
        self.sample(&[]).await?;
        apply(&test2.claims(), "s3userclaim-extra", claim("s3-extra", 5_000, &[])).await?;
        let sample = test.ready(SAMPLE).await;
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
            (Some("S3UserClaim"), Some("s3-test"), Some(SAMPLE))
        );
        for (plot, name) in [(test, "s3-sample"), (test2, "s3-extra")] {
            for kind in ["admin", "readonly"] {
                let secret = plot.secrets().get(&format!("{name}-{kind}-secret")).await?;
                assert_eq!(secret.type_.as_deref(), Some("Opaque"));
                let owner = secret.metadata.owner_references.unwrap_or_default().remove(0);
                assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(false)));
            }
        }
        self.uses("5", "500", "10k").await;
        Ok(())
    }

    async fn buckets_are_made_and_used(&self) -> Result<()> {
        let Self { test, test2 } = self;
        apply(&test.buckets(), DELETED, bucket(SAMPLE, "delete")).await?;
        apply(&test.buckets(), RETAINED, bucket(SAMPLE, "retain")).await?;
        apply(&test2.buckets(), "s3bucket-extra-delete", bucket("s3userclaim-extra", "delete")).await?;
        for (plot, name) in [(test, DELETED), (test, RETAINED), (test2, "s3bucket-extra-delete")] {
            let made = plot.bucket_says(name, "True", "Provisioned").await;
            assert!(made.status.unwrap_or_default().created);
        }
        let s3 = test.s3("s3-sample-admin-secret").await?;
        for name in [DELETED, RETAINED] {
            s3.put_object(name, OBJECT, "test").await?;
            assert_eq!(s3.list_objects(name, "").await?, [OBJECT]);
            s3.delete_object(name, OBJECT).await?;
            s3.put_object(name, OBJECT, "test").await?;
        }
        Ok(())
    }

    async fn what_must_fail_does(&self) -> Result<()> {
        let test = &self.test;
        let moved = Patch::Merge(json!({ "spec": { "s3UserRef": "other" } }));
        let refused = test.buckets().patch(DELETED, &PatchParams::default(), &moved).await;
        assert!(format!("{:?}", refused.expect_err("immutable")).contains("s3UserRef is immutable"));
        let wrong = apply(&test.buckets(), "s3bucket-wrong", bucket("s3userclaim-wrong", "delete")).await;
        assert!(format!("{:?}", wrong.expect_err("nobody's")).contains("there is no s3UserClaim"));
        let second = apply(&test.claims(), "s3userclaim-sample2", claim("s3-sample", 1, &[])).await;
        assert!(format!("{:?}", second.expect_err("its Secrets are another's")).contains("s3-sample-admin-secret"));
        let deleted = test.claims().delete(SAMPLE, &DeleteParams::default()).await;
        assert!(format!("{:?}", deleted.expect_err("it has buckets")).contains("There are existing buckets"));
        test.ready(SAMPLE).await;
        test.bucket_says(DELETED, "True", "Provisioned").await;
        assert!(test.buckets().get_opt("s3bucket-wrong").await?.is_none());
        assert!(test.claims().get_opt("s3userclaim-sample2").await?.is_none());
        Ok(())
    }

    async fn subusers_do_what_they_are_bound_to(&self) -> Result<()> {
        let test = &self.test;
        self.sample(&["subuser1", "subuser2"]).await?;
        let told = test.ready(SAMPLE).await.status.unwrap_or_default().subusers;
        assert_eq!(told, ["subuser1", "subuser2"]);
        let (one, two) = (test.s3("s3userclaim-sample-subuser1").await?, test.s3("s3userclaim-sample-subuser2").await?);
        let keys = test.secret("s3userclaim-sample-subuser1").await?;
        assert!(self.lists_buckets(&keys).await?);
        assert!(one.get_object(DELETED, OBJECT).await.is_err() && one.put_object(DELETED, OBJECT, "x").await.is_err());
        assert!(one.delete_object(DELETED, OBJECT).await.is_err());

        let mut bound = bucket(SAMPLE, "delete");
        let access = [("subuser1", "write"), ("subuser2", "read")];
        bound["spec"]["s3SubuserBinding"] =
            json!(access.map(|(name, access)| json!({ "name": name, "access": access })));
        apply(&test.buckets(), DELETED, bound).await?;
        test.bucket_says(DELETED, "True", "Provisioned").await;
        assert!(one.get_object(DELETED, OBJECT).await?.is_some());
        one.delete_object(DELETED, OBJECT).await?;
        one.put_object(DELETED, OBJECT, "test").await?;
        assert!(two.get_object(DELETED, OBJECT).await?.is_some());
        assert!(
            two.put_object(DELETED, OBJECT, "x").await.is_err() && two.delete_object(DELETED, OBJECT).await.is_err()
        );
        one.delete_object(DELETED, OBJECT).await?;

        self.sample(&["subuser2"]).await?;
        gone(&test.secrets(), "s3userclaim-sample-subuser1").await;
        test.ready(SAMPLE).await;
        assert!(!self.lists_buckets(&keys).await?, "its key is gone");
        Ok(())
    }

    async fn all_goes_and_what_was_to_be_retained_is(&self) -> Result<()> {
        let Self { test, test2 } = self;
        let s3 = test.s3("s3-sample-admin-secret").await?;
        for name in [DELETED, RETAINED] {
            test.buckets().delete(name, &DeleteParams::default()).await?;
            gone(&test.buckets(), name).await;
        }
        assert!(!s3.head_bucket(DELETED).await? && s3.head_bucket(RETAINED).await?);

        // Here we differ: what was to be retained is, and counts.
        test.claims().delete(SAMPLE, &DeleteParams::default()).await?;
        gone(&test.claims(), SAMPLE).await;
        let user = eventually("the S3User to be released", || async {
            let user = test.users().get("s3-test.s3userclaim-sample").await?.status.unwrap_or_default();
            Ok((user.phase == Some(S3UserPhase::Released)).then_some(user))
        })
        .await;
        assert_eq!(user.kept_buckets, [RETAINED]);
        self.uses("5", "500", "10k").await;

        test2.buckets().delete("s3bucket-extra-delete", &DeleteParams::default()).await?;
        gone(&test2.buckets(), "s3bucket-extra-delete").await;
        test2.claims().delete("s3userclaim-extra", &DeleteParams::default()).await?;
        gone(&test2.claims(), "s3userclaim-extra").await;
        gone(&test2.users(), "s3-test2.s3userclaim-extra").await;
        Ok(())
    }
}

#[tokio::test]
async fn the_manifests_of_ceph_s3_operator_work_as_they_are() -> Result<()> {
    let suite = Suite::set_up().await?;
    suite.claims_are_served().await?;
    suite.buckets_are_made_and_used().await?;
    suite.what_must_fail_does().await?;
    suite.subusers_do_what_they_are_bound_to().await?;
    suite.all_goes_and_what_was_to_be_retained_is().await
}
