//! Bucket policies. Ours are typed; what a user has written is kept as it is, whatever it says.
//!
//! What to know of the gateway:
//!
//! - An `Allow` reaches further than a subuser's access level, which is how a subuser without access gets rights on
//!   single buckets. An `Allow` for a [`User`](Principal::User) holds for all of its subusers too.
//! - Unknown users are accepted, so a policy may be stored that lets nobody in. Unknown actions and fields are refused.
//! - A policy that names the tenant in a resource locks everybody out once the bucket is linked into another tenant.
//!   [`bucket_arn`] and [`objects_arn`] do not name it.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value, json};

use crate::UserId;

const VERSION: &str = "2012-10-17";
const STATEMENT: &str = "Statement";

/// A policy document. Shown with `to_string`, it is the JSON that the gateway stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// All but the statements.
    fields: Map<String, Value>,
    statements: Vec<Value>,
}

/// A statement as we write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// By which we find it again. Several statements may share one.
    pub sid: String,
    /// Whether it lets somebody do something, or keeps him from it.
    pub effect: Effect,
    /// Whom it is about.
    pub principals: BTreeSet<Principal>,
    /// As `s3:GetObject`.
    pub actions: BTreeSet<String>,
    /// As [`bucket_arn`] and [`objects_arn`] spell them.
    pub resources: BTreeSet<String>,
}

/// What a statement does. What is denied is not allowed by any other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Effect {
    /// Lets somebody do something.
    Allow,
    /// Keeps somebody from doing something.
    Deny,
}

/// Whom a statement is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Principal {
    /// Whoever asks, with a key or without one.
    Everyone,
    /// All users of a tenant.
    Tenant(String),
    /// A user and all of its subusers.
    User(UserId),
    /// One subuser.
    Subuser(UserId, String),
    /// All subusers of a user.
    EverySubuser(UserId),
    /// Something else, as it is spelt.
    Other(String),
}

/// The bucket itself: what it takes to list it.
pub fn bucket_arn(bucket: &str) -> String {
    format!("arn:aws:s3:::{bucket}")
}

/// All objects of the bucket.
pub fn objects_arn(bucket: &str) -> String {
    format!("arn:aws:s3:::{bucket}/*")
}

impl Policy {
    /// Without statements.
    pub fn new(id: &str) -> Self {
        let fields = [("Version", VERSION), ("Id", id)];
        Self {
            fields: fields.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect(),
            statements: vec![],
        }
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// See [`Statement::read`] for those of our kind.
    pub fn statements(&self) -> &[Value] {
        &self.statements
    }

    /// Puts `statements` in the place of all those whose Sid `is_ours`. The others stay as they are, in front and in
    /// their order; the new ones are sorted, so that the same rights always make the same document.
    pub fn replace(&mut self, is_ours: impl Fn(&str) -> bool, statements: impl IntoIterator<Item = Statement>) {
        self.replace_those(|statement| statement.get("Sid").and_then(Value::as_str).is_some_and(&is_ours), statements);
    }

    /// The same, where more than the Sid tells which are ours.
    pub fn replace_those(&mut self, is_ours: impl Fn(&Value) -> bool, statements: impl IntoIterator<Item = Statement>) {
        self.statements.retain(|statement| !is_ours(statement));
        let sorted: BTreeSet<_> = statements.into_iter().collect();
        self.statements.extend(sorted.iter().map(Statement::to_json));
    }

    /// Adds statements that say what a [`Statement`] cannot.
    pub fn append(&mut self, statements: impl IntoIterator<Item = Value>) {
        self.statements.extend(statements);
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = self.fields.clone();
        document.insert(STATEMENT.to_owned(), self.statements.clone().into());
        document.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Policy {
    /// A single statement may stand without a list around it; none at all is accepted by the gateway, too.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let statements = match fields.remove(STATEMENT) {
            None => vec![],
            Some(Value::Array(statements)) => statements,
            Some(statement @ Value::Object(_)) => vec![statement],
            Some(_) => return Err(D::Error::custom("a statement is neither an object nor a list")),
        };
        Ok(Self { fields, statements })
    }
}

impl Statement {
    fn to_json(&self) -> Value {
        let principals: Vec<_> = self.principals.iter().map(Principal::to_string).collect();
        json!({
            "Sid": self.sid,
            "Effect": self.effect,
            "Principal": { "AWS": principals },
            "Action": self.actions,
            "Resource": self.resources,
        })
    }

