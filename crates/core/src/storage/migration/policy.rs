//! The policy of a bucket that has changed hands.
//!
//! Objects keep the access list of whoever stored them: without a policy the new owner could not read them, while the old one, and
//! whom that one let in, still could. Nothing of the old owner's policy is kept: who gets in is for the new one to say. So all of
//! this is made from what we recorded ourselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    super::{
        CephUser, READONLY_SUBUSER,
        bucket::{GRANT, LONGEST_POLICY, OURS},
    },
    permits::{Permits, covers},
};

/// Statements of ours.
const OWNER: &str = "MovedOwner";
const AWAY: &str = "MovedAway";
const OTHERS: &str = "MovedOthers";
const NAMED: &str = "MovedNamed";
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
/// What the access list of a bucket lets people do. Who may read or write that list may do the same with all that is set on the bucket.
const LISTED: [&str; 39] = [
    "s3:AbortMultipartUpload",
    "s3:DeleteBucket",
    "s3:DeleteBucketPolicy",
    "s3:DeleteBucketWebsite",
    "s3:DeleteObject",
    "s3:DeleteObjectVersion",
    "s3:DeleteReplicationConfiguration",
    "s3:GetAccelerateConfiguration",
    "s3:GetBucketAcl",
    "s3:GetBucketCORS",
    "s3:GetBucketLocation",
    "s3:GetBucketLogging",
    "s3:GetBucketNotification",
    "s3:GetBucketObjectLockConfiguration",
    "s3:GetBucketPolicy",
    "s3:GetBucketRequestPayment",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetBucketWebsite",
    "s3:GetLifecycleConfiguration",
    "s3:GetReplicationConfiguration",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
    "s3:ListMultipartUploadParts",
    "s3:PutAccelerateConfiguration",
    "s3:PutBucketAcl",
    "s3:PutBucketCORS",
    "s3:PutBucketLogging",
    "s3:PutBucketNotification",
    "s3:PutBucketObjectLockConfiguration",
    "s3:PutBucketPolicy",
    "s3:PutBucketRequestPayment",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutBucketWebsite",
    "s3:PutLifecycleConfiguration",
    "s3:PutObject",
    "s3:PutReplicationConfiguration",
];

/// Whom the owner of a bucket that was moved may name: what each of them is kept from is said of each.
const MOST_NAMES: usize = 32;

