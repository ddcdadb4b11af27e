//! The one task that owns the queue: takes pushes, hands out keys while we lead, collects verdicts.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use croft_core::{
    backoff::Backoff,
    queue::{Priority, Queue, Verdict},
};
use tokio::{
    sync::mpsc,
    task::{Id, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    Key, Work,
    clock::Clock,
    readiness::Readiness,
    reconcile::{Context, Worker},
};

/// How long running reconciles may finish their current step at shutdown.
const GRACE: Duration = Duration::from_millis(500);

/// Puts keys into the queue from anywhere.
#[derive(Clone)]
pub struct Pusher {
    sender: mpsc::UnboundedSender<(Key, Priority)>,
}

impl fmt::Debug for Pusher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Pusher")
    }
}

impl Pusher {
    pub fn push(&self, key: Key, priority: Priority) {
        // After shutdown nobody listens, and nobody needs to.
        let _ = self.sender.send((key, priority));
    }
}

pub(super) fn channel() -> (Pusher, mpsc::UnboundedReceiver<(Key, Priority)>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Pusher { sender }, receiver)
}

/// The reconcilers by the work they do.
pub(super) type Workers = HashMap<Work, Arc<dyn Worker>>;

pub(super) struct Dispatcher {
    pub(super) workers: Workers,
    pub(super) pushes: mpsc::UnboundedReceiver<(Key, Priority)>,
    pub(super) pusher: Pusher,
    pub(super) context: Context,
    pub(super) readiness: Readiness,
    pub(super) clock: Clock,
    pub(super) concurrency: usize,
}

/// What is in flight.
struct Running {
    tasks: JoinSet<Verdict>,
    keys: HashMap<Id, Key>,
}

impl Dispatcher {
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut queue = Queue::new(self.concurrency, Backoff::default());
        let mut running = Running { tasks: JoinSet::new(), keys: HashMap::new() };
        let mut leading = self.context.leadership.changes();
        let mut ready = self.readiness.changes();
        // Keys of parts whose watches are not synced: deciding on half a picture is how things get deleted.
        let mut held: BTreeSet<Key> = BTreeSet::new();
        loop {
            if *leading.borrow() {
                self.fill(&mut queue, &mut running, &mut held);
            }
            self.context.metrics.queue(queue.depth(), queue.running(), queue.oldest_wait(self.clock.now()));
            let wakeup = queue.next_wakeup().map(|instant| self.clock.at(instant));
            tokio::select! {
                () = stop.cancelled() => break,
                Some((key, priority)) = self.pushes.recv() => {
                    queue.push(key, priority, self.clock.now());
                    while let Ok((key, priority)) = self.pushes.try_recv() {
                        queue.push(key, priority, self.clock.now());
                    }
                }
                Some(done) = running.tasks.join_next_with_id() => self.finish(&mut queue, &mut running, done),
                Ok(()) = leading.changed() => {
                    let leads = *leading.borrow();
                    self.context.metrics.leading(leads);
                    if !leads {
                        self.end_term(&mut queue, &mut running).await;
                    }
                }
                Ok(()) = ready.changed() => {
                    for key in std::mem::take(&mut held) {
                        queue.push(key, Priority::Resync, self.clock.now());
                    }
                }
                () = sleep_until(wakeup) => {}
            }
        }
        self.context.leadership.resign();
        let drained = async { while running.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, drained).await;
    }

    /// Starts as many keys as may run.
    fn fill(&self, queue: &mut Queue<Key>, running: &mut Running, held: &mut BTreeSet<Key>) {
        while let Some(key) = queue.pop(self.clock.now()) {
            let Some(worker) = self.workers.get(&key.work) else {
                queue.done(&key, Verdict::Parked, self.clock.now());
                continue;
            };
            if !self.readiness.is_synced(key.work.part) {
                queue.done(&key, Verdict::Parked, self.clock.now());
                held.insert(key);
                continue;
            }
            if !self.context.echoes.heard(&key) {
                queue.done(&key, Verdict::Parked, self.clock.now());
                self.push_when_heard(key);
                continue;
            }
            let (worker, context) = (worker.clone(), self.context.clone());
            let task = running.tasks.spawn({
                let key = key.clone();
                async move { worker.run(key, context).await }
            });
            running.keys.insert(task.id(), key);
        }
    }

    /// The caches have not seen this key's last write: it comes back by itself when they have.
    fn push_when_heard(&self, key: Key) {
        self.context.metrics.stale_skip(key.work);
        let (echoes, pusher) = (self.context.echoes.clone(), self.pusher.clone());
        tokio::spawn(async move {
            echoes.wait(&key).await;
            pusher.push(key, Priority::Live);
        });
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
                if failed.is_panic() {
                    error!("a reconcile panicked; its key is tried again");
                }
                (failed.id(), Verdict::Failed)
            }
        };
        if let Some(key) = running.keys.remove(&id) {
            queue.done(&key, verdict, self.clock.now());
        }
    }

    /// The term is over: nothing of it may go on. What was interrupted is looked at again in the next term.
    async fn end_term(&self, queue: &mut Queue<Key>, running: &mut Running) {
        running.tasks.abort_all();
        while running.tasks.join_next().await.is_some() {}
        for (_, key) in running.keys.drain() {
            queue.done(&key, Verdict::Parked, self.clock.now());
            queue.push(key, Priority::Resync, self.clock.now());
        }
    }
}

async fn sleep_until(wakeup: Option<tokio::time::Instant>) {
    match wakeup {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
