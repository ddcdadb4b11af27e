use super::*;

#[test]
fn pages_are_as_large_as_their_objects_allow() {
    assert_eq!(next_page(20, 20_000), 500, "small objects");
    assert_eq!(next_page(20, 20 << 20), 2, "as large as they get");
    assert_eq!(next_page(0, 100), FIRST_PAGE);
    assert_eq!(next_page(usize::MAX, 1), 500);
}

#[test]
fn whatever_is_in_a_page_its_text_is_bounded_and_smaller_pages_end_at_one_object() {
    let mut limit = next_page(20, 20_000);
    let mut asked = vec![limit];
    while limit > 1 {
        assert!(most_bytes(limit) <= 8 << 20, "{limit}");
        limit = smaller_page(limit);
        asked.push(limit);
    }
    assert_eq!(asked, [500, 62, 7, 1]);
    assert!(most_bytes(1) >= 3 << 20, "an object the API server takes");
}

#[test]
fn a_list_goes_on_as_long_as_it_tells_something_new_or_is_filtered() {
    let mut list = Listing::default();
    assert!(list.goes_on(1, 1).is_ok() && list.goes_on(500, 1).is_ok());
    assert!(list.goes_on(500, 0).is_err(), "the same again");
    for _ in 0..2 {
        assert!((0..MOST_EMPTY).all(|_| list.goes_on(0, 0).is_ok()));
        assert!(list.goes_on(1, 1).is_ok());
    }
    assert!((0..=MOST_EMPTY).any(|_| list.goes_on(0, 0).is_err()), "nothing for ever");
}

fn synced() -> Supervision {
    let mut watch = Supervision::new(0);
    watch.listed();
    watch.accepted();
    watch
}

fn other() -> Trouble {
    Trouble::Other("conversion webhook failed".into())
}

fn busy() -> Trouble {
    Trouble::Unreachable("too many requests".into())
}

#[test]
fn a_right_that_is_missing_for_a_moment_is_no_state_and_one_that_comes_back_clears_it_without_a_list() {
    let mut watch = synced();
    for _ in 0..HICCUPS - 1 {
        assert!(matches!(watch.failed(&Trouble::Forbidden, Duration::ZERO), Answer::Resume { .. }));
        assert_eq!(*watch.standing(), Standing::Synced);
    }
    watch.failed(&Trouble::Forbidden, Duration::ZERO);
    assert_eq!(*watch.standing(), Standing::Forbidden);
    watch.accepted();
    assert_eq!(*watch.standing(), Standing::Synced);
}

#[test]
fn a_right_that_was_never_there_is_said_at_once() {
    let mut watch = Supervision::new(0);
    assert!(matches!(watch.failed(&Trouble::Forbidden, Duration::ZERO), Answer::List { .. }));
    assert_eq!(*watch.standing(), Standing::Forbidden);
}

#[test]
fn a_kind_that_cannot_be_listed_says_why_and_one_that_is_known_stays_known_while_the_server_is_away_or_busy() {
    let mut watch = Supervision::new(0);
    for _ in 0..HICCUPS {
        assert!(matches!(watch.failed(&other(), Duration::ZERO), Answer::List { .. }));
    }
    let failing = Standing::Failing("conversion webhook failed".into());
    assert_eq!(*watch.standing(), failing);
    watch.failed(&Trouble::Other("in other words".into()), Duration::ZERO);
    assert_eq!(*watch.standing(), failing, "nobody is told the same twice");
    watch.listed();
    watch.accepted();
    for _ in 0..20 {
        assert!(matches!(watch.failed(&busy(), Duration::ZERO), Answer::Resume { .. }));
    }
    assert_eq!(*watch.standing(), Standing::Synced);
}

#[test]
fn a_kind_the_server_cannot_tell_about_any_more_is_listed_anew_and_says_so() {
    let mut watch = synced();
    for _ in 1..LOST {
        assert!(matches!(watch.failed(&other(), Duration::ZERO), Answer::Resume { .. }));
        assert!(watch.standing().is_synced());
    }
    assert!(matches!(watch.failed(&other(), Duration::ZERO), Answer::List { .. }));
    assert_eq!(*watch.standing(), Standing::Failing("conversion webhook failed".into()));
}

#[test]
fn streams_that_served_for_a_while_add_up_to_nothing_however_they_end_and_whether_or_not_anything_was_heard() {
    let mut watch = synced();
    for _ in 0..LOST * 2 {
        assert!(matches!(watch.failed(&other(), SHORTEST), Answer::Resume { .. }));
    }
    assert!(watch.standing().is_synced());
}

#[test]
fn an_expired_version_is_listed_anew_at_once_but_not_in_a_loop() {
    let mut watch = synced();
    assert_eq!(watch.failed(&Trouble::Expired, SHORTEST), Answer::List { after: Duration::ZERO });
    watch.listed();
    watch.accepted();
    for lasted in [Duration::ZERO, SHORTEST / 2] {
        let Answer::List { after } = watch.failed(&Trouble::Expired, lasted) else { panic!("it lists anew") };
        assert!(!after.is_zero(), "a stream that tells something and expires at once is no better");
    }
    assert!(watch.standing().is_synced(), "the old picture serves meanwhile");
}

