//! Which request is hit, when, and by what.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use super::request::Request;

/// Selects requests; an empty one selects all.
#[derive(Debug, Clone, Default)]
pub struct Match {
    verb: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    part: Part,
    deliberate_writes: bool,
    nth: usize,
    occurrences: Option<fn(usize) -> bool>,
}

/// The object itself or something below it.
#[derive(Debug, Clone, Default)]
enum Part {
    #[default]
    Any,
    Object,
    Subresource(String),
}

impl Part {
    fn fits(&self, subresource: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::Object => subresource.is_none(),
            Self::Subresource(wanted) => {
                subresource.is_some_and(|found| found == wanted || found.split('&').any(|part| part == wanted))
            }
        }
    }
}

impl Match {
    pub fn any() -> Self {
        Self { nth: 1, ..Self::default() }
    }

    pub fn verb(verb: &str) -> Self {
        Self { verb: Some(verb.to_owned()), ..Self::any() }
    }

    /// All writes but those of leases and events.
    pub fn write() -> Self {
        Self { deliberate_writes: true, ..Self::any() }
    }

    /// The k-th write, counted from 1 since the rule was made; leases and events do not count.
    pub fn write_number(k: usize) -> Self {
        Self::write().nth(k)
    }

    /// `plural` of any group, or exactly `group/plural`; for the gateway the path.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// A subresource; for the gateway the name of one query parameter, or those of all in order of the alphabet: `stats&uid`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.part = Part::Subresource(subresource.to_owned());
        self
    }

    /// Only requests for the object itself.
    #[must_use]
    pub fn no_subresource(mut self) -> Self {
        self.part = Part::Object;
        self
    }

    /// Starts with the n-th request that fits, counted from 1 since the rule was made.
    #[must_use]
    pub fn nth(mut self, n: usize) -> Self {
        assert!(n > 0, "requests are counted from 1");
        self.nth = n;
        self
    }

    /// Only those of each name whose number is one of these: counted from 1 since the log was cleared.
    #[must_use]
    pub fn occurring(mut self, these: fn(usize) -> bool) -> Self {
        self.occurrences = Some(these);
        self
    }

    pub(super) fn fits(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        (!self.deliberate_writes || request.is_deliberate_write())
            && same(&self.verb, Some(&request.verb))
            && self.resource.as_deref().is_none_or(|wanted| fits_resource(wanted, &request.resource))
            && same(&self.namespace, request.namespace.as_deref())
            && same(&self.name, request.name.as_deref())
            && self.part.fits(request.subresource.as_deref())
            && self.occurrences.is_none_or(|these| these(request.occurrence))
    }
}

fn fits_resource(wanted: &str, resource: &str) -> bool {
    resource == wanted
        || (!wanted.contains('/') && resource.rsplit_once('/').is_some_and(|(_, plural)| plural == wanted))
}

/// What happens to a selected request.
#[derive(Clone)]
pub enum Action {
    /// Calls the function (typically the operator's [`crate::Process::kill`]), then drops the connection.
    Kill(Arc<dyn Fn() + Send + Sync>),
    /// The connection is closed without an answer.
    Drop,
    /// Everything happens, later.
    Delay(Duration),
    /// An error of this code in the server's own format; 429 carries `Retry-After: 1`.
    Status(u16),
    /// The history asked for is gone, as an HTTP error.
    Gone410,
    /// The history asked for is gone, as an event in a watch that began well.
    WatchGone410,
    /// Nothing happens until [`Rule::release`].
    Hold,
}

