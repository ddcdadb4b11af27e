//! Grants on a bucket -> its policy. Statements of ours are told by their Sid; whatever else the policy says is its user's.

use std::collections::BTreeSet;

use croft_core::storage::{
    CephUser, READONLY_SUBUSER,
    bucket::{GRANT, Grants, OURS},
    migration::policy::{self as moved, Moved},
};
use croft_rgw::{
    Policy, UserId,
    policy::{Effect, Principal, Statement, bucket_arn, objects_arn},
};
use serde_json::Value;

const READ_KEY: &str = "CroftReadKey";
const SUBUSERS: &str = "CroftSubusers";

const READ: [&str; 3] = ["s3:GetBucketLocation", "s3:GetObject", "s3:ListBucket"];
const WRITE: [&str; 7] = [
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
];
/// All that is not reading. `NotAction` would say it better, but Ceph takes no notice of it.
const CHANGE: [&str; 6] = ["s3:Abort*", "s3:Bypass*", "s3:Create*", "s3:Delete*", "s3:Put*", "s3:Restore*"];

/// What Ceph lets every subuser change, whatever its access.
const LEAKS: [&str; 9] = [
    "s3:DeleteBucketWebsite",
    "s3:DeleteReplicationConfiguration",
    "s3:PutBucketCORS",
    "s3:PutBucketObjectLockConfiguration",
    "s3:PutBucketRequestPayment",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutBucketWebsite",
    "s3:PutReplicationConfiguration",
];

/// The policy the bucket should have, made from the one it has. `former`: the tenants it came from, if it was moved.
pub(super) fn wanted(
    current: Option<&Policy>,
    user: &UserId,
    bucket: &str,
    grants: &Grants,
    former: Option<&BTreeSet<String>>,
) -> Policy {
    let mut policy = current.cloned().unwrap_or_else(|| Policy::new("S3Policy"));
    let subusers =
        |names: &BTreeSet<String>| names.iter().map(|name| Principal::Subuser(user.clone(), name.clone())).collect();
    let statement = |sid: &str, effect, principals, actions: &[&str]| Statement {
        sid: sid.to_owned(),
        effect,
        principals,
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        resources: [bucket_arn(bucket), objects_arn(bucket)].into(),
    };
    let reader = Principal::Subuser(user.clone(), READONLY_SUBUSER.to_owned());
    let statements = [
        statement(GRANT, Effect::Allow, subusers(&grants.read), &READ),
        statement(GRANT, Effect::Allow, subusers(&grants.write), &WRITE),
        statement(READ_KEY, Effect::Deny, [reader].into(), &CHANGE),
        // By name: all at once would mean the user itself too.
        statement(SUBUSERS, Effect::Deny, subusers(&grants.everybody), &LEAKS),
    ];
    let own = own_statements(&policy, former.is_some());
    let owner = CephUser { tenant: user.tenant().to_owned(), id: user.id().to_owned() };
    let moved = former.map(|former| {
        let unbound =
            grants.everybody.iter().filter(|name| !grants.read.contains(*name) && !grants.write.contains(*name));
        let unbound = unbound.cloned().collect();
        Moved { bucket, owner: &owner, former, subusers: &grants.everybody, unbound: &unbound }.statements(&own)
    });
    policy.replace_those(
        |statement| is_ours(statement, former.is_some()),
        statements.into_iter().filter(|statement| !statement.principals.is_empty()),
    );
    policy.append(moved.into_iter().flatten());
    policy
}

fn sid(statement: &Value) -> &str {
    statement.get("Sid").and_then(Value::as_str).unwrap_or_default()
}

/// Why the policy of a bucket that was moved is left as it is.
pub(super) fn objection(current: &Policy) -> Option<String> {
    moved::objection(&own_statements(current, true))
}

fn own_statements(policy: &Policy, is_moved: bool) -> Vec<Value> {
    policy.statements().iter().filter(|statement| !is_ours(statement, is_moved)).cloned().collect()
}

/// What we have no record of is not ours to take off.
fn is_ours(statement: &Value, is_moved: bool) -> bool {
    is_croft(statement) || (is_moved && moved::is_ours(statement))
}

fn is_croft(statement: &Value) -> bool {
    let sid = sid(statement);
    sid.starts_with(OURS) || (sid == GRANT && Statement::read(statement).is_some_and(|read| is_grant(&read)))
}

