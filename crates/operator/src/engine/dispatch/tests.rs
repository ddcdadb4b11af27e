use std::sync::Mutex;

use croft_core::{journal::Pace, plan::Next, queue::Attempt};
use futures::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
    engine::{Place, Writer, events::Events, lease::Leadership, readiness::ReadinessBuilder, reconcile::Slots},
    telemetry::metrics::Metrics,
};

const PART: Part = Part("test");

fn key(name: &str) -> Key {
    Key::new(PART.work("test"), "shop", name)
}

/// So many are looked at now and then although nobody tells of a change.
const PACED: usize = 600;

/// Notes what is worked on, and panics over what is bad.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn of(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|noted| *noted == name).count()
    }
}

impl Notes {
    /// How often each of those was looked at that are looked at now and then: the least and the most.
    fn of_paced(&self) -> (usize, usize) {
        let noted = self.0.lock().unwrap();
        let of = |name: String| noted.iter().filter(|noted| **noted == name).count();
        let looks: Vec<_> = (0..PACED).map(|number| of(format!("paced-{number}"))).collect();
        (looks.iter().copied().min().unwrap_or_default(), looks.iter().copied().max().unwrap_or_default())
    }
}

impl Worker for Arc<Notes> {
    fn all(&self) -> Vec<Key> {
        vec![key("known")]
    }

    fn resync(&self) -> Vec<Key> {
        (0..PACED).map(|number| key(&format!("paced-{number}"))).collect()
    }

    fn lane(&self, _: &Key) -> Option<String> {
        None
    }

    fn run(&self, key: Key, _: Attempt, _: Context) -> BoxFuture<'_, Verdict> {
        Box::pin(async move {
            self.0.lock().unwrap().push(key.name.clone());
            assert_ne!(key.name, "bad", "a bug");
            Verdict::Settled(Next::Settled)
        })
    }
}

/// A dispatcher at work.
struct Play {
    notes: Arc<Notes>,
    pusher: Pusher,
    leads: watch::Sender<Leading>,
    metrics: Arc<Metrics>,
    _task: AbortOnDropHandle<()>,
}

fn play() -> Play {
    let (client, clock) = (crate::client::nobody(), Clock::start());
    let (pusher, mut inboxes) = channels([PART]);
    let (notes, metrics) = (Arc::new(Notes::default()), Arc::new(Metrics::default()));
    let (leads, leading) = watch::channel(Leading::default());
    let journal = Journal::new(clock, pusher.clone());
    journal.start();
    let dispatcher = Dispatcher {
        part: PART,
        workers: [(PART.work("test"), Arc::new(notes.clone()) as Arc<dyn Worker>)].into(),
        unreadable: Vec::new(),
        inbox: inboxes.remove(&PART).expect("of the part"),
        leads: leading,
        context: Context {
            leadership: Leadership::new(clock),
            metrics: metrics.clone(),
            events: Events::new(client.clone(), "test", clock),
            writer: Writer::new(client),
            journal,
            slots: Slots::new(4),
        },
        readiness: ReadinessBuilder::default().build(),
        clock,
        concurrency: 4,
        resync: RESYNC,
    };
    let task = AbortOnDropHandle::new(tokio::spawn(dispatcher.run(CancellationToken::new())));
    Play { notes, pusher, leads, metrics, _task: task }
}

const SOON: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_panics_is_counted_and_tried_ever_more_rarely_and_all_others_go_on() {
    let play = play();
    play.leads.send_replace(Leading { now: true, terms: 1 });
    tokio::time::sleep(SOON).await;
    play.pusher.push(key("bad"), Priority::Live);
    for minute in 1..=10 {
        play.pusher.push(key("good"), Priority::Live);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(play.notes.of("good"), minute);
    }
    let attempts = play.notes.of("bad");
    assert!((5..=20).contains(&attempts), "{attempts} in ten minutes");
    let counted = format!("croft_panics_total{{place=\"reconcile\"}} {attempts}");
    assert!(play.metrics.text().contains(&counted), "{}", play.metrics.text());
}

#[tokio::test(start_paused = true)]
async fn everything_is_looked_at_once_in_ten_minutes_the_first_ten_after_a_start_and_never_many_at_once() {
    let play = play();
    play.leads.send_replace(Leading { now: true, terms: 1 });
    tokio::time::sleep(RESYNC.checked_sub(SOON).expect("longer")).await;
    assert_eq!(play.notes.of_paced(), (0, 0), "a term begins with what is not settled, and no more");
    tokio::time::sleep(2 * SOON).await;
    for round in 1..=3 {
        let mut most = 0;
        for _ in 0..RESYNC_TURNS {
            let before = play.notes.0.lock().unwrap().len();
            tokio::time::sleep(RESYNC / RESYNC_TURNS).await;
            most = most.max(play.notes.0.lock().unwrap().len() - before);
        }
        // Ten seconds' share is ten; names are spread by chance.
        assert!(most <= 30, "{most} in ten seconds");
        // The share of the first turn has begun its next round.
        assert_eq!(play.notes.of_paced(), (round, round + 1));
    }
    play.leads.send_replace(Leading { now: false, terms: 1 });
    tokio::time::sleep(SOON).await;
    let before = play.notes.of_paced();
    tokio::time::sleep(RESYNC).await;
    assert_eq!(play.notes.of_paced(), before, "a standby looks at nothing");
}

#[tokio::test(start_paused = true)]
async fn a_standby_remembers_nothing_of_what_changes_and_looks_at_everything_when_it_leads() {
    let play = play();
    for number in 0..10_000 {
        play.pusher.push(key(&format!("k{number}")), Priority::Live);
    }
    tokio::time::sleep(SOON).await;
    let text = play.metrics.text();
    let depth = text.lines().find(|line| line.starts_with("croft_queue_depth{")).unwrap_or_default();
    assert!(depth.ends_with(" 0"), "{text}");
    assert!(play.notes.0.lock().unwrap().is_empty());
    play.leads.send_replace(Leading { now: true, terms: 1 });
    tokio::time::sleep(SOON).await;
    assert_eq!(*play.notes.0.lock().unwrap(), ["known"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_looked_at_when_a_term_ended_is_woken_by_the_news_of_the_next_one() {
    let (pusher, mut inboxes) = channels([PART]);
    let clock = Clock::start();
    let journal = Journal::new(clock, pusher);
    let kept = AbortOnDropHandle::new(tokio::spawn(journal.clone().keep()));
    let (key, place) = (key("key"), Place::new("shop", "one"));
    journal.opened("configmaps", Arc::new(|_: &Place| None));
    journal.start();
    let mut queue = Queue::new(1, 1, Backoffs::default());
    queue.push(key.clone(), Priority::Live, clock.now());
    assert!(queue.pop(clock.now(), |_| Start::Now).is_some());
    journal.looks(&key);
    let mut tasks = JoinSet::new();
    let task = tasks.spawn(std::future::pending());
    let (slow, _slow_ones) = mpsc::unbounded_channel();
    let mut running = Running { tasks, keys: [(task.id(), key.clone())].into(), slow };
    end_term(&mut queue, &mut running, &journal).await;
    let soon = Pace { calm: Duration::from_millis(10), most: Duration::from_millis(10) };
    journal.saw(&key, "configmaps", &place, 7, soon);
    tokio::time::sleep(SOON).await;
    let inbox = inboxes.get_mut(&PART).expect("of the part");
    assert_eq!(inbox.keys(), [key]);
    drop(kept);
}