/// Why nothing can be said beside what the owner of a bucket that was moved says in its policy.
pub fn objection(own: &[Value]) -> Option<String> {
    if Value::from(own).to_string().len() > LONGEST_POLICY {
        return Some(format!("it is longer than {LONGEST_POLICY} bytes"));
    }
    (Permits::of(own).names().len() > MOST_NAMES).then(|| format!("it names more than {MOST_NAMES} users"))
}

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
        let (owner, permits) = (principal(self.owner), Permits::of(own));
        let own_reading = [READING, CHANGING].concat();
        let objects = ("Resource", vec![self.objects()]);
        let mut statements = vec![statement(OWNER, "Allow", ("Principal", vec![owner.clone()]), &own_reading, objects)];
        statements.extend(self.away(&permits));
        statements.extend(self.others(&owner, &permits));
        let readers: BTreeSet<_> = self.subusers.iter().cloned().chain([READONLY_SUBUSER.to_owned()]).collect();
        for (sid, subusers, actions) in [(UNBOUND, self.unbound, READING), (SUBUSERS_CHANGES, &readers, CHANGING)] {
            for (permitted, actions) in permits.by_action(&actions) {
                let subusers = subusers.iter().map(|name| format!("{owner}:{name}"));
                let subusers = subusers.map(|name| (name.clone(), permitted.of_exactly(&name)));
                statements.extend(self.denials(sid, subusers, &actions));
            }
        }
        statements
    }

    /// Former owners, with all users of their tenants: of whom the new owner names one only by what is left out.
    fn away(&self, permits: &Permits) -> Option<Value> {
        let is_out = |tenant: &&String| **tenant != self.owner.tenant && !permits.name_somebody_of(tenant);
        let former: Vec<_> =
            self.former.iter().filter(is_out).map(|tenant| format!("arn:aws:iam::{tenant}:root")).collect();
        let everything = ("Resource", self.everything());
        (!former.is_empty()).then(|| statement(AWAY, "Deny", ("Principal", former), &["s3:*"], everything))
    }

    /// Everybody else has what the new owner says and nothing besides, whatever access lists say.
    fn others(&self, owner: &str, permits: &Permits) -> Vec<Value> {
        // Subusers of the owner are meant where the owner is, and told apart further below.
        let is_owners = |name: &str| name == owner || covers(owner, name);
        let names: BTreeSet<_> = permits.names().into_iter().filter(|name| !is_owners(name)).collect();
        let all_but = |is_meant: &dyn Fn(&str) -> bool| {
            let all_but = names.iter().map(String::as_str).filter(|name| !is_meant(name)).chain([owner]);
            ("NotPrincipal", all_but.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect())
        };
        let open = permits.open();
        let strangers = || all_but(&|_| false);
        // To deny a whole tenant something would deny it to those of its users, too, who have more: the owner may be one.
        let is_group = |name: &&String| covers(name, owner) || names.iter().any(|other| covers(name, other));
        let (groups, singles): (Vec<_>, Vec<_>) = names.iter().partition(is_group);
        let mut statements = vec![statement(OTHERS, "Deny", strangers(), &["s3:*"], self.beyond(&open))];
        for (permitted, actions) in permits.by_action(&[&READING[..], &CHANGING, &LISTED].concat()) {
            if permitted.open != open {
                statements.push(statement(OTHERS, "Deny", strangers(), &actions, self.beyond(&permitted.open)));
            }
            for group in &groups {
                let places = permitted.of(group);
                if !self.is_everything(&places, &actions) {
                    // Whom it is one of have no more than it.
                    let rest = all_but(&|name| name == *group || covers(name, group));
                    statements.push(statement(NAMED, "Deny", rest, &actions, self.beyond(&places)));
                }
            }
            let singles = singles.iter().map(|name| ((*name).clone(), permitted.of(name)));
            statements.extend(self.denials(NAMED, singles, &actions));
        }
        statements
    }

    /// Keeps each from these actions but where they are permitted.
    fn denials(
        &self,
        sid: &str,
        permitted: impl Iterator<Item = (String, BTreeSet<String>)>,
        actions: &[&str],
    ) -> Vec<Value> {
        let mut alike: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, places) in permitted.filter(|(_, places)| !self.is_everything(places, actions)) {
            alike.entry(places).or_default().push(name);
        }
        let denied = |(places, names)| statement(sid, "Deny", ("Principal", names), actions, self.beyond(&places));
        alike.into_iter().map(denied).collect()
    }

    /// All but these.
    fn beyond(&self, resources: &BTreeSet<String>) -> (&'static str, Vec<String>) {
        if resources.is_empty() {
            return ("Resource", self.everything());
        }
        ("NotResource", resources.iter().cloned().collect())
    }

    /// Whether these are all that the actions can be about.
    fn is_everything(&self, resources: &BTreeSet<String>, actions: &[&str]) -> bool {
        let is_about_objects = actions.iter().all(|action| !LISTED.contains(action));
        let needed = if is_about_objects { vec![self.objects()] } else { self.everything() };
        let is_said = |resource: &String| resources.contains(resource);
        ["*", "arn:aws:s3:::*"].iter().any(|all| resources.contains(*all)) || needed.iter().all(is_said)
    }

    fn everything(&self) -> Vec<String> {
        vec![format!("arn:aws:s3:::{}", self.bucket), self.objects()]
    }

    fn objects(&self) -> String {
        format!("arn:aws:s3:::{}/*", self.bucket)
    }

    /// The policy of a bucket whose owner has not said anything yet.
    pub(super) fn policy(&self) -> String {
        json!({ "Version": "2012-10-17", "Id": "S3Policy", "Statement": self.statements(&[]) }).to_string()
    }
}

fn statement(
    sid: &str,
    effect: &str,
    (who, names): (&str, Vec<String>),
    actions: &[&str],
    (what, resources): (&str, Vec<String>),
) -> Value {
    json!({ "Sid": sid, "Effect": effect, who: { "AWS": names }, "Action": actions, what: resources })
}

