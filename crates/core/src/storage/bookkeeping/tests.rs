use super::*;
use crate::{
    plan::{Failure, FailureClass, Outcome, may_begin},
    storage::ledger::{Bounds, Form, MOST_IN_BOOKS, Reservation},
};

fn units(size: u64) -> Units {
    Units { size, ..Units::default() }
}

fn form() -> Form {
    Form { uid: "u".into(), generation: 1 }
}

fn asks(size: u64) -> Asks {
    Asks { form: form(), units: units(size) }
}

fn granted(size: u64) -> Entry {
    Entry { form: Some(form()), granted: Some(units(size)), ..Entry::default() }
}

fn promised(entry: Entry, size: u64) -> Entry {
    Entry { pending: Some(Reservation { units: units(size), at: 100, request: "r".into(), form: form() }), ..entry }
}

fn seen(entry: Entry, known: Option<Known>, now: u64) -> Observed {
    let key = "a/x".to_owned();
    Observed {
        ledger: Ledger::with([(key.clone(), entry)]),
        known: known.map(|known| (key, known)).into_iter().collect(),
        is_needed: true,
        is_mislabelled: false,
        now,
    }
}

fn cached(asks: Option<Asks>, is_recorded: bool) -> Cached {
    Cached { ledger: Some("team.a".into()), is_there: asks.is_some(), asks, is_recorded }
}

fn needs_a_look(entry: &Entry, now: u64, cached: &Cached) -> bool {
    let looked = look("team.a", "a/x", entry, cached, now);
    assert!(matches!(looked, Look::Nothing | Look::Claim { namespace: "a", name: "x" }), "{looked:?}");
    looked != Look::Nothing
}

fn told(seen: &Observed) -> String {
    plan(seen).to_string()
}

#[test]
fn what_is_granted_and_used_needs_nothing() {
    let plan = plan(&seen(granted(3), Some(Known::Claim { asks: Some(asks(3)) }), 1000));
    assert!(plan.is_settled() && plan.next == plan::Next::Settled);
    assert!(!needs_a_look(&granted(3), 1000, &cached(Some(asks(3)), true)));
    assert!(!needs_a_look(&granted(3), 1000, &cached(None, true)), "a released user keeps counting");
    assert!(needs_a_look(&granted(3), 1000, &cached(None, false)));
}

#[test]
fn a_promise_is_looked_at_when_it_is_due_and_not_before() {
    let entry = promised(Entry::default(), 5);
    let early = plan(&seen(entry.clone(), None, 160));
    assert!(early.is_settled());
    assert_eq!(early.next, plan::Next::After(Duration::from_secs(60)));
    assert!(!needs_a_look(&entry, 219, &cached(None, false)), "its request may still be under way");
    assert!(needs_a_look(&entry, 220, &cached(None, true)));
    let late = seen(entry.clone(), Some(Known::NoClaim { is_recorded: false }), 220);
    assert_eq!(told(&late), "give back what was promised to a/x in vain");
    let lowered = plan(&seen(entry.clone(), Some(Known::Claim { asks: Some(asks(4)) }), 220));
    assert_eq!(lowered.groups, [[Step::Repair { entry: "a/x".into(), asks: Some(asks(4)), now: 220 }]]);
    let waiting = plan(&seen(entry, Some(Known::Claim { asks: Some(asks(5)) }), 220));
    assert!(waiting.is_settled() && waiting.next == plan::Next::Settled, "what it asks for stays promised, quietly");
}

#[test]
fn a_promise_that_stays_is_asked_after_by_nobody() {
    let entry = promised(Entry::default(), 5);
    assert!(!needs_a_look(&entry, 1000, &cached(Some(asks(5)), false)), "it waits for its class, for ever");
    assert!(needs_a_look(&entry, 1000, &cached(Some(asks(4)), false)), "the claim asks for less by now");
    let edited = Asks { form: Form { generation: 2, ..form() }, units: units(5) };
    assert!(needs_a_look(&entry, 1000, &cached(Some(edited), false)));
    let unreadable = Cached { is_there: true, ..cached(None, false) };
    assert!(needs_a_look(&entry, 1000, &unreadable));
}

