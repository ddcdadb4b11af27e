//! Keeps `caBundle` of our webhook configuration at what the API server must trust.

use std::{sync::Arc, time::Duration};

use croft_core::{budget::Budget, plan::FailureClass, time::Instant};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::configuration::CONFIGURATION;
use crate::engine::{
    Clock,
    watch::{Surroundings, follow},
    write::{FIELD_MANAGER, call},
};

/// Replicas that are configured differently, as during an upgrade, must not correct each other at full speed: so often at once,
const AT_ONCE: u32 = 5;
/// and then once in this time.
const THEN_EVERY: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(5);

/// Annotations that hand `caBundle` to cert-manager.
const INJECTED_BY_CERT_MANAGER: [&str; 2] = ["cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"];

/// What the API server must trust, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Our own authority.
    Ours(Arc<str>),
    /// The authority of a certificate somebody else made.
    Supplied(Arc<str>),
}

impl Trust {
    fn bundle(&self) -> &str {
        match self {
            Trust::Ours(bundle) | Trust::Supplied(bundle) => bundle,
        }
    }
}

/// Never returns. Waits quietly while the configuration does not exist or nothing is known to trust.
pub(super) async fn keep(client: Client, surroundings: Surroundings, mut trusted: watch::Receiver<Option<Trust>>) {
    let mut configurations = follow(Api::all(client.clone()), CONFIGURATION, surroundings);
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let (clock, mut pace) = (Clock::start(), Budget::new(AT_ONCE, THEN_EVERY));
    let mut seen = None;
    let mut again = None;
    loop {
        tokio::select! {
            configuration = configurations.next() => {
                warn_of_foreign_injection(configuration.as_deref(), trusted.borrow().as_ref());
                seen = configuration;
            }
            Ok(()) = trusted.changed() => {}
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
        let trust = trusted.borrow().clone();
        let wrong = seen.as_deref().zip(trust).and_then(|(seen, trust)| correction(seen, trust.bundle()));
        again = match turn(wrong, &mut pace, clock.now()) {
            Turn::Nothing => None,
            Turn::Later(wait) => Some(wait),
            Turn::Now(patch) => (!inject(&api, patch).await).then_some(RETRY),
        };
    }
}

/// What to do about what is wrong.
#[derive(Debug, PartialEq)]
enum Turn {
    Nothing,
    Later(Duration),
    Now(Value),
}

fn turn(wrong: Option<Value>, pace: &mut Budget, now: Instant) -> Turn {
    let Some(patch) = wrong else { return Turn::Nothing };
    if pace.spend(now) { Turn::Now(patch) } else { Turn::Later(pace.wait(now)) }
}

/// Whether it was done, or will be looked at again because the configuration has changed meanwhile.
async fn inject(api: &Api<ValidatingWebhookConfiguration>, patch: Value) -> bool {
    let patch: Patch<Value> = match serde_json::from_value(patch) {
        Ok(patch) => Patch::Json(patch),
        Err(error) => {
            warn!(%error, "cannot form the patch of caBundle");
            return false;
        }
    };
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    match call("patch", api.patch_metadata(CONFIGURATION, &params, &patch)).await {
        Ok(_) => info!(configuration = CONFIGURATION, "told the API server what to trust"),
        Err(failure) if failure.class == FailureClass::Stale => {}
        Err(failure) => {
            warn!(%failure, configuration = CONFIGURATION, "cannot set caBundle; the API server does not trust our certificate");
            return false;
        }
    }
    true
}

/// The JSON patch that puts `bundle` wherever it is not, for exactly the configuration seen; `None` if all is well or not
/// ours to set.
fn correction(seen: &ValidatingWebhookConfiguration, bundle: &str) -> Option<Value> {
    if is_injected_by_others(seen) {
        return None;
    }
    let webhooks = seen.webhooks.iter().flatten().enumerate();
    let wrong = webhooks.filter(|(_, webhook)| {
        webhook.client_config.ca_bundle.as_ref().is_none_or(|current| current.0 != bundle.as_bytes())
    });
    let value = k8s_openapi::ByteString(bundle.as_bytes().to_vec());
    let changes: Vec<_> = wrong
        .map(|(at, _)| json!({ "op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": value }))
        .collect();
    if changes.is_empty() {
        return None;
    }
    // The positions are those of this version.
    let mut patch = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": seen.uid() }),
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": seen.resource_version() }),
    ];
    patch.extend(changes);
    Some(Value::Array(patch))
}

fn is_injected_by_others(configuration: &ValidatingWebhookConfiguration) -> bool {
    INJECTED_BY_CERT_MANAGER.iter().any(|annotation| configuration.annotations().contains_key(*annotation))
}

fn warn_of_foreign_injection(seen: Option<&ValidatingWebhookConfiguration>, trust: Option<&Trust>) {
    if seen.is_some_and(is_injected_by_others) && matches!(trust, Some(Trust::Ours(_))) {
        warn!(
            configuration = CONFIGURATION,
            "cert-manager sets caBundle but the certificate served is our own: set admission.certificateSecret, or remove \
             the annotation {}",
            INJECTED_BY_CERT_MANAGER[0]
        );
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::admission::{WebhookTarget, webhook_configuration};

    fn configuration(bundles: [Option<&str>; 3]) -> ValidatingWebhookConfiguration {
        let mut configuration = webhook_configuration(
            &WebhookTarget::Url("https://127.0.0.1:9443".into()),
            &[crate::namespaces::PART.part, crate::storage::PART.part],
        );
        configuration.metadata.uid = Some("uid".into());
        configuration.metadata.resource_version = Some("7".into());
        let webhooks = configuration.webhooks.get_or_insert_default();
        webhooks.truncate(bundles.len());
        for (webhook, bundle) in webhooks.iter_mut().zip(bundles) {
            webhook.client_config.ca_bundle = bundle.map(|bundle| ByteString(bundle.into()));
        }
        configuration
    }

    #[test]
    fn who_keeps_setting_another_bundle_is_corrected_a_few_times_and_then_now_and_then() {
        let mut pace = Budget::new(AT_ONCE, THEN_EVERY);
        let mut turns = |seconds: std::ops::Range<u64>| {
            let turns = seconds.map(|second| turn(Some(Value::Null), &mut pace, Instant(second * 1000)));
            turns.filter(|turn| matches!(turn, Turn::Now(_))).count()
        };
        assert_eq!(turns(1000..1010), 5);
        assert_eq!(turns(1010..1130), 4, "every 30 seconds");
        assert_eq!(turn(Some(Value::Null), &mut pace, Instant(1_130_000)), Turn::Later(Duration::from_secs(20)));
        assert_eq!(turn(None, &mut pace, Instant(1_130_000)), Turn::Nothing);
    }

    #[test]
    fn a_right_configuration_is_left_alone() {
        assert_eq!(correction(&configuration([Some("CA"); 3]), "CA"), None);
    }

    #[test]
    fn only_what_is_wrong_is_set_and_only_in_the_version_seen() {
        let patch = correction(&configuration([Some("CA"), Some("\n"), None]), "CA").unwrap();
        assert_eq!(
            patch,
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "uid" },
                { "op": "test", "path": "/metadata/resourceVersion", "value": "7" },
                { "op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "Q0E=" },
                { "op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "Q0E=" },
            ])
        );
    }

    #[test]
    fn a_configuration_that_cert_manager_injects_is_left_alone() {
        let mut annotated = configuration([None; 3]);
        annotated.annotations_mut().insert("cert-manager.io/inject-ca-from".into(), "croft-system/croft".into());
        assert_eq!(correction(&annotated, "CA"), None);
    }
}
