//! Whether the operator sees what it needs to see: the state of every watch, by part.

use std::{collections::BTreeMap, fmt, fmt::Write, sync::Arc};

use croft_core::watching::Standing;
use tokio::sync::watch;

use super::{Part, remarks::Remarks};

/// One watch as readiness sees it.
#[derive(Clone, Debug)]
struct Watched {
    resource: String,
    parts: Vec<Part>,
    standing: watch::Receiver<Standing>,
    /// A kind of somebody else: its absence makes its part wait, not the operator unready.
    foreign: bool,
    /// Where it is not installed there is none of it, and nobody waits.
    optional: bool,
    /// Its part asks how it stands and works without it, whatever is wrong.
    dispensable: bool,
}

impl Watched {
    /// Whether all there is is known.
    fn is_seen(&self) -> bool {
        let standing = self.standing.borrow();
        standing.is_synced() || (self.optional && *standing == Standing::NotServed) || self.is_away()
    }

    /// Whether it is done without.
    fn is_away(&self) -> bool {
        let is_lost =
            matches!(&*self.standing.borrow(), Standing::NotServed | Standing::Forbidden | Standing::Failing(_));
        self.dispensable && is_lost
    }
}

/// The state of all watches. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness {
    watches: Arc<Vec<Watched>>,
    remarks: Remarks,
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
pub(super) struct ReadinessBuilder {
    watches: BTreeMap<String, Watched>,
    pub(super) remarks: Remarks,
}

impl ReadinessBuilder {
    pub(super) fn add(&mut self, resource: &str, part: Part, standing: watch::Receiver<Standing>, foreign: bool) {
        let watched = self.watches.entry(resource.to_owned()).or_insert_with(|| Watched {
            resource: resource.to_owned(),
            parts: Vec::new(),
            standing,
            foreign,
            optional: false,
            dispensable: false,
        });
        if !watched.parts.contains(&part) {
            watched.parts.push(part);
        }
    }

    /// Nobody needs to wait for this kind to be installed.
    pub(super) fn may_be_missing(&mut self, resource: &str) {
        if let Some(watched) = self.watches.get_mut(resource) {
            watched.optional = true;
        }
    }

    /// The part of this kind works without it, and so does everybody else.
    pub(super) fn may_be_away(&mut self, resource: &str) {
        if let Some(watched) = self.watches.get_mut(resource) {
            watched.dispensable = true;
        }
    }

    pub(super) fn build(self) -> Readiness {
        let watches = Arc::new(self.watches.into_values().collect());
        Readiness { watches, remarks: self.remarks, changed: Arc::new(watch::Sender::new(0)) }
    }
}

impl Readiness {
    /// Told whenever a watch changes its state.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether every watch of the part has a full picture.
    pub fn is_synced(&self, part: Part) -> bool {
        self.of(part).all(Watched::is_seen)
    }

    /// Why a part waits, if it does.
    pub fn waits_for(&self, part: Part) -> Option<String> {
        let is_waited_for = |watched: &&Watched| *watched.standing.borrow() == Standing::NotServed && !watched.optional;
        let waiting = self.of(part).filter(is_waited_for);
        let waiting: Vec<_> = waiting.map(|watched| watched.resource.as_str()).collect();
        (!waiting.is_empty()).then(|| waiting.join(", "))
    }

    /// Ready when every watch is synced, or waits for a kind that somebody else installs.
    pub fn is_ready(&self) -> bool {
        self.watches.iter().all(|watched| match &*watched.standing.borrow() {
            Standing::Synced => true,
            Standing::NotServed => watched.foreign || watched.optional,
            Standing::Starting => false,
            Standing::Forbidden | Standing::Failing(_) => watched.dispensable,
        })
    }

    /// What a part does without for the time being.
    pub fn does_without(&self, part: Part) -> Vec<String> {
        self.of(part).filter(|watched| watched.is_away()).map(|watched| watched.resource.clone()).collect()
    }

    /// One line per watch, and what else there is to say, for `/readyz` and the log.
    pub fn detail(&self) -> String {
        self.to_string()
    }

    /// Passes on the changes of every watch; runs for ever.
    pub(super) async fn follow(self) {
        let each = self.watches.iter().map(|watched| {
            let (mut standing, changed) = (watched.standing.clone(), self.changed.clone());
            async move {
                while standing.changed().await.is_ok() {
                    changed.send_modify(|count| *count += 1);
                }
            }
        });
        futures::future::join_all(each).await;
    }

    fn of(&self, part: Part) -> impl Iterator<Item = &Watched> {
        self.watches.iter().filter(move |watched| watched.parts.contains(&part))
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for watched in self.watches.iter() {
            let standing = watched.standing.borrow();
            let mark = if watched.is_seen() && !watched.is_away() { '+' } else { '-' };
            let standing = match &*standing {
                Standing::NotServed if watched.optional => "not installed".to_owned(),
                Standing::NotServed => format!("waiting for the CRD {}", watched.resource),
                other => other.to_string(),
            };
            let mut parts = String::new();
            for part in &watched.parts {
                write!(parts, " {part}")?;
            }
            writeln!(out, "[{mark}] {}: {standing} (for{parts})", watched.resource)?;
        }
        for remark in self.remarks.all() {
            writeln!(out, "[!] {remark}")?;
        }
        Ok(())
    }
}
