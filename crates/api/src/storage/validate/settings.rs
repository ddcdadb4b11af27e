//! Who may use a bucket, and what is set on it.

use std::collections::BTreeMap;

use croft_core::storage::{Amount, bucket};

use super::{
    super::{Access, BucketLifecycleRule, BucketVersioning, READONLY_SUBUSER, S3BucketSpec, SubuserBinding},
    Problems,
};

const LONGEST_RULE_ID: usize = 63;
const MOST_DAYS: u32 = 36_500;

impl Problems {
    /// The reader reads every bucket, bound or not, and does nothing else, whatever is bound.
    pub(super) fn bindings(&mut self, bindings: &[SubuserBinding]) -> bucket::Bindings {
        let grant = |access| if access == Access::Read { bucket::Grant::Read } else { bucket::Grant::Write };
        for (number, binding) in bindings.iter().enumerate() {
            let field = format!("spec.s3SubuserBinding[{number}].name");
            self.object_name(&field, Some(&binding.name), "a subuser of the claim");
            if binding.name == READONLY_SUBUSER && grant(binding.access) == bucket::Grant::Write {
                let field = format!("spec.s3SubuserBinding[{number}].access");
                self.add(field, "readonly may only read; bind a subuser of the claim instead");
            }
        }
        let named = bindings.iter().filter(|binding| binding.name != READONLY_SUBUSER);
        named.map(|binding| (binding.name.clone(), grant(binding.access))).collect()
    }

    pub(super) fn settings(&mut self, spec: &S3BucketSpec) -> bucket::Settings {
        let quota = spec.quota.as_ref().map(|quota| bucket::BucketQuota {
            size: self.amount("spec.quota.size".to_owned(), quota.size.as_ref()).map(Amount::whole),
            objects: self.amount("spec.quota.objects".to_owned(), quota.objects.as_ref()).map(Amount::whole),
        });
        if spec.quota.as_ref().is_some_and(|quota| quota.size.is_none() && quota.objects.is_none()) {
            self.add("spec.quota", "must limit size, objects or both; give one or remove it");
        }
        let versioning = spec.versioning.map(|versioning| match versioning {
            BucketVersioning::Enabled => bucket::Versioning::Enabled,
            BucketVersioning::Suspended => bucket::Versioning::Suspended,
        });
        let mut lifecycle = BTreeMap::new();
        for (number, rule) in spec.lifecycle.iter().enumerate() {
            let (id, read) = (rule.id.clone(), self.lifecycle_rule(&format!("spec.lifecycle[{number}]"), rule));
            if lifecycle.insert(id, read).is_some() {
                self.add(format!("spec.lifecycle[{number}].id"), format!("{} is the id of another rule", rule.id));
            }
        }
        bucket::Settings { quota, versioning, lifecycle }
    }

    fn lifecycle_rule(&mut self, field: &str, rule: &BucketLifecycleRule) -> bucket::LifecycleRule {
        if rule.id.is_empty() || rule.id.len() > LONGEST_RULE_ID {
            self.add(format!("{field}.id"), format!("must have 1 to {LONGEST_RULE_ID} characters"));
        }
        for (name, text) in [("id", &rule.id), ("prefix", &rule.prefix)] {
            if text.contains(char::is_control) {
                self.add(format!("{field}.{name}"), "must not hold control characters");
            }
        }
        let mut days = |name: &str, days: Option<i64>| {
            let days = days?;
            let counted = u32::try_from(days).ok().filter(|days| (1..=MOST_DAYS).contains(days));
            if counted.is_none() {
                self.add(format!("{field}.{name}"), format!("{days} must be between 1 and {MOST_DAYS}"));
            }
            counted
        };
        let read = bucket::LifecycleRule {
            prefix: rule.prefix.clone(),
            expiration: days("expirationDays", rule.expiration_days),
            noncurrent_expiration: days("noncurrentVersionExpirationDays", rule.noncurrent_version_expiration_days),
            abort_multipart: days("abortIncompleteMultipartUploadDays", rule.abort_incomplete_multipart_upload_days),
        };
        let given = [
            rule.expiration_days,
            rule.noncurrent_version_expiration_days,
            rule.abort_incomplete_multipart_upload_days,
        ];
        if given.iter().all(Option::is_none) {
            self.add(
                field,
                "must give expirationDays, noncurrentVersionExpirationDays or abortIncompleteMultipartUploadDays",
            );
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{super::S3Bucket, bucket as checked, tests::fields};
    use super::*;

    fn bucket_of(more: &serde_json::Value) -> S3Bucket {
        let mut spec = json!({"s3UserRef": "data"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let value = json!({"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket", "metadata": {"name": "photos"}, "spec": spec});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_binding_is_read_or_write_and_readwrite_is_another_word_for_write() {
        let bound = json!([{"name": "a"}, {"name": "b", "access": "write"}, {"name": "c", "access": "readwrite"}]);
        let spec = checked(&bucket_of(&json!({"s3SubuserBinding": bound}))).unwrap();
        let grants: Vec<_> = spec.bindings.values().copied().collect();
        assert_eq!(grants, [bucket::Grant::Read, bucket::Grant::Write, bucket::Grant::Write]);
        let reader = json!({"s3SubuserBinding": [{"name": "readonly"}, {"name": "readonly", "access": "write"}]});
        assert_eq!(fields(&checked(&bucket_of(&reader)).unwrap_err()), ["spec.s3SubuserBinding[1].access"]);
    }

    #[test]
    fn settings_of_a_bucket_are_checked_by_field() {
        let good =
            json!({"quota": {"size": "1Gi"}, "versioning": "enabled", "lifecycle": [{"id": "a", "expirationDays": 7}]});
        let settings = checked(&bucket_of(&good)).unwrap().settings;
        assert_eq!(settings.quota, Some(bucket::BucketQuota { size: Some(1 << 30), objects: None }));
        assert_eq!(settings.lifecycle["a"].expiration, Some(7));
        let bad = json!({
            "quota": {"size": "500m", "objects": "-1"},
            "lifecycle": [{"id": "a"}, {"id": "a", "expirationDays": 0}, {"id": "", "noncurrentVersionExpirationDays": 99999}],
        });
        assert_eq!(
            fields(&checked(&bucket_of(&bad)).unwrap_err()),
            [
                "spec.quota.size",
                "spec.quota.objects",
                "spec.lifecycle[0]",
                "spec.lifecycle[1].expirationDays",
                "spec.lifecycle[1].id",
                "spec.lifecycle[2].id",
                "spec.lifecycle[2].noncurrentVersionExpirationDays",
            ]
        );
        assert_eq!(fields(&checked(&bucket_of(&json!({"quota": {}}))).unwrap_err()), ["spec.quota"]);
        let hidden = json!({"lifecycle": [{"id": "a\u{7f}", "prefix": "tmp\u{1}", "expirationDays": 1}]});
        assert_eq!(
            fields(&checked(&bucket_of(&hidden)).unwrap_err()),
            ["spec.lifecycle[0].id", "spec.lifecycle[0].prefix"]
        );
    }
}
