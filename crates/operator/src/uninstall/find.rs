//! Where Croft is in this cluster, which parts of it run, and which kinds are its own.

use anyhow::{anyhow, bail};
use croft_core::uninstall::{Choice, Ground, Seen, Unclear, misplaced};
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apps::v1::Deployment,
        core::v1::Secret,
        rbac::v1::{ClusterRoleBinding, RoleBinding, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};

use super::{UninstallOptions, ground::ground, observe};
use crate::{
    admission::CONFIGURATION,
    engine::write::{call, read},
    manifests::{ACCOUNT, VELERO_ROLE},
    namespaces::KEY_SECRET,
    parts,
    preview::because,
};

#[derive(Debug)]
pub(super) struct Found {
    pub(super) ground: Ground,
    /// The parts that run, where anything tells.
    pub(super) parts: Option<Vec<String>>,
    /// Namespaces with what may be an operator's own, where nothing tells any more which was its.
    pub(super) elsewhere: Vec<String>,
}

impl Found {
    pub(super) fn doubt(&self) -> Option<String> {
        (!self.elsewhere.is_empty()).then(|| {
            format!(
                "nothing tells any more where the operator was, and there are Secrets {KEY_SECRET} in namespaces {}: if it was in one \
                 of them, run this with --namespace as well",
                self.elsewhere.join(", ")
            )
        })
    }
}

pub(super) async fn find(client: &Client, options: &UninstallOptions, choice: Choice) -> anyhow::Result<Found> {
    let own = &options.namespace;
    let places = operators_places(client).await?;
    if let Some(place) = misplaced(own, &places) {
        bail!("the operator is in namespace {place}, not in {own}: give --namespace {place}; nothing is changed");
    }
    let elsewhere = if places.is_empty() { keys_elsewhere(client, own).await? } else { Vec::new() };
    let mut veleros = veleros_places(client, own).await?;
    veleros.push(options.velero_namespace.clone());
    let parts = match options.enable.as_slice() {
        [] => running_parts(client, own).await?,
        said => Some(said.iter().map(ToString::to_string).collect()),
    };
    let mut ground = ground(choice, own, &veleros)?;
    ground.keep_what_is_ours(&crds(client).await?, parts.as_deref()).map_err(|Unclear(crds)| {
        anyhow!(
            "whose kinds are {}? They do not say that they are Croft's, and no Deployment of it is in {own}: give the parts that \
             ran here, such as --enable {}; nothing is changed",
            crds.join(", "),
            parts::names().collect::<Vec<_>>().join(",")
        )
    })?;
    Ok(Found { ground, parts, elsewhere })
}

/// The namespaces of those who have the operator's rights, or where the API server looks for it.
async fn operators_places(client: &Client) -> anyhow::Result<Vec<String>> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = read(bindings.get_opt(ACCOUNT)).await.map_err(because("reading the operator's rights"))?;
    let places = accounts(binding.and_then(|binding| binding.subjects).unwrap_or_default());
    if !places.is_empty() {
        return Ok(places);
    }
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let webhooks = read(webhooks.get_opt(CONFIGURATION)).await.map_err(because("reading the webhooks"))?;
    let services = webhooks.and_then(|webhooks| webhooks.webhooks).into_iter().flatten();
    Ok(services.filter_map(|webhook| Some(webhook.client_config.service?.namespace)).collect())
}

/// Namespaces with a Secret of the operator's name. Anybody may make one, so nothing is done there unasked.
async fn keys_elsewhere(client: &Client, own: &str) -> anyhow::Result<Vec<String>> {
    let all: Api<Secret> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={KEY_SECRET}"));
    let keys = call("list", all.list_metadata(&named)).await.map_err(because("looking for the operator's Secrets"))?;
    let places = keys.items.into_iter().filter_map(|key| key.metadata.namespace);
    Ok(places.filter(|place| place != own).collect())
}

fn accounts(subjects: Vec<Subject>) -> Vec<String> {
    let is_ours = |subject: &Subject| subject.kind == "ServiceAccount" && subject.name == ACCOUNT;
    subjects.into_iter().filter(is_ours).filter_map(|subject| subject.namespace).collect()
}

/// Wherever else the operator has rights, whatever the settings say now.
async fn veleros_places(client: &Client, own: &str) -> anyhow::Result<Vec<String>> {
    let all: Api<RoleBinding> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={VELERO_ROLE}"));
    let bindings = call("list", all.list(&named)).await.map_err(because("listing RoleBindings"))?;
    let gives =
        |binding: &RoleBinding| accounts(binding.subjects.clone().unwrap_or_default()).iter().any(|at| at == own);
    let places = bindings.items.into_iter().filter(gives).filter_map(|binding| binding.metadata.namespace);
    Ok(places.filter(|place| place != own).collect())
}

/// What its Deployment tells it to run; nothing where there is none.
async fn running_parts(client: &Client, own: &str) -> anyhow::Result<Option<Vec<String>>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), own);
    let deployment = read(deployments.get_opt(ACCOUNT)).await.map_err(because("reading the Deployment"))?;
    let Some(spec) = deployment.and_then(|deployment| deployment.spec?.template.spec) else { return Ok(None) };
    let arguments: Vec<_> = spec.containers.into_iter().flat_map(|one| one.args.unwrap_or_default()).collect();
    Ok(Some(enabled(&arguments)))
}

fn enabled(arguments: &[String]) -> Vec<String> {
    let named = arguments.iter().find_map(|argument| argument.strip_prefix("--enable="));
    named.map_or_else(
        || parts::names().map(str::to_owned).collect(),
        |named| named.split(',').map(str::to_owned).collect(),
    )
}

async fn crds(client: &Client) -> anyhow::Result<Vec<Seen>> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let crds = call("list", all.list_metadata(&ListParams::default())).await.map_err(because("listing kinds"))?;
    let kind = observe::kind_of(&resource);
    Ok(crds.items.iter().map(|crd| observe::seen(&kind, &crd.metadata)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployment_tells_which_parts_run() {
        let told = |arguments: &[&str]| enabled(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(told(&["run", "--enable=namespaces,storage", "--log=info"]), ["namespaces", "storage"]);
        assert_eq!(told(&["run"]).len(), 3);
    }
}
