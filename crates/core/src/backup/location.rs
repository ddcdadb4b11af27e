//! A `NonAdminBackupStorageLocation`, the copied Secret and the Velero `BackupStorageLocation` behind it.
//!
//! The life of a location, as [`plan`] and [`report`] decide it together; every line is one look at the world:
//!
//! ```text
//! not allowed, or its Secret is missing  -> BackingOff, Accepted=False; looked at again when either changes
//! allowed                                -> New, Accepted=True, the name of the Velero objects on record
//! approval needed, or taken back         -> nothing of it is with Velero; see [`super::approval`]
//! on record                              -> finalizer
//! held by the finalizer                  -> Secret copied, Velero location made, Created
//! Secret or spec changed                 -> copied and changed at once
//! deleted                                -> Deleting; what waits for Velero in it, Secret, Velero location and the location's backups are deleted,
//!                                           then the finalizer goes
//! ```
//!
//! What Velero has stays as it is while a changed spec is refused or the Secret is away: backups keep working.

mod answered;
mod copy;
mod let_go;
mod step;
mod synced;
mod taking_in;
mod withdrawal;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Object, Phase, Policy, Reference, Store, Victim,
    approval::{APPROVED, Standing},
    copied::copied,
    meaning::meaning,
    ownership::{Marks, Origin},
    policy::HeldBack,
    validate::{self, Invalid, LocationSpec, Refusal, SecretKey},
    velero::{Fields, text},
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{Outcome, Plan},
    time::Timestamp,
};

pub(crate) use self::taking_in::is_synchronised_never;
pub use self::{
    answered::{Answer, Answers},
    copy::{Copy, Repairs, Version, copy_mark},
    let_go::LetGo,
    step::Step,
    withdrawal::InQueue,
};
use self::{
    synced::{Synced, Words},
    withdrawal::{delete, withdrawal},
};
pub(super) use self::{taking_in::SYNC_PERIOD, withdrawal::MOMENT};

/// Annotation on a location by which its owner says that it may store elsewhere although it has backups.
pub const CONFIRM_MOVE: &str = "croft.dev/confirm-move";

const UNREADABLE: &str = "NonAdminBackupStorageLocation spec.backupStorageLocationSpec cannot be read, most likely it is nested too \
                          deeply; write it anew";

const SECRET_SYNCED: &str = "SecretSynced";
const LOCATION_SYNCED: &str = "BackupStorageLocationSynced";

/// The world around one `NonAdminBackupStorageLocation`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub object: Object,
    /// As it stands in the location; of a vault's, as the vault says, and nothing while that is not known.
    pub spec: Fields,
    /// What it asks for is known. Otherwise nothing new comes of it, and it can be taken back all the same.
    pub is_readable: bool,
    pub status: Status,
    /// Version of the Secret the spec names, if there is one; see [`copy_mark`].
    pub secret: Option<Version>,
    pub keys: Keys,
    /// The Secret under our name in Velero's namespace, whoever made it.
    pub copy: Option<Copy>,
    /// How long that is left as somebody made it, because it was put right too often; see [`Repairs`].
    pub rest: Duration,
    /// The Velero `BackupStorageLocation` under our name, whoever made it.
    pub velero: Option<VeleroLocation>,
    /// What came of asking for another spec than there is.
    pub answer: Option<Answer>,
    /// Another location with a better claim to the place this one wants; see [`twin`].
    pub twin: Option<String>,
    /// `NonAdminBackups` in this location that are not yet being deleted.
    pub backups: Vec<Victim>,
    /// Its owner has confirmed that it may store elsewhere; see [`CONFIRM_MOVE`].
    pub may_move: bool,
    /// What was deleted by force in it.
    pub let_go: Vec<LetGo>,
    pub standing: Standing,
    /// Admission policies around tenants' own buckets that are not in force.
    pub missing_fences: Vec<String>,
    /// How many backups Velero has in it.
    pub taken_in: usize,
    /// Those of them that Velero has not begun with.
    pub in_queue: Vec<InQueue>,
}

