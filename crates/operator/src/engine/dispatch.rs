//! The task that owns one part's queue: takes pushes, hands out keys while we lead, collects verdicts.
//!
//! Each part has its own queue, places and slots: one that waits for a slow outside takes nothing from the others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use croft_core::queue::{Backoffs, Key as _, Priority, Queue, Start, Verdict};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinSet},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::{
    Journal, Key, Part, Work,
    clock::Clock,
    lease::Leading,
    readiness::Readiness,
    reconcile::{Context, LONG, Worker},
    sleep_until,
};

/// How long running reconciles may take to finish at the end: longer than any call may.
const GRACE: Duration = Duration::from_secs(12);

/// Everything is looked at again in this time, should a wake-up have been lost; spread, so that it is never felt.
pub(super) const RESYNC: Duration = Duration::from_secs(600);
const RESYNC_TURNS: u32 = 60;

/// What is asked of a dispatcher.
#[derive(Debug)]
enum Push {
    Key(Key, Priority),
    /// Look at everything once.
    Everything,
    /// Look at everything of this tenant once.
    Tenant(String),
}

/// What was asked for at once of those who are many.
#[derive(Debug, Default)]
struct Sweep {
    everything: bool,
    tenants: BTreeSet<String>,
}

/// Puts keys into the queues from anywhere.
#[derive(Clone)]
pub struct Pusher {
    senders: Arc<BTreeMap<Part, mpsc::UnboundedSender<Push>>>,
}

impl fmt::Debug for Pusher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Pusher")
    }
}

impl Pusher {
    pub fn push(&self, key: Key, priority: Priority) {
        if let Some(sender) = self.senders.get(&key.work.part) {
            // After shutdown nobody listens, and nobody needs to.
            let _ = sender.send(Push::Key(key, priority));
        }
    }

    /// Something has changed that may concern anybody: looks at everything once, from the caches.
    pub fn push_everything(&self) {
        for sender in self.senders.values() {
            let _ = sender.send(Push::Everything);
        }
    }

    /// As [`Pusher::push_everything`], for what can concern only one tenant.
    pub fn push_tenant(&self, tenant: &str) {
        for sender in self.senders.values() {
            let _ = sender.send(Push::Tenant(tenant.to_owned()));
        }
    }
}

/// The pushes one dispatcher takes.
pub(super) struct Inbox(mpsc::UnboundedReceiver<Push>);

pub(super) fn channels(parts: impl IntoIterator<Item = Part>) -> (Pusher, BTreeMap<Part, Inbox>) {
    let mut senders = BTreeMap::new();
    let mut inboxes = BTreeMap::new();
    for part in parts {
        let (sender, receiver) = mpsc::unbounded_channel();
        senders.insert(part, sender);
        inboxes.insert(part, Inbox(receiver));
    }
    (Pusher { senders: Arc::new(senders) }, inboxes)
}

/// The reconcilers by the work they do.
pub(super) type Workers = BTreeMap<Work, Arc<dyn Worker>>;

/// Keys of objects that are there and cannot be read, of one kind: no reconciler could name them.
pub(super) type Unreadable = Arc<dyn Fn() -> Vec<Key> + Send + Sync>;

pub(super) struct Dispatcher {
    pub(super) part: Part,
    pub(super) workers: Workers,
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) inbox: Inbox,
    /// Told when a term begins and when it has ended, after the journal was.
    pub(super) leads: watch::Receiver<Leading>,
    pub(super) context: Context,
    pub(super) readiness: Readiness,
    pub(super) clock: Clock,
    pub(super) concurrency: usize,
    /// In this time everything is looked at again.
    pub(super) resync: Duration,
}

/// What is in flight.
struct Running {
    tasks: JoinSet<Verdict>,
    keys: HashMap<Id, Key>,
    /// Whoever takes long says so here.
    slow: mpsc::UnboundedSender<Id>,
}

impl Running {
    /// What a task works on; nothing once it has ended, also while the same key is worked on anew.
    fn key(&self, task: Id) -> Option<&Key> {
        self.keys.get(&task)
    }
}

