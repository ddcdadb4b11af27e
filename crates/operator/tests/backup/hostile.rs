//! Archives rewritten by whoever owns the bucket: whatever is in them, nothing appears outside the tenant's namespace and nothing of
//! a kind that is not restored for tenants.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, ensure};
use croft_api::backup::{NonAdminBackup, NonAdminRestore};
use croft_core::backup::{BYPASS_ANNOTATIONS, restorable::USUAL};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, Scope, verbs},
};
use serde_json::{Value, json};

use crate::plot::{Plot, VELERO_PATIENCE, velero_name};

/// On every object of a rewritten archive: the number of the archive it came with.
const CAME_WITH: &str = "test.croft.dev/came-with";

/// One object in an archive.
#[derive(Clone, Debug)]
struct Entry {
    /// What the archive calls its kind.
    directory: &'static str,
    /// `None`: of the cluster.
    namespace: Option<String>,
    object: Value,
}

/// Somebody's wish: a directory, the object that belongs there, and whether it is one of the cluster.
#[expect(clippy::too_many_lines, reason = "one list")]
fn wishes(tenant: &str) -> Vec<(&'static str, Value, bool)> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let administrator = json!([{ "kind": "ServiceAccount", "name": "owner", "namespace": tenant }]);
    let reference =
        |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "cluster-admin" });
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let thing = |version: &str, kind: &str, content: Value| {
        let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": {} });
        for (field, value) in content.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    vec![
        (
            "rolebindings.rbac.authorization.k8s.io",
            thing(rbac, "RoleBinding", json!({ "roleRef": reference("ClusterRole"), "subjects": administrator })),
            false,
        ),
        ("roles.rbac.authorization.k8s.io", thing(rbac, "Role", json!({ "rules": everything })), false),
        (
            "clusterrolebindings.rbac.authorization.k8s.io",
            thing(
                rbac,
                "ClusterRoleBinding",
                json!({ "roleRef": reference("ClusterRole"), "subjects": administrator }),
            ),
            true,
        ),
        ("clusterroles.rbac.authorization.k8s.io", thing(rbac, "ClusterRole", json!({ "rules": everything })), true),
        (
            "persistentvolumes",
            thing(
                "v1",
                "PersistentVolume",
                json!({ "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/" },
            "claimRef": { "kind": "PersistentVolumeClaim", "name": "data", "namespace": tenant },
        } }),
            ),
            true,
        ),
        (
            "namespaces",
            thing("v1", "Namespace", json!({ "metadata": { "labels": { "namespaceclass.akuity.io/name": "gold" } } })),
            true,
        ),
        ("resourcequotas", thing("v1", "ResourceQuota", json!({ "spec": { "hard": { "pods": "1000" } } })), false),
        ("limitranges", thing("v1", "LimitRange", json!({ "spec": { "limits": [] } })), false),
        ("endpoints", thing("v1", "Endpoints", json!({ "subsets": [] })), false),
        ("events", thing("v1", "Event", json!({ "involvedObject": {} })), false),
        (
            "nonadminbackups.oadp.openshift.io",
            thing("oadp.openshift.io/v1alpha1", "NonAdminBackup", json!({ "spec": { "backupSpec": {} } })),
            false,
        ),
        (
            "s3userclaims.s3.snappcloud.io",
            thing(
                "s3.snappcloud.io/v1alpha1",
                "S3UserClaim",
                json!({ "spec": { "readSecretName": "r", "adminSecretName": "a" } }),
            ),
            false,
        ),
        (
            "s3quotaledgers.s3.snappcloud.io",
            thing("s3.snappcloud.io/v1alpha1", "S3QuotaLedger", json!({ "spec": {} })),
            true,
        ),
        (
            "namespaceclassbindings.akuity.io",
            thing("akuity.io/v1alpha1", "NamespaceClassBinding", json!({ "spec": { "className": "gold" } })),
            false,
        ),
        (
            "priorityclasses.scheduling.k8s.io",
            thing("scheduling.k8s.io/v1", "PriorityClass", json!({ "value": 1000 })),
            true,
        ),
        (
            "storageclasses.storage.k8s.io",
            thing("storage.k8s.io/v1", "StorageClass", json!({ "provisioner": "x" })),
            true,
        ),
        (
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            thing("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", json!({ "webhooks": [] })),
            true,
        ),
        (
            "backupstoragelocations.velero.io",
            thing(
                "velero.io/v1",
                "BackupStorageLocation",
                json!({ "spec": { "provider": "aws", "objectStorage": { "bucket": "b" } } }),
            ),
            false,
        ),
        ("configmaps", thing("v1", "ConfigMap", json!({ "data": { "a": "b" } })), false),
        ("serviceaccounts", thing("v1", "ServiceAccount", json!({ "secrets": [{ "name": "x" }] })), false),
        ("secrets", thing("v1", "Secret", json!({ "type": "Opaque" })), false),
    ]
}

/// Each wish where it belongs, where it does not, and under a false name.
fn archives(tenant: &str) -> Vec<Entry> {
    let mut archives = Vec::new();
    for (directory, object, of_the_cluster) in wishes(tenant) {
        let mut put = |directory: &'static str, namespace: Option<&str>| {
            let number = archives.len();
            let mut object = object.clone();
            object["metadata"]["name"] = json!(format!("{tenant}-hostile-{number}"));
            object["metadata"]["labels"][CAME_WITH] = json!(format!("archive-{number}"));
            object["metadata"]["annotations"] = json!({
                "backup.velero.io/must-include-additional-items": "true",
                "restore.velero.io/must-include-additional-items": "true",
                "velero.io/restore-status": "true",
            });
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = json!(namespace);
            }
            archives.push(Entry { directory, namespace: namespace.map(str::to_owned), object });
        };
        let home = (!of_the_cluster).then_some(tenant);
        put(directory, home);
        put("configmaps", Some(tenant));
        put(directory, Some("kube-system"));
    }
    archives
}

