//! Our `ValidatingWebhookConfiguration`.

use k8s_openapi::{
    api::admissionregistration::v1::{
        RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::hooks::Hook;
use crate::{engine::Part, parts};

/// Name of the `ValidatingWebhookConfiguration`.
pub const CONFIGURATION: &str = "croft";

/// How long the API server waits for an answer.
pub(super) const TIMEOUT_SECONDS: i32 = 5;

/// How the API server reaches us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookTarget {
    Service {
        namespace: String,
        name: String,
        port: u16,
    },
    /// `https://host:port`, for an operator outside the cluster.
    Url(String),
}

impl WebhookTarget {
    fn client_config(&self, path: &str) -> WebhookClientConfig {
        match self {
            WebhookTarget::Service { namespace, name, port } => WebhookClientConfig {
                service: Some(ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path.to_owned()),
                    port: Some(i32::from(*port)),
                }),
                ..WebhookClientConfig::default()
            },
            WebhookTarget::Url(base) => WebhookClientConfig {
                url: Some(format!("{}{path}", base.trim_end_matches('/'))),
                ..WebhookClientConfig::default()
            },
        }
    }
}

/// The configuration to install for these parts, without `caBundle`: the running operator sets that. Kinds of other parts may be
/// another operator's, and nothing of it is ours to judge or to hold up.
pub fn webhook_configuration(target: &WebhookTarget, parts: &[Part]) -> ValidatingWebhookConfiguration {
    let hooks = parts::of(parts).flat_map(|definition| definition.hooks);
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta { name: Some(CONFIGURATION.into()), ..ObjectMeta::default() },
        webhooks: Some(hooks.map(|hook| webhook(hook, target)).collect()),
    }
}

fn webhook(hook: &Hook, target: &WebhookTarget) -> ValidatingWebhook {
    let strings = |items: &[&str]| Some(items.iter().map(ToString::to_string).collect());
    ValidatingWebhook {
        name: hook.name.into(),
        admission_review_versions: vec!["v1".into()],
        client_config: target.client_config(hook.path),
        rules: Some(vec![RuleWithOperations {
            api_groups: strings(&[hook.group]),
            api_versions: strings(&[hook.version]),
            resources: strings(&[hook.resource]),
            operations: Some(hook.operations.iter().map(|operation| operation.name().to_owned()).collect()),
            scope: Some(hook.scope.into()),
        }]),
        failure_policy: Some(hook.when_down.failure_policy().into()),
        match_policy: Some("Equivalent".into()),
        side_effects: if hook.writes { "NoneOnDryRun" } else { "None" }.into(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Operation, WhenDown, hooks::HOOKS};

    fn all() -> Vec<Part> {
        parts::PARTS.iter().map(|definition| definition.part).collect()
    }

    #[test]
    fn every_kind_is_called_at_its_own_path_and_only_for_itself() {
        let target = WebhookTarget::Service { namespace: "croft-system".into(), name: "croft".into(), port: 443 };
        let configuration = webhook_configuration(&target, &all());
        let webhooks = configuration.webhooks.unwrap();
        let names: Vec<_> = webhooks.iter().map(|webhook| webhook.name.as_str()).collect();
        let of_classes = ["vnamespaceclass.croft.dev"];
        let of_storage = [
            "vs3userclaim.kb.io",
            "vs3bucket.kb.io",
            "vs3class.croft.dev",
            "gs3userclaim.croft.dev",
            "gs3class.croft.dev",
        ];
        let of_backups = [
            "vnonadminbackup.croft.dev",
            "vnonadminrestore.croft.dev",
            "vnonadminbackupstoragelocation.croft.dev",
            "vnonadmindownloadrequest.croft.dev",
            "vbackupvault.croft.dev",
            "vbackupschedule.croft.dev",
        ];
        assert_eq!(names, [of_classes.as_slice(), of_storage.as_slice(), of_backups.as_slice()].concat());
        for (webhook, hook) in webhooks.iter().zip(HOOKS.iter()) {
            let service = webhook.client_config.service.as_ref().unwrap();
            assert_eq!(service.path.as_deref(), Some(hook.path));
            let rules = webhook.rules.as_ref().unwrap();
            assert_eq!(rules[0].resources.as_deref(), Some([hook.resource.to_owned()].as_slice()));
        }
    }

    #[test]
    fn no_deletion_waits_for_us() {
        for hook in HOOKS.iter().filter(|hook| hook.operations.contains(&Operation::Delete)) {
            assert_eq!(
                (hook.when_down, hook.operations),
                (WhenDown::LetPass, [Operation::Delete].as_slice()),
                "{}",
                hook.name
            );
        }
    }

    #[test]
    fn a_url_is_joined_with_the_path() {
        let configuration = webhook_configuration(&WebhookTarget::Url("https://127.0.0.1:9443/".into()), &all());
        let url = configuration.webhooks.unwrap()[2].client_config.url.clone();
        assert_eq!(url.as_deref(), Some("https://127.0.0.1:9443/validate-s3-snappcloud-io-v1alpha1-s3bucket"));
    }
}
