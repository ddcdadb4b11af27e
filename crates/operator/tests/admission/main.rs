//! The promises of the admission server on a real API server.

#[path = "../support/mod.rs"]
mod support;

mod certificates;
mod refusals;
mod stored;
mod trust;

use anyhow::{Result, bail};
use croft_api::storage::{S3UserClaim, S3UserClaimSpec};
use croft_testbed::Testbed;
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    core::Status,
};
use support::eventually;

const CONFIGURATION: &str = "croft";
const CA_SECRET: &str = "croft-webhook-ca";

/// A claim for `read_secret`; the webhook alone knows that this must be the name of a Secret.
fn claim(read_secret: &str) -> S3UserClaim {
    S3UserClaim {
        metadata: ObjectMeta { name: Some("app".into()), ..ObjectMeta::default() },
        spec: S3UserClaimSpec {
            read_secret_name: Some(read_secret.into()),
            admin_secret_name: Some("admin".into()),
            ..S3UserClaimSpec::default()
        },
        status: None,
    }
}

fn bad_claim() -> S3UserClaim {
    claim("Not_A_Name")
}

/// Offers the bad claim, without storing anything. The answer of the webhook, or why it could not be asked.
async fn refusal(client: &Client) -> Result<Box<Status>> {
    let claims: Api<S3UserClaim> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    match claims.create(&dry_run, &bad_claim()).await {
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(status),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("a bad claim was let in"),
    }
}

/// The first refusal, once the webhook is trusted.
async fn first_refusal(client: &Client) -> Box<Status> {
    eventually("the webhook to refuse a bad claim", || async { refusal(client).await.map(Some) }).await
}

/// What the API server is told to trust; `None` while the webhooks differ or have none.
async fn trusted(client: &Client) -> Result<Option<String>> {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let webhooks = configurations.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
    let mut bundles: Vec<_> = webhooks.into_iter().map(|webhook| webhook.client_config.ca_bundle).collect();
    bundles.dedup();
    Ok(match bundles.as_slice() {
        [Some(bundle)] => Some(String::from_utf8(bundle.0.clone())?),
        _ => None,
    })
}

async fn secret(client: &Client, name: &str) -> Result<Option<Secret>> {
    Ok(Api::namespaced(client.clone(), "croft-system").get_opt(name).await?)
}

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

/// These promises need Kubernetes alone.
fn kubernetes() -> croft_testbed::Want {
    Testbed::kubernetes()
}
