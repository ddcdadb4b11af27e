//! Every field of the specs Velero has, and who decides about it: the one table behind schemas, admission, reconciling,
//! enforcement and docs. What is not in it is refused: nobody here knows what it would do.

use serde_json::Value;

use super::{duration, selectors, velero::Fields};
use crate::{
    name::is_dns_subdomain,
    problem::{MOST_PROBLEMS, Problem},
    weight::Limit,
};

/// A field: its name, how it looks in JSON, and who decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub rule: Rule,
}

/// How a field looks in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    /// Of an object.
    Name,
    Duration,
    Flag,
    Number,
    Texts,
    TextMap,
    Object(&'static [Field]),
    Objects(&'static [Field]),
}

/// Who decides about a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The tenant.
    Free,
    /// Nobody: a list of namespaces may name her own and no other.
    OwnNamespace,
    /// The tenant, from nothing to so many minutes: Velero waits as long, and with it everybody who comes after her.
    UpToMinutes(u32),
    /// The tenant, from nothing to so many: Velero starts as many at once, on the node.
    UpTo(u32),
    /// The tenant, as long as she says no.
    FalseOnly,
    /// Nobody: it must not be there.
    Forbidden,
    /// The administrator, who may enforce a value; to the tenant it is forbidden.
    AdminOnly,
    /// The operator, from what the tenant says.
    Set,
}

impl Rule {
    /// In words for the docs.
    pub fn about(self) -> String {
        let about = match self {
            Rule::Free => "yours to choose",
            Rule::UpToMinutes(most) => return format!("yours to choose, up to {most}m"),
            Rule::UpTo(most) => return format!("yours to choose, up to {most}"),
            Rule::OwnNamespace => "your own namespace or nothing",
            Rule::FalseOnly => "`false` or nothing",
            Rule::Forbidden => "must be left out",
            Rule::AdminOnly => "the administrator's to enforce, otherwise left out",
            Rule::Set => "checked, then set by the operator",
        };
        about.to_owned()
    }
}

const fn field(name: &'static str, shape: Shape, rule: Rule) -> Field {
    Field { name, shape, rule }
}

const fn free(name: &'static str, shape: Shape) -> Field {
    field(name, shape, Rule::Free)
}

const SELECTOR: &[Field] = &[
    free(
        "matchExpressions",
        Shape::Objects(&[free("key", Shape::Text), free("operator", Shape::Text), free("values", Shape::Texts)]),
    ),
    free("matchLabels", Shape::TextMap),
];

const EXEC: &[Field] = &[free(
    "exec",
    Shape::Object(&[
        free("container", Shape::Text),
        free("command", Shape::Texts),
        free("onError", Shape::Text),
        // Of a hook: Velero does nothing else meanwhile.
        field("timeout", Shape::Duration, Rule::UpToMinutes(10)),
    ]),
)];

const BACKUP_HOOKS: &[Field] = &[free(
    "resources",
    Shape::Objects(&[
        free("name", Shape::Text),
        field("includedNamespaces", Shape::Texts, Rule::OwnNamespace),
        field("excludedNamespaces", Shape::Texts, Rule::OwnNamespace),
        free("includedResources", Shape::Texts),
        free("excludedResources", Shape::Texts),
        free("labelSelector", Shape::Object(SELECTOR)),
        free("pre", Shape::Objects(EXEC)),
        free("post", Shape::Objects(EXEC)),
    ]),
)];

/// More at a time than a disk is faster with.
const MANY_FILES: Rule = Rule::UpTo(32);

const CONFIG_MAP: &[Field] = &[free("apiGroup", Shape::Text), free("kind", Shape::Text), free("name", Shape::Text)];

