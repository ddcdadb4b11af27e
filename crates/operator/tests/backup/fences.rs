//! The API server judges what Velero's account writes, by the tenants' Restores that are not finished.

use anyhow::{Result, ensure};
use croft_testbed::{Identity, Testbed, product::Installed};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    plot::Plot,
    support::{apply, croft, eventually},
};

/// Annotations that make Velero pass its filters by.
const NOTES: [&str; 3] = [
    "backup.velero.io/must-include-additional-items",
    "restore.velero.io/must-include-additional-items",
    "velero.io/restore-status",
];

/// Who may set them.
const SET_BY: &str = "are the administrator's to set";

/// Why something was refused.
fn refused<T>(answer: kube::Result<T>) -> String {
    answer.err().map(|error| error.to_string()).unwrap_or_default()
}

/// What Velero's account is told who writes this; nothing if it may.
pub(crate) async fn told(velero: &Identity, object: &Value) -> Option<String> {
    let arguments = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"];
    velero.kubectl_stdin(&arguments, &object.to_string()).await.err().map(|error| format!("{error:#}"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it on the spot")]
fn object(version: &str, kind: &str, namespace: Option<&str>, restore: Option<&str>, content: Value) -> Value {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "made-by-velero" } });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    if let Some(restore) = restore {
        object["metadata"]["labels"] = json!({ "velero.io/restore-name": restore });
    }
    for (field, value) in content.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

/// Something with a note that makes Velero pass its filters by.
fn noted(kind: &str, namespace: &str, restore: Option<&str>) -> Value {
    let mut noted = object("v1", kind, Some(namespace), restore, json!({}));
    noted["metadata"]["annotations"] = json!({ NOTES[0]: "true" });
    noted
}

#[tokio::test]
async fn what_velero_writes_for_a_tenant_is_judged_by_her_restore() -> Result<()> {
    let plot = Plot::bare("judged").await?;
    is_judged(&plot.world.bed, &plot.namespace).await
}

#[tokio::test]
async fn what_velero_writes_for_a_tenant_is_judged_while_no_operator_runs() -> Result<()> {
    // Nor Velero, which would get done with what it finishes here.
    let bed = Testbed::kubernetes().start().await?;
    bed.install_velero_crds().await?;
    let _installed = Installed::new(&bed, croft()).await?;
    apply(bed.admin(), include_str!("snapshots.yaml")).await?;
    let tenant = bed.namespace("unwatched").await?;
    is_judged(&bed, &tenant).await?;
    is_judged_to_the_end(&bed, &tenant).await
}

/// A tenant's restore that Velero works on.
fn in_progress(name: &str, tenant: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "Restore",
        "metadata": { "name": name, "namespace": "velero", "labels": {
            "app.kubernetes.io/managed-by": "oadp-nac-controller", "croft.dev/unfinished": "true",
        } },
        "spec": { "backupName": "b", "includedNamespaces": [tenant], "includedResources": [
            "configmaps", "deployments.apps", "persistentvolumeclaims", "pods",
        ] },
        "status": { "phase": "InProgress" },
    })
}

/// What is refused, and what passes, while a restore of the tenant is in progress.
async fn is_judged(bed: &Testbed, tenant: &str) -> Result<()> {
    let name = format!("{tenant}-restore");
    // In progress from the beginning, so that Velero itself leaves it alone.
    apply(bed.admin(), &in_progress(&name, tenant).to_string()).await?;
    let judged = is_judged_by(bed, tenant, &name).await;
    // While it is there nobody else's restore runs.
    bed.admin().kubectl(&["delete", "restores.velero.io", &name, "-n", "velero"]).await?;
    judged
}

