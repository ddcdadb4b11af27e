//! Object storage on Ceph: what is watched, and which change wakes whom.

mod bindings;
mod bookkeeping;
mod bucket;
mod ceph;
mod claim;
mod class;
mod counting;
mod door;
pub mod fences;
mod gateways;
mod guards;
mod hooks;
mod ledgers;
mod limits;
mod lost_keys;
mod manifests;
mod migration;
mod not_empty;
mod policy;
mod settings;
mod usage;
mod user;
mod wakes;
mod warehouse;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use croft_api::storage::{
    ADOPT_ANNOTATION, BUCKET_FINALIZER, ClusterResourceQuota, ROTATE_KEYS_ANNOTATION, S3Bucket, S3Class, S3QuotaLedger,
    S3TeamQuota, S3User, S3UserClaim, UserMigration, UserReference, books,
};
use croft_core::{
    plan::{Failure, FailureClass},
    storage::{
        Place,
        claim::{Record, RecordBody, class_of, subuser_secret, wanted},
        ledger::{Units, entry_key, vault_entry_key},
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
    bucket::BucketReconciler,
    claim::{ClaimReconciler, claim_seen},
    class::ClassReconciler,
    door::Door,
    gateways::Gateways,
    ledgers::Ledgers,
    lost_keys::LostKeys,
    migration::MigrationReconciler,
    usage::{NamespaceUsage, TeamUsage},
};
use crate::{
    engine::{Cache, EngineBuilder, Key, Part, Scope, Work, is_deleting},
    objects,
    parts::{Definition, Ground},
    rbac::{Use, Within},
    roles::TenantKinds,
};

pub(crate) use self::{
    ceph::Ceph,
    warehouse::{Looked, Warehouse},
};

const STORAGE: Part = Part("storage");

/// S3UserClaim -> Ceph user, Secrets, S3User.
const CLAIM: Work = STORAGE.work("s3userclaim");
/// S3Class -> whether its gateway can be worked with.
const CLASS: Work = STORAGE.work("s3class");
/// S3QuotaLedger: promises nobody took up, claims whose namespace went to another team.
const LEDGER: Work = STORAGE.work("s3quotaledger");
/// ResourceQuota -> how much of it is used.
const QUOTA: Work = STORAGE.work("resourcequota");
/// S3TeamQuota -> how much of it is used.
const TEAM_QUOTA: Work = STORAGE.work("s3teamquota");
/// S3Bucket -> bucket.
const BUCKET: Work = STORAGE.work("s3bucket");

/// UserMigration -> buckets that change hands.
const MIGRATION: Work = STORAGE.work("usermigration");

/// Claims and S3Users by class; claims that name none are under the empty name.
const CLASS_INDEX: &str = "class";
/// Claims by `<namespace>/<name>` of the Secrets they name.
const SECRET_INDEX: &str = "secret";
/// Secrets by UID of the owner that controls them.
const OWNER_INDEX: &str = "owner";
/// S3Buckets by `<namespace>/<name>` of their claim.
const CLAIM_INDEX: &str = "claim";
/// Namespaces by the team they belong to, quotas by the team they limit.
const TEAM_INDEX: &str = "team";
/// Ledgers by the namespaces that have entries in them.
const NAMESPACE_INDEX: &str = "namespace";

const GROUP: &str = "s3.snappcloud.io";

/// The rights this part uses.
pub const USES: &[Use] = &[
    cluster("", "namespaces", &["get", "list", "watch"]),
    cluster("authentication.k8s.io", "selfsubjectreviews", &["create"]),
    cluster("", "secrets", &["create", "delete", "get", "list", "patch", "watch"]),
    cluster(GROUP, "s3classes", &["list", "patch", "watch"]),
    cluster(GROUP, "s3classes/status", &["patch"]),
    cluster(GROUP, "s3userclaims", &["create", "delete", "get", "list", "patch", "watch"]),
    cluster(GROUP, "s3userclaims/status", &["update"]),
    cluster(GROUP, "s3users", &["create", "delete", "list", "patch", "watch"]),
    cluster(GROUP, "s3users/status", &["update"]),
    cluster(GROUP, "s3buckets", &["create", "delete", "get", "list", "patch", "watch"]),
    cluster(GROUP, "s3buckets/status", &["patch"]),
    cluster(GROUP, "usermigrations", &["list", "patch", "watch"]),
    cluster(GROUP, "usermigrations/status", &["patch"]),
    cluster("akuity.io", "namespaceclassbindings", &["get", "list", "watch"]),
    cluster("croft.dev", "backupvaults", &["get"]),
    cluster(GROUP, "s3quotaledgers", &["create", "delete", "get", "list", "update", "watch"]),
    cluster(GROUP, "s3teamquotas", &["get", "list", "watch"]),
    cluster(GROUP, "s3teamquotas/status", &["patch"]),
    cluster("", "resourcequotas", &["list", "watch"]),
    cluster("", "resourcequotas/status", &["patch"]),
    cluster("quota.openshift.io", "clusterresourcequotas", &["get", "list", "watch"]),
];

const fn cluster(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Use {
    Use { group, resource, verbs, within: Within::Cluster }
}

/// The part as a whole.
pub(crate) const PART: Definition = Definition {
    part: STORAGE,
    groups: &["s3.snappcloud.io"],
    uses: USES,
    tenants: &[TenantKinds {
        group: "s3.snappcloud.io",
        viewed: &["s3buckets", "s3userclaims"],
        edited: &["s3buckets", "s3userclaims"],
    }],
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
    migrations: Arc<Cache<UserMigration>>,
    gateways: Arc<Gateways>,
    lost_keys: Arc<LostKeys>,
    books: Arc<Cache<S3QuotaLedger>>,
    team_quotas: Arc<Cache<S3TeamQuota>>,
    resource_quotas: Arc<Cache<ResourceQuota>>,
    cluster_quotas: Arc<Cache<ClusterResourceQuota>>,
}

fn install(engine: &mut EngineBuilder, ground: &Ground) {
    // Where a class's admin Secret is looked for if the class names no namespace.
    let (writer, operator_namespace) = (&ground.writer, ground.operator_namespace.as_str());
    let (classes, secrets) = (engine.cluster_objects(STORAGE), engine.metadata(STORAGE));
    let gateways = Gateways::new(engine, operator_namespace, classes.clone(), secrets.clone());
    let caches = Caches {
        namespaces: engine.namespaces(STORAGE),
        claims: engine.objects(STORAGE, &Scope::Cluster),
        users: engine.cluster_objects(STORAGE),
        buckets: engine.objects(STORAGE, &Scope::Cluster),
        secrets,
        classes,
        bindings: Bindings(engine.objects(STORAGE, &Scope::Cluster)),
        migrations: engine.cluster_objects(STORAGE),
        gateways: Arc::new(gateways),
        lost_keys: Arc::new(LostKeys::new(engine.pusher())),
        books: engine.cluster_objects(STORAGE),
        team_quotas: engine.cluster_objects(STORAGE),
        resource_quotas: engine.objects(STORAGE, &Scope::Cluster),
        cluster_quotas: engine.optional_cluster_objects(STORAGE),
    };
    let ledgers = Ledgers::new(engine.client(), caches.clone());
    let door = Door::new(caches.clone(), ledgers.clone(), engine.client(), ground.settings.clone());
    engine.at_the_door(Arc::new(door));
    engine.at_the_door(Arc::new(Warehouse::new(caches.clone(), ledgers.clone(), writer.clone())));
    caches.reads();
    caches.index();
    caches.wake();
    engine.reconciler(ClassReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(ClaimReconciler::new(caches.clone(), writer.clone(), ledgers.clone()));
    engine.reconciler(NamespaceUsage::new(caches.clone(), ledgers.clone()));
    engine.reconciler(TeamUsage::new(caches.clone()));
    engine.reconciler(BookKeeper::new(caches.clone(), writer.clone(), ledgers));
    engine.reconciler(MigrationReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(BucketReconciler::new(caches, writer.clone()));
}

impl Caches {
    /// What is read of the notes on objects that others make.
    fn reads(&self) {
        self.claims.reads(&[ROTATE_KEYS_ANNOTATION]);
        self.users.reads(&[ADOPT_ANNOTATION]);
        self.buckets.reads(&[]);
        self.books.reads(&[]);
        self.team_quotas.reads(&[]);
        self.resource_quotas.reads(&[]);
        self.cluster_quotas.reads(&[]);
        self.migrations.reads(&[]);
    }

    fn index(&self) {
        self.claims.index(CLASS_INDEX, |claim| vec![claim.spec.class().unwrap_or_default().to_owned()]);
        self.claims
            .index(SECRET_INDEX, |claim| secrets_of(claim).iter().map(|name| place(&claim.metadata, name)).collect());
        self.users.index(NAMESPACE_INDEX, |user| entry_of(user).map(|(namespace, _)| namespace).into_iter().collect());
        self.users.index(CLASS_INDEX, |user| user::record(user).body.class.into_iter().collect());
        self.buckets.index(CLAIM_INDEX, |bucket| vec![place(&bucket.metadata, &bucket.spec.s3_user_ref)]);
        self.namespaces.index(TEAM_INDEX, |namespace| ledgers::team_of(namespace).into_iter().collect());
        self.team_quotas.index(TEAM_INDEX, |quota| vec![quota.team().to_owned()]);
        self.books
            .index(NAMESPACE_INDEX, |ledger| books::namespaces(&ledger.spec).into_iter().map(str::to_owned).collect());
        self.secrets.index(OWNER_INDEX, |secret| claim::controller(&secret.metadata).into_iter().collect());
    }

    /// How much of its class a claim asks for; one that is invalid asks for nothing.
    fn asks(&self, namespace: &str, name: &str, object: &S3UserClaim) -> Option<Units> {
        let seen = claim_seen(object);
        let spec = seen.spec.as_ref().ok()?;
        let record = self.users.get("", &record_name(namespace, name));
        let record = record.as_deref().map(user::record).filter(|record| record.is_meant_for(&seen));
        let default = self.gateways.default_quota(class_of(Some(&seen), record.as_ref()));
        Some(Units::from(&wanted(&spec.quota, record.as_ref(), &default)))
    }

    /// Whether the class of a claim, as far as it is known, serves teams only.
    fn serves_teams_only(&self, object: &S3UserClaim) -> bool {
        self.gateways.team_required(class_of(Some(&claim_seen(object)), None))
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

    /// Migrations that concern a claim and are not over.
    fn migration_keys(&self, namespace: &str, claim: &str) -> Vec<Key> {
        self.migrations_of(|user| user.namespace == namespace && user.name == claim)
    }

    /// The migrations that are not over and have to do with one of the users that are meant.
    fn migrations_of(&self, is_meant: impl Fn(&UserReference) -> bool) -> Vec<Key> {
        let migrations = self.migrations.all();
        let concerned = migrations.iter().filter(|it| {
            let users = [&it.spec.current_user, &it.spec.target_user];
            users.into_iter().any(&is_meant) && !migration::migration_seen(it).is_over()
        });
        concerned.map(|migration| Key::cluster(MIGRATION, migration.name_any())).collect()
    }

    /// The migration that holds a record, by name, if it is there.
    fn holder(&self, record: &Record) -> Option<String> {
        let holder = record.body.held_by.as_ref()?;
        let migration = self.migrations.get("", &holder.name)?;
        (migration.uid().as_ref() == Some(&holder.uid)).then(|| holder.name.clone())
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

    /// Before a claim is taken down: a bucket that is to be kept must be known as such.
    fn buckets_are_known(&self, namespace: &str) -> Result<(), Failure> {
        if !self.buckets.has_unreadable_in(namespace) {
            return Ok(());
        }
        let message = "an S3Bucket of the namespace cannot be read; make it smaller or delete it";
        Err(Failure::new(FailureClass::Transient, "BucketUnreadable", message))
    }

    /// S3Buckets of the claim that may still have a bucket in Ceph.
    fn buckets_of(&self, namespace: &str, claim: &str) -> BTreeSet<String> {
        let buckets = self.buckets.by(CLAIM_INDEX, &format!("{namespace}/{claim}"));
        buckets.iter().filter(|bucket| has_finalizer(bucket)).map(|bucket| bucket.name_any()).collect()
    }

    fn is_terminating(&self, namespace: &str) -> bool {
        self.namespaces.get("", namespace).is_some_and(|namespace| is_deleting(&namespace.metadata))
    }

    fn team_of(&self, namespace: &str) -> Option<String> {
        self.namespaces.get("", namespace).and_then(|namespace| ledgers::team_of(&namespace))
    }

    fn labels_of(&self, namespace: &str) -> BTreeMap<String, String> {
        self.namespaces.get("", namespace).map(|namespace| namespace.labels().clone()).unwrap_or_default()
    }
}

/// Names of the Secrets a claim asks for.
fn secrets_of(claim: &S3UserClaim) -> Vec<String> {
    named_secrets(claim).into_iter().map(|(_, name)| name).collect()
}

/// The Secrets a claim asks for, with the field that says so.
fn named_secrets(claim: &S3UserClaim) -> Vec<(String, String)> {
    let spec = &claim.spec;
    let fields = [
        ("spec.adminSecretName", &spec.admin_secret_name),
        ("spec.adminSecret", &spec.admin_secret),
        ("spec.readSecretName", &spec.read_secret_name),
        ("spec.readonlySecret", &spec.readonly_secret),
    ];
    let own = fields.into_iter().filter_map(|(field, name)| Some((field.to_owned(), name.clone()?)));
    let of_subusers = spec
        .subusers
        .iter()
        .enumerate()
        .map(|(number, subuser)| (format!("spec.subusers[{number}]"), subuser_secret(&claim.name_any(), subuser)));
    own.chain(of_subusers).collect()
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

/// The vault an S3User stands for, or is offered to.
fn vault_of(user: &S3User) -> Option<(String, String)> {
    let RecordBody { claim, offered_to, .. } = user::vault_record(user).body;
    let place = claim.map(|vault| Place { namespace: vault.namespace, name: vault.name }).or(offered_to)?;
    Some((place.namespace, place.name))
}

/// The namespace of an S3User, and where it is booked.
fn entry_of(user: &S3User) -> Option<(String, String)> {
    let claim = claim_of(user).map(|(namespace, claim)| (entry_key(&namespace, &claim), namespace));
    let vault = || vault_of(user).map(|(namespace, vault)| (vault_entry_key(&namespace, &vault), namespace));
    claim.or_else(vault).map(|(place, namespace)| (namespace, place))
}

/// A step that needs what was not observed: the next look will tell.
fn no_longer_there() -> Failure {
    Failure::new(FailureClass::Stale, "Stale", "not as it was seen")
}

#[cfg(test)]
mod tests {
    use croft_api::storage::{ClaimReference, S3UserSpec};
    use croft_core::backup::vault::names;

    use super::*;

    fn user(name: &str, uid: Option<&str>) -> S3User {
        let claim_ref = ClaimReference {
            namespace: Some("shop".into()),
            name: Some("safe".into()),
            uid: uid.map(str::to_owned),
            ..ClaimReference::default()
        };
        S3User::new(name, S3UserSpec { claim_ref: Some(claim_ref), ..S3UserSpec::default() })
    }

    #[test]
    fn what_an_s3_user_holds_is_booked_for_its_claim_or_vault_also_while_it_is_offered_to_the_next_one() {
        for uid in [Some("u"), None] {
            let (claim, vault) = (user("shop.safe", uid), user(&names::record_name("shop", "safe"), uid));
            assert_eq!(entry_of(&claim), Some(("shop".into(), entry_key("shop", "safe"))));
            assert_eq!(entry_of(&vault), Some(("shop".into(), vault_entry_key("shop", "safe"))));
            assert_eq!(vault_of(&claim), None);
        }
        assert_eq!(entry_of(&user("somebody-elses", Some("u"))), None);
    }
}
