//! Which change of which object wakes whom.

use croft_api::{
    Condition,
    backup::{DataProtectionApplication, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    storage::S3Class,
    velero::{BACKUP_NAME_LABEL, Backup, BackupStorageLocation, DeleteBackupRequest, Restore, VolumeSnapshotLocation},
};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{Namespace, Secret},
};
use kube::{Resource, ResourceExt, api::PartialObjectMeta};
use serde::Serialize;
use serde_json::Value;

use super::{
    BACKUP, Caches, LOCATION, RESTORE, VAULT, fences, key, marks,
    request::{TRIED_ANNOTATION, is_excluded},
    vaults::velero_name,
    waiting::is_unfinished_and_not_ours,
};
use crate::engine::{Change, Key, Work, is_deleting};

/// A request wakes itself and what waits for it.
pub(super) fn wake_on_requests(caches: &Caches) {
    caches.locations.looked_after_by(LOCATION);
    caches.backups.looked_after_by(BACKUP);
    caches.restores.looked_after_by(RESTORE);
    let seen = caches.clone();
    caches.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
        let (namespace, name) = (change.object().namespace().unwrap_or_default(), change.object().name_any());
        let mut keys = own(LOCATION, change);
        let usable = |side: Option<&NonAdminBackupStorageLocation>| {
            side.map(|side| {
                let told = side.status.as_ref().and_then(|status| status.phase);
                (side.uid(), is_deleting(&side.metadata), told, velero_name(side).map(str::to_owned))
            })
        };
        if usable(change.before) != usable(change.after) {
            keys.extend(seen.waiting_backups(&namespace, &name));
        }
        let generation = |side: Option<&NonAdminBackupStorageLocation>| side.and_then(|side| side.metadata.generation);
        if generation(change.before) != generation(change.after) {
            keys.extend(seen.locations_in(&namespace));
        }
        keys
    });
    let seen = caches.clone();
    caches.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
        let (namespace, name) = (change.object().namespace().unwrap_or_default(), change.object().name_any());
        let mut keys = seen.waiting_restores(&namespace, Some(&name));
        keys.extend(own(BACKUP, change));
        let stays = |side: Option<&NonAdminBackup>| side.is_some_and(|side| !is_deleting(&side.metadata));
        if stays(change.before) && !stays(change.after) {
            keys.extend(seen.locations_kept_where_they_are(&namespace));
        }
        keys
    });
    caches.restores.wakes(|change: Change<'_, NonAdminRestore>| own(RESTORE, change));
}

/// The request itself, unless only the wording of its status has changed: what we say about a failure is no reason to try again
/// at once.
pub(super) fn own<K: ResourceExt + Serialize>(work: Work, change: Change<'_, K>) -> Vec<Key> {
    let is_reworded = change.before.map(meaning) == change.after.map(meaning);
    if is_reworded { Vec::new() } else { vec![key(work, change.object())] }
}

/// The object without its version, our note of a try, and the words and times of its conditions.
fn meaning(object: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(TRIED_ANNOTATION);
        }
    }
    for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("message");
            condition.remove("lastTransitionTime");
        }
    }
    object
}

