//! The policy of a bucket after it has changed hands.
//!
//! Objects keep the access list of whoever stored them: without a policy the new owner could not read them, and the old one
//! still could. What the policy said of its owner and the owner's subusers is kept, in the new owner's name. Whom else the old
//! owner let in is not let in any more: that is for the new one to say.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::CephUser;

/// Statements of ours. The Sids tell them from everybody else's: a bucket may be moved again.
pub const READ: &str = "MovedRead";
const AWAY: &str = "MovedAway";
pub const UNBOUND: &str = "MovedUnbound";

pub const READING: [&str; 6] = [
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionTagging",
];

/// A bucket's policy after a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub policy: String,
    /// What is told of whatever was left out.
    pub left_out: Option<String>,
}

/// The policy of `bucket` once it went from one user to another. What a user is allowed its subusers are too, so those that
/// nothing binds to the bucket are shut out.
pub fn moved(before: Option<&str>, bucket: &str, from: &CephUser, to: &CephUser, unbound: &BTreeSet<String>) -> Moved {
    let parsed: Option<Value> = before.and_then(|text| serde_json::from_str(text).ok());
    let is_unreadable = before.is_some() && !matches!(parsed, Some(Value::Object(_)));
    let mut policy = match parsed {
        Some(Value::Object(policy)) => policy,
        _ => Map::from_iter([("Version".into(), "2012-10-17".into()), ("Id".into(), "S3Policy".into())]),
    };
    let said = match policy.remove("Statement") {
        Some(Value::Array(statements)) => statements,
        Some(statement @ Value::Object(_)) => vec![statement],
        _ => Vec::new(),
    };
    let former: BTreeSet<_> =
        shut_out_before(&said).filter(|who| *who != everybody_of(to)).chain([everybody_of(from)]).collect();
    let theirs: Vec<_> = said.into_iter().filter(|statement| !is_ours(statement)).collect();
    let kept: Vec<_> = theirs.iter().filter_map(|statement| repointed(statement, from, to)).collect();
    let left_out = match theirs.len() - kept.iter().filter(|(_, is_whole)| *is_whole).count() {
        _ if is_unreadable => {
            Some("its policy could not be read and was left out; its new owner may set another".into())
        }
        0 => None,
        number => Some(format!(
            "{number} statements of its policy were about others than its owner, who are left out; its new owner may let them in"
        )),
    };
    let mut statements: Vec<_> = kept.into_iter().map(|(statement, _)| statement).collect();
    let (whole, objects) = (format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*"));
    let statement = |sid: &str, effect: &str, who: Vec<String>, actions: &[&str], resources: &[&String]| json!({ "Sid": sid, "Effect": effect, "Principal": { "AWS": who }, "Action": actions, "Resource": resources });
    statements.push(statement(READ, "Allow", vec![principal(to)], &READING, &[&objects]));
    statements.push(statement(AWAY, "Deny", former.into_iter().collect(), &["s3:*"], &[&whole, &objects]));
    // Whom its users let in themselves is not shut out.
    let said = Value::from(statements.clone()).to_string();
    let names = unbound.iter().map(|name| format!("{}:{name}", principal(to)));
    let names: Vec<_> = names.filter(|name| !said.contains(&format!("\"{name}\""))).collect();
    if !names.is_empty() {
        statements.push(statement(UNBOUND, "Deny", names, &READING, &[&objects]));
    }
    policy.insert("Statement".to_owned(), statements.into());
    Moved { policy: Value::Object(policy).to_string(), left_out }
}

fn sid(statement: &Value) -> &str {
    statement.get("Sid").and_then(Value::as_str).unwrap_or_default()
}

fn is_ours(statement: &Value) -> bool {
    [READ, AWAY, UNBOUND].contains(&sid(statement))
}

/// Whoever had the bucket before its last move: objects may still be theirs.
fn shut_out_before(statements: &[Value]) -> impl Iterator<Item = String> {
    let away = statements.iter().filter(|statement| sid(statement) == AWAY);
    let who = away.filter_map(|statement| statement.pointer("/Principal/AWS").and_then(Value::as_array)).flatten();
    who.filter_map(|name| name.as_str().map(str::to_owned))
}

/// Whether two policies say the same.
pub fn is_same(one: Option<&str>, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    one.and_then(read).is_some_and(|one| Some(one) == read(other))
}

fn principal(user: &CephUser) -> String {
    format!("arn:aws:iam::{}:user/{}", user.tenant, user.id)
}

/// All users of its tenant: whoever had one of them could have had others.
fn everybody_of(user: &CephUser) -> String {
    format!("arn:aws:iam::{}:root", user.tenant)
}

/// What a statement says of the owner and its subusers, in the new owner's name, and whether that is all it said.
fn repointed(statement: &Value, from: &CephUser, to: &CephUser) -> Option<(Value, bool)> {
    let (old, new) = (principal(from), principal(to));
    let own = |name: &str| {
        let rest = name.strip_prefix(&old)?;
        (rest.is_empty() || rest.starts_with(':')).then(|| format!("{new}{rest}"))
    };
    let named = match statement.pointer("/Principal/AWS")? {
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        name => vec![name.as_str()],
    };
    let kept: Vec<_> = named.iter().flatten().filter_map(|name| own(name)).collect();
    if kept.is_empty() {
        return None;
    }
    let is_whole = kept.len() == named.len();
    // With the name of a tenant that the bucket has left nobody would get in at all.
    let tenant = format!("arn:aws:s3::{}:", from.tenant);
    let here = |name: &str| name.strip_prefix(&tenant).map(|rest| format!("arn:aws:s3:::{rest}"));
    let mut statement = statement.as_object()?.clone();
    statement.insert("Principal".to_owned(), json!({ "AWS": kept }));
    for field in ["Resource", "NotResource"] {
        match statement.get_mut(field) {
            Some(Value::Array(names)) => names.iter_mut().for_each(|name| rename(name, here)),
            Some(name) => rename(name, here),
            None => {}
        }
    }
    Some((Value::Object(statement), is_whole))
}

fn rename(name: &mut Value, other: impl Fn(&str) -> Option<String>) {
    if let Some(new) = name.as_str().and_then(other) {
        *name = new.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(tenant: &str, id: &str) -> CephUser {
        CephUser { tenant: tenant.into(), id: id.into() }
    }

    fn after(before: &Value) -> (Value, Option<String>) {
        let (from, to) = (user("lab_a", "data"), user("lab_b", "store"));
        let Moved { policy, left_out } = moved(Some(&before.to_string()), "photos", &from, &to, &BTreeSet::new());
        (serde_json::from_str(&policy).unwrap(), left_out)
    }

    fn text(before: Option<&str>, from: &CephUser, to: &CephUser, unbound: &[&str]) -> String {
        moved(before, "photos", from, to, &unbound.iter().map(|name| (*name).to_owned()).collect()).policy
    }

    #[test]
    fn what_was_said_of_the_owner_is_kept_in_the_new_owners_name() {
        let (policy, left_out) = after(&json!({ "Version": "2012-10-17", "Statement": {
            "Sid": "mine", "Effect": "Allow", "Action": "s3:GetObject",
            "Principal": { "AWS": "arn:aws:iam::lab_a:user/data:one" },
            "Resource": ["arn:aws:s3::lab_a:photos/*", "arn:aws:s3:::photos"],
            "Condition": { "IpAddress": { "aws:SourceIp": "10.0.0.0/8" } },
        } }));
        let mine = &policy["Statement"][0];
        assert_eq!(mine["Principal"]["AWS"], json!(["arn:aws:iam::lab_b:user/store:one"]));
        assert_eq!(mine["Resource"], json!(["arn:aws:s3:::photos/*", "arn:aws:s3:::photos"]));
        assert_eq!(mine["Condition"]["IpAddress"]["aws:SourceIp"], "10.0.0.0/8");
        assert_eq!((policy["Statement"].as_array().unwrap().len(), left_out), (3, None));
    }

    #[test]
    fn nobody_the_old_owner_let_in_keeps_a_way_in() {
        let others = ["*", "arn:aws:iam::lab_a:user/database", "arn:aws:iam::x:root", "arn:aws:iam::x:user/data"];
        let allow = |who: Value| json!({ "Effect": "Allow", "Action": "s3:*", "Principal": who, "Resource": "r" });
        let mut statements: Vec<_> = others.iter().map(|who| allow(json!({ "AWS": [who] }))).collect();
        statements.push(allow(json!("*")));
        statements.push(allow(json!({ "AWS": ["arn:aws:iam::lab_a:user/data", others[2], 7] })));
        let negated = json!({ "Effect": "Allow", "Action": "s3:*", "NotPrincipal": { "AWS": "x" }, "Resource": "r" });
        statements.extend([negated, json!({ "Effect": "Deny", "Principal": "*", "Action": "s3:*" }), json!("?")]);
        let (policy, left_out) = after(&json!({ "Statement": statements }));
        let text = policy.to_string();
        assert!(others.iter().all(|who| !text.contains(&format!("\"{who}\""))), "{text}");
        assert_eq!(policy["Statement"][0]["Principal"]["AWS"], json!(["arn:aws:iam::lab_b:user/store"]));
        assert_eq!(policy["Statement"].as_array().unwrap().len(), 3);
        assert!(left_out.unwrap().starts_with("9 statements"));
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_left_out_and_that_is_told() {
        let (a, b) = (user("lab_a", "data"), user("lab_b", "data"));
        let after = moved(Some("{"), "photos", &a, &b, &BTreeSet::new());
        assert!(after.left_out.unwrap().contains("could not be read"));
        assert_eq!(after.policy, text(None, &a, &b, &[]));
    }

    #[test]
    fn the_new_owner_reads_and_the_old_one_is_out_with_all_its_tenant_also_after_a_second_move() {
        let (a, b) = (user("lab_a", "data"), user("lab_b", "data"));
        let there = text(None, &a, &b, &["two"]);
        assert!(there.contains("arn:aws:iam::lab_b:user/data:two"), "{there}");
        let back = text(Some(&there), &b, &a, &[]);
        assert_eq!(back, text(None, &b, &a, &[]), "nothing is left of the first move");
        let c = user("lab_c", "data");
        let on = text(Some(&there), &b, &c, &[]);
        assert!(
            on.contains(r#"["arn:aws:iam::lab_a:root","arn:aws:iam::lab_b:root"]"#),
            "all former owners are out: {on}"
        );
        assert!(is_same(Some(&back), &back.replace(',', ", ")) && !is_same(None, &back) && !is_same(Some("{"), &back));
    }
}
