//! A `NonAdminBackup` and the Velero Backup behind it.
//!
//! How it gets to Velero is told in `handover`; for deletion see [`plan`].

mod deletion;
mod step;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::{
    deletion::{ASK_AGAIN, Deletion},
    step::{Release, Step},
};
pub use super::availability::{Location, LocationPhase};
use super::{
    Counts, Handed, Object, OnDelete, OwnBucket, Phase, Policy, QueueInfo, Reference, Victim,
    copied::copied,
    duration, fingerprint,
    handover::{HandOver, Next, Stage, Told, Words},
    ownership::{Claimant, Lies, Origin},
    policy::HeldBack,
    validate::{self, Refusal},
    velero::{Fields, Progress, text, without_others},
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{Outcome, Plan},
    time::Timestamp,
};

/// A backup that is to go waits this long for a location that cannot be reached, unless that says so itself.
const OUT_OF_REACH: Duration = Duration::from_secs(3600);

const WORDS: Words = Words {
    kind: "NonAdminBackup",
    accepted: ("BackupAccepted", "backup accepted"),
    invalid: "InvalidBackupSpec",
    gone: (
        NOT_FOUND,
        "NonAdminBackup is finalized and its associated Velero Backup has been removed. \
         Please create a new NonAdminBackup to initiate a new backup",
    ),
    taken: ("VeleroBackupTaken", "related Velero Backup does not point to NonAdminBackup namespace"),
    scheduled: ("BackupScheduled", "Created Velero Backup object"),
    spec_changed: ("BackupSpecUpdateRejected", UNCHANGEABLE),
};

/// Said of a backup that is kept beyond its time.
const EXPIRED: &str = "Expired";

/// Why a backup is not accepted whose Velero Backup is gone.
pub(super) const NOT_FOUND: &str = "VeleroBackupNotFound";

const EXCLUDED: &str = "Velero backs up nothing of a namespace labelled velero.io/exclude-from-backup=true; remove the label from \
                        the namespace";

/// Said of one that Velero could not have stored when its turn came.
const OUT_OF_QUEUE: &str = "the storage location could not be used while this backup waited for Velero, which would have stopped there: \
                            it is out of the queue; create a new NonAdminBackup once the location is available";

const PASSED_OVER: &str = "the namespace was labelled velero.io/exclude-from-backup=true while this backup waited for Velero, which \
                           would have stopped there: it is out of the queue; remove the label from the namespace and create a new \
                           NonAdminBackup";

/// What whoever changes the spec of a backup that Velero has is told.
pub const UNCHANGEABLE: &str = "changes to backupSpec have no effect; create a new NonAdminBackup";

/// The world around one `NonAdminBackup`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub object: Object,
    pub spec: Fields,
    pub delete_backup: bool,
    pub force_delete_backup: bool,
    pub status: Status,
    pub location: Location,
    /// The Velero Backup under our name, whoever made it.
    pub velero: Option<Handed>,
    /// Where that one lies.
    pub lies: Lies,
    /// All requests to delete that Velero Backup, whoever made them.
    pub deletions: Vec<Deletion>,
    /// `NonAdminRestores` from this backup that are not yet being deleted.
    pub restores: Vec<Victim>,
    /// It was made for a Velero Backup that was there before; see [`super::sync`].
    pub is_synced: bool,
    /// Its location, as long as that does not know that the backup is let go.
    pub unnoted_in: Option<Victim>,
    /// If it is stored in a bucket of the tenant's own, or is to be.
    pub own_bucket: Option<OwnBucket>,
    /// Policies it needs that are not in force.
    pub missing_fences: Vec<String>,
    /// For how long it should have been gone: since it was deleted, or its time had come.
    pub overdue: Duration,
    /// How long ago Velero was done with it; no time at all if that is to come.
    pub ended: Option<Duration>,
}

/// `status` of a `NonAdminBackup`, as far as this file writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero_backup: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero_delete_backup_request: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_info: Option<QueueInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system_pod_volume_backups: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_mover_data_uploads: Option<Counts>,
}

