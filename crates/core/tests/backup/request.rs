//! A tenant's request as the API server keeps it, the same for all three kinds.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    rc::Rc,
    time::Duration,
};

use croft_core::{conditions::Conditions, plan::Outcome, time::Timestamp};
use serde::Serialize;

use crate::explorer::{Act, stale};

/// A request; gone once it is deleted and nothing holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored<A, S> {
    pub(crate) request: Option<Request<A, S>>,
    /// Somebody took our finalizer away: whatever is left behind then is theirs to clean up.
    pub(crate) let_go_by_hand: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request<A, S> {
    pub(crate) asked: A,
    /// How often what is asked for has changed.
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    /// What is noted of handing it over.
    pub(crate) tried: Option<Tried>,
    pub(crate) status: S,
}

/// When a try to hand a request over was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tried {
    JustNow,
    /// Whatever was made then may be gone again.
    LongAgo,
}

impl Tried {
    /// Before [`crate::now`], and after [`BEFORE`].
    pub(crate) fn seen(self) -> croft_core::backup::Tried {
        let ago = if self == Tried::JustNow { Duration::ZERO } else { Duration::from_secs(600) };
        croft_core::backup::Tried { at: Timestamp("2026-01-01T00:00:20Z".into()), ago }
    }
}

/// What was told before the last try. Only the order counts: this way there are finitely many worlds.
const BEFORE: &str = "2026-01-01T00:00:10Z";

/// A status that can be part of a world: cheap to clone and to tell from others.
#[derive(Clone, Debug)]
pub(crate) struct Told<S> {
    status: Rc<S>,
    hash: u64,
}

/// What is seen of each kind of work.
pub(crate) type Looks<A, S, O> = Vec<(&'static str, Look<A, Told<S>, O>)>;

impl<S: Serialize> Told<S> {
    pub(crate) fn new(status: S) -> Self {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&status).expect("a status is JSON").hash(&mut hasher);
        Self { status: Rc::new(status), hash: hasher.finish() }
    }
}

impl<S> Deref for Told<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.status
    }
}

impl<S: PartialEq> PartialEq for Told<S> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Rc::ptr_eq(&self.status, &other.status) || self.status == other.status)
    }
}

impl<S: PartialEq> Eq for Told<S> {}

impl<S> Hash for Told<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// What one look saw, and the request itself.
#[derive(Debug)]
pub(crate) struct Look<A, S, O> {
    pub(crate) request: Request<A, S>,
    pub(crate) observed: O,
}

impl<A: Clone + PartialEq, S: Clone + Default + PartialEq + Serialize> Stored<A, Told<S>> {
    pub(crate) fn new(asked: A) -> Self {
        let request = Request {
            asked,
            generation: 1,
            deleting: false,
            finalizer: false,
            tried: None,
            status: Told::new(S::default()),
        };
        Self { request: Some(request), let_go_by_hand: false }
    }

    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Request<A, Told<S>>)) {
        if let Some(request) = &mut self.request {
            let before = request.asked.clone();
            change(request);
            request.generation += i64::from(request.asked != before);
        }
        self.request.take_if(|request| request.deleting && !request.finalizer);
    }

    pub(crate) fn look<O>(&self, kind: &'static str, observed: Option<O>) -> Looks<A, S, O> {
        let look = self.request.clone().zip(observed).map(|(request, observed)| Look { request, observed });
        look.map(|look| (kind, look)).into_iter().collect()
    }

    /// Only onto the request exactly as it was seen.
    pub(crate) fn add_finalizer(&mut self, seen: &Request<A, Told<S>>) -> Outcome {
        if self.request.as_ref() != Some(seen) || seen.deleting {
            return stale();
        }
        self.edit(|request| request.finalizer = true);
        Outcome::done()
    }

    /// The finalizer and the note that it is handed over, only onto the request exactly as it was seen.
    pub(crate) fn hold(&mut self, seen: &Request<A, Told<S>>, conditions: fn(&mut S) -> &mut Conditions) -> Outcome {
        if self.request.as_ref() != Some(seen) || seen.deleting {
            return stale();
        }
        self.edit(|request| {
            let mut status = S::clone(&request.status);
            for condition in &mut conditions(&mut status).0 {
                condition.last_transition_time = Timestamp(BEFORE.into());
            }
            request.status = Told::new(status);
            (request.finalizer, request.tried) = (true, Some(Tried::JustNow));
        });
        Outcome::done()
    }

    /// Whether what was made of it may have vanished without having been told.
    pub(crate) fn is_beyond_doubt(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.tried == Some(Tried::JustNow))
    }

    /// The operator is down for long.
    pub(crate) fn is_left_alone_for_long(&mut self) {
        self.edit(|request| request.tried = request.tried.map(|_| Tried::LongAgo));
    }

    /// Only off the request exactly as it was seen; done already if it is gone. Panics if that leaves something behind.
    pub(crate) fn release_finalizer(&mut self, seen: &Request<A, Told<S>>, leaves_something: bool) -> Outcome {
        match &self.request {
            None => return Outcome::done(),
            Some(request) if request != seen => return stale(),
            Some(_) => assert!(!leaves_something, "let go of a request with something left behind"),
        }
        self.edit(|request| request.finalizer = false);
        Outcome::done()
    }

    pub(crate) fn write_status(&mut self, status: Option<S>) {
        if let (Some(request), Some(status)) = (&mut self.request, status) {
            request.status = Told::new(status);
        }
    }

    /// What its user may do to it, whatever it asks for.
    pub(crate) fn acts<W: Clone>(&self, world: &W, stored: fn(&mut W) -> &mut Self) -> Vec<Act<W>> {
        let Some(request) = &self.request else { return Vec::new() };
        let delete = Act::new("the user deletes the request", world, |world| {
            stored(world).edit(|request| request.deleting = true);
        });
        let strip = request.finalizer.then(|| {
            Act::new("the user removes our finalizer", world, |world| {
                stored(world).let_go_by_hand = true;
                stored(world).edit(|request| request.finalizer = false);
            })
        });
        [delete].into_iter().chain(strip).collect()
    }
}
