//! The policy of a bucket that has changed hands.
//!
//! Objects keep the access list of whoever stored them: without a policy the new owner could not read them, while the old one, and
//! whom that one let in, still could. Nothing of the old owner's policy is kept: who gets in is for the new one to say. So all of
//! this is made from what we recorded ourselves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::{
    CephUser,
    bucket::{GRANT, OURS},
};

/// Statements of ours.
const READ: &str = "MovedRead";
const AWAY: &str = "MovedAway";
const OTHERS: &str = "MovedOthers";
const UNBOUND: &str = "MovedUnbound";

const READING: [&str; 6] = [
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionTagging",
];

/// A bucket that came from others, and whom it is for now.
#[derive(Clone, Copy, Debug)]
pub struct Moved<'a> {
    pub bucket: &'a str,
    pub owner: &'a CephUser,
    /// Tenants whose users had it.
    pub former: &'a BTreeSet<String>,
    /// Subusers of the owner that nothing binds to the bucket: what a user is allowed its subusers are too.
    pub unbound: &'a BTreeSet<String>,
}

impl Moved<'_> {
    /// What its policy must say, beside what its owner says: `own`.
    pub fn statements(&self, own: &[Value]) -> Vec<Value> {
        let (whole, objects) = (format!("arn:aws:s3:::{}", self.bucket), format!("arn:aws:s3:::{}/*", self.bucket));
        let owner = principal(self.owner);
        let statement = |sid: &str,
                         effect: &str,
                         (field, who): (&str, Vec<String>),
                         actions: &[&str],
                         resources: &[&String]| {
            json!({ "Sid": sid, "Effect": effect, field: { "AWS": who }, "Action": actions, "Resource": resources })
        };
        let former = self.former.iter().filter(|tenant| **tenant != self.owner.tenant);
        let former: Vec<_> = former.map(|tenant| format!("arn:aws:iam::{tenant}:root")).collect();
        let named = Value::from(own.to_vec()).to_string();
        let unbound = self.unbound.iter().map(|name| format!("{owner}:{name}"));
        // Whom its owner lets in is not shut out.
        let unbound: Vec<_> = unbound.filter(|name| !named.contains(&format!("\"{name}\""))).collect();
        let mut statements = vec![statement(READ, "Allow", ("Principal", vec![owner.clone()]), &READING, &[&objects])];
        if !former.is_empty() {
            statements.push(statement(AWAY, "Deny", ("Principal", former), &["s3:*"], &[&whole, &objects]));
        }
        if let Some(let_in) = let_in(own) {
            let all_but: BTreeSet<_> = let_in.into_iter().chain([owner]).collect();
            let all_but = ("NotPrincipal", all_but.into_iter().collect());
            statements.push(statement(OTHERS, "Deny", all_but, &READING, &[&objects]));
        }
        if !unbound.is_empty() {
            statements.push(statement(UNBOUND, "Deny", ("Principal", unbound), &READING, &[&objects]));
        }
        statements
    }

    /// The policy of a bucket whose owner has not said anything yet.
    pub(super) fn policy(&self) -> String {
        json!({ "Version": "2012-10-17", "Id": "S3Policy", "Statement": self.statements(&[]) }).to_string()
    }
}

/// Whom these statements let in by name; `None` if that is everybody, or cannot be told.
fn let_in(statements: &[Value]) -> Option<BTreeSet<String>> {
    let allowing = statements.iter().filter(|statement| statement.get("Effect") != Some(&Value::from("Deny")));
    let names = allowing.map(|statement| match statement.pointer("/Principal/AWS")? {
        Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        name => Some(vec![name.as_str()?.to_owned()]),
    });
    let names = names.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect::<BTreeSet<_>>();
    (!names.iter().any(|name| name == "*")).then_some(names)
}

/// Whether a statement is one of those that a move makes.
pub fn is_ours(statement: &Value) -> bool {
    [READ, AWAY, OTHERS, UNBOUND].contains(&sid(statement))
}

fn sid(statement: &Value) -> &str {
    statement.get("Sid").and_then(Value::as_str).unwrap_or_default()
}

fn principal(user: &CephUser) -> String {
    format!("arn:aws:iam::{}:user/{}", user.tenant, user.id)
}

