//! When a class counts its namespaces anew: soon after one of them changed, and once for all that change meanwhile.
//!
//! While a class rolls out, every namespace changes several times; counting all of them after each change would take the
//! longer the more there are.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::queue::Priority;

use super::CLASS;
use crate::engine::{Key, Pusher};

const PAUSE: Duration = Duration::from_millis(100);

/// Classes that will be looked at in a moment.
#[derive(Clone, Debug)]
pub(super) struct Recount {
    pusher: Pusher,
    due: Arc<Mutex<BTreeSet<String>>>,
}

impl Recount {
    pub(super) fn new(pusher: Pusher) -> Self {
        Self { pusher, due: Arc::default() }
    }

    /// No change is missed: what comes after the class was pushed makes it due again.
    pub(super) fn soon(&self, class: &str) {
        if !self.due().insert(class.to_owned()) {
            return;
        }
        let (recount, class) = (self.clone(), class.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            recount.due().remove(&class);
            recount.pusher.push(Key::cluster(CLASS, class), Priority::Live);
        });
    }

    fn due(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
