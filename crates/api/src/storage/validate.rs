//! Raw storage objects -> the core's validated types, both spellings merged. Admission and the reconcilers call the same
//! functions, and every problem is told at once.

mod settings;

use std::{collections::BTreeSet, fmt::Display, str::FromStr};

use croft_core::{
    name::{LONGEST_NAME, is_dns_subdomain},
    quantity::Quantity as Exact,
    storage::{self, Amount, Class, GIVE_UP, Quota, QuotaAsked, Usage, bucket, claim},
};
use kube::core::Selector;

use super::{
    OnDelete, QuotaLimits, QuotaRequest, READONLY_SUBUSER, ReportedQuota, ReportedUsage, S3Bucket, S3Class, S3UserClaim,
};
use crate::{Problem, Quantity};

/// The longest name of a claim: `<namespace>.<claim>` must be a name too.
const LONGEST_CLAIM_NAME: usize = 189;
const LONGEST_SUBUSER: usize = 63;
const MOST_SUBUSERS: usize = 100;
/// First parts of paths under which a gateway serves its administrators and Swift, whatever bucket is called so.
const RESERVED_BUCKETS: [&str; 3] = ["admin", "auth", "swift"];

/// The claim's spec, or everything that is wrong with it.
pub fn claim(claim: &S3UserClaim) -> Result<claim::Spec, Vec<Problem>> {
    let spec = &claim.spec;
    let mut problems = Problems::default();
    if claim.metadata.name.as_ref().is_some_and(|name| name.len() > LONGEST_CLAIM_NAME) {
        problems.add("metadata.name", format!("must have at most {LONGEST_CLAIM_NAME} characters; shorten it"));
    }
    let class = problems.one_spelling(
        ("spec.s3ClassName", spec.s3_class_name.as_ref()),
        ("spec.s3UserClass", spec.s3_user_class.as_ref()),
    );
    let read = problems.secret_name(
        ("spec.readSecretName", spec.read_secret_name.as_ref()),
        ("spec.readonlySecret", spec.readonly_secret.as_ref()),
    );
    let admin = problems.secret_name(
        ("spec.adminSecretName", spec.admin_secret_name.as_ref()),
        ("spec.adminSecret", spec.admin_secret.as_ref()),
    );
    let class = class.filter(|name| !name.is_empty());
    let class_field = if spec.s3_class_name.is_some() { "spec.s3ClassName" } else { "spec.s3UserClass" };
    problems.object_name(class_field, class.map(String::as_str), "an S3Class");
    problems.object_name("metadata.name", claim.metadata.name.as_deref(), "the claim");
    if !read.is_empty() && read == admin {
        problems.add("spec.readSecretName", "must differ from the admin Secret; name two Secrets");
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let subusers = problems.subusers(name, &spec.subusers, [&read, &admin]);
    let quota = spec.quota.as_ref().map(|quota| problems.request(quota)).unwrap_or_default();
    problems.or(claim::Spec { class: class.cloned(), read_secret: read, admin_secret: admin, subusers, quota })
}

/// The bucket's spec, or everything that is wrong with it.
pub fn bucket(bucket: &S3Bucket) -> Result<bucket::Spec, Vec<Problem>> {
    let mut problems = Problems::default();
    let name = bucket.metadata.name.as_deref().unwrap_or_default();
    if !(3..=63).contains(&name.len()) {
        problems.add("metadata.name", "must have 3 to 63 characters, because the bucket is called like it");
    }
    if std::net::Ipv4Addr::from_str(name).is_ok() {
        problems.add("metadata.name", "must not be an IP address, because the bucket is called like it");
    }
    if RESERVED_BUCKETS.contains(&name) {
        problems.add("metadata.name", "is where the gateway serves an API of its own; choose another name");
    }
    problems.object_name("metadata.name", bucket.metadata.name.as_deref(), "the bucket");
    if bucket.spec.s3_user_ref.is_empty() {
        problems.add("spec.s3UserRef", "must name an S3UserClaim of the same namespace");
    } else {
        problems.object_name("spec.s3UserRef", Some(&bucket.spec.s3_user_ref), "an S3UserClaim of the same namespace");
    }
    let bindings = problems.bindings(&bucket.spec.s3_subuser_binding);
    let settings = problems.settings(&bucket.spec);
    problems.or(bucket::Spec { bindings, settings, claim: bucket.spec.s3_user_ref.clone() })
}

/// The class, or everything that is wrong with it.
pub fn class(class: &S3Class) -> Result<Class, Vec<Problem>> {
    let spec = &class.spec;
    let mut problems = Problems::default();
    if !spec.endpoint.starts_with("http://") && !spec.endpoint.starts_with("https://") {
        problems.add("spec.endpoint", "must be of the form http://host[:port] or https://host[:port]");
    }
    // It becomes the first part of a tenant, which Ceph allows nothing else in.
    let prefix = spec.tenant_prefix.as_bytes();
    let in_tenant = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    if !prefix.iter().all(in_tenant) || matches!(prefix.first(), None | Some(b'_')) {
        problems.add("spec.tenantPrefix", "must be made of a-z, 0-9 and _, and not begin with _");
    }
    if spec.region.is_empty() || spec.region.contains(char::is_whitespace) {
        problems.add("spec.region", "must be a word, for example us-east-1");
    }
    if spec.admin_secret.name.is_empty() {
        problems.add("spec.adminSecret.name", "must name the Secret with the keys of a Ceph administrator");
    } else {
        problems.object_name("spec.adminSecret.name", Some(&spec.admin_secret.name), "a Secret");
    }
    problems.object_name("spec.adminSecret.namespace", spec.admin_secret.namespace.as_deref(), "a namespace");
    if let Some(Err(error)) = spec.allowed_namespaces.clone().map(Selector::try_from) {
        problems.add("spec.allowedNamespaces", format!("is not a label selector: {error}"));
    }
    let default_quota = spec.default_quota.as_ref().map(|quota| problems.limits(quota)).unwrap_or_default();
    problems.or(Class {
        name: class.metadata.name.clone().unwrap_or_default(),
        endpoint: spec.endpoint.trim_end_matches('/').to_owned(),
        region: spec.region.clone(),
        tenant_prefix: spec.tenant_prefix.clone(),
        on_delete: on_delete(class),
        team_required: spec.team_required,
        default_quota,
    })
}

/// What becomes of what tenants have of a class.
pub fn on_delete(class: &S3Class) -> storage::OnDelete {
    let gives_up = class.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(GIVE_UP));
    match class.spec.on_delete {
        OnDelete::Retain => storage::OnDelete::Retain,
        OnDelete::Purge if gives_up => storage::OnDelete::GiveUp,
        OnDelete::Purge => storage::OnDelete::Purge,
    }
}

