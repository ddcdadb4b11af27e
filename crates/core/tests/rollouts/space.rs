//! One namespace of the class, and what its binding says.

use croft_core::time::Timestamp;

pub fn now() -> Timestamp {
    Timestamp("2026-01-01T12:00:00Z".into())
}

fn long_ago() -> Timestamp {
    Timestamp("2026-01-01T11:00:00Z".into())
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Space {
    /// Of its binding.
    pub generation: u8,
    /// To which revision, in which stages, and whether it failed then.
    pub moved: Option<(u8, i64, bool)>,
    /// The revision whose objects are really there.
    pub carries: Option<u8>,
    /// What the binding says: about which generation of it, that it has this revision, and that all is well.
    pub heard: Option<u8>,
    pub has: Option<u8>,
    pub state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    #[default]
    Unheard,
    Ready,
    Stalled,
    /// Not ready, and since when.
    Unready(Since),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Since {
    JustNow,
    LongAgo,
}

impl Space {
    pub fn is_heard(&self) -> bool {
        self.heard == Some(self.generation)
    }

    /// It says so, about what it was moved to; or nobody would wait for it any longer.
    pub fn fails(&self) -> bool {
        match self.state {
            State::Stalled => self.is_heard() && !self.is_through(),
            State::Unready(since) => since == Since::LongAgo && !self.is_through(),
            State::Ready | State::Unheard => false,
        }
    }

    pub fn unready_since(&self) -> Option<Timestamp> {
        match self.state {
            State::Unready(Since::JustNow) => Some(now()),
            State::Unready(Since::LongAgo) => Some(long_ago()),
            State::Unheard | State::Ready | State::Stalled => None,
        }
    }

    pub fn is_through(&self) -> bool {
        self.is_heard() && self.moved.is_some_and(|(revision, ..)| self.has == Some(revision))
    }
}
