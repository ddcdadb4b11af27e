//! `NonAdminBackupStorageLocation`: observes for [`croft_core::backup::location`] and carries out its steps.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use croft_api::{
    backup::{
        NABSL_FINALIZER, NonAdminBackup, NonAdminBackupStorageLocation, REGISTRY_LABEL, REGISTRY_LABEL_FALSE,
        REGISTRY_LABEL_TRUE, let_go_annotation, let_go_of, validate,
    },
    velero::{Backup, BackupStorageLocation, BackupStorageLocationSpec},
};
use croft_core::{
    backup::{
        AccessKeys, Fields, Policy, Progress, Store, Victim,
        approval::Standing,
        location::{
            self, Answers, CONFIRM_MOVE, Claim, Copy, InQueue, Keys, LetGo, Observed, Repairs, Status, Step, Unread,
            VeleroLocation, Version, copy_mark,
        },
        ownership::Origin,
        validate::SecretKey,
    },
    plan::{Failure, FailureClass, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, ResourceExt, api::ObjectMeta};
use serde_json::{Value, json};

use super::{
    BACKUPS_IN_LOCATION, Caches, LOCATION,
    fences::{OWN_BUCKET_LABEL, OWN_BUCKET_VALUE},
    marks, request,
    stored::{self, Stored},
};
use crate::{
    engine::{Clock, Key, Reconciler, Report, Target, Work, Writer, Written, is_deleting, write::read},
    objects,
    settings::SharedSettings,
};

/// On a copied Secret: of what it is a copy. Together with its version it lets us see from metadata alone whether it is up to date.
const COPY_OF_ANNOTATION: &str = "croft.dev/copy-of";

#[derive(Debug)]
pub(super) struct LocationReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
    repairs: Mutex<Repairs>,
    answers: Mutex<Answers>,
    clock: Clock,
}

#[derive(Debug)]
pub(super) struct Seen {
    request: Arc<NonAdminBackupStorageLocation>,
    observed: Observed,
    content: Option<Content>,
    velero_namespace: String,
}

/// What a copied Secret holds, and what it is marked with.
#[derive(Clone)]
struct Content {
    file: ByteString,
    mark: String,
}

impl fmt::Debug for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Content(***)")
    }
}

impl Seen {
    /// Read for this plan.
    fn content(&self) -> Result<Content, Failure> {
        let unread = || Failure::new(FailureClass::Stale, "NotRead", "the Secret was not read for this plan");
        self.content.clone().ok_or_else(unread)
    }
}