#[test]
fn what_belongs_elsewhere_or_to_nobody_is_known_without_asking_and_a_vault_is_asked_after_once_nothing_tells_of_it() {
    let looked = |key: &'static str, cached: &Cached| look("team.a", key, &granted(3), cached, 1000);
    assert_eq!(looked("a/b/c", &Cached::default()), Look::Known(Known::NoClaim { is_recorded: false }));
    let moved = Cached { ledger: Some("team.b".into()), ..cached(Some(asks(3)), true) };
    let elsewhere = Look::Known(Known::Elsewhere { ledger: "team.b".into() });
    assert_eq!([looked("a/x", &moved), looked("a/vault:x", &moved)], [elsewhere.clone(), elsewhere]);
    assert_eq!(looked("a/vault:x", &cached(None, true)), Look::Nothing);
    assert_eq!(looked("a/vault:x", &cached(None, false)), Look::Vault { namespace: "a", name: "x" });
    let promised = promised(granted(3), 5);
    let promised = look("team.a", "a/vault:x", &promised, &cached(None, true), 1000);
    assert_eq!(promised, Look::Known(Known::NoClaim { is_recorded: true }), "nobody promises a vault anything");
    let gone = Cached { ledger: None, ..cached(None, false) };
    assert_eq!(looked("a/x", &gone), Look::Claim { namespace: "a", name: "x" }, "its namespace is gone");
}

#[test]
fn books_that_say_they_are_somebody_elses_are_put_right_first() {
    let seen = Observed { is_mislabelled: true, is_needed: true, ..Observed::default() };
    assert_eq!(told(&seen), "say whose books they are: it is not who they say");
}

#[test]
fn an_entry_of_nobody_is_dropped_and_one_with_a_user_is_kept() {
    assert!(told(&seen(granted(3), Some(Known::NoClaim { is_recorded: false }), 0)).starts_with("drop a/x"));
    assert_eq!(told(&seen(granted(3), Some(Known::NoClaim { is_recorded: true }), 0)), "nothing to do");
}

#[test]
fn what_belongs_elsewhere_is_there_before_it_is_not_here_and_its_promises_are_decided_anew() {
    let entry = promised(granted(3), 9);
    let plan = plan(&seen(entry.clone(), Some(Known::Elsewhere { ledger: "team.b".into() }), 100));
    let [first, last] = plan.groups.as_slice() else { panic!("{plan}") };
    assert_eq!(*first, [Step::TakeOver { entry: "a/x".into(), book: granted(3), ledger: "team.b".into() }]);
    assert_eq!(*last, [Step::Forget { entry: "a/x".into(), book: entry }]);
}

#[test]
fn what_a_namespace_brings_counts_before_it_is_booked() {
    let mut ledger = Ledger::with([("a/x".to_owned(), granted(4))]);
    let guests = || Ledger::with([("b/y".to_owned(), promised(granted(5), 9))]);
    let limits = Limits { team: Bounds { size: Some(10), ..Bounds::default() }, ..Limits::default() };
    let reserve = |ledger: &mut Ledger, key: &str, size: u64| {
        let promise = Reservation { units: units(size), at: 0, request: "r".into(), form: form() };
        beside_guests(ledger, guests(), |ledger| ledger.reserve(key, promise, &limits))
    };
    assert_eq!(reserve(&mut ledger, "a/z", 2).unwrap_err().left, 1);
    assert_eq!(ledger.entries.len(), 1, "nobody is booked by a look");
    reserve(&mut ledger, "a/z", 1).unwrap();
    assert!(!ledger.entries.contains_key("b/y"), "who did not ask is taken over later");
    reserve(&mut ledger, "b/y", 5).unwrap();
    assert_eq!(ledger.entries["b/y"].granted, Some(units(5)), "who asks brings along what he has");
}