/// What is being done about a `NonAdminBackup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    ForceDelete,
    DeleteWithData,
    ApiDelete,
    CreateOrUpdate,
}

impl Observed {
    pub fn origin(&self) -> Origin {
        self.object.origin(self.status.velero_backup.as_ref())
    }

    fn path(&self) -> Path {
        match (self.force_delete_backup, self.delete_backup, self.object.is_deleting) {
            (true, _, _) => Path::ForceDelete,
            (_, true, _) => Path::DeleteWithData,
            (_, _, true) => Path::ApiDelete,
            _ => Path::CreateOrUpdate,
        }
    }

    fn hand_over(&self, policy: &Policy) -> HandOver<'_> {
        let wanted = self.wanted(policy);
        let ttl = wanted.as_ref().ok().and_then(|spec| text(spec, "ttl")).and_then(duration::parse);
        HandOver {
            words: &WORDS,
            object: &self.object,
            spec: &self.spec,
            phase: self.status.phase,
            conditions: &self.status.conditions,
            reference: self.status.velero_backup.as_ref(),
            found: self.velero.as_ref(),
            is_own: self.is_own(),
            kept_for: ttl.filter(|ttl| !ttl.is_zero()),
            wanted,
        }
    }

    /// Whether what is under the name of its Velero Backup is proven to be it.
    fn is_own(&self) -> bool {
        let origin = self.origin();
        let recorded = self.status.velero_backup.as_ref().and_then(|reference| reference.uid.as_deref());
        let names_location = text(&self.spec, "storageLocation").is_some();
        let claimant = Claimant { origin: &origin, recorded, names_location };
        self.velero.as_ref().is_some_and(|found| claimant.owns(&found.uid, &found.marks, Some(&self.lies)))
    }

    /// The Velero Backup as something we may delete.
    fn own_backup(&self) -> Option<Victim> {
        let found = self.velero.as_ref().filter(|_| self.is_own())?;
        Some(Victim { name: self.origin().nacuuid, uid: found.uid.clone() })
    }

    /// Its location goes, or is gone: what is stored there stays, and nobody can be asked to delete it.
    fn loses_its_location(&self) -> bool {
        matches!(self.location, Location::Missing { .. } | Location::Found { phase: Some(Phase::Deleting), .. })
    }

    /// Velero must find it until it is done with it.
    fn is_at_work(&self) -> bool {
        self.is_own() && self.velero.as_ref().is_some_and(|velero| Progress(&velero.status).is_at_work())
    }

    /// Velero makes it, or deletes what is stored. It would go on without its request to delete, and the policies around own buckets,
    /// which go by that, would not hold any more.
    fn is_in_veleros_hands(&self) -> bool {
        self.is_at_work() || self.own_deletions().any(Deletion::is_under_way)
    }

    /// Nothing of it is stored, nor will be if it goes now.
    fn is_waiting(&self) -> bool {
        self.velero.as_ref().is_some_and(|velero| Progress(&velero.status).is_waiting())
    }

    /// Why Velero would refuse it once its turn has come, and serve nobody else meanwhile. That a tenant's own bucket cannot be used may
    /// be her own doing; one of Croft's may well be there again by then.
    fn is_stranded(&self) -> Option<&'static str> {
        let is_unusable = matches!(
            self.location,
            Location::Found { velero: Some(LocationPhase::Other | LocationPhase::ReadOnly), .. }
        );
        let why = match (self.own_bucket.is_some() && is_unusable, self.object.namespace_is_excluded) {
            (true, _) => OUT_OF_QUEUE,
            (_, true) => PASSED_OVER,
            _ => return None,
        };
        (self.is_waiting() && self.is_own() && !self.object.velero_is_away()).then_some(why)
    }

    /// Why Velero is not asked to delete what is stored.
    fn withheld(&self) -> Option<String> {
        self.own_bucket.as_ref().and_then(|bucket| bucket.reach.withholds())
    }

    /// Why Velero would refuse to delete what is stored.
    fn out_of_reach(&self) -> Option<&'static str> {
        match self.location {
            Location::Found { velero: Some(LocationPhase::Available), .. }
            | Location::Default { velero: None | Some(LocationPhase::Available) }
            | Location::Missing { .. }
            | Location::OfVaultToCome { .. } => None,
            Location::Found { velero: Some(LocationPhase::ReadOnly), .. }
            | Location::Default { velero: Some(LocationPhase::ReadOnly) } => Some(
                "the storage location of this backup is read-only: it goes once that is over; spec.forceDeleteBackup lets the backup \
                 go and leaves what is stored",
            ),
            Location::Found { .. } | Location::Default { velero: Some(LocationPhase::Other) } => Some(
                "the storage location of this backup cannot be reached: it goes once that is over; spec.forceDeleteBackup lets the \
                 backup go and leaves what is stored",
            ),
        }
    }

    /// How long it is kept yet, where Velero does not see to that itself.
    fn expires_in(&self) -> Option<Duration> {
        let is_finished = self.velero.as_ref().is_some_and(|velero| Progress(&velero.status).is_finished());
        self.own_bucket.as_ref().filter(|_| is_finished)?.expires_in
    }

    fn own_deletions(&self) -> impl Iterator<Item = &Deletion> {
        let origin = self.origin();
        self.deletions.iter().filter(move |deletion| origin.owns(&deletion.marks))
    }

    /// The spec for Velero, if the request is allowed and the world is ready for it.
    fn wanted(&self, policy: &Policy) -> Result<Fields, Refusal> {
        if self.is_synced && !self.object.velero_is_away() {
            let message = "related Velero Backup to be synced from does not exist".to_owned();
            return Err(Refusal::Groundless { reason: NOT_FOUND, message });
        }
        if self.is_synced {
            return Err(Refusal::not_yet("VeleroAway", "Velero is not there; this goes on when it is"));
        }
        let spec = validate::backup(&self.spec, &self.object.namespace, policy)?;
        policy.is_clear()?;
        if self.object.namespace_is_excluded {
            // Velero would refuse it once its turn has come, and everybody behind it would wait for that.
            return Err(Refusal::not_yet("NamespaceExcluded", EXCLUDED));
        }
        if !self.missing_fences.is_empty() {
            return Err(Refusal::unfenced("backed up", &self.missing_fences));
        }
        let location = self.location.usable(policy)?;
        if let Some(held_back) = HeldBack::by(policy.limits.backups, self.object.ahead, "unfinished backups") {
            return Err(held_back.into());
        }
        Ok(spec.for_velero(&self.object.namespace, location))
    }
}

