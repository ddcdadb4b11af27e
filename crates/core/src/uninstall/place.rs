//! The operator's namespace: whether anything in it is somebody else's.

use std::fmt;

use super::{Ground, Seen};

/// Of the operator's pods, and of all that Kubernetes makes for them.
const REPLICAS: (&str, &str) = ("app.kubernetes.io/name", "croft");
const SERVICE_OF_SLICE: &str = "kubernetes.io/service-name";

/// Why the namespace stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staying<'a> {
    /// Helm's record of this release is in it, and nothing else.
    Record { release: &'a str },
    /// So many objects are not ours; one of them.
    Others { count: usize, one: &'a Seen },
}

/// Why the namespace with these objects in it stays, if it does.
pub fn staying<'a>(objects: &'a [Seen], ground: &Ground) -> Option<Staying<'a>> {
    let others = || objects.iter().filter(|object| object.namespace == ground.namespace && !goes(object, ground));
    let mut but_records = others().filter(|object| release(object).is_none());
    match but_records.next() {
        Some(one) => Some(Staying::Others { count: 1 + but_records.count(), one }),
        None => others().find_map(release).map(|release| Staying::Record { release }),
    }
}

/// Whether it is ours, or of what is ours, or in every namespace.
fn goes(object: &Seen, ground: &Ground) -> bool {
    let is_service = |name: &str| {
        let is_it = |(kind, place, known): &(super::Kind, String, String)| {
            kind.kind == "Service" && *place == ground.namespace && known == name
        };
        ground.installed.iter().any(is_it)
    };
    if object.is_going {
        return true;
    }
    match object.kind.kind.as_str() {
        "ConfigMap" if object.name == "kube-root-ca.crt" => true,
        "ServiceAccount" if object.name == "default" => true,
        "Event" => true,
        "Pod" | "ReplicaSet" => object.has(REPLICAS),
        "Endpoints" => is_service(&object.name),
        "EndpointSlice" => object.labels.iter().any(|(key, service)| key == SERVICE_OF_SLICE && is_service(service)),
        _ => super::stage(object, ground).is_some(),
    }
}

/// The release whose record an object is.
fn release(object: &Seen) -> Option<&str> {
    let is_record = object.kind.kind == "Secret" && object.has(("owner", "helm"));
    let name = object.labels.iter().find(|(key, _)| key == "name").map(|(_, release)| release.as_str());
    name.filter(|_| is_record)
}

impl fmt::Display for Staying<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { release } => {
                write!(out, "Helm's record of the release {release} is in it: `helm uninstall {release}` removes that")
            }
            Self::Others { count: 1, one } => write!(out, "{} {} in it is not Croft's", one.kind.kind, one.name),
            Self::Others { count, one } => {
                write!(out, "{count} objects in it are not Croft's, such as {} {}", one.kind.kind, one.name)
            }
        }
    }
}
