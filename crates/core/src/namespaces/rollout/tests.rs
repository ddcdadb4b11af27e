//! Turns, batches, pauses. What happens to a whole roll-out is explored in `core/tests/rollouts`.

use super::*;
use crate::{
    namespaces::class::{ClassStep, Status as ClassStatus, plan, tell},
    plan::Next,
};

const MINUTE: Duration = Duration::from_secs(60);

fn at(minute: u32) -> Timestamp {
    Timestamp(format!("2026-01-01T00:{minute:02}:00Z"))
}

fn kept(digest: &str, number: i64) -> Kept {
    Kept { digest: digest.into(), number, ..Kept::default() }
}

/// Has the old revision, and nothing is wrong.
fn settled(name: &str, turn: usize) -> Bound {
    Bound {
        name: name.into(),
        ready: true,
        heard: true,
        has: Some("old".into()),
        moved: None,
        turn,
        ..Bound::default()
    }
}

/// Was moved on to the new revision, and has it.
fn through(name: &str) -> Bound {
    let moved = Some(Moved { revision: "new".into(), since: 3, failed_before: false });
    Bound { has: Some("new".into()), moved, updated: true, ..settled(name, 0) }
}

/// A roll-out of `new` in stages that has been let in.
fn rolling(namespaces: Vec<Bound>, wishes: Wishes) -> Observed {
    Observed {
        generation: 7,
        namespaces,
        rollout: Seen {
            newest: Some("new".into()),
            wishes,
            kept: vec![kept("old", 1), kept("new", 2)],
            now: at(0),
            ..Seen::default()
        },
        status: ClassStatus {
            revision: Some("old".into()),
            rollout: Some(Status { revision: "new".into(), staged_since: Some(3), ..Status::default() }),
            ..ClassStatus::default()
        },
        ..Observed::default()
    }
}

fn in_batches(batch: Share) -> Wishes {
    Wishes { batch: Some(batch), ..Wishes::default() }
}

/// Who is moved now.
fn moved(seen: &Observed) -> Vec<String> {
    let plan = plan(seen);
    let moves = plan.iter().filter_map(|step| match step {
        ClassStep::RollOut(RolloutStep::Move { namespace, revision, since, .. }) => {
            assert_eq!((revision.as_str(), *since), ("new", 3));
            Some(namespace.clone())
        }
        _ => None,
    });
    moves.collect()
}

#[test]
fn canaries_go_first_and_alone_and_who_fails_already_goes_last() {
    let canary = BTreeMap::from([("stage".to_owned(), "canary".to_owned())]);
    let order = [canary.clone(), BTreeMap::from([("stage".to_owned(), "early".to_owned())])];
    assert_eq!(turn(&order, &canary), 0);
    assert_eq!(turn(&order, &BTreeMap::new()), 2, "nobody in particular");
    assert_eq!(turn(&[], &canary), 0);

    let failing = Bound { stalled: Some("Conflict".into()), ready: false, ..settled("a-failing", 0) };
    let mut all = vec![failing, settled("z-canary", 0), settled("b", 2), settled("c", 2), settled("d", 2)];
    let wishes = in_batches(Share::Number(2));
    assert_eq!(moved(&rolling(all.clone(), wishes)), ["z-canary"], "a batch is of one turn");
    all[1] = through("z-canary");
    assert_eq!(moved(&rolling(all.clone(), wishes)), ["b", "c"]);
    all[2] = through("b");
    all[3] = through("c");
    assert_eq!(moved(&rolling(all.clone(), wishes)), ["d"]);
    all[4] = through("d");
    assert_eq!(moved(&rolling(all, wishes)), ["a-failing"]);
}

#[test]
fn a_batch_is_a_part_of_all_namespaces_and_at_least_one() {
    let all: Vec<_> = (0..30).map(|number| settled(&format!("n{number:02}"), 0)).collect();
    assert_eq!(moved(&rolling(all.clone(), in_batches(Share::Percent(10)))).len(), 3);
    assert_eq!(moved(&rolling(all.clone(), in_batches(Share::Percent(1)))).len(), 1);
    assert_eq!(moved(&rolling(all.clone(), in_batches(Share::Number(0)))).len(), 1);
    assert_eq!(moved(&rolling(all, in_batches(Share::Number(100)))).len(), 30);
}

#[test]
fn nobody_moves_while_somebody_is_on_the_way() {
    let on_the_way = Bound { heard: false, ..through("a") };
    let mut seen = rolling(vec![on_the_way, settled("b", 0)], in_batches(Share::Number(1)));
    assert!(moved(&seen).is_empty());
    let mut leaving = seen.clone();
    leaving.namespaces[0].leaving = true;
    assert_eq!(moved(&leaving), ["b"], "nobody waits for who leaves");
    seen.namespaces[0].heard = true;
    assert_eq!(moved(&seen), ["b"]);
}