/// Of a `backupSpec`, in Velero's own order, which is also the order in which violations are reported.
pub const BACKUP: &[Field] = &[
    free("metadata", Shape::Object(&[free("labels", Shape::TextMap)])),
    field("includedNamespaces", Shape::Texts, Rule::OwnNamespace),
    field("excludedNamespaces", Shape::Texts, Rule::Forbidden),
    free("includedResources", Shape::Texts),
    field("excludedResources", Shape::Texts, Rule::Set),
    field("includedClusterScopedResources", Shape::Texts, Rule::Set),
    field("excludedClusterScopedResources", Shape::Texts, Rule::Set),
    free("includedNamespaceScopedResources", Shape::Texts),
    field("excludedNamespaceScopedResources", Shape::Texts, Rule::Set),
    free("labelSelector", Shape::Object(SELECTOR)),
    free("orLabelSelectors", Shape::Objects(SELECTOR)),
    // A snapshot lies where only the administrator can say whose it is.
    field("snapshotVolumes", Shape::Flag, Rule::FalseOnly),
    free("ttl", Shape::Duration),
    free("volumeGroupSnapshotLabelKey", Shape::Text),
    field("includeClusterResources", Shape::Flag, Rule::FalseOnly),
    free("hooks", Shape::Object(BACKUP_HOOKS)),
    field("storageLocation", Shape::Name, Rule::Set),
    field("volumeSnapshotLocations", Shape::Texts, Rule::Forbidden),
    free("defaultVolumesToRestic", Shape::Flag),
    free("defaultVolumesToFsBackup", Shape::Flag),
    free("orderedResources", Shape::TextMap),
    // As long as Velero waits unasked.
    field("csiSnapshotTimeout", Shape::Duration, Rule::UpToMinutes(10)),
    field("itemOperationTimeout", Shape::Duration, Rule::UpToMinutes(240)),
    // It names an object in Velero's own namespace, which is none of the tenant's business.
    field("resourcePolicy", Shape::Object(CONFIG_MAP), Rule::AdminOnly),
    field("snapshotMoveData", Shape::Flag, Rule::FalseOnly),
    field("datamover", Shape::Text, Rule::AdminOnly),
    free("uploaderConfig", Shape::Object(&[field("parallelFilesUpload", Shape::Number, MANY_FILES)])),
];

/// Of a `restoreSpec`, in Velero's own order.
pub const RESTORE: &[Field] = &[
    field("scheduleName", Shape::Text, Rule::Forbidden),
    field("backupName", Shape::Name, Rule::Set),
    field("includedNamespaces", Shape::Texts, Rule::Forbidden),
    field("excludedNamespaces", Shape::Texts, Rule::Forbidden),
    field("includedResources", Shape::Texts, Rule::Set),
    field("excludedResources", Shape::Texts, Rule::Set),
    field("namespaceMapping", Shape::TextMap, Rule::Forbidden),
    free("labelSelector", Shape::Object(SELECTOR)),
    free("orLabelSelectors", Shape::Objects(SELECTOR)),
    // Volumes come back through their claims; what an archive says about volumes of the cluster counts for nothing.
    field("restorePVs", Shape::Flag, Rule::FalseOnly),
    field("restoreStatus", Shape::Object(&[]), Rule::Forbidden),
    free("preserveNodePorts", Shape::Flag),
    field("includeClusterResources", Shape::Flag, Rule::FalseOnly),
    field("hooks", Shape::Object(&[field("resources", Shape::Objects(&[]), Rule::Forbidden)]), Rule::Free),
    free("existingResourcePolicy", Shape::Text),
    field("itemOperationTimeout", Shape::Duration, Rule::UpToMinutes(240)),
    field("resourceModifier", Shape::Object(CONFIG_MAP), Rule::Forbidden),
    field("resourcePolicy", Shape::Object(CONFIG_MAP), Rule::AdminOnly),
    free(
        "uploaderConfig",
        Shape::Object(&[
            free("writeSparseFiles", Shape::Flag),
            field("parallelFilesDownload", Shape::Number, MANY_FILES),
        ]),
    ),
];

/// Of a `backupStorageLocationSpec`.
pub const LOCATION: &[Field] = &[
    field("default", Shape::Flag, Rule::FalseOnly),
    field("provider", Shape::Text, Rule::Set),
    field("config", Shape::TextMap, Rule::Set),
    field(
        "credential",
        Shape::Object(&[free("name", Shape::Name), free("key", Shape::Text), free("optional", Shape::Flag)]),
        Rule::Set,
    ),
    field(
        "objectStorage",
        Shape::Object(&[
            free("bucket", Shape::Text),
            field("prefix", Shape::Text, Rule::Set),
            free("caCert", Shape::Text),
            field("caCertRef", Shape::Object(&[]), Rule::Forbidden),
        ]),
        Rule::Set,
    ),
    free("accessMode", Shape::Text),
    free("backupSyncPeriod", Shape::Duration),
    free("validationFrequency", Shape::Duration),
];

/// What nobody can enforce: it differs from tenant to tenant, or would reach beyond her namespace.
const NOT_ENFORCEABLE: [&str; 5] =
    ["storageLocation", "includedClusterScopedResources", "backupName", "credential", "default"];