#[test]
fn who_comes_to_a_team_without_room_keeps_what_he_has_and_gets_no_more() {
    let ledger = || Ledger::with([("a/x".to_owned(), granted(8))]);
    let guests = || Ledger::with([("b/y".to_owned(), granted(6))]);
    let limits = Limits { team: Bounds { size: Some(10), ..Bounds::default() }, ..Limits::default() };
    let books = books_of(ledger(), guests(), "b/y", units(6), &limits);
    assert_eq!(books, Books { entry: Some(granted(6)), exceeded: None });
    assert!(books_of(ledger(), guests(), "b/y", units(7), &limits).exceeded.is_some());
    assert!(books_of(ledger(), guests(), "a/x", units(9), &limits).exceeded.is_some());
    assert!(books_of(ledger(), Ledger::default(), "b/z", units(2), &limits).exceeded.is_none());
}

#[test]
fn empty_books_are_closed_when_nobody_needs_them() {
    assert_eq!(told(&Observed { is_needed: true, ..Observed::default() }), "nothing to do");
    assert!(told(&Observed::default()).starts_with("close the ledger"));
}

#[test]
fn an_entry_that_finds_no_room_keeps_no_other_one_back() {
    let elsewhere = |ledger: &str| Known::Elsewhere { ledger: ledger.into() };
    let seen = Observed {
        ledger: Ledger::with(["one/x", "two/x"].map(|key| (key.to_owned(), granted(3)))),
        known: [("one/x".to_owned(), elsewhere("team.full")), ("two/x".to_owned(), elsewhere("team.b"))].into(),
        is_needed: true,
        ..Observed::default()
    };
    let plan = plan(&seen);
    let [first, last] = plan.groups.as_slice() else { panic!("{plan}") };
    let full = || Outcome::Failed(Failure::new(FailureClass::Transient, "BooksFull", ""));
    let taken_over = |step: &Step| match step {
        Step::TakeOver { ledger, .. } if ledger == "team.full" => full(),
        _ => Outcome::done(),
    };
    let ended: Vec<_> = first.iter().map(|step| (step, taken_over(step))).collect();
    let begun: Vec<_> = last.iter().filter(|step| may_begin(*step, &ended)).map(ToString::to_string).collect();
    assert_eq!(begun, ["forget two/x: it stands in the books of its namespace"]);
}

#[test]
fn a_guest_gets_no_place_in_full_books_by_asking_for_more() {
    let entries = (0..MOST_IN_BOOKS - 1).map(|number| (format!("n{number}/x"), granted(1)));
    let mut ledger = Ledger::with(entries);
    let guests = || Ledger::with(["b/y", "b/z"].map(|key| (key.to_owned(), granted(5))));
    let asks = |ledger: &mut Ledger, keys: &[&str], size: u64| {
        let promise = || Reservation { units: units(size), at: 0, request: "r".into(), form: form() };
        let reserve =
            |ledger: &mut Ledger| keys.iter().map(|key| ledger.reserve(key, promise(), &Limits::default())).collect();
        let done: Vec<_> = beside_guests(ledger, guests(), reserve);
        done.into_iter().map(|done| done.is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(asks(&mut ledger, &["b/y", "b/z"], 6), [true, false], "there is one place left");
    assert_eq!(ledger.entries.len(), MOST_IN_BOOKS);
    assert_eq!(asks(&mut ledger, &["b/y"], 7), [true], "who has a place may have more");
    let told = books_of(ledger.clone(), guests(), "b/z", units(6), &Limits::default()).exceeded;
    assert!(told.unwrap().to_string().contains("the team has 2000 claims"));
    let kept = books_of(ledger, guests(), "b/z", units(5), &Limits::default());
    assert_eq!(kept, Books { entry: Some(granted(5)), exceeded: None }, "what does not grow is never refused");
}