/// What to do next.
///
/// Deletion, in the order in which a user's wishes win:
/// - `forceDeleteBackup`: the Velero objects are deleted, the stored data is not waited for;
/// - `deleteBackup`: Velero is asked to delete the data; the request stays until the Velero Backup is gone;
/// - plain deletion: held until one of the two is set, or [`OnDelete::Release`];
/// - in a namespace that goes, the finalizer goes at once;
/// - what Velero is working on is never deleted: that is waited for.
pub fn plan(seen: &Observed, policy: &Policy) -> Plan<Step> {
    // Status first: whoever looks must see that deletion is under way before anything disappears.
    let deletion_is_recorded = seen.status.phase == Some(Phase::Deleting);
    match seen.path() {
        Path::CreateOrUpdate => create(seen, policy),
        _ if !deletion_is_recorded => Plan::settled(),
        Path::ForceDelete | Path::DeleteWithData if !seen.object.is_deleting => {
            Plan::step(Step::DeleteSelf { uid: seen.object.uid.clone() })
        }
        _ if !seen.object.has_finalizer => Plan::settled(),
        _ if seen.object.velero_is_away() && seen.object.needs_no_velero() => release(seen, Release::VeleroAway),
        _ if seen.object.velero_is_away() => Plan::settled(),
        Path::ForceDelete => force_delete(seen),
        Path::DeleteWithData => delete_with_data(seen),
        Path::ApiDelete => api_delete(seen, policy.on_delete),
    }
}