async fn is_judged_by(bed: &Testbed, tenant: &str, name: &str) -> Result<()> {
    let velero = bed.cluster_admin("velero", "velero").await?;
    let claim = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    let copying = json!({ "spec": {
        "backupStorageLocation": "l", "pod": { "kind": "Pod", "namespace": tenant, "name": "p" }, "repoIdentifier": "",
        "snapshotID": "s", "sourceNamespace": tenant, "volume": "v",
    } });
    let volume = json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/" } } });
    let rules = json!({ "rules": [] });
    let (hers, none) = (Some(name), json!({}));
    eventually("the API server to know of the Restore", || async {
        let elsewhere = object("v1", "ConfigMap", Some("default"), hers, json!({}));
        Ok(told(&velero, &elsewhere).await)
    })
    .await;
    let rbac = "rbac.authorization.k8s.io/v1";
    for (what, made, because) in [
        ("her ConfigMap", object("v1", "ConfigMap", Some(tenant), hers, none.clone()), None),
        ("her claim", object("v1", "PersistentVolumeClaim", Some(tenant), hers, claim), None),
        (
            "what tells the node agent to copy a volume",
            object("velero.io/v1", "PodVolumeRestore", Some("velero"), hers, copying.clone()),
            None,
        ),
        (
            "the same elsewhere",
            object("velero.io/v1", "PodVolumeRestore", Some("default"), hers, copying),
            Some("is not hers"),
        ),
        ("a ConfigMap elsewhere", object("v1", "ConfigMap", Some("default"), hers, none.clone()), Some("is not hers")),
        ("one of Velero's own", object("v1", "ConfigMap", Some("velero"), hers, none.clone()), Some("is not hers")),
        (
            "a kind that is not listed",
            object("v1", "Secret", Some(tenant), hers, none.clone()),
            Some("kind secrets is not restored"),
        ),
        ("rights", object(rbac, "Role", Some(tenant), hers, rules.clone()), Some("is not restored")),
        ("rights in the cluster", object(rbac, "ClusterRole", None, hers, rules), Some("is not hers")),
        ("a Namespace", object("v1", "Namespace", None, None, none.clone()), Some("changes no Namespace")),
        ("a volume", object("v1", "PersistentVolume", None, None, volume), Some("changes no PersistentVolume")),
        (
            "an account elsewhere",
            object("v1", "ServiceAccount", Some("default"), None, none.clone()),
            Some("changes no ServiceAccount"),
        ),
        ("an account of hers", object("v1", "ServiceAccount", Some(tenant), None, none.clone()), None),
        ("a noted object of hers", noted("ConfigMap", tenant, hers), Some("are not restored")),
        ("a noted account of hers", noted("ServiceAccount", tenant, None), Some("merges no annotations")),
        ("an administrator's own with a note", noted("ConfigMap", "default", Some("disaster")), None),
        ("an administrator's own", object("v1", "ConfigMap", Some("default"), Some("disaster"), none), None),
    ] {
        let told = told(&velero, &made).await;
        match because {
            None => ensure!(told.is_none(), "{what}: {told:?}"),
            Some(why) => ensure!(told.as_ref().is_some_and(|told| told.contains(why)), "{what}: {told:?}"),
        }
    }
    // Velero's own chart calls its account otherwise.
    let elsewhere = object("v1", "ConfigMap", Some("default"), hers, json!({}));
    for account in ["velero-server", "node-agent"] {
        let told = told(&bed.cluster_admin("velero", account).await?, &elsewhere).await;
        ensure!(told.is_some_and(|told| told.contains("is not hers")), "{account} is not taken for Velero");
    }
    is_judged_of_what_is_there(bed, &velero, tenant, name).await
}

/// An object under a name, with a label as Velero brings it.
fn relabelled(version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut relabelled = object(version, kind, namespace, None, json!({}));
    relabelled["metadata"]["name"] = json!(name);
    relabelled["metadata"]["labels"] = json!({ "came-from": "an-archive" });
    relabelled
}

/// A volume of the cluster that no claim finds, called as the tenant is.
fn volume_of(tenant: &str) -> Value {
    let mut volume = relabelled("v1", "PersistentVolume", None, tenant);
    volume["spec"] = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "judged",
                             "hostPath": { "path": "/" } });
    volume
}

async fn make_volume(bed: &Testbed, tenant: &str) -> Result<()> {
    let mut volume = volume_of(tenant);
    volume["metadata"]["labels"] = json!({});
    apply(bed.admin(), &volume.to_string()).await?;
    Ok(())
}

/// The same of what Velero finds in its way, and changes or writes the status of.
async fn is_judged_of_what_is_there(bed: &Testbed, velero: &Identity, tenant: &str, restore: &str) -> Result<()> {
    let elsewhere = bed.namespace("elsewhere").await?;
    make_volume(bed, tenant).await?;
    for namespace in [tenant, &elsewhere] {
        apply(bed.admin(), &object("v1", "ServiceAccount", Some(namespace), None, json!({})).to_string()).await?;
    }
    let claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                                  "resources": { "requests": { "storage": "1Gi" } } } });
    let hers = object("v1", "PersistentVolumeClaim", Some(tenant), Some(restore), claim);
    apply(bed.admin(), &hers.to_string()).await?;
    let account = |namespace: &str| relabelled("v1", "ServiceAccount", Some(namespace), "made-by-velero");
    for (what, changed, because) in [
        ("her Namespace", relabelled("v1", "Namespace", None, tenant), Some("changes no Namespace")),
        ("another Namespace", relabelled("v1", "Namespace", None, &elsewhere), Some("changes no Namespace")),
        ("a volume", volume_of(tenant), Some("changes no PersistentVolume")),
        ("an account elsewhere", account(&elsewhere), Some("changes no ServiceAccount")),
        ("an account of hers", account(tenant), None),
        ("a claim of hers", hers, None),
    ] {
        let told = told(velero, &changed).await;
        match because {
            None => ensure!(told.is_none(), "{what} is there: {told:?}"),
            Some(why) => ensure!(told.as_ref().is_some_and(|told| told.contains(why)), "{what} is there: {told:?}"),
        }
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(velero.client.clone(), tenant);
    let bound = Patch::Merge(json!({ "status": { "phase": "Bound", "capacity": { "storage": "1Gi" } } }));
    let trying = PatchParams { dry_run: true, ..PatchParams::default() };
    let told = refused(claims.patch_status("made-by-velero", &trying, &bound).await);
    ensure!(told.contains("/status is not restored for tenants"), "the status of a claim of hers: {told:?}");
    Ok(())
}