impl LocationReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings, repairs: Mutex::default(), answers: Mutex::default(), clock: Clock::start() }
    }

    fn with_repairs<T>(&self, work: impl FnOnce(&mut Repairs) -> T) -> T {
        work(&mut self.repairs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with_answers<T>(&self, work: impl FnOnce(&mut Answers) -> T) -> T {
        work(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn policy(&self) -> Policy {
        request::policy(&self.caches, &self.settings)
    }

    /// The spec, and the version of the Secret that what is in force of it names. What others write into the location of a vault
    /// counts for nothing: it is what the vault says, and its Secret is Velero's.
    fn spec(&self, location: &NonAdminBackupStorageLocation, standing: &Standing) -> (Fields, Option<Version>) {
        let asked = || location.spec.backup_storage_location_spec.clone();
        let (spec, in_force) = match (standing, self.caches.vault_of(location)) {
            (Standing::Vault, vault) => {
                let spec = vault.and_then(|vault| self.caches.warehouse.as_ref()?.location_spec(&vault));
                let spec = BackupStorageLocationSpec::from(spec.unwrap_or_default());
                (spec.clone(), spec)
            }
            (Standing::InForce { spec, .. }, _) => (asked(), spec.clone().into()),
            _ => (asked(), asked()),
        };
        let secret = self.secret(&in_force, &self.secret_namespace(location, standing));
        (spec.0.0, secret)
    }

    /// Where the Secret is that the location names.
    fn secret_namespace(&self, location: &NonAdminBackupStorageLocation, standing: &Standing) -> String {
        match standing {
            Standing::Vault => self.caches.velero_namespace.clone(),
            _ => location.namespace().unwrap_or_default(),
        }
    }

    /// State of the Secret the spec names.
    fn secret(&self, spec: &BackupStorageLocationSpec, namespace: &str) -> Option<Version> {
        let secret = self.caches.secrets.get(namespace, spec.credential()?.name)?;
        Some(version(&secret.metadata)).filter(|_| !is_deleting(&secret.metadata))
    }

    fn copy(&self, origin: &Origin) -> Option<Copy> {
        let secret = self.caches.secrets.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        Some(Copy {
            version: version(&secret.metadata),
            marks: marks::LOCATION.marks(&secret.metadata),
            copy_of: secret.annotations().get(COPY_OF_ANNOTATION).cloned(),
        })
    }

    fn velero(&self, origin: &Origin) -> Option<VeleroLocation> {
        let location = self.caches.velero_locations.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        Some(VeleroLocation {
            uid: location.uid().unwrap_or_default(),
            marks: marks::LOCATION.marks(&location.metadata),
            is_own_bucket: location.labels().get(OWN_BUCKET_LABEL).is_some_and(|value| value == OWN_BUCKET_VALUE),
            spec: location.spec.0.0.clone(),
            status: location.status.as_ref().map(|status| status.0.0.clone()).unwrap_or_default(),
        })
    }

    /// A vault's bucket is its own: whoever writes its name elsewhere means another one.
    fn twin(&self, location: &NonAdminBackupStorageLocation, standing: &Standing, policy: &Policy) -> Option<String> {
        if *standing == Standing::Vault {
            return None;
        }
        let all = self.caches.contenders_in(&location.namespace()?);
        let others = all.iter().filter(|other| self.caches.vault_of(other).is_none());
        let all: Vec<Claim> = others.map(|other| self.claim(other, policy)).collect();
        location::twin(&self.claim(location, policy), &all).map(str::to_owned)
    }

    fn claim(&self, location: &NonAdminBackupStorageLocation, policy: &Policy) -> Claim {
        let object = request::object(&self.caches, location, NABSL_FINALIZER);
        let status: Status = objects::status(location.status.as_ref());
        let origin = object.origin(status.velero_backup_storage_location.as_ref());
        let velero = self.velero(&origin).filter(|velero| origin.owns(&velero.marks));
        Claim {
            name: object.name,
            uid: object.uid,
            created: request::time(location.creation_timestamp().as_ref()),
            wanted: validate::location(location, policy).ok().map(|spec| spec.store()),
            in_force: velero.map(|velero| Store::of(&velero.spec)),
        }
    }

    /// The backups stored in a location that are not yet being deleted.
    fn backups(&self, location: &NonAdminBackupStorageLocation, origin: &Origin) -> Vec<Victim> {
        let (namespace, name) = (location.namespace().unwrap_or_default(), location.name_any());
        let home = self.caches.home_of(&namespace);
        let is_here = |backup: &NonAdminBackup| self.caches.place_of(backup, &home).goes_with(&name, &origin.nacuuid);
        let backups = self.caches.backups.in_namespace(&namespace).into_iter();
        backups
            .filter(|backup| is_here(backup) && !is_deleting(&backup.metadata))
            .map(|backup| Victim { name: backup.name_any(), uid: backup.uid().unwrap_or_default() })
            .collect()
    }

    fn let_go(&self, location: &NonAdminBackupStorageLocation) -> Vec<LetGo> {
        let notes = location.annotations().iter().filter_map(|(note, since)| Some((let_go_of(note)?, since)));
        let seen = notes.map(|(name, since)| LetGo {
            name: name.to_owned(),
            since: since.parse().ok(),
            velero_has_it: self.caches.velero_backups.exists(&self.caches.velero_namespace, name),
        });
        seen.collect()
    }

    /// What the copy is to hold, from the one key of the tenant's Secret, read now; or why there will be no copy.
    async fn read_keys(&self, namespace: &str, unread: &Unread) -> Result<Result<Content, String>, Failure> {
        let SecretKey { name, key } = &unread.source;
        let secrets: Api<Secret> = Api::namespaced(self.writer.client(), namespace);
        let Some(secret) = read(secrets.get_opt(name)).await? else {
            return Err(Failure::new(FailureClass::Stale, "NotFound", format!("Secret {name} is gone")));
        };
        let mark = copy_mark(&version(&secret.metadata), key);
        let Some(found) = secret.data.and_then(|mut data| data.remove(key)) else {
            return Ok(Err(format!("BSL credentials secret \"{name}\" has no key \"{key}\"")));
        };
        let file = if unread.is_s3 {
            AccessKeys::read(name, key, &found.0).map(|keys| keys.file().expose().as_bytes().to_vec())
        } else {
            Ok(found.0)
        };
        Ok(file.map(|file| Content { file: ByteString(file), mark }))
    }

    async fn create_secret(&self, seen: &Seen, origin: &Origin, source: &SecretKey) -> Result<Written, Failure> {
        let Content { file, mark } = seen.content()?;
        let mut metadata = marks::LOCATION.metadata(origin, &seen.velero_namespace);
        metadata.annotations.get_or_insert_default().insert(COPY_OF_ANNOTATION.into(), mark);
        let data = Some(BTreeMap::from([(source.key.clone(), file)]));
        self.writer.create(&Secret { metadata, data, ..Secret::default() }).await.map(with_version)
    }

    async fn update_secret(
        &self,
        seen: &Seen,
        origin: &Origin,
        uid: &str,
        source: &SecretKey,
    ) -> Result<Written, Failure> {
        let Content { file, mark } = seen.content()?;
        let target = Target { namespace: &seen.velero_namespace, name: &origin.nacuuid, uid };
        let secrets: Api<Secret> = Api::namespaced(self.writer.client(), target.namespace);
        // By its other annotations it was proven ours.
        let fields =
            [("/metadata/annotations/croft.dev~1copy-of", json!(mark)), ("/data", json!({ &source.key: file }))];
        request::replace(secrets, target, fields).await.map(with_version)
    }
}

/// A Backup that Velero has not begun with.
pub(super) fn in_queue(backup: &Backup) -> Option<InQueue> {
    let unsaid = Fields::new();
    let progress = Progress(backup.status.as_ref().map_or(&unsaid, |status| &status.0.0));
    let is_next = progress.is_next();
    (is_next || progress.is_waiting()).then(|| InQueue {
        backup: Victim { name: backup.name_any(), uid: backup.uid().unwrap_or_default() },
        version: backup.resource_version().unwrap_or_default(),
        marks: marks::BACKUP.marks(&backup.metadata),
        is_next,
    })
}

fn own_bucket_value(is_own_bucket: bool) -> &'static str {
    if is_own_bucket { OWN_BUCKET_VALUE } else { "false" }
}

/// The version that a call made is what the copy is known by from then on.
fn with_version(written: Written) -> Written {
    let version = written.echo.as_ref().and_then(|echo| echo.version);
    Written { witness: version.map(|version| version.to_string()), ..written }
}

fn version(metadata: &ObjectMeta) -> Version {
    Version {
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

impl Reconciler for LocationReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        LOCATION
    }

    fn all(&self) -> Vec<Key> {
        self.caches.locations.all().iter().map(|object| super::key(LOCATION, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let stored = stored::stored(&self.writer, &self.caches.locations, key).await?;
        let Some(Stored { request: location, is_readable }) = stored else { return Ok(None) };
        let standing = self.caches.standing(&location, &self.settings);
        let (spec, secret) = self.spec(&location, &standing);
        let secret_namespace = self.secret_namespace(&location, &standing);
        let mut observed = Observed {
            object: request::object(&self.caches, &*location, NABSL_FINALIZER),
            secret,
            spec,
            is_readable,
            status: objects::status(location.status.as_ref()),
            keys: Keys::Unread,
            copy: None,
            rest: Duration::ZERO,
            velero: None,
            answer: None,
            twin: None,
            backups: Vec::new(),
            may_move: location.annotations().get(CONFIRM_MOVE).is_some_and(|confirmed| confirmed == "true"),
            let_go: self.let_go(&location),
            standing,
            missing_fences: self.caches.missing_around_own_buckets()?,
            taken_in: 0,
            in_queue: Vec::new(),
        };
        let policy = self.policy();
        observed.object.ahead = self.caches.locations_ahead(&location, policy.limits.locations);
        let origin = observed.origin();
        let taken_in = self.caches.velero_backups.by(BACKUPS_IN_LOCATION, &origin.nacuuid);
        observed.taken_in = taken_in.len();
        observed.in_queue = taken_in.iter().filter_map(|backup| in_queue(backup)).collect();
        observed.copy = self.copy(&origin);
        observed.rest = self.with_repairs(|repairs| repairs.rest(&origin.nacuuid, self.clock.now()));
        observed.velero = self.velero(&origin);
        observed.answer = self.with_answers(|answers| answers.of(&origin.nacuuid));
        if !observed.is_held_back(&policy) {
            observed.twin = self.twin(&location, &observed.standing, &policy);
        }
        if observed.object.is_deleting || observed.velero.is_some() {
            observed.backups = self.backups(&location, &origin);
        }
        let mut content = None;
        if let Some(unread) = observed.unread(&policy) {
            match self.read_keys(&secret_namespace, &unread).await? {
                Ok(found) => (content, observed.keys) = (Some(found), Keys::Fine),
                Err(why) => observed.keys = Keys::Refused(why),
            }
        }
        let velero_namespace = self.caches.velero_namespace.clone();
        Ok(Some(Seen { request: location, observed, content, velero_namespace }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<Step> {
        location::plan(&seen.observed, &self.policy())
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let (velero, object) = (seen.velero_namespace.as_str(), &seen.observed.object);
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.request, NABSL_FINALIZER).await,
            Step::CreateSecret { origin, source } => self.create_secret(seen, origin, source).await,
            Step::UpdateSecret { origin, uid, source } => self.update_secret(seen, origin, uid, source).await,
            Step::CreateLocation { origin, spec, serves_registry, is_own_bucket } => {
                let mut metadata = marks::LOCATION.metadata(origin, velero);
                let registry = if *serves_registry { REGISTRY_LABEL_TRUE } else { REGISTRY_LABEL_FALSE };
                let labels = metadata.labels.get_or_insert_default();
                labels.insert(REGISTRY_LABEL.into(), registry.into());
                labels.insert(OWN_BUCKET_LABEL.into(), own_bucket_value(*is_own_bucket).into());
                self.writer.create(&BackupStorageLocation { metadata, spec: spec.clone().into(), status: None }).await
            }
            Step::UpdateLocation { name, uid, spec, is_own_bucket } => {
                let locations: Api<BackupStorageLocation> = Api::namespaced(self.writer.client(), velero);
                let label = json!(own_bucket_value(*is_own_bucket));
                let fields = [("/spec", json!(spec)), ("/metadata/labels/croft.dev~1own-bucket", label)];
                let target = Target { namespace: velero, name, uid };
                let (written, made) = request::replaced(locations, target, fields).await?;
                Ok(Written { witness: Some(json!(made.spec).to_string()), ..written })
            }
            Step::TakeFromQueue { backup, version } => {
                request::remove::<Backup>(&self.writer, &self.caches, object, backup, Some(version)).await
            }
            Step::DeleteSecret(victim) => {
                request::remove::<Secret>(&self.writer, &self.caches, object, victim, None).await
            }
            Step::DeleteLocation(victim) => {
                request::remove::<BackupStorageLocation>(&self.writer, &self.caches, object, victim, None).await
            }
            Step::DeleteBackup(victim) => {
                request::delete::<NonAdminBackup>(&self.writer, &seen.observed.object.namespace, victim).await
            }
            Step::ForgetLetGo { names, .. } => {
                let notes: Fields = names.iter().map(|name| (let_go_annotation(name), Value::Null)).collect();
                let patch = json!({ "metadata": { "annotations": notes } });
                let target = objects::target(&seen.request.metadata);
                self.writer.merge::<NonAdminBackupStorageLocation>(target, None, patch).await
            }
            Step::ReleaseFinalizer { .. } => self.writer.release_finalizer(&*seen.request, NABSL_FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        self.with_repairs(|repairs| repairs.note(&seen.observed, outcomes, self.clock.now()));
        self.with_answers(|answers| answers.note(outcomes));
        let before = &seen.observed.status;
        match location::report(&seen.observed, &self.policy(), outcomes, now) {
            Some(after) => request::told(&*seen.request, (before, &before.conditions), (&after, &after.conditions)),
            None => Report::default(),
        }
    }
}
