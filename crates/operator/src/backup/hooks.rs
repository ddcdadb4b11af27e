//! What is checked at the door: the same functions the reconcilers call, with the settings in force.

use croft_api::{
    Problem,
    backup::{
        BackupSchedule, BackupVault, NAB_SYNCED_FROM_NACUUID_LABEL, NonAdminBackup, NonAdminBackupStorageLocation,
        NonAdminDownloadRequest, NonAdminPhase, NonAdminRestore, validate,
    },
};
use croft_core::backup::{Fields, Policy, backup, fingerprint, restore, validate::Invalid};

use kube::ResourceExt;

use super::{Caches, GROUP, request};
use crate::{
    admission::{Context, Hook, Operation, Refusal, Request, Review, Rule, Verdict, WhenDown, review},
    settings::SharedSettings,
};

const fn published(name: &'static str, path: &'static str, resource: &'static str, review: Review) -> Hook {
    hook("oadp.openshift.io", name, path, resource, review)
}

const fn hook(
    group: &'static str,
    name: &'static str,
    path: &'static str,
    resource: &'static str,
    review: Review,
) -> Hook {
    Hook {
        name,
        path,
        group,
        version: "v1alpha1",
        resource,
        scope: "Namespaced",
        operations: &[Operation::Create, Operation::Update],
        writes: false,
        // Whatever gets in is checked again before anything is done about it.
        when_down: WhenDown::LetPass,
        review,
    }
}

pub(super) const HOOKS: &[Hook] = &[
    published(
        "vnonadminbackup.croft.dev",
        "/validate-oadp-openshift-io-v1alpha1-nonadminbackup",
        "nonadminbackups",
        review::<BackupRule>,
    ),
    published(
        "vnonadminrestore.croft.dev",
        "/validate-oadp-openshift-io-v1alpha1-nonadminrestore",
        "nonadminrestores",
        review::<RestoreRule>,
    ),
    published(
        "vnonadminbackupstoragelocation.croft.dev",
        "/validate-oadp-openshift-io-v1alpha1-nonadminbackupstoragelocation",
        "nonadminbackupstoragelocations",
        review::<LocationRule>,
    ),
    published(
        "vnonadmindownloadrequest.croft.dev",
        "/validate-oadp-openshift-io-v1alpha1-nonadmindownloadrequest",
        "nonadmindownloadrequests",
        review::<DownloadRule>,
    ),
    hook(
        GROUP,
        "vbackupvault.croft.dev",
        "/validate-croft-dev-v1alpha1-backupvault",
        "backupvaults",
        review::<VaultRule>,
    ),
    hook(
        GROUP,
        "vbackupschedule.croft.dev",
        "/validate-croft-dev-v1alpha1-backupschedule",
        "backupschedules",
        review::<ScheduleRule>,
    ),
];

/// What reviews look at.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) caches: Caches,
    pub(super) settings: SharedSettings,
}

/// The administrator's choices; where the part is switched off, none.
fn policy(context: &Context) -> Policy {
    let door = context.ground::<Door>();
    door.map(|door| request::policy(&door.caches, &door.settings)).unwrap_or_default()
}

fn refused(field: &str, message: impl Into<String>) -> Refusal {
    Refusal::Invalid(vec![Problem::new(field, message)])
}

/// Refuses what is wrong with the new object, unless the same was wrong with the old one.
fn unless_invalid<K>(
    request: &Request<K>,
    field: &str,
    check: impl Fn(&K) -> Result<(), Invalid>,
) -> Result<(), Refusal> {
    let found = |object: &Option<K>| object.as_ref().and_then(|object| check(object).err());
    match found(&request.object) {
        Some(invalid) if found(&request.old).as_ref() != Some(&invalid) => Err(refused(field, invalid.0)),
        _ => Ok(()),
    }
}

/// What Velero has stays as it was asked for. Programs in Go may write the same one in other words.
fn keeps_what_was_handed_over(phase: Option<NonAdminPhase>, before: &Fields, after: &Fields) -> bool {
    !matches!(phase, Some(NonAdminPhase::Created | NonAdminPhase::Deleting))
        || fingerprint(before) == fingerprint(after)
}

