//! How a change of a class reaches its namespaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{is_false, schema};

/// How a change of the class reaches its namespaces.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.batch) || !has(self.pause) && !has(self.stopWhenFailing) && !has(self.order)")
        .message("pause, stopWhenFailing and order are about stages: give batch, too"),
)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Namespaces that get a change at once, as a number or as a percentage of all bound ones; the next ones follow when these
    /// have it. Default: all get it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub batch: Option<IntOrString>,
    /// How long to wait between one batch that has the change and the next, for example `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pause: Option<String>,
    /// The roll-out stops when this many namespaces fail with the change, as a number or as a percentage of all bound ones.
    /// Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub stop_when_failing: Option<IntOrString>,
    /// Whether every namespace stays at the revision it has. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Whose turn comes first, by labels of the Namespace: those that match the first entry, then those that match the second;
    /// all others last. A batch never mixes them. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub order: Vec<RolloutGroup>,
    /// A change that would delete more objects than this, as a number or as a percentage of all the class has made, waits whole until
    /// somebody confirms it. Roles and RoleBindings are not counted. Default: 100 objects or 10%, whichever is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub max_deletions: Option<IntOrString>,
}

/// Namespaces whose turn comes together.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutGroup {
    /// Labels the Namespace carries, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub match_labels: BTreeMap<String, String>,
}

/// How the newest revision is being rolled out.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The newest revision: a digest of what the class says, without `spec.rollout`.
    #[serde(default)]
    pub revision: String,
    /// Its number: the highest of all.
    #[serde(default)]
    pub number: i64,
    /// `Complete`: every namespace has it. `RollingOut`: namespaces get it. `Paused`: `spec.rollout.paused` says so. `Stopped`:
    /// too many fail with it. `Unconfirmed`: it would delete much, and nobody has confirmed that.
    #[serde(default)]
    pub phase: RolloutPhase,
    /// Namespaces that have it, and all bound ones: `37/1000`.
    #[serde(default)]
    pub progress: String,
    /// The generation of the class since which it is rolled out in stages: who is moved then has the revision its binding says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_since: Option<i64>,
    /// Namespaces that were moved to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<i64>,
    /// When the last batch had it: the pause runs since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resting_since: Option<String>,
    /// Objects it would delete, while that waits to be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<i64>,
}

/// Where a roll-out stands.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutPhase {
    Complete,
    #[default]
    RollingOut,
    Paused,
    Stopped,
    Unconfirmed,
}
