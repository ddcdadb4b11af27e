//! Metrics in OpenMetrics text. Labels are closed sets: no object names, no error texts.

use std::{
    fmt,
    sync::atomic::{AtomicI64, AtomicU64},
    time::Duration,
};

use croft_core::{plan::Failure, queue::Verdict};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

use crate::{
    engine::{Part, Work},
    version,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWork {
    part: &'static str,
    work: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    part: &'static str,
    work: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStep {
    part: &'static str,
    work: &'static str,
    step: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCall {
    verb: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResource {
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlace {
    place: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPart {
    part: &'static str,
}

/// All metrics of the process; no global registry.
pub struct Metrics {
    registry: Registry,
    queue_depth: Family<ByPart, Gauge>,
    queue_running: Family<ByPart, Gauge>,
    queue_oldest: Family<ByPart, Gauge<f64, AtomicU64>>,
    reconciles: Family<ByWork, Counter>,
    failures: Family<ByReason, Counter>,
    steps: Family<ByStep, Counter>,
    calls: Family<ByCall, Counter>,
    watch_failures: Family<ByResource, Counter>,
    watch_events_age: Family<ByResource, Gauge<f64, AtomicU64>>,
    undecodable: Family<ByResource, Counter>,
    stale_skips: Family<ByWork, Counter>,
    leading: Gauge<i64, AtomicI64>,
    waiting: Family<ByPart, Gauge>,
    panics: Family<ByPlace, Counter>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("croft"),
            queue_depth: Family::default(),
            queue_running: Family::default(),
            queue_oldest: Family::default(),
            reconciles: Family::default(),
            failures: Family::default(),
            steps: Family::default(),
            calls: Family::default(),
            watch_failures: Family::default(),
            watch_events_age: Family::default(),
            undecodable: Family::default(),
            stale_skips: Family::default(),
            leading: Gauge::default(),
            waiting: Family::default(),
            panics: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        let build = Info::new(vec![("version", version::VERSION), ("commit", version::COMMIT)]);
        registry.register("build", "Which build this is", build);
        registry.register("queue_depth", "Keys ready and waiting for a place, by part", self.queue_depth.clone());
        registry.register("queue_running", "Keys being worked on, by part", self.queue_running.clone());
        registry.register(
            "queue_oldest_seconds",
            "How long the oldest ready key has waited, by part",
            self.queue_oldest.clone(),
        );
        registry.register("reconciles", "Reconciles by part, kind of work and outcome", self.reconciles.clone());
        registry.register("failures", "Failed reconciles by part, kind of work and reason", self.failures.clone());
        registry.register("steps", "Steps by part, kind of work, step and outcome", self.steps.clone());
        registry.register(
            "api_calls",
            "Calls to the API server by verb (discover: what it serves; renew: of the lease) and HTTP code (0: no answer)",
            self.calls.clone(),
        );
        registry.register(
            "watch_interruptions",
            "Interrupted or refused watches by resource",
            self.watch_failures.clone(),
        );
        registry.register(
            "watch_lag_seconds",
            "Age of the newest event when it arrived, by resource",
            self.watch_events_age.clone(),
        );
        registry.register(
            "undecodable_objects",
            "Objects that could not be read, by resource",
            self.undecodable.clone(),
        );
        registry.register(
            "stale_skips",
            "Reconciles put off until the cache had seen the last write",
            self.stale_skips.clone(),
        );
        registry.register("leading", "1 while this replica leads", self.leading.clone());
        registry.register(
            "part_waiting",
            "1 while a part waits for kinds that are not installed",
            self.waiting.clone(),
        );
        registry.register("panics", "Panics that were contained, by place: each is a bug", self.panics.clone());
    }

    /// The text of `/metrics`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub fn queue(&self, part: Part, depth: usize, running: usize, oldest: Duration) {
        let part = ByPart { part: part.name() };
        self.queue_depth.get_or_create(&part).set(i64::try_from(depth).unwrap_or(i64::MAX));
        self.queue_running.get_or_create(&part).set(i64::try_from(running).unwrap_or(i64::MAX));
        self.queue_oldest.get_or_create(&part).set(oldest.as_secs_f64());
    }

    pub fn reconciled(&self, work: Work, verdict: Verdict) {
        let outcome = match verdict {
            Verdict::Settled(_) => "settled",
            Verdict::Failed => "failed",
            Verdict::Stale => "stale",
            Verdict::Early { .. } => "early",
            Verdict::Parked => "parked",
        };
        self.reconciles.get_or_create(&ByWork { part: work.part.name(), work: work.name, outcome }).inc();
    }

    pub fn failed(&self, work: Work, reason: &'static str) {
        self.failures.get_or_create(&ByReason { part: work.part.name(), work: work.name, reason }).inc();
    }

    pub fn step(&self, work: Work, step: &'static str, failure: Option<&Failure>) {
        let outcome = failure.map_or("done", |failure| failure.reason);
        self.steps.get_or_create(&ByStep { part: work.part.name(), work: work.name, step, outcome }).inc();
    }

    pub fn call(&self, verb: &'static str, code: u16) {
        self.calls.get_or_create(&ByCall { verb, code }).inc();
    }

    pub fn watch_failed(&self, resource: &str) {
        self.watch_failures.get_or_create(&ByResource { resource: resource.to_owned() }).inc();
    }

    pub fn watch_lag(&self, resource: &str, lag: Duration) {
        self.watch_events_age.get_or_create(&ByResource { resource: resource.to_owned() }).set(lag.as_secs_f64());
    }

    pub fn undecodable(&self, resource: &str) {
        self.undecodable.get_or_create(&ByResource { resource: resource.to_owned() }).inc();
    }

    pub fn stale_skip(&self, work: Work) {
        self.stale_skips.get_or_create(&ByWork { part: work.part.name(), work: work.name, outcome: "skipped" }).inc();
    }

    pub fn leading(&self, leads: bool) {
        self.leading.set(i64::from(leads));
    }

    pub fn waiting(&self, part: Part, waits: bool) {
        self.waiting.get_or_create(&ByPart { part: part.name() }).set(i64::from(waits));
    }

    /// A panic in `place` was contained: the work it was about has failed, everything else goes on.
    pub fn panicked(&self, place: &'static str) {
        self.panics.get_or_create(&ByPlace { place }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_told() {
        let text = Metrics::default().text();
        let told = format!("croft_build_info{{version=\"{}\",commit=\"{}\"}} 1", version::VERSION, version::COMMIT);
        assert!(text.contains(&told), "{text}");
    }
}
