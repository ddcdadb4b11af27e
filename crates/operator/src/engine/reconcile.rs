//! One reconcile: observe -> plan -> execute -> report, the same for every kind of work.

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use croft_core::{
    plan::{self, Failure, FailureClass, Next, Outcome, Plan, Step},
    queue::{Attempt, Verdict, room_for_background},
    time::Timestamp,
};
use futures::{StreamExt, future::BoxFuture, stream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{debug, info, warn};

use super::{
    Key, Work,
    clock::timestamp,
    events::Events,
    journal::Journal,
    lease::Leadership,
    report::Report,
    write::{Writer, Written},
};
use crate::telemetry::metrics::Metrics;

/// What takes longer waits for somebody outside, and leaves its place to others.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// Steps of one group in flight at once.
const WIDTH: usize = 10;

/// One kind of work. `plan` and `report` forward to pure functions of the core; the rest is IO without decisions.
pub trait Reconciler: Send + Sync + 'static {
    type Seen: Send + Sync;
    type Step: Step;

    fn work(&self) -> Work;

    /// Every key there is, from the caches: looked at after a change of leader or of the settings.
    fn all(&self) -> Vec<Key>;

    /// What is looked at now and then, as the net under wake-ups. Where a look asks somebody, only what is not settled.
    fn resync(&self) -> Vec<Key> {
        self.all()
    }

    /// The outside a look needs, where there are several of them and one may hang: of those who need the same only some run at
    /// once.
    fn lane(&self, _key: &Key) -> Option<String> {
        None
    }

    /// Everything the plan needs to know; `None` if there is nothing to look after.
    fn observe(&self, key: &Key) -> impl Future<Output = Result<Option<Self::Seen>, Failure>> + Send;

    /// Pure.
    fn plan(&self, seen: &Self::Seen, now: &Timestamp) -> Plan<Self::Step>;

    /// One external call.
    fn execute(&self, seen: &Self::Seen, step: &Self::Step) -> impl Future<Output = Result<Written, Failure>> + Send;

    /// Pure: what to say about it, once everything ran that could.
    fn report(&self, seen: &Self::Seen, outcomes: &[(&Self::Step, Outcome)], now: &Timestamp) -> Report;

    /// Pure: what to say about what cannot even be looked at. Nothing, where a look asks only for the object itself: its status
    /// could not be written either.
    fn unseen(&self, _key: &Key, _failure: &Failure, _now: &Timestamp) -> Report {
        Report::default()
    }
}

/// What a reconcile shares with the engine.
#[derive(Clone, Debug)]
pub struct Context {
    pub leadership: Leadership,
    pub metrics: Arc<Metrics>,
    pub events: Events,
    pub writer: Writer,
    pub journal: Journal,
    /// One for each call that may be under way. Keys with many steps share them with all others: a hundred calls at once
    /// end no sooner, and whoever comes next would wait behind them.
    pub slots: Slots,
}

/// Calls under way. Whatever is no change somebody has just made takes seven eighths of them at most, however long its calls take.
#[derive(Clone, Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
    background: Arc<Semaphore>,
}

impl Slots {
    pub fn new(most: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), background: Arc::new(Semaphore::new(room_for_background(most))) }
    }

    /// Makes a call in a slot; one that takes long gives it to others.
    async fn within<T>(&self, live: bool, call: impl Future<Output = T>) -> T {
        let slot = self.take(live).await;
        let mut call = Box::pin(call);
        if let Ok(result) = tokio::time::timeout(LONG, call.as_mut()).await {
            return result;
        }
        drop(slot);
        call.await
    }

    /// The semaphores are never closed.
    async fn take(&self, live: bool) -> [Option<SemaphorePermit<'_>>; 2] {
        let background = if live { None } else { self.background.acquire().await.ok() };
        [background, self.all.acquire().await.ok()]
    }
}

/// [`Reconciler`] without its types, for the dispatcher's table.
pub(super) trait Worker: Send + Sync {
    fn all(&self) -> Vec<Key>;

    fn resync(&self) -> Vec<Key>;

    fn lane(&self, key: &Key) -> Option<String>;

    fn run(&self, key: Key, attempt: Attempt, context: Context) -> BoxFuture<'_, Verdict>;
}

impl<R: Reconciler> Worker for R {
    fn all(&self) -> Vec<Key> {
        Reconciler::all(self)
    }

    fn resync(&self) -> Vec<Key> {
        Reconciler::resync(self)
    }

    fn lane(&self, key: &Key) -> Option<String> {
        Reconciler::lane(self, key)
    }

    fn run(&self, key: Key, attempt: Attempt, context: Context) -> BoxFuture<'_, Verdict> {
        Box::pin(async move {
            let verdict = reconcile(self, &key, attempt, &context).await;
            context.metrics.reconciled(key.work, verdict);
            verdict
        })
    }
}

