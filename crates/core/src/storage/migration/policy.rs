//! The policy of a bucket after it has changed hands.
//!
//! Objects keep the access list of whoever stored them: without a policy the new owner could not read them, and the old one
//! still could. What the bucket's users had said themselves is kept, in the new owner's name.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::CephUser;

/// Statements of ours. The Sids tell them from everybody else's: a bucket may be moved again.
const READ: &str = "MovedRead";
const AWAY: &str = "MovedAway";
const UNBOUND: &str = "MovedUnbound";

const READING: [&str; 6] = [
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionTagging",
];

/// The policy of `bucket` once it went from one user to another. What a user is allowed its subusers are too, so those that
/// nothing binds to the bucket are shut out.
pub fn moved(before: Option<&str>, bucket: &str, from: &CephUser, to: &CephUser, unbound: &BTreeSet<String>) -> String {
    let before: Option<Value> = before.and_then(|text| serde_json::from_str(text).ok());
    let mut policy = match before {
        Some(Value::Object(policy)) => policy,
        _ => Map::from_iter([("Version".into(), "2012-10-17".into()), ("Id".into(), "S3Policy".into())]),
    };
    let kept = match policy.remove("Statement") {
        Some(Value::Array(statements)) => statements,
        Some(statement @ Value::Object(_)) => vec![statement],
        _ => Vec::new(),
    };
    let is_ours = |statement: &Value| {
        statement.get("Sid").and_then(Value::as_str).is_some_and(|sid| [READ, AWAY, UNBOUND].contains(&sid))
    };
    let out = shut_out_before(&kept).filter(|who| *who != principal(to)).chain([principal(from)]);
    let out: BTreeSet<_> = out.collect();
    let mut statements: Vec<_> = kept.into_iter().filter(|statement| !is_ours(statement)).collect();
    for statement in &mut statements {
        repoint(statement, from, to);
    }
    let (whole, objects) = (format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*"));
    let statement = |sid: &str, effect: &str, who: Vec<String>, actions: &[&str], resources: &[&String]| json!({ "Sid": sid, "Effect": effect, "Principal": { "AWS": who }, "Action": actions, "Resource": resources });
    statements.push(statement(READ, "Allow", vec![principal(to)], &READING, &[&objects]));
    statements.push(statement(AWAY, "Deny", out.into_iter().collect(), &["s3:*"], &[&whole, &objects]));
    // Whom its users let in themselves is not shut out.
    let said = Value::from(statements.clone()).to_string();
    let names = unbound.iter().map(|name| format!("{}:{name}", principal(to)));
    let names: Vec<_> = names.filter(|name| !said.contains(&format!("\"{name}\""))).collect();
    if !names.is_empty() {
        statements.push(statement(UNBOUND, "Deny", names, &READING, &[&objects]));
    }
    policy.insert("Statement".to_owned(), statements.into());
    Value::Object(policy).to_string()
}

/// Whoever had the bucket before its last move: objects may still be theirs.
fn shut_out_before(statements: &[Value]) -> impl Iterator<Item = String> {
    let away = statements.iter().filter(|statement| statement.get("Sid").and_then(Value::as_str) == Some(AWAY));
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

fn repoint(statement: &mut Value, from: &CephUser, to: &CephUser) {
    let (old, new) = (principal(from), principal(to));
    let owner = |name: &str| match name.strip_prefix(&old) {
        Some(rest) if rest.is_empty() || rest.starts_with(':') => Some(format!("{new}{rest}")),
        _ => None,
    };
    // With the name of a tenant that the bucket has left nobody would get in at all.
    let tenant = format!("arn:aws:s3::{}:", from.tenant);
    let resource = |name: &str| name.strip_prefix(&tenant).map(|rest| format!("arn:aws:s3:::{rest}"));
    let Value::Object(fields) = statement else { return };
    for (field, value) in fields {
        match field.as_str() {
            "Principal" | "NotPrincipal" => rewrite(value, &owner),
            "Resource" | "NotResource" => rewrite(value, &resource),
            _ => {}
        }
    }
}

/// Every text in it that has another form.
fn rewrite(value: &mut Value, other: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = other(text) {
                *text = new;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite(value, other)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rewrite(value, other)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(tenant: &str, id: &str) -> CephUser {
        CephUser { tenant: tenant.into(), id: id.into() }
    }

    fn after(before: &Value) -> Value {
        let text = moved(
            Some(&before.to_string()),
            "photos",
            &user("lab_a", "data"),
            &user("lab_b", "store"),
            &BTreeSet::new(),
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_users_said_is_kept_in_the_new_owners_name() {
        let policy = after(&json!({ "Version": "2012-10-17", "Statement": {
            "Sid": "mine", "Effect": "Allow", "Action": "s3:GetObject",
            "Principal": { "AWS": ["arn:aws:iam::lab_a:user/data:one", "arn:aws:iam::lab_a:user/database", "arn:aws:iam::x:root"] },
            "Resource": ["arn:aws:s3::lab_a:photos/*", "arn:aws:s3:::photos"],
        } }));
        let mine = &policy["Statement"][0];
        assert_eq!(
            mine["Principal"]["AWS"],
            json!(["arn:aws:iam::lab_b:user/store:one", "arn:aws:iam::lab_a:user/database", "arn:aws:iam::x:root"])
        );
        assert_eq!(mine["Resource"], json!(["arn:aws:s3:::photos/*", "arn:aws:s3:::photos"]));
        assert_eq!(policy["Statement"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn the_new_owner_reads_and_the_old_one_is_out_also_after_a_second_move() {
        let (a, b) = (user("lab_a", "data"), user("lab_b", "data"));
        let none = BTreeSet::new();
        let there = moved(None, "photos", &a, &b, &["two".to_owned()].into());
        assert!(there.contains("arn:aws:iam::lab_b:user/data:two"), "{there}");
        let back = moved(Some(&there), "photos", &b, &a, &none);
        assert_eq!(back, moved(None, "photos", &b, &a, &none), "nothing is left of the first move");
        let c = user("lab_c", "data");
        let on = moved(Some(&there), "photos", &b, &c, &none);
        assert!(
            on.contains(&format!("[\"{}\",\"{}\"]", principal(&a), principal(&b))),
            "all former owners are out: {on}"
        );
        assert!(is_same(Some(&back), &back.replace(',', ", ")) && !is_same(None, &back) && !is_same(Some("{"), &back));
    }
}
