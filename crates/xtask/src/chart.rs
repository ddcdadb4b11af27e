//! `make chart`: whether the Helm chart is what `croft manifests` says, for many choices; and what it says to wrong ones.
//!
//! Not among the tests: Helm has to be built first, which takes minutes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, bail, ensure};
use croft_testbed::parts;
use serde_json::{Value, json};

use crate::{
    terminal::timed,
    tools::{Profile, croft, root, target},
};

const CHART: &str = "deploy/chart";
const IMAGE: &str = "image: {repository: registry.example.com/croft}";

/// Namespace and values, each with what is special about it.
const CHOICES: &[(&str, &str, &str)] = &[
    ("defaults", "croft-system", ""),
    ("another namespace", "platform", "velero: {namespace: safe}"),
    ("Velero's namespace as well", "platform", "velero: {namespace: safe, createNamespace: true}"),
    ("in Velero's namespace", "velero", ""),
    (
        "names that look like numbers",
        "1234",
        "velero: {namespace: '5678'}\ncertManager: {enabled: true, issuer: {kind: Issuer, name: '9'}}",
    ),
    ("namespaces only", "croft-system", "parts: {storage: false, backup: false}"),
    ("storage only", "croft-system", "parts: {namespaces: false, backup: false}"),
    ("backup only", "croft-system", "parts: {namespaces: false, storage: false}"),
    ("without storage", "croft-system", "parts: {storage: false}"),
    ("without backup", "croft-system", "parts: {backup: false}"),
    ("without namespaces", "croft-system", "parts: {namespaces: false}"),
    ("somebody else's kinds", "croft-system", "crds: {install: false}"),
    (
        "whom and what the fences know",
        "platform",
        "trustedUsers: ['system:serviceaccount:argocd:argocd', breakglass]\nsystemNamespaces: [monitoring, zoo]",
    ),
    ("a class is required", "croft-system", "classRequired: {label: example.com/tenant, value: 'yes'}"),
    (
        "one of two classes is required",
        "croft-system",
        "classRequired: {label: example.com/tenant, value: 'yes', classes: [team, sandbox]}",
    ),
    (
        "settings",
        "croft-system",
        "settings: {concurrency: 64, backup: {hooks: false, limits: {vaults: 2}}, namespaces: {systemNamespaces: [infra]}, \
         storage: {restorers: [me]}, admission: {callers: [10.0.0.0/28]}}",
    ),
    (
        "where and how it runs",
        "croft-system",
        "replicas: 3\npriorityClassName: system-cluster-critical\nnodeSelector: {role: infra}\n\
         tolerations: [{key: infra, operator: Exists, effect: NoSchedule}]\n\
         topologySpread: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]\n\
         resources: {requests: {cpu: '1', memory: null}, limits: {memory: 1Gi, cpu: 2}}\n\
         log: {filter: 'info,croft=debug', format: json}",
    ),
    (
        "nothing around it",
        "croft-system",
        "podDisruptionBudget: {enabled: false}\nnetworkPolicy: {enabled: false}\ntopologySpread: []",
    ),
    (
        "who reaches and measures it",
        "croft-system",
        "networkPolicy: {webhookFrom: [10.0.0.0/28, 10.1.0.5/32], metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}\n\
         serviceMonitor: {enabled: true, interval: 1m, labels: {release: prometheus}}",
    ),
    ("a certificate of its own issuer", "platform", "certManager: {enabled: true}"),
    (
        "a certificate of the cluster's issuer",
        "platform",
        "certManager: {enabled: true, issuer: {kind: ClusterIssuer, name: corp}}",
    ),
    (
        "an image by digest",
        "croft-system",
        "image: {tag: old, digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', pullPolicy: Always, pullSecrets: [registry]}",
    ),
];

/// Values that are refused, each with what is said then.
const WRONG: &[(&str, &str)] = &[
    ("replica: 3", "replica"),
    ("replicas: many", "replicas"),
    ("parts: {storag: true}", "storag"),
    ("image: {pullPolicy: Sometimes}", "pullPolicy"),
    ("trustedUsers: [\"o'brien\"]", "trustedUsers"),
    ("systemNamespaces: ['a b']", "systemNamespaces"),
    ("settings: {concurency: 3}", "concurency"),
    ("settings: {backup: {onDelete: Perhaps}}", "onDelete"),
    ("resources: {requests: {cpu: [1]}}", "cpu"),
    ("image: {digest: 'sha256:abc'}", "digest"),
    ("image: {tag: 'a b'}", "tag"),
    ("networkPolicy: {webhookFrom: [10.0.0.0]}", "webhookFrom"),
    ("classRequired: {label: example.com/tenant}", "classRequired"),
    ("parts: {namespaces: false, storage: false, backup: false}", "leave one of them on"),
];