/// The first field that is enforced although it cannot be, or that nobody knows.
pub fn not_enforceable<'a>(table: &[Field], enforced: &'a Fields) -> Option<&'a str> {
    let is_enforceable = |name: &str, value: &Value| {
        let known = table.iter().find(|field| field.name == name);
        known.is_some_and(|field| match field.rule {
            Rule::Forbidden | Rule::OwnNamespace => false,
            _ if NOT_ENFORCEABLE.contains(&name) => false,
            _ if name == "includeClusterResources" => *value == Value::Bool(false),
            Rule::Free | Rule::UpToMinutes(_) | Rule::UpTo(_) | Rule::FalseOnly | Rule::AdminOnly | Rule::Set => {
                let alone = || Fields::from_iter([(name.to_owned(), value.clone())]);
                mismatch(field.shape, value).is_none()
                    && !is_negative(field.shape, value)
                    && selectors::objection("", &alone()).is_none()
            }
        })
    };
    enforced.iter().find(|(name, value)| !is_enforceable(name, value)).map(|(name, _)| name.as_str())
}

/// A text as the API server stores and sends it: it writes some characters as six.
fn as_stored(text: String) -> String {
    const ESCAPED: [(char, &str); 5] =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    ESCAPED.iter().fold(text, |text, (character, escaped)| text.replace(*character, escaped))
}

/// What a spec may be.
const LARGEST: Limit = Limit { bytes: 32 << 10, values: 1_000 };

/// A spec held against its table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check<'a> {
    /// `NonAdminBackup`.
    pub(super) kind: &'static str,
    /// Where the spec stands: `spec.backupSpec`.
    pub(super) place: &'static str,
    /// What is said before the name of a restricted field.
    pub(super) restricted: &'static str,
    pub(super) namespace: &'a str,
    /// What the administrator enforces.
    pub(super) enforced: &'a Fields,
}

impl Check<'_> {
    /// Everything in `spec` that its table does not allow.
    pub(super) fn problems(&self, table: &[Field], spec: &Fields) -> Vec<Problem> {
        // It is copied, into Velero's object and into the status, and must stay readable with its copies.
        if let Some(objection) = serde_json::to_string(spec).ok().and_then(|text| LARGEST.objection(&as_stored(text))) {
            return vec![Problem::new(self.place, format!("{objection}; ask for less"))];
        }
        let mut problems = Vec::new();
        self.object(table, spec, "", &mut problems);
        problems
    }

    fn object(&self, table: &[Field], object: &Fields, path: &str, problems: &mut Vec<Problem>) {
        for field in table {
            if let Some(value) = object.get(field.name).filter(|value| !value.is_null()) {
                self.field(field, value, &join(path, field.name), problems);
            }
        }
        let is_unknown = |name: &str| table.iter().all(|field| field.name != name);
        let unknown = object.iter().filter(|(name, value)| !value.is_null() && is_unknown(name));
        for (name, _) in unknown.take(MOST_PROBLEMS.saturating_sub(problems.len())) {
            let field = format!("{}.{}", self.place, join(path, name));
            let message = format!("{field} is not known to this operator and is restricted");
            problems.push(Problem::new(field, message));
        }
    }

    /// Whether the administrator enforces exactly that.
    fn is_enforced(&self, path: &str, value: &Value) -> bool {
        let mut names = path.split('.');
        let outermost = names.next().and_then(|name| self.enforced.get(name));
        outermost.and_then(|outermost| names.try_fold(outermost, |inner, name| inner.get(name))) == Some(value)
    }

    fn field(&self, field: &Field, value: &Value, path: &str, problems: &mut Vec<Problem>) {
        let mut wrong = |message: String| problems.push(Problem::new(format!("{}.{path}", self.place), message));
        let (kind, place) = (self.kind, self.place);
        let is_enforced = self.is_enforced(path, value);
        match field.rule {
            Rule::Forbidden if !is_zero(field.shape, value) => {
                return wrong(format!("{}.{path} is restricted", self.restricted));
            }
            Rule::AdminOnly if !is_zero(field.shape, value) && !is_enforced => {
                return wrong(format!("{}.{path} is restricted", self.restricted));
            }
            Rule::FalseOnly if *value != Value::Bool(false) && !is_enforced => {
                return wrong(format!("{kind} {place}.{path} is restricted, can only be set to false"));
            }
            Rule::Forbidden | Rule::FalseOnly => return,
            _ => {}
        }
        if let Some(expected) = mismatch(field.shape, value) {
            return wrong(format!("{kind} {place}.{path} must be {expected}"));
        }
        if is_negative(field.shape, value) && !matches!(field.rule, Rule::UpToMinutes(_)) {
            return wrong(format!(
                "{kind} {place}.{path} must not be negative: give a duration such as 30m or 720h, or leave it out"
            ));
        }
        let bounds = match field.rule {
            Rule::UpToMinutes(most) if !is_within(most, value) => Some(format!("0s to {most}m")),
            Rule::UpTo(most) if value.as_u64().is_none_or(|number| number > u64::from(most)) => {
                Some(format!("0 to {most}"))
            }
            _ => None,
        };
        if let Some(bounds) = bounds.filter(|_| !is_enforced) {
            return wrong(format!("{kind} {place}.{path} is restricted, can only be from {bounds}"));
        }
        let is_foreign = |name: &Value| name != self.namespace;
        if field.rule == Rule::OwnNamespace && value.as_array().is_some_and(|names| names.iter().any(is_foreign)) {
            return wrong(format!(
                "{kind} {place}.{path} is restricted, can not contain namespaces other than: {}",
                self.namespace
            ));
        }
        match (field.shape, value) {
            (Shape::Object(table), Value::Object(inner)) => self.object(table, inner, path, problems),
            (Shape::Objects(table), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    if let Value::Object(inner) = item {
                        self.object(table, inner, &format!("{path}[{index}]"), problems);
                    }
                }
            }
            _ => {}
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn is_within(minutes: u32, value: &Value) -> bool {
    let length = value.as_str().and_then(duration::nanoseconds);
    length.is_some_and(|length| (0.0..=f64::from(minutes) * 6e10).contains(&length))
}

/// Velero takes a backup that ends before it begins for expired, and an interval of less than nothing for none that was given.
fn is_negative(shape: Shape, value: &Value) -> bool {
    let length = value.as_str().and_then(duration::nanoseconds);
    shape == Shape::Duration && length.is_some_and(|length| length < 0.0)
}

/// What programs in Go write for a text or an object that is not there. Lists and maps they leave out: an empty one was meant.
fn is_zero(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Text | Shape::Name => value == "",
        Shape::Duration => value.as_str().and_then(duration::nanoseconds) == Some(0.0),
        Shape::Flag | Shape::Number | Shape::Texts | Shape::TextMap => false,
        Shape::Object(_) => value.as_object().is_some_and(Fields::is_empty),
        Shape::Objects(_) => value.as_array().is_some_and(Vec::is_empty),
    }
}

