//! A tenant's namespace with a bucket, and the few things tests do in it.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminPhase, NonAdminRestore},
    velero::{Backup, BackupStorageLocation},
};
use croft_testbed::{Identity, Testbed, wait};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::ConfigMap, rbac::v1::RoleBinding},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::{Held, PATIENCE, Shared, eventually, shared_with};

/// What most tests need of tenants' own buckets, and limits that are soon reached. Approval has a world of its own.
pub(crate) const SETTINGS: &str = "backup: { ownBuckets: Allow, limits: { unfinishedBackups: 3, unfinishedRestores: 2, locations: 3, schedules: 2, vaults: 3 } }";

/// For what Velero does: it looks only once a minute at a queued backup whose turn it missed.
pub(crate) const VELERO_PATIENCE: Duration = Duration::from_secs(150);

pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Serialize + fmt::Debug
{
}
impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Serialize + fmt::Debug>
    Kind for K
{
}

/// A namespace of its own; its bucket has the same name. Whatever is done in it is done with the rights of its owner.
pub(crate) struct Plot {
    pub(crate) world: Held<Shared>,
    pub(crate) namespace: String,
    pub(crate) owner: Identity,
}

impl Plot {
    /// Nothing at all.
    pub(crate) async fn empty(prefix: &str) -> Result<Self> {
        let world = Box::pin(shared_with(Testbed::kubernetes().with_velero(), SETTINGS)).await;
        Self::within(Held::ByAll(world), prefix).await
    }

    /// The same in another world.
    pub(crate) async fn within(world: Held<Shared>, prefix: &str) -> Result<Self> {
        let namespace = world.bed.namespace(prefix).await?;
        let owner = owner_of(&world.bed, &namespace).await?;
        Ok(Self { world, namespace, owner })
    }

    /// Nothing at all, in a world of its own.
    pub(crate) async fn empty_alone(prefix: &str, settings: &str) -> Result<Self> {
        let world = Shared::of_its_own(Testbed::kubernetes().with_velero(), settings).await?;
        Self::within(Held::BySome(Arc::new(world)), prefix).await
    }

    /// A bucket and the keys to it, in a world of its own.
    pub(crate) async fn alone(prefix: &str, settings: &str) -> Result<Self> {
        let plot = Self::empty_alone(prefix, settings).await?;
        plot.world.bed.ceph().create_bucket(&plot.namespace).await?;
        plot.add_secret("cloud").await?;
        Ok(plot)
    }

    /// Nothing but the bucket.
    pub(crate) async fn bare(prefix: &str) -> Result<Self> {
        let plot = Self::empty(prefix).await?;
        plot.world.bed.ceph().create_bucket(&plot.namespace).await?;
        Ok(plot)
    }

    /// With a location called `here` that Velero can use.
    pub(crate) async fn furnished(prefix: &str) -> Result<Self> {
        let plot = Self::bare(prefix).await?;
        plot.add_secret("cloud").await?;
        plot.add_location(json!({})).await?;
        plot.location_is_available().await;
        Ok(plot)
    }

