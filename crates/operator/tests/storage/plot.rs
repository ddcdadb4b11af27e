//! A namespace for one test, and the views on Kubernetes and Ceph that the tests ask.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use croft_api::{
    Condition,
    storage::{S3Bucket, S3Class, S3User, S3UserClaim},
};
use croft_rgw::{Credentials, Endpoint, Gateway, S3, User, UserId};
use croft_testbed::{Ceph, Testbed};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::{Shared, eventually, shared};

/// First part of the tenants of the class `default`.
pub(crate) const PREFIX: &str = "croft";

pub(crate) struct Plot<'a> {
    pub(crate) bed: &'a Testbed,
    pub(crate) client: Client,
    pub(crate) ceph: &'a Ceph,
    pub(crate) namespace: String,
}

pub(crate) async fn world() -> &'static Shared {
    Box::pin(shared(Testbed::kubernetes().with_ceph())).await
}

impl Plot<'static> {
    /// In the world all tests share.
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        Plot::on(&world().await.bed, prefix).await
    }
}

impl<'a> Plot<'a> {
    pub(crate) async fn on(bed: &'a Testbed, prefix: &str) -> Result<Self> {
        let namespace = bed.namespace(prefix).await?;
        Ok(Self { bed, client: bed.admin().client.clone(), ceph: bed.ceph(), namespace })
    }

    pub(crate) fn claims(&self) -> Api<S3UserClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn buckets(&self) -> Api<S3Bucket> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn users(&self) -> Api<S3User> {
        Api::all(self.client.clone())
    }

    pub(crate) fn classes(&self) -> Api<S3Class> {
        Api::all(self.client.clone())
    }

    /// As somebody else sees it, with that one's rights.
    pub(crate) fn seen_by(&self, user: &str) -> Result<Self> {
        let mut config = self.bed.admin().config();
        config.auth_info.impersonate = Some(user.to_owned());
        let client = Client::try_from(config)?;
        Ok(Self { bed: self.bed, client, ceph: self.ceph, namespace: self.namespace.clone() })
    }

    /// Velero, which brings back what was backed up, in any order.
    pub(crate) async fn seen_by_velero(&self) -> Result<Self> {
        let velero = self.bed.cluster_admin("velero", "velero").await?;
        self.seen_by(&velero.name)
    }