/// Whether a statement is one of those that a move makes.
pub fn is_ours(statement: &Value) -> bool {
    [OWNER, AWAY, OTHERS, NAMED, UNBOUND, SUBUSERS_CHANGES].contains(&sid(statement))
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

    const OWN: &str = "arn:aws:iam::lab_b:user/store";
    const FRIEND: &str = "arn:aws:iam::friends:user/one";
    const FORMER: &str = "arn:aws:iam::lab_a:user/data";
    const ANONYMOUS: &str = "anonymous";
    const OWN_TENANT: &str = "arn:aws:iam::lab_b:root";

    /// What the new owner may have said, each with or without the others.
    fn own_pool() -> Vec<Value> {
        let folder = "arn:aws:s3:::photos/public/*";
        let everything = ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"];
        let allow = |who: Value, actions: &[&str], where_: &[&str]| json!({ "Effect": "Allow", "Principal": who, "Action": actions, "Resource": where_ });
        vec![
            allow(json!("*"), &["s3:GetObject"], &[folder]),
            allow(json!({ "AWS": format!("{FRIEND}:*") }), &["s3:Get*", "s3:ListBucket"], &[folder, everything[0]]),
            allow(json!({ "AWS": [FORMER] }), &["s3:GetObject"], &[folder]),
            allow(json!({ "AWS": ["friends"] }), &["s3:PutObject*"], &everything),
            allow(json!({ "AWS": [format!("{OWN}:late")] }), &["s3:GetObject", "s3:PutObjectTagging"], &[folder]),
            allow(json!({ "AWS": [OWN_TENANT] }), &["s3:GetObject"], &[folder]),
            allow(json!({ "AWS": [format!("{FRIEND}:x")] }), &["s3:PutObject"], &[folder]),
            json!({ "Effect": "Deny", "Principal": { "AWS": [FRIEND, format!("{OWN}:bound")] }, "Action": "s3:PutBucketAcl",
                    "Resource": everything }),
            json!({ "Effect": "Allow", "NotPrincipal": { "AWS": FORMER }, "Action": "s3:*", "Resource": everything }),
        ]
    }

    fn texts(value: &Value) -> Vec<String> {
        match value {
            Value::Array(texts) => texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
            text => vec![text.as_str().unwrap().to_owned()],
        }
    }

    /// As Ceph has it: a user is meant by its tenant, also by the name of that alone, and a subuser by its user.
    fn is_meant(name: &str, who: &str) -> bool {
        let tenant = |arn: &str| arn.split(':').nth(4).map(str::to_owned);
        let (is_word, name) = (!name.contains(':'), name.strip_suffix(":*").unwrap_or(name));
        let is_root =
            name.ends_with(":root") && tenant(name) == tenant(who) || is_word && tenant(who).as_deref() == Some(name);
        let is_root = is_root && who != ANONYMOUS;
        name == "*" || name == who || is_root || who.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
    }

    fn is_like(pattern: &str, text: &str) -> bool {
        pattern == text || pattern.strip_suffix('*').is_some_and(|begins| text.starts_with(begins))
    }

    fn applies(statement: &Value, who: &str, action: &str, resource: &str) -> bool {
        let named = |member: &str| {
            let names = statement.get(member)?;
            let names = names.get("AWS").unwrap_or(names);
            Some(texts(names).iter().any(|name| is_meant(name, who)))
        };
        let there = |member: &str| Some(texts(statement.get(member)?).iter().any(|pattern| is_like(pattern, resource)));
        let is_whom = named("Principal").unwrap_or_else(|| !named("NotPrincipal").unwrap());
        let is_there = there("Resource").unwrap_or_else(|| !there("NotResource").unwrap());
        is_whom && is_there && texts(&statement["Action"]).iter().any(|pattern| is_like(pattern, action))
    }

    #[test]
    fn what_would_make_a_policy_without_bounds_is_objected_to() {
        let naming = |count: usize| {
            let names: Vec<_> = (0..count).map(|number| format!("arn:aws:iam::t{number}:root")).collect();
            [json!({ "Effect": "Allow", "Principal": { "AWS": names }, "Action": "s3:GetObject", "Resource": "*" })]
        };
        assert_eq!(objection(&naming(MOST_NAMES)), None);
        assert_eq!(objection(&naming(MOST_NAMES + 1)).unwrap(), "it names more than 32 users");
        let long = [json!({ "Sid": "x".repeat(LONGEST_POLICY) })];
        assert_eq!(objection(&long).unwrap(), "it is longer than 20480 bytes");
    }

    #[test]
    fn whatever_access_lists_say_everybody_has_what_the_new_owner_says_and_nothing_besides() {
        let (bound, late) = (format!("{OWN}:bound"), format!("{OWN}:late"));
        let everybody =
            [OWN, &bound, &late, FRIEND, FORMER, "arn:aws:iam::friends:user/two", "arn:aws:iam::x:user/y", ANONYMOUS];
        let resources = ["arn:aws:s3:::photos", "arn:aws:s3:::photos/public/cat", "arn:aws:s3:::photos/private/cat"];
        let pool = own_pool();
        for chosen in 0..1_u32 << pool.len() {
            let own: Vec<_> =
                (0..).zip(&pool).filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, it)| it.clone()).collect();
            let plain: Vec<_> =
                own.iter().filter(|it| it["Effect"] == "Allow" && it.get("Principal").is_some()).collect();
            let ours = statements(&["lab_a"], &["late"], &own);
            let names_former = plain.iter().any(|it| it["Principal"]["AWS"] == json!([FORMER]));
            for who in everybody {
                let is_owners = who.starts_with(OWN);
                for action in [&READING[..], &CHANGING, &LISTED].concat() {
                    // Only those that a bucket's access list gives are about the bucket itself.
                    for resource in resources.into_iter().skip(usize::from(!LISTED.contains(&action))) {
                        let denied = ours.iter().any(|it| it["Effect"] == "Deny" && applies(it, who, action, resource));
                        // Subusers of the owner are told apart by name.
                        let concerns = |it: &&&Value| !(is_owners && it["Principal"]["AWS"] == json!([OWN_TENANT]));
                        let said = plain.iter().filter(concerns).any(|it| applies(it, who, action, resource));
                        let (reads, changes) = (READING.contains(&action), CHANGING.contains(&action));
                        let is_shut = match who {
                            OWN => false,
                            _ if is_owners => {
                                // Naming the user itself, or all, names its subusers in Ceph: they are told apart by name here.
                                let concerns = changes || (reads && who == late);
                                concerns && !said
                            }
                            FORMER => !(said && names_former),
                            _ => !said,
                        };
                        assert_eq!(denied, is_shut, "{who} {action} {resource} {own:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_nobody_says_anything_about_takes_few_words() {
        let sids: Vec<_> = statements(&["lab_a"], &["late"], &[]).iter().map(|it| it["Sid"].clone()).collect();
        assert_eq!(sids, [OWNER, AWAY, OTHERS, UNBOUND, SUBUSERS_CHANGES]);
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
