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
const OWNER: &str = "MovedOwner";
const AWAY: &str = "MovedAway";
const OTHERS: &str = "MovedOthers";
const OTHERS_CHANGES: &str = "MovedOthersChanges";
const UNBOUND: &str = "MovedUnbound";
const SUBUSERS_CHANGES: &str = "MovedSubusersChanges";

/// What an object's access list lets people read,
const READING: [&str; 8] = [
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectLegalHold",
    "s3:GetObjectRetention",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionTagging",
];
/// and change, though they may not write the object.
const CHANGING: [&str; 8] = [
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersionTagging",
    "s3:PutObjectAcl",
    "s3:PutObjectLegalHold",
    "s3:PutObjectRetention",
    "s3:PutObjectTagging",
    "s3:PutObjectVersionAcl",
    "s3:PutObjectVersionTagging",
];

/// A bucket that came from others, and whom it is for now.
#[derive(Clone, Copy, Debug)]
pub struct Moved<'a> {
    pub bucket: &'a str,
    pub owner: &'a CephUser,
    /// Tenants whose users had it.
    pub former: &'a BTreeSet<String>,
    /// Subusers of the owner: what a user is allowed they are too.
    pub subusers: &'a BTreeSet<String>,
    /// Those of them that nothing binds to the bucket.
    pub unbound: &'a BTreeSet<String>,
}

impl Moved<'_> {
    /// What its policy must say, beside what its owner says: `own`.
    pub fn statements(&self, own: &[Value]) -> Vec<Value> {
        let (whole, objects) = (format!("arn:aws:s3:::{}", self.bucket), format!("arn:aws:s3:::{}/*", self.bucket));
        let owner = principal(self.owner);
        let statement = |sid: &str, effect: &str, who: (&str, Vec<String>), actions: &[&str], what: (&str, Value)| json!({ "Sid": sid, "Effect": effect, who.0: { "AWS": who.1 }, "Action": actions, what.0: what.1 });
        let all_objects = || ("Resource", json!([objects]));
        let former = self.former.iter().filter(|tenant| **tenant != self.owner.tenant);
        let former: Vec<_> = former.map(|tenant| format!("arn:aws:iam::{tenant}:root")).collect();
        let own_text = Value::from(own.to_vec()).to_string();
        // Whom its owner lets in is not shut out.
        let is_let_in = |principal: &String| own_text.contains(&format!("\"{principal}\""));
        let unnamed = |names: &BTreeSet<String>| {
            let principals = names.iter().map(|name| format!("{owner}:{name}"));
            principals.filter(|principal| !is_let_in(principal)).collect::<Vec<_>>()
        };
        let both = [READING, CHANGING].concat();
        let mut statements = vec![statement(OWNER, "Allow", ("Principal", vec![owner.clone()]), &both, all_objects())];
        if !former.is_empty() {
            let everything = ("Resource", json!([whole, objects]));
            statements.push(statement(AWAY, "Deny", ("Principal", former), &["s3:*"], everything));
        }
        for (sid, actions, includes) in
            [(OTHERS, READING, is_any as fn(&str) -> bool), (OTHERS_CHANGES, CHANGING, is_change)]
        {
            let Some(LetIn { names, open }) = let_in(own, includes) else { continue };
            let all_but: BTreeSet<_> = names.into_iter().chain([owner.clone()]).collect();
            let all_but = ("NotPrincipal", all_but.into_iter().collect());
            let closed = if open.is_empty() { all_objects() } else { ("NotResource", json!(open)) };
            statements.push(statement(sid, "Deny", all_but, &actions, closed));
        }
        for (sid, names, actions) in
            [(UNBOUND, unnamed(self.unbound), READING), (SUBUSERS_CHANGES, unnamed(self.subusers), CHANGING)]
        {
            if !names.is_empty() {
                statements.push(statement(sid, "Deny", ("Principal", names), &actions, all_objects()));
            }
        }
        statements
    }

    /// The policy of a bucket whose owner has not said anything yet.
    pub(super) fn policy(&self) -> String {
        json!({ "Version": "2012-10-17", "Id": "S3Policy", "Statement": self.statements(&[]) }).to_string()
    }
}

/// Whom statements let in.
#[derive(Default)]
struct LetIn {
    /// By name, anywhere.
    names: BTreeSet<String>,
    /// Resources that are open to everybody.
    open: BTreeSet<String>,
}