impl Action {
    pub fn kill(victim: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Kill(Arc::new(victim))
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(_) => write!(out, "Kill"),
            Self::Drop => write!(out, "Drop"),
            Self::Delay(time) => write!(out, "Delay({time:?})"),
            Self::Status(code) => write!(out, "Status({code})"),
            Self::Gone410 => write!(out, "Gone410"),
            Self::WatchGone410 => write!(out, "WatchGone410"),
            Self::Hold => write!(out, "Hold"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The server never sees the request.
    Before,
    /// The server has done it; its answer does not arrive.
    After,
}

/// A rule in force. Fires once unless told otherwise; letting go of it does not end it.
#[derive(Debug, Clone)]
pub struct Rule(Arc<State>);

#[derive(Debug)]
struct State {
    matching: Match,
    moment: Moment,
    action: Action,
    seen: AtomicUsize,
    fired: AtomicUsize,
    /// How often it may fire; `None` = for ever.
    limit: Mutex<Option<usize>>,
    released: watch::Sender<bool>,
}

impl Rule {
    fn new(matching: Match, moment: Moment, action: Action) -> Self {
        Self(Arc::new(State {
            matching,
            moment,
            action,
            seen: AtomicUsize::new(0),
            fired: AtomicUsize::new(0),
            limit: Mutex::new(Some(1)),
            released: watch::Sender::new(false),
        }))
    }

    /// Fires `n` times in a row from the first selected request on.
    #[allow(clippy::return_self_not_must_use, reason = "the rule stays in force when let go")]
    pub fn times(self, n: usize) -> Self {
        *self.limit() = Some(n);
        self
    }

    /// Fires for every request from the first selected one on.
    #[allow(clippy::return_self_not_must_use, reason = "the rule stays in force when let go")]
    pub fn always(self) -> Self {
        *self.limit() = None;
        self
    }

    /// How often it has fired.
    pub fn fired(&self) -> usize {
        self.0.fired.load(Ordering::SeqCst)
    }

    /// Ends the rule; requests it holds go on.
    pub fn remove(&self) {
        *self.limit() = Some(0);
        self.release();
    }

    /// Lets requests go that [`Action::Hold`] holds, and those that would still come.
    pub fn release(&self) {
        self.0.released.send_replace(true);
    }

    pub(super) async fn released(&self) {
        // The sender lives in the rule itself, so waiting cannot fail.
        let _ = self.0.released.subscribe().wait_for(|released| *released).await;
    }

    pub(super) fn moment(&self) -> Moment {
        self.0.moment
    }

    pub(super) fn action(&self) -> &Action {
        &self.0.action
    }

    fn limit(&self) -> MutexGuard<'_, Option<usize>> {
        self.0.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the request; true if it is one to hit.
    fn selects(&self, request: &Request) -> bool {
        if !self.0.matching.fits(request) {
            return false;
        }
        let number = self.0.seen.fetch_add(1, Ordering::SeqCst) + 1;
        number >= self.0.matching.nth && self.limit().is_none_or(|limit| self.fired() < limit)
    }
}

/// All rules of one proxy. Every rule counts every request; the oldest that selects one acts on it.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Vec<Rule>>);

impl Rules {
    fn all(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clear(&self) {
        for rule in self.all().drain(..) {
            rule.remove();
        }
    }

    pub(super) fn choose(&self, request: &Request) -> Option<Rule> {
        let rules = self.all();
        let mut selecting: Vec<_> = rules.iter().filter(|rule| rule.selects(request)).collect();
        (!selecting.is_empty()).then(|| {
            let chosen = selecting.swap_remove(0).clone();
            chosen.0.fired.fetch_add(1, Ordering::SeqCst);
            chosen
        })
    }
}

/// A selection waiting to be told what to do.
#[derive(Debug)]
#[must_use = "say what happens: before(action) or after(action)"]
pub struct On<'a> {
    pub(super) rules: &'a Rules,
    pub(super) matching: Match,
}

impl On<'_> {
    /// The server never sees the request (unless the action only delays or holds it).
    pub fn before(self, action: Action) -> Rule {
        self.install(Moment::Before, action)
    }

    /// The server has done it, and its answer does not arrive (or late, where the action only delays or holds).
    pub fn after(self, action: Action) -> Rule {
        self.install(Moment::After, action)
    }

    fn install(self, moment: Moment, action: Action) -> Rule {
        let rule = Rule::new(self.matching, moment, action);
        self.rules.all().push(rule.clone());
        rule
    }
}
