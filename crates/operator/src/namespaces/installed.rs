//! The fences that are installed, compared with the settings of the running operator.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::Api;
use tracing::warn;

use super::fences::{CHOICE, unfenced};
use crate::{
    engine::{EngineBuilder, watch::follow},
    panics::essential,
    parts::Ground,
};

/// The fences know the settings as they were when they were printed: where they differ, whoever runs the operator is told.
pub(super) fn compare(engine: &EngineBuilder, ground: &Ground) {
    let mut fence = follow(Api::<ValidatingAdmissionPolicy>::all(engine.client()), CHOICE, engine.surroundings());
    let settings = ground.settings.clone();
    tokio::spawn(essential("fences", async move {
        loop {
            let Some(installed) = fence.next().await else {
                warn!(policy = CHOICE, "is not installed: apply what `croft manifests` prints");
                continue;
            };
            let settings = settings.load();
            let unfenced = unfenced(&installed, &settings.namespaces.system_namespaces);
            if !unfenced.is_empty() {
                warn!(
                    policy = CHOICE,
                    namespaces = unfenced.join(", "),
                    "does not know these namespaces of namespaces.systemNamespaces: print it anew with --system-namespace"
                );
            }
        }
    }));
}