/// Whom these statements let in to do what `includes` says; nothing where that cannot be told.
fn let_in(statements: &[Value], includes: fn(&str) -> bool) -> Option<LetIn> {
    let mut let_in = LetIn::default();
    for statement in statements.iter().filter(|statement| statement.get("Effect") != Some(&Value::from("Deny"))) {
        let who = match statement.get("Principal")? {
            Value::String(everybody) => vec![everybody.clone()],
            named => texts(named.get("AWS")?)?,
        };
        if who.iter().all(|name| name != "*") {
            let_in.names.extend(who);
            continue;
        }
        // What it allows may be told the other way round.
        let actions = statement.get("Action").map_or_else(|| Some(vec!["*".to_owned()]), texts)?;
        if actions.iter().any(|action| includes(action)) {
            let_in.open.extend(texts(statement.get("Resource")?)?);
        }
    }
    Some(let_in)
}

/// One text or a list of them.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(texts) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        text => Some(vec![text.as_str()?.to_owned()]),
    }
}

fn is_any(_: &str) -> bool {
    true
}

/// Whether an action of a policy may be one that changes what is said of an object.
fn is_change(action: &str) -> bool {
    let action = action.to_ascii_lowercase();
    action.starts_with('*') || ["s3:*", "s3:p", "s3:d"].iter().any(|begins| action.starts_with(begins))
}

/// Whether a statement is one of those that a move makes.
pub fn is_ours(statement: &Value) -> bool {
    [OWNER, AWAY, OTHERS, OTHERS_CHANGES, UNBOUND, SUBUSERS_CHANGES].contains(&sid(statement))
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
        let (former, unbound, subusers) = (names(former), names(unbound), names(&["bound", "late", "own"]));
        let moved = Moved { bucket: "photos", owner: &owner, former: &former, subusers: &subusers, unbound: &unbound };
        moved.statements(own)
    }

    fn of<'a>(sid: &str, statements: &'a [Value]) -> Option<&'a Value> {
        statements.iter().find(|statement| statement["Sid"] == sid)
    }

    #[test]
    fn the_new_owner_reads_and_all_former_ones_are_out_with_their_tenants_but_never_its_own() {
        let told = statements(&["lab_a", "lab_b", "lab_c"], &[], &[]);
        assert_eq!(of(OWNER, &told).unwrap()["Principal"]["AWS"], json!(["arn:aws:iam::lab_b:user/store"]));
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
        assert_eq!(all_but(&[allow(json!({ "AWS": [7] }))]), None);
        assert_eq!(all_but(&[json!({ "Effect": "Allow", "NotPrincipal": { "AWS": "x" } })]), None);
    }

    #[test]
    fn what_is_opened_to_everybody_is_open_to_read_and_the_rest_stays_shut() {
        let folder = "arn:aws:s3:::photos/public/*";
        let open = |who: Value, action: &str| json!({ "Effect": "Allow", "Action": action, "Principal": who, "Resource": folder });
        let shut = |sid: &str, own: Value| {
            let told = statements(&["lab_a"], &[], &[own]);
            of(sid, &told).map(|statement| (statement["Resource"].clone(), statement["NotResource"].clone()))
        };
        let everything = Some((json!(["arn:aws:s3:::photos/*"]), Value::Null));
        let all_but_the_folder = Some((Value::Null, json!([folder])));
        for everybody in [json!("*"), json!({ "AWS": "*" }), json!({ "AWS": ["x", "*"] })] {
            assert_eq!(shut(OTHERS, open(everybody.clone(), "s3:GetObject")), all_but_the_folder);
            assert_eq!(
                shut(OTHERS_CHANGES, open(everybody.clone(), "s3:GetObject")),
                everything,
                "reading is no change"
            );
            assert_eq!(shut(OTHERS_CHANGES, open(everybody, "s3:Put*")), all_but_the_folder);
        }
        let unclear = json!({ "Effect": "Allow", "Action": "s3:GetObject", "Principal": "*", "NotResource": folder });
        assert_eq!(shut(OTHERS, unclear), None);
    }

    #[test]
    fn a_subuser_changes_nothing_that_the_owner_does_not_let_it_change() {
        let own = json!({ "Effect": "Allow", "Principal": { "AWS": ["arn:aws:iam::lab_b:user/store:own"] } });
        let told = statements(&["lab_a"], &["late"], &[own]);
        let names = ["arn:aws:iam::lab_b:user/store:bound", "arn:aws:iam::lab_b:user/store:late"];
        assert_eq!(of(SUBUSERS_CHANGES, &told).unwrap()["Principal"]["AWS"], json!(names));
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