/// What is refused, and what passes, while Velero finishes a restore of the tenant, and that no snapshot is taken up before.
async fn is_judged_to_the_end(bed: &Testbed, tenant: &str) -> Result<()> {
    let name = format!("{tenant}-finishing");
    let velero = bed.cluster_admin("velero", "velero").await?;
    let snapshot = object(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshotContent",
        None,
        None,
        json!({ "spec": { "driver": "d", "deletionPolicy": "Delete", "source": { "snapshotHandle": "somebody-elses" },
                          "volumeSnapshotRef": { "namespace": tenant, "name": "s" } } }),
    );
    let changed = volume_of(tenant);
    let made = object(
        "v1",
        "PersistentVolume",
        None,
        None,
        json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/" } } }),
    );
    let space = relabelled("v1", "Namespace", None, tenant);
    let (taken_up, no_volume) = (Some("makes no VolumeSnapshotContent"), Some("changes no PersistentVolume"));
    for (phase, [of_snapshot, of_change, of_volume, of_space]) in [
        ("InProgress", [taken_up, no_volume, no_volume, Some("changes no Namespace")]),
        // The next one may be an administrator's.
        ("Finalizing", [None, no_volume, None, None]),
        ("FinalizingPartiallyFailed", [None, no_volume, None, None]),
        ("Completed", [None; 4]),
    ] {
        let mut restore = in_progress(&name, tenant);
        restore["status"]["phase"] = json!(phase);
        apply(bed.admin(), &restore.to_string()).await?;
        let judged = [(&snapshot, of_snapshot), (&changed, of_change), (&made, of_volume), (&space, of_space)];
        for (object, because) in judged {
            let kind = &object["kind"];
            // The API server hears of the phase a moment later.
            eventually(&format!("{kind} to be judged as it is while the restore is {phase}"), || async {
                let told = told(&velero, object).await;
                match because {
                    None => ensure!(told.is_none(), "{told:?}"),
                    Some(why) => ensure!(told.as_ref().is_some_and(|told| told.contains(why)), "{told:?}"),
                }
                Ok(Some(()))
            })
            .await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn notes_that_make_velero_pass_its_filters_by_stay_off_a_tenants_objects() -> Result<()> {
    let plot = Plot::bare("notes").await?;
    for note in NOTES {
        let map: k8s_openapi::api::core::v1::ConfigMap =
            serde_json::from_value(json!({ "metadata": { "name": "noted", "annotations": { note: "true" } } }))?;
        let refused = plot.api().create(&kube::api::PostParams::default(), &map).await;
        assert!(self::refused(refused).contains(SET_BY), "{note}");
    }
    Ok(())
}

/// Somebody who may do everything in the namespace, subresources included.
async fn owner_of_everything(plot: &Plot) -> Result<Identity> {
    let bed = &plot.world.bed;
    let everything = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "everything", "namespace": plot.namespace },
        "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "everything", "namespace": plot.namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "everything" },
        "subjects": [{ "kind": "ServiceAccount", "name": "everything", "namespace": plot.namespace }],
    });
    let owner = bed.service_account(&plot.namespace, "everything").await?;
    apply(bed.admin(), &everything.to_string()).await?;
    apply(bed.admin(), &binding.to_string()).await?;
    eventually("her to have all rights", || async {
        Ok(owner.can("patch", "persistentvolumeclaims/status", Some(&plot.namespace)).await?.then_some(()))
    })
    .await;
    Ok(owner)
}

