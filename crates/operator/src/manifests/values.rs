//! The choices an installation has: the values of the Helm chart, which `croft manifests --values` takes as well.

use std::collections::BTreeMap;

use k8s_openapi::api::{core::v1::Toleration, networking::v1::NetworkPolicyPeer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::forms::{self, Amount, DIGEST, RANGE, TAG, amounts};
use crate::settings::{Settings, SettingsError};

/// What becomes part of expressions is of letters that mean nothing there: [`is_plain`].
const PLAIN: &str = "^[A-Za-z0-9_./:@-]+$";

/// Whether a text may become part of an expression.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./:@".contains(letter))
}

/// Everything that can be chosen about an installation of Croft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Values {
    pub cert_manager: CertManager,
    pub class_required: ClassRequired,
    pub crds: Crds,
    pub image: Image,
    pub log: Log,
    pub network_policy: OwnNetworkPolicy,
    /// Labels of the nodes the operator may run on.
    pub node_selector: BTreeMap<String, String>,
    pub parts: PartsChosen,
    pub pod_disruption_budget: DisruptionBudget,
    /// The `PriorityClass` of the operator's pods; empty: the cluster's default.
    pub priority_class_name: String,
    /// How many replicas run. One leads, the others serve admission and take over.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    pub resources: Resources,
    pub service_monitor: Monitor,
    /// The settings file of the operator; read again while it runs. Which namespaces are the system's, where Velero is and which certificate is used
    /// is filled in from the other values.
    #[schemars(with = "Settings")]
    pub settings: Map<String, Value>,
    /// Namespaces that take no class, besides `default`, those whose name starts with `kube-`, Velero's and the operator's own.
    #[schemars(inner(regex(pattern = PLAIN)))]
    pub system_namespaces: Vec<String>,
    /// Taints of nodes that the operator does not mind.
    pub tolerations: Vec<Toleration>,
    /// How replicas are spread over the nodes.
    pub topology_spread: Vec<Spread>,
    /// Users whom the fences around classes trust like the operator, such as that of a deployer.
    #[schemars(inner(regex(pattern = PLAIN)))]
    pub trusted_users: Vec<String>,
    pub velero: VeleroPlace,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            cert_manager: CertManager::default(),
            class_required: ClassRequired::default(),
            crds: Crds::default(),
            image: Image::default(),
            log: Log::default(),
            network_policy: OwnNetworkPolicy::default(),
            node_selector: BTreeMap::new(),
            parts: PartsChosen::default(),
            pod_disruption_budget: DisruptionBudget::default(),
            priority_class_name: String::new(),
            replicas: 2,
            resources: Resources::default(),
            service_monitor: Monitor::default(),
            settings: Map::new(),
            system_namespaces: Vec::new(),
            tolerations: Vec::new(),
            topology_spread: vec![Spread::default()],
            trusted_users: Vec::new(),
            velero: VeleroPlace::default(),
        }
    }
}

/// The certificate of the admission webhook: by default the operator makes and renews its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CertManager {
    /// Have cert-manager make and renew it.
    pub enabled: bool,
    pub issuer: Issuer,
}

/// Whom cert-manager asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Issuer {
    pub kind: IssuerKind,
    /// Its name; empty: an Issuer of its own that signs nothing else.
    pub name: String,
}

impl Default for Issuer {
    fn default() -> Self {
        Self { kind: IssuerKind::Issuer, name: String::new() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IssuerKind {
    Issuer,
    ClusterIssuer,
}

/// Which namespaces may not be without a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClassRequired {
    /// Those with this label; empty: every namespace may.
    #[schemars(regex(pattern = "^[A-Za-z0-9_./:@-]*$"))]
    pub label: String,
    /// And this value of it.
    #[schemars(regex(pattern = "^[A-Za-z0-9_./:@-]*$"))]
    pub value: String,
    /// Classes that will do; empty: any.
    #[schemars(inner(regex(pattern = PLAIN)))]
    pub classes: Vec<String>,
}

/// The CustomResourceDefinitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Crds {
    /// Install and upgrade them. They stay when the release is removed.
    pub install: bool,
}

impl Default for Crds {
    fn default() -> Self {
        Self { install: true }
    }
}

/// The image of the operator. No registry holds it but yours: `make image` says how to push it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Image {
    /// Where you pushed it, without tag, for example `registry.example.com/platform/croft`. Must be set.
    pub repository: String,
    /// Its tag; empty: the version of the chart.
    #[schemars(regex(pattern = TAG))]
    pub tag: String,
    /// Its digest (`sha256:...`), which counts more than the tag; empty: by tag.
    #[schemars(regex(pattern = DIGEST))]
    pub digest: String,
    pub pull_policy: PullPolicy,
    /// Names of Secrets in the operator's namespace with the registry's credentials.
    pub pull_secrets: Vec<String>,
}

