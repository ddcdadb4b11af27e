//! What is set on a bucket besides its policy: quota, versioning, lifecycle.
//!
//! What an S3Bucket does not ask for is left as others set it. What it asks for is noted in its status before it is set, so that
//! it is known whose it was when the S3Bucket asks for it no more.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    super::{CephUser, KeyPair, Usage, claim::UserQuota},
    grants::PolicySeen,
    observed::{Bucket, Spec},
    step::Step,
};

/// What an S3Bucket asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub quota: Option<BucketQuota>,
    pub versioning: Option<Versioning>,
    /// By id.
    pub lifecycle: BTreeMap<String, LifecycleRule>,
}

/// `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketQuota {
    pub size: Option<u64>,
    pub objects: Option<u64>,
}

/// Whether old versions of objects are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// No more of them, if ever there were.
    #[default]
    Suspended,
    Enabled,
}

/// After how many days what begins with the prefix goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleRule {
    pub prefix: String,
    pub expiration: Option<u32>,
    pub noncurrent_expiration: Option<u32>,
    pub abort_multipart: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Setting {
    Quota,
    Versioning,
    Lifecycle,
}

/// What a bucket that stays was seen to have. One that is yet to be made has nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub policy: PolicySeen,
    pub quota: UserQuota,
    pub usage: Usage,
    /// Looked at only where [`Bucket::minds`] it.
    pub versioning: Versioning,
    /// Our rules, by id; looked at only where [`Bucket::minds`] them.
    pub lifecycle: BTreeMap<String, LifecycleRule>,
}

impl Settings {
    fn asked(&self) -> BTreeSet<Setting> {
        let asked = [
            (Setting::Quota, self.quota.is_some()),
            (Setting::Versioning, self.versioning.is_some()),
            (Setting::Lifecycle, !self.lifecycle.is_empty()),
        ];
        asked.into_iter().filter(|(_, is_asked)| *is_asked).map(|(setting, _)| setting).collect()
    }

    fn quota(&self) -> UserQuota {
        self.quota.map_or_else(UserQuota::default, |BucketQuota { size, objects }| UserQuota {
            enabled: true,
            size,
            objects,
        })
    }
}

impl Bucket {
    /// Whether the S3Bucket has anything to say about it, now or before.
    pub fn minds(&self, setting: Setting) -> bool {
        let asked = self.spec.as_ref().map(|spec| spec.settings.asked()).unwrap_or_default();
        asked.contains(&setting) || self.status.managed_settings.contains(&setting)
    }
}

/// The settings the S3Bucket has a say in, once all steps are done.
pub(super) fn managed(spec: &Spec) -> BTreeSet<Setting> {
    spec.settings.asked()
}

/// A bucket, and the key to change it with.
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) user: &'a CephUser,
    pub(super) key: &'a KeyPair,
}

impl Place<'_> {
    pub(super) fn create(&self) -> Step {
        Step::CreateBucket { name: self.name.to_owned(), user: self.user.clone(), key: self.key.clone() }
    }

    pub(super) fn put_policy(&self, state: &State) -> Option<Step> {
        let policy = state.policy.missing()?.to_owned();
        Some(Step::PutPolicy { name: self.name.to_owned(), key: self.key.clone(), policy })
    }

    /// Makes the bucket what the spec asks for, in all that it asks for or asked for before.
    pub(super) fn set(&self, bucket: &Bucket, spec: &Spec, state: &State) -> Vec<Step> {
        let (asked, name) = (&spec.settings, || self.name.to_owned());
        let mut steps: Vec<_> = note_first(bucket, asked).into_iter().collect();
        let quota = asked.quota();
        // While it is not enabled its numbers mean nothing.
        if bucket.minds(Setting::Quota) && state.quota != quota && (state.quota.enabled || quota.enabled) {
            steps.push(Step::SetQuota { name: name(), user: self.user.clone(), quota });
        }
        // Without a look nothing is known of them.
        if matches!(state.policy, PolicySeen::Unreadable(_)) {
            return steps;
        }
        let versioning = asked.versioning.unwrap_or_default();
        if bucket.minds(Setting::Versioning) && state.versioning != versioning {
            steps.push(Step::SetVersioning { name: name(), key: self.key.clone(), versioning });
        }
        if bucket.minds(Setting::Lifecycle) && state.lifecycle != asked.lifecycle {
            let rules = asked.lifecycle.clone();
            steps.push(Step::PutLifecycle { name: name(), key: self.key.clone(), rules });
        }
        steps
    }
}

fn note_first(bucket: &Bucket, asked: &Settings) -> Option<Step> {
    let noted = &bucket.status.managed_settings;
    let settings: BTreeSet<_> = noted.union(&asked.asked()).copied().collect();
    (settings != *noted).then(|| Step::NoteSettings { bucket: bucket.target.clone(), settings })
}