    /// Kubernetes' own garbage collector, which is asked no questions.
    pub(crate) fn seen_by_the_cluster(&self) -> Result<Self> {
        self.seen_by("system:serviceaccount:kube-system:generic-garbage-collector")
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    /// Applies a claim called `data` with the Secrets `admin` and `read`.
    pub(crate) async fn claim(&self, more: Value) -> Result<()> {
        self.claim_called("data", more).await
    }

    pub(crate) async fn claim_called(&self, name: &str, more: Value) -> Result<()> {
        let mut spec = json!({ "adminSecretName": "admin", "readSecretName": "read" });
        merge(&mut spec, more);
        apply(&self.claims(), name, json!({ "spec": spec })).await
    }

    pub(crate) async fn bucket(&self, name: &str, more: Value) -> Result<()> {
        let mut spec = json!({ "s3UserRef": "data" });
        merge(&mut spec, more);
        apply(&self.buckets(), name, json!({ "spec": spec })).await
    }

    /// A class like `default`, changed as `more` says.
    pub(crate) async fn class(&self, name: &str, more: Value) -> Result<()> {
        let mut spec = json!(self.classes().get("default").await?.spec);
        spec["default"] = json!(false);
        merge(&mut spec, more);
        apply(&self.classes(), name, json!({ "spec": spec })).await
    }

    pub(crate) async fn ready(&self, name: &str) -> S3UserClaim {
        self.claim_says(name, "True", "Provisioned").await
    }

    /// The claim, once its condition `Ready` is as told for its newest spec.
    pub(crate) async fn claim_says(&self, name: &str, status: &str, reason: &str) -> S3UserClaim {
        let claims = self.claims();
        eventually(&format!("claim {name} to be {status} because of {reason}"), || async {
            let claim = claims.get(name).await?;
            let told = claim.status.clone().unwrap_or_default();
            says(&told.conditions, claim.metadata.generation, status, reason)?;
            Ok(Some(claim))
        })
        .await
    }

    pub(crate) async fn bucket_says(&self, name: &str, status: &str, reason: &str) -> S3Bucket {
        let buckets = self.buckets();
        eventually(&format!("bucket {name} to be {status} because of {reason}"), || async {
            let bucket = buckets.get(name).await?;
            let told = bucket.status.clone().unwrap_or_default();
            says(&told.conditions, bucket.metadata.generation, status, reason)?;
            Ok(Some(bucket))
        })
        .await
    }

    pub(crate) fn record_name(&self, claim: &str) -> String {
        format!("{}.{claim}", self.namespace)
    }

    pub(crate) fn user_id(&self, claim: &str) -> UserId {
        self.user_id_with(PREFIX, claim)
    }

    pub(crate) fn user_id_with(&self, prefix: &str, claim: &str) -> UserId {
        UserId::new(format!("{prefix}_{}", self.namespace.replace('-', "_")), claim).expect("a valid name")
    }

    pub(crate) fn gateway(&self) -> Gateway {
        let admin = Credentials::new(&self.ceph.access_key, self.ceph.secret_key.as_str());
        Gateway::new(self.endpoint(), admin).expect("a usable endpoint")
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint { url: self.ceph.endpoint.clone(), region: self.ceph.region.clone(), ca_pem: None }
    }

    /// The claim's user in Ceph.
    pub(crate) async fn user(&self, claim: &str) -> Result<Option<User>> {
        Ok(self.gateway().user(&self.user_id(claim)).await?)
    }

    pub(crate) async fn user_is_gone(&self, claim: &str) {
        let what = format!("Ceph user {} to be gone", self.user_id(claim));
        eventually(&what, || async { Ok(self.user(claim).await?.is_none().then_some(())) }).await;
    }

    pub(crate) async fn secret(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let secret = self.secrets().get(name).await?;
        let text = |value: Vec<u8>| String::from_utf8(value).context("text");
        secret.data.unwrap_or_default().into_iter().map(|(key, value)| Ok((key, text(value.0)?))).collect()
    }

    /// S3 with the keys a tenant finds in a Secret, once it is there: a bucket may be sooner.
    pub(crate) async fn s3(&self, secret: &str) -> Result<S3> {
        eventually(&format!("Secret {secret}"), || async { Ok(self.secrets().get_opt(secret).await?) }).await;
        let data = self.secret(secret).await?;
        let endpoint = Endpoint { url: data["endpoint"].clone(), region: data["region"].clone(), ca_pem: None };
        Ok(S3::new(endpoint, Credentials::new(&data["accessKey"], data["secretKey"].as_str()))?)
    }

    pub(crate) async fn delete_namespace(&self) -> Result<()> {
        self.namespaces().delete(&self.namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn namespace_is_gone(&self) {
        gone(&self.namespaces(), &self.namespace).await;
    }
}

fn says(conditions: &[Condition], generation: Option<i64>, status: &str, reason: &str) -> Result<()> {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").context("no condition yet")?;
    let fresh = ready.observed_generation == generation;
    anyhow::ensure!(fresh && ready.status == status && ready.reason == reason, "it says {ready:?}");
    Ok(())
}

/// Server-side apply of a whole object.
pub(crate) async fn apply<K>(api: &Api<K>, name: &str, mut object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    merge(
        &mut object,
        json!({ "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name } }),
    );
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

pub(crate) async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let what = format!("{name} to be gone");
    eventually(&what, || async { Ok(api.get_opt(name).await?.is_none().then_some(())) }).await;
}

pub(crate) fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                match (into.get_mut(&key), value) {
                    (_, Value::Null) => drop(into.remove(&key)),
                    (Some(old), value) => merge(old, value),
                    (None, value) => drop(into.insert(key, value)),
                }
            }
        }
        (into, more) => *into = more,
    }
}
