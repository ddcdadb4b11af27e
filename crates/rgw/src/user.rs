//! Users as the gateway knows them. Unknown fields are ignored and missing ones tolerated, since each Ceph release
//! adds some and changes the type of others.

use std::fmt;

use serde::{Deserialize, Deserializer};

use crate::{Credentials, Quota, RgwError, Secret, quota::Flag};

/// A user's full name. The gateway makes a tenant by its being named here; an empty tenant is the default one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId {
    tenant: String,
    id: String,
}

impl UserId {
    /// Refuses what the gateway would refuse, or would silently take for something else.
    pub fn new(tenant: impl Into<String>, id: impl Into<String>) -> Result<Self, RgwError> {
        let (tenant, id) = (tenant.into(), id.into());
        check_tenant(&tenant)?;
        // `$` and `:` separate tenant, id and subuser; Ceph 20 reads `+` as a blank.
        if id.is_empty() || id.contains(['$', ':', '+']) || id.chars().any(char::is_control) {
            let rule = "it must not be empty nor hold $, : or + or control characters";
            return Err(RgwError::InvalidName { what: "user id of the gateway", value: id, rule });
        }
        Ok(Self { tenant, id })
    }

    /// Empty for the default tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The name within the tenant.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The full name of this user's subuser `name`, as the gateway's answers spell it.
    pub fn subuser(&self, name: &str) -> String {
        format!("{self}:{name}")
    }

    /// The reverse of `Display`, for names the gateway gave us.
    pub(crate) fn from_answer(full: &str) -> Self {
        let (tenant, id) = full.split_once('$').unwrap_or(("", full));
        Self::of_answer(tenant, id)
    }

    /// For users, whose answers tell both parts.
    pub(crate) fn of_answer(tenant: &str, id: &str) -> Self {
        Self { tenant: tenant.to_owned(), id: id.to_owned() }
    }
}

/// Refuses what the gateway takes for no tenant.
pub(crate) fn check_tenant(tenant: &str) -> Result<&str, RgwError> {
    if tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(tenant);
    }
    let rule = "only letters, digits and _ are allowed";
    Err(RgwError::InvalidName { what: "tenant of the gateway", value: tenant.to_owned(), rule })
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tenant.is_empty() { f.write_str(&self.id) } else { write!(f, "{}${}", self.tenant, self.id) }
    }
}

/// How many buckets a user may own. The gateway's own numbers are a trap: there 0 is unlimited and -1 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketLimit {
    /// As many as it likes.
    Unlimited,
    /// No more than these; 0 is none.
    AtMost(u32),
}

impl BucketLimit {
    pub(crate) fn parameter(self) -> i32 {
        match self {
            Self::Unlimited => 0,
            Self::AtMost(0) => -1,
            Self::AtMost(limit) => i32::try_from(limit).unwrap_or(i32::MAX),
        }
    }

    fn from_answer(number: i64) -> Self {
        match number {
            0 => Self::Unlimited,
            ..0 => Self::AtMost(0),
            _ => Self::AtMost(u32::try_from(number).unwrap_or(u32::MAX)),
        }
    }
}

/// What a subuser's key may do with all of its user's buckets, unless a bucket policy says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No access by itself.
    Nothing,
    /// Lists and reads.
    Read,
    /// Stores and deletes, without reading.
    Write,
    /// Both.
    ReadWrite,
    /// Both, and access lists too.
    Full,
}

impl Access {
    /// The word in a request; leaving the parameter out means no access.
    pub(crate) fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Read => Some("read"),
            Self::Write => Some("write"),
            Self::ReadWrite => Some("readwrite"),
            Self::Full => Some("full"),
        }
    }

    fn from_answer(word: &str) -> Option<Self> {
        match word {
            "<none>" => Some(Self::Nothing),
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "read-write" => Some(Self::ReadWrite),
            "full-control" => Some(Self::Full),
            _ => None,
        }
    }
}

/// A user, as the gateway tells an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its full name.
    pub id: UserId,
    /// Free text, which nothing in the gateway goes by.
    pub display_name: String,
    /// How many buckets it may own.
    pub max_buckets: BucketLimit,
    /// Whether all its keys are refused, those of its subusers too.
    pub suspended: bool,
    /// The user's own S3 keys and those of its subusers.
    pub keys: Vec<Key>,
    /// Names under which others use its buckets.
    pub subusers: Vec<Subuser>,
    /// The limit for all its buckets together.
    pub user_quota: Quota,
}

/// A key pair, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whose it is, in full: `tenant$id` or `tenant$id:subuser`.
    pub user: String,
    /// The pair itself.
    pub credentials: Credentials,
}

/// A name under which somebody else uses a user's buckets, with keys of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subuser {
    /// In full: `tenant$id:subuser`.
    pub id: String,
    /// `None` is a mixture of rights that no [`Access`] gives.
    pub permissions: Option<Access>,
}

/// A user to be made, with its one key. Its secret is made by the gateway.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// Its full name, which must not be taken.
    pub id: UserId,
    /// Must not be empty.
    pub display_name: String,
    /// How many buckets it may own.
    pub max_buckets: BucketLimit,
    /// Must be nobody's yet.
    pub access_key: String,
}

