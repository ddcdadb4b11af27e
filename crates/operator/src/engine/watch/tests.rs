//! The supervisor on scripted streams, under paused time.

use std::{collections::VecDeque, sync::Mutex};

use futures::stream;
use kube::api::DynamicObject;
use serde_json::json;

use super::{
    source::{Happenings, Page},
    *,
};

/// What the other side does next.
enum Line {
    List(Result<Vec<(&'static str, u64)>, Trouble>),
    /// One page of several.
    Pages(Vec<Result<Vec<(&'static str, u64)>, Trouble>>),
    Watch(Result<Vec<Result<Happening<DynamicObject>, Trouble>>, Trouble>),
    /// A watch that stays open for this long, then ends.
    Quiet(Duration),
}

struct Script {
    lines: Mutex<VecDeque<Line>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn next(&self) -> Option<Line> {
        self.lines.lock().unwrap().pop_front()
    }

    fn note(&self, text: impl Into<String>) {
        self.log.lock().unwrap().push(text.into());
    }
}

fn object(name: &str, version: u64) -> DynamicObject {
    serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version.to_string()}})).unwrap()
}

fn put(name: &str, version: u64) -> Happening<DynamicObject> {
    Happening::Put(Arrived::Readable(object(name, version)))
}

fn gone(name: &str, version: u64) -> Happening<DynamicObject> {
    Happening::Gone(Departed { place: Place::new("", name), version: version.to_string() })
}

fn other() -> Trouble {
    Trouble::Other("down".into())
}

fn page(objects: &[(&str, u64)], next: Option<String>) -> Page<DynamicObject> {
    let newest = objects.iter().map(|(_, version)| *version).max().unwrap_or(1);
    let objects = objects.iter().map(|(name, version)| Arrived::Readable(object(name, *version))).collect::<Vec<_>>();
    Page { objects: Box::new(objects.into_iter()), next, version: newest.to_string() }
}

impl Source<DynamicObject> for Script {
    async fn list(&self, from: Option<&str>) -> Result<Page<DynamicObject>, Trouble> {
        self.note(from.map_or("list".to_owned(), |from| format!("list from {from}")));
        match self.next() {
            Some(Line::List(answer)) => answer.map(|objects| page(&objects, None)),
            Some(Line::Pages(mut pages)) => {
                let first = pages.remove(0);
                let more = !pages.is_empty();
                if more {
                    self.lines.lock().unwrap().push_front(Line::Pages(pages));
                }
                first.map(|objects| page(&objects, more.then(|| "more".to_owned())))
            }
            Some(_) => panic!("the script does not list here: {:?}", self.log.lock().unwrap()),
            None => std::future::pending().await,
        }
    }

    async fn watch(&self, version: &str) -> Result<Happenings<DynamicObject>, Trouble> {
        self.note(format!("watch from {version}"));
        match self.next() {
            Some(Line::Watch(answer)) => answer.map(|events| stream::iter(events).boxed()),
            Some(Line::Quiet(time)) => {
                Ok(stream::once(tokio::time::sleep(time)).filter_map(|()| async { None }).boxed())
            }
            Some(_) => panic!("the script does not watch here: {:?}", self.log.lock().unwrap()),
            None => Ok(stream::pending().boxed()),
        }
    }
}

/// Writes down what it is told.
struct Notes {
    log: Arc<Mutex<Vec<String>>>,
    panics: u32,
}

impl Notes {
    fn note(&self, text: impl Into<String>) {
        self.log.lock().unwrap().push(text.into());
    }
}

impl Sink<DynamicObject> for Notes {
    fn put(&mut self, object: Arrived<DynamicObject>, how: How) {
        if self.panics > 0 {
            self.panics -= 1;
            panic!("on purpose");
        }
        self.note(format!("{} {how:?}", object.metadata().name.clone().unwrap()));
    }

    fn gone(&mut self, object: &Departed) {
        self.note(format!("{} gone", object.place.name));
    }

    fn listed(&mut self, places: &BTreeSet<Place>, revision: u64) {
        self.note(format!("listed {} at {revision}", places.len()));
    }

    fn progressed(&mut self, revision: u64) {
        self.note(format!("at {revision}"));
    }

    fn turned(&mut self, standing: &Standing) {
        self.note(standing.to_string());
    }
}

