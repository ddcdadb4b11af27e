//! What a restore left out, told from two lists Velero keeps beside the archive: what is in the backup, and what became of it.
//!
//! ```text
//! the restore has ended                -> Velero is asked for both lists
//! Velero has signed                    -> both are read; what is left out goes into the status
//! it is in the status                  -> the requests for the lists go
//! no list within a few minutes         -> that, too, is said, and nobody asks again
//! it ended an hour ago                 -> nobody asks any more
//! ```
//!
//! The lists lie in a bucket the tenant may be able to write: they are counted, within bounds, for her own status and nothing else.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, SeqAccess, Visitor},
};

use super::{Policy, Victim, restorable::USUAL};

/// How many shares are told; of what is beyond only the number is.
const MOST: usize = 50;
/// More kinds than any cluster serves.
const MOST_KINDS: usize = 1_000;
/// Longest name of a kind that is told.
const LONGEST: usize = 200;
/// How long Velero may take to hand out its lists.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// So long after the end of a restore it is asked for at most: of those that ended before anybody asked nobody wants to know.
pub(super) const ASKED_WITHIN: Duration = Duration::from_secs(3600);
/// How soon a list that could not be read is tried again.
pub const AGAIN: Duration = Duration::from_secs(30);
/// How long a list may be once it is unpacked.
pub const LONGEST_LIST: usize = 4 << 20;

/// A part of a restore's status: what of the backup did not come back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeftOut {
    pub kinds: Vec<Share>,
    /// Shares that are not in `kinds`, because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_kinds: u64,
    /// Why nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like that")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Objects of one kind that were left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub kind: String,
    pub count: u64,
    pub reason: Reason,
}

/// Why an object was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// It belongs to the cluster.
    ClusterScoped,
    /// The administrator does not list its kind.
    NotForTenants,
    /// The restore does not ask for it, or it is of no use: a pod or job that has ended, say.
    NotSelected,
    /// There is one of its name that differs, and the restore does not say that it is to be updated; or it was refused.
    NotWritten,
}

/// One of Velero's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// What is in the backup.
    Contents,
    /// What became of it in the restore.
    Restored,
}

impl List {
    pub const ALL: [List; 2] = [List::Contents, List::Restored];

    /// What Velero calls it.
    pub fn in_veleros_words(self) -> &'static str {
        match self {
            List::Contents => "BackupResourceList",
            List::Restored => "RestoreResourceList",
        }
    }

    /// The name of the request for it, made for the `NonAdminRestore` with this UID.
    pub fn request(self, uid: &str) -> String {
        match self {
            List::Contents => format!("nar-{uid}-contents"),
            List::Restored => format!("nar-{uid}-restored"),
        }
    }
}

/// What is known of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub list: List,
    /// Our request for it.
    pub asked: Option<Asked>,
    /// What it says, or why it could not be read, once Velero has signed.
    pub read: Option<Result<Tally, String>>,
}

/// A Velero DownloadRequest of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub uid: String,
    pub age: Duration,
}

impl Listing {
    /// One nobody has asked for.
    pub fn unasked(list: List) -> Self {
        Self { list, asked: None, read: None }
    }

    fn tally(&self) -> Option<&Tally> {
        self.read.as_ref()?.as_ref().ok()
    }

    /// The request as something we may delete.
    pub(super) fn victim(&self, uid: &str) -> Option<Victim> {
        let asked = self.asked.as_ref()?;
        Some(Victim { name: self.list.request(uid), uid: asked.uid.clone() })
    }
}

/// What is to be done to find out what was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inquiry {
    Ask(Vec<List>),
    Wait(Duration),
    Over(LeftOut),
}

impl Inquiry {
    /// `can_ask`: the backup is there, so that Velero can find its lists.
    pub(super) fn of(listings: &[Listing; 2], can_ask: bool, policy: &Policy) -> Self {
        let [contents, restored] = listings;
        if let (Some(contents), Some(restored)) = (contents.tally(), restored.tally()) {
            return Inquiry::Over(LeftOut::of(contents, restored, policy));
        }
        let unasked: Vec<_> = listings.iter().filter(|it| it.asked.is_none()).map(|it| it.list).collect();
        let oldest = listings.iter().filter_map(|it| Some(it.asked.as_ref()?.age)).max().unwrap_or_default();
        let unreadable = listings.iter().find_map(|it| it.read.as_ref()?.as_ref().err());
        if oldest >= PATIENCE {
            let silent = "Velero has not handed out its lists".to_owned();
            return Inquiry::Over(LeftOut::unknown(unreadable.cloned().unwrap_or(silent)));
        }
        let rest = PATIENCE.saturating_sub(oldest);
        match (unasked.is_empty(), can_ask, unreadable) {
            (false, true, _) => Inquiry::Ask(unasked),
            (false, false, _) => Inquiry::Over(LeftOut::unknown("the backup is not there any more".into())),
            (true, _, Some(_)) => Inquiry::Wait(AGAIN),
            (true, _, None) => Inquiry::Wait(rest),
        }
    }
}