/// What to change of a user; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    /// How many buckets it may own.
    pub max_buckets: Option<BucketLimit>,
    /// Whether its keys are refused.
    pub suspended: Option<bool>,
    /// Must not be empty.
    pub display_name: Option<String>,
}

impl User {
    /// The user's own key, or one of its subusers', by its access key.
    pub fn key(&self, access_key: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.credentials.access_key == access_key)
    }
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            tenant: String,
            user_id: String,
            #[serde(default)]
            display_name: String,
            max_buckets: i64,
            #[serde(default)]
            suspended: Flag,
            #[serde(default)]
            keys: Vec<Key>,
            #[serde(default)]
            subusers: Vec<Subuser>,
            user_quota: Quota,
        }
        let answer = Answer::deserialize(deserializer)?;
        Ok(Self {
            id: UserId::of_answer(&answer.tenant, &answer.user_id),
            display_name: answer.display_name,
            max_buckets: BucketLimit::from_answer(answer.max_buckets),
            suspended: answer.suspended.0,
            keys: answer.keys,
            subusers: answer.subusers,
            user_quota: answer.user_quota,
        })
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            user: String,
            access_key: String,
            secret_key: Secret,
        }
        let Answer { user, access_key, secret_key } = Answer::deserialize(deserializer)?;
        Ok(Self { user, credentials: Credentials { access_key, secret_key } })
    }
}

impl<'de> Deserialize<'de> for Subuser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            id: String,
            #[serde(default)]
            permissions: String,
        }
        let Answer { id, permissions } = Answer::deserialize(deserializer)?;
        Ok(Self { id, permissions: Access::from_answer(&permissions) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEPH_16: &str = r#"{"tenant":"acme","user_id":"raw","display_name":"Raw","email":"","suspended":0,
        "max_buckets":1000,"subusers":[{"id":"acme$raw:ro","permissions":"read"}],
        "keys":[{"user":"acme$raw","access_key":"I8YW","secret_key":"MBaN"},
                {"user":"acme$raw:ro","access_key":"RO","secret_key":"hush"}],
        "swift_keys":[],"caps":[],"op_mask":"read, write, delete","system":"false","admin":"false",
        "default_placement":"","default_storage_class":"","placement_tags":[],
        "bucket_quota":{"enabled":false,"check_on_raw":false,"max_size":-1,"max_size_kb":0,"max_objects":-1},
        "user_quota":{"enabled":true,"check_on_raw":false,"max_size":5000,"max_size_kb":5,"max_objects":-1},
        "temp_url_keys":[],"type":"rgw","mfa_ids":[]}"#;

    fn read(json: &str) -> User {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_user_of_ceph_16_is_read() {
        let user = read(CEPH_16);
        assert_eq!(user.id, UserId::new("acme", "raw").unwrap());
        assert_eq!(user.display_name, "Raw");
        assert_eq!(user.max_buckets, BucketLimit::AtMost(1000));
        assert!(!user.suspended);
        assert_eq!(user.keys[0], Key { user: "acme$raw".into(), credentials: Credentials::new("I8YW", "MBaN") });
        assert_eq!(user.keys[1].user, user.id.subuser("ro"));
        assert_eq!(user.subusers, [Subuser { id: "acme$raw:ro".into(), permissions: Some(Access::Read) }]);
        assert_eq!(user.user_quota, Quota { enabled: true, max_size: Some(5000), max_objects: None });
    }

    #[test]
    fn a_user_of_ceph_20_reads_the_same() {
        let ceph_20 = CEPH_16
            .replace(r#""system":"false","admin":"false""#, r#""system":false,"admin":false,"account_id":"","tags":[]"#)
            .replace(r#""tenant":"acme""#, r#""tenant":"acme","full_user_id":"acme$raw""#)
            .replace(r#""secret_key":"MBaN""#, r#""secret_key":"MBaN","active":true,"create_date":"x""#);
        assert_eq!(read(&ceph_20), read(CEPH_16));
    }

    #[test]
    fn a_user_never_prints_its_secrets() {
        let shown = format!("{:?}", read(CEPH_16));
        assert!(!shown.contains("MBaN") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn a_bucket_limit_of_zero_means_none_and_not_unlimited() {
        assert_eq!(BucketLimit::AtMost(0).parameter(), -1);
        for limit in [BucketLimit::Unlimited, BucketLimit::AtMost(0), BucketLimit::AtMost(7)] {
            assert_eq!(BucketLimit::from_answer(limit.parameter().into()), limit);
        }
    }

    #[test]
    fn a_rights_mixture_of_others_is_not_mistaken_for_ours() {
        assert_eq!(Access::from_answer("read, write-acp"), None);
    }

    #[test]
    fn user_ids_the_gateway_would_misread_are_refused() {
        for (tenant, id) in
            [("te-nant", "x"), ("te.nant", "x"), ("a b", "x"), ("a", ""), ("a", "y$z"), ("a", "u:ro"), ("a", "p+x")]
        {
            let error = UserId::new(tenant, id).unwrap_err();
            assert_eq!(error.reason(), "InvalidName", "{tenant} {id}");
        }
    }

    #[test]
    fn user_ids_print_as_the_gateway_spells_them() {
        for name in ["acme$bob", "bob"] {
            assert_eq!(UserId::from_answer(name).to_string(), name);
        }
        assert_eq!(UserId::new("acme", "bob").unwrap().to_string(), "acme$bob");
    }
}
