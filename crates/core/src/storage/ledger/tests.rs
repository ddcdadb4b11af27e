use super::{super::Amount, *};
use crate::quantity::Quantity;

fn size(size: u64) -> Units {
    Units { size, ..Units::default() }
}

fn at_most(most: u64) -> Limits {
    Limits { team: Bounds { size: Some(most), ..Bounds::default() }, ..Limits::default() }
}

fn form(generation: i64) -> Form {
    Form { uid: "u".into(), generation }
}

fn promise(units: Units) -> Reservation {
    promise_for(1, units)
}

fn promise_for(generation: i64, units: Units) -> Reservation {
    Reservation { units, at: 0, request: "r".into(), form: form(generation) }
}

fn settle(ledger: &mut Ledger, form: &Form, has: Units) {
    settle_with(ledger, form, has, Units::default());
}

fn settle_with(ledger: &mut Ledger, form: &Form, has: Units, stored: Units) {
    let seen = ledger.entries["a/x"].clone();
    let settled = seen.settled(has, stored).unwrap_or(Settled::at(has, stored));
    ledger.settle("a/x", &seen, form, settled).unwrap();
}

#[test]
fn books_that_are_lost_are_made_anew_of_what_is_on_record() {
    let amount = |text: &str| Amount::try_from(text.parse::<Quantity>().unwrap()).unwrap();
    let quota = Quota { size: amount("8"), objects: amount("0"), buckets: 0 };
    let records = [("a/x", Some("u"), Some(quota)), ("a/y", None, Some(quota)), ("a/z", Some("v"), None)];
    let owned = |text: &str| text.to_owned();
    let mut ledger = Ledger::rebuilt(records.map(|(place, uid, granted)| (owned(place), uid.map(owned), granted)));
    assert_eq!(ledger.entries.keys().collect::<Vec<_>>(), ["a/x", "a/y"]);
    assert_eq!(ledger.sum().size, 16);
    ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
    assert!(ledger.entries["a/x"].is_granted_to(&form(1)), "its claim takes it up as it is");
}

#[test]
fn reaching_a_limit_is_allowed_and_passing_it_is_not() {
    let mut ledger = Ledger::default();
    ledger.reserve("a/x", promise(size(6)), &at_most(10)).unwrap();
    let refused = ledger.reserve("b/y", promise(size(5)), &at_most(10)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "exceeded cluster quota: 5 bytes asked for, 4 of the team's 10 left; ask for less, or for a higher limit"
    );
    ledger.reserve("b/y", promise(size(4)), &at_most(10)).unwrap();
    assert_eq!(ledger.sum(), size(10));
}

#[test]
fn a_vault_counts_beside_the_claims_of_its_namespace_and_is_none_of_them() {
    let mut ledger = Ledger::default();
    ledger.reserve(&entry_key("a", "x"), promise(size(6)), &at_most(10)).unwrap();
    let vault = vault_entry_key("a", "x");
    assert_eq!(ledger.confirm(&vault, &form(1), size(5), &at_most(10)).unwrap_err().left, 4);
    ledger.confirm(&vault, &form(1), size(4), &at_most(10)).unwrap();
    assert_eq!((ledger.sum_of("a"), ledger.entries.len()), (size(10), 2));
    assert_eq!(claim_of_entry(&vault).and_then(|(_, name)| vault_of_entry(name)), Some("x"));
    assert_eq!(vault_of_entry("x"), None);
}

#[test]
fn a_namespace_counts_its_own_claims_only() {
    let mut ledger = Ledger::default();
    ledger.reserve("a/x", promise(size(6)), &Limits::default()).unwrap();
    let limits = Limits { namespace: Bounds { size: Some(5), ..Bounds::default() }, ..Limits::default() };
    ledger.reserve("a-b/x", promise(size(5)), &limits).unwrap();
    let refused = ledger.reserve("a/y", promise(size(1)), &limits).unwrap_err();
    assert_eq!((refused.scope, refused.left), (Scope::Namespace, 0));
}

#[test]
fn what_does_not_grow_passes_a_lowered_limit() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(8), &Limits::default()).unwrap();
    assert!(ledger.confirm("a/x", &form(1), size(8), &at_most(5)).is_ok());
    assert!(ledger.confirm("a/x", &form(1), size(7), &at_most(5)).is_ok());
    assert!(ledger.confirm("a/x", &form(1), size(9), &at_most(5)).is_err());
    let other_member = Units { size: 8, objects: 3, buckets: 0 };
    assert!(ledger.confirm("a/x", &form(1), other_member, &at_most(5)).is_ok());
}

