//! Transfers of volumes, as Velero's own objects tell: whose they are and in which phase.

use std::sync::Arc;

use croft_api::velero::{
    BACKUP_NAME_LABEL, DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore, RESTORE_NAME_LABEL,
};
use croft_core::backup;
use kube::{Resource, ResourceExt};

use super::BACKUPS;
use crate::engine::{Cache, Change, EngineBuilder, Key, Scope};

/// Index: name of the Backup or Restore it is for.
const OF: &str = "of";

#[derive(Clone, Debug)]
pub(super) struct Transfers {
    pod_volume_backups: Arc<Cache<PodVolumeBackup>>,
    pod_volume_restores: Arc<Cache<PodVolumeRestore>>,
    uploads: Arc<Cache<DataUpload>>,
    downloads: Arc<Cache<DataDownload>>,
}

/// A transfer of either kind.
trait Transfer: Resource {
    /// The label that names its Backup or Restore.
    const OF: &'static str;

    fn phase(&self) -> Option<&str>;
}

macro_rules! transfer {
    ($kind:ty, $of:expr) => {
        impl Transfer for $kind {
            const OF: &'static str = $of;

            fn phase(&self) -> Option<&str> {
                self.phase()
            }
        }
    };
}

transfer!(PodVolumeBackup, BACKUP_NAME_LABEL);
transfer!(DataUpload, BACKUP_NAME_LABEL);
transfer!(PodVolumeRestore, RESTORE_NAME_LABEL);
transfer!(DataDownload, RESTORE_NAME_LABEL);

/// The Backup or Restore a transfer says it is for.
fn of<K: Transfer>(transfer: &K) -> Vec<String> {
    transfer.labels().get(K::OF).cloned().into_iter().collect()
}

impl Transfers {
    pub(super) fn open(engine: &mut EngineBuilder, velero: &Scope) -> Self {
        let all = Self {
            pod_volume_backups: engine.dispensable_objects(BACKUPS, velero).0,
            pod_volume_restores: engine.dispensable_objects(BACKUPS, velero).0,
            uploads: engine.dispensable_objects(BACKUPS, velero).0,
            downloads: engine.dispensable_objects(BACKUPS, velero).0,
        };
        all.pod_volume_backups.index(OF, of);
        all.uploads.index(OF, of);
        all.pod_volume_restores.index(OF, of);
        all.downloads.index(OF, of);
        all
    }

    /// A transfer that enters another phase wakes the request of its Backup or Restore.
    pub(super) fn wake<B, R>(&self, of_backup: B, of_restore: R)
    where
        B: Fn(&str) -> Option<Key> + Clone + Send + Sync + 'static,
        R: Fn(&str) -> Option<Key> + Clone + Send + Sync + 'static,
    {
        wake(&self.pod_volume_backups, of_backup.clone());
        wake(&self.uploads, of_backup);
        wake(&self.pod_volume_restores, of_restore.clone());
        wake(&self.downloads, of_restore);
    }

    pub(super) fn of_backup(&self, name: &str) -> backup::Transfers {
        backup::Transfers {
            file_system: phases(&self.pod_volume_backups, name),
            data_mover: phases(&self.uploads, name),
        }
    }

    pub(super) fn of_restore(&self, name: &str) -> backup::Transfers {
        backup::Transfers {
            file_system: phases(&self.pod_volume_restores, name),
            data_mover: phases(&self.downloads, name),
        }
    }
}

fn wake<K: Transfer + Send + Sync + 'static>(
    cache: &Cache<K>,
    request: impl Fn(&str) -> Option<Key> + Send + Sync + 'static,
) {
    cache.wakes(move |change: Change<'_, K>| {
        if change.before.map(K::phase) == change.after.map(K::phase) {
            return Vec::new();
        }
        of(change.object()).iter().filter_map(|name| request(name)).collect()
    });
}

fn phases<K: Transfer>(cache: &Cache<K>, name: &str) -> Vec<String> {
    let transfers = cache.by(OF, name);
    transfers.iter().map(|transfer| transfer.phase().unwrap_or_default().to_owned()).collect()
}