/// One of Velero's lists, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, Count>);

/// Objects of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    total: u64,
    /// Of no namespace.
    of_the_cluster: u64,
    /// Velero has not written it, and not because there is the same already.
    failed: u64,
}

impl Tally {
    /// Reads a list: objects by kind, in a restore's each with what became of it.
    pub fn read(list: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(list).map_err(|_| "one of Velero's lists is not one".to_owned())
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Kinds)
    }
}

struct Kinds;

impl<'de> Visitor<'de> for Kinds {
    type Value = Tally;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("objects by kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut kinds: A) -> Result<Tally, A::Error> {
        let mut tally = Tally::default();
        while let Some(kind) = kinds.next_key::<String>()? {
            if tally.0.len() >= MOST_KINDS || kind.len() > LONGEST {
                return Err(de::Error::custom("more than there can be"));
            }
            tally.0.insert(kind, kinds.next_value()?);
        }
        Ok(tally)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Objects)
    }
}

struct Objects;

impl<'de> Visitor<'de> for Objects {
    type Value = Count;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("names of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<Count, A::Error> {
        let mut count = Count::default();
        while let Some(object) = objects.next_element::<String>()? {
            count.total += 1;
            count.of_the_cluster += u64::from(!object.contains('/'));
            count.failed += u64::from(object.ends_with("(failed)"));
        }
        Ok(count)
    }
}

/// `apps/v1/Deployment` or `v1/Pod` without its version: it may differ between backup and restore.
fn group_and_kind(name: &str) -> (&str, &str) {
    let (group_version, kind) = name.rsplit_once('/').unwrap_or(("", name));
    (group_version.split_once('/').map_or("", |(group, _)| group), kind)
}

impl LeftOut {
    fn unknown(why: String) -> Self {
        Self { unknown: Some(why), ..Self::default() }
    }

    fn of(contents: &Tally, restored: &Tally, policy: &Policy) -> Self {
        let mut came_back: BTreeMap<(&str, &str), Count> = BTreeMap::new();
        for (kind, count) in &restored.0 {
            let sum = came_back.entry(group_and_kind(kind)).or_default();
            *sum = sum.plus(count);
        }
        let mut shares = Vec::new();
        for (kind, stored) in &contents.0 {
            // It is there: the restore goes into it.
            if kind == "v1/Namespace" {
                continue;
            }
            let seen = came_back.get(&group_and_kind(kind)).copied().unwrap_or_default();
            let untouched = stored.total.saturating_sub(seen.total);
            for (count, reason) in [(untouched, why_untouched(kind, stored, policy)), (seen.failed, Reason::NotWritten)]
            {
                if count > 0 {
                    shares.push(Share { kind: kind.clone(), count, reason });
                }
            }
        }
        let more_kinds = u64::try_from(shares.len().saturating_sub(MOST)).unwrap_or(u64::MAX);
        shares.truncate(MOST);
        Self { kinds: shares, more_kinds, unknown: None }
    }
}