#[tokio::test]
async fn no_subresource_and_no_earlier_note_lets_a_note_in() -> Result<()> {
    let plot = Plot::bare("sidedoor").await?;
    let owner = owner_of_everything(&plot).await?;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1Mi" } },
    });
    plot.create::<PersistentVolumeClaim>("data", spec).await?;
    plot.create::<Pod>("web", json!({ "serviceAccountName": "owner", "containers": [{ "name": "c", "image": "x" }] }))
        .await?;
    let noted = |notes: &[&str]| json!({ "metadata": { "annotations": notes.iter().map(|note| ((*note).to_owned(), json!("true"))).collect::<serde_json::Map<_, _>>() } });
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(owner.client.clone(), &plot.namespace);
    let patched = claims.patch_status("data", &PatchParams::default(), &Patch::Merge(noted(&NOTES[..1]))).await;
    assert!(refused(patched).contains(SET_BY), "by way of the status");
    let pods: Api<Pod> = Api::namespaced(owner.client.clone(), &plot.namespace);
    let mut bound = noted(&NOTES[..1]);
    bound["metadata"]["name"] = json!("web");
    bound["target"] = json!({ "kind": "Node", "name": "nowhere" });
    let params = PostParams::default();
    let answer = pods.create_subresource::<Value, Value>("binding", "web", &params, &bound);
    assert!(refused(answer.await).contains(SET_BY), "by way of a binding");
    // An administrator of last resort may set one; that is no reason for another.
    let merge = |patch: Value| Patch::Merge(patch);
    plot.administrators::<PersistentVolumeClaim>()
        .patch("data", &PatchParams::default(), &merge(noted(&NOTES[..1])))
        .await?;
    let another = claims.patch("data", &PatchParams::default(), &merge(noted(&NOTES[1..2]))).await;
    assert!(refused(another).contains(SET_BY), "beside another");
    let unrelated = json!({ "metadata": { "labels": { "tier": "gold" } } });
    claims.patch("data", &PatchParams::default(), &merge(unrelated)).await?;
    let left = claims.get("data").await?;
    assert_eq!(left.annotations().keys().filter(|key| NOTES.contains(&key.as_str())).count(), 1);
    Ok(())
}

/// One policy with its binding, as the program prints it.
pub(crate) async fn printed(policy: &str, arguments: &[&str]) -> Result<String> {
    let program = tokio::process::Command::new(croft())
        .args(["manifests", "--webhook-url", "https://nowhere"])
        .args(arguments)
        .output();
    let printed = String::from_utf8(program.await?.stdout)?;
    let name = format!("name: {policy}\n");
    let documents: Vec<_> = printed.split("---\n").filter(|document| document.contains(&name)).collect();
    ensure!(documents.len() == 2, "{documents:?}");
    Ok(documents.join("---\n"))
}

/// What the owner of the plot is told who makes a pod with such annotations; nothing if she may.
async fn told_of_pod(plot: &Plot, name: &str, annotations: Value) -> String {
    let pod = json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "serviceAccountName": "owner", "containers": [{ "name": "c", "image": "x" }] },
    });
    match serde_json::from_value::<Pod>(pod) {
        Ok(pod) => refused(plot.api::<Pod>().create(&PostParams::default(), &pod).await),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn hooks_of_pods_do_not_last_and_are_none_where_there_are_none() -> Result<()> {
    let plot = Plot::bare("hooks").await?;
    let hook = "pre.hook.backup.velero.io";
    let lasting =
        |timeout: &str| json!({ format!("{hook}/command"): "[\"sync\"]", format!("{hook}/timeout"): timeout });
    assert_eq!(told_of_pod(&plot, "brief", lasting("9m59s")).await, "");
    for timeout in ["10m1s", "5000h", "-1s", "banana", "", "999999h999999h99999h", "999999h999999h999999h"] {
        let told = told_of_pod(&plot, "lasting", lasting(timeout)).await;
        assert!(told.contains("timeouts of hooks are durations from 0s to 10m"), "{timeout}: {told}");
    }
    let admin = plot.world.bed.admin();
    apply(admin, &printed("croft-velero-hooks", &["--without-hooks"]).await?).await?;
    let is_refused = |number: usize, annotation: String| {
        let (name, plot) = (format!("hooked-{number}"), &plot);
        async move { told_of_pod(plot, &name, json!({ annotation: "x" })).await.contains(SET_BY) }
    };
    eventually("hooks to be refused", || async {
        plot.api::<Pod>().delete("hooked-0", &DeleteParams::default().grace_period(0)).await.ok();
        Ok(is_refused(0, format!("{hook}/command")).await.then_some(()))
    })
    .await;
    for (number, prefix) in
        ["hook.backup", "post.hook.backup", "post.hook.restore", "init.hook.restore"].iter().enumerate()
    {
        assert!(is_refused(number + 1, format!("{prefix}.velero.io/command")).await, "{prefix}");
    }
    plot.patch::<Pod>("brief", json!({ "metadata": { "labels": { "tier": "gold" } } })).await?;
    assert_eq!(told_of_pod(&plot, "plain", json!({ "example.com/hook": "x" })).await, "");
    apply(admin, &printed("croft-velero-hooks", &[]).await?).await?;
    Ok(())
}
