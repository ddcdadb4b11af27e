//! Object storage on Ceph: `s3.snappcloud.io/v1alpha1`.

pub mod books;
mod bucket;
mod claim;
mod class;
mod ledger;
mod migration;
mod names;
mod openshift;
mod quota;
mod team_quota;
mod user;
pub mod validate;

pub use bucket::{
    Access, BucketDeletionPolicy, BucketLifecycleRule, BucketQuota, BucketVersioning, S3Bucket, S3BucketSpec,
    S3BucketStatus, SubuserBinding,
};
pub use claim::{S3UserClaim, S3UserClaimSpec, S3UserClaimStatus};
pub use class::{OnDelete, S3Class, S3ClassCluster, S3ClassSpec, S3ClassStatus, SecretReference};
pub use ledger::{LedgerAmount, LedgerEntry, S3QuotaLedger, S3QuotaLedgerSpec};
pub use migration::{
    BucketMove, BucketMoveState, MigrationPhase, UserMigration, UserMigrationSpec, UserMigrationStatus, UserReference,
};
pub use names::*;
pub use openshift::{ClusterResourceQuota, ClusterResourceQuotaSpec, HardLimits};
pub use quota::{QuotaLimits, QuotaRequest, ReportedQuota, ReportedUsage};
pub use team_quota::{NamespaceUsage, S3TeamQuota, S3TeamQuotaSpec, S3TeamQuotaStatus};
pub use user::{
    ClaimReference, KeyRotation, MigrationReference, MovedBucket, S3User, S3UserPhase, S3UserPurge, S3UserSpec,
    S3UserStatus,
};