/// What is asked for in `field`, or everything that is wrong with it.
pub fn quota(field: &str, size: Option<&Quantity>, objects: Option<&Quantity>) -> Result<QuotaAsked, Vec<Problem>> {
    let mut problems = Problems::default();
    let asked = problems.asked(field, size, objects, None);
    problems.or(asked)
}

/// A quota as statuses and S3Users show it.
pub fn reported(quota: &Quota) -> ReportedQuota {
    ReportedQuota::new(Quantity(quota.size.to_string()), Quantity(quota.objects.to_string()), quota.buckets.into())
}

/// The reverse of [`reported`]; `None` if somebody else wrote it.
pub fn granted(quota: &ReportedQuota) -> Option<Quota> {
    let read = |quantity: &Option<Quantity>| amount(quantity.as_ref()?).ok();
    let size = read(&quota.size).or_else(|| read(&quota.max_size))?;
    let objects = read(&quota.objects).or_else(|| read(&quota.max_objects))?;
    let buckets = u32::try_from(quota.buckets.or(quota.max_buckets)?).ok()?;
    let granted = Quota { size, objects, buckets };
    (*quota == reported(&granted)).then_some(granted)
}

/// What is stored, as statuses show it.
pub fn reported_usage(usage: Usage) -> ReportedUsage {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    ReportedUsage {
        size: Quantity(usage.shown_size()),
        objects: number(usage.objects),
        buckets: usage.buckets.map(number),
    }
}

/// The reverse of [`reported_usage`]; `None` if somebody else wrote it.
pub fn usage(shown: &ReportedUsage) -> Option<Usage> {
    let number = |number: i64| u64::try_from(number).ok();
    let buckets = shown.buckets.map_or(Some(None), |buckets| number(buckets).map(Some))?;
    Some(Usage { size: amount(&shown.size).ok()?.whole(), objects: number(shown.objects)?, buckets })
}