async fn reconcile<R: Reconciler>(worker: &R, key: &Key, attempt: Attempt, context: &Context) -> Verdict {
    let seen = match worker.observe(key).await {
        Ok(Some(seen)) => seen,
        Ok(None) => return Verdict::Settled(Next::Settled),
        Err(failure) => return unseen(worker, key, &failure, attempt, context).await,
    };
    let now = timestamp();
    let plan = worker.plan(&seen, &now);
    if !plan.is_settled() {
        debug!(%key, %plan, "plan");
    }
    let outcomes = execute(worker, (key, attempt), &seen, &plan, context).await;
    let failure = outcomes.iter().find_map(|(_, outcome)| outcome.failure()).cloned();
    let report = worker.report(&seen, &outcomes, &now);
    let told = tell(key, &report, attempt, context).await;
    match failure.or(told.err()) {
        Some(failure) => failed(key, &failure, context),
        None if report.retry => Verdict::Failed,
        None if report.next == Next::Settled => Verdict::Settled(plan.next),
        None => Verdict::Settled(report.next),
    }
}

/// It could not be looked at. People hear of it once it has lasted.
async fn unseen<R: Reconciler>(
    worker: &R,
    key: &Key,
    failure: &Failure,
    attempt: Attempt,
    context: &Context,
) -> Verdict {
    if failure.is_worth_telling_after(attempt.failures) {
        let report = worker.unseen(key, failure, &timestamp());
        if let Err(failure) = tell(key, &report, attempt, context).await {
            debug!(%key, %failure, "not told");
        }
    }
    failed(key, failure, context)
}

/// Runs the groups in order; of each what needs nothing before it that is not done.
async fn execute<'p, R: Reconciler>(
    worker: &R,
    (key, attempt): (&Key, Attempt),
    seen: &R::Seen,
    plan: &'p Plan<R::Step>,
    context: &Context,
) -> Vec<(&'p R::Step, Outcome)> {
    let mut outcomes: Vec<(&R::Step, Outcome)> = Vec::new();
    for group in &plan.groups {
        let mut calls = Vec::with_capacity(group.len());
        for step in group {
            let may_begin = plan::may_begin(step, &outcomes);
            calls.push(async move {
                if may_begin { run_step(worker, (key, attempt), seen, step, context).await } else { Outcome::NotRun }
            });
        }
        let done: Vec<Outcome> = stream::iter(calls).buffered(WIDTH).collect().await;
        outcomes.extend(group.iter().zip(done));
    }
    outcomes
}

async fn run_step<R: Reconciler>(
    worker: &R,
    (key, attempt): (&Key, Attempt),
    seen: &R::Seen,
    step: &R::Step,
    context: &Context,
) -> Outcome {
    let call = context.leadership.within_term(worker.execute(seen, step));
    let result = context.slots.within(attempt.live, call).await;
    context.metrics.step(key.work, step.kind(), result.as_ref().err());
    match result {
        Ok(written) => {
            debug!(%key, %step, "done");
            context.journal.wrote(key, &written);
            Outcome::Done { uid: written.uid, witness: written.witness }
        }
        Err(failure) => {
            debug!(%key, %step, %failure, "not done");
            Outcome::Failed(failure)
        }
    }
}

/// The one place where results leave: status, then events. What is gone has no status, and its end may be worth an event.
async fn tell(key: &Key, report: &Report, attempt: Attempt, context: &Context) -> Result<(), Failure> {
    let written = match &report.status {
        Some(status) => {
            let call = context.leadership.within_term(context.writer.status(status));
            let written = context.slots.within(attempt.live, call).await;
            context.metrics.step(key.work, "WriteStatus", written.as_ref().err());
            written.map(|written| context.journal.wrote(key, &written))
        }
        None => Ok(()),
    };
    if let Some(about) = &report.about
        && written.as_ref().err().is_none_or(|failure| failure.reason == "NotFound")
    {
        for note in &report.events {
            context.events.emit(about, note);
        }
    }
    written
}

fn failed(key: &Key, failure: &Failure, context: &Context) -> Verdict {
    if !matches!(failure.class, FailureClass::Early { .. }) {
        context.metrics.failed(key.work, failure.reason);
    }
    match failure.class {
        FailureClass::Early { wait } => {
            debug!(%key, %failure, ?wait, "not its turn yet");
            return Verdict::Early { wait };
        }
        FailureClass::Stale => {
            debug!(%key, %failure, "the world has moved on; looking again");
            return Verdict::Stale;
        }
        FailureClass::Transient | FailureClass::Forbidden => warn!(%key, %failure, "will try again"),
        FailureClass::Rejected => info!(%key, %failure, "refused"),
    }
    Verdict::Failed
}
