//! Which Ceph a class is of. It is bound to the one in which it has users: another one knows nothing of them, and would be given
//! new ones without their data while those in the first are forgotten.

use serde::{Deserialize, Serialize};

use super::{ClassSeen, Observed};
use crate::conditions::Readiness;
use crate::storage::{CONFIRM_CLUSTER, Reason};

/// The Ceph behind a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    pub endpoint: String,
    /// Where the gateway tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// An address in the one spelling that all of its spellings have in common: without what goes without saying.
pub fn origin(endpoint: &str) -> String {
    let address = endpoint.trim_end_matches('/').to_ascii_lowercase();
    let usual = match address.split_once("://") {
        Some(("http", _)) => ":80",
        Some(("https", _)) => ":443",
        _ => "",
    };
    address.strip_suffix(usual).unwrap_or(&address).to_owned()
}

impl Cluster {
    /// By its id; where that is not told on both sides, by the address.
    fn is(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(one), Some(other)) => one == other,
            _ => self.has_address(&other.endpoint),
        }
    }

    fn has_address(&self, endpoint: &str) -> bool {
        origin(&self.endpoint) == origin(endpoint)
    }

    /// What an administrator confirms.
    fn name(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.endpoint)
    }
}

impl ClassSeen {
    /// What is known of the Ceph its endpoint leads to.
    fn cluster(&self) -> Option<Cluster> {
        let endpoint = &self.spec.as_ref().ok()?.endpoint;
        let known = self.status.cluster.as_ref().filter(|cluster| cluster.has_address(endpoint));
        Some(Cluster { endpoint: endpoint.clone(), id: known.and_then(|cluster| cluster.id.clone()) })
    }
}

/// Whether two classes are known to lead to one Ceph. Two addresses may, and one address does whatever was told of it last.
pub fn is_one_ceph(one: &ClassSeen, other: &ClassSeen) -> bool {
    let (Some(one), Some(other)) = (one.cluster(), other.cluster()) else { return false };
    one.has_address(&other.endpoint) || one.is(&other)
}

/// Whether two classes are known to lead to two Cephs: by their ids, and one address is one Ceph all the same. Two names of one host
/// look like two.
pub(super) fn are_two_cephs(one: &ClassSeen, other: &ClassSeen) -> bool {
    let (Some(one), Some(other)) = (one.cluster(), other.cluster()) else { return false };
    let are_two = one.id.as_ref().zip(other.id.as_ref()).is_some_and(|(one, other)| one != other);
    are_two && !one.has_address(&other.endpoint)
}

/// The Ceph that has answered. An id that is no longer told holds as long as the address does.
pub(super) fn reached(seen: &Observed) -> Option<Cluster> {
    let Some(Ok(gateway)) = &seen.gateway else { return None };
    let known = seen.class.cluster()?;
    Some(Cluster { id: gateway.cluster_id.clone().or(known.id), endpoint: known.endpoint })
}

/// The Ceph the class is bound to and the one that has answered, if it is another one.
pub(super) fn led_astray(seen: &Observed) -> Option<(&Cluster, Cluster)> {
    let (bound, reached) = (seen.class.status.cluster.as_ref()?, reached(seen)?);
    let is_confirmed = seen.class.confirmed_cluster.as_deref() == Some(reached.name());
    (!seen.users.is_empty() && !bound.is(&reached) && !is_confirmed).then_some((bound, reached))
}

pub(super) fn another(class: &str, bound: &Cluster, reached: &Cluster) -> Readiness {
    let told = match (&bound.id, &reached.id) {
        (Some(before), Some(now)) => format!(
            "spec.endpoint leads to Ceph {now}, and the users of the class are in Ceph {before} (at {})",
            bound.endpoint
        ),
        _ => format!(
            "spec.endpoint was {}, where the users of the class are, and the gateway does not tell whether it is the same Ceph (its \
             administrator needs the capability info=read for that, from Ceph 17 on)",
            bound.endpoint
        ),
    };
    Reason::AnotherCluster.stalled(format!(
        "{told}; nothing is made or removed there: change it back, or, if the users and their buckets are there, confirm it with \
         `kubectl annotate s3class {class} --overwrite {CONFIRM_CLUSTER}={}`",
        reached.name()
    ))
}