impl Dispatcher {
    /// Runs until `stop`, then finishes what runs.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        // One outside that hangs must leave room for the others.
        let mut queue = Queue::new(self.concurrency, self.concurrency.div_ceil(2), Backoffs::default());
        let (slow, mut slow_ones) = mpsc::unbounded_channel();
        let mut running = Running { tasks: JoinSet::new(), keys: HashMap::new(), slow };
        let mut leading = self.leads.clone();
        leading.mark_changed();
        let mut ready = self.readiness.changes();
        let mut resync = tokio::time::interval(self.resync / RESYNC_TURNS);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = 0;
        let mut term = Leading::default();
        let mut looked_at_everything = false;
        let mut does_without = self.readiness.does_without(self.part);
        loop {
            let leads = term.now;
            if self.works(leads) && !looked_at_everything {
                self.sweep(&mut queue, &Sweep { everything: true, ..Sweep::default() });
                looked_at_everything = true;
            }
            if leads {
                self.fill(&mut queue, &mut running);
            }
            let depth = (queue.depth(), queue.running(), queue.oldest_wait(self.clock.now()));
            self.context.metrics.queue(self.part, depth.0, depth.1, depth.2);
            // While nothing may be handed out, nothing is due either.
            let wakeup = queue.next_wakeup().filter(|_| self.works(leads)).map(|instant| self.clock.at(instant));
            tokio::select! {
                () = stop.cancelled() => break,
                Some(push) = self.inbox.0.recv() => {
                    let mut sweep = Sweep::default();
                    self.take(&mut queue, push, looked_at_everything, &mut sweep);
                    while let Ok(push) = self.inbox.0.try_recv() {
                        self.take(&mut queue, push, looked_at_everything, &mut sweep);
                    }
                    self.sweep(&mut queue, &sweep);
                }
                Some(done) = running.tasks.join_next_with_id() => self.finish(&mut queue, &mut running, done),
                Ok(()) = leading.changed() => {
                    end_term(&mut queue, &mut running, &self.context.journal).await;
                    term = *leading.borrow_and_update();
                    looked_at_everything = false;
                    // A term begins with a look at all that is not settled; the rest keeps its pace.
                    resync.reset_after(self.resync);
                }
                Some(task) = slow_ones.recv() => {
                    if let Some(key) = running.key(task) {
                        queue.takes_long(key);
                    }
                }
                Ok(()) = ready.changed() => {
                    // Whoever did without something looks again when that is back, or gone.
                    let without = self.readiness.does_without(self.part);
                    if std::mem::replace(&mut does_without, without) != does_without {
                        looked_at_everything = false;
                    }
                }
                _ = resync.tick() => {
                    self.resync(&mut queue, turn, leads);
                    turn = (turn + 1) % u64::from(RESYNC_TURNS);
                }
                () = sleep_until(wakeup) => {}
            }
        }
        self.drain(&mut queue, &mut running).await;
    }

    /// Everything is looked at once we lead and every watch is synced: until then there is nothing to remember.
    fn take(&self, queue: &mut Queue<Key>, push: Push, is_at_work: bool, sweep: &mut Sweep) {
        match push {
            _ if !is_at_work => {}
            Push::Key(key, priority) => queue.push(key, priority, self.clock.now()),
            Push::Everything => sweep.everything = true,
            Push::Tenant(tenant) => drop(sweep.tenants.insert(tenant)),
        }
    }

    /// Goes through all keys once, however often that was asked for.
    fn sweep(&self, queue: &mut Queue<Key>, sweep: &Sweep) {
        if sweep.everything || !sweep.tenants.is_empty() {
            let all = self.workers.values().flat_map(|worker| worker.all()).chain(self.unreadable());
            let meant = all.filter(|key| sweep.everything || sweep.tenants.contains(key.tenant()));
            meant.for_each(|key| queue.push(key, Priority::Resync, self.clock.now()));
        }
    }

    /// Pushes the share of the keys whose turn it is.
    fn resync(&self, queue: &mut Queue<Key>, turn: u64, leads: bool) {
        if self.works(leads) {
            let all = self.workers.values().flat_map(|worker| worker.resync()).chain(self.unreadable());
            let due = all.filter(|key| key.spread() % u64::from(RESYNC_TURNS) == turn);
            due.for_each(|key| queue.push(key, Priority::Resync, self.clock.now()));
        }
    }

    fn unreadable(&self) -> impl Iterator<Item = Key> {
        self.unreadable.iter().flat_map(|keys| keys()).filter(|key| key.work.part == self.part)
    }

    /// Whether keys are handed out. Not before every watch of the part is synced: deciding on half a picture is how things
    /// get deleted.
    fn works(&self, leads: bool) -> bool {
        leads && self.readiness.is_synced(self.part)
    }

    /// Starts as many keys as may run.
    fn fill(&self, queue: &mut Queue<Key>, running: &mut Running) {
        if !self.works(true) {
            return;
        }
        while let Some(key) = queue.pop(self.clock.now(), |key| self.start(key)) {
            let Some(worker) = self.workers.get(&key.work) else {
                queue.done(&key, Verdict::Parked, self.clock.now());
                continue;
            };
            self.context.journal.looks(&key);
            let (worker, context, attempt) = (worker.clone(), self.context.clone(), queue.attempt(&key));
            let task = running.tasks.spawn({
                let (key, slow) = (key.clone(), running.slow.clone());
                async move {
                    let work = worker.run(key, attempt, context);
                    tokio::pin!(work);
                    if let Ok(verdict) = tokio::time::timeout(LONG, work.as_mut()).await {
                        return verdict;
                    }
                    let _ = slow.send(tokio::task::id());
                    work.await
                }
            });
            running.keys.insert(task.id(), key);
        }
    }

    /// How a key may start: not before the caches have seen its last write, which wakes it.
    fn start(&self, key: &Key) -> Start {
        if !self.context.journal.may_look(key) {
            debug!(%key, "waits until the caches have seen its last write");
            self.context.metrics.stale_skip(key.work);
            return Start::NotYet;
        }
        let lane = self.workers.get(&key.work).and_then(|worker| worker.lane(key));
        lane.map_or(Start::Now, |lane| Start::In { lane })
    }

    fn finish(
        &self,
        queue: &mut Queue<Key>,
        running: &mut Running,
        done: Result<(Id, Verdict), tokio::task::JoinError>,
    ) {
        let (id, verdict) = match done {
            Ok((id, verdict)) => (id, verdict),
            Err(failed) => {
                let key = running.key(failed.id());
                if let Some(key) = key.filter(|_| failed.is_panic()) {
                    self.context.metrics.panicked("reconcile");
                    error!(%key, "a reconcile panicked; its key is tried again");
                }
                (failed.id(), Verdict::Failed)
            }
        };
        if let Some(key) = running.keys.remove(&id) {
            queue.done(&key, verdict, self.clock.now());
            if self.context.journal.looked(&key) {
                queue.push(key, Priority::Live, self.clock.now());
            }
        }
    }

    /// Lets what runs come to its end; nothing new is begun.
    async fn drain(&self, queue: &mut Queue<Key>, running: &mut Running) {
        let drained = async {
            while let Some(done) = running.tasks.join_next_with_id().await {
                self.finish(queue, running, done);
            }
        };
        if tokio::time::timeout(GRACE, drained).await.is_err() {
            warn!(part = %self.part, "still at work; cut off");
        }
    }
}

