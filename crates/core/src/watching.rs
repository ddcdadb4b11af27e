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
const ENDS: &str = "its watch is accepted and ends at once";

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
        if lasted >= SHORTEST {
            return Answer::Resume { after: Duration::ZERO };
        }
        let after = self.delay();
        if self.failures >= LOST && self.standing.is_synced() {
            self.has_picture = false;
            self.standing = Standing::Failing(ENDS.to_owned());
        }
        if self.has_picture { Answer::Resume { after } } else { Answer::List { after } }
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
mod tests;
