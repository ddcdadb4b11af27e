//! How a watch is kept alive: one answer to each thing an API server does to it.
//!
//! The shell lists and watches; what a refusal, an expired version, a kind that is not served or a dead connection means, and
//! how long to wait before trying again, is decided here.

use std::{fmt, time::Duration};

use crate::backoff::Backoff;

/// A refusal or an error this often in a row is a state, not a hiccup.
const HICCUPS: u32 = 3;

/// After this many errors in a row that the server itself answers, what was known is no longer taken for true.
const LOST: u32 = 8;

/// Why a kind that expires again and again cannot be seen.
const EXPIRES: &str = "its list expires before it can be watched";

/// A stream that ends sooner than this did not serve anybody: opening it again at once would be a loop.
pub const SHORTEST: Duration = Duration::from_secs(1);

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(15) };

/// A kind that is not served is asked for again after this long, should nothing have announced it.
const AT_LAST: Duration = Duration::from_secs(600);
/// One that was served may be back at any moment: what answers "not found" while it starts announces nothing.
const BACK: Backoff = Backoff { first: Duration::from_secs(1), most: AT_LAST };

/// How many objects are asked for as long as nobody knows how large they are.
pub const FIRST_PAGE: u32 = 20;
const LARGEST_PAGE: u32 = 500;
/// A page is held in memory as text: it should be small.
const PAGE_BYTES: usize = 2 << 20;
/// A page of several objects that is larger is given up while it comes in. One object is as large as the API server lets it be.
const MOST_PAGE_BYTES: usize = 8 << 20;
const MOST_OBJECT_BYTES: usize = 32 << 20;

/// How many objects to ask for next, after a page of so many objects and bytes.
pub fn next_page(objects: usize, bytes: usize) -> u32 {
    if objects == 0 {
        return FIRST_PAGE;
    }
    let fitting = PAGE_BYTES.saturating_mul(objects).checked_div(bytes).unwrap_or(0);
    u32::try_from(fitting).unwrap_or(LARGEST_PAGE).clamp(1, LARGEST_PAGE)
}

/// How many bytes a page of so many objects may have.
pub fn most_bytes(objects: u32) -> usize {
    if objects <= 1 { MOST_OBJECT_BYTES } else { MOST_PAGE_BYTES }
}

/// How many objects to ask for after a page of so many turned out to be too large.
pub fn smaller_page(objects: u32) -> u32 {
    (objects / 8).max(1)
}

/// Who filters what he has found may give a page without objects that names a next one, but not for ever.
const MOST_EMPTY: u32 = 100;

/// A list that goes on from page to page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    empty: u32,
}

impl Listing {
    /// Whether the list goes on, after a page of so many objects, so many of them new, that names a next one.
    pub fn goes_on(&mut self, objects: usize, new: usize) -> Result<(), Trouble> {
        self.empty = if objects == 0 { self.empty.saturating_add(1) } else { 0 };
        let repeats = objects > 0 && new == 0;
        if repeats || self.empty > MOST_EMPTY {
            return Err(Trouble::Other("its list does not come to an end".to_owned()));
        }
        Ok(())
    }
}

/// What went wrong with a list or a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// We lack the right.
    Forbidden,
    /// The kind is not installed, or not any more.
    NotServed,
    /// The version to go on from is no longer known.
    Expired,
    /// There is no answer: the server is down, slow, busy or far away. Said once for all watches.
    Unreachable(String),
    /// The server answers, but cannot tell: it cannot convert what it stores, or is not well.
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Forbidden => out.write_str("the right to list and watch is missing"),
            Trouble::NotServed => out.write_str("the kind is not installed"),
            Trouble::Expired => out.write_str("the version to go on from has expired"),
            Trouble::Unreachable(why) | Trouble::Other(why) => out.write_str(why),
        }
    }
}

/// Where a watch stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Listing for the first time.
    #[default]
    Starting,
    /// There is a full picture, and a watch that keeps it up. While a connection is down it is an old one.
    Synced,
    /// The kind is not installed.
    NotServed,
    /// The right to list or watch is missing; it keeps trying.
    Forbidden,
    /// There is no full picture, or nobody tells what changes in it, and this is why; it keeps trying.
    Failing(String),
}

