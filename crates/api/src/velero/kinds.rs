//! The kinds themselves, usable with `kube::Api` and watchers.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use super::specs::{
    BackupSpec, BackupStorageLocationSpec, DeleteBackupRequestSpec, DownloadRequestSpec, RestoreSpec, WorkSpec,
};
use super::statuses::{
    BackupStatus, BackupStorageLocationStatus, DeleteBackupRequestStatus, DownloadRequestStatus, RestoreStatus,
    WorkStatus,
};

const GROUP: &str = "velero.io";

macro_rules! velero_kind {
    ($(#[$meta:meta])* $kind:ident, $version:literal, $plural:literal, $spec:ty, $status:ty) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        pub struct $kind {
            #[serde(default)]
            pub metadata: ObjectMeta,
            #[serde(default)]
            pub spec: $spec,
            #[serde(default)]
            pub status: Option<$status>,
        }

        impl $kind {
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
                Self { metadata, spec, status: None }
            }

            /// The phase Velero last reported.
            pub fn phase(&self) -> Option<&str> {
                self.status.as_ref()?.phase()
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let fields = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($kind), fields)?;
                object.serialize_field("apiVersion", &Self::api_version(&()))?;
                object.serialize_field("kind", &Self::kind(&()))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }

        impl Resource for $kind {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

velero_kind!(
    /// A backup.
    Backup, "v1", "backups", BackupSpec, BackupStatus
);
velero_kind!(
    /// A restore.
    Restore, "v1", "restores", RestoreSpec, RestoreStatus
);
velero_kind!(
    /// Asks Velero to delete a backup with its data.
    DeleteBackupRequest, "v1", "deletebackuprequests", DeleteBackupRequestSpec, DeleteBackupRequestStatus
);
velero_kind!(
    /// Asks Velero for a signed URL.
    DownloadRequest, "v1", "downloadrequests", DownloadRequestSpec, DownloadRequestStatus
);
velero_kind!(
    /// A place where backups are stored.
    BackupStorageLocation, "v1", "backupstoragelocations", BackupStorageLocationSpec, BackupStorageLocationStatus
);
velero_kind!(
    /// A place where snapshots of volumes are. Read only.
    VolumeSnapshotLocation, "v1", "volumesnapshotlocations", WorkSpec, WorkStatus
);
velero_kind!(
    /// The backup of one volume through the file system. Read only.
    PodVolumeBackup, "v1", "podvolumebackups", WorkSpec, WorkStatus
);
velero_kind!(
    /// The restore of one volume through the file system. Read only.
    PodVolumeRestore, "v1", "podvolumerestores", WorkSpec, WorkStatus
);
velero_kind!(
    /// The transfer of one snapshot into a storage location. Read only.
    DataUpload, "v2alpha1", "datauploads", WorkSpec, WorkStatus
);
velero_kind!(
    /// The transfer of one snapshot out of a storage location. Read only.
    DataDownload, "v2alpha1", "datadownloads", WorkSpec, WorkStatus
);
