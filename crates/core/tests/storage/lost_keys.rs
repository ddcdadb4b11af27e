//! When a key is given up: every short history of two keys of one user.

use std::time::Duration;

use croft_core::{
    plan::{Failure, FailureClass},
    storage::{
        CephUser,
        bucket::{Lookup, Owner},
        lost_keys::{AT_ONCE, LONG_PATIENCE, LostKeys, MEMORY, ONE_MORE, PATIENCE, PAUSE, Standing},
    },
    time::Instant,
};

const GATEWAY: &str = "https://rgw.example";
const KEYS: [&str; 2] = ["AK1", "AK2"];
/// Until a retry, longer than anybody's patience, and a night.
const PASSING: [Duration; 3] = [Duration::from_secs(20), Duration::from_secs(900), Duration::from_secs(7 * 3600)];

fn user(id: &str) -> CephUser {
    CephUser { tenant: "lab_a".into(), id: id.into() }
}

/// One use of a key: which, whether it let us in, and how long after the last.
#[derive(Clone, Copy, Debug)]
struct Use {
    key: &'static str,
    works: bool,
    after: Duration,
}

fn uses() -> Vec<Use> {
    let each = KEYS.into_iter().flat_map(|key| [true, false].map(|works| (key, works)));
    each.flat_map(|(key, works)| PASSING.map(|after| Use { key, works, after })).collect()
}

/// The uses of a key up to the last one, back to where it was let in or forgotten; and whether it was let in before these.
fn refused_for(history: &[(Use, Instant)], key: &str) -> (Duration, bool) {
    let mut of_key = history.iter().filter(|(it, _)| it.key == key).rev();
    let Some((_, last)) = of_key.next() else { return (Duration::ZERO, false) };
    let (mut since, mut has_worked) = (*last, false);
    for (it, at) in of_key {
        if since.since(*at) >= MEMORY {
            break;
        }
        if it.works {
            has_worked = true;
            break;
        }
        since = *at;
    }
    (last.since(since), has_worked)
}

#[derive(Clone, Default)]
struct Play {
    keys: LostKeys,
    history: Vec<(Use, Instant)>,
    given_up: Vec<(&'static str, Instant)>,
}

impl Play {
    fn now(&self) -> Instant {
        self.history.last().map_or(Instant(1), |(_, at)| *at)
    }

    fn step(&mut self, it: Use) {
        let now = self.now() + it.after;
        let before = self.keys.among(KEYS.into_iter(), now);
        self.history.push((it, now));
        if it.works {
            self.keys.worked(it.key, now);
            assert!(!self.keys.among(KEYS.into_iter(), now).contains(it.key), "{:?}", self.history);
            return;
        }
        let standing = self.keys.refused(GATEWAY, &user("data"), it.key, now);
        let is_lost = self.keys.among(KEYS.into_iter(), now).contains(it.key);
        assert_eq!(is_lost, standing == Standing::Lost, "{:?}", self.history);
        let (lasts, has_worked) = refused_for(&self.history, it.key);
        let is_due = lasts >= if has_worked { PATIENCE } else { LONG_PATIENCE };
        let is_news = is_lost && !before.contains(it.key);
        assert!(is_due || !is_news, "given up too early: {:?}", self.history);
        assert_eq!(standing == Standing::New, lasts < PATIENCE && !is_lost, "{:?}", self.history);
        let last = self.given_up.last().map(|(_, at)| *at);
        let may = last.is_none_or(|last| now.since(last) >= PAUSE);
        if is_news {
            assert!(may, "two within the hour: {:?}", self.history);
            self.given_up.push((it.key, now));
        }
        assert!(is_lost || !(is_due && may), "never given up: {:?}", self.history);
    }