#[test]
fn what_is_lowered_is_free_only_when_ceph_has_less() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
    ledger.confirm("a/x", &form(1), size(3), &at_most(10)).unwrap();
    assert!(ledger.reserve("a/y", promise(size(5)), &at_most(10)).is_err());
    settle(&mut ledger, &form(1), size(3));
    assert!(ledger.entries["a/x"].is_settled_at(size(3)));
    assert!(ledger.reserve("a/y", promise(size(7)), &at_most(10)).is_ok());
}

#[test]
fn what_is_stored_beyond_what_was_granted_counts_whatever_the_limits_say_until_it_is_gone() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(3), &at_most(10)).unwrap();
    ledger.confirm("a/y", &form(1), size(4), &at_most(10)).unwrap();
    settle_with(&mut ledger, &form(1), size(3), size(8));
    assert_eq!(ledger.sum(), size(12));
    assert!(ledger.reserve("a/y", promise(size(5)), &at_most(10)).is_err(), "nobody gets more");
    settle(&mut ledger, &form(1), size(3));
    assert!(ledger.reserve("a/y", promise(size(7)), &at_most(10)).is_ok());
}

#[test]
fn what_is_stored_beyond_what_was_granted_is_no_licence_to_be_granted_it() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(3), &at_most(10)).unwrap();
    ledger.confirm("a/y", &form(1), size(7), &at_most(10)).unwrap();
    settle_with(&mut ledger, &form(1), size(3), size(8));
    assert!(ledger.reserve("a/x", promise(size(8)), &at_most(10)).is_err(), "it has no more than the others leave");
    assert!(ledger.confirm("a/x", &form(2), size(8), &at_most(10)).is_err());
    assert!(ledger.reserve("a/x", promise(size(3)), &at_most(10)).is_ok(), "what it was granted it keeps");
    assert!(ledger.reserve("a/x", promise(size(9)), &at_most(16)).is_ok(), "its own does not count against it");
}

#[test]
fn who_gives_back_late_gives_back_nothing_that_was_granted_since() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
    let seen = ledger.entries["a/x"].clone();
    ledger.confirm("a/x", &form(3), size(8), &at_most(10)).unwrap();
    assert_eq!(ledger.settle("a/x", &seen, &form(2), Settled::at(size(3), size(0))), Err(Regranted));
    assert_eq!(ledger.release("a/x", &seen), Err(Regranted));
    assert!(ledger.entries["a/x"].is_settled_at(size(8)), "although it is as much as before");
    let seen = ledger.entries["a/x"].clone();
    ledger.reserve("a/x", promise_for(4, size(9)), &at_most(10)).unwrap();
    ledger.release("a/x", &seen).unwrap();
    assert_eq!(ledger.sum(), size(9), "what is only promised since stays");
    ledger.release("a/y", &seen).unwrap();
}

#[test]
fn a_promise_outlives_the_claim_before_it_and_ends_in_time() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(8), &at_most(10)).unwrap();
    ledger.reserve("a/x", promise(size(8)), &at_most(10)).unwrap();
    let seen = ledger.entries["a/x"].clone();
    ledger.release("a/x", &seen).unwrap();
    assert_eq!(ledger.sum(), size(8));
    ledger.repair("a/x", None, GRACE.as_secs() - 1);
    assert_eq!(ledger.sum(), size(8));
    ledger.repair("a/x", None, GRACE.as_secs());
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn repair_never_promises_more_than_was_promised() {
    let mut ledger = Ledger::default();
    ledger.reserve("a/x", promise(size(4)), &at_most(10)).unwrap();
    ledger.repair("a/x", Some(&Asks { form: form(1), units: size(9) }), GRACE.as_secs());
    assert_eq!(ledger.sum(), size(4));
}

#[test]
fn a_promise_is_kept_until_the_claim_was_seen_as_it_is_for_it() {
    let mut ledger = Ledger::default();
    ledger.reserve("a/x", promise_for(1, size(9)), &at_most(10)).unwrap();
    ledger.reserve("a/x", promise_for(3, size(9)), &at_most(10)).unwrap();
    ledger.confirm("a/x", &form(1), size(9), &at_most(10)).unwrap();
    settle(&mut ledger, &form(2), size(3));
    assert!(ledger.reserve("b/y", promise(size(2)), &at_most(10)).is_err(), "the third form needs it");
    let another = Form { uid: "v".into(), generation: 7 };
    ledger.confirm("a/x", &another, size(3), &at_most(10)).unwrap();
    assert!(ledger.entries["a/x"].pending.is_some(), "another claim of that name knows nothing of it");
    ledger.confirm("a/x", &form(3), size(9), &at_most(10)).unwrap();
    assert!(ledger.entries["a/x"].is_settled_at(size(9)));
}

