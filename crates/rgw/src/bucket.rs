//! Buckets as the Admin Ops API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::{Quota, RgwError, Usage, UserId};

/// A bucket, as the gateway tells an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Empty for the default tenant.
    pub tenant: String,
    /// Its name, which is its own within the tenant.
    pub name: String,
    /// Stays the same when the bucket is linked to another user.
    pub id: String,
    /// Who pays for it, and whose key may do everything with it.
    pub owner: UserId,
    /// Bytes as quotas count them: each object rounded up to 4 KiB.
    pub size: u64,
    /// How many objects are in it.
    pub objects: u64,
    /// The bucket's own; while it is not enabled, the user's default for buckets may limit it.
    pub quota: Quota,
}

/// Refuses what would name something else, such as a bucket of another tenant or an object.
pub(crate) fn check_name(name: &str) -> Result<&str, RgwError> {
    if !name.is_empty() && !name.contains(['/', ':']) {
        return Ok(name);
    }
    let rule = "it must not be empty nor hold / or :";
    Err(RgwError::InvalidName { what: "bucket", value: name.to_owned(), rule })
}

/// Gateways count below zero now and then, which reads as a number beyond all there can be: that is nothing.
fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.filter_map(|figure| i64::try_from(figure).ok()).fold(0, i64::saturating_add).unsigned_abs()
}

impl<'de> Deserialize<'de> for Bucket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            bucket: String,
            #[serde(default)]
            tenant: String,
            id: String,
            owner: String,
            /// By category; parts of open uploads have one of their own.
            #[serde(default)]
            usage: BTreeMap<String, Usage>,
            bucket_quota: Quota,
        }
        let answer = Answer::deserialize(deserializer)?;
        Ok(Self {
            tenant: answer.tenant,
            name: answer.bucket,
            id: answer.id,
            owner: UserId::from_answer(&answer.owner),
            size: sum(answer.usage.values().map(|usage| usage.size)),
            objects: sum(answer.usage.values().map(|usage| usage.objects)),
            quota: answer.bucket_quota,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEPH_16: &str = r#"{"bucket":"data1","num_shards":11,"tenant":"acme","zonegroup":"z",
        "placement_rule":"default-placement",
        "explicit_placement":{"data_pool":"","data_extra_pool":"","index_pool":""},"id":"zone.4110.1",
        "marker":"zone.4110.1","index_type":"Normal","owner":"acme$a","ver":"0#1","master_ver":"0#0",
        "mtime":"2026-11-15T18:14:28.881928Z","creation_time":"2026-11-15T18:14:28.820927Z","max_marker":"0#",
        "usage":{"rgw.main":{"size":5000,"size_actual":8192,"size_utilized":5000,"size_kb":5,"size_kb_actual":8,
        "size_kb_utilized":5,"num_objects":1}},
        "bucket_quota":{"enabled":false,"check_on_raw":false,"max_size":-1,"max_size_kb":0,"max_objects":-1}}"#;

    #[test]
    fn a_bucket_is_read_with_its_owner_and_what_counts_against_a_quota() {
        let bucket: Bucket = serde_json::from_str(CEPH_16).unwrap();
        assert_eq!(
            bucket,
            Bucket {
                tenant: "acme".into(),
                name: "data1".into(),
                id: "zone.4110.1".into(),
                owner: UserId::new("acme", "a").unwrap(),
                size: 8192,
                objects: 1,
                quota: Quota::default(),
            }
        );
    }

    #[test]
    fn a_count_below_zero_is_nothing_and_hides_no_objects() {
        let json = r#"{"bucket":"odd","id":"zone.1","owner":"bob","bucket_quota":{"enabled":false,"max_size":-1,"max_objects":-1},
            "usage":{"rgw.none":{"size_actual":0,"num_objects":18446744073709551615},
                     "rgw.main":{"size_actual":4096,"num_objects":1}}}"#;
        let bucket: Bucket = serde_json::from_str(json).unwrap();
        assert_eq!((bucket.size, bucket.objects), (4096, 1));
    }

    #[test]
    fn a_bucket_never_written_is_empty() {
        let json = r#"{"bucket":"new","id":"zone.1","owner":"bob","usage":{},
            "bucket_quota":{"enabled":true,"max_size":-1024,"max_objects":5}}"#;
        let bucket: Bucket = serde_json::from_str(json).unwrap();
        assert_eq!(bucket.quota, Quota { enabled: true, max_size: None, max_objects: Some(5) });
        assert_eq!((bucket.size, bucket.objects, bucket.owner.tenant()), (0, 0, ""));
    }
}