impl Plot {
    /// Where the archive of a backup is stored.
    fn archive_of(&self, backup: &NonAdminBackup) -> String {
        let (bucket, name) = (&self.namespace, velero_name(backup));
        format!("/{bucket}/{bucket}/backups/{name}/{name}.tar.gz")
    }
}

impl Entry {
    /// Writes the archive this entry is alone in.
    fn pack(&self, directory: &Path) -> Result<Vec<u8>> {
        let place = self.namespace.as_ref().map_or("cluster".to_owned(), |namespace| format!("namespaces/{namespace}"));
        let place = directory.join(format!("resources/{}/{place}", self.directory));
        std::fs::create_dir_all(&place)?;
        std::fs::create_dir_all(directory.join("metadata"))?;
        std::fs::write(directory.join("metadata/version"), "1.1.0\n")?;
        let name = self.object["metadata"]["name"].as_str().context("a name")?;
        std::fs::write(place.join(format!("{name}.json")), serde_json::to_vec(&self.object)?)?;
        let packed = std::process::Command::new("tar")
            .arg("-C")
            .arg(directory)
            .args(["-cz", "metadata", "resources"])
            .output()
            .context("running tar")?;
        ensure!(packed.status.success(), "tar: {}", String::from_utf8_lossy(&packed.stderr));
        std::fs::remove_dir_all(directory)?;
        Ok(packed.stdout)
    }
}

#[tokio::test]
async fn of_a_rewritten_archive_nothing_appears_that_is_not_the_tenants() -> Result<()> {
    let plot = Plot::furnished("hostile").await?;
    let (backup, _) = plot.completed_backup().await?;
    let path = plot.archive_of(&backup);
    let archives = archives(&plot.namespace);
    assert!(archives.len() >= 50, "only {}", archives.len());
    for (number, entry) in archives.iter().enumerate() {
        let scratch = plot.world.bed.dir().join(format!("{}-{number}", plot.namespace));
        plot.put(&path, &entry.pack(&scratch)?).await?;
        let name = format!("back-{number}");
        plot.create::<NonAdminRestore>(&name, json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
        ended(&plot, &name).await?;
    }
    let (foreign, hers) = came_with(&plot, CAME_WITH).await?;
    assert_eq!(foreign, Vec::<String>::new());
    assert!(hers >= 3, "what is hers came back: {hers}");
    Ok(())
}

#[tokio::test]
async fn a_note_in_an_archive_is_on_no_object_after_its_restore() -> Result<()> {
    let plot = Plot::furnished("noted").await?;
    let (backup, _) = plot.completed_backup().await?;
    let path = plot.archive_of(&backup);
    let notes: serde_json::Map<_, _> =
        BYPASS_ANNOTATIONS.iter().map(|note| ((*note).to_owned(), json!("true"))).collect();
    // One account is new; into the other, which is there, Velero merges what the archive has.
    for (number, name) in ["robot", "owner"].into_iter().enumerate() {
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": plot.namespace, "annotations": notes, "labels": { "came": "back" } },
            "secrets": [{ "name": "from-the-archive" }],
        });
        let entry = Entry { directory: "serviceaccounts", namespace: Some(plot.namespace.clone()), object };
        let scratch = plot.world.bed.dir().join(format!("{}-{number}", plot.namespace));
        plot.put(&path, &entry.pack(&scratch)?).await?;
        let restore = format!("back-{number}");
        plot.create::<NonAdminRestore>(&restore, json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
        ended(&plot, &restore).await?;
        let account = plot.api::<ServiceAccount>().get(name).await?;
        assert_eq!(account.secrets.map(|secrets| secrets.len()), Some(1), "{name} came back");
        let left = account.metadata.annotations.unwrap_or_default();
        assert!(left.keys().all(|note| !BYPASS_ANNOTATIONS.contains(&note.as_str())), "{name}: {left:?}");
    }
    Ok(())
}

pub(crate) async fn ended(plot: &Plot, name: &str) -> Result<()> {
    wait::until(&format!("restore {name} to end"), VELERO_PATIENCE, || async {
        let status = serde_json::to_value(plot.api::<NonAdminRestore>().get(name).await?.status)?;
        ensure!(!status["veleroRestore"]["status"]["completionTimestamp"].is_null(), "its status is {status}");
        Ok(Some(()))
    })
    .await
}

/// Whatever came with an archive, by a label on it: what must not be there, and how much there is of what may.
pub(crate) async fn came_with(plot: &Plot, label: &str) -> Result<(Vec<String>, usize)> {
    let client = plot.world.client();
    let (mut foreign, mut hers) = (Vec::new(), 0);
    for group in Discovery::new(client.clone()).run().await?.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let kind = [resource.plural.as_str(), resource.group.as_str()];
            let kind = kind.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let found = all.list(&ListParams::default().labels(label)).await?;
            for object in found.items {
                let is_hers = capabilities.scope == Scope::Namespaced
                    && object.namespace().as_deref() == Some(plot.namespace.as_str())
                    && USUAL.iter().any(|usual| usual.name == kind);
                let is_noted = object.annotations().keys().any(|note| BYPASS_ANNOTATIONS.contains(&note.as_str()));
                if is_hers && !is_noted {
                    hers += 1;
                } else {
                    let labels: BTreeMap<_, _> = object.labels().clone();
                    foreign.push(format!("{kind} {:?}/{} {labels:?}", object.namespace(), object.name_any()));
                }
            }
        }
    }
    Ok((foreign, hers))
}