/// What is told of a policy that its bucket does not keep, unless it said nothing but what we made it say.
pub(super) fn left_out(policy: &str) -> Option<String> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let statements = match policy.get("Statement")? {
        Value::Array(statements) => statements.as_slice(),
        statement => std::slice::from_ref(statement),
    };
    let is_ours = |statement: &Value| is_ours(statement) || sid(statement) == GRANT || sid(statement).starts_with(OURS);
    let told = "what its old owner had said in its policy is left out; its new owner says who gets in";
    (!statements.iter().all(is_ours)).then(|| told.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn statements(former: &[&str], unbound: &[&str], own: &[Value]) -> Vec<Value> {
        let owner = CephUser { tenant: "lab_b".into(), id: "store".into() };
        let (former, unbound) = (names(former), names(unbound));
        Moved { bucket: "photos", owner: &owner, former: &former, unbound: &unbound }.statements(own)
    }

    fn of<'a>(sid: &str, statements: &'a [Value]) -> Option<&'a Value> {
        statements.iter().find(|statement| statement["Sid"] == sid)
    }

    #[test]
    fn the_new_owner_reads_and_all_former_ones_are_out_with_their_tenants_but_never_its_own() {
        let told = statements(&["lab_a", "lab_b", "lab_c"], &[], &[]);
        assert_eq!(of(READ, &told).unwrap()["Principal"]["AWS"], json!(["arn:aws:iam::lab_b:user/store"]));
        assert_eq!(
            of(AWAY, &told).unwrap()["Principal"]["AWS"],
            json!(["arn:aws:iam::lab_a:root", "arn:aws:iam::lab_c:root"])
        );
        assert_eq!(of(AWAY, &statements(&["lab_b"], &[], &[])), None);
        assert!(told.iter().all(is_ours) && !is_ours(&json!({ "Sid": "mine" })));
    }

    #[test]
    fn an_access_list_lets_in_only_whom_the_new_owner_lets_in_too() {
        let allow =
            |who: Value| json!({ "Effect": "Allow", "Action": "s3:GetObject", "Principal": who, "Resource": "r" });
        let all_but = |own: &[Value]| {
            let told = statements(&["lab_a"], &[], own);
            of(OTHERS, &told).map(|statement| statement["NotPrincipal"]["AWS"].clone())
        };
        let owner = "arn:aws:iam::lab_b:user/store";
        assert_eq!(all_but(&[]), Some(json!([owner])));
        let friend = json!({ "AWS": "arn:aws:iam::friend:root" });
        assert_eq!(all_but(&[allow(friend.clone())]), Some(json!(["arn:aws:iam::friend:root", owner])));
        let refused = json!({ "Effect": "Deny", "Principal": friend });
        assert_eq!(all_but(&[refused]), Some(json!([owner])), "a refusal lets nobody in");
        for everybody in [json!("*"), json!({ "AWS": ["*"] }), json!({ "AWS": [7] })] {
            assert_eq!(all_but(&[allow(everybody)]), None);
        }
        assert_eq!(all_but(&[json!({ "Effect": "Allow", "NotPrincipal": { "AWS": "x" } })]), None);
    }

    #[test]
    fn a_subuser_that_neither_a_binding_nor_the_owner_lets_in_stays_out() {
        let own = json!({ "Effect": "Allow", "Principal": { "AWS": ["arn:aws:iam::lab_b:user/store:own"] } });
        let told = statements(&["lab_a"], &["late", "own"], &[own]);
        assert_eq!(of(UNBOUND, &told).unwrap()["Principal"]["AWS"], json!(["arn:aws:iam::lab_b:user/store:late"]));
        assert_eq!(of(UNBOUND, &statements(&["lab_a"], &[], &[])), None);
    }

    #[test]
    fn what_is_left_out_is_told() {
        let policy = |statements: Value| json!({ "Statement": statements }).to_string();
        let (mine, ours) =
            (json!({ "Sid": "mine" }), [json!({ "Sid": "CroftSubusers" }), json!({ "Sid": "BucketAllow" })]);
        assert!(left_out(&policy(json!([ours[0], mine, ours[1]]))).is_some() && left_out(&policy(mine)).is_some());
        assert_eq!(left_out(&policy(json!(ours))), None);
        assert_eq!((left_out("{"), left_out("{}")), (None, None));
    }
}
