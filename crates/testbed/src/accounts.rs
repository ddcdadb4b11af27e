//! Real users and service accounts of a running cluster.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    identity::{Access, Credential, Identity},
    pki::{self, Pair},
    wait,
};

const TENANTS: &str = "tenants";
const TOKEN_SECONDS: i64 = 24 * 3600;
const SIGN_LIMIT: Duration = Duration::from_secs(20);
const RBAC: &str = "rbac.authorization.k8s.io";

/// Makes identities with an administrator's rights.
pub(crate) struct Accounts<'a> {
    pub(crate) access: &'a Access,
    pub(crate) admin: &'a Client,
}

impl Accounts<'_> {
    pub(crate) async fn service_account(&self, namespace: &str, name: &str) -> Result<Identity> {
        self.ensure_namespace(namespace).await?;
        let accounts = Api::<ServiceAccount>::namespaced(self.admin.clone(), namespace);
        create_if_missing(&accounts, ServiceAccount { metadata: named(name), ..ServiceAccount::default() }).await?;
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        let token = answer.status.context("the API server issued no token")?.token;
        self.access.identity(&format!("system:serviceaccount:{namespace}:{name}"), Credential::Token(token)).await
    }

    /// A user with a client certificate, in group `tenants`, with `rules` in `namespace` and nothing elsewhere.
    pub(crate) async fn tenant(&self, name: &str, namespace: &str, rules: Vec<PolicyRule>) -> Result<Identity> {
        self.ensure_namespace(namespace).await?;
        let role_name = format!("tenant-{name}");
        let role = Role { metadata: named(&role_name), rules: Some(rules) };
        let binding = RoleBinding {
            metadata: named(&role_name),
            role_ref: role_ref("Role", &role_name),
            subjects: Some(vec![Subject {
                api_group: Some(RBAC.into()),
                kind: "User".into(),
                name: name.into(),
                namespace: None,
            }]),
        };
        apply(&Api::namespaced(self.admin.clone(), namespace), &role_name, &role).await?;
        apply(&Api::namespaced(self.admin.clone(), namespace), &role_name, &binding).await?;
        let pair = self.client_certificate(name).await?;
        self.access.identity(name, Credential::Certificate(pair)).await
    }

    pub(crate) async fn cluster_admin(&self, namespace: &str, name: &str) -> Result<Identity> {
        let identity = self.service_account(namespace, name).await?;
        let binding_name = format!("testbed-{namespace}-{name}");
        let binding = ClusterRoleBinding {
            metadata: named(&binding_name),
            role_ref: role_ref("ClusterRole", "cluster-admin"),
            subjects: Some(vec![Subject {
                api_group: None,
                kind: "ServiceAccount".into(),
                name: name.into(),
                namespace: Some(namespace.into()),
            }]),
        };
        apply(&Api::all(self.admin.clone()), &binding_name, &binding).await?;
        Ok(identity)
    }

    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        create_if_missing(&Api::all(self.admin.clone()), namespace).await
    }

    /// Through the cluster's own signer, so that it works on any cluster.
    async fn client_certificate(&self, user: &str) -> Result<Pair> {
        let request = pki::user_request(user, TENANTS)?;
        let requests = Api::<CertificateSigningRequest>::all(self.admin.clone());
        let posted = CertificateSigningRequest {
            metadata: ObjectMeta { generate_name: Some("tenant-".into()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(request.certificate.into_bytes()),
                signer_name: "kubernetes.io/kube-apiserver-client".into(),
                usages: Some(vec!["client auth".into()]),
                extra: Some(BTreeMap::new()),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let name = requests.create(&PostParams::default(), &posted).await?.name_any();
        let approval = json!({ "status": { "conditions": [
            { "type": "Approved", "status": "True", "reason": "Testbed", "message": "a tenant of the testbed" },
        ] } });
        requests.patch_approval(&name, &PatchParams::default(), &Patch::Merge(approval)).await?;
        let certificate = wait::until("the tenant's certificate to be signed", SIGN_LIMIT, || async {
            Ok(requests.get(&name).await?.status.and_then(|status| status.certificate))
        })
        .await?;
        Ok(Pair { certificate: String::from_utf8(certificate.0)?, key: request.key })
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: RBAC.into(), kind: kind.into(), name: name.into() }
}

async fn create_if_missing<K>(api: &Api<K>, object: K) -> Result<()>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn apply<K>(api: &Api<K>, name: &str, object: &K) -> Result<()>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    api.patch(name, &PatchParams::apply("croft-testbed").force(), &Patch::Apply(object)).await?;
    Ok(())
}
