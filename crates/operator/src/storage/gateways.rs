//! Classes and the gateways behind them. A connection is kept as long as class and admin Secret stay as they are.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use croft_api::storage::{S3Class, SECRET_ACCESS_KEY, SECRET_SECRET_KEY, SecretReference, validate};
use croft_core::{
    plan::{Failure, FailureClass},
    storage::{Class, ClassChoice, NoClass},
};
use croft_rgw::{Credentials, Endpoint, Gateway};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    core::{PartialObjectMeta, Selector, SelectorExt},
};

use super::ceph::{Ceph, failure};
use crate::engine::{Cache, write::read};

/// What a connection was made from; another value needs another connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    endpoint: Endpoint,
    secret: (String, String),
    /// `resourceVersion` of the admin Secret.
    version: String,
}

pub(super) struct Gateways {
    client: Client,
    operator_namespace: String,
    classes: Arc<Cache<S3Class>>,
    secrets: Arc<Cache<PartialObjectMeta<Secret>>>,
    open: Mutex<BTreeMap<String, (Origin, Gateway)>>,
}

impl fmt::Debug for Gateways {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Gateways")
    }
}

/// A class as stored and as checked.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    raw: Arc<S3Class>,
    pub(super) class: Class,
}

impl Chosen {
    /// Whether a namespace with these labels may use the class.
    pub(super) fn allows(&self, labels: &BTreeMap<String, String>) -> bool {
        match self.raw.spec.allowed_namespaces.clone().map(Selector::try_from) {
            None => true,
            Some(Ok(selector)) => selector.matches(labels),
            Some(Err(_)) => false,
        }
    }
}

impl Gateways {
    pub(super) fn new(
        client: Client,
        operator_namespace: &str,
        classes: Arc<Cache<S3Class>>,
        secrets: Arc<Cache<PartialObjectMeta<Secret>>>,
    ) -> Self {
        Self { client, operator_namespace: operator_namespace.to_owned(), classes, secrets, open: Mutex::default() }
    }

    pub(super) fn class(&self, choice: ClassChoice<'_>) -> Result<Chosen, NoClass> {
        let raw = match choice {
            ClassChoice::Named(name) => self.classes.get("", name).ok_or_else(|| NoClass::NotFound(name.to_owned()))?,
            ClassChoice::Default => self.default_class()?,
        };
        match validate::class(&raw) {
            Ok(class) => Ok(Chosen { raw, class }),
            Err(problems) => Err(NoClass::Invalid { class: raw.name_any(), problems }),
        }
    }

    fn default_class(&self) -> Result<Arc<S3Class>, NoClass> {
        let mut defaults: Vec<_> = self.classes.all().into_iter().filter(|class| class.spec.default).collect();
        match (defaults.pop(), defaults.is_empty()) {
            (None, _) => Err(NoClass::NoDefault),
            (Some(class), true) => Ok(class),
            (Some(class), false) => {
                let names = defaults.iter().chain([&class]).map(|class| class.name_any()).collect();
                Err(NoClass::SeveralDefaults(names))
            }
        }
    }

    /// The gateway of a class, connected with the keys in its admin Secret.
    pub(super) async fn connect(&self, chosen: &Chosen) -> Result<Ceph, Failure> {
        let (namespace, name) = self.place_of(&chosen.raw.spec.admin_secret);
        let Some(seen) = self.secrets.get(&namespace, &name) else { return Err(no_admin_secret(&namespace, &name)) };
        let origin = Origin {
            endpoint: Endpoint {
                url: chosen.class.endpoint.clone(),
                region: chosen.class.region.clone(),
                ca_pem: chosen.raw.spec.ca_bundle.clone(),
            },
            version: seen.resource_version().unwrap_or_default(),
            secret: (namespace, name),
        };
        if let Some((known, gateway)) = self.open().get(&chosen.class.name)
            && *known == origin
        {
            return Ok(Ceph(gateway.clone()));
        }
        let keys = self.admin_keys(&origin.secret).await?;
        let gateway = Gateway::new(origin.endpoint.clone(), keys).map_err(failure)?;
        self.open().insert(chosen.class.name.clone(), (origin, gateway.clone()));
        Ok(Ceph(gateway))
    }

    /// Where an admin Secret is: in the operator's own namespace unless told otherwise.
    fn place_of(&self, secret: &SecretReference) -> (String, String) {
        (secret.namespace.clone().unwrap_or_else(|| self.operator_namespace.clone()), secret.name.clone())
    }

    /// Names of the classes whose admin Secret this is.
    pub(super) fn classes_with_secret(&self, namespace: &str, name: &str) -> Vec<String> {
        let is_it =
            |class: &Arc<S3Class>| self.place_of(&class.spec.admin_secret) == (namespace.to_owned(), name.to_owned());
        self.classes.all().into_iter().filter(is_it).map(|class| class.name_any()).collect()
    }

    async fn admin_keys(&self, (namespace, name): &(String, String)) -> Result<Credentials, Failure> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = read(api.get_opt(name)).await?.ok_or_else(|| no_admin_secret(namespace, name))?;
        let value = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.clone());
            bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.is_empty()).ok_or_else(|| {
                let message =
                    format!("Secret {namespace}/{name} has no key `{key}`; put the keys of a Ceph administrator there");
                Failure::new(FailureClass::Rejected, "InvalidAdminSecret", message)
            })
        };
        Ok(Credentials::new(value(SECRET_ACCESS_KEY)?, value(SECRET_SECRET_KEY)?))
    }

    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Origin, Gateway)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_admin_secret(namespace: &str, name: &str) -> Failure {
    let message = format!("Secret {namespace}/{name} does not exist; put the keys of a Ceph administrator there");
    Failure::new(FailureClass::Rejected, "AdminSecretNotFound", message)
}
