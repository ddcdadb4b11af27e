//! The API server goes on trusting us, whatever happens to certificates and configuration.

use anyhow::Result;
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    CA_SECRET, CONFIGURATION,
    certificates::{first_certificate, is_served_by},
    first_refusal, kubernetes, refusal, secret,
    support::{World, eventually},
    text, trusted,
};

#[tokio::test]
async fn a_ca_bundle_reset_by_hand_is_healed() -> Result<()> {
    let world = World::own(kubernetes()).await?;
    let client = world.client();
    first_refusal(&client).await;
    let right = trusted(&client).await?;
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let reset: Patch<Value> = Patch::Json(serde_json::from_value(json!([
        { "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" },
        { "op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": "" },
    ]))?);
    configurations.patch(CONFIGURATION, &PatchParams::default(), &reset).await?;
    eventually("caBundle to be healed", || async { Ok((trusted(&client).await? == right).then_some(())) }).await;
    first_refusal(&client).await;
    Ok(())
}

#[tokio::test]
async fn the_authority_survives_a_restart_of_the_operator() -> Result<()> {
    let World { bed, installed, operator } = World::own(kubernetes()).await?;
    let client = bed.admin().client.clone();
    first_refusal(&client).await;
    let before = secret(&client, CA_SECRET).await?.unwrap();
    assert_eq!(trusted(&client).await?.as_deref(), Some(text(&before, "ca.crt").as_str()));
    drop(operator);
    assert!(refusal(&client).await.is_err(), "nobody is there to answer");
    let operator = installed.start(&bed, "next", &installed.identity.kubeconfig, &[])?;
    operator.ready(crate::support::PATIENCE).await?;
    first_refusal(&client).await;
    let after = secret(&client, CA_SECRET).await?.unwrap();
    assert_eq!((after.uid(), after.data), (before.uid(), before.data));
    Ok(())
}

#[tokio::test]
async fn a_second_replica_uses_the_authority_of_the_first_and_answers_without_leading() -> Result<()> {
    let World { bed, installed, operator } = World::own(kubernetes()).await?;
    let client = bed.admin().client.clone();
    first_refusal(&client).await;
    let before = trusted(&client).await?;
    // The newest replica is asked first.
    let standby = installed.start(&bed, "standby", &installed.identity.kubeconfig, &[])?;
    standby.ready(crate::support::PATIENCE).await?;
    first_refusal(&client).await;
    assert_eq!(trusted(&client).await?, before);
    drop(operator);
    first_refusal(&client).await;
    Ok(())
}

#[tokio::test]
async fn a_new_authority_takes_over_without_a_request_unanswered() -> Result<()> {
    let world = World::own(kubernetes()).await?;
    let client = world.client();
    first_refusal(&client).await;
    let old = secret(&client, CA_SECRET).await?.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "croft-system");
    secrets.delete(CA_SECRET, &DeleteParams::default()).await?;
    let new = eventually("a new authority", || async {
        Ok(secret(&client, CA_SECRET).await?.filter(|secret| secret.uid() != old.uid()))
    })
    .await;
    let bundle = text(&new, "ca.crt");
    assert!(bundle.ends_with(first_certificate(&text(&old, "ca.crt"))), "the old authority stays trusted");
    let taken_over = eventually("the new authority to sign what is served", || async {
        if let Err(unanswered) = refusal(&client).await {
            return Ok(Some(Err(unanswered)));
        }
        Ok(is_served_by(world.installed.webhook_port, first_certificate(&bundle)).await.then_some(Ok(())))
    })
    .await;
    taken_over?;
    assert_eq!(trusted(&client).await?, Some(bundle));
    first_refusal(&client).await;
    Ok(())
}
