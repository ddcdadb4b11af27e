//! The generator's namespaces: as many as the operator has, and as long in use.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result};
use croft_api::namespaces::CLASS_LABEL;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams};

use super::{
    cluster::{Cluster, in_flight},
    generator::Generator,
    model::Owned,
    twin,
};

pub(super) struct Plots {
    uids: BTreeMap<String, String>,
    owned: Mutex<BTreeMap<String, Owned>>,
    generator: Generator,
}

impl Plots {
    /// The namespaces are there already.
    pub(super) async fn new(cluster: &Cluster, generator: Generator) -> Result<Arc<Self>> {
        let all = Api::<Namespace>::all(cluster.admin.clone()).list_metadata(&ListParams::default()).await?;
        let uids = all.iter().map(|one| (one.name_any(), one.uid().unwrap_or_default())).collect();
        Ok(Arc::new(Self { uids, owned: Mutex::default(), generator }))
    }

    /// The generator is still told of everything it does.
    pub(super) fn check(&self) -> Result<()> {
        self.generator.check()
    }

    /// The administrator labels them, as he does the operator's, with a label that means nothing.
    pub(super) async fn onboard(self: &Arc<Self>, cluster: &Cluster, names: &[String], value: &str) -> Result<()> {
        let label = twin::renamed(CLASS_LABEL);
        let furnish = self.each(names, |plots, name| async move {
            let uid = plots.uids.get(&name).context("an unknown namespace")?;
            let owned = plots.generator.onboard(&name, uid).await?;
            plots.keep(name, owned);
            Ok(())
        });
        tokio::try_join!(cluster.label(names, &label, Some(value)), furnish)?;
        Ok(())
    }

    pub(super) async fn change(self: &Arc<Self>, names: &[String]) -> Result<()> {
        self.each(names, |plots, name| async move {
            let owned = plots.generator.change(&name, plots.take(&name)?).await?;
            plots.keep(name, owned);
            Ok(())
        })
        .await
    }

    /// The administrator deletes the objects of one namespace after the other, and the generator makes them again.
    pub(super) async fn refill(self: &Arc<Self>, cluster: &Cluster, names: &[String]) -> Result<()> {
        let admin = cluster.admin.clone();
        self.each(names, move |plots, name| {
            let admin = admin.clone();
            async move {
                Cluster::delete_items(admin, &name).await?;
                let owned = plots.generator.refill(&name, plots.take(&name)?).await?;
                plots.keep(name, owned);
                Ok(())
            }
        })
        .await
    }

    pub(super) async fn remove(self: &Arc<Self>, names: &[String]) -> Result<()> {
        self.each(names, |plots, name| async move { plots.generator.remove(&name).await }).await
    }

    async fn each<Work, Done>(self: &Arc<Self>, names: &[String], work: Work) -> Result<()>
    where
        Work: Fn(Arc<Self>, String) -> Done + Clone + Send + Sync + 'static,
        Done: Future<Output = Result<()>> + Send + 'static,
    {
        let plots = self.clone();
        in_flight(names, move |name| work(plots.clone(), name)).await
    }

    fn keep(&self, name: String, owned: Owned) {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner).insert(name, owned);
    }

    fn take(&self, name: &str) -> Result<Owned> {
        let owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        owned.with_context(|| format!("{name} was never furnished"))
    }
}