    /// `None` if it says anything that a `Statement` cannot, such as a condition.
    pub fn read(statement: &Value) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase", deny_unknown_fields)]
        struct Answer {
            #[serde(default)]
            sid: String,
            effect: Effect,
            principal: Principals,
            action: OneOrMany,
            resource: OneOrMany,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Principals {
            Word(String),
            Users(Users),
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Users {
            #[serde(rename = "AWS")]
            aws: OneOrMany,
        }
        let answer = Answer::deserialize(statement).ok()?;
        let principals: BTreeSet<String> = match answer.principal {
            Principals::Word(word) => [word].into(),
            Principals::Users(users) => users.aws.into(),
        };
        Some(Self {
            sid: answer.sid,
            effect: answer.effect,
            principals: principals.iter().map(|name| Principal::read(name)).collect(),
            actions: answer.action.into(),
            resources: answer.resource.into(),
        })
    }
}

/// A list of one may stand without brackets.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(BTreeSet<String>),
}

impl From<OneOrMany> for BTreeSet<String> {
    fn from(words: OneOrMany) -> Self {
        match words {
            OneOrMany::One(word) => [word].into(),
            OneOrMany::Many(words) => words,
        }
    }
}

impl Principal {
    fn read(name: &str) -> Self {
        Self::parse(name).unwrap_or_else(|| Self::Other(name.to_owned()))
    }

    fn parse(name: &str) -> Option<Self> {
        if name == "*" {
            return Some(Self::Everyone);
        }
        let (tenant, rest) = name.strip_prefix("arn:aws:iam::")?.split_once(':')?;
        if rest == "root" {
            return Some(Self::Tenant(tenant.to_owned()));
        }
        let full = rest.strip_prefix("user/")?;
        let (id, subuser) = full.split_once(':').map_or((full, None), |(id, subuser)| (id, Some(subuser)));
        let user = UserId::new(tenant, id).ok()?;
        Some(match subuser {
            None => Self::User(user),
            Some("*") => Self::EverySubuser(user),
            Some(name) => Self::Subuser(user, name.to_owned()),
        })
    }
}

/// As it stands in a policy. The tenant is always there, if only as nothing: without it a name means the default one.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arn = |user: &UserId| format!("arn:aws:iam::{}:user/{}", user.tenant(), user.id());
        match self {
            Self::Everyone => f.write_str("*"),
            Self::Tenant(tenant) => write!(f, "arn:aws:iam::{tenant}:root"),
            Self::User(user) => f.write_str(&arn(user)),
            Self::Subuser(user, name) => write!(f, "{}:{name}", arn(user)),
            Self::EverySubuser(user) => write!(f, "{}:*", arn(user)),
            Self::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_set, prelude::*};

    use super::*;

    fn bob() -> UserId {
        UserId::new("acme", "bob").unwrap()
    }

    fn statement(sid: &str, action: &str) -> Statement {
        Statement {
            sid: sid.into(),
            effect: Effect::Allow,
            principals: [Principal::Subuser(bob(), "ro".into()), Principal::User(bob())].into(),
            actions: [action.to_owned()].into(),
            resources: [bucket_arn("data"), objects_arn("data")].into(),
        }
    }

    fn parse(json: &Value) -> Policy {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn a_policy_is_written_as_the_gateway_reads_it() {
        let mut policy = Policy::new("S3Policy");
        policy.replace(|_| true, [statement("BucketAllow", "s3:GetObject")]);
        let expected = json!({
            "Version": "2012-10-17",
            "Id": "S3Policy",
            "Statement": [{
                "Sid": "BucketAllow",
                "Effect": "Allow",
                "Principal": {"AWS": ["arn:aws:iam::acme:user/bob", "arn:aws:iam::acme:user/bob:ro"]},
                "Action": ["s3:GetObject"],
                "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"],
            }],
        });
        assert_eq!(serde_json::from_str::<Value>(&policy.to_string()).unwrap(), expected);
    }

    #[test]
    fn principals_are_spelt_as_the_gateway_knows_them() {
        for (principal, arn) in [
            (Principal::Everyone, "*"),
            (Principal::Tenant("beta".into()), "arn:aws:iam::beta:root"),
            (Principal::User(bob()), "arn:aws:iam::acme:user/bob"),
            (Principal::User(UserId::new("", "bob").unwrap()), "arn:aws:iam:::user/bob"),
            (Principal::Subuser(bob(), "ro".into()), "arn:aws:iam::acme:user/bob:ro"),
            (Principal::EverySubuser(bob()), "arn:aws:iam::acme:user/bob:*"),
            (Principal::Other("arn:aws:iam::acme:role/x".into()), "arn:aws:iam::acme:role/x"),
            (Principal::Other("garbage".into()), "garbage"),
        ] {
            assert_eq!(principal.to_string(), arn);
            assert_eq!(Principal::read(arn), principal);
        }
    }