pub(crate) fn chart() -> Result<()> {
    let tools =
        Tools { helm: parts::helm()?, croft: croft(Profile::Debug)?, folder: root().join(target()?).join("chart") };
    std::fs::create_dir_all(&tools.folder)?;
    timed("helm lint", || tools.lint())?;
    timed("the chart gives what `croft manifests` gives", || {
        CHOICES.iter().try_for_each(|(what, namespace, values)| {
            tools.compare(namespace, values).with_context(|| format!("with {what}"))
        })
    })?;
    timed("wrong values are refused by their names", || {
        WRONG.iter().try_for_each(|(values, named)| tools.refuses(values, named))
    })
}

struct Tools {
    helm: PathBuf,
    croft: PathBuf,
    folder: PathBuf,
}

impl Tools {
    fn lint(&self) -> Result<()> {
        let values = self.values("")?;
        let output = run(Command::new(&self.helm).args(["lint", "--strict", CHART, "--values"]).arg(values))?;
        ensure!(output.status.success(), "{}", said(&output));
        Ok(())
    }

    fn compare(&self, namespace: &str, values: &str) -> Result<()> {
        let ours = self.manifests(namespace, values)?;
        ensure!(ours.status.success(), "croft manifests: {}", said(&ours));
        let theirs = self.template(namespace, values)?;
        ensure!(theirs.status.success(), "helm template: {}", said(&theirs));
        let (ours, theirs) = (objects(&ours.stdout)?, objects(&theirs.stdout)?);
        // It is there before a release is.
        let own = format!("Namespace//{namespace}");
        for (key, object) in ours.iter().filter(|(key, _)| **key != own) {
            match theirs.get(key) {
                None => bail!("the chart lacks {key}"),
                Some(other) if other != object => bail!("{key} differs at {}", difference(object, other, "")),
                Some(_) => {}
            }
        }
        match theirs.keys().find(|key| !ours.contains_key(*key)) {
            Some(key) => bail!("the chart has {key} besides"),
            None => Ok(()),
        }
    }

    fn refuses(&self, values: &str, named: &str) -> Result<()> {
        for output in [self.template("croft-system", values)?, self.manifests("croft-system", values)?] {
            let said = said(&output);
            ensure!(!output.status.success() && said.contains(named), "`{values}` should be refused by name: {said}");
        }
        Ok(())
    }

    fn template(&self, namespace: &str, values: &str) -> Result<Output> {
        let values = self.values(values)?;
        run(Command::new(&self.helm)
            .args(["template", "croft", CHART, "--namespace", namespace, "--values"])
            .arg(values))
    }

    fn manifests(&self, namespace: &str, values: &str) -> Result<Output> {
        let values = self.values(values)?;
        run(Command::new(&self.croft).args(["manifests", "--namespace", namespace, "--values"]).arg(values))
    }

    fn values(&self, values: &str) -> Result<PathBuf> {
        let path = self.folder.join("values.yaml");
        let image = match values.strip_prefix("image: {") {
            Some(more) => format!("{}, {more}", IMAGE.trim_end_matches('}')),
            None => format!("{IMAGE}\n{values}\n"),
        };
        std::fs::write(&path, image).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

fn run(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("running {}", Path::new(command.get_program()).display()))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// By kind, namespace and name.
fn objects(yaml: &[u8]) -> Result<BTreeMap<String, Value>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(std::str::from_utf8(yaml)?)?;
    let mut found = BTreeMap::new();
    for mut object in objects.into_iter().filter(|object| !object.is_null()) {
        let text = |place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default();
        let key = format!("{}/{}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        tidy(&mut object)?;
        ensure!(found.insert(key.clone(), object).is_none(), "{key} is there twice");
    }
    Ok(found)
}

/// Without what only Helm needs; the settings as what they say.
fn tidy(object: &mut Value) -> Result<()> {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("helm.sh/resource-policy");
        }
        if metadata.get("annotations") == Some(&json!({})) {
            metadata.remove("annotations");
        }
    }
    // A role without rules says so in two ways.
    if let Some(rules) = object.get_mut("rules").filter(|rules| rules.is_null()) {
        *rules = json!([]);
    }
    if let Some(settings) = object.pointer_mut("/data/settings.yaml") {
        *settings = serde_saphyr::from_str(settings.as_str().unwrap_or_default())?;
    }
    Ok(())
}

/// The first place where two values are not the same, with both.
fn difference(one: &Value, other: &Value, path: &str) -> String {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys = one.keys().chain(other.keys());
            let key = keys.find(|key| one.get(*key) != other.get(*key)).cloned().unwrap_or_default();
            let of = |fields: &serde_json::Map<String, Value>| fields.get(&key).cloned().unwrap_or_default();
            difference(&of(one), &of(other), &format!("{path}.{key}"))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let place = one.iter().zip(other).position(|(one, other)| one != other).unwrap_or_default();
            difference(&one[place], &other[place], &format!("{path}[{place}]"))
        }
        _ => format!("{path}: {one} and in the chart {other}"),
    }
}