#[test]
fn a_kind_that_is_not_served_is_waited_for() {
    let mut watch = Supervision::new(0);
    assert_eq!(watch.failed(&Trouble::NotServed, Duration::ZERO), Answer::AwaitKind { at_most: AT_LAST });
    assert_eq!(*watch.standing(), Standing::NotServed);
    watch.accepted();
    assert_eq!(*watch.standing(), Standing::NotServed, "only a list tells what is there");
}

#[test]
fn a_kind_that_was_served_is_asked_for_soon_and_then_ever_more_rarely() {
    let mut watch = synced();
    let waits = |watch: &mut Supervision| match watch.failed(&Trouble::NotServed, Duration::ZERO) {
        Answer::AwaitKind { at_most } => at_most.as_secs(),
        answer => panic!("{answer:?}"),
    };
    let first: Vec<_> = (0..12).map(|_| waits(&mut watch)).collect();
    assert_eq!(first, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    watch.listed();
    watch.accepted();
    assert_eq!(waits(&mut watch), 1);
}

/// How it came to stand, one after another.
fn turns(watch: &mut Supervision, rounds: u32, mut round: impl FnMut(&mut Supervision)) -> Vec<Standing> {
    let mut turns = vec![watch.standing().clone()];
    for _ in 0..rounds {
        for part in 0..2 {
            if part == 0 {
                watch.listed();
            } else {
                round(watch);
            }
            turns.push(watch.standing().clone());
        }
    }
    turns.dedup();
    turns
}

#[test]
fn what_can_be_listed_and_not_watched_says_so_once_and_heals() {
    let failing = Standing::Failing("conversion webhook failed".into());
    let refused = |watch: &mut Supervision| {
        watch.failed(&other(), Duration::ZERO);
    };
    let mut never = Supervision::new(0);
    assert_eq!(turns(&mut never, 50, refused), [Standing::Starting, failing.clone()]);
    assert!(matches!(never.failed(&other(), Duration::ZERO), Answer::Resume { .. }), "nobody lists over and over");
    never.accepted();
    never.lasts();
    assert!(never.standing().is_synced());
    let mut no_more = synced();
    assert_eq!(turns(&mut no_more, 50, refused), [Standing::Synced, failing]);
}

#[test]
fn what_is_listed_and_not_served_to_watches_is_asked_for_ever_more_rarely_and_says_so_once() {
    let mut watch = synced();
    let mut waits = Vec::new();
    let refused = |watch: &mut Supervision| match watch.failed(&Trouble::NotServed, Duration::ZERO) {
        Answer::AwaitKind { at_most } => waits.push(at_most.as_secs()),
        answer => panic!("{answer:?}"),
    };
    assert_eq!(turns(&mut watch, 12, refused), [Standing::Synced, Standing::NotServed]);
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
}

#[test]
fn a_list_that_expires_again_and_again_is_no_picture() {
    for mut watch in [Supervision::new(0), synced()] {
        let before = watch.standing().clone();
        for _ in 1..LOST {
            watch.failed(&Trouble::Expired, Duration::ZERO);
            assert_eq!(*watch.standing(), before);
        }
        watch.failed(&Trouble::Expired, Duration::ZERO);
        assert_eq!(*watch.standing(), Standing::Failing(EXPIRES.into()));
        watch.listed();
        watch.accepted();
        watch.lasts();
        watch.failed(&Trouble::Expired, SHORTEST);
        assert!(watch.standing().is_synced(), "it counts anew");
    }
}

#[test]
fn what_is_accepted_and_comes_to_nothing_again_and_again_says_so_once() {
    for trouble in [other(), Trouble::Expired] {
        let mut watch = synced();
        let accepted_in_vain = |watch: &mut Supervision| {
            watch.accepted();
            watch.failed(&trouble, Duration::ZERO);
        };
        let turned = turns(&mut watch, 50, accepted_in_vain);
        assert!(matches!(turned.as_slice(), [Standing::Synced, Standing::Failing(_)]), "{turned:?}");
        watch.listed();
        watch.accepted();
        watch.lasts();
        assert!(watch.standing().is_synced());
    }
}

#[test]
fn delays_grow_until_a_stream_lasts_and_no_stream_is_opened_in_a_loop() {
    let mut watch = synced();
    let delays = |watch: &mut Supervision, lasted| match watch.failed(&other(), lasted) {
        Answer::Resume { after } => after,
        answer => panic!("{answer:?}"),
    };
    let (one, two) = (delays(&mut watch, Duration::ZERO), delays(&mut watch, Duration::ZERO));
    assert!(one < two);
    assert_eq!(delays(&mut watch, SHORTEST), one);
    assert_eq!(watch.ended(SHORTEST), Answer::Resume { after: Duration::ZERO });
    assert_ne!(watch.ended(Duration::ZERO), Answer::Resume { after: Duration::ZERO });
}
