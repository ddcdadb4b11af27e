//! What can be told of a kind: what discovery says of it, as far as its watch bears that out.

use super::resources::KindSeen;
use crate::{
    plan::{Failure, FailureClass},
    watching::Standing,
};

/// A kind that is served, as its watch lets it be seen. Fails while the watch of a kind starts of which there may be objects:
/// whoever decides now decides on half a picture.
pub fn through_watch(
    served: &KindSeen,
    (kind, plural): (&str, &str),
    standing: Standing,
    may_have_objects: bool,
) -> Result<KindSeen, Failure> {
    match standing {
        Standing::Forbidden => Ok(KindSeen::Forbidden { resource: plural.to_owned() }),
        Standing::Failing(why) => Ok(KindSeen::Unobservable { why }),
        Standing::Starting if may_have_objects => {
            Err(Failure::new(FailureClass::Stale, "NotSynced", format!("the watch of {kind} is starting")))
        }
        Standing::NotServed => {
            Ok(KindSeen::Unobservable { why: format!("{plural} is not served in the version that is watched") })
        }
        Standing::Starting | Standing::Synced => Ok(served.clone()),
    }
}

/// A kind is gone only when its watch, too, finds that: until then what the watch shows may be there.
pub fn doubt(seen: &mut KindSeen, kind: &str, is_shown: impl FnOnce() -> bool) {
    let is_gone = matches!(seen, KindSeen::NotInstalled | KindSeen::ClusterScoped);
    if is_gone && is_shown() {
        let why = format!("{kind} is served no more, and its watch has yet to find that");
        *seen = KindSeen::Unobservable { why };
    }
}

/// Whether objects of a kind are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    No,
    /// Or they may be: the watch has not told yet.
    Yes,
    /// With the kind its objects are gone, and its watch cannot find that.
    IfServed,
}

impl Presence {
    /// Of a kind that is on record, whose watch shows objects or does not.
    pub fn of(standing: &Standing, is_shown: bool) -> Self {
        match (standing, is_shown) {
            (Standing::Synced | Standing::NotServed, false) => Presence::No,
            (Standing::NotServed, true) | (Standing::Forbidden, _) => Presence::IfServed,
            (Standing::Synced, true) | (Standing::Starting | Standing::Failing(_), _) => Presence::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standings() -> [Standing; 5] {
        let failing = Standing::Failing("no list".into());
        [Standing::Starting, Standing::Synced, Standing::NotServed, Standing::Forbidden, failing]
    }

    #[test]
    fn nothing_is_decided_about_a_kind_of_which_there_may_be_objects_that_nobody_has_listed() {
        let starting = |may_have| through_watch(&KindSeen::Namespaced, ("Lamp", "lamps"), Standing::Starting, may_have);
        let failure = starting(true).unwrap_err();
        assert_eq!((failure.class, failure.reason), (FailureClass::Stale, "NotSynced"));
        assert_eq!(starting(false), Ok(KindSeen::Namespaced), "a kind that comes with this very edit");
    }

    #[test]
    fn a_kind_whose_watch_shows_nothing_blocks_itself_and_says_why() {
        let moved = KindSeen::Moved { to: "x.dev/v2".into() };
        for served in [KindSeen::Namespaced, moved] {
            let seen = standings().map(|standing| through_watch(&served, ("Lamp", "lamps"), standing, false).unwrap());
            let unobservable = |why: &str| KindSeen::Unobservable { why: why.into() };
            let not_served = unobservable("lamps is not served in the version that is watched");
            let forbidden = KindSeen::Forbidden { resource: "lamps".into() };
            assert_eq!(seen, [served.clone(), served.clone(), not_served, forbidden, unobservable("no list")]);
        }
    }

    #[test]
    fn a_kind_that_discovery_does_not_know_is_not_taken_for_gone_while_its_watch_shows_objects() {
        let doubted = |seen: &KindSeen, is_shown| {
            let mut seen = seen.clone();
            doubt(&mut seen, "Lamp", || is_shown);
            seen
        };
        for gone in [KindSeen::NotInstalled, KindSeen::ClusterScoped] {
            assert!(matches!(doubted(&gone, true), KindSeen::Unobservable { .. }), "{gone:?}");
            assert_eq!(doubted(&gone, false), gone);
        }
        for there in [KindSeen::Namespaced, KindSeen::Forbidden { resource: "lamps".into() }] {
            assert_eq!(doubted(&there, true), there);
        }
    }

    #[test]
    fn a_class_forgets_a_kind_only_when_it_is_known_that_nothing_of_it_is_left() {
        let presence = |is_shown| standings().map(|standing| Presence::of(&standing, is_shown));
        let [yes, no, asked] = [Presence::Yes, Presence::No, Presence::IfServed];
        assert_eq!(presence(true), [yes, yes, asked, asked, yes]);
        assert_eq!(presence(false), [yes, no, no, asked, yes]);
    }
}
