//! Classes and the gateways behind them. A connection is kept as long as class and admin Secret stay as they are.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use croft_api::storage::{S3Class, SECRET_ACCESS_KEY, SECRET_SECRET_KEY, SecretReference, validate};
use croft_core::{
    budget::{Budget, Budgets},
    plan::{Failure, FailureClass},
    queue::Priority,
    storage::{Class, ClassChoice, NoClass, OnDelete, QuotaAsked, class},
};
use croft_rgw::{Credentials, Endpoint, Gateway};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    core::{PartialObjectMeta, Selector, SelectorExt},
};

use super::{
    CLASS,
    ceph::{Ceph, failure},
    class::class_seen,
};
use crate::engine::{Cache, Clock, EngineBuilder, Key, Pusher, write::read};

/// Whoever fails on a gateway has it looked at, once in this time.
const SUSPICION: Duration = Duration::from_secs(5);

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
    open: Mutex<BTreeMap<String, (Origin, Ceph)>>,
    /// However many fail on a gateway, it is looked at this often.
    suspicions: Mutex<Budgets<String>>,
    pusher: Pusher,
    clock: Clock,
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
    /// Certificates its gateway is trusted by, if they are not the usual ones.
    pub(super) fn ca_bundle(&self) -> Option<String> {
        self.raw.spec.ca_bundle.clone()
    }

    pub(super) fn is_of_one_ceph_with(&self, other: &Self) -> bool {
        class::is_one_ceph(&class_seen(&self.raw), &class_seen(&other.raw))
    }

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
        engine: &EngineBuilder,
        operator_namespace: &str,
        classes: Arc<Cache<S3Class>>,
        secrets: Arc<Cache<PartialObjectMeta<Secret>>>,
    ) -> Self {
        Self {
            client: engine.client(),
            operator_namespace: operator_namespace.to_owned(),
            classes,
            secrets,
            open: Mutex::default(),
            suspicions: Mutex::new(Budgets::new(Budget::new(1, SUSPICION))),
            pusher: engine.pusher(),
            clock: Clock::start(),
        }
    }

    /// The class of a claim; `is_new`: nothing of it is in Ceph yet.
    pub(super) fn class(&self, choice: ClassChoice<'_>, is_new: bool) -> Result<Chosen, NoClass> {
        let raw = self.raw(choice)?;
        let seen = class_seen(&raw);
        match (seen.refusal(is_new), seen.spec) {
            (None, Ok(class)) => Ok(Chosen { raw, class }),
            (Some(why), _) => Err(why),
            (None, Err(problems)) => Err(NoClass::Invalid { class: raw.name_any(), problems }),
        }
    }

    /// What a class gives those who ask for nothing, ready or not.
    pub(super) fn default_quota(&self, choice: ClassChoice<'_>) -> QuotaAsked {
        let class = self.raw(choice).ok().and_then(|class| validate::class(&class).ok());
        class.map(|class| class.default_quota).unwrap_or_default()
    }

    pub(super) fn team_required(&self, choice: ClassChoice<'_>) -> bool {
        self.raw(choice).is_ok_and(|class| class.spec.team_required)
    }

    /// What becomes of what tenants have of a class, where it is there.
    pub(super) fn on_delete(&self, choice: ClassChoice<'_>) -> Option<OnDelete> {
        self.raw(choice).ok().map(|class| validate::on_delete(&class))
    }

    /// The address of the gateway behind a class, for those who share it.
    pub(super) fn address(&self, choice: ClassChoice<'_>) -> Option<String> {
        self.raw(choice).ok().map(|class| class::origin(&class.spec.endpoint))
    }

    fn raw(&self, choice: ClassChoice<'_>) -> Result<Arc<S3Class>, NoClass> {
        match choice {
            ClassChoice::Named(name) => self.classes.get("", name).ok_or_else(|| NoClass::NotFound(name.to_owned())),
            ClassChoice::Default => {
                let all: Vec<_> = self.classes.all().iter().map(|class| class_seen(class)).collect();
                let chosen = class::default_of(&all).and_then(|class| self.classes.get("", &class.target.name));
                chosen.ok_or(NoClass::NoDefault)
            }
        }
    }

    /// A call to the gateway of a class has ended: one that failed has the class looked at before its time.
    pub(super) fn heed<T>(&self, class: &str, result: &Result<T, Failure>) {
        let is_outage = result.as_ref().is_err_and(|failure| failure.class == FailureClass::Transient);
        let mut suspicions = self.suspicions.lock().unwrap_or_else(PoisonError::into_inner);
        if is_outage && suspicions.spend(class.to_owned(), self.clock.now()) {
            self.pusher.push(Key::cluster(CLASS, class), Priority::Live);
        }
    }

    /// The gateway of a class that may be used, connected with the keys in its admin Secret.
    pub(super) async fn connect(&self, chosen: &Chosen) -> Result<Ceph, Failure> {
        self.reach(&chosen.raw).await
    }

    /// The gateway of any class.
    pub(super) async fn reach(&self, class: &S3Class) -> Result<Ceph, Failure> {
        let (namespace, name) = self.place_of(&class.spec.admin_secret);
        let Some(seen) = self.secrets.get(&namespace, &name) else { return Err(no_admin_secret(&namespace, &name)) };
        let origin = Origin {
            endpoint: Endpoint {
                url: class.spec.endpoint.trim_end_matches('/').to_owned(),
                region: class.spec.region.clone(),
                ca_pem: class.spec.ca_bundle.clone(),
            },
            version: seen.resource_version().unwrap_or_default(),
            secret: (namespace, name),
        };
        if let Some((known, ceph)) = self.open().get(&class.name_any())
            && *known == origin
        {
            return Ok(ceph.clone());
        }
        let keys = self.admin_keys(&origin.secret).await?;
        let ceph = Ceph::new(Gateway::new(origin.endpoint.clone(), keys).map_err(failure)?);
        let mut open = self.open();
        // Of a class that is gone nobody needs the keys.
        open.retain(|class, _| self.classes.exists("", class));
        open.insert(class.name_any(), (origin, ceph.clone()));
        Ok(ceph)
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

    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Origin, Ceph)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_admin_secret(namespace: &str, name: &str) -> Failure {
    let message = format!("Secret {namespace}/{name} does not exist; put the keys of a Ceph administrator there");
    Failure::new(FailureClass::Rejected, "AdminSecretNotFound", message)
}