    pub(crate) fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.owner.client.clone(), &self.namespace)
    }

    /// The same with an administrator's rights.
    pub(crate) fn administrators<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.world.client(), &self.namespace)
    }

    /// What the owner of the plot is told who tries to create this.
    pub(crate) async fn refusal<K: Kind>(&self, name: &str, spec: Value) -> Result<String> {
        match self.create::<K>(name, spec).await {
            Ok(made) => anyhow::bail!("it was let in: {:?}", made.meta().name),
            Err(error) => Ok(error.to_string()),
        }
    }

    /// The same kind in Velero's namespace.
    pub(crate) fn veleros<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.world.client(), &self.world.bed.velero().namespace)
    }

    pub(crate) async fn create<K: Kind>(&self, name: &str, spec: Value) -> Result<K> {
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name }, "spec": spec,
        });
        Ok(self.api::<K>().create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    }

    pub(crate) async fn patch<K: Kind>(&self, name: &str, patch: Value) -> Result<K> {
        Ok(self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?)
    }

    pub(crate) async fn delete<K: Kind>(&self, name: &str) -> Result<()> {
        self.api::<K>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) fn credentials(&self) -> String {
        let ceph = self.world.bed.ceph();
        format!("[default]\naws_access_key_id={}\naws_secret_access_key={}\n", ceph.access_key, ceph.secret_key)
    }

    /// The Secret `keys`: the credentials under `key`, and something that is nobody else's business.
    pub(crate) async fn add_secret(&self, key: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" },
            "stringData": { key: self.credentials(), "diary": "private" },
        });
        let secrets = self.api::<k8s_openapi::api::core::v1::Secret>();
        secrets.patch("keys", &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await?;
        Ok(())
    }

    /// The location `here`, with changes to its usual spec.
    pub(crate) async fn add_location(&self, changes: Value) -> Result<()> {
        self.create::<NonAdminBackupStorageLocation>("here", self.location_spec(changes)).await?;
        Ok(())
    }

    /// The usual spec of a location with changes.
    #[expect(clippy::needless_pass_by_value, reason = "callers make it on the spot")]
    pub(crate) fn location_spec(&self, changes: Value) -> Value {
        let ceph = self.world.bed.ceph();
        let mut spec = json!({
            "provider": "aws",
            "objectStorage": { "bucket": self.namespace },
            "credential": { "name": "keys", "key": "cloud" },
            "config": { "region": ceph.region, "s3ForcePathStyle": "true", "s3Url": ceph.endpoint },
        });
        for (field, value) in changes.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        json!({ "backupStorageLocationSpec": spec })
    }

    /// Waits until Velero has looked and found that it can use it.
    pub(crate) async fn location_is_available(&self) -> NonAdminBackupStorageLocation {
        let looked = wait::until("the location to be available", VELERO_PATIENCE, || async {
            let location = self.api::<NonAdminBackupStorageLocation>().get("here").await?;
            let status = serde_json::to_value(&location.status)?;
            let phase = &status["veleroBackupStorageLocation"]["status"]["phase"];
            ensure!(phase == "Available", "its status is {status}");
            Ok(Some(location))
        });
        looked.await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// A ConfigMap to back up.
    pub(crate) async fn add_config_map(&self, name: &str) -> Result<()> {
        let map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "price": "7" } });
        self.api::<ConfigMap>().create(&PostParams::default(), &serde_json::from_value(map)?).await?;
        Ok(())
    }

    pub(crate) async fn add_backup(&self, name: &str) -> Result<()> {
        let spec = json!({ "backupSpec": { "storageLocation": "here", "includedResources": ["configmaps"] } });
        self.create::<NonAdminBackup>(name, spec).await?;
        Ok(())
    }

    pub(crate) async fn backup_completes(&self, name: &str) -> Result<NonAdminBackup> {
        wait::until("the backup to complete", VELERO_PATIENCE, || async {
            let backup = self.api::<NonAdminBackup>().get(name).await?;
            let status = serde_json::to_value(&backup.status)?;
            ensure!(status["veleroBackup"]["status"]["phase"] == "Completed", "its status is {status}");
            Ok(Some(backup))
        })
        .await
    }

    /// A backup called `nightly` with a ConfigMap `prices` in it, and its Velero Backup.
    pub(crate) async fn completed_backup(&self) -> Result<(NonAdminBackup, Backup)> {
        self.add_config_map("prices").await?;
        self.add_backup("nightly").await?;
        let backup = self.backup_completes("nightly").await?;
        let velero = self.veleros::<Backup>().get(&velero_name(&backup)).await?;
        Ok((backup, velero))
    }

    /// Waits until the status of a request satisfies `wanted`.
    pub(crate) async fn status<K: Kind>(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.status_within::<K>(PATIENCE, name, what, wanted).await
    }

    /// The same where it takes its time.
    pub(crate) async fn status_within<K: Kind>(
        &self,
        patience: Duration,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("{} {name} {what}", K::kind(&()));
        let seen = wait::until(&what, patience, || async {
            let object = serde_json::to_value(self.api::<K>().get(name).await?)?;
            ensure!(wanted(&object["status"]), "its status is {}", object["status"]);
            Ok(Some(object["status"].clone()))
        });
        seen.await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub(crate) async fn restore_phase(&self, name: &str, phase: &str) -> Value {
        let is_there = |status: &Value| status["veleroRestore"]["status"]["phase"] == phase;
        self.status_within::<NonAdminRestore>(VELERO_PATIENCE, name, &format!("to be {phase}"), is_there).await
    }

    pub(crate) async fn vanishes<K: Kind>(&self, api: &Api<K>, name: &str) -> Result<()> {
        wait::until(&format!("{} {name} to go", K::kind(&())), VELERO_PATIENCE, || async {
            let left = api.get_opt(name).await?;
            ensure!(left.is_none(), "it is there: {:?}", left.map(|left| left.meta().clone()));
            Ok(Some(()))
        })
        .await
    }

    /// Names of the objects in the bucket.
    pub(crate) async fn stored(&self) -> Result<Vec<String>> {
        let listed = self.world.bed.ceph().admin(&["bucket", "list", "--bucket", &self.namespace]).await?;
        let listed: Vec<Value> = serde_json::from_str(&listed)?;
        Ok(listed.iter().filter_map(|object| object["name"].as_str().map(str::to_owned)).collect())
    }

    /// Writes into the bucket, as its owner may.
    pub(crate) async fn put(&self, path: &str, body: &[u8]) -> Result<()> {
        self.world.bed.ceph().put(path, body).await
    }

    pub(crate) async fn uid_of_restore(&self, name: &str) -> Result<String> {
        Ok(self.api::<NonAdminRestore>().get(name).await?.metadata.uid.unwrap_or_default())
    }

    pub(crate) async fn velero_location(&self) -> Result<BackupStorageLocation> {
        let location = self.api::<NonAdminBackupStorageLocation>().get("here").await?;
        let reference = location.status.and_then(|status| status.velero_backup_storage_location).unwrap_or_default();
        Ok(self.veleros::<BackupStorageLocation>().get(&reference.name.unwrap_or_default()).await?)
    }
}

