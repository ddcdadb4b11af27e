//! Labels, annotations, finalizers, quota keys and Secret keys of the storage part.

/// On a Namespace: the team it belongs to.
pub const TEAM_LABEL: &str = "snappcloud.io/team";
/// On an S3UserClaim, until its Ceph user is gone.
pub const CLAIM_FINALIZER: &str = "s3.snappcloud.io/cleanup-s3userclaim";
/// On an S3Bucket, until its bucket is gone or let go.
pub const BUCKET_FINALIZER: &str = "s3.snappcloud.io/cleanup-s3bucket";
/// On an S3Class, until nobody uses it.
pub const CLASS_FINALIZER: &str = "s3.snappcloud.io/class-in-use";
/// On a UserMigration, from its first step to its last.
pub const MIGRATION_FINALIZER: &str = "s3.snappcloud.io/migrating";
/// On an S3UserClaim: a new value asks for new keys.
pub const ROTATE_KEYS_ANNOTATION: &str = "s3.snappcloud.io/rotate-keys";
/// On an S3User, by an administrator: whose user in Ceph the claim may take over.
pub const ADOPT_ANNOTATION: &str = "s3.snappcloud.io/adopt";
/// Value of [`ADOPT_ANNOTATION`] for users that ceph-s3-operator made for a claim of the same namespace and name.
pub const ADOPT_CEPH_S3_OPERATOR: &str = "ceph-s3-operator";

/// Keys in `ResourceQuota` and `ClusterResourceQuota` that limit storage.
pub const QUOTA_SIZE: &str = "s3/size";
pub const QUOTA_OBJECTS: &str = "s3/objects";
pub const QUOTA_BUCKETS: &str = "s3/buckets";

/// Keys of the Secrets handed to tenants.
pub const SECRET_ACCESS_KEY: &str = "accessKey";
pub const SECRET_SECRET_KEY: &str = "secretKey";
pub const SECRET_ENDPOINT: &str = "endpoint";
pub const SECRET_REGION: &str = "region";
/// An AWS credentials file, the form Velero reads.
pub const SECRET_CLOUD: &str = "cloud";

/// The subuser every Ceph user has, behind the read Secret.
pub const READONLY_SUBUSER: &str = "readonly";
