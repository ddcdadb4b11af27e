//! The floor for a claim: what the operator asks of the gateway, and the objects it leaves behind, each by one request. They are
//! copies of one claim's, in kinds the operator does not see. The finalizer comes by a request of its own: whoever keeps claims
//! puts it on what somebody else has made.

use std::sync::Arc;

use anyhow::{Context, Result};
use croft_api::storage::{S3User, S3UserClaim};
use croft_rgw::{Access, BucketLimit, Gateway, NewUser, Quota, User, UserId};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    cluster::IN_FLIGHT,
    twin::{make_kind, renamed, twin_kind},
};

/// Of those who need one gateway half of the operator's places are at work at once.
const AT_THE_GATEWAY: usize = IN_FLIGHT / 2;

#[derive(Clone)]
pub(super) struct Floor {
    client: Client,
    gateway: Gateway,
    places: Arc<Semaphore>,
    claim: Value,
    user: Value,
    secrets: Vec<Secret>,
}

impl Floor {
    /// What it does for a claim.
    pub(super) const TOLD: &str = "the generator makes 4 calls of the gateway a claim, as an administrator would, and 7 writes of \
        the API server: the same objects, finalizer and statuses";

    /// Copies of what belongs to the claim `name`, which is ready.
    pub(super) async fn like(client: Client, gateway: Gateway, namespace: &str, name: &str) -> Result<Self> {
        make_kind::<S3UserClaim>(&client).await?;
        make_kind::<S3User>(&client).await?;
        let claim = Api::<S3UserClaim>::namespaced(client.clone(), namespace).get(name).await?;
        let user = Api::<S3User>::all(client.clone()).get(&format!("{namespace}.{name}")).await?;
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let names = [&claim.spec.admin_secret_name, &claim.spec.read_secret_name].into_iter().flatten();
        let secrets = futures::future::try_join_all(names.map(|name| secrets.get(name))).await?;
        let twin = |text: String| serde_json::from_str(&renamed(&text)).context("a twin of an object");
        let (claim, user) = (twin(serde_json::to_string(&claim)?)?, twin(serde_json::to_string(&user)?)?);
        let places = Arc::new(Semaphore::new(AT_THE_GATEWAY));
        Ok(Self { client, gateway, places, claim, user, secrets })
    }

    /// 4 calls of the gateway and 7 of the API server, as [`Floor::TOLD`] has it.
    pub(super) async fn claim(&self, namespace: &str, name: &str) -> Result<()> {
        let claims: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &twin_kind::<S3UserClaim>());
        let users: Api<DynamicObject> = Api::all_with(self.client.clone(), &twin_kind::<S3User>());
        let claim = made(&claims, &self.claim, &twin_kind::<S3UserClaim>(), name).await?;
        let held = json!({ "metadata": { "finalizers": self.claim["metadata"]["finalizers"] } });
        claims.patch(name, &PatchParams::default(), &Patch::Merge(held)).await?;
        let record = format!("{namespace}.{name}");
        let user = made(&users, &self.user, &twin_kind::<S3User>(), &record).await?;
        let made = self.gateway_calls(namespace, name).await?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for (number, (like, key)) in self.secrets.iter().zip(&made.keys).enumerate() {
            let metadata = ObjectMeta { name: Some(format!("{name}-{number}")), ..ObjectMeta::default() };
            let mut secret = Secret { metadata, ..like.clone() };
            let pair =
                [("accessKey", &key.credentials.access_key[..]), ("secretKey", key.credentials.secret_key.expose())];
            let pair = pair.map(|(name, value)| (name.to_owned(), ByteString(value.into())));
            secret.data.get_or_insert_default().extend(pair);
            secrets.create(&PostParams::default(), &secret).await?;
        }
        told(&users, &user, &self.user).await?;
        told(&claims, &claim, &self.claim).await
    }

    /// The user as it is then: nothing else tells the key a subuser was given.
    async fn gateway_calls(&self, tenant: &str, name: &str) -> Result<User> {
        let _place = self.places.acquire().await?;
        let id = UserId::new(tenant.replace('-', "_"), name)?;
        let new = NewUser {
            id: id.clone(),
            display_name: name.to_owned(),
            max_buckets: BucketLimit::AtMost(10),
            access_key: format!("BARE{tenant}{name}"),
        };
        self.gateway.create_user(&new).await?;
        let quota = Quota { enabled: true, max_size: Some(1 << 30), max_objects: Some(1000) };
        self.gateway.set_user_quota(&id, quota).await?;
        self.gateway.create_subuser(&id, "readonly", Access::Read, &format!("READ{tenant}{name}")).await?;
        self.gateway.user(&id).await?.with_context(|| format!("{id} was made"))
    }
}

/// Makes an object of the spec of another.
async fn made(api: &Api<DynamicObject>, like: &Value, kind: &ApiResource, name: &str) -> Result<DynamicObject> {
    let mut object = DynamicObject::new(name, kind);
    object.metadata.labels = serde_json::from_value(like["metadata"]["labels"].clone()).unwrap_or_default();
    object.data = json!({ "spec": like["spec"] });
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Gives an object the status of another.
async fn told(api: &Api<DynamicObject>, object: &DynamicObject, like: &Value) -> Result<()> {
    let patch = json!({ "metadata": { "uid": object.uid() }, "status": like["status"] });
    api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