/// Whether it says what a grant may: somebody else may have used its Sid for something else.
fn is_grant(statement: &Statement) -> bool {
    let is_subuser = |principal: &Principal| matches!(principal, Principal::Subuser(..));
    statement.effect == Effect::Allow
        && statement.principals.iter().all(is_subuser)
        && statement.actions.iter().all(|action| WRITE.contains(&action.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user() -> UserId {
        UserId::new("croft_a", "data").unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn parse(policy: &Value) -> Policy {
        serde_json::from_value(policy.clone()).unwrap()
    }

    fn composed(current: Option<&Value>, grants: &Grants) -> Value {
        json!(wanted(current.map(parse).as_ref(), &user(), "photos", grants, None))
    }

    fn sids(policy: &Value) -> Vec<&str> {
        policy["Statement"].as_array().unwrap().iter().map(|statement| statement["Sid"].as_str().unwrap()).collect()
    }

    #[test]
    fn bindings_are_grants_and_the_others_are_kept_from_what_ceph_lets_slip() {
        let (read, write) = (names(&["viewer"]), names(&["one", "two"]));
        let policy = composed(None, &Grants { read, write, everybody: names(&["nobody", "one"]) });
        assert_eq!((&policy["Version"], &policy["Id"]), (&json!("2012-10-17"), &json!("S3Policy")));
        let resources = json!(["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]);
        let arn = |name: &str| format!("arn:aws:iam::croft_a:user/data:{name}");
        let statement = |sid: &str, effect: &str, principals: Vec<String>, actions: &[&str]| json!({"Sid": sid, "Effect": effect, "Principal": {"AWS": principals}, "Action": actions, "Resource": resources});
        let statements = policy["Statement"].as_array().unwrap();
        assert!(statements.contains(&statement("BucketAllow", "Allow", vec![arn("viewer")], &READ)), "{policy}");
        assert!(
            statements.contains(&statement("BucketAllow", "Allow", vec![arn("one"), arn("two")], &WRITE)),
            "{policy}"
        );
        assert!(statements.contains(&statement("CroftReadKey", "Deny", vec![arn("readonly")], &CHANGE)), "{policy}");
        assert!(
            statements.contains(&statement("CroftSubusers", "Deny", vec![arn("nobody"), arn("one")], &LEAKS)),
            "{policy}"
        );
        assert_eq!(statements.len(), 4);
    }

    #[test]
    fn a_bucket_that_was_moved_keeps_its_former_owners_out_whatever_is_written_into_its_policy() {
        let own = json!({"Sid": "mine", "Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam::croft_a:user/data:own"]},
            "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::photos/*"]});
        let forged = json!({"Sid": "MovedAway", "Effect": "Deny", "Principal": {"AWS": ["*"]}, "Action": ["s3:*"],
            "Resource": ["arn:aws:s3:::photos"]});
        let grants =
            Grants { read: names(&["viewer"]), everybody: names(&["late", "own", "viewer"]), ..Grants::default() };
        let former = names(&["croft_old"]);
        let after = |current: &Value, grants: &Grants| {
            json!(wanted(Some(&parse(current)), &user(), "photos", grants, Some(&former)))
        };
        let of = |policy: &Value, sid: &str| {
            let is_it = |it: &&Value| it["Sid"] == sid && it["Action"].to_string().contains("\"s3:GetObject\"");
            let is_all = |it: &&Value| it["Sid"] == sid && it["Action"] == json!(["s3:*"]);
            let statements = policy["Statement"].as_array().unwrap();
            statements.iter().find(|it| is_it(it) || is_all(it)).cloned().unwrap_or_default()
        };
        let policy = after(&json!({"Version": "2012-10-17", "Statement": [own, forged]}), &grants);
        assert_eq!(of(&policy, "MovedAway")["Principal"]["AWS"], json!(["arn:aws:iam::croft_old:root"]));
        assert_eq!(of(&policy, "MovedUnbound")["Principal"]["AWS"], json!(["arn:aws:iam::croft_a:user/data:late"]));
        assert_eq!(after(&policy, &grants), policy);
        let bound = Grants { read: names(&["late", "viewer"]), ..grants };
        assert_eq!(of(&after(&policy, &bound), "MovedUnbound"), Value::Null);
        // Of a bucket we know nothing of they are its user's.
        assert_eq!(of(&composed(Some(&policy), &Grants::default()), "MovedAway"), of(&policy, "MovedAway"));
    }

    #[test]
    fn what_is_not_bound_is_not_granted() {
        let before = composed(None, &Grants { read: names(&["viewer"]), write: names(&["one"]), ..Grants::default() });
        assert_eq!(sids(&composed(Some(&before), &Grants::default())), ["CroftReadKey"]);
    }

    #[test]
    fn grants_of_ceph_s3_operator_are_taken_over_and_statements_of_the_user_stay() {
        let theirs = [
            json!({"Sid": "BucketAllow", "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                   "Resource": "arn:aws:s3:::photos/*"}),
            json!({"Sid": "mine", "Effect": "Deny", "Principal": {"AWS": ["arn:aws:iam::croft_a:user/data:one"]},
                   "NotAction": "s3:*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}),
        ];
        let granted = json!({"Sid": "BucketAllow", "Effect": "Allow",
            "Principal": {"AWS": ["arn:aws:iam::croft_a:user/data:gone"]}, "Action": ["s3:ListBucket", "s3:GetObject"],
            "Resource": ["arn:aws:s3::croft_a:photos", "arn:aws:s3::croft_a:photos/*"]});
        let current = json!({"Version": "2012-10-17", "Statement": [theirs[0], granted, theirs[1]]});
        let policy = composed(Some(&current), &Grants::default());
        assert_eq!(policy["Statement"].as_array().unwrap()[..2], theirs);
        assert_eq!(sids(&policy), ["BucketAllow", "mine", "CroftReadKey"]);
    }

    #[test]
    fn a_policy_that_is_as_it_should_be_stays_as_it_is() {
        let grants = Grants { read: names(&["viewer"]), write: names(&["one"]), everybody: names(&["one", "viewer"]) };
        let policy = composed(None, &grants);
        assert_eq!(composed(Some(&policy), &grants), policy);
    }
}
