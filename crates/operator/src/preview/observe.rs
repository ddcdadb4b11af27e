//! The cluster as it is, read once: what the operator knows from its watches, by listing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use croft_api::namespaces::{NamespaceClass, NamespaceClassBinding, STAMP_LABEL, validate::validate};
use croft_core::{
    namespaces::{
        class::Kind as Recorded,
        manifest::{Identity, group_of},
        resources::{Binding, ClassSeen, KindName, KindSeen, Observed, Stamped},
        witness::Seal,
    },
    plan::{Failure, FailureClass},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;

use super::{because, former::Former};
use crate::{
    engine::{
        Place, Writer,
        watch::place_of,
        write::{call, read},
    },
    namespaces::{
        described::{described_namespace, facts, orphans, present, stamped_entry},
        entries::Entry,
        kinds::{Kinds, ServedKind},
        kinds_in_use, kinds_named_by,
        reads::read_whole,
        resources::{KindsFound, kinds_named, kinds_there},
        stamped::api_resource,
        stamping::{Stamper, whole},
    },
};

/// Objects a list brings at once.
const PAGE: u32 = 500;

/// Which part of the cluster to read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'a> {
    Cluster,
    Namespace(&'a str),
}

impl Scope<'_> {
    fn name(self) -> Option<String> {
        match self {
            Scope::Cluster => None,
            Scope::Namespace(name) => Some(name.to_owned()),
        }
    }
}

/// A stamped object, as it was listed: what there is to know about it need not be asked for again.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) api_version: String,
    pub(super) object: Arc<DynamicObject>,
    entry: Entry,
}

pub(super) struct Cluster {
    pub(super) client: Client,
    kinds: Kinds,
    pub(super) classes: BTreeMap<String, NamespaceClass>,
    /// Whoever asks may not read classes, as most tenants may not.
    pub(super) classes_are_hidden: bool,
    pub(super) namespaces: Vec<Namespace>,
    bindings: BTreeMap<String, NamespaceClassBinding>,
    /// By namespace.
    stamped: BTreeMap<String, BTreeMap<Identity, Listed>>,
    /// Kinds of which nobody can say what there is, and why.
    unlistable: BTreeMap<KindName, String>,
    pub(super) seal: Seal,
    /// Where revisions of classes are looked for.
    former: Option<Former>,
}

/// One namespace as the plan sees it, and how its kinds are reached.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) observed: Observed,
    pub(super) kinds: BTreeMap<KindName, ServedKind>,
    pub(super) listed: BTreeMap<Identity, Listed>,
}

impl Seen {
    /// The object as it was listed, if it was in this version.
    pub(super) fn listed(&self, api_version: &str, identity: &Identity) -> Option<&DynamicObject> {
        let listed = self.listed.get(identity).filter(|listed| listed.api_version == api_version);
        listed.map(|listed| &*listed.object)
    }

    /// Reads what has been listed.
    pub(super) fn read_listed(&mut self, seal: &Seal) {
        for (api_version, identity) in self.observed.to_read() {
            let Some(object) = self.listed(&api_version, &identity) else { continue };
            let read = read_whole(&self.observed, &api_version, &identity, object, seal);
            self.observed.read.insert(identity, Some(read));
        }
    }
}