impl Default for Image {
    fn default() -> Self {
        let empty = String::new;
        Self {
            repository: empty(),
            tag: empty(),
            digest: empty(),
            pull_policy: PullPolicy::IfNotPresent,
            pull_secrets: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// What the operator logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Log {
    /// A level, or a filter such as `info,croft=debug`.
    pub filter: String,
    pub format: LogForm,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogForm::Text }
    }
}

/// For people or for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogForm {
    Text,
    Json,
}

/// The NetworkPolicy of the operator's own pods: nobody reaches anything but admission and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct OwnNetworkPolicy {
    pub enabled: bool,
    /// Who may ask admission, as ranges of addresses such as `10.0.0.0/28`: those of the API servers. Empty: anybody.
    #[schemars(inner(regex(pattern = RANGE)))]
    pub webhook_from: Vec<String>,
    /// Who may read metrics, as peers of a NetworkPolicy. Empty: anybody.
    pub metrics_from: Vec<NetworkPolicyPeer>,
}

impl Default for OwnNetworkPolicy {
    fn default() -> Self {
        Self { enabled: true, webhook_from: Vec::new(), metrics_from: Vec::new() }
    }
}

/// The parts that run; each brings its kinds and its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PartsChosen {
    /// Namespaces furnished from classes.
    pub namespaces: bool,
    /// Object storage on Ceph.
    pub storage: bool,
    /// Backups and restores on Velero.
    pub backup: bool,
}

impl Default for PartsChosen {
    fn default() -> Self {
        Self { namespaces: true, storage: true, backup: true }
    }
}

/// Keeps evictions from ending all replicas at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DisruptionBudget {
    pub enabled: bool,
    /// How many replicas may be evicted at a time.
    #[schemars(range(min = 0))]
    pub max_unavailable: i32,
}

impl Default for DisruptionBudget {
    fn default() -> Self {
        Self { enabled: true, max_unavailable: 1 }
    }
}

/// What each replica asks for and may have at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Resources {
    /// What is set aside for it.
    #[serde(deserialize_with = "amounts")]
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub requests: BTreeMap<String, String>,
    /// What it never exceeds.
    #[serde(deserialize_with = "amounts")]
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub limits: BTreeMap<String, String>,
}

impl Default for Resources {
    fn default() -> Self {
        let amounts =
            |of: &[(&str, &str)]| of.iter().map(|(name, amount)| ((*name).into(), (*amount).into())).collect();
        Self { requests: amounts(&[("cpu", "50m"), ("memory", "32Mi")]), limits: amounts(&[("memory", "256Mi")]) }
    }
}

/// A `ServiceMonitor` for the Prometheus operator, and the Service it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Monitor {
    pub enabled: bool,
    /// How often metrics are read.
    pub interval: String,
    /// Labels by which your Prometheus finds it.
    pub labels: BTreeMap<String, String>,
}

impl Default for Monitor {
    fn default() -> Self {
        Self { enabled: false, interval: "30s".into(), labels: BTreeMap::new() }
    }
}

/// Replicas are spread evenly over the values of a label of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spread {
    /// The label, for example `topology.kubernetes.io/zone`.
    pub topology_key: String,
    /// By how many one value may have more than another.
    #[schemars(range(min = 1))]
    pub max_skew: i32,
    pub when_unsatisfiable: WhenUnsatisfiable,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            topology_key: "kubernetes.io/hostname".into(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        }
    }
}

/// What happens where that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Velero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct VeleroPlace {
    /// Make its namespace, too, so that Croft can be installed first. It then goes with everything else that is printed, and all Backups
    /// with it; Helm makes it by itself where it is missing, and leaves it behind.
    pub create_namespace: bool,
    /// The namespace it runs in.
    #[schemars(regex(pattern = PLAIN))]
    pub namespace: String,
}

impl Default for VeleroPlace {
    fn default() -> Self {
        Self { create_namespace: false, namespace: "velero".into() }
    }
}

impl Values {
    /// Reads YAML over the defaults, as Helm does: maps are merged, everything else is replaced, `null` takes a default away.
    pub fn parse(text: &str) -> Result<Self, String> {
        let given: Value = match text.trim() {
            "" => Value::Null,
            text => serde_saphyr::from_str(text).map_err(|error| format!("not valid YAML: {error}"))?,
        };
        let values = Self::over_defaults(&given).map_err(|error| match culprit(&given, &mut Vec::new()) {
            Some((path, error)) => format!("{path}: {error}"),
            None => error,
        })?;
        let required = &values.class_required;
        if required.label.is_empty() != required.value.is_empty() {
            return Err("classRequired: give label and value, or none of them".into());
        }
        Ok(values)
    }