pub(super) struct BackupRule;

impl Rule for BackupRule {
    type Kind = NonAdminBackup;

    async fn judge(request: Request<NonAdminBackup>, context: &Context) -> Verdict {
        let policy = policy(context);
        if let (Some(old), Some(new)) = (&request.old, &request.object) {
            let phase = old.status.as_ref().and_then(|status| status.phase);
            if !keeps_what_was_handed_over(phase, &old.spec.backup_spec.0.0, &new.spec.backup_spec.0.0) {
                return Err(refused("spec.backupSpec", backup::UNCHANGEABLE));
            }
        }
        // One that was found in a bucket is as it was; that it was found there is proven before anything is done about it.
        let is_synced = |object: &NonAdminBackup| object.labels().contains_key(NAB_SYNCED_FROM_NACUUID_LABEL);
        unless_invalid(&request, "spec.backupSpec", |object| {
            if is_synced(object) { Ok(()) } else { validate::backup(object, &policy).map(drop) }
        })?;
        Ok(Vec::new())
    }
}

pub(super) struct RestoreRule;

impl Rule for RestoreRule {
    type Kind = NonAdminRestore;

    async fn judge(request: Request<NonAdminRestore>, context: &Context) -> Verdict {
        let policy = policy(context);
        if let (Some(old), Some(new)) = (&request.old, &request.object) {
            let phase = old.status.as_ref().and_then(|status| status.phase);
            if !keeps_what_was_handed_over(phase, &old.spec.restore_spec.0.0, &new.spec.restore_spec.0.0) {
                return Err(refused("spec.restoreSpec", restore::UNCHANGEABLE));
            }
        }
        unless_invalid(&request, "spec.restoreSpec", |object| validate::restore(object, &policy).map(drop))?;
        let checked = request.object.as_ref().and_then(|object| validate::restore(object, &policy).ok());
        Ok(checked.and_then(|spec| spec.in_vain(&policy)).into_iter().collect())
    }
}

pub(super) struct LocationRule;

impl Rule for LocationRule {
    type Kind = NonAdminBackupStorageLocation;

    async fn judge(request: Request<NonAdminBackupStorageLocation>, context: &Context) -> Verdict {
        let policy = policy(context);
        let field = "spec.backupStorageLocationSpec";
        let is_vaults = |object: &NonAdminBackupStorageLocation| {
            context.ground::<Door>().is_some_and(|door| door.caches.vault_of(object).is_some())
        };
        unless_invalid(&request, field, |object| {
            if is_vaults(object) { Ok(()) } else { validate::location(object, &policy).map(drop) }
        })?;
        Ok(Vec::new())
    }
}

pub(super) struct DownloadRule;

impl Rule for DownloadRule {
    type Kind = NonAdminDownloadRequest;

    async fn judge(request: Request<NonAdminDownloadRequest>, _: &Context) -> Verdict {
        unless_invalid(&request, "spec.target.name", validate::download)?;
        Ok(Vec::new())
    }
}

/// Refuses everything that is wrong with the new object, unless exactly that was wrong with the old one.
fn unless_problems<K>(request: &Request<K>, check: impl Fn(&K) -> Vec<Problem>) -> Verdict {
    let found = |object: &Option<K>| object.as_ref().map(&check).unwrap_or_default();
    let problems = found(&request.object);
    if problems.is_empty() || problems == found(&request.old) {
        return Ok(Vec::new());
    }
    Err(Refusal::Invalid(problems))
}

pub(super) struct VaultRule;

impl Rule for VaultRule {
    type Kind = BackupVault;

    async fn judge(request: Request<BackupVault>, _: &Context) -> Verdict {
        unless_problems(&request, |vault| validate::vault(vault).err().unwrap_or_default())
    }
}

pub(super) struct ScheduleRule;

impl Rule for ScheduleRule {
    type Kind = BackupSchedule;

    async fn judge(request: Request<BackupSchedule>, context: &Context) -> Verdict {
        let policy = policy(context);
        unless_problems(&request, |schedule| validate::schedule(schedule, &policy).err().unwrap_or_default())
    }
}
