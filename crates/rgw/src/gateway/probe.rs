//! Whether a gateway can be worked with.

use serde::Deserialize;

use super::Gateway;
use crate::{
    ErrorClass, RgwError, UserId,
    admin::{buckets, info, users},
    answer::Answer,
    quota::Flag,
};

/// A gateway that answers, and an administrator's key that may read users and buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whose key it is.
    pub admin: UserId,
    /// Whether it may write users and buckets too.
    pub may_write: bool,
    /// The release, as `reef`; Ceph 16 does not tell, nor does a gateway that was given another name.
    pub release: Option<String>,
    /// The cluster behind the gateway; told from Ceph 17 on, to a key with the capability `info=read`.
    pub cluster_id: Option<String>,
}

impl Gateway {
    /// Asks for the key's own user and its buckets. Succeeds if the gateway is there, speaks the Admin Ops API and lets
    /// this key read; what it would be good to know besides is asked for too, and left out where it is not told.
    pub async fn probe(&self) -> Result<Probe, RgwError> {
        let answer = self.session.send(users::get_user_with_key(self.session.access_key())).await?;
        let release = release_in(&answer);
        let admin: Administrator = answer.json()?;
        self.session.send(buckets::buckets_of(&admin.id())).await?;
        Ok(Probe { admin: admin.id(), may_write: admin.may_write(), release, cluster_id: self.cluster_id().await? })
    }

    async fn cluster_id(&self) -> Result<Option<String>, RgwError> {
        match self.session.send(info()).await {
            Ok(answer) => Ok(cluster_id_in(answer)),
            // No such call, or not for this key.
            Err(error) if matches!(error.class(), ErrorClass::Terminal | ErrorClass::Denied | ErrorClass::NotFound) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// A user, as far as it tells what its key may do here.
#[derive(Deserialize)]
struct Administrator {
    #[serde(default)]
    tenant: String,
    user_id: String,
    #[serde(default)]
    caps: Vec<Capability>,
    /// System users and administrators by name need no capability.
    #[serde(default)]
    system: Flag,
    #[serde(default)]
    admin: Flag,
}

#[derive(Deserialize)]
struct Capability {
    #[serde(rename = "type")]
    kind: String,
    perm: String,
}

impl Administrator {
    fn id(&self) -> UserId {
        UserId::of_answer(&self.tenant, &self.user_id)
    }

    fn may_write(&self) -> bool {
        let writes =
            |kind| self.caps.iter().any(|cap| cap.kind == kind && (cap.perm == "*" || cap.perm.contains("write")));
        self.system.0 || self.admin.0 || (writes("users") && writes("buckets"))
    }
}

/// `Ceph Object Gateway (reef)` -> `reef`
fn release_in(answer: &Answer) -> Option<String> {
    let server = answer.headers.get(http::header::SERVER)?.to_str().ok()?;
    let release = server.strip_prefix("Ceph Object Gateway (")?.strip_suffix(')')?;
    Some(release.to_owned())
}

fn cluster_id_in(answer: Answer) -> Option<String> {
    #[derive(Deserialize)]
    struct Told {
        info: Info,
    }
    #[derive(Deserialize)]
    struct Info {
        storage_backends: Vec<Backend>,
    }
    #[derive(Deserialize)]
    struct Backend {
        cluster_id: String,
    }
    let Told { info } = answer.json().ok()?;
    info.storage_backends.into_iter().next().map(|backend| backend.cluster_id)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn may_write(rest: &str) -> bool {
        let json = format!(r#"{{"tenant":"","user_id":"admin","keys":[],{rest}}}"#);
        serde_json::from_str::<Administrator>(&json).unwrap().may_write()
    }

    #[test]
    fn writing_takes_both_capabilities_or_a_user_above_them() {
        let users = r#"{"type":"users","perm":"*"}"#;
        for (rest, expected) in [
            (format!(r#""caps":[{users},{{"type":"buckets","perm":"*"}}]"#), true),
            (format!(r#""caps":[{users},{{"type":"buckets","perm":"read, write"}}]"#), true),
            (format!(r#""caps":[{users},{{"type":"buckets","perm":"read"}}],"system":"false""#), false),
            (format!(r#""caps":[{users}]"#), false),
            (r#""system":"true""#.to_owned(), true),
            (r#""caps":[],"admin":true"#.to_owned(), true),
        ] {
            assert_eq!(may_write(&rest), expected, "{rest}");
        }
    }

    #[test]
    fn the_release_is_read_from_the_gateways_own_name_only() {
        let mut answer = Answer::of("");
        assert_eq!(release_in(&answer), None);
        for (server, release) in
            [("Ceph Object Gateway (reef)", Some("reef")), ("nginx/1.25", None), ("Ceph Object Gateway", None)]
        {
            answer.headers.insert(http::header::SERVER, HeaderValue::from_static(server));
            assert_eq!(release_in(&answer).as_deref(), release, "{server}");
        }
    }

    #[test]
    fn the_cluster_is_told_or_left_out() {
        let told = r#"{"info":{"storage_backends":[{"name":"rados","cluster_id":"0b9f"}]}}"#;
        assert_eq!(cluster_id_in(Answer::of(told)).as_deref(), Some("0b9f"));
        for other in ["", "<html>", r#"{"info":{}}"#, r#"{"info":{"storage_backends":[]}}"#] {
            assert_eq!(cluster_id_in(Answer::of(other)), None, "{other}");
        }
    }
}