impl Cluster {
    /// Classes, namespaces and bindings; stamped objects come with [`Cluster::list_stamped`].
    pub(super) async fn read(client: &Client, scope: Scope<'_>) -> anyhow::Result<Self> {
        let classes = match list(&Api::all(client.clone())).await {
            Ok(classes) => Some(classes),
            Err(failure) if matches!(failure.reason, "NotFound" | "NotServed") => {
                bail!("the cluster has no NamespaceClass kind: croft crds | kubectl apply --server-side -f -")
            }
            Err(failure) if failure.class == FailureClass::Forbidden && matches!(scope, Scope::Namespace(_)) => None,
            Err(failure) => return Err(because("listing namespaceclasses")(failure)),
        };
        let (namespaces, bindings) = match scope {
            Scope::Cluster => {
                let namespaces = list(&Api::all(client.clone())).await.map_err(because("listing namespaces"))?;
                let bindings =
                    list(&Api::all(client.clone())).await.map_err(because("listing namespaceclassbindings"))?;
                (namespaces, bindings)
            }
            Scope::Namespace(name) => {
                let namespaces: Api<Namespace> = Api::all(client.clone());
                let namespace =
                    read(namespaces.get_opt(name)).await.map_err(because(format!("reading namespace {name}")))?;
                let namespace = namespace.with_context(|| format!("there is no namespace {name}"))?;
                let bindings: Api<NamespaceClassBinding> = Api::namespaced(client.clone(), name);
                let binding =
                    read(bindings.get_opt(name)).await.map_err(because(format!("reading the binding of {name}")))?;
                (vec![namespace], binding.into_iter().collect())
            }
        };
        // Only the binding named like its namespace counts.
        let own = |binding: &NamespaceClassBinding| binding.namespace() == binding.metadata.name;
        Ok(Self {
            client: client.clone(),
            kinds: Kinds::new(client.clone()),
            classes_are_hidden: classes.is_none(),
            classes: classes.into_iter().flatten().map(|class: NamespaceClass| (class.name_any(), class)).collect(),
            bindings: bindings.into_iter().filter(own).map(|binding| (binding.name_any(), binding)).collect(),
            namespaces,
            stamped: BTreeMap::new(),
            unlistable: BTreeMap::new(),
            // Only the operator has the key: here Secrets are told apart by their values alone.
            seal: Seal::new(rand::random()),
            former: None,
        })
    }

    /// Looks for earlier revisions of classes in the operator's namespace.
    pub(super) fn with_revisions(self, operator_namespace: &str) -> Self {
        Self { former: Some(Former::new(&self.client, operator_namespace)), ..self }
    }

    /// Tries things out: nothing is stored.
    pub(super) fn rehearsal(&self, class: &ClassSeen) -> Stamper {
        Stamper { writer: Writer::rehearsing(self.client.clone()), seal: self.seal.clone(), care: class.care() }
    }

    pub(super) fn binding(&self, namespace: &str) -> Option<&NamespaceClassBinding> {
        self.bindings.get(namespace)
    }

    /// Lists what carries the stamp, of every kind a class uses or `class` would use.
    pub(super) async fn list_stamped(
        &mut self,
        scope: Scope<'_>,
        class: Option<&NamespaceClass>,
    ) -> anyhow::Result<()> {
        let mut kinds: BTreeSet<Recorded> = kinds_in_use(self.classes.values());
        for (api_version, kind) in class.map(kinds_named_by).unwrap_or_default() {
            let found = self.kinds.look_up(&api_version, &kind).await;
            kinds.extend(found.map_err(because(format!("discovering {kind}")))?.stampable());
        }
        for kind in kinds {
            let listed = list_kind(&self.client, &kind, scope.name()).await;
            // What can only be created cannot be seen.
            if let Err(failure) = &listed
                && failure.reason == "MethodNotAllowed"
            {
                self.unlistable.insert((kind.api_version, kind.kind), failure.message.clone());
                continue;
            }
            for object in listed.map_err(because(format!("listing {}", kind.resource)))? {
                let Place { namespace, name } = place_of(&object.metadata);
                let whole = whole(&object, &kind.api_version, &kind.kind);
                let entry = Entry::of(kind.api_version.as_str().into(), &object.metadata, &whole, &self.seal);
                let identity =
                    Identity { group: group_of(&kind.api_version).to_owned(), kind: kind.kind.clone(), name };
                let listed = Listed { api_version: kind.api_version.clone(), object: Arc::new(object), entry };
                // Versions are transport: the same kind may be listed under two.
                self.stamped.entry(namespace).or_default().entry(identity).or_insert(listed);
            }
        }
        Ok(())
    }

