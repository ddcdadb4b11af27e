//! The password of Velero's repositories: observes for [`croft_core::backup::repository`]. Nothing waits for it.

use std::{convert::Infallible, fmt};

use croft_core::{
    backup::repository::{KEY, Password, SECRET},
    plan::{self, Failure, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt, api::PartialObjectMeta};

use super::{Caches, PASSWORD};
use crate::engine::{Change, Key, Reconciler, Remarks, Report, Work, Writer, Written, is_deleting, write::read};

#[derive(Debug)]
pub(super) struct PasswordReconciler {
    caches: Caches,
    writer: Writer,
    remarks: Remarks,
}

/// There is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step(Infallible);

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self.0 {}
    }
}

impl fmt::Display for Step {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl Caches {
    fn password_key(&self) -> Key {
        Key::new(PASSWORD, self.velero_namespace.clone(), SECRET)
    }

    /// It is looked at when it changes, and when Velero's namespace comes or goes.
    pub(super) fn wake_password(&self) {
        let seen = self.clone();
        self.secrets.wakes(move |change: Change<'_, PartialObjectMeta<Secret>>| {
            let secret = change.object();
            let is_it = secret.name_any() == SECRET && secret.namespace().as_ref() == Some(&seen.velero_namespace);
            is_it.then(|| seen.password_key()).into_iter().collect()
        });
        let seen = self.clone();
        self.namespaces.wakes(move |change: Change<'_, Namespace>| {
            let stays = |side: Option<&Namespace>| side.is_some_and(|side| !is_deleting(&side.metadata));
            let is_news = stays(change.before) != stays(change.after);
            let is_veleros = change.object().name_any() == seen.velero_namespace;
            (is_veleros && is_news).then(|| seen.password_key()).into_iter().collect()
        });
    }
}

impl PasswordReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, remarks: Remarks) -> Self {
        Self { caches, writer, remarks }
    }
}

impl Reconciler for PasswordReconciler {
    /// Nothing where there is no Velero.
    type Seen = Option<Password>;
    type Step = Step;

    fn work(&self) -> Work {
        PASSWORD
    }

    fn all(&self) -> Vec<Key> {
        vec![self.caches.password_key()]
    }

    /// Whoever changes it is seen.
    fn resync(&self) -> Vec<Key> {
        Vec::new()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Option<Password>>, Failure> {
        let namespace = self.caches.namespaces.get("", &key.namespace);
        if namespace.is_none_or(|namespace| is_deleting(&namespace.metadata)) {
            return Ok(Some(None));
        }
        if self.caches.secrets.get(&key.namespace, &key.name).is_none() {
            return Ok(Some(Some(Password::Missing)));
        }
        let secrets: Api<Secret> = Api::namespaced(self.writer.client(), &key.namespace);
        let secret = read(secrets.get_opt(&key.name)).await?;
        let stored = secret.and_then(|secret| secret.data?.remove(KEY));
        Ok(Some(Some(Password::of(stored.as_ref().map(|stored| stored.0.as_slice())))))
    }

    fn plan(&self, _: &Option<Password>, _: &Timestamp) -> Plan<Step> {
        Plan::settled()
    }

    async fn execute(&self, _: &Option<Password>, step: &Step) -> Result<Written, Failure> {
        match step.0 {}
    }

    fn report(&self, seen: &Option<Password>, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        self.remarks.set(SECRET, seen.and_then(|password| password.remark(&self.caches.velero_namespace)));
        Report::default()
    }
}