    fn explore(&self, depth: usize, uses: &[Use]) {
        for it in uses.iter().filter(|_| depth > 0) {
            let mut next = self.clone();
            next.step(*it);
            next.explore(depth - 1, uses);
        }
    }
}

#[test]
fn a_key_is_given_up_when_it_was_refused_long_enough_and_one_an_hour() {
    Play::default().explore(5, &uses());
}

#[test]
fn gateways_that_lag_behind_cost_nobody_a_key() {
    let (mut keys, mut now) = (LostKeys::default(), Instant(0));
    for number in 0..1000 {
        // Each is known to one of the two gateways at once, and to the other fourteen minutes later.
        let key = format!("AK{number}");
        for _ in 0..28 {
            assert_ne!(keys.refused(GATEWAY, &user("data"), &key, now), Standing::Lost);
            now = now + Duration::from_secs(30);
        }
        keys.worked(&key, now);
    }
}

#[test]
fn a_key_that_never_works_is_replaced_once_an_hour_at_most_and_other_users_are_not_held_up() {
    let (mut keys, mut now) = (LostKeys::default(), Instant(0));
    let mut number = 0;
    // A day in which no new key is ever known.
    for _ in 0..24 * 60 {
        let standing = keys.refused(GATEWAY, &user("data"), &format!("AK{number}"), now);
        number += u32::from(standing == Standing::Lost);
        now = now + Duration::from_secs(60);
    }
    assert!((20..=24).contains(&number), "{number}");
    let mut standings =
        (0..20).map(|minute| keys.refused(GATEWAY, &user("other"), "AK", now + Duration::from_secs(60 * minute)));
    assert!(standings.any(|standing| standing == Standing::Lost));
}

#[test]
fn what_was_seen_long_ago_is_forgotten() {
    let mut keys = LostKeys::default();
    keys.worked("AK1", Instant(0));
    let late = Instant(0) + MEMORY;
    assert_eq!(keys.refused(GATEWAY, &user("data"), "AK1", late), Standing::New);
    assert_eq!(keys.refused(GATEWAY, &user("data"), "AK1", late + PATIENCE), Standing::Doubted, "it is as good as new");
    assert_eq!(keys.refused(GATEWAY, &user("data"), "AK1", late + LONG_PATIENCE), Standing::Lost);
    let lost = |now| keys.among(["AK1"].into_iter(), now).len();
    assert_eq!((lost(late + LONG_PATIENCE), lost(late + LONG_PATIENCE + MEMORY)), (1, 0));
}

#[test]
fn a_gateway_that_knows_nobody_costs_few_their_keys_and_those_of_another_gateway_nothing() {
    let mut keys = LostKeys::default();
    let users: Vec<_> = (0..100).map(|number| (user(&format!("u{number}")), format!("AK{number}"))).collect();
    for (_, key) in &users {
        keys.worked(key, Instant(0));
    }
    let lost_by = |gateway: &str, keys: &mut LostKeys, now: Instant| {
        let refused = users.iter().filter(|(user, key)| keys.refused(gateway, user, key, now) == Standing::Lost);
        refused.count()
    };
    let begins = Instant(0) + Duration::from_secs(60);
    assert_eq!(lost_by(GATEWAY, &mut keys, begins), 0);
    let most = usize::try_from(AT_ONCE).unwrap();
    for look in 0..20 {
        assert_eq!(lost_by(GATEWAY, &mut keys, begins + PATIENCE + Duration::from_secs(look)), most, "look {look}");
    }
    let other = (user("elsewhere"), "AK-elsewhere");
    keys.worked(other.1, begins);
    let mut standing = |after| keys.refused("https://other.example", &other.0, other.1, begins + after);
    assert_eq!([standing(PATIENCE), standing(2 * PATIENCE)], [Standing::New, Standing::Lost]);
    assert_eq!(lost_by(GATEWAY, &mut keys, begins + PATIENCE + ONE_MORE), most + 1, "it goes on, slowly");
}

#[test]
fn a_bucket_whose_owner_is_refused_waits_with_it_and_never_says_that_all_is_well() {
    let refused = || Failure::new(FailureClass::Stale, "InvalidAccessKeyId", "the gateway does not know the key");
    let owner = || Owner::NotReady("a new key is made".into());
    let after = |standing| Lookup::after(refused(), standing, owner());
    for passing in [None, Some(Standing::New)] {
        assert_eq!(after(passing), Err(refused()), "another look will tell");
    }
    let lasting = Failure { class: FailureClass::Transient, ..refused() };
    assert_eq!(after(Some(Standing::Doubted)), Ok(Owner::Unreachable(lasting)));
    assert_eq!(after(Some(Standing::Lost)), Ok(owner()));
}