/// `status` of a `NonAdminBackupStorageLocation`, as far as this file writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero_backup_storage_location: Option<Reference>,
    /// The copied Secret as we left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_copy: Option<Version>,
}

impl Status {
    /// It was in force before anybody could be asked.
    pub fn was_never_asked_for(&self) -> bool {
        self.phase == Some(Phase::Created) && self.conditions.get(APPROVED).is_none()
    }
}

/// What is in the Secret, without saying it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Nobody looked: the copy is up to date, or there is nothing to look at. See [`Observed::unread`].
    #[default]
    Unread,
    Fine,
    Refused(String),
}

/// What one location of a namespace wants and has. Prefixes begin with the namespace, so that others cannot clash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub name: String,
    pub uid: String,
    pub created: Timestamp,
    /// By its spec, if that is allowed.
    pub wanted: Option<Store>,
    /// As Velero has it.
    pub in_force: Option<Store>,
}

/// The location with the best claim to the place `own` wants, if that is not `own`: whoever stores there already, then
/// whoever came first.
pub fn twin<'a>(own: &Claim, all: impl IntoIterator<Item = &'a Claim>) -> Option<&'a str> {
    let place = own.wanted.as_ref()?;
    let rank = |claim: &'a Claim| (claim.in_force.as_ref() != Some(place), &claim.created, &claim.uid);
    let contenders =
        all.into_iter().filter(|other| other.wanted.as_ref() == Some(place) || other.in_force.as_ref() == Some(place));
    let best = contenders.min_by_key(|other| rank(other))?;
    (best.uid != own.uid).then_some(&best.name)
}

/// A Velero `BackupStorageLocation`.
#[derive(Clone, Debug, PartialEq)]
pub struct VeleroLocation {
    pub uid: String,
    pub marks: Marks,
    /// Labelled as that of a bucket of the tenant's own.
    pub is_own_bucket: bool,
    pub spec: Fields,
    pub status: Fields,
}

/// How something in Velero's namespace compares with what it should be.
enum Target<'a, T> {
    Absent,
    Ours(&'a T),
    Taken,
}

impl Observed {
    pub fn origin(&self) -> Origin {
        self.object.origin(self.status.velero_backup_storage_location.as_ref())
    }