fn create(seen: &Observed, policy: &Policy) -> Plan<Step> {
    let hand_over = seen.hand_over(policy);
    match hand_over.next() {
        Next::Nothing if seen.is_stranded().is_some() => let_go(seen, None),
        Next::Nothing => unlabelled(seen).map_or_else(|| expire(seen), |backup| Plan::step(Step::Label(backup))),
        Next::Finalizer => Plan::step(Step::AddFinalizer { uid: seen.object.uid.clone() }),
        Next::Make(spec) => {
            // Whoever adds it to exactly what was seen has seen the newest: it is not handed over a second time.
            let hold = (!hand_over.is_held()).then(|| Step::Hold { uid: seen.object.uid.clone() });
            let make = Step::CreateBackup { origin: seen.origin(), spec, made_for: fingerprint(&seen.spec) };
            Plan::steps(hold.into_iter().chain([make]))
        }
    }
}

/// A backup in a tenant's own bucket that the policies around those do not know.
fn unlabelled(seen: &Observed) -> Option<Victim> {
    seen.own_bucket.as_ref().filter(|bucket| bucket.lacks_label).and_then(|_| seen.own_backup())
}

/// Its time has come: its data goes, and it says so from then on.
fn expire(seen: &Observed) -> Plan<Step> {
    match (seen.own_backup(), seen.expires_in()) {
        (Some(_), Some(Duration::ZERO)) if seen.out_of_reach().is_some() || seen.loses_its_location() => {
            Plan::settled().look_again(OUT_OF_REACH)
        }
        (Some(backup), Some(Duration::ZERO)) if seen.withheld().is_none() => deletion::ask(seen, backup),
        (Some(_), Some(left)) if !left.is_zero() => Plan::settled().look_again(left),
        _ => Plan::settled(),
    }
}

fn api_delete(seen: &Observed, on_delete: OnDelete) -> Plan<Step> {
    match (seen.own_backup(), on_delete) {
        (None, _) => release(seen, Release::NothingLeft),
        // What is stored stays.
        (Some(_), _) if seen.object.namespace_is_terminating => let_go(seen, Some(Release::NamespaceGoes)),
        (Some(_), OnDelete::Release) => let_go(seen, None),
        (Some(_), OnDelete::Hold) if seen.loses_its_location() || seen.is_stranded().is_some() => let_go(seen, None),
        (Some(_), OnDelete::Hold) => Plan::settled(),
    }
}

fn release(seen: &Observed, because: Release) -> Plan<Step> {
    Plan::step(Step::ReleaseFinalizer { uid: seen.object.uid.clone(), because })
}

fn force_delete(seen: &Observed) -> Plan<Step> {
    let mut plan = let_go(seen, Some(Release::Forced));
    if let Some(location) = seen.unnoted_in.clone().filter(|_| seen.own_backup().is_some()) {
        plan.groups.insert(0, vec![Step::NoteLetGo { location, nacuuid: seen.origin().nacuuid }]);
    }
    plan
}

/// Deletes the Velero objects but not what is stored; then releases, unless they are to be seen gone first.
fn let_go(seen: &Observed, then: Option<Release>) -> Plan<Step> {
    if seen.is_in_veleros_hands() {
        // What is left then goes as [`super::leftover`] has it: no namespace and no location is held up.
        let holds_up = seen.object.namespace_is_terminating || seen.loses_its_location();
        return match seen.own_backup().filter(|_| !seen.is_at_work()) {
            _ if holds_up => release(seen, Release::VeleroAtWork),
            // What Velero was asked for before is seen through.
            Some(backup) => deletion::ask(seen, backup),
            None => Plan::settled(),
        };
    }
    let deletions = seen.own_deletions().map(Deletion::removal);
    let version = seen.velero.as_ref().map(|velero| velero.version.clone()).unwrap_or_default();
    let backup = seen.own_backup().map(|backup| Step::DeleteBackup { backup, version });
    let release = then.map(|because| Step::ReleaseFinalizer { uid: seen.object.uid.clone(), because });
    Plan::steps(deletions.chain(backup).chain(release))
}

fn delete_with_data(seen: &Observed) -> Plan<Step> {
    let mut plan = data_deletion(seen);
    if !seen.restores.is_empty() {
        plan.groups.insert(0, seen.restores.iter().cloned().map(Step::DeleteRestore).collect());
    }
    plan
}