#[test]
fn a_claim_made_again_confirms_what_it_was_promised_although_one_before_it_was_promised_something() {
    let mut ledger = Ledger::default();
    ledger.reserve("a/x", promise(size(9)), &at_most(10)).unwrap();
    let again = Form { uid: "v".into(), generation: 1 };
    ledger.reserve("a/x", Reservation { form: again.clone(), ..promise(size(9)) }, &at_most(10)).unwrap();
    ledger.confirm("a/x", &again, size(9), &at_most(10)).unwrap();
    assert!(ledger.entries["a/x"].is_settled_at(size(9)));
}

#[test]
fn what_a_request_that_failed_was_promised_is_confirmed_away_once_it_is_old() {
    let mut ledger = Ledger::default();
    ledger.confirm("a/x", &form(1), size(4), &at_most(10)).unwrap();
    ledger.reserve("a/x", promise_for(2, size(9)), &at_most(10)).unwrap();
    ledger.confirm("a/x", &form(1), size(4), &at_most(10)).unwrap();
    assert_eq!(ledger.sum(), size(9), "its request may still be under way");
    ledger.repair("a/x", Some(&Asks { form: form(1), units: size(4) }), GRACE.as_secs());
    assert_eq!(ledger.sum(), size(4));
    assert!(ledger.entries["a/x"].promises(&form(1)), "who confirms it next takes it away");
}

#[test]
fn a_namespace_cannot_fill_the_books_with_claims_for_nothing() {
    let mut ledger = Ledger::default();
    for number in 0..MOST_CLAIMS {
        ledger.reserve(&format!("a/{number}"), promise(size(0)), &Limits::default()).unwrap();
    }
    let refused = ledger.reserve("a/more", promise(size(0)), &Limits::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "exceeded namespace quota: the namespace has 1000 claims, and more cannot be kept count of; delete some that nobody \
         needs, or make this one in another namespace"
    );
    assert!(ledger.confirm("a/more", &form(1), size(0), &Limits::default()).is_err());
    ledger.reserve("a/0", promise(size(1)), &Limits::default()).unwrap();
    ledger.reserve("b/x", promise(size(0)), &Limits::default()).unwrap();
}

#[test]
fn full_books_take_over_nothing_more_than_they_have_and_go_on() {
    let entry = Entry { granted: Some(size(1)), ..Entry::default() };
    let mut ledger = Ledger::default();
    for number in 0..MOST_IN_BOOKS {
        ledger.take_over(&format!("n{number}/x"), &entry).unwrap();
    }
    assert_eq!(ledger.take_over("more/x", &entry), Err(Full));
    assert_eq!(ledger.entries.len(), MOST_IN_BOOKS);
    let more = Entry { granted: Some(size(2)), ..Entry::default() };
    ledger.take_over("n0/x", &more).unwrap();
    assert_eq!(ledger.entries["n0/x"].granted, Some(size(2)), "what has its place there");
    ledger.entries.remove("n0/x");
    ledger.take_over("more/x", &entry).unwrap();
}

#[test]
fn a_team_is_told_that_its_books_are_full_before_the_api_server_refuses_them() {
    let mut ledger = Ledger::default();
    for number in 0..MOST_IN_BOOKS {
        let key = format!("n{}/{number}", number / MOST_CLAIMS);
        ledger.reserve(&key, promise(size(0)), &Limits::default()).unwrap();
    }
    let refused = ledger.reserve("more/x", promise(size(0)), &Limits::default()).unwrap_err();
    assert!(refused.to_string().starts_with("exceeded cluster quota: the team has 2000 claims"), "{refused}");
    assert!(refused.to_string().ends_with("or make this one in a namespace of another team"), "{refused}");
    ledger.reserve("n0/0", promise(size(1)), &Limits::default()).unwrap();
}

#[test]
fn sums_beyond_what_can_be_counted_are_beyond_every_limit() {
    let mut ledger = Ledger::default();
    ledger.reserve("a/x", promise(size(u64::MAX)), &Limits::default()).unwrap();
    ledger.reserve("a/y", promise(size(u64::MAX)), &Limits::default()).unwrap();
    assert!(ledger.reserve("a/z", promise(size(1)), &at_most(u64::MAX - 1)).is_err());
}