impl Count {
    fn plus(self, other: &Self) -> Self {
        Self {
            total: self.total.saturating_add(other.total),
            of_the_cluster: self.of_the_cluster.saturating_add(other.of_the_cluster),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}

fn why_untouched(kind: &str, stored: &Count, policy: &Policy) -> Reason {
    let (group, name) = group_and_kind(kind);
    let is_usual = USUAL.iter().any(|usual| {
        let of_usual = usual.api_version.split_once('/').map_or("", |(group, _)| group);
        (of_usual, usual.kind) == (group, name)
    });
    let is_listed = || policy.restorable.iter().any(|listed| is_plural_of(listed, group, name));
    match () {
        () if stored.of_the_cluster == stored.total => Reason::ClusterScoped,
        () if is_usual || is_listed() => Reason::NotSelected,
        () => Reason::NotForTenants,
    }
}

/// Whether `plural.group` is likely to be what objects of this kind are listed as: an archive tells kinds, not resources.
fn is_plural_of(listed: &str, group: &str, kind: &str) -> bool {
    let (plural, of_listed) = listed.split_once('.').unwrap_or((listed, ""));
    let kind = kind.to_ascii_lowercase();
    let stem = kind.strip_suffix('y').unwrap_or(&kind);
    of_listed == group && plural.starts_with(stem) && plural.len() <= kind.len() + 2
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    fn tally(list: Value) -> Tally {
        Tally::read(list.to_string().as_bytes()).expect("a list")
    }

    fn told(contents: Value, restored: Value, listed: &[&str]) -> Vec<String> {
        let policy = Policy { restorable: listed.iter().map(ToString::to_string).collect(), ..Policy::default() };
        let left_out = LeftOut::of(&tally(contents), &tally(restored), &policy);
        left_out.kinds.iter().map(|share| format!("{} {} {:?}", share.count, share.kind, share.reason)).collect()
    }

    #[test]
    fn every_object_that_did_not_come_back_is_counted_with_its_reason() {
        let contents = json!({
            "v1/Namespace": ["shop"],
            "v1/ConfigMap": ["shop/a", "shop/b", "shop/c", "shop/d"],
            "apps/v1/Deployment": ["shop/web"],
            "rbac.authorization.k8s.io/v1/RoleBinding": ["shop/owner", "shop/other"],
            "v1/PersistentVolume": ["pv-1"],
            "example.com/v1/Policy": ["shop/x"],
            "example.com/v1/Widget": ["shop/x"],
        });
        let restored = json!({
            "v1/ConfigMap": ["shop/a(created)", "shop/b(skipped)", "shop/c(failed)"],
            "apps/v1beta1/Deployment": ["shop/web(updated)"],
        });
        assert_eq!(
            told(contents, restored, &["policies.example.com"]),
            [
                "1 example.com/v1/Policy NotSelected",
                "1 example.com/v1/Widget NotForTenants",
                "2 rbac.authorization.k8s.io/v1/RoleBinding NotForTenants",
                "1 v1/ConfigMap NotSelected",
                "1 v1/ConfigMap NotWritten",
                "1 v1/PersistentVolume ClusterScoped",
            ]
        );
    }

    #[test]
    fn nothing_is_left_out_where_everything_came_back() {
        let contents = json!({ "v1/Secret": ["shop/a"] });
        assert!(told(contents, json!({ "v1/Secret": ["shop/a(created)", "shop/b(created)"] }), &[]).is_empty());
    }

    #[test]
    fn what_a_bucket_says_stays_bounded() {
        let many: BTreeMap<_, _> = (0..80).map(|number| (format!("v1/Kind{number}"), vec!["shop/x"])).collect();
        let left_out = LeftOut::of(&tally(json!(many)), &Tally::default(), &Policy::default());
        assert_eq!((left_out.kinds.len(), left_out.more_kinds), (MOST, 30));
        let too_many: BTreeMap<_, Vec<&str>> = (0..=MOST_KINDS).map(|number| (number.to_string(), vec![])).collect();
        for nonsense in [json!([]), json!({ "v1/Pod": "x" }), json!({ "v1/Pod": [1] }), json!(null), json!(too_many)] {
            assert!(Tally::read(nonsense.to_string().as_bytes()).is_err());
        }
        assert!(Tally::read(format!("{{\"{}\": []}}", "x".repeat(LONGEST + 1)).as_bytes()).is_err());
        assert!(Tally::read(b"\xff{").is_err());
    }

    fn listing(list: List, age: Option<u64>, read: Option<Result<Tally, String>>) -> Listing {
        let asked = age.map(|age| Asked { uid: "u".into(), age: Duration::from_secs(age) });
        Listing { list, asked, read }
    }

    #[test]
    fn velero_is_asked_once_and_not_waited_for_for_ever() {
        let ask = |contents: (Option<u64>, Option<Result<Tally, String>>), restored: (Option<u64>, _), can_ask| {
            let listings =
                [listing(List::Contents, contents.0, contents.1), listing(List::Restored, restored.0, restored.1)];
            Inquiry::of(&listings, can_ask, &Policy::default())
        };
        let unknown = |why: &str| Inquiry::Over(LeftOut::unknown(why.into()));
        let (ready, broken) = (Some(Ok(Tally::default())), Some(Err("torn".to_owned())));
        assert_eq!(ask((None, None), (None, None), true), Inquiry::Ask(List::ALL.into()));
        assert_eq!(ask((Some(1), None), (None, None), true), Inquiry::Ask(vec![List::Restored]));
        assert_eq!(ask((None, None), (None, None), false), unknown("the backup is not there any more"));
        assert_eq!(ask((Some(1), None), (Some(2), None), true), Inquiry::Wait(Duration::from_secs(298)));
        assert_eq!(ask((Some(1), ready.clone()), (Some(2), broken.clone()), true), Inquiry::Wait(AGAIN));
        assert_eq!(ask((Some(1), ready.clone()), (Some(300), broken), true), unknown("torn"));
        assert_eq!(ask((Some(300), None), (Some(2), None), true), unknown("Velero has not handed out its lists"));
        assert_eq!(ask((Some(300), ready.clone()), (Some(300), ready), false), Inquiry::Over(LeftOut::default()));
    }
}
