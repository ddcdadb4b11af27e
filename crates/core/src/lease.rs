//! Leader election: at most one replica writes at any time.
//!
//! The rules are client-go's, and none compares clocks of two machines:
//! - every write of the lease carries the `resourceVersion` it was based on, so of two takers one fails;
//! - a lease is expired when *we* have not seen its record change for a full lease duration on *our* monotonic clock;
//! - a holder counts its term from the moment it *sent* the renewal that succeeded, and ends it after `term`, which is
//!   shorter than the lease duration. A reply that is lost renews nothing;
//! - old news changes nothing: a watch may lag behind our own writes.
//!
//! Hence the holder has stopped writing before anybody else may take over, whatever the network and the scheduler do:
//! `tests/lease.rs` explores every interleaving of a small world. A lease that is deleted is made anew by whoever leads, and by
//! others only after as long as if it had not been renewed. Only a replica that has never seen it would not know that it was
//! ever held.

use std::time::Duration;

use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Others may take over after not having seen a renewal for this long.
    pub lease: Duration,
    /// The holder stops writing this long after it sent its last successful renewal. Shorter than `lease`.
    pub term: Duration,
    /// How often the holder renews. Shorter than `term`.
    pub renew: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Duration::from_secs(4), term: Duration::from_secs(3), renew: Duration::from_secs(1) }
    }
}

/// The lease as last seen on the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Nobody holds it when this is `None`.
    pub holder: Option<String>,
    /// How often it changed hands.
    pub transitions: i32,
    /// The object's `resourceVersion`: the precondition of the next write.
    pub version: String,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make the lease, held by us.
    Create,
    /// Write our name (again) with `version` as the precondition.
    Write { version: String, transitions: i32 },
    /// Nothing until then, unless the record changes.
    Wait { until: Instant },
}

/// The time in which a candidate may write; none at all while it does not lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    pub ends: Option<Instant>,
}

impl Term {
    /// Whether a write that ends by `deadline` is within the term.
    pub fn allows_until(self, deadline: Instant) -> bool {
        self.ends.is_some_and(|ends| deadline < ends)
    }
}

/// Versions of one object are decimal numbers of any length.
fn is_newer(one: &str, other: &str) -> bool {
    (one.len(), one) > (other.len(), other)
}

/// One candidate's view of the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    me: String,
    seen: Option<Seen>,
    /// Our term: when it was won or last renewed (the time the request was sent).
    renewed_at: Option<Instant>,
    timing: Timing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    record: Option<Record>,
    /// When we first saw the record in this version.
    at: Instant,
    /// The lease is gone, and may have been somebody else's, who may not have heard of it.
    was_held: bool,
}

impl Candidate {
    pub fn new(me: impl Into<String>, timing: Timing) -> Self {
        Self { me: me.into(), seen: None, renewed_at: None, timing }
    }

    pub fn me(&self) -> &str {
        &self.me
    }

    /// A watch told that the lease is gone, deleted at `version`.
    pub fn gone(&mut self, version: &str, now: Instant) {
        if !self.has_seen_newer_than(version) {
            self.observed(None, now);
        }
    }

    /// A watch told of the lease.
    pub fn told(&mut self, record: Record, now: Instant) {
        if !self.has_seen_newer_than(&record.version) {
            self.observed(Some(record), now);
        }
    }

    fn has_seen_newer_than(&self, version: &str) -> bool {
        let seen = self.seen.as_ref().and_then(|seen| seen.record.as_ref());
        seen.is_some_and(|seen| is_newer(&seen.version, version))
    }

    /// The lease was just read; `None` if it does not exist.
    pub fn observed(&mut self, record: Option<Record>, now: Instant) {
        let was_mine = self.term().allows_until(now);
        let foreign = record.as_ref().is_none_or(|record| record.holder.as_deref() != Some(&self.me));
        if foreign {
            self.renewed_at = None;
        }
        if self.seen.as_ref().is_none_or(|seen| seen.record != record) {
            let before = self.seen.as_ref().and_then(|seen| seen.record.as_ref()?.holder.as_ref());
            // Who led was the last one to hold it; who does not know may have slept while others held it.
            let was_held = record.is_none() && before.is_some() && !was_mine;
            self.seen = Some(Seen { record, at: now, was_held });
        }
    }

    /// Our write, sent at `sent`, succeeded and left the lease as `record`.
    pub fn won(&mut self, record: Record, sent: Instant, now: Instant) {
        self.renewed_at = Some(sent);
        self.seen = Some(Seen { record: Some(record), at: now, was_held: false });
    }

    /// Until when we may write.
    pub fn term(&self) -> Term {
        Term { ends: self.renewed_at.map(|renewed| renewed + self.timing.term) }
    }

    /// Whether the lease has been looked at: before that there is nothing to decide on.
    pub fn has_looked(&self) -> bool {
        self.seen.is_some()
    }

    /// How long to wait after a write that failed: while the term lasts there is little time to save it.
    pub fn pause(&self, now: Instant) -> Duration {
        if self.term().allows_until(now) { self.timing.renew / 10 } else { self.timing.renew / 2 }
    }

    /// What to do at `now`. `Wait { until: now }` never occurs: there is always something to do or a time to wait for.
    pub fn decide(&self, now: Instant) -> Decision {
        let Some(Seen { record, at, was_held }) = &self.seen else {
            // Not looked yet: the shell reads before it decides.
            return Decision::Wait { until: now + self.timing.renew };
        };
        let Some(record) = record else {
            let due = if *was_held { *at + self.timing.lease } else { now };
            return if due > now { Decision::Wait { until: due } } else { Decision::Create };
        };
        let mine = record.holder.as_deref() == Some(&self.me);
        let due = match (&record.holder, self.renewed_at) {
            (None, _) => now,
            (Some(_), Some(renewed)) if mine => renewed + self.timing.renew,
            // Our name, but not our term (a lost reply, a restart under the same name): we know no better than others.
            (Some(_), _) => *at + self.timing.lease,
        };
        if due > now {
            return Decision::Wait { until: due };
        }
        Decision::Write {
            version: record.version.clone(),
            transitions: record.transitions.saturating_add(i32::from(!mine)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_that_failed_is_tried_again_while_there_is_time_to_save_the_term() {
        let mut candidate = Candidate::new("a", Timing::default());
        let record = Record { holder: Some("a".into()), transitions: 0, version: "1".into() };
        candidate.won(record, Instant(0), Instant(0));
        let ms = |millis| Instant(0) + Duration::from_millis(millis);
        // The API server stalled for longer than a renewal may take, and answers again.
        let again = ms(2_300) + candidate.pause(ms(2_300));
        assert!(candidate.term().allows_until(again + Duration::from_millis(300)));
        assert_eq!(candidate.pause(ms(3_000)), Duration::from_millis(500), "without a term nothing is urgent");
    }
}