/// What Velero does wakes the request it is done for, and whoever waits for it.
pub(super) fn wake_on_velero(caches: &Caches) {
    let queue = caches.backup_queue.clone();
    caches.velero_backups.wakes(move |change: Change<'_, Backup>| queue.woken(BACKUP, marks::BACKUP, change));
    let (queue, seen) = (caches.restore_queue.clone(), caches.clone());
    caches.velero_restores.wakes(move |change: Change<'_, Restore>| {
        let mut keys = queue.woken(RESTORE, marks::RESTORE, change);
        let is_ahead = |restore: Option<&Restore>| restore.is_some_and(is_unfinished_and_not_ours);
        if is_ahead(change.before) && !is_ahead(change.after) {
            keys.extend(seen.all_waiting_restores());
        }
        keys
    });
    let (backups, restores) = (caches.clone(), caches.clone());
    caches.transfers.wake(
        move |name| {
            let backup = backups.velero_backups.get(&backups.velero_namespace, name)?;
            marks::BACKUP.request(BACKUP, &backup.metadata)
        },
        move |name| {
            let restore = restores.velero_restores.get(&restores.velero_namespace, name)?;
            marks::RESTORE.request(RESTORE, &restore.metadata)
        },
    );
    let seen = caches.clone();
    caches.velero_locations.wakes(move |change: Change<'_, BackupStorageLocation>| {
        let mut keys = Vec::new();
        let stands = |side: Option<&BackupStorageLocation>| {
            side.map(|side| {
                let (phase, access_mode) =
                    (side.phase().map(str::to_owned), side.spec.access_mode().map(str::to_owned));
                (phase, access_mode, side.spec.is_default())
            })
        };
        let is_news = stands(change.before) != stands(change.after);
        let Some(owner) = marks::LOCATION.request(LOCATION, &change.object().metadata) else {
            // What lies with the administrator is restored from there, and some may go there.
            if is_news {
                keys.extend(seen.all_waiting_restores());
                keys.extend(seen.placeless_backups());
            }
            return keys;
        };
        if is_news {
            keys.extend(seen.waiting_backups(&owner.namespace, &owner.name));
            keys.extend(seen.queued_in(&change.object().name_any()));
            keys.extend(seen.waiting_restores(&owner.namespace, None));
        }
        if change.before.map(|before| &before.spec) == change.after.map(|after| &after.spec) {
            keys.push(owner);
        } else {
            keys.extend(seen.locations_in(&owner.namespace));
        }
        keys
    });
    let seen = caches.clone();
    caches.velero_deletions.wakes(move |change: Change<'_, DeleteBackupRequest>| {
        // An administrator's own request carries no marks of ours, but the Backup it is for does.
        let backup = change.object().labels().get(BACKUP_NAME_LABEL);
        let backup = backup.and_then(|name| seen.velero_backups.get(&seen.velero_namespace, name));
        backup.and_then(|backup| marks::BACKUP.request(BACKUP, &backup.metadata)).into_iter().collect()
    });
}

/// Secrets that locations name or were copied to, servers they may name, and namespaces that must not be held up.
pub(super) fn wake_on_surroundings(caches: &Caches) {
    let seen = caches.clone();
    caches.applications.wakes(move |change: Change<'_, DataProtectionApplication>| {
        let said = |side: Option<&DataProtectionApplication>| side.map(|side| side.spec.non_admin.clone());
        if said(change.before) == said(change.after) { Vec::new() } else { seen.everybody() }
    });
    let seen = caches.clone();
    caches.policies.wakes(move |change: Change<'_, ValidatingAdmissionPolicy>| {
        seen.since.note_policy(&change);
        seen.concerned_by_fence(&change.object().name_any())
    });
    let seen = caches.clone();
    caches.bindings.wakes(move |change: Change<'_, ValidatingAdmissionPolicyBinding>| {
        seen.since.note_binding(&change);
        seen.concerned_by_fence(&change.object().name_any())
    });
    let seen = caches.clone();
    caches.snapshot_locations.wakes(move |change: Change<'_, VolumeSnapshotLocation>| {
        if change.before.is_some() && change.after.is_some() { Vec::new() } else { seen.withheld_backups() }
    });
    let seen = caches.clone();
    caches.classes.wakes(move |change: Change<'_, S3Class>| {
        let endpoint = |class: Option<&S3Class>| class.map(|class| class.spec.endpoint.clone());
        if endpoint(change.before) == endpoint(change.after) {
            return Vec::new();
        }
        seen.locations.all().iter().map(|location| key(LOCATION, &**location)).collect()
    });
    let seen = caches.clone();
    caches.secrets.wakes(move |change: Change<'_, PartialObjectMeta<Secret>>| {
        let secret = change.object();
        let namespace = secret.namespace().unwrap_or_default();
        let mut keys = seen.locations_of_secret(&namespace, &secret.name_any());
        if namespace == seen.velero_namespace {
            keys.extend(marks::LOCATION.request(LOCATION, &secret.metadata));
            keys.extend(marks::VAULT.request(LOCATION, &secret.metadata));
            keys.extend(marks::VAULT.request(VAULT, &secret.metadata));
        }
        keys
    });
    let seen = caches.clone();
    caches.namespaces.wakes(move |change: Change<'_, Namespace>| {
        let goes = |namespace: Option<&Namespace>| namespace.is_none_or(|namespace| is_deleting(namespace.meta()));
        if change.object().name_any() == seen.velero_namespace && goes(change.before) != goes(change.after) {
            return seen.everybody();
        }
        if !goes(change.after) || (change.before.is_some() && goes(change.before)) {
            return Vec::new();
        }
        let namespace = change.object().name_any();
        let locations = seen.locations.in_namespace(&namespace).into_iter().map(|location| key(LOCATION, &*location));
        let backups = seen.backups.in_namespace(&namespace).into_iter().map(|backup| key(BACKUP, &*backup));
        let restores = seen.restores.in_namespace(&namespace).into_iter().map(|restore| key(RESTORE, &*restore));
        let vaults = seen.vaults.in_namespace(&namespace).into_iter().map(|vault| key(VAULT, &*vault));
        locations.chain(backups).chain(restores).chain(vaults).collect()
    });
    let seen = caches.clone();
    caches.namespaces.wakes(move |change: Change<'_, Namespace>| {
        if change.before.is_some_and(is_excluded) == change.after.is_some_and(is_excluded) {
            return Vec::new();
        }
        seen.unfinished_backups(&change.object().name_any())
    });
}

