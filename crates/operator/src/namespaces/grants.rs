//! Rights that administrators grant to classes: whoever waits for one looks again, instead of when its time comes.

use std::time::Duration;

use croft_api::namespaces::NamespaceClassBinding;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, Client};

use super::{Caches, stamped::Stamps};
use crate::{
    engine::{
        Pusher,
        watch::{Surroundings, follow},
    },
    panics::essential,
    roles::CLASS_CONTENTS,
};

/// The API server acts on a grant some moments after it tells of it.
const UNTIL_IT_COUNTS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(10)];

/// Follows the sum of all that is granted.
pub(super) fn follow_grants(
    client: Client,
    surroundings: Surroundings,
    stamps: Stamps,
    caches: Caches,
    pusher: Pusher,
) {
    tokio::spawn(essential("grants", async move {
        let mut role = follow(Api::<ClusterRole>::all(client), CLASS_CONTENTS, surroundings);
        role.changed().await;
        loop {
            role.changed().await;
            for moment in UNTIL_IT_COUNTS {
                tokio::time::sleep(moment).await;
                stamps.try_refused_again();
                caches.wake(&pusher, |_| false, is_refused);
            }
        }
    }));
}

fn is_refused(binding: &NamespaceClassBinding) -> bool {
    let mut conditions = binding.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Ready" && condition.reason == "Forbidden")
}