/// What a field should look like, where it does not.
fn mismatch(shape: Shape, value: &Value) -> Option<&'static str> {
    let all_texts = |items: &Vec<Value>| items.iter().all(Value::is_string);
    let (is_right, expected) = match shape {
        Shape::Text => (value.is_string(), "a text"),
        Shape::Name => {
            (value.as_str().is_some_and(|name| name.is_empty() || is_dns_subdomain(name)), "the name of an object")
        }
        Shape::Duration => (value.as_str().and_then(duration::nanoseconds).is_some(), "a duration such as 30m or 720h"),
        Shape::Flag => (value.is_boolean(), "true or false"),
        Shape::Number => (value.is_i64(), "a number"),
        Shape::Texts => (value.as_array().is_some_and(all_texts), "a list of texts"),
        Shape::TextMap => {
            let is_map = value.as_object().is_some_and(|map| map.values().all(Value::is_string));
            (is_map, "a map of texts")
        }
        Shape::Object(_) => (value.is_object(), "an object"),
        Shape::Objects(_) => {
            let is_list = value.as_array().is_some_and(|items| items.iter().all(Value::is_object));
            (is_list, "a list of objects")
        }
    };
    (!is_right).then_some(expected)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_that_its_copies_would_make_unreadable_is_refused_in_one_sentence() {
        let enforced = Fields::default();
        let check = Check {
            kind: "NonAdminBackup",
            place: "spec.backupSpec",
            restricted: "",
            namespace: "shop",
            enforced: &enforced,
        };
        let problems = |spec: Value| check.problems(&[], &spec.as_object().cloned().unwrap_or_default());
        let escaped = json!("<".repeat(20_000));
        for (large, said) in [
            (json!(vec![""; 2_000]), "1000 values"),
            (json!("x".repeat(40_000)), "40008 bytes"),
            (escaped, "120008 bytes"),
        ] {
            let found = problems(json!({ "a": large }));
            assert!(found.len() == 1 && found[0].message.contains(said), "{found:?}");
        }
        let unknown: Fields = (0..900).map(|number| (format!("f{number}"), json!(1))).collect();
        assert_eq!(problems(Value::Object(unknown)).len(), MOST_PROBLEMS, "nobody reads more");
    }
}