/// Somebody with the rights Kubernetes' own `admin` has in the namespace, and no others.
pub(crate) async fn owner_of(bed: &Testbed, namespace: &str) -> Result<Identity> {
    let owner = somebody_of(bed, namespace, "owner", "admin").await?;
    eventually("the owner to have rights", || async {
        Ok(owner.can("create", "oadp.openshift.io/nonadminbackups", Some(namespace)).await?.then_some(()))
    })
    .await;
    Ok(owner)
}

/// Somebody with a role of Kubernetes' own in the namespace, which counts a moment later.
pub(crate) async fn somebody_of(bed: &Testbed, namespace: &str, name: &str, role: &str) -> Result<Identity> {
    let somebody = bed.service_account(namespace, name).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(bed.admin().client.clone(), namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    Ok(somebody)
}

pub(crate) fn velero_name(backup: &NonAdminBackup) -> String {
    let reference = backup.status.as_ref().and_then(|status| status.velero_backup.clone()).unwrap_or_default();
    reference.name.unwrap_or_default()
}

pub(crate) fn phase(backup: &NonAdminBackup) -> Option<NonAdminPhase> {
    backup.status.as_ref().and_then(|status| status.phase)
}

/// Type, status and reason of every condition, in order.
pub(crate) fn told(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    conditions.map(|c| format!("{}={} {}", text(&c["type"]), text(&c["status"]), text(&c["reason"]))).collect()
}

/// The message of one condition.
pub(crate) fn message(status: &Value, kind: &str) -> String {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == kind);
    condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}
