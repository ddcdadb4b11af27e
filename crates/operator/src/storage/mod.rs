//! Object storage on Ceph: what is watched, and which change wakes whom.

mod bindings;
mod bookkeeping;
mod bucket;
mod ceph;
mod claim;
mod class;
mod door;
mod gateways;
mod hooks;
mod ledgers;
mod manifests;
mod user;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use croft_api::{
    namespaces::NamespaceClassBinding,
    storage::{BUCKET_FINALIZER, S3Bucket, S3Class, S3QuotaLedger, S3TeamQuota, S3User, S3UserClaim},
};
use croft_core::{
    plan::{Failure, FailureClass},
    storage::{
        Reason,
        claim::{class_of, subuser_secret, wanted},
        ledger::Units,
        record_name,
    },
};
use k8s_openapi::{
    api::core::v1::{Namespace, ResourceQuota, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{ResourceExt, core::PartialObjectMeta};

use self::{
    bindings::Bindings,
    bookkeeping::BookKeeper,
    bucket::{BucketReconciler, bucket_seen},
    claim::{ClaimReconciler, claim_seen},
    class::{ClassReconciler, class_seen},
    door::Door,
    gateways::Gateways,
    ledgers::Ledgers,
};
use crate::{
    engine::{Cache, Change, EngineBuilder, Key, Part, Scope, Work, is_deleting},
    objects,
    parts::{Definition, Ground},
    rbac::{Use, Within},
    roles::TenantKinds,
};

const STORAGE: Part = Part("storage");

/// S3UserClaim -> Ceph user, Secrets, S3User.
const CLAIM: Work = STORAGE.work("s3userclaim");
/// S3Class -> whether its gateway can be worked with.
const CLASS: Work = STORAGE.work("s3class");
/// S3QuotaLedger: promises nobody took up, claims whose namespace went to another team.
const LEDGER: Work = STORAGE.work("s3quotaledger");
/// S3Bucket -> bucket.
const BUCKET: Work = STORAGE.work("s3bucket");

/// Claims and S3Users by class; claims that name none are under the empty name.
const CLASS_INDEX: &str = "class";
/// Claims by `<namespace>/<name>` of the Secrets they name.
const SECRET_INDEX: &str = "secret";
/// Secrets by UID of the owner that controls them.
const OWNER_INDEX: &str = "owner";
/// S3Buckets by `<namespace>/<name>` of their claim.
const CLAIM_INDEX: &str = "claim";

const GROUP: &str = "s3.snappcloud.io";

/// The rights this part uses.
pub const USES: &[Use] = &[
    cluster("", "namespaces", &["list", "watch"]),
    cluster("", "secrets", &["create", "delete", "get", "list", "patch", "watch"]),
    cluster(GROUP, "s3classes", &["list", "patch", "watch"]),
    cluster(GROUP, "s3classes/status", &["patch"]),
    cluster(GROUP, "s3userclaims", &["get", "list", "patch", "watch"]),
    cluster(GROUP, "s3userclaims/status", &["patch"]),
    cluster(GROUP, "s3users", &["create", "delete", "list", "patch", "watch"]),
    cluster(GROUP, "s3users/status", &["update"]),
    cluster(GROUP, "s3buckets", &["list", "patch", "watch"]),
    cluster(GROUP, "s3buckets/status", &["patch"]),
    cluster("akuity.io", "namespaceclassbindings", &["list", "watch"]),
    cluster(GROUP, "s3quotaledgers", &["create", "delete", "get", "list", "update", "watch"]),
    cluster(GROUP, "s3teamquotas", &["get", "list", "watch"]),
    cluster("", "resourcequotas", &["list", "watch"]),
];

const fn cluster(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Use {
    Use { group, resource, verbs, within: Within::Cluster }
}

/// The part as a whole.
pub(crate) const PART: Definition = Definition {
    part: STORAGE,
    groups: &["s3.snappcloud.io"],
    uses: USES,
    tenants: TenantKinds {
        group: "s3.snappcloud.io",
        viewed: &["s3buckets", "s3userclaims"],
        edited: &["s3buckets", "s3userclaims"],
    },
    hooks: hooks::HOOKS,
    manifests: manifests::manifests,
    install,
};

/// The caches both reconcilers read.
#[derive(Clone, Debug)]
struct Caches {
    namespaces: Arc<Cache<Namespace>>,
    claims: Arc<Cache<S3UserClaim>>,
    users: Arc<Cache<S3User>>,
    buckets: Arc<Cache<S3Bucket>>,
    secrets: Arc<Cache<PartialObjectMeta<Secret>>>,
    classes: Arc<Cache<S3Class>>,
    bindings: Bindings,
    gateways: Arc<Gateways>,
    books: Arc<Cache<S3QuotaLedger>>,
    team_quotas: Arc<Cache<S3TeamQuota>>,
    resource_quotas: Arc<Cache<ResourceQuota>>,
}

fn install(engine: &mut EngineBuilder, ground: &Ground) {
    // Where a class's admin Secret is looked for if the class names no namespace.
    let (writer, operator_namespace) = (&ground.writer, ground.operator_namespace.as_str());
    let (classes, secrets) = (engine.cluster_objects(STORAGE), engine.metadata(STORAGE));
    let gateways = Gateways::new(engine, operator_namespace, classes.clone(), secrets.clone());
    let caches = Caches {
        namespaces: engine.cluster_objects(STORAGE),
        claims: engine.objects(STORAGE, &Scope::Cluster),
        users: engine.cluster_objects(STORAGE),
        buckets: engine.objects(STORAGE, &Scope::Cluster),
        secrets,
        classes,
        bindings: Bindings(engine.objects(STORAGE, &Scope::Cluster)),
        gateways: Arc::new(gateways),
        books: engine.cluster_objects(STORAGE),
        team_quotas: engine.cluster_objects(STORAGE),
        resource_quotas: engine.objects(STORAGE, &Scope::Cluster),
    };
    let ledgers = Ledgers::new(engine.client(), caches.namespaces.clone(), caches.users.clone());
    engine.at_the_door(Arc::new(Door { caches: caches.clone(), ledgers: ledgers.clone() }));
    caches.index();
    caches.wake();
    engine.reconciler(ClassReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(ClaimReconciler::new(caches.clone(), writer.clone(), ledgers.clone()));
    engine.reconciler(BookKeeper::new(caches.clone(), writer.clone(), ledgers));
    engine.reconciler(BucketReconciler::new(caches, writer.clone()));
}

impl Caches {
    fn index(&self) {
        self.claims.index(CLASS_INDEX, |claim| vec![claim.spec.class().unwrap_or_default().to_owned()]);
        self.claims
            .index(SECRET_INDEX, |claim| secrets_of(claim).iter().map(|name| place(&claim.metadata, name)).collect());
        self.users.index(CLASS_INDEX, |user| user.spec.s3_class_name.clone().into_iter().collect());
        self.buckets.index(CLAIM_INDEX, |bucket| vec![place(&bucket.metadata, &bucket.spec.s3_user_ref)]);
        self.secrets.index(OWNER_INDEX, |secret| claim::controller(&secret.metadata).into_iter().collect());
    }

    fn wake(&self) {
        let caches = self.clone();
        self.claims.wakes(move |change| caches.woken_by_claim(change));
        let caches = self.clone();
        self.users.wakes(move |change| caches.woken_by_user(change));
        self.buckets.wakes(woken_by_bucket);
        let caches = self.clone();
        self.secrets.wakes(move |change| caches.woken_by_secret(change));
        let caches = self.clone();
        self.classes.wakes(move |change| caches.woken_by_class(change));
        self.books.wakes(|change| vec![Key::cluster(LEDGER, change.object().name_any())]);
        let caches = self.clone();
        self.team_quotas.wakes(move |change| {
            if !differs(change, |quota| quota.metadata.generation) {
                return Vec::new();
            }
            let team = change.object().name_any();
            let namespaces = caches.namespaces.all();
            let theirs = namespaces.iter().filter(|namespace| ledgers::team_of(namespace).as_ref() == Some(&team));
            theirs.flat_map(|namespace| caches.short_of_quota(&namespace.name_any())).collect()
        });
        let caches = self.clone();
        self.resource_quotas.wakes(move |change| {
            let changed = differs(change, |quota| quota.spec.clone());
            let namespace = change.object().namespace().unwrap_or_default();
            if changed { caches.short_of_quota(&namespace) } else { Vec::new() }
        });
        let caches = self.clone();
        self.namespaces.wakes(move |change| caches.woken_by_namespace(change));
        let caches = self.clone();
        self.bindings.0.wakes(move |change| caches.woken_by_binding(change));
    }

    fn woken_by_claim(&self, change: Change<'_, S3UserClaim>) -> Vec<Key> {
        let claim = change.object();
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let mut keys = Vec::new();
        // Our own status writes need no second look.
        if differs(change, |claim| {
            let asked = claim::rotation_asked(claim);
            (claim.metadata.generation, is_deleting(&claim.metadata), claim.finalizers().to_vec(), asked)
        }) {
            keys.push(Key::new(CLAIM, &namespace, &name));
        }
        if differs(change, |claim| (is_deleting(&claim.metadata), claim.status.clone())) {
            keys.extend(self.bucket_keys(&namespace, &name));
        }
        keys
    }

    fn woken_by_user(&self, change: Change<'_, S3User>) -> Vec<Key> {
        let user = change.object();
        let phase = |user: &S3User| user.status.as_ref().and_then(|status| status.phase);
        if !differs(change, |user| (user.metadata.generation, phase(user))) {
            return Vec::new();
        }
        let claim = claim_of(user);
        let claims = claim.map_or_else(Vec::new, |(namespace, name)| self.claim_and_bucket_keys(&namespace, &name));
        // A class that goes waits for its last user.
        let gone = change.before.filter(|_| change.after.is_none());
        let class = gone.and_then(|user| user.spec.s3_class_name.as_ref()).map(|class| Key::cluster(CLASS, class));
        claims.into_iter().chain(class).collect()
    }

    fn woken_by_secret(&self, change: Change<'_, PartialObjectMeta<Secret>>) -> Vec<Key> {
        let secret = change.object();
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let named = self.claims.by(SECRET_INDEX, &place(&secret.metadata, &name));
        let owners = change.both().flat_map(|secret| secret.metadata.owner_references.iter().flatten());
        let owners =
            owners.filter(|owner| owner.kind == "S3UserClaim").map(|owner| Key::new(CLAIM, &namespace, &owner.name));
        let classes = self.gateways.classes_with_secret(&namespace, &name);
        let of_classes = classes.iter().map(|class| Key::cluster(CLASS, class));
        named.iter().map(|claim| claim_key(claim)).chain(owners).chain(of_classes).collect()
    }

    fn woken_by_class(&self, change: Change<'_, S3Class>) -> Vec<Key> {
        let name = change.object().name_any();
        let is_changed = differs(change, |class| (class.spec.clone(), is_deleting(&class.metadata)));
        let mut keys = Vec::new();
        if is_changed {
            // Who stood in another class's way may do so no more.
            keys.extend(self.classes.all().iter().map(|class| class::key(class)));
            keys.extend(self.keys_of_class(&name, |_| true, |_| true));
        } else if differs(change, |class| (class.metadata.generation, class.finalizers().to_vec())) {
            keys.push(Key::cluster(CLASS, &name));
        }
        let serves = |class: &S3Class| class_seen(class).refusal(false).is_none();
        if !is_changed && change.after.is_some_and(serves) {
            if differs(change, |class| class.status.as_ref().and_then(|status| status.observed_generation)) {
                keys.extend(self.keys_of_class(&name, |_| true, |_| true));
            } else if !change.before.is_some_and(serves) {
                // Whoever has waited for it; the others have what they need.
                let waits = |claim: &S3UserClaim| !self.is_settled(claim);
                keys.extend(self.keys_of_class(&name, waits, |bucket| !bucket_seen(bucket).is_settled()));
            }
        }
        keys
    }

    /// The claims of a class, those that may be, and their buckets, as far as they are meant.
    fn keys_of_class(
        &self,
        class: &str,
        claim_is_meant: impl Fn(&S3UserClaim) -> bool,
        bucket_is_meant: impl Fn(&S3Bucket) -> bool,
    ) -> Vec<Key> {
        let claims = [class, ""].into_iter().flat_map(|name| self.claims.by(CLASS_INDEX, name));
        let claims = claims.map(|claim| (claim.namespace().unwrap_or_default(), claim.name_any()));
        let recorded = self.users.by(CLASS_INDEX, class);
        let recorded = recorded.iter().filter_map(|user| claim_of(user));
        let places: BTreeSet<_> = claims.chain(recorded).collect();
        let mut keys = Vec::new();
        for (namespace, name) in &places {
            if self.claims.get(namespace, name).is_none_or(|claim| claim_is_meant(&claim)) {
                keys.push(Key::new(CLAIM, namespace, name));
            }
            let buckets = self.buckets.by(CLAIM_INDEX, &format!("{namespace}/{name}"));
            keys.extend(buckets.iter().filter(|it| bucket_is_meant(it)).map(|bucket| bucket_key(bucket)));
        }
        keys
    }

    /// How much of its class a claim asks for; one that is invalid asks for nothing.
    fn asks(&self, namespace: &str, name: &str, object: &S3UserClaim) -> Option<Units> {
        let seen = claim_seen(object);
        let spec = seen.spec.as_ref().ok()?;
        let record = self.users.get("", &record_name(namespace, name));
        let record = record.as_deref().map(user::record).filter(|record| record.is_of(&seen));
        let default = self.gateways.default_quota(class_of(Some(&seen), record.as_ref()));
        Some(Units::from(&wanted(&spec.quota, record.as_ref(), &default)))
    }

    /// Whether a claim has all it asks for, as far as the cluster tells.
    fn is_settled(&self, claim: &S3UserClaim) -> bool {
        let seen = claim_seen(claim);
        let record = self.users.get("", &record_name(&seen.target.namespace, &seen.target.name));
        let is_recorded = record.is_some_and(|record| user::record(&record).is_of(&seen));
        let has_secret = |name: &str| {
            let secret = self.secrets.get(&seen.target.namespace, name);
            secret.is_some_and(|secret| claim::controller(&secret.metadata).as_ref() == Some(&seen.target.uid))
        };
        seen.is_settled() && is_recorded && secrets_of(claim).iter().all(|name| has_secret(name))
    }

    fn woken_by_namespace(&self, change: Change<'_, Namespace>) -> Vec<Key> {
        if !differs(change, |namespace| (is_deleting(&namespace.metadata), namespace.labels().clone())) {
            return Vec::new();
        }
        let name = change.object().name_any();
        let claims = self.claims.in_namespace(&name);
        let buckets = self.buckets.in_namespace(&name);
        let buckets = buckets.iter().map(|bucket| Key::new(BUCKET, &name, bucket.name_any()));
        // One of them has claims that belong elsewhere now.
        let books = self.books.all();
        let books = books.iter().map(|ledger| Key::cluster(LEDGER, ledger.name_any()));
        claims.iter().map(|claim| claim_key(claim)).chain(buckets).chain(books).collect()
    }

    /// Claims that wait for a higher limit.
    fn short_of_quota(&self, namespace: &str) -> Vec<Key> {
        let waits = |claim: &&Arc<S3UserClaim>| {
            let conditions = claim.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|condition| condition.reason == Reason::QuotaExceeded.as_str())
        };
        self.claims.in_namespace(namespace).iter().filter(waits).map(|claim| claim_key(claim)).collect()
    }

    /// A bucket that goes and is not empty waits for a person only as long as its binding wants it.
    fn woken_by_binding(&self, change: Change<'_, NamespaceClassBinding>) -> Vec<Key> {
        let namespace = change.object().namespace().unwrap_or_default();
        let buckets = self.buckets.in_namespace(&namespace);
        let going = buckets.iter().filter(|bucket| is_deleting(&bucket.metadata));
        going.map(|bucket| bucket_key(bucket)).collect()
    }

    fn claim_and_bucket_keys(&self, namespace: &str, claim: &str) -> Vec<Key> {
        let mut keys = self.bucket_keys(namespace, claim);
        keys.push(Key::new(CLAIM, namespace, claim));
        keys
    }

    fn bucket_keys(&self, namespace: &str, claim: &str) -> Vec<Key> {
        let buckets = self.buckets.by(CLAIM_INDEX, &format!("{namespace}/{claim}"));
        buckets.iter().map(|bucket| Key::new(BUCKET, namespace, bucket.name_any())).collect()
    }

    /// S3Buckets of the claim that may still have a bucket in Ceph.
    fn buckets_of(&self, namespace: &str, claim: &str) -> BTreeSet<String> {
        let buckets = self.buckets.by(CLAIM_INDEX, &format!("{namespace}/{claim}"));
        buckets.iter().filter(|bucket| has_finalizer(bucket)).map(|bucket| bucket.name_any()).collect()
    }

    fn is_terminating(&self, namespace: &str) -> bool {
        self.namespaces.get("", namespace).is_some_and(|namespace| is_deleting(&namespace.metadata))
    }

    fn labels_of(&self, namespace: &str) -> BTreeMap<String, String> {
        self.namespaces.get("", namespace).map(|namespace| namespace.labels().clone()).unwrap_or_default()
    }
}

fn woken_by_bucket(change: Change<'_, S3Bucket>) -> Vec<Key> {
    let bucket = change.object();
    let namespace = bucket.namespace().unwrap_or_default();
    let mut keys = Vec::new();
    if differs(change, |bucket| (bucket.metadata.generation, is_deleting(&bucket.metadata), has_finalizer(bucket))) {
        keys.push(Key::new(BUCKET, &namespace, bucket.name_any()));
    }
    // A claim that goes waits for its last bucket.
    if change.before.is_some_and(has_finalizer) && !change.after.is_some_and(has_finalizer) {
        keys.push(Key::new(CLAIM, &namespace, &bucket.spec.s3_user_ref));
    }
    keys
}

/// Whether a change touched what `view` looks at. Coming and going count.
fn differs<'a, K, View: PartialEq>(change: Change<'a, K>, view: impl Fn(&'a K) -> View) -> bool {
    change.before.map(&view) != change.after.map(&view)
}

/// Names of the Secrets a claim asks for.
fn secrets_of(claim: &S3UserClaim) -> Vec<String> {
    let names = [claim.spec.admin_secret(), claim.spec.read_secret()].into_iter().flatten().map(str::to_owned);
    names.chain(claim.spec.subusers.iter().map(|name| subuser_secret(&claim.name_any(), name))).collect()
}

fn has_finalizer(bucket: &S3Bucket) -> bool {
    objects::has_finalizer(&bucket.metadata, BUCKET_FINALIZER)
}

fn place(metadata: &ObjectMeta, name: &str) -> String {
    format!("{}/{name}", metadata.namespace.as_deref().unwrap_or_default())
}

fn claim_key(claim: &S3UserClaim) -> Key {
    Key::new(CLAIM, claim.namespace().unwrap_or_default(), claim.name_any())
}

fn bucket_key(bucket: &S3Bucket) -> Key {
    Key::new(BUCKET, bucket.namespace().unwrap_or_default(), bucket.name_any())
}

/// The claim an S3User stands for; one whose name does not follow from its claim is not ours.
fn claim_of(user: &S3User) -> Option<(String, String)> {
    let claim = user.spec.claim_ref.as_ref()?;
    let (namespace, name) = (claim.namespace.clone()?, claim.name.clone()?);
    (user.name_any() == record_name(&namespace, &name)).then_some((namespace, name))
}

/// A step that needs what was not observed: the next look will tell.
fn no_longer_there() -> Failure {
    Failure::new(FailureClass::Stale, "Stale", "not as it was seen")
}
