//! One write after the other. The gateway answers 500 or 409 to most writes that meet on one user or one bucket, so
//! the clones of a [`Gateway`](crate::Gateway) take turns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// What is written to, as `user acme$bob`.
type Subject = String;

/// Holds only what is being written to, or waited for, right now.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queues: Mutex<HashMap<Subject, Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Who has the turn or waits for it.
    places: usize,
    turn: Arc<AsyncMutex<()>>,
}

/// A turn; it ends when dropped. The fields are dropped in this order, so that who comes next can go ahead first.
#[derive(Debug)]
pub(crate) struct Turn {
    _turn: OwnedMutexGuard<()>,
    _place: Place,
}

#[derive(Debug)]
struct Place {
    turns: Arc<Turns>,
    subject: Subject,
}

impl Turns {
    /// Turns are given in the order they are asked for. Whoever stops waiting gives up its place.
    pub(crate) async fn next(self: Arc<Self>, subject: Subject) -> Turn {
        let turn = {
            let mut queues = self.queues();
            let queue = queues.entry(subject.clone()).or_default();
            queue.places += 1;
            Arc::clone(&queue.turn)
        };
        let place = Place { turns: self, subject };
        Turn { _turn: turn.lock_owned().await, _place: place }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Subject, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        if let Some(queue) = queues.get_mut(&self.subject) {
            queue.places -= 1;
            if queue.places == 0 {
                queues.remove(&self.subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::time::timeout;

    use super::*;

    /// For what does not happen.
    const A_MOMENT: Duration = Duration::from_millis(20);
    /// For what happens at once, on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn turn(turns: &Arc<Turns>, subject: &str) -> Turn {
        Arc::clone(turns).next(subject.to_owned()).await
    }

    #[tokio::test]
    async fn a_turn_ends_before_the_next_begins_and_nothing_stays_behind() {
        let (turns, writing) = (Arc::new(Turns::default()), Arc::new(AtomicUsize::new(0)));
        let writers: Vec<_> = (0..50)
            .map(|_| {
                let (turns, writing) = (Arc::clone(&turns), Arc::clone(&writing));
                tokio::spawn(async move {
                    let _turn = turn(&turns, "bob").await;
                    assert_eq!(writing.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    writing.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(turns.queues().is_empty());
    }

    #[tokio::test]
    async fn different_subjects_do_not_wait_for_each_other() {
        let turns = Arc::new(Turns::default());
        let _bob = turn(&turns, "bob").await;
        timeout(PATIENCE, turn(&turns, "eve")).await.expect("eve's turn is free");
    }

    #[tokio::test]
    async fn whoever_stops_waiting_is_not_waited_for() {
        let turns = Arc::new(Turns::default());
        let first = turn(&turns, "bob").await;
        timeout(A_MOMENT, turn(&turns, "bob")).await.expect_err("the first turn has not ended");
        drop(first);
        timeout(PATIENCE, turn(&turns, "bob")).await.expect("the turn is free");
        assert!(turns.queues().is_empty());
    }
}
