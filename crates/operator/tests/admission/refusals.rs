//! What is refused, and how it reads.

use anyhow::Result;
use croft_api::{namespaces::NamespaceClass, storage::S3UserClaim};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{bad_claim, claim, first_refusal, kubernetes, refusal, support};

#[tokio::test]
async fn a_claim_that_could_not_be_carried_out_is_refused_with_field_and_reason() {
    let world = support::shared(kubernetes()).await;
    let refused = first_refusal(&world.client()).await;
    assert_eq!(refused.reason, "Invalid");
    let start = "admission webhook \"vs3userclaim.kb.io\" denied the request: S3UserClaim.s3.snappcloud.io \"app\" is \
                 invalid: spec.readSecretName: Forbidden: must be the name of a Secret";
    assert!(refused.message.starts_with(start), "{}", refused.message);
    let details = refused.details.unwrap();
    assert_eq!((details.name.as_str(), details.kind.as_str()), ("app", "S3UserClaim"));
    let fields: Vec<_> = details.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.readSecretName"]);
}

#[tokio::test]
async fn kubectl_shows_a_refusal_as_it_shows_any_validation_error() {
    let world = support::shared(kubernetes()).await;
    first_refusal(&world.client()).await;
    let manifest = serde_json::to_string(&bad_claim()).unwrap();
    let told = world.bed.admin().kubectl_stdin(&["create", "-f", "-"], &manifest).await.unwrap_err();
    let told = format!("{told:#}");
    assert!(told.contains("The S3UserClaim \"app\" is invalid: spec.readSecretName: Forbidden: "), "{told}");
}

#[tokio::test]
async fn a_good_claim_is_let_in_and_cannot_be_made_bad() -> Result<()> {
    let world = support::shared(kubernetes()).await;
    first_refusal(&world.client()).await;
    let namespace = world.bed.namespace("admission").await?;
    let claims: Api<S3UserClaim> = Api::namespaced(world.client(), &namespace);
    claims.create(&PostParams::default(), &claim("read")).await?;
    let worse = Patch::Merge(json!({ "spec": { "readSecretName": "Not_A_Name" } }));
    let refused = claims.patch("app", &PatchParams::default(), &worse).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 422), "{refused}");
    let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    claims.patch("app", &PatchParams::default(), &label).await?;
    refusal(&world.client()).await?;
    Ok(())
}

#[tokio::test]
async fn a_class_whose_secret_holds_no_map_is_refused_with_field_and_fix() -> Result<()> {
    let world = support::shared(kubernetes()).await;
    first_refusal(&world.client()).await;
    let class: NamespaceClass = serde_json::from_value(json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": "no-map" },
        "spec": { "resources": [{
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": "x", "stringData": { "a": "b" },
        }] },
    }))?;
    let classes: Api<NamespaceClass> = Api::all(world.client());
    let refused = classes.create(&PostParams::default(), &class).await.unwrap_err();
    let told = "admission webhook \"vnamespaceclass.croft.dev\" denied the request: NamespaceClass.akuity.io \"no-map\" is \
                invalid: spec.resources[0].data: Forbidden: must be a map of texts, not a text; give every text a key";
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 422 && status.message == told), "{refused}");
    Ok(())
}
