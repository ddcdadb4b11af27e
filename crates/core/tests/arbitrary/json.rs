//! Arbitrary JSON, and good JSON of which a few places were put out of shape: the second gets much further in.

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Map, Value};

/// Keys that mean something somewhere.
const KEYS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "spec",
    "status",
    "data",
    "stringData",
    "binaryData",
    "items",
    "phase",
    "conditions",
    "type",
    "reason",
    "message",
    "backupName",
    "includedNamespaces",
    "excludedResources",
    "includeClusterResources",
    "includedClusterScopedResources",
    "objectStorage",
    "prefix",
    "credential",
    "key",
    "config",
    "s3Url",
    "provider",
    "default",
];

/// Texts that somebody reads something into.
const TEXTS: &[&str] = &[
    "",
    " ",
    "v1",
    "apps/v1",
    "/",
    "Secret",
    "ConfigMap",
    "Namespace",
    "List",
    "team-a",
    "..",
    "a/../b",
    "*",
    "true",
    "007",
    "{{",
    "}}",
    "{{ params.x }}",
    "{{ namespace.name }}",
    "{{ namespace.labels['é'] }}",
    "{{ \"{{\" }}",
    "{{{{",
    "(",
    "(a{30}){30}",
    "[^\\x00-\\u{10ffff}]",
    "\\",
    "é",
    "\u{1f41e}",
    "\u{0}",
    "\u{202e}",
    "\n",
    "http://[::1]:80",
    "https://x:443",
    "170141183460469231731687303715.8841057279",
    "170141183460469231731687303715884105728",
    "-0",
    "1e-999999999",
    "1e999999999",
    "9Ei",
    "0.1Ki",
    "5Gi",
    "2026-01-01T00:00:00Z",
    "9999-99-99T99:99:99Z",
];

pub(crate) fn text() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        6 => select(TEXTS).prop_map(str::to_owned),
        3 => "\\PC{0,24}",
        2 => vec(any::<char>(), 0..8).prop_map(String::from_iter),
        3 => "(\\{\\{|\\}\\}| |\"|'|params\\.x|params\\.|namespace\\.name|namespace\\.labels\\[|\\]|é|-|a){0,10}",
        3 => "[-+]?[0-9]{0,45}(\\.[0-9]{0,45})?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{0,12})?",
        1 => (any::<char>(), 1..20_000_usize).prop_map(|(one, times)| String::from(one).repeat(times)),
    ]
    .boxed()
}

fn key() -> impl Strategy<Value = String> + Clone {
    prop_oneof![4 => select(KEYS).prop_map(str::to_owned), 1 => text()].boxed()
}

fn leaf() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ]
    .boxed()
}

pub(crate) fn json() -> impl Strategy<Value = Value> + Clone {
    let inside = |inner: BoxedStrategy<Value>| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            btree_map(key(), inner, 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    };
    leaf().prop_recursive(5, 32, 6, inside).boxed()
}

pub(crate) fn map() -> impl Strategy<Value = Map<String, Value>> + Clone {
    btree_map(key(), json(), 0..6).prop_map(|fields| fields.into_iter().collect()).boxed()
}

/// Arbitrary, or one of the good ones with up to three places changed.
pub(crate) fn any_or_bent(good: Vec<Value>) -> impl Strategy<Value = Value> + Clone {
    prop_oneof![1 => json(), 9 => bent(good)].boxed()
}

pub(crate) fn bent(good: Vec<Value>) -> impl Strategy<Value = Value> + Clone {
    (select(good), vec((any::<Index>(), change()), 0..4))
        .prop_map(|(mut value, changes)| {
            for (at, change) in changes {
                let places = places(&value);
                change.make(&mut value, &places[at.index(places.len())]);
            }
            value
        })
        .boxed()
}

#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    Add(String, Value),
    Nest(usize),
}

fn change() -> impl Strategy<Value = Change> + Clone {
    prop_oneof![
        6 => json().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        2 => (key(), json()).prop_map(|(key, value)| Change::Add(key, value)),
        1 => (1..300_usize).prop_map(Change::Nest),
    ]
    .boxed()
}

impl Change {
    fn make(self, value: &mut Value, place: &str) {
        match self {
            Change::Replace(with) => set(value, place, with),
            Change::Nest(levels) => {
                let inner = value.pointer(place).cloned().unwrap_or_default();
                set(value, place, nested(levels, inner));
            }
            Change::Add(key, new) => match value.pointer_mut(place) {
                Some(Value::Object(fields)) => drop(fields.insert(key, new)),
                Some(Value::Array(items)) => items.push(new),
                _ => {}
            },
            Change::Remove => {
                let Some((outer, last)) = place.rsplit_once('/') else { return };
                match value.pointer_mut(outer) {
                    Some(Value::Object(fields)) => drop(fields.remove(&last.replace("~1", "/").replace("~0", "~"))),
                    Some(Value::Array(items)) => drop(items.remove(last.parse().unwrap())),
                    _ => {}
                }
            }
        }
    }
}

fn set(value: &mut Value, place: &str, with: Value) {
    if let Some(there) = value.pointer_mut(place) {
        *there = with;
    }
}

/// The value inside so many lists and maps, in turn.
pub(crate) fn nested(levels: usize, inner: Value) -> Value {
    (0..levels).fold(inner, |inner, level| match level % 2 {
        0 => Value::Array(vec![inner]),
        _ => Value::Object(Map::from_iter([("deeper".to_owned(), inner)])),
    })
}

/// JSON pointers to everything in the value, itself included.
fn places(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut inside =
        |name: String, value: &Value| found.extend(places(value).into_iter().map(|place| format!("/{name}{place}")));
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| inside(key.replace('~', "~0").replace('/', "~1"), value));
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| inside(index.to_string(), value)),
        _ => {}
    }
    found
}