fn data_deletion(seen: &Observed) -> Plan<Step> {
    let Some(backup) = seen.own_backup() else { return release(seen, Release::NothingLeft) };
    if seen.is_waiting() || seen.is_at_work() {
        return let_go(seen, seen.object.namespace_is_terminating.then_some(Release::NamespaceGoes));
    }
    if seen.loses_its_location() || seen.withheld().is_some() {
        return if seen.object.namespace_is_terminating {
            let_go(seen, Some(Release::NamespaceGoes))
        } else {
            Plan::settled()
        };
    }
    if seen.out_of_reach().is_some() && !seen.object.namespace_is_terminating {
        return Plan::settled().look_again(OUT_OF_REACH);
    }
    let asked = deletion::ask(seen, backup);
    if seen.object.namespace_is_terminating {
        let release = Step::ReleaseFinalizer { uid: seen.object.uid.clone(), because: Release::NamespaceGoes };
        return Plan::steps(asked.groups.into_iter().flatten().chain([release]));
    }
    asked
}

/// The status after the plan was carried out as `outcomes` say; `None` where there may be no object left to write it to, and where
/// the next look tells more: Velero's Backup wakes the request it was made for, and has a place in the queue then.
pub fn report(seen: &Observed, policy: &Policy, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Option<Status> {
    let ended = |step: &Step| matches!(step, Step::DeleteSelf { .. } | Step::ReleaseFinalizer { .. });
    let is_made = |step: &Step, outcome: &Outcome| matches!(step, Step::CreateBackup { .. }) && outcome.is_done();
    let is_untold =
        |(step, outcome): &(&Step, Outcome)| (ended(step) && *outcome != Outcome::NotRun) || is_made(step, outcome);
    if outcomes.iter().any(is_untold) {
        return None;
    }
    let mut status = seen.status.clone();
    let hand_over = seen.hand_over(policy);
    match seen.path() {
        Path::CreateOrUpdate => {
            status.take_deletion_back();
            hand_over.accept(&mut status.told(), policy, now);
            status.tell_of_expiry(seen, now);
        }
        path => deletion::tell(&mut status, seen, policy, path, now),
    }
    for (step, outcome) in outcomes {
        if let Step::CreateBackup { .. } = step {
            hand_over.handed(&mut status.told(), outcome, now);
        }
    }
    hand_over.follow(&mut status.told(), now);
    let is_out = |(step, outcome): &(&Step, Outcome)| matches!(step, Step::DeleteBackup { .. }) && outcome.is_done();
    let is_wanted = seen.path() == Path::CreateOrUpdate;
    if let Some(why) = seen.is_stranded().filter(|_| is_wanted && outcomes.iter().any(is_out)) {
        let generation = Some(seen.object.generation);
        status.conditions.set_observed("Accepted", Truth::False, NOT_FOUND, why, generation, now);
    }
    if let Stage::Made(velero) = hand_over.stage() {
        status.velero_backup.get_or_insert_default().spec = Some(copied(&without_others(&velero.spec)));
    }
    Some(status)
}

impl Status {
    fn told(&mut self) -> Told<'_> {
        Told {
            phase: &mut self.phase,
            conditions: &mut self.conditions,
            reference: &mut self.velero_backup,
            queue_info: &mut self.queue_info,
            file_system: &mut self.file_system_pod_volume_backups,
            data_mover: &mut self.data_mover_data_uploads,
        }
    }

    fn tell_of_expiry(&mut self, seen: &Observed, now: &Timestamp) {
        let is_expired = seen.own_backup().is_some() && seen.expires_in() == Some(Duration::ZERO);
        match seen.withheld().filter(|_| is_expired) {
            Some(why) => self.conditions.set(EXPIRED, Truth::True, "DeletionWithheld", why, now),
            None => self.conditions.remove(EXPIRED),
        };
    }

    /// The user does not want it deleted any more, in time.
    fn take_deletion_back(&mut self) {
        if self.phase == Some(Phase::Deleting) {
            self.phase = None;
            self.conditions.remove("Deleting");
        }
    }
}