    /// What the plan needs to know about a namespace whose binding is `binding`, if `class` were its class.
    pub(super) async fn observe(
        &self,
        namespace: &Namespace,
        binding: Binding,
        class: Option<&NamespaceClass>,
    ) -> anyhow::Result<Seen> {
        let mut seen = class
            .map_or(ClassSeen::Gone, |class| present(class, &validate(class), &self.seal, &binding, &facts(namespace)));
        if let ClassSeen::Present(class) = &mut seen {
            // The operator records the kinds of a class before it makes anything of them.
            let kinds = class.items.iter().map(|item| (item.api_version.clone(), item.identity.kind.clone()));
            class.recorded_kinds = kinds.collect();
        }
        let stamped = self.stamped_in(&namespace.name_any(), &binding.uid, class);
        let mut names = kinds_named(&seen, &binding.status);
        names.extend(kinds_there(&stamped));
        let mut found = KindsFound::default();
        found.look_up(&self.kinds, names).await.map_err(because("discovering the kinds of the class"))?;
        let KindsFound { kinds, unable } = found;
        let mut observed = Observed {
            namespace: described_namespace(namespace, false, false),
            orphan_unstamped: self
                .is_orphaning(binding.status.observed_class_name.as_deref().unwrap_or(&binding.class), class),
            keeping: binding
                .status
                .classes()
                .filter(|name| self.is_orphaning(name, class))
                .map(str::to_owned)
                .collect(),
            stamped,
            binding,
            class: seen,
            kinds: kinds
                .iter()
                .map(|(name, kind)| (name.clone(), self.kind_seen(name, kind)))
                .chain(unable.into_iter().map(|(name, why)| (name, KindSeen::Unobservable { why })))
                .collect(),
            ..Observed::default()
        };
        if let Some(former) = &self.former {
            former.learn(&self.classes, &mut observed, &self.seal, &facts(namespace)).await;
        }
        let listed = self.stamped.get(&namespace.name_any()).cloned().unwrap_or_default();
        Ok(Seen { observed, kinds, listed })
    }

    fn kind_seen(&self, name: &KindName, kind: &ServedKind) -> KindSeen {
        let unlistable = self.unlistable.get(name).map(|why| KindSeen::Unobservable { why: why.clone() });
        unlistable.unwrap_or_else(|| kind.seen.clone())
    }

    fn stamped_in(
        &self,
        namespace: &str,
        binding_uid: &str,
        class: Option<&NamespaceClass>,
    ) -> BTreeMap<Identity, Stamped> {
        let objects = self.stamped.get(namespace).into_iter().flatten();
        let described = |listed: &Listed| self.describe(listed.entry.clone(), binding_uid, class);
        objects.map(|(identity, listed)| (identity.clone(), described(listed))).collect()
    }

    /// A stamped object as the core sees it.
    pub(super) fn describe(&self, entry: Entry, binding_uid: &str, class: Option<&NamespaceClass>) -> Stamped {
        let orphan = self.is_orphaning(&entry.class, class);
        stamped_entry(entry, orphan, binding_uid)
    }

    /// Whether the class of this name leaves its objects behind; the class in hand goes before the one stored.
    fn is_orphaning(&self, name: &str, class: Option<&NamespaceClass>) -> bool {
        let in_hand = class.filter(|class| class.name_any() == name);
        in_hand.or_else(|| self.classes.get(name)).is_some_and(orphans)
    }
}

/// All stamped objects of one kind; none if the kind is not served any more.
async fn list_kind(client: &Client, kind: &Recorded, namespace: Option<String>) -> Result<Vec<DynamicObject>, Failure> {
    let resource = api_resource(kind);
    let api: Api<DynamicObject> = match namespace {
        None => Api::all_with(client.clone(), &resource),
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
    };
    match list_by(&api, ListParams::default().labels(STAMP_LABEL)).await {
        Err(failure) if matches!(failure.reason, "NotFound" | "NotServed") => Ok(Vec::new()),
        listed => listed,
    }
}

async fn list<K>(api: &Api<K>) -> Result<Vec<K>, Failure>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    list_by(api, ListParams::default()).await
}

async fn list_by<K>(api: &Api<K>, params: ListParams) -> Result<Vec<K>, Failure>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut found = Vec::new();
    let mut params = params.limit(PAGE);
    loop {
        let page = call("list", api.list(&params)).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}