#[test]
fn the_pause_runs_from_the_end_of_a_batch_and_is_on_record() {
    let wishes = Wishes { pause: 10 * MINUTE, ..in_batches(Share::Number(1)) };
    let mut seen = rolling(vec![through("a"), settled("b", 0)], wishes);
    assert!(moved(&seen).is_empty(), "not before the end of the batch is on record");
    let look = |seen: &mut Observed, minute| {
        seen.rollout.now = at(minute);
        let (status, next) =
            tell("web", seen, &mut crate::namespaces::class::Progress::default(), &at(minute), crate::time::Instant(0));
        seen.status = status.unwrap_or_else(|| seen.status.clone());
        (moved(seen), if next == Next::Settled { plan(seen).next } else { next })
    };
    assert_eq!(look(&mut seen, 1), (vec![], Next::After(10 * MINUTE)));
    assert_eq!(look(&mut seen, 4), (vec![], Next::After(7 * MINUTE)));
    assert_eq!(look(&mut seen, 11).0, ["b"]);

    let mut faster = seen.clone();
    faster.namespaces.insert(1, through("a2"));
    faster.namespaces.push(settled("c", 0));
    assert!(look(&mut faster, 12).0.is_empty(), "a batch came and went unseen: its pause begins now");

    seen.rollout.now = at(0);
    assert!(moved(&seen).is_empty(), "a clock that was put back starts the pause anew");
    seen.status.revision = Some("new".into());
    assert_eq!(moved(&seen), [""; 0]);
}

#[test]
fn the_way_back_neither_pauses_nor_stops() {
    let wishes = Wishes { pause: 10 * MINUTE, ..in_batches(Share::Number(1)) };
    let failing = Bound { stalled: Some("Conflict".into()), ready: false, ..settled("always-failing", 0) };
    let mut seen = rolling(vec![failing, through("b"), through("c")], wishes);
    (seen.rollout.newest, seen.rollout.kept) = (Some("old".into()), vec![kept("old", 3), kept("new", 2)]);
    let begun = seen.status.rollout.as_mut().unwrap();
    begun.revision = "old".into();
    for bound in &mut seen.namespaces {
        bound.updated = bound.has.as_deref() == Some("old");
    }
    let judgement = judge(&seen, "old");
    assert_eq!((judgement.phase, judgement.batch.len(), judgement.wait), (Phase::RollingOut, 1, None));
}

#[test]
fn so_many_may_fail_as_the_class_says() {
    let failing =
        |name: &str| Bound { stalled: Some("Conflict".into()), ready: false, has: Some("old".into()), ..through(name) };
    let seen = |stop| {
        let wishes = Wishes { stop_when_failing: stop, ..in_batches(Share::Number(1)) };
        rolling(vec![failing("a"), settled("b", 0), settled("c", 0)], wishes)
    };
    assert!(moved(&seen(None)).is_empty(), "one is too many");
    assert!(moved(&seen(Some(Share::Percent(10)))).is_empty());
    assert_eq!(moved(&seen(Some(Share::Number(2)))), ["b"]);
    assert_eq!(moved(&seen(Some(Share::Percent(50)))), ["b"]);
}

#[test]
fn a_record_of_other_stages_does_not_count() {
    let moved = Moved { revision: "then".into(), since: 2, failed_before: false };
    assert_eq!(in_force(Some("now"), Some(2), Some(&moved)), Some("then"));
    assert_eq!(in_force(Some("now"), Some(5), Some(&moved)), Some("now"));
    assert_eq!(in_force(Some("now"), None, Some(&moved)), Some("now"));
    assert_eq!(in_force(None, None, None), None);
}

#[test]
fn who_was_moved_and_is_not_ready_for_long_fails_unless_it_is_through_or_was_unready_before() {
    let unready =
        |since: u32| Bound { ready: false, has: Some("old".into()), unready_since: Some(at(since)), ..through("a") };
    let seen = |first: Bound| {
        let mut seen = rolling(vec![first, settled("b", 0)], in_batches(Share::Number(1)));
        seen.rollout.now = at(30);
        seen
    };
    let phase = |first: Bound| judge(&seen(first), "new").phase;
    assert_eq!(phase(unready(1)), Phase::Stopped);
    let waiting = seen(unready(25));
    let judgement = judge(&waiting, "new");
    assert_eq!(
        (judgement.phase, judgement.wait),
        (Phase::RollingOut, Some(5 * MINUTE)),
        "looked at when patience ends"
    );
    assert!(moved(&waiting).is_empty());

    let is_through = Bound { has: Some("new".into()), ..unready(1) };
    let mut before = unready(1);
    before.moved.as_mut().unwrap().failed_before = true;
    let stalled_later = Bound { stalled: Some("Contested".into()), ready: false, ..through("a") };
    for harmless in [is_through, before, stalled_later] {
        assert_eq!(moved(&seen(harmless.clone())), ["b"], "{harmless:?}");
    }
}