    fn copy(&self) -> Target<'_, Copy> {
        match &self.copy {
            None => Target::Absent,
            Some(copy) if self.origin().owns(&copy.marks) => Target::Ours(copy),
            Some(_) => Target::Taken,
        }
    }

    fn velero(&self) -> Target<'_, VeleroLocation> {
        match &self.velero {
            None => Target::Absent,
            Some(velero) if self.origin().owns(&velero.marks) => Target::Ours(velero),
            Some(_) => Target::Taken,
        }
    }

    /// The spec and the version of its Secret, if the request is allowed and the world is ready for it.
    fn wanted(&self, policy: &Policy) -> Result<(LocationSpec, &Version), Refusal> {
        let namespace = &self.object.namespace;
        let invalid = |message: String| Err(Refusal::invalid(message));
        if self.is_own_bucket() && !self.is_readable {
            return invalid(UNREADABLE.to_owned());
        }
        let spec = match &self.standing {
            Standing::Vault => validate::vault_location(&self.spec, namespace)?,
            // What is wrong with a change is said at once; what was approved stays in force meanwhile.
            Standing::InForce { spec: approved, .. } => {
                validate::location(&self.spec, namespace, policy)?;
                validate::location(&self.synchronised(approved), namespace, policy)?
            }
            _ => validate::location(&self.synchronised(&self.spec), namespace, policy)?,
        };
        if let Some(twin) = &self.twin {
            return invalid(format!(
                "NonAdminBackupStorageLocation stores in the same place as {twin}, give it another prefix or bucket"
            ));
        }
        let moves = matches!(self.velero(), Target::Ours(velero) if Store::of(&velero.spec) != spec.store());
        if moves && !self.backups.is_empty() && !self.may_move && self.standing != Standing::Vault {
            return invalid(format!(
                "NonAdminBackupStorageLocation has {} backups where it stores now, which would vanish: set the annotation \
                 {CONFIRM_MOVE} to \"true\" if that is meant",
                self.backups.len()
            ));
        }
        self.is_clear(policy)?;
        if self.is_own_bucket() && !is_synchronised_never(spec.fields()) && !self.missing_fences.is_empty() {
            return Err(Refusal::unfenced("synchronised", &self.missing_fences));
        }
        match (&self.secret, &self.keys) {
            (None, _) => {
                invalid(format!("BSL credentials secret not found: secrets \"{}\" not found", spec.credential().name))
            }
            (Some(_), Keys::Refused(why)) => invalid(why.clone()),
            (Some(version), Keys::Fine | Keys::Unread) => Ok((spec, version)),
        }
    }

    /// Its bucket is one that its tenant may be able to write.
    fn is_own_bucket(&self) -> bool {
        self.standing != Standing::Vault
    }

    /// What is decided about tenants' own buckets has to be known before it counts.
    fn is_clear(&self, policy: &Policy) -> Result<(), Refusal> {
        if self.is_own_bucket() { policy.is_clear() } else { Ok(()) }
    }

    /// The key to read before planning: what is in it is not known, the copy is not up to date, and there is to be one. Of locations of
    /// which nothing comes there may be any number, and each Secret that changes wakes all that name it.
    pub fn unread(&self, policy: &Policy) -> Option<Unread> {
        let is_untouched = self.standing == Standing::GrandfatheredAsItWas || self.rests().is_some();
        let is_nothing = self.standing.is_withheld() || self.is_held_back(policy);
        let is_left = self.object.is_deleting || self.object.velero_is_away() || is_untouched || is_nothing;
        let (spec, version) = self.wanted(policy).ok().filter(|_| !is_left)?;
        let source = spec.credential().clone();
        (!self.is_copied(version, &source.key)).then(|| Unread { is_s3: spec.is_s3(), source })
    }
}

/// A key of a tenant's Secret that has to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub source: SecretKey,
    /// Only of S3's credentials we know how to take them apart.
    pub is_s3: bool,
}

impl Observed {
    /// Whether nothing is done for it because others of its namespace are before it: nobody looks further, of whom there may be any
    /// number.
    pub fn is_held_back(&self, policy: &Policy) -> bool {
        self.held_back(policy).is_some()
    }

    /// What Velero has stays, and so does what is a vault's.
    fn held_back(&self, policy: &Policy) -> Option<HeldBack> {
        let is_exempt = self.standing == Standing::Vault || matches!(self.velero(), Target::Ours(_));
        HeldBack::by(policy.limits.locations, self.object.ahead, "storage locations").filter(|_| !is_exempt)
    }
}

/// What to do next.
pub fn plan(seen: &Observed, policy: &Policy) -> Plan<Step> {
    if seen.object.is_deleting {
        return delete(seen);
    }
    let is_withdrawn = seen.standing.is_withheld() && seen.is_clear(policy).is_ok();
    if let Some(silence) = taking_in::silence(seen).filter(|_| !seen.object.velero_is_away() && !is_withdrawn) {
        return Plan::step(silence);
    }
    if seen.held_back(policy).is_some() && !seen.object.velero_is_away() {
        return Plan::settled();
    }
    if seen.is_clear(policy).is_err() {
        return Plan::settled();
    }
    if seen.standing.is_withheld() && !seen.object.velero_is_away() {
        return withdrawal(seen);
    }
    if seen.standing == Standing::GrandfatheredAsItWas {
        return Plan::settled();
    }
    let is_recorded = Reference::is_recorded(seen.status.velero_backup_storage_location.as_ref());
    match seen.wanted(policy) {
        Err(_) if seen.object.velero_is_away() => Plan::settled(),
        // What was let go is no matter of what is asked for.
        Err(_) => Plan::steps(forget_let_go(seen)),
        Ok(_) if !is_recorded || seen.object.velero_is_away() || seen.standing.is_withheld() => Plan::settled(),
        Ok(_) if !seen.object.has_finalizer => Plan::step(Step::AddFinalizer { uid: seen.object.uid.clone() }),
        Ok((spec, version)) => {
            let steps = copy::sync(seen, &spec, version).into_iter().chain(sync_location(seen, &spec));
            let plan = Plan::steps(steps.chain(forget_let_go(seen)));
            // Whoever fights does not say when it is over.
            match seen.rests() {
                Some(rest) => plan.look_again(rest),
                None => plan,
            }
        }
    }
}