fn amount(quantity: &Quantity) -> Result<Amount, String> {
    let exact = quantity.0.parse::<Exact>().map_err(|error| error.to_string())?;
    Amount::try_from(exact).map_err(|error| error.to_string())
}

type Spelling<'a, T> = (&'static str, Option<&'a T>);

/// Problems found so far.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, field: impl Into<String>, message: impl Display) {
        self.0.push(Problem::new(field, message.to_string()));
    }

    fn or<T>(self, valid: T) -> Result<T, Vec<Problem>> {
        if self.0.is_empty() { Ok(valid) } else { Err(self.0) }
    }

    /// The value given under one of two names.
    fn one_spelling<'a, T>(&mut self, (name, value): Spelling<'a, T>, (other, same): Spelling<'a, T>) -> Option<&'a T> {
        if value.is_some() && same.is_some() {
            self.add(name, format!("is another spelling of {other}; give one of them"));
        }
        value.or(same)
    }

    /// What ends up in a path must be what an object can be called.
    fn object_name(&mut self, field: &str, name: Option<&str>, what: &str) {
        if name.is_some_and(|name| !is_dns_subdomain(name)) {
            self.add(field, must_name(what));
        }
    }

    fn secret_name(&mut self, first: Spelling<'_, String>, second: Spelling<'_, String>) -> String {
        let (field, other) = (if first.1.is_some() || second.1.is_none() { first.0 } else { second.0 }, second.0);
        match self.one_spelling(first, second) {
            None => self.add(field, format!("is required (or its other spelling, {other})")),
            Some(name) if !is_dns_subdomain(name) => self.add(field, must_name("a Secret")),
            Some(name) => return name.clone(),
        }
        String::new()
    }

    fn subusers(&mut self, claim: &str, names: &[String], secrets: [&String; 2]) -> BTreeSet<String> {
        for (number, name) in names.iter().enumerate() {
            let (field, secret) = (format!("spec.subusers[{number}]"), claim::subuser_secret(claim, name));
            if name == READONLY_SUBUSER {
                self.add(field, "readonly is the subuser behind the read Secret; choose another name");
            } else if !is_dns_subdomain(name) || name.len() > LONGEST_SUBUSER {
                self.add(
                    field,
                    format!("{name} must be made of a-z, 0-9, - and ., begin and end with a letter or digit and have at most {LONGEST_SUBUSER} characters"),
                );
            } else if secret.len() > LONGEST_NAME {
                self.add(field, format!("{name} is too long: its Secret would be called {secret}; shorten it"));
            } else if secrets.contains(&&secret) {
                self.add(
                    field,
                    format!("the Secret of subuser {name} would be {secret}, which is another Secret of this claim; rename one of them"),
                );
            }
        }
        if names.len() > MOST_SUBUSERS {
            self.add("spec.subusers", format!("must have at most {MOST_SUBUSERS} names"));
        }
        names.iter().cloned().collect()
    }

    fn request(&mut self, quota: &QuotaRequest) -> QuotaAsked {
        let size = self
            .one_spelling(("spec.quota.size", quota.size.as_ref()), ("spec.quota.maxSize", quota.max_size.as_ref()));
        let objects = self.one_spelling(
            ("spec.quota.objects", quota.objects.as_ref()),
            ("spec.quota.maxObjects", quota.max_objects.as_ref()),
        );
        let buckets = self.one_spelling(
            ("spec.quota.buckets", quota.buckets.as_ref()),
            ("spec.quota.maxBuckets", quota.max_buckets.as_ref()),
        );
        self.asked("spec.quota", size, objects, buckets)
    }

    fn limits(&mut self, quota: &QuotaLimits) -> QuotaAsked {
        self.asked("spec.defaultQuota", quota.size.as_ref(), quota.objects.as_ref(), quota.buckets.as_ref())
    }

    fn asked(
        &mut self,
        field: &str,
        size: Option<&Quantity>,
        objects: Option<&Quantity>,
        buckets: Option<&i64>,
    ) -> QuotaAsked {
        QuotaAsked {
            size: self.amount(format!("{field}.size"), size),
            objects: self.amount(format!("{field}.objects"), objects),
            buckets: self.buckets(format!("{field}.buckets"), buckets),
        }
    }

    fn amount(&mut self, field: String, quantity: Option<&Quantity>) -> Option<Amount> {
        let quantity = quantity?;
        amount(quantity).map_err(|error| self.add(field, format!("{} {error}", quantity.0))).ok()
    }

    /// Ceph counts buckets in 32 bits, signed.
    fn buckets(&mut self, field: String, buckets: Option<&i64>) -> Option<u32> {
        let buckets = *buckets?;
        let counted = i32::try_from(buckets).ok().and_then(|buckets| u32::try_from(buckets).ok());
        if counted.is_none() {
            self.add(field, format!("{buckets} must be between 0 and {}", i32::MAX));
        }
        counted
    }
}

