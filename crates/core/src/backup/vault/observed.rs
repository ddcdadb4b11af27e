//! What a decision about a vault looks at.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    backup::{
        names::nacuuid,
        ownership::{Marks, Origin},
        policy::HeldBack,
        velero::Fields,
    },
    conditions::Conditions,
    secret::Secret,
    storage::{
        Class, ClassChoice, OnDelete, Problem, QuotaAsked, Target, Usage,
        claim::{Backend, Books, ClaimIdentity, FreshKeys, Phase, Record},
        ledger::Form,
    },
    time::Timestamp,
};

/// Everything known about one vault, by its namespace and name. Either the vault or its record may be missing.
#[derive(Clone, Debug)]
pub struct Observed {
    /// If missing, its absence was asked of the API server itself, not of a cache.
    pub vault: Option<Vault>,
    pub namespace_terminating: bool,
    /// UID of the namespace, if it is there.
    pub namespace_uid: Option<String>,
    /// The S3User called after the vault.
    pub record: Option<Record>,
    pub backend: Backend,
    /// Certificates the gateway is trusted by, if they are not the usual ones.
    pub ca_bundle: Option<String>,
    /// What the books of its team say about the vault.
    pub books: Books,
    /// The Secret under the vault's name for it in Velero's namespace, whoever made it.
    pub keys: Option<KeysSeen>,
    /// The same of the vault on record, where that is another one.
    pub earlier_keys: Option<KeysSeen>,
    /// The `NonAdminBackupStorageLocation` of the vault's name, whoever made it.
    pub location: Option<LocationSeen>,
    /// The last backup in the vault that was finished.
    pub last_backup: Option<LastBackup>,
    /// Keys the gateway lists and nobody gets in with: it lost the way from the key to the user.
    pub lost: BTreeSet<String>,
    /// Whether the gateway has just refused [the key to try](super::key_to_try) although the user has it.
    pub is_key_refused: bool,
    /// Used only where a key has to be made.
    pub fresh: FreshKeys,
    /// Vaults of the namespace that came before it.
    pub ahead: u64,
    /// How many a namespace may have; 0 does not limit.
    pub limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vault {
    pub target: Target,
    pub generation: i64,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    pub spec: Result<Spec, Vec<Problem>>,
    pub status: Status,
}

/// A valid spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub class: Option<String>,
    /// Always of one bucket.
    pub quota: QuotaAsked,
    pub on_delete: OnDelete,
}

/// `status` of a `BackupVault`, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub s3_class_name: Option<String>,
    pub bucket: Option<String>,
    pub quota: Option<QuotaTold>,
    pub used: Option<Usage>,
    pub last_backup: Option<LastBackup>,
    pub conditions: Conditions,
}

/// A quota in force, in canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaTold {
    pub size: String,
    pub objects: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBackup {
    /// Name of the `NonAdminBackup` it was made for.
    pub name: String,
    pub completion_time: Timestamp,
}

/// The Secret with the vault's keys, for Velero alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysSeen {
    pub target: Target,
    pub marks: Marks,
    /// The credentials in it.
    pub cloud: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LocationSeen {
    pub target: Target,
    /// UID of the controlling owner.
    pub owner: Option<String>,
    pub deleting: bool,
    pub spec: Fields,
    /// Whether Velero says that it can be used.
    pub is_available: bool,
    /// What it says about itself if not.
    pub told: Option<String>,
}

impl Vault {
    pub fn identity(&self) -> ClaimIdentity {
        ClaimIdentity {
            namespace: self.target.namespace.clone(),
            name: self.target.name.clone(),
            uid: self.target.uid.clone(),
        }
    }

    pub(super) fn form(&self) -> Form {
        Form { uid: self.target.uid.clone(), generation: self.generation }
    }
}

impl Observed {
    /// The record, if it was made for this very vault.
    pub(super) fn own_record(&self, vault: &Vault) -> Option<&Record> {
        self.record.as_ref().filter(|record| record.belongs_to(&vault.target.uid))
    }

    /// Too many came before it. What is on record stays, as does what comes back.
    pub(super) fn held_back(&self) -> Option<HeldBack> {
        HeldBack::by(self.limit, self.ahead, "vaults").filter(|_| self.record.is_none())
    }

    /// The Secret of a vault, proven to be its own.
    pub(super) fn keys_of(&self, vault: &ClaimIdentity) -> Option<&KeysSeen> {
        self.keys.iter().chain(&self.earlier_keys).find(|keys| keys_origin(vault).owns(&keys.marks))
    }

    /// Whether the vault may have the user of a record that is not its own: an administrator says so, or its namespace kept it.
    pub(super) fn may_bind(&self, vault: &Vault, record: &Record) -> bool {
        let is_offered = record.body.offered_to.as_ref() == Some(&vault.target.place());
        record.belongs_to(&vault.target.uid) || is_offered || self.comes_back(record)
    }

    /// What nobody but Velero could write is as good as it was: whoever makes a vault anew in the same namespace has it back.
    pub(super) fn comes_back(&self, record: &Record) -> bool {
        let is_same_namespace = record.returns_to.is_some() && record.returns_to == self.namespace_uid;
        is_same_namespace && record.phase == Some(Phase::Released) && record.purge.is_none()
    }
}

/// The marks of a vault's Secret, and its name.
pub fn keys_origin(vault: &ClaimIdentity) -> Origin {
    let (namespace, name) = (vault.namespace.clone(), vault.name.clone());
    let nacuuid = nacuuid(&namespace, &name, &vault.uid);
    Origin { namespace, name, nacuuid }
}

/// Whether nothing of it can be in Ceph yet: a class may take nobody new and still have to let those go that it has.
pub fn is_new(vault: Option<&Vault>, record: Option<&Record>) -> bool {
    record.is_none() && vault.is_none_or(|vault| !vault.deleting && vault.status.bucket.is_none())
}

/// The class to look in: the one recorded when the user was made, else the one asked for, else the default one.
pub fn class_of<'a>(vault: Option<&'a Vault>, record: Option<&'a Record>) -> ClassChoice<'a> {
    let recorded = record.and_then(|record| record.body.class.as_deref());
    let asked = || vault.and_then(|vault| vault.spec.as_ref().ok()).and_then(|spec| spec.class.as_deref());
    recorded.or_else(asked).map_or(ClassChoice::Default, ClassChoice::Named)
}

/// The key of the Secret that holds the credentials.
pub const CLOUD: &str = "cloud";

/// The spec of a vault's location. Its Secret is in Velero's namespace, unlike that of any other location.
pub fn location_spec(vault: &ClaimIdentity, class: &Class, ca_bundle: Option<&str>) -> Fields {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let mut storage = serde_json::json!({ "bucket": super::names::bucket(&vault.name) });
    if let (Some(ca), Some(storage)) = (ca_bundle, storage.as_object_mut()) {
        storage.insert("caCert".to_owned(), STANDARD.encode(ca).into());
    }
    let config = serde_json::json!({ "region": class.region, "s3ForcePathStyle": "true", "s3Url": class.endpoint });
    let credential = serde_json::json!({ "name": keys_origin(vault).nacuuid, "key": CLOUD });
    let fields =
        [("provider", "aws".into()), ("objectStorage", storage), ("credential", credential), ("config", config)];
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}