fn sync_location(seen: &Observed, spec: &LocationSpec) -> Option<Step> {
    let origin = seen.origin();
    let wanted = spec.for_velero(&origin.nacuuid);
    match (seen.copy(), seen.velero()) {
        // Somebody else's credentials are under the name it would use.
        (Target::Taken, _) | (_, Target::Taken) => None,
        (_, Target::Absent) => Some(Step::CreateLocation {
            origin,
            spec: wanted,
            serves_registry: spec.serves_registry(),
            is_own_bucket: seen.is_own_bucket(),
        }),
        (_, Target::Ours(velero))
            if !(asks_for_the_same(&velero.spec, &wanted) || seen.is_answered(&velero.spec, &wanted))
                || velero.is_own_bucket != seen.is_own_bucket() =>
        {
            let (name, uid) = (origin.nacuuid, velero.uid.clone());
            Some(Step::UpdateLocation { name, uid, spec: wanted, is_own_bucket: seen.is_own_bucket() })
        }
        (_, Target::Ours(_)) => None,
    }
}

fn forget_let_go(seen: &Observed) -> Option<Step> {
    let Target::Ours(velero) = seen.velero() else { return None };
    let looked = text(&velero.status, "lastSyncedTime").and_then(|time| time.parse().ok());
    let names = let_go::outdated(&seen.let_go, looked);
    (!names.is_empty()).then(|| Step::ForgetLetGo { uid: seen.object.uid.clone(), names })
}

fn asks_for_the_same(one: &Fields, other: &Fields) -> bool {
    meaning(one) == meaning(other) && is_synchronised_never(one) == is_synchronised_never(other)
}