impl Standing {
    pub fn is_synced(&self) -> bool {
        *self == Standing::Synced
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Starting => out.write_str("starting"),
            Standing::Synced => out.write_str("synced"),
            Standing::NotServed => out.write_str("waiting for the kind to be installed"),
            Standing::Forbidden => out.write_str("not allowed: list and watch rights are missing"),
            Standing::Failing(why) => write!(out, "failing: {why}"),
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// List everything anew.
    List { after: Duration },
    /// Go on from where the watch was.
    Resume { after: Duration },
    /// Nothing, until somebody says that kinds have changed or this long has passed; then list.
    AwaitKind { at_most: Duration },
}

/// One watch under supervision.
#[derive(Clone, Debug)]
pub struct Supervision {
    standing: Standing,
    /// A list was completed, and its version is still good to go on from.
    has_picture: bool,
    failures: u32,
    /// How often in a row a kind that was served turned out not to be; nothing of one that never was.
    missed: Option<u32>,
    /// How often in a row what was to be listed or watched had expired.
    expired: u32,
    spread: u64,
}

impl Supervision {
    /// `spread` is any number that differs between watches: they do not come back all at once.
    pub fn new(spread: u64) -> Self {
        Self { standing: Standing::Starting, has_picture: false, failures: 0, missed: None, expired: 0, spread }
    }

    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// A list is complete. What can be listed and not watched is as unknown a moment later as before.
    pub fn listed(&mut self) {
        self.has_picture = true;
        self.missed.get_or_insert_default();
    }

    /// The API server accepted the watch: whatever was missing is there again. Where that has come to nothing again and again it
    /// has to last first: an API server accepts a version that has expired, and says so afterwards.
    pub fn accepted(&mut self) {
        if self.failures < LOST && self.expired < LOST {
            self.serves();
        }
    }

    /// The stream has lasted for [`SHORTEST`].
    pub fn lasts(&mut self) {
        (self.failures, self.expired) = (0, 0);
        self.serves();
    }

    fn serves(&mut self) {
        if self.has_picture {
            self.standing = Standing::Synced;
            self.missed = Some(0);
        }
    }

    /// The stream came to its end in good order.
    pub fn ended(&mut self, lasted: Duration) -> Answer {
        self.served_for(lasted);
        Answer::Resume { after: if lasted >= SHORTEST { Duration::ZERO } else { self.delay() } }
    }

    /// The list failed, or the watch: at once, or after its stream had lasted for a while.
    pub fn failed(&mut self, trouble: &Trouble, lasted: Duration) -> Answer {
        self.served_for(lasted);
        let first = self.failures == 0;
        let after = self.delay();
        match trouble {
            Trouble::NotServed => {
                (self.has_picture, self.failures) = (false, 0);
                self.standing = Standing::NotServed;
                return Answer::AwaitKind { at_most: self.until_back() };
            }
            Trouble::Expired => {
                (self.has_picture, self.expired) = (false, self.expired.saturating_add(1));
                if self.expired >= LOST && !matches!(self.standing, Standing::Failing(_)) {
                    self.standing = Standing::Failing(EXPIRES.to_owned());
                }
                return Answer::List { after: if first { Duration::ZERO } else { after } };
            }
            Trouble::Forbidden if !self.has_picture || self.failures >= HICCUPS => {
                self.standing = Standing::Forbidden;
            }
            // What is known stays known: a server that is away for a while is no reason to stand still. And what is said once
            // is not said again in the words of the next attempt.
            Trouble::Unreachable(why) | Trouble::Other(why)
                if !matches!(self.standing, Standing::Synced | Standing::Failing(_)) && self.failures >= HICCUPS =>
            {
                self.standing = Standing::Failing(why.clone());
            }
            Trouble::Other(why) if self.failures >= LOST && self.standing.is_synced() => {
                self.has_picture = false;
                self.standing = Standing::Failing(why.clone());
            }
            Trouble::Forbidden | Trouble::Unreachable(_) | Trouble::Other(_) => {}
        }
        if self.has_picture { Answer::Resume { after } } else { Answer::List { after } }
    }

    /// However it ended, and whether or not anything was heard on it.
    fn served_for(&mut self, lasted: Duration) {
        if lasted >= SHORTEST {
            (self.failures, self.expired) = (0, 0);
        }
    }

    fn until_back(&mut self) -> Duration {
        let Some(missed) = &mut self.missed else { return AT_LAST };
        *missed = missed.saturating_add(1);
        BACK.delay(*missed, self.spread)
    }

    fn delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        BACKOFF.delay(self.failures, self.spread)
    }
}

#[cfg(test)]
mod tests {
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
}