struct Told {
    log: Arc<Mutex<Vec<String>>>,
    kinds: KindChanges,
    standing: watch::Receiver<Standing>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Told {
    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// Everything that happens within this time.
    async fn after(&self, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        self.log()
    }
}

fn play(lines: impl IntoIterator<Item = Line>) -> Told {
    play_with(lines, 0)
}

fn play_with(lines: impl IntoIterator<Item = Line>, panics: u32) -> Told {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let kinds = KindChanges::default();
    let (sender, standing) = watch::channel(Standing::default());
    let supervisor = Supervisor {
        resource: "configmaps".into(),
        source: Script { lines: Mutex::new(lines.into_iter().collect()), log: log.clone() },
        sink: Notes { log: log.clone(), panics },
        standing: sender,
        surroundings: Surroundings { metrics: Arc::default(), kinds: kinds.clone() },
    };
    let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(supervisor.run::<DynamicObject>()));
    Told { log, kinds, standing, _task: task }
}

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn the_version_moves_when_a_list_is_complete_and_never_in_the_middle_of_one() {
    let told = play([Line::Pages(vec![Ok(vec![("a", 5)]), Ok(vec![("b", 7)])])]);
    assert_eq!(
        told.after(SOON).await,
        ["list", "a Listed", "list from more", "b Listed", "listed 2 at 7", "watch from 7", "synced"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_passed_on_and_a_watch_that_ends_goes_on_where_it_was() {
    let told = play([
        Line::List(Ok(vec![("a", 5)])),
        Line::Watch(Ok(vec![Ok(put("b", 6)), Ok(gone("a", 7)), Ok(Happening::Bookmark("9".into()))])),
    ]);
    let log = told.after(SOON).await;
    assert_eq!(log[5..], ["b Live", "at 6", "a gone", "at 7", "at 9", "watch from 9"], "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_when_a_watch_resumes_is_a_state_only_while_it_is_missing() {
    let refused = || Line::Watch(Err(Trouble::Forbidden));
    let told = play([
        Line::List(Ok(vec![])),
        Line::Quiet(SOON),
        refused(),
        refused(),
        refused(),
        refused(),
        Line::Quiet(Duration::from_secs(60)),
    ]);
    told.after(SOON + Duration::from_millis(300)).await;
    assert!(told.standing.borrow().is_synced(), "a moment without rights is no state");
    let log = told.after(Duration::from_secs(3)).await;
    let forbidden = Standing::Forbidden.to_string();
    let turns: Vec<_> = log.iter().filter(|line| !line.starts_with("watch")).collect();
    assert_eq!(turns, [&forbidden, "synced"], "and no list was needed: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_listed_anew_in_the_stream_and_as_the_answer() {
    let told = play([
        Line::List(Ok(vec![("a", 5)])),
        Line::Watch(Ok(vec![Err(Trouble::Expired)])),
        Line::List(Ok(vec![("b", 8)])),
        Line::Watch(Err(Trouble::Expired)),
        Line::List(Ok(vec![("b", 9)])),
    ]);
    let log = told.after(SOON).await;
    let asked: Vec<_> = log.iter().filter(|line| line.starts_with("list") && !line.starts_with("listed")).collect();
    assert_eq!(asked.len(), 3, "{log:?}");
    assert!(told.standing.borrow().is_synced() && log.ends_with(&["watch from 9".to_owned()]), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_in_the_middle_begins_anew_and_moved_nothing() {
    let told = play([Line::Pages(vec![Ok(vec![("a", 5)]), Err(other())]), Line::List(Ok(vec![("a", 6)]))]);
    let log = told.after(SOON).await;
    let moved: Vec<_> = log.iter().filter(|line| line.contains("at ")).collect();
    assert_eq!(moved, ["listed 1 at 6"], "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_says_so_and_goes_on_when_it_can() {
    let told =
        play([Line::List(Err(other())), Line::List(Err(other())), Line::List(Err(other())), Line::List(Ok(vec![]))]);
    let log = told.after(SOON).await;
    assert_eq!(turns(&log), ["failing: down", "synced"], "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_asked_for_when_kinds_change_and_not_before() {
    let told = play([Line::List(Err(Trouble::NotServed)), Line::List(Err(Trouble::NotServed)), Line::List(Ok(vec![]))]);
    assert_eq!(told.after(SOON).await, ["list", Standing::NotServed.to_string().as_str()]);
    assert!(told.after(Duration::from_secs(500)).await.is_empty(), "nobody is asked in vain");
    told.kinds.changed();
    let log = told.after(SOON).await;
    assert_eq!(log.iter().filter(|line| *line == "list").count(), 2, "at once, and a moment later: {log:?}");
    assert!(told.standing.borrow().is_synced(), "served a moment after it was announced: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_served_is_asked_for_again_though_nothing_announces_it() {
    let told = play([Line::List(Ok(vec![])), Line::Watch(Err(Trouble::NotServed)), Line::List(Ok(vec![("a", 5)]))]);
    let log = told.after(Duration::from_secs(60)).await;
    assert!(told.standing.borrow().is_synced() && log.contains(&"a Listed".to_owned()), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_the_other_side_does_makes_a_hot_loop() {
    let ends_at_once =
        |times| std::iter::once(Line::List(Ok(vec![]))).chain((0..times).map(|_| Line::Watch(Ok(vec![]))));
    let told = play(ends_at_once(8).chain(ends_at_once(200)));
    let log = told.after(Duration::from_secs(60)).await;
    assert!(log.len() < 30, "{} calls in a minute", log.len());
    assert!(log.contains(&"failing: its watch is accepted and ends at once".to_owned()), "{log:?}");
    let fails = (0..200).map(|_| Line::List(Err(other())));
    let told = play(fails);
    let log = told.after(Duration::from_secs(60)).await;
    assert!(log.len() < 20, "{} calls in a minute", log.len());
    let expires =
        (0..200).flat_map(|_| [Line::List(Ok(vec![])), Line::Watch(Ok(vec![Ok(put("b", 6)), Err(Trouble::Expired)]))]);
    let told = play(expires);
    let log = told.after(Duration::from_secs(60)).await;
    let lists = log.iter().filter(|line| *line == "list").count();
    assert!(lists < 20, "{lists} lists in a minute");
    let told = play([Line::Pages((0..200).map(|_| Ok(vec![("a", 5)])).collect())]);
    let log = told.after(Duration::from_secs(60)).await;
    let lists = log.iter().filter(|line| line.starts_with("list ")).count();
    assert!(lists < 20, "{lists} pages in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_loses_nothing_but_time() {
    let told = play_with([Line::List(Ok(vec![("a", 5)])), Line::List(Ok(vec![("a", 5)]))], 1);
    let log = told.after(SOON * 2).await;
    let panicked = "failing: a bug in croft: the watch panicked";
    assert_eq!(log, ["list", panicked, "list", "a Listed", "listed 1 at 5", "watch from 5", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_once_in_a_while_is_soon_back_however_often_it_has() {
    const TIMES: u32 = 9;
    let hour = Duration::from_secs(3600);
    let once = || [Line::List(Ok(vec![])), Line::Quiet(hour), Line::Watch(Ok(vec![Ok(put("a", 5))]))];
    let told = play_with((0..TIMES).flat_map(|_| once()), TIMES);
    let log = told.after((hour + AFTER_PANIC.first * 2) * TIMES).await;
    let lists = log.iter().filter(|line| *line == "list").count();
    assert_eq!(u32::try_from(lists), Ok(TIMES + 1), "{log:?}");
}

/// How it came to stand, one after another.
fn turns(log: &[String]) -> Vec<&str> {
    let is_turn = |line: &&str| line.starts_with("failing") || *line == "synced";
    log.iter().map(String::as_str).filter(is_turn).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_can_be_listed_and_not_watched_says_so_once_and_is_not_listed_over_and_over() {
    let refused = || (0..50).map(|_| Line::Watch(Err(other())));
    let never = std::iter::once(Line::List(Ok(vec![("a", 5)]))).chain(refused());
    let told = play(never);
    let log = told.after(Duration::from_secs(400)).await;
    assert_eq!(turns(&log), ["failing: down"], "{log:?}");
    let lists = |log: &[String]| log.iter().filter(|line| *line == "list").count();
    assert_eq!(lists(&log), 1, "{log:?}");
    let healed = told.after(Duration::from_secs(400)).await;
    assert_eq!(turns(&healed), ["synced"], "{healed:?}");
    let begun = [Line::List(Ok(vec![])), Line::Quiet(Duration::from_secs(60))].into_iter();
    let anew = std::iter::once(Line::List(Ok(vec![])));
    let told = play(begun.chain((0..8).map(|_| Line::Watch(Err(other())))).chain(anew).chain(refused()));
    let log = told.after(Duration::from_secs(400)).await;
    assert_eq!(turns(&log), ["synced", "failing: down"], "{log:?}");
    assert_eq!(lists(&log), 2, "{log:?}");
}

/// An API server accepts a watch from a version that has expired, and says so in its first event.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_accepted_and_fails_at_once_again_and_again_says_so_once_and_heals() {
    for trouble in [Trouble::Expired, other()] {
        let round = || [Line::List(Ok(vec![("a", 5)])), Line::Watch(Ok(vec![Err(trouble.clone())]))];
        let resumed = || Line::Watch(Ok(vec![Err(trouble.clone())]));
        let lines: Vec<_> = match trouble {
            Trouble::Expired => (0..30).flat_map(|_| round()).collect(),
            // Known until it has failed too often, then listed anew.
            _ => round()
                .into_iter()
                .chain((0..7).map(|_| resumed()))
                .chain(round())
                .chain((0..30).map(|_| resumed()))
                .collect(),
        };
        let told = play(lines.into_iter().chain((trouble == Trouble::Expired).then(|| Line::List(Ok(vec![])))));
        let log = told.after(Duration::from_secs(1200)).await;
        assert!(matches!(turns(&log)[..], ["synced", failing, "synced"] if failing.starts_with("failing")), "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_without_objects_is_not_the_end_of_a_list() {
    let told = play([Line::Pages(vec![Ok(vec![]), Ok(vec![("a", 5)]), Ok(vec![]), Ok(vec![("b", 7)])])]);
    let log = told.after(SOON).await;
    assert!(log.contains(&"listed 2 at 7".to_owned()) && told.standing.borrow().is_synced(), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_before_its_end_again_and_again_is_told() {
    let expires = || Line::Pages(vec![Ok(vec![("a", 5)]), Err(Trouble::Expired)]);
    let told = play((0..30).map(|_| expires()).chain([Line::List(Ok(vec![("a", 6)]))]));
    let log = told.after(Duration::from_secs(600)).await;
    let [failing, "synced"] = turns(&log)[..] else { panic!("{log:?}") };
    assert!(failing.contains("expires"), "{failing}");
}