/// The term is over: nothing of it may go on, and whoever leads next looks at everything.
async fn end_term(queue: &mut Queue<Key>, running: &mut Running, journal: &Journal) {
    running.tasks.abort_all();
    while running.tasks.join_next().await.is_some() {}
    for (_, key) in running.keys.drain() {
        queue.done(&key, Verdict::Parked, croft_core::time::Instant::default());
        // The journal may be that of the next term already.
        journal.looked(&key);
    }
    queue.clear();
}

#[cfg(test)]
impl Inbox {
    /// The keys that were pushed.
    pub(super) fn keys(&mut self) -> Vec<Key> {
        let pushed = std::iter::from_fn(|| self.0.try_recv().ok());
        pushed.filter_map(|push| if let Push::Key(key, _) = push { Some(key) } else { None }).collect()
    }

    /// The tenants that were pushed; panics where everything was.
    pub(super) fn tenants(&mut self) -> Vec<String> {
        let pushed = std::iter::from_fn(|| self.0.try_recv().ok());
        let tenants = pushed.filter_map(|push| match push {
            Push::Tenant(tenant) => Some(tenant),
            Push::Key(..) => None,
            Push::Everything => panic!("everything was pushed"),
        });
        tenants.collect()
    }
}

#[cfg(test)]
mod tests;
