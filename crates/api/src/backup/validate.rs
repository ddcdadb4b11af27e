//! The checks of [`croft_core::backup::validate`], on the kinds themselves.

use croft_core::{
    backup::{
        Policy, duration,
        schedule::{self, Keep, cron},
        validate::{self, BackupSpec, Invalid, LocationSpec, RestoreSpec},
        vault::{self, names},
    },
    name::is_dns_subdomain,
    storage::{OnDelete, QuotaAsked},
};
use kube::ResourceExt;

use super::{
    BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminDownloadRequest,
    NonAdminRestore, VaultOnDelete,
};
use crate::{Problem, storage::validate::quota};

pub fn backup(object: &NonAdminBackup, policy: &Policy) -> Result<BackupSpec, Invalid> {
    validate::backup(&object.spec.backup_spec.0.0, &object.namespace().unwrap_or_default(), policy)
}

pub fn restore(object: &NonAdminRestore, policy: &Policy) -> Result<RestoreSpec, Invalid> {
    validate::restore(&object.spec.restore_spec.0.0, &object.namespace().unwrap_or_default(), policy)
}

pub fn location(object: &NonAdminBackupStorageLocation, policy: &Policy) -> Result<LocationSpec, Invalid> {
    let namespace = object.namespace().unwrap_or_default();
    validate::location(&object.spec.backup_storage_location_spec.0.0, &namespace, policy)
}

pub fn download(object: &NonAdminDownloadRequest) -> Result<(), Invalid> {
    if is_dns_subdomain(&object.spec.target.name) {
        return Ok(());
    }
    Err(Invalid(
        "NonAdminDownloadRequest spec.target.name must be the name of a NonAdminBackup or NonAdminRestore in this namespace".into(),
    ))
}

/// The vault's spec, or everything that is wrong with it.
pub fn vault(object: &BackupVault) -> Result<vault::Spec, Vec<Problem>> {
    let mut problems = Vec::new();
    if object.metadata.name.as_deref().is_some_and(|name| !names::is_valid(name)) {
        let rule = format!(
            "must be made of a-z, 0-9 and -, begin and end with a letter or digit and have at most {} characters",
            names::LONGEST_NAME
        );
        problems.push(Problem::new("metadata.name", rule));
    }
    let class = object.spec.s3_class_name.as_ref().filter(|name| !name.is_empty());
    if class.is_some_and(|name| !is_dns_subdomain(name)) {
        let rule = "must be the name of an S3Class: a-z, 0-9, - and ., beginning and ending with a letter or digit";
        problems.push(Problem::new("spec.s3ClassName", rule));
    }
    let asked =
        object.spec.quota.as_ref().map(|asked| quota("spec.quota", asked.size.as_ref(), asked.objects.as_ref()));
    let asked = asked.unwrap_or_else(|| Ok(QuotaAsked::default())).unwrap_or_else(|more| {
        problems.extend(more);
        QuotaAsked::default()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(vault::Spec {
        class: class.cloned(),
        quota: QuotaAsked { buckets: Some(1), ..asked },
        on_delete: match object.spec.on_delete {
            VaultOnDelete::Retain => OnDelete::Retain,
            VaultOnDelete::Purge => OnDelete::Purge,
        },
    })
}

/// The schedule's spec, or everything that is wrong with it.
pub fn schedule(object: &BackupSchedule, policy: &Policy) -> Result<schedule::Spec, Vec<Problem>> {
    let (spec, mut problems) = (&object.spec, Vec::new());
    let mut wrong = |field: &str, message: String| problems.push(Problem::new(field, message));
    if object.metadata.name.as_ref().is_some_and(|name| name.len() > schedule::LONGEST_NAME) {
        wrong("metadata.name", format!("must have at most {} characters; shorten it", schedule::LONGEST_NAME));
    }
    let cron = spec.schedule.parse::<cron::Cron>().map_err(|error| wrong("spec.schedule", error.to_string())).ok();
    let name = spec.time_zone.as_deref().unwrap_or_default();
    let zone = cron::zone(name);
    if zone.is_none() {
        wrong("spec.timeZone", format!("there is no time zone {name}; give one such as Europe/Paris"));
    }
    let namespace = object.namespace().unwrap_or_default();
    if let Err(Invalid(message)) = validate::backup(&spec.template.backup_spec.0.0, &namespace, policy) {
        wrong("spec.template.backupSpec", message);
    }
    let keep = spec.keep.clone().unwrap_or_default();
    let at_most = keep.duration.as_deref().map(|text| (text, duration::parse(text).filter(|most| !most.is_zero())));
    if let Some((text, None)) = at_most {
        wrong("spec.keep.for", format!("{text} must be a duration such as 720h"));
    }
    let last = keep.last.map(|last| u32::try_from(last.max(1)).unwrap_or(u32::MAX));
    match (cron, zone, problems.is_empty()) {
        (Some(cron), Some(zone), true) => Ok(schedule::Spec {
            cron,
            zone,
            is_suspended: spec.suspend,
            backup_spec: spec.template.backup_spec.0.0.clone(),
            keep: Keep { last, at_most: at_most.and_then(|(_, most)| most) },
        }),
        _ => Err(problems),
    }
}