fn must_name(what: &str) -> String {
    format!("must be the name of {what}: a-z, 0-9, - and ., beginning and ending with a letter or digit")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim_of(spec: &serde_json::Value) -> S3UserClaim {
        let value = json!({"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": {"name": "data"}, "spec": spec});
        serde_json::from_value(value).unwrap()
    }

    pub(super) fn fields(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.field.as_str()).collect()
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused_with_its_field() {
        for astray in ["../../x", "..", "a/b", "a%2fb", "a\u{0}", "A", " "] {
            let secrets = json!({ "readSecretName": astray, "adminSecretName": "admin", "s3ClassName": astray,
                                  "subusers": [astray] });
            let mut asked = claim_of(&secrets);
            asked.metadata.name = Some(astray.into());
            let problems = claim(&asked).unwrap_err();
            assert_eq!(
                fields(&problems),
                ["spec.readSecretName", "spec.s3ClassName", "metadata.name", "spec.subusers[0]"],
                "{astray}"
            );
            let other = json!({ "readSecretName": "read", "adminSecretName": "admin", "s3UserClass": astray });
            assert_eq!(fields(&claim(&claim_of(&other)).unwrap_err()), ["spec.s3UserClass"]);
            let asked: S3Bucket = serde_json::from_value(json!({
                "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket", "metadata": { "name": format!("abc{astray}.") },
                "spec": { "s3UserRef": astray, "s3SubuserBinding": [{ "name": astray }] },
            }))
            .unwrap();
            let problems = bucket(&asked).unwrap_err();
            assert_eq!(
                fields(&problems),
                ["metadata.name", "spec.s3UserRef", "spec.s3SubuserBinding[0].name"],
                "{astray}"
            );
        }
    }

    #[test]
    fn both_spellings_of_a_claim_mean_the_same() {
        let one = claim(&claim_of(&json!({
            "s3ClassName": "gold", "readSecretName": "read", "adminSecretName": "admin",
            "quota": {"size": "10k", "objects": 500, "buckets": 5},
        })));
        let other = claim(&claim_of(&json!({
            "s3UserClass": "gold", "readonlySecret": "read", "adminSecret": "admin",
            "quota": {"maxSize": "10k", "maxObjects": 500, "maxBuckets": 5},
        })));
        assert_eq!(one, other);
        let spec = one.unwrap();
        assert_eq!(
            (spec.class.as_deref(), spec.read_secret.as_str(), spec.admin_secret.as_str()),
            (Some("gold"), "read", "admin")
        );
        assert_eq!(
            (spec.quota.size.unwrap().whole(), spec.quota.objects.unwrap().whole(), spec.quota.buckets),
            (10_000, 500, Some(5))
        );
    }

    #[test]
    fn all_problems_of_a_claim_are_told_at_once() {
        let problems = claim(&claim_of(&json!({
            "s3ClassName": "gold", "s3UserClass": "gold", "readSecretName": "Read_Secret",
            "quota": {"size": "-1", "objects": "many", "buckets": -1, "maxBuckets": 3},
        })))
        .unwrap_err();
        assert_eq!(
            fields(&problems),
            [
                "spec.s3ClassName",
                "spec.readSecretName",
                "spec.adminSecretName",
                "spec.quota.buckets",
                "spec.quota.size",
                "spec.quota.objects",
                "spec.quota.buckets"
            ]
        );
        assert!(Problem::list(&problems).contains("spec.quota.size: -1 must not be negative"));
    }

    #[test]
    fn the_two_secrets_of_a_claim_differ() {
        let same = claim(&claim_of(&json!({"readSecretName": "keys", "adminSecret": "keys"}))).unwrap_err();
        assert_eq!(fields(&same), ["spec.readSecretName"]);
    }

    #[test]
    fn the_secret_of_a_subuser_is_its_own() {
        let with = |names: serde_json::Value| {
            let spec = json!({"readSecretName": "read", "adminSecretName": "data-one", "subusers": names});
            let mut asked = claim_of(&spec);
            asked.metadata.name = Some("data".into());
            claim(&asked)
        };
        assert_eq!(with(json!(["two"])).unwrap().subusers, ["two".to_owned()].into());
        let problems = with(json!(["two", "one", "readonly", "No!"])).unwrap_err();
        assert_eq!(fields(&problems), ["spec.subusers[1]", "spec.subusers[2]", "spec.subusers[3]"]);
        assert!(Problem::list(&problems).contains("would be data-one"), "{}", Problem::list(&problems));
    }

    #[test]
    fn an_empty_class_name_asks_for_the_default() {
        let spec =
            claim(&claim_of(&json!({"s3UserClass": "", "readSecretName": "a", "adminSecretName": "b"}))).unwrap();
        assert_eq!((spec.class, spec.quota), (None, QuotaAsked::default()));
    }

    #[test]
    fn a_quota_beyond_what_ceph_counts_is_refused() {
        let spec = json!({"readSecretName": "a", "adminSecretName": "b", "quota": {"size": "10E", "buckets": 3_000_000_000_i64}});
        assert_eq!(fields(&claim(&claim_of(&spec)).unwrap_err()), ["spec.quota.size", "spec.quota.buckets"]);
    }

    #[test]
    fn a_reported_quota_is_read_back_and_a_foreign_one_is_not() {
        let spec = claim(&claim_of(
            &json!({"readSecretName": "a", "adminSecretName": "b", "quota": {"size": "5Gi", "buckets": 0}}),
        ));
        let quota = spec.unwrap().quota.or_default(&QuotaAsked::default());
        let shown = reported(&quota);
        assert_eq!(shown.max_size, Some(Quantity("5Gi".into())));
        assert_eq!(granted(&shown), Some(quota));
        assert_eq!(granted(&ReportedQuota { max_buckets: Some(7), ..shown }), None);
    }

    #[test]
    fn usage_is_read_back_as_it_is_shown() {
        let stored = Usage { size: 12 << 20, objects: 7, buckets: Some(2) };
        let shown = reported_usage(stored);
        assert_eq!(shown.size, Quantity("12Mi".into()));
        assert_eq!(usage(&shown), Some(stored));
        assert_eq!(usage(&ReportedUsage { objects: -1, ..shown }), None);
    }

    #[test]
    fn a_class_is_checked_before_it_is_used() {
        let class_of = |spec: serde_json::Value| -> S3Class {
            let value = json!({"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Class", "metadata": {"name": "gold"}, "spec": spec});
            serde_json::from_value(value).unwrap()
        };
        let good = json!({"endpoint": "https://s3.example.com/", "tenantPrefix": "okd4_main_", "adminSecret": {"name": "ceph"}});
        let valid = class(&class_of(good)).unwrap();
        assert_eq!((valid.endpoint.as_str(), valid.region.as_str()), ("https://s3.example.com", "us-east-1"));
        let bad = json!({
            "endpoint": "s3.example.com", "region": "a b", "tenantPrefix": "_X", "adminSecret": {"name": ""},
            "defaultQuota": {"size": "-5"},
            "allowedNamespaces": {"matchExpressions": [{"key": "a", "operator": "Maybe"}]},
        });
        assert_eq!(
            fields(&class(&class_of(bad)).unwrap_err()),
            [
                "spec.endpoint",
                "spec.tenantPrefix",
                "spec.region",
                "spec.adminSecret.name",
                "spec.allowedNamespaces",
                "spec.defaultQuota.size"
            ]
        );
    }

    #[test]
    fn the_name_of_a_bucket_must_suit_s3() {
        let bucket_of = |name: &str| -> S3Bucket {
            serde_json::from_value(json!({"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket", "metadata": {"name": name}, "spec": {"s3UserRef": "data"}})).unwrap()
        };
        assert_eq!(bucket(&bucket_of("photos")).unwrap().claim, "data");
        for name in ["ab", "1.2.3.4", "admin", "auth", "swift"] {
            assert_eq!(fields(&bucket(&bucket_of(name)).unwrap_err()), ["metadata.name"], "{name}");
        }
    }
}
