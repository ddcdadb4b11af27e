//! Who has keys by a claim: the user itself, the reader every user has, and the subusers the claim names. All are served alike:
//! there in Ceph, one key, one Secret.

use std::collections::BTreeSet;

use super::{
    super::READONLY_SUBUSER,
    observed::{Access, Claim, Observed, Spec, User},
};

/// One of those a claim keeps a key and a Secret for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `None` is the user itself.
    pub subuser: Option<String>,
    /// What it may do with all buckets. Says nothing of the user itself.
    pub access: Access,
    /// Name of its Secret.
    pub secret: String,
    /// The field of the claim its Secret's name comes from.
    pub field: String,
}

impl Spec {
    /// All identities of the claim of that name; the user itself comes first.
    pub fn identities(&self, claim: &str) -> Vec<Identity> {
        let identity = |subuser: Option<&str>, access, secret: String, field: String| Identity {
            subuser: subuser.map(str::to_owned),
            access,
            secret,
            field,
        };
        let user = identity(None, Access::Other, self.admin_secret.clone(), "spec.adminSecretName".to_owned());
        let reader =
            identity(Some(READONLY_SUBUSER), Access::Read, self.read_secret.clone(), "spec.readSecretName".to_owned());
        let subusers = self.subusers.iter().map(|name| {
            identity(Some(name), Access::Nothing, subuser_secret(claim, name), format!("spec.subusers[{name}]"))
        });
        [user, reader].into_iter().chain(subusers).collect()
    }
}

/// Name of the Secret of a subuser.
pub fn subuser_secret(claim: &str, subuser: &str) -> String {
    format!("{claim}-{subuser}")
}

/// A change of all keys, recorded before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// What the claim's annotation said.
    pub asked: String,
    /// Names of the keys there were before: none of them is handed out any more.
    pub retired: BTreeSet<String>,
}

impl Rotation {
    /// The same with these retired as well, in any case: nobody gets in with them.
    pub(crate) fn and_lost(rotation: Option<Self>, lost: BTreeSet<String>) -> Option<Self> {
        if lost.is_empty() {
            return rotation;
        }
        let Rotation { asked, retired } = rotation.unwrap_or_default();
        Some(Rotation { asked, retired: retired.into_iter().chain(lost).collect() })
    }
}

/// What the names of new keys are made of, at random, by the shell for this reconcile. The secrets that go with them are the
/// gateway's: sent to it they would stand in its access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshKeys(pub String);

impl FreshKeys {
    /// A name for the key of the n-th identity.
    pub(crate) fn numbered(&self, number: usize) -> String {
        format!("{}{number:03}", self.0)
    }
}

/// The change of keys to record: the one under way or done, or a new one if the claim asks for it in other words. A new one waits
/// until the keys of the one before are gone: however often somebody asks, an identity has two keys at most. All keys there are then retire, and those that are lost do in any case; the next ones are told from them by this record alone, whatever happens in between.
pub(super) fn rotation(
    seen: &Observed,
    claim: &Claim,
    identities: &[Identity],
    user: Option<&User>,
) -> Option<Rotation> {
    let recorded = seen.record.as_ref().and_then(|record| record.body.rotation.as_ref());
    let keys = identities
        .iter()
        .flat_map(|identity| user.into_iter().flat_map(|user| user.keys_of(identity.subuser.as_deref())))
        .map(|pair| pair.access_key.clone());
    let is_under_way = recorded.is_some_and(|recorded| keys.clone().any(|key| recorded.retired.contains(&key)));
    let rotation = match &claim.rotate {
        Some(asked) if !is_under_way && recorded.is_none_or(|recorded| recorded.asked != *asked) => {
            // Somebody may have removed the record; what is done is told by the status, too.
            let is_done = claim.status.observed_key_rotation.as_ref() == Some(asked);
            Some(Rotation { asked: asked.clone(), retired: keys.clone().filter(|_| !is_done).collect() })
        }
        _ => recorded.cloned(),
    };
    Rotation::and_lost(rotation, keys.filter(|key| seen.lost.contains(key)).collect())
}
