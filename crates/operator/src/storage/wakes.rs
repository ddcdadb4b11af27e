//! Whom a change of one object concerns.

use std::collections::BTreeSet;

use croft_api::{
    namespaces::NamespaceClassBinding,
    storage::{S3Bucket, S3Class, S3User, S3UserClaim, S3UserPhase, UserMigration, validate},
};
use croft_core::storage::{
    ClassChoice, OnDelete,
    claim::{Record, RecordBody},
    claim_of_record, record_name,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{ResourceExt, core::PartialObjectMeta};

use super::{
    BUCKET, CLAIM, CLAIM_INDEX, CLASS, CLASS_INDEX, Caches, MIGRATION, SECRET_INDEX,
    bindings::inventory,
    bucket::bucket_seen,
    bucket_key,
    claim::{self, claim_seen},
    claim_key, claim_of,
    class::{self, class_seen},
    entry_of, has_finalizer, place, user,
};
use crate::engine::{Change, Key, is_deleting};

impl Caches {
    pub(super) fn wake(&self) {
        self.claims.looked_after_by(CLAIM);
        self.buckets.looked_after_by(BUCKET);
        let caches = self.clone();
        self.claims.wakes(move |change| caches.woken_by_claim(change));
        let caches = self.clone();
        self.users.wakes(move |change| caches.woken_by_user(change));
        self.buckets.wakes(woken_by_bucket);
        let caches = self.clone();
        self.secrets.wakes(move |change| caches.woken_by_secret(change));
        let caches = self.clone();
        self.classes.wakes(move |change| caches.woken_by_class(change));
        self.wake_for_quota();
        let caches = self.clone();
        self.namespaces.wakes(move |change| caches.woken_by_namespace(change));
        let caches = self.clone();
        self.migrations.wakes(move |change| caches.woken_by_migration(change));
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
        if differs(change, told_to_buckets) {
            keys.extend(self.bucket_keys(&namespace, &name));
        }
        if differs(change, |claim| (is_deleting(&claim.metadata), claim_seen(claim).is_settled())) {
            keys.extend(self.migration_keys(&namespace, &name));
        }
        // What it was promised and never got is free.
        if change.after.is_none() && !self.users.exists("", &record_name(&namespace, &name)) {
            keys.extend(self.ledger_keys(&namespace));
        }
        keys
    }

    fn woken_by_user(&self, change: Change<'_, S3User>) -> Vec<Key> {
        let phase = |user: &S3User| user.status.as_ref().and_then(|status| status.phase);
        let adopts = |user: &S3User| user::record(user).adopts;
        if !differs(change, |user| (user.metadata.generation, phase(user), adopts(user))) {
            return Vec::new();
        }
        // Also whom it names no more, and whom it is called after if it names somebody else.
        let places: BTreeSet<_> =
            change.both().filter_map(|user| claim_of(user).or_else(|| called_after(user))).collect();
        // That it is bound we say ourselves, at the end of a look at the claim.
        let is_news = differs(change, |user| (user.metadata.generation, adopts(user)))
            || change.after.is_none_or(|user| phase(user) != Some(S3UserPhase::Bound));
        let concerns_buckets = differs(change, |user| (phase(user), record_told_to_buckets(user)));
        let claims = places.iter().flat_map(|(namespace, name)| {
            let own = is_news.then(|| Key::new(CLAIM, namespace, name));
            let buckets = if concerns_buckets { self.bucket_keys(namespace, name) } else { Vec::new() };
            buckets.into_iter().chain(own).chain(self.migration_keys(namespace, name))
        });
        // A class that goes waits for its last user, and what its user had is free.
        let gone = change.before.filter(|_| change.after.is_none());
        let class = gone.and_then(|user| user::record(user).body.class).map(|class| Key::cluster(CLASS, class));
        let books = gone.and_then(entry_of).map(|(namespace, _)| self.ledger_keys(&namespace)).unwrap_or_default();
        claims.chain(class).chain(books).collect()
    }

    fn woken_by_secret(&self, change: Change<'_, PartialObjectMeta<Secret>>) -> Vec<Key> {
        let secret = change.object();
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let named = self.claims.by(SECRET_INDEX, &place(&secret.metadata, &name));
        let named = named.iter().filter(|claim| !is_being_furnished(change, claim));
        let owners = change.both().flat_map(|secret| secret.metadata.owner_references.iter().flatten());
        let owners = owners.filter(|owner| owner.kind == "S3UserClaim" && change.before.is_some());
        let owners = owners.map(|owner| Key::new(CLAIM, &namespace, &owner.name));
        let classes = self.gateways.classes_with_secret(&namespace, &name);
        let of_classes = classes.iter().map(|class| Key::cluster(CLASS, class));
        named.map(|claim| claim_key(claim)).chain(owners).chain(of_classes).collect()
    }

    fn woken_by_class(&self, change: Change<'_, S3Class>) -> Vec<Key> {
        let name = change.object().name_any();
        // An annotation decides as well what becomes of data.
        let is_changed =
            differs(change, |class| (class.spec.clone(), validate::on_delete(class), is_deleting(&class.metadata)));
        let is_bound_anew = differs(change, |class| class.status.as_ref().and_then(|status| status.cluster.clone()));
        let asks_for_a_look = differs(change, |class| {
            let confirmed = class_seen(class).confirmed_cluster;
            (class.metadata.generation, class.finalizers().to_vec(), confirmed)
        });
        let mut keys = Vec::new();
        if is_changed || is_bound_anew {
            // Who stood in another class's way may do so no more, and the other way round.
            let classes = self.classes.all();
            keys.extend(classes.iter().filter(|it| it.name_any() != name).map(|it| class::key(it)));
        }
        if is_changed || asks_for_a_look {
            keys.push(Key::cluster(CLASS, &name));
        }
        let serves = |class: &S3Class| class_seen(class).refusal(false).is_none();
        let is_open = |class: &S3Class| class_seen(class).refusal(true).is_none();
        let generation = |class: &S3Class| class.status.as_ref().and_then(|status| status.observed_generation);
        if is_changed {
            keys.extend(self.keys_of_class(change, |_| true, |_| true));
        } else if change.after.is_some_and(serves) {
            if is_bound_anew || differs(change, generation) {
                keys.extend(self.keys_of_class(change, |_| true, |_| true));
            } else if !change.before.is_some_and(serves) || differs(change, is_open) {
                // Whoever has waited for it; the others have what they need.
                let waits = |claim: &S3UserClaim| !self.is_settled(claim);
                keys.extend(self.keys_of_class(change, waits, |bucket| !bucket_seen(bucket).is_settled()));
            }
        }
        keys
    }

    /// The claims of a class, those that may be, and their buckets, as far as they are meant; and whoever moves them.
    fn keys_of_class(
        &self,
        change: Change<'_, S3Class>,
        claim_is_meant: impl Fn(&S3UserClaim) -> bool,
        bucket_is_meant: impl Fn(&S3Bucket) -> bool,
    ) -> Vec<Key> {
        let class = change.object().name_any();
        // Who names no class has that of his S3User, and before there is one that which is the default.
        let may_be_default = change.both().any(|class| class.spec.default);
        let undecided = if may_be_default { self.claims.by(CLASS_INDEX, "") } else { Vec::new() };
        let undecided = undecided.into_iter().filter(|claim| !self.has_class(claim));
        let claims = self.claims.by(CLASS_INDEX, &class).into_iter().chain(undecided);
        let claims = claims.map(|claim| (claim.namespace().unwrap_or_default(), claim.name_any()));
        let recorded = self.users.by(CLASS_INDEX, &class);
        let recorded = recorded.iter().filter_map(|user| claim_of(user));
        let places: BTreeSet<_> = claims.chain(recorded).collect();
        let mut keys = self.migrations_of(|user| places.contains(&(user.namespace.clone(), user.name.clone())));
        for (namespace, name) in &places {
            if self.claims.get(namespace, name).is_none_or(|claim| claim_is_meant(&claim)) {
                keys.push(Key::new(CLAIM, namespace, name));
            }
            let buckets = self.buckets.by(CLAIM_INDEX, &format!("{namespace}/{name}"));
            keys.extend(buckets.iter().filter(|it| bucket_is_meant(it)).map(|bucket| bucket_key(bucket)));
        }
        keys
    }

    /// What the class of a record says becomes of what it has, where that class is there.
    pub(super) fn on_delete(&self, record: &Record) -> Option<OnDelete> {
        self.gateways.on_delete(ClassChoice::Named(record.body.class.as_deref()?))
    }

    /// Whether it is on record which class a claim is of.
    fn has_class(&self, claim: &S3UserClaim) -> bool {
        let record = record_name(&claim.namespace().unwrap_or_default(), &claim.name_any());
        self.users.get("", &record).is_some_and(|user| user::record(&user).body.class.is_some())
    }

    fn woken_by_namespace(&self, change: Change<'_, Namespace>) -> Vec<Key> {
        if !differs(change, |namespace| (is_deleting(&namespace.metadata), namespace.labels().clone())) {
            return Vec::new();
        }
        let name = change.object().name_any();
        let claims = self.claims.in_namespace(&name);
        let buckets = self.buckets.in_namespace(&name);
        let buckets = buckets.iter().map(|bucket| Key::new(BUCKET, &name, bucket.name_any()));
        let migrations = self.migrations_of(|user| user.namespace == name);
        let claims = claims.iter().map(|claim| claim_key(claim));
        claims.chain(buckets).chain(migrations).chain(self.books_left_by(change)).collect()
    }

    /// A bucket that goes and is not empty waits for a person only as long as its binding wants it.
    fn woken_by_binding(&self, change: Change<'_, NamespaceClassBinding>) -> Vec<Key> {
        let namespace = change.object().namespace().unwrap_or_default();
        let buckets = self.buckets.in_namespace(&namespace);
        let going = buckets.iter().filter(|bucket| is_deleting(&bucket.metadata));
        // A claim that comes back proves by its binding that it is we who bring it.
        let is_told = differs(change, |binding| inventory::<S3UserClaim>(binding).collect::<Vec<_>>());
        let claims = if is_told { self.claims.in_namespace(&namespace) } else { Vec::new() };
        let waiting = claims.iter().filter(|claim| !claim_seen(claim).is_settled());
        going.map(|bucket| bucket_key(bucket)).chain(waiting.map(|claim| claim_key(claim))).collect()
    }

    /// Its own status writes need no second look. Once it is gone it holds nobody.
    fn woken_by_migration(&self, change: Change<'_, UserMigration>) -> Vec<Key> {
        let migration = change.object();
        let view = |it: &UserMigration| (it.metadata.generation, is_deleting(&it.metadata), it.finalizers().to_vec());
        let mut keys = Vec::new();
        if differs(change, view) {
            keys.push(Key::cluster(MIGRATION, migration.name_any()));
        }
        if change.after.is_none() {
            for user in [&migration.spec.current_user, &migration.spec.target_user] {
                keys.extend(self.claim_and_bucket_keys(&user.namespace, &user.name));
            }
        }
        keys
    }
}

/// The claim whose name an S3User has that names neither it nor a vault.
fn called_after(user: &S3User) -> Option<(String, String)> {
    let (name, is_anothers) = (user.name_any(), entry_of(user).is_some());
    let (namespace, claim) = claim_of_record(&name).filter(|_| !is_anothers)?;
    Some((namespace.to_owned(), claim.to_owned()))
}

/// Whether a Secret comes that is the claim's, which waits for it: the look that makes it needs no other one. Had somebody else
/// made it that look would have failed.
fn is_being_furnished(change: Change<'_, PartialObjectMeta<Secret>>, claim: &S3UserClaim) -> bool {
    let is_its = |secret: &PartialObjectMeta<Secret>| claim::controller(&secret.metadata) == claim.uid();
    change.before.is_none() && change.after.is_some_and(is_its) && !claim_seen(claim).is_settled()
}

/// What a claim says to its buckets: all but how much they may hold, what they do, and in which words.
fn told_to_buckets(claim: &S3UserClaim) -> impl PartialEq {
    let status = claim_seen(claim).status;
    let buckets = status.quota.map(|quota| quota.buckets);
    let is_ready = status.conditions.is_true("Ready");
    (claim.uid(), is_deleting(&claim.metadata), is_ready, status.subusers, status.observed_key_rotation, buckets)
}

/// What an S3User says to the buckets of its claim: all but how much they may hold and where the keys to them are published.
fn record_told_to_buckets(user: &S3User) -> impl PartialEq {
    let body = user::record(user).body;
    let buckets = body.quota.map(|quota| quota.buckets);
    (RecordBody { quota: None, read_secret: None, admin_secret: None, ..body }, buckets, user::moved_in(user))
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
pub(super) fn differs<'a, K, View: PartialEq>(change: Change<'a, K>, view: impl Fn(&'a K) -> View) -> bool {
    change.before.map(&view) != change.after.map(&view)
}