    #[test]
    fn what_a_user_has_written_stays_whatever_it_says() {
        let theirs = [
            json!({"Sid": "z", "Effect": "Deny", "NotPrincipal": {"AWS": "*"}, "NotAction": "s3:*",
                   "Resource": "arn:aws:s3:::data/*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}),
            json!({"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*"}),
        ];
        let ours = json!({"Sid": "croft/old", "Effect": "Deny", "Future": [1]});
        let document = json!({"Version": "2008-10-17", "Id": "theirs", "Future": {"a": 1},
                              "Statement": [ours, theirs[0], theirs[1]]});
        let mut policy = parse(&document);
        assert_eq!(serde_json::to_value(&policy).unwrap(), document);

        let new = [statement("croft/b", "s3:PutObject"), statement("croft/a", "s3:GetObject")];
        policy.replace(|sid| sid.starts_with("croft/"), new);

        let written = serde_json::to_value(&policy).unwrap();
        assert_eq!((&written["Version"], &written["Future"]), (&json!("2008-10-17"), &json!({"a": 1})));
        assert_eq!(policy.statements()[..2], theirs);
        let sids: Vec<_> = policy.statements()[2..].iter().map(|statement| &statement["Sid"]).collect();
        assert_eq!(sids, ["croft/a", "croft/b"]);

        policy.replace(|sid| sid.starts_with("croft/"), []);
        assert_eq!(policy.statements(), theirs);
    }

    #[test]
    fn short_forms_are_read() {
        let one = json!({"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::d"});
        let policy = parse(&json!({"Version": "2012-10-17", "Statement": one}));
        assert_eq!(policy.statements(), [one]);
        let read = Statement::read(&policy.statements()[0]).unwrap();
        assert_eq!((read.sid.as_str(), read.principals), ("", [Principal::Everyone].into()));
        assert!(parse(&json!({})).is_empty());
        assert!(serde_json::from_str::<Policy>(r#"{"Statement":"x"}"#).is_err());
    }

    #[test]
    fn a_statement_that_says_more_is_not_read_as_one_of_ours() {
        let mut json = statement("a", "s3:GetObject").to_json();
        assert!(Statement::read(&json).is_some());
        json["Principal"] = json!({"AWS": ["*"], "Federated": ["x"]});
        assert_eq!(Statement::read(&json), None);
        let mut json = statement("a", "s3:GetObject").to_json();
        json["Condition"] = json!({});
        assert_eq!(Statement::read(&json), None);
    }

    fn any_statement() -> impl Strategy<Value = Statement> {
        let user = || ("[a-z]{0,3}", "[a-z@ /]{1,4}").prop_map(|(tenant, id)| UserId::new(tenant, id).unwrap());
        let principal = prop_oneof![
            Just(Principal::Everyone),
            "[a-z_]{0,4}".prop_map(Principal::Tenant),
            user().prop_map(Principal::User),
            (user(), "[a-z0-9]{1,4}").prop_map(|(user, name)| Principal::Subuser(user, name)),
            user().prop_map(Principal::EverySubuser),
        ];
        let words = || btree_set(any::<String>(), 0..3);
        ("[a-c]", any::<bool>(), btree_set(principal, 0..3), words(), words()).prop_map(
            |(sid, allow, principals, actions, resources)| Statement {
                sid,
                effect: if allow { Effect::Allow } else { Effect::Deny },
                principals,
                actions,
                resources,
            },
        )
    }

    proptest! {
        #[test]
        fn statements_are_read_as_they_were_written(statement in any_statement()) {
            prop_assert_eq!(Statement::read(&statement.to_json()), Some(statement));
        }

        #[test]
        fn the_same_rights_make_the_same_document(
            mut statements in prop::collection::vec(any_statement(), 0..5),
            before in prop::collection::vec(any_statement(), 0..3),
        ) {
            let mut policy = Policy::new("S3Policy");
            policy.replace(|_| true, before);
            policy.replace(|_| true, statements.clone());
            let mut again = parse(&serde_json::to_value(&policy).unwrap());
            statements.reverse();
            again.replace(|_| true, statements);
            prop_assert_eq!(again.to_string(), policy.to_string());
        }
    }
}
