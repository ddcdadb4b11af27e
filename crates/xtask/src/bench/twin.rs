//! The operator's names in another group: what the generator writes costs the API server the same, to the byte and to the fences
//! it has to pass, and the operator does not see it.

use std::time::Duration;

use anyhow::{Context, Result};
use croft_api::namespaces::NamespaceClassBinding;
use croft_testbed::wait;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
        },
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectMeta, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde::{Serialize, de::DeserializeOwned};

/// Groups of the operator.
const ORIGINALS: [&str; 2] = [ORIGINAL, "s3.snappcloud.io"];
/// Each as long as the original.
const TWINS: [&str; 2] = [TWIN, "s3.benchcloud.io"];
const ORIGINAL: &str = "akuity.io";
const TWIN: &str = "bench.dev";
const RBAC: &str = "rbac.authorization.k8s.io";
const SERVED_LIMIT: Duration = Duration::from_secs(20);

/// The same text with the twin's names.
pub(super) fn renamed(text: &str) -> String {
    ORIGINALS.iter().zip(TWINS).fold(text.to_owned(), |text, (original, twin)| text.replace(original, twin))
}

/// The kind as the generator has it.
pub(super) fn twin_kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    let original = ApiResource::erase::<K>(&());
    ApiResource { group: renamed(&original.group), api_version: renamed(&original.api_version), ..original }
}

/// Makes a twin of a kind.
pub(super) async fn make_kind<K: Resource<DynamicType = ()>>(admin: &Client) -> Result<()> {
    let kinds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let (plural, group) = (K::plural(&()), K::group(&()));
    let original = kinds.get(&format!("{plural}.{group}")).await.context("the operator is not installed")?;
    let metadata = named(&renamed(&format!("{plural}.{group}")));
    let twin = CustomResourceDefinition { metadata, spec: twin_of(&original.spec)?, status: None };
    kinds.create(&PostParams::default(), &twin).await?;
    let twins: Api<DynamicObject> = Api::all_with(admin.clone(), &twin_kind::<K>());
    wait::until(&format!("the twin of {plural} to be served"), SERVED_LIMIT, || async {
        Ok(Some(twins.list_metadata(&ListParams::default()).await?))
    })
    .await?;
    Ok(())
}

/// Bindings as the operator has them.
pub(super) fn original_binding() -> ApiResource {
    ApiResource::erase::<NamespaceClassBinding>(&())
}

/// Bindings as the generator has them.
pub(super) fn twin_binding() -> ApiResource {
    twin_kind::<NamespaceClassBinding>()
}

/// Makes a twin of the binding's kind and of the fences, and lets `user` write it, and objects by a verb that the operator does
/// without.
pub(super) async fn install(admin: &Client, user: &str) -> Result<()> {
    make_kind::<NamespaceClassBinding>(admin).await?;
    allow(admin, user).await?;
    fence(admin).await
}

/// The same with the twin's names.
fn twin_of<T: Serialize + DeserializeOwned>(original: &T) -> Result<T> {
    Ok(serde_json::from_str(&renamed(&serde_json::to_string(original)?))?)
}

/// The operator's fences around the twin, too.
async fn fence(admin: &Client) -> Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(admin.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(admin.clone());
    for original in bindings.list(&ListParams::default()).await? {
        let policy = original.spec.as_ref().and_then(|spec| spec.policy_name.clone()).unwrap_or_default();
        let (metadata, spec) = (named(&format!("bench-{policy}")), policies.get(&policy).await?.spec);
        let twin = ValidatingAdmissionPolicy { metadata: metadata.clone(), spec: twin_of(&spec)?, status: None };
        if twin.spec == spec {
            continue; // Not about us.
        }
        policies.create(&PostParams::default(), &twin).await?;
        let spec = original
            .spec
            .map(|spec| ValidatingAdmissionPolicyBindingSpec { policy_name: metadata.name.clone(), ..spec });
        bindings.create(&PostParams::default(), &ValidatingAdmissionPolicyBinding { metadata, spec }).await?;
    }
    Ok(())
}

async fn allow(admin: &Client, user: &str) -> Result<()> {
    let rules = vec![rule(TWIN, "*", "*"), rule("", "configmaps", "update")];
    let role = ClusterRole { metadata: named("bench"), rules: Some(rules), aggregation_rule: None };
    let given = ClusterRoleBinding {
        metadata: named("bench"),
        role_ref: RoleRef { api_group: RBAC.into(), kind: "ClusterRole".into(), name: "bench".into() },
        subjects: Some(vec![Subject {
            api_group: Some(RBAC.into()),
            kind: "User".into(),
            name: user.into(),
            namespace: None,
        }]),
    };
    Api::all(admin.clone()).create(&PostParams::default(), &role).await?;
    Api::all(admin.clone()).create(&PostParams::default(), &given).await?;
    Ok(())
}

fn rule(group: &str, resource: &str, verb: &str) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(vec![resource.into()]),
        verbs: vec![verb.into()],
        ..PolicyRule::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_text_is_as_long_and_names_nothing_of_the_operator() {
        let text = r#"{"apiVersion":"akuity.io/v1alpha1","labels":{"s3.snappcloud.io/class":"a"}}"#;
        let twin = renamed(text);
        assert_eq!(twin.len(), text.len());
        assert!(!ORIGINALS.iter().any(|original| twin.contains(original)), "{twin}");
    }
}