/// The status after the plan was carried out as `outcomes` say; `None` where there may be no object left to write it to.
pub fn report(seen: &Observed, policy: &Policy, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Option<Status> {
    let ended = |step: &Step| matches!(step, Step::ReleaseFinalizer { .. });
    if outcomes.iter().any(|(step, outcome)| ended(step) && *outcome != Outcome::NotRun) {
        return None;
    }
    let mut status = seen.status.clone();
    if seen.object.is_deleting {
        status.phase = Some(Phase::Deleting);
        withdrawal::tell(&mut status.conditions, seen, now);
        return Some(status);
    }
    let generation = Some(seen.object.generation);
    if let Some(HeldBack(message)) = seen.held_back(policy).filter(|_| !seen.object.velero_is_away()) {
        status.phase = Some(Phase::forward(status.phase, Phase::New));
        status.conditions.set_observed("Accepted", Truth::False, HeldBack::REASON, message, generation, now);
        return Some(status);
    }
    let refused = if let Err(refusal) = seen.wanted(policy) {
        let (phase, reason, message) = match refusal {
            Refusal::Invalid(Invalid(message)) => (Phase::BackingOff, "BslSpecValidation", message),
            Refusal::Groundless { reason, message } => (Phase::BackingOff, reason, message),
            Refusal::NotYet { reason, message } => (Phase::New, reason, message),
        };
        status.phase = Some(Phase::forward(status.phase, phase));
        status.conditions.set_observed("Accepted", Truth::False, reason, message, generation, now);
        Some(phase)
    } else {
        status.phase = Some(Phase::forward(status.phase, Phase::New));
        let message = "NonAdminBackupStorageLocation spec validation successful";
        status.conditions.set_observed("Accepted", Truth::True, "BslSpecValidation", message, generation, now);
        status.velero_backup_storage_location.get_or_insert_default().record(&seen.origin(), policy);
        if seen.object.velero_is_away() {
            let message = "BackupStorageLocation failure during sync: Velero is not there";
            status.conditions.set(LOCATION_SYNCED, Truth::False, "BackupStorageLocationSyncError", message, now);
            return Some(status);
        }
        None
    };
    let is_withdrawn = seen.standing.is_withheld() && !seen.object.velero_is_away() && seen.is_clear(policy).is_ok();
    // Whoever never was in force and is not allowed waits for nobody's approval.
    let was_approved = is_withdrawn && (seen.standing.is_refused() || status.conditions.is_true(APPROVED));
    // What is said about the approval stays true, whatever else is wrong.
    let is_said = status.conditions.get(APPROVED).is_some() && !seen.object.velero_is_away();
    if refused.is_none() || was_approved || (is_said && seen.is_clear(policy).is_ok()) {
        seen.standing.tell(&mut status.conditions, now);
    }
    if refused.is_none() {
        taking_in::tell(&mut status, seen, now);
    }
    if is_withdrawn {
        status.conditions.remove(SECRET_SYNCED).remove(LOCATION_SYNCED);
        status.secret_copy = None;
        let stands = if seen.standing.is_refused() { Phase::BackingOff } else { Phase::New };
        status.phase = Some(refused.map_or(stands, |refused| refused.max(stands)));
    } else if refused.is_none() {
        copy::tell(&mut status, seen, outcomes, now);
        location_synced(&mut status, seen, outcomes, now);
    }
    if let Some(reference) = &mut status.velero_backup_storage_location {
        reference.status = match (seen.velero(), reference.status.take()) {
            (Target::Ours(velero), Some(told)) if differs_only_in_time(&told, &copied(&velero.status)) => Some(told),
            (Target::Ours(velero), _) => Some(copied(&velero.status)),
            (Target::Absent | Target::Taken, _) => None,
        };
    }
    Some(status)
}

/// Velero notes every minute that it has looked, and where that failed under which number. That alone is no news worth a write for
/// every location of the cluster.
fn differs_only_in_time(told: &Fields, now: &Fields) -> bool {
    let news = |status: &Fields| {
        let mut status = status.clone();
        status.retain(|field, _| !matches!(field.as_str(), "lastValidationTime" | "lastSyncedTime"));
        if let Some(Value::String(message)) = status.get_mut("message") {
            *message = without_numbers_of_requests(message);
        }
        status
    };
    news(told) == news(now)
}

/// A server's complaint without what it calls the one request it complains about.
fn without_numbers_of_requests(message: &str) -> String {
    let is_number = |part: &&str| part.starts_with("RequestID: ") || part.starts_with("HostID: ");
    message.split(", ").filter(|part| !is_number(part)).collect::<Vec<_>>().join(", ")
}

fn location_synced(status: &mut Status, seen: &Observed, outcomes: &[(&Step, Outcome)], now: &Timestamp) {
    let step =
        outcomes.iter().find(|(step, _)| matches!(step, Step::CreateLocation { .. } | Step::UpdateLocation { .. }));
    let synced = match (step, seen.velero()) {
        (Some((Step::CreateLocation { .. }, Outcome::Done { .. })), _) => Synced::Created,
        (Some((_, Outcome::Done { .. })), _) => Synced::Updated,
        (Some((_, Outcome::Failed(failure))), _) => Synced::Failed(failure),
        (None, Target::Ours(_)) => Synced::AsBefore,
        (None, Target::Taken) => Synced::Taken,
        (Some((_, Outcome::NotRun)) | None, _) => return,
    };
    let words = Words {
        condition: LOCATION_SYNCED,
        created: ("BackupStorageLocationCreated", "BackupStorageLocation successfully created in the OADP namespace"),
        updated: ("BackupStorageLocationUpdated", "BackupStorageLocation successfully updated in the OADP namespace"),
        failed: ("BackupStorageLocationSyncError", "BackupStorageLocation failure during sync"),
    };
    if words.write(&mut status.conditions, &synced, now) {
        status.phase = Some(Phase::forward(status.phase, Phase::Created));
    }
}