    fn over_defaults(given: &Value) -> Result<Self, String> {
        let mut all = json!(Self::default());
        if !given.is_null() {
            merge(&mut all, given.clone());
        }
        let values: Self = serde_json::from_value(all).map_err(|error| error.to_string())?;
        values.check()?;
        Ok(values)
    }

    /// What each value must be, whatever the others are.
    fn check(&self) -> Result<(), String> {
        let settings = Value::Object(self.settings.clone()).to_string();
        let _: Settings = Settings::parse(&settings).map_err(|error: SettingsError| error.to_string())?;
        let required = &self.class_required;
        let named = [&required.label, &required.value].into_iter().filter(|text| !text.is_empty());
        let named = named.chain(&required.classes).chain(&self.trusted_users).chain(&self.system_namespaces);
        for range in &self.network_policy.webhook_from {
            forms::range(range)?;
        }
        forms::tag(&self.image.tag)?;
        forms::digest(&self.image.digest)?;
        match named.chain([&self.velero.namespace]).find(|text| !is_plain(text)) {
            Some(text) => Err(format!("`{text}`: give letters, digits and - _ . / : @ only")),
            None => Ok(()),
        }
    }

    /// What Helm checks values against: an unknown one is refused by its name.
    pub fn schema() -> Value {
        let mut schema = json!(schemars::schema_for!(Self));
        close(&mut schema);
        // Charts that contain this one hand theirs down.
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties
                .insert("global".into(), json!({ "type": "object", "description": "Helm's own; not used here." }));
        }
        schema
    }
}

/// The innermost value that is wrong by itself, and why.
fn culprit(given: &Value, path: &mut Vec<String>) -> Option<(String, String)> {
    let at = |path: &[String]| {
        path.iter().rev().fold(given.clone(), |inner, key| Value::Object(Map::from_iter([(key.clone(), inner)])))
    };
    for (key, value) in given.as_object().into_iter().flatten() {
        path.push(key.clone());
        let found = culprit(value, path);
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    let error = Values::over_defaults(&at(path)).err()?;
    (!path.is_empty()).then(|| (path.join("."), error))
}

/// Our own objects take the fields they list; those of Kubernetes may get more.
fn close(schema: &mut Value) {
    let definitions = schema["$defs"].as_object_mut().into_iter().flatten();
    let ours = definitions.filter(|(name, _)| !name.contains('.')).map(|(_, definition)| definition);
    for definition in ours.filter(|definition| definition["properties"].is_object()) {
        definition["additionalProperties"] = false.into();
    }
}

fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    under.remove(&key);
                } else {
                    merge(under.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (under, over) => *under = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_merged_and_null_takes_a_default_away() {
        let values = Values::parse("resources: {requests: {cpu: 0.5}, limits: {cpu: 2}}").unwrap();
        let cpu = |amounts: &BTreeMap<String, String>| amounts.get("cpu").cloned().unwrap_or_default();
        assert_eq!((cpu(&values.resources.requests), cpu(&values.resources.limits)), ("0.5".into(), "2".into()));
        let values = Values::parse("resources: {requests: {cpu: '1'}, limits: {memory: null}}").unwrap();
        assert_eq!(values.resources.requests.get("memory").map(String::as_str), Some("32Mi"));
        assert!(values.resources.limits.is_empty());
        assert_eq!(Values::parse("").unwrap(), Values::default());
    }

    #[test]
    fn a_wrong_value_is_refused_by_its_name() {
        assert!(Values::parse("replica: 3").unwrap_err().contains("replica"));
        assert!(Values::parse("settings: {concurency: 3}").unwrap_err().contains("did you mean `concurrency`"));
        let starts = |values: &str, named: &str| {
            let error = Values::parse(values).unwrap_err();
            assert!(error.starts_with(named), "{error}");
        };
        starts("replicas: many", "replicas: ");
        starts("resources: {requests: {cpu: [1]}}", "resources.requests.cpu: ");
        starts("image: {digest: 'sha256:abc'}", "image.digest: ");
        starts("image: {tag: 'a b'}", "image.tag: ");
        starts("networkPolicy: {webhookFrom: [10.0.0.0]}", "networkPolicy.webhookFrom: ");
        starts("settings: {backup: {onDelete: Perhaps}}", "settings.backup.onDelete: ");
        starts("trustedUsers: [\"o'brien\"]", "trustedUsers: ");
        starts("classRequired: {label: a}", "classRequired: ");
    }
}