impl Caches {
    /// Locations of a namespace that Velero has and whose change is refused: where they store there may be backups.
    fn locations_kept_where_they_are(&self, namespace: &str) -> Vec<Key> {
        let is_refused = |location: &NonAdminBackupStorageLocation| {
            let told = location.status.iter().flat_map(|status| &status.conditions);
            let mut refusals = told.filter(|it| it.type_ == "Accepted" && it.status == "False");
            velero_name(location).is_some() && refusals.any(|it| it.reason == "BslSpecValidation")
        };
        let locations = self.contenders_in(namespace).into_iter();
        locations.filter(|location| is_refused(location)).map(|location| key(LOCATION, &*location)).collect()
    }

    /// Whoever may wait for the policy of this name to be in force, or may not go on without it.
    fn concerned_by_fence(&self, policy: &str) -> Vec<Key> {
        if !fences::is_waited_for(policy) {
            return Vec::new();
        }
        let mut keys = self.held_by_fences();
        if fences::is_around_own_buckets(policy) {
            let locations = self.locations.all().into_iter();
            let own = locations.filter(|location| self.vault_of(location).is_none());
            keys.extend(own.map(|location| key(LOCATION, &*location)));
        }
        keys
    }

    /// Whoever may wait for a policy to be in force.
    fn held_by_fences(&self) -> Vec<Key> {
        let waits = |told: Option<&Vec<Condition>>| {
            told.is_some_and(|told| told.iter().any(|condition| condition.reason == "PoliciesMissing"))
        };
        let backups = self.backups.all().into_iter();
        let backups = backups.filter(|it| waits(it.status.as_ref().map(|status| &status.conditions)));
        let locations = self.locations.all().into_iter();
        let locations = locations.filter(|it| waits(it.status.as_ref().map(|status| &status.conditions)));
        let keys = self.all_waiting_restores().into_iter().chain(self.withheld_backups());
        let keys = keys.chain(backups.map(|backup| key(BACKUP, &*backup)));
        keys.chain(locations.map(|location| key(LOCATION, &*location))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_whose_status_was_only_reworded_is_not_looked_at_again() {
        let backup = |phase: &str, reason: &str, message: &str| -> NonAdminBackup {
            let condition = json!({"type": "Accepted", "status": "False", "reason": reason, "message": message,
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let backup = json!({
                "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
                "metadata": {"namespace": "shop", "name": "nightly", "resourceVersion": message.len().to_string()},
                "spec": {"backupSpec": {}}, "status": {"phase": phase, "conditions": [condition]},
            });
            serde_json::from_value(backup).unwrap()
        };
        let before = backup("New", "ApiServerError", "read tcp 10.0.0.5:40312: reset");
        let woken = |after: &NonAdminBackup| {
            own(BACKUP, Change { before: Some(&before), after: Some(after), live: true }).len()
        };
        assert_eq!(woken(&backup("New", "ApiServerError", "read tcp 10.0.0.5:412: reset")), 0);
        assert_eq!(woken(&backup("New", "Rejected", "read tcp 10.0.0.5:40312: reset")), 1);
        assert_eq!(woken(&backup("Created", "ApiServerError", "read tcp 10.0.0.5:40312: reset")), 1);
    }
}
