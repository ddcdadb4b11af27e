//! What is kept whatever people do: buckets, keys in use, and what is stored in the books.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use croft_core::{
    plan::Next,
    storage::{
        Usage,
        bucket::Note,
        claim::{self, Backend, ClaimIdentity, Inquiry, LISTED, Phase, Purge, PurgeSeen, SetAside},
        ledger::{Entry, Units},
    },
    time::Timestamp,
};

use super::{
    with_a_kept_bucket,
    world::{BUCKET, ClassState, EARLIER, NEW, RecordState, World, quota},
};
use crate::explorer::{Limits, at_rest, explore};

#[test]
fn what_is_made_while_a_migration_ends_is_kept_although_the_class_says_purge() {
    for terminating in [false, true] {
        let mut world = World { terminating, ..at_rest(&World::new(ClassState::Purge)) };
        world.user.as_mut().unwrap().stored = Some(2);
        world.edit(|claim| claim.deleting = true);
        assert!(at_rest(&world).user.is_none(), "whoever deletes the claim himself gives it up");
        world.record.as_mut().unwrap().moved_away = true;
        let left = at_rest(&world);
        let user = left.user.unwrap();
        assert!((user.stored, user.suspended) == (Some(2), true) && left.claim.is_none());
        assert_eq!(left.record.unwrap().phase, Phase::Released);
    }
}

#[test]
fn what_a_class_brought_is_kept_when_its_namespace_goes_whatever_goes_first_and_whoever_can_be_asked() {
    let mut world = World { bound: true, ..at_rest(&World::new(ClassState::Purge)) };
    world.user.as_mut().unwrap().stored = Some(2);
    world.edit(|claim| claim.stamped = true);
    let mut starts = Vec::new();
    for bound in [false, true] {
        for class in [ClassState::Purge, ClassState::Gone, ClassState::Unreachable] {
            let mut dying = World { terminating: true, bound, class, ..world.clone() };
            dying.edit(|claim| claim.deleting = true);
            starts.push(dying.clone());
            let left = at_rest(&dying);
            assert!(left.claim.is_none(), "holds up its namespace");
            let end = at_rest(&World { class: ClassState::Purge, ..left });
            let user = end.user.unwrap();
            assert!((user.stored, user.suspended) == (Some(2), true), "{class:?}, binding there: {bound}");
            assert_eq!(end.record.unwrap().phase, Phase::Released);
        }
    }
    explore("claim, stamped", starts, Limits { acts: 0, faults: true, at_once: 1 });
}

#[test]
fn an_empty_bucket_that_is_to_be_kept_stays_although_the_claim_has_not_heard_of_that_yet() {
    let mut world = at_rest(&World::new(ClassState::Purge));
    world.user.as_mut().unwrap().stored = Some(0);
    world.edit(|claim| claim.deleting = true);
    let seen = world.seen();
    // Its S3Bucket has just gone, and has left a note.
    world.record.as_mut().unwrap().kept = true;
    for step in claim::plan(&seen).iter() {
        if !world.carry_out(&seen, step).is_done() {
            break;
        }
    }
    assert_eq!(world.user.as_ref().unwrap().stored, Some(0));
    let left = at_rest(&world);
    assert!(left.user.unwrap().stored == Some(0) && left.record.unwrap().phase == Phase::Released);
}

#[test]
fn a_bucket_that_is_counted_as_empty_and_will_not_go_holds_up_nobody_and_lets_nobody_in() {
    for (class, left) in [(ClassState::Purge, false), (ClassState::Purge, true), (ClassState::Retain, true)] {
        let mut world = at_rest(&World::new(class));
        let user = world.user.as_mut().unwrap();
        (user.stored, user.miscounted) = (Some(2), true);
        world.record.as_mut().unwrap().left = left;
        let orphan = World { claim: None, ..world.clone() };
        world.edit(|claim| claim.deleting = true);
        for start in [orphan, world] {
            explore("claim", [start.clone()], Limits { acts: 0, faults: true, at_once: 1 });
            let end = at_rest(&start);
            assert!(end.claim.is_none(), "it is gone");
            match (end.user, end.record) {
                (None, None) => assert!(!left, "destroyed what nobody gave up"),
                (Some(user), Some(record)) => {
                    assert!(user.suspended && user.stored == Some(2), "whoever had its keys gets in");
                    assert!(record.phase == Phase::Released && record.kept == left, "it is said what is kept");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_is_released_remembers_only_buckets_that_are_there() {
    let mut seen = with_a_kept_bucket(at_rest(&World::new(ClassState::Retain))).seen();
    let record = seen.record.as_mut().unwrap();
    record.set_aside.kept.insert("gone".to_owned());
    seen.claim.as_mut().unwrap().deleting = true;
    let plan = claim::plan(&seen);
    let kept = plan.iter().find_map(|step| match step {
        claim::Step::MarkRecord { mark, .. } => {
            Some(mark.set_aside.kept.iter().map(String::as_str).collect::<Vec<_>>())
        }
        _ => None,
    });
    assert_eq!(kept, Some(vec![BUCKET]), "{plan}");
}

#[test]
fn a_purge_ends_although_the_users_list_names_a_bucket_that_is_gone() {
    let mut world = at_rest(&World::new(ClassState::Purge));
    let user = world.user.as_mut().unwrap();
    (user.stored, user.suspended) = (Some(2), true);
    world.edit(|claim| claim.deleting = true);
    let mut seen = world.seen();
    let plan = claim::plan(&seen);
    assert!(plan.iter().any(|step| matches!(step, claim::Step::PurgeBucket { .. })), "{plan}");
    let Backend::Reached(reached) = &mut seen.backend else { panic!("no gateway") };
    reached.user.as_mut().unwrap().gone_buckets.insert(BUCKET.to_owned());
    let plan = claim::plan(&seen);
    assert_eq!(
        plan.to_string(),
        "mark S3User team-a.data as Released: BucketsKept\nremove the finalizer from S3UserClaim team-a/data"
    );
    assert_eq!(plan.next, Next::Settled);
    let mark = plan.iter().find_map(|step| match step {
        claim::Step::MarkRecord { mark, .. } => Some(mark),
        _ => None,
    });
    let mark = mark.unwrap();
    assert!(mark.message.contains(BUCKET) && mark.set_aside == SetAside::default(), "{mark:?}");
    // It was asked to just now.
    let purge = Purge { buckets: 1, bucket: BUCKET.to_owned(), objects: 2 };
    let asked = |age| Some(PurgeSeen { purge: purge.clone(), age });
    seen.record.as_mut().unwrap().purge = asked(Duration::ZERO);
    let waits = claim::plan(&seen);
    assert!(waits.is_settled() && waits.next != Next::Settled, "the gateway may be about to say so: {waits}");
    seen.record.as_mut().unwrap().purge = asked(claim::STILL);
    assert_eq!(claim::plan(&seen).to_string(), plan.to_string());
}

#[test]
fn a_purge_is_asked_for_again_only_once_nothing_has_changed_for_long() {
    let mut world = at_rest(&World::new(ClassState::Purge));
    let user = world.user.as_mut().unwrap();
    (user.stored, user.suspended) = (Some(2), true);
    world.edit(|claim| claim.deleting = true);
    let mut seen = world.seen();
    let mut asks = |objects: u64, age: Duration| {
        let purge = Purge { buckets: 1, bucket: BUCKET.to_owned(), objects };
        seen.record.as_mut().unwrap().purge = Some(PurgeSeen { purge, age });
        let plan = claim::plan(&seen);
        assert_ne!(plan.next, Next::Settled, "nobody tells how far the gateway is: {plan}");
        plan.iter().any(|step| matches!(step, claim::Step::PurgeBucket { .. }))
    };
    let nearly = claim::STILL.checked_sub(Duration::from_millis(1)).unwrap();
    assert!(!asks(2, Duration::ZERO) && !asks(2, nearly), "the gateway may be at it");
    assert!(!asks(3, claim::STILL), "it is: they have become fewer");
    assert!(asks(2, claim::STILL), "it is not");
}

#[test]
fn a_record_that_names_another_claim_gives_up_nothing() {
    for class in [ClassState::Purge, ClassState::Unreachable] {
        for terminating in [false, true] {
            let mut world = World { terminating, ..at_rest(&World::new(ClassState::Purge)) };
            world.user.as_mut().unwrap().stored = Some(2);
            world.edit(|claim| claim.deleting = true);
            let mut seen = World { class, ..world }.seen();
            let record = seen.record.as_mut().unwrap();
            record.misnamed = record.body.claim.take().map(|named| ClaimIdentity { name: "other".into(), ..named });
            let plan = claim::plan(&seen);
            let gives_up = |step: &claim::Step| match step {
                claim::Step::MarkRecord { mark, .. } => mark.phase == Phase::Removing,
                claim::Step::PurgeBucket { .. } | claim::Step::RemoveEmptyBucket { .. } => true,
                _ => false,
            };
            assert!(!plan.iter().any(gives_up), "{plan}");
            let goes = plan.iter().any(|step| matches!(step, claim::Step::RemoveFinalizer { .. }));
            assert_eq!(goes, terminating || class == ClassState::Purge, "{plan}");
        }
    }
}

/// Names in their order.
fn numbered(range: Range<usize>) -> BTreeSet<String> {
    range.map(|number| format!("b{number:04}")).collect()
}

#[test]
fn whoever_keeps_buckets_for_ever_has_a_short_record_and_all_of_them() {
    for (note, other) in [(Note::Kept, Note::Left), (Note::Left, Note::Kept)] {
        let mut set_aside = SetAside::default().noted("other", other);
        for name in numbered(0..LISTED + 500) {
            set_aside = set_aside.noted(&name, note);
            assert!(set_aside.kept.len() <= LISTED && set_aside.left.len() <= LISTED, "{name}");
            assert!(set_aside.holds("other") && set_aside.holds(&name));
            assert!(note == Note::Left || set_aside.keeps(&name));
        }
        assert!(set_aside.everything, "more than are listed");
        assert!(numbered(0..LISTED + 500).iter().all(|name| set_aside.holds(name)), "each of them is held");
    }
    let full = numbered(0..LISTED).iter().fold(SetAside::default(), |all, name| all.noted(name, Note::Kept));
    assert!(!full.everything && full.kept.len() == LISTED && !full.holds("other"), "the last one that fits");
    let freed = full.noted("b0000", Note::TakenBack).noted("other", Note::Kept);
    assert!(!freed.everything && freed.keeps("other") && !freed.holds("b0000"), "who comes back makes room");
}

#[test]
fn of_all_that_is_kept_one_that_may_be_empty_is_told_apart_and_what_is_to_stay_stays() {
    let all = SetAside { everything: true, ..SetAside::default() };
    let left = SetAside { left: ["one".to_owned()].into(), ..all.clone() };
    assert!(all.keeps("one") && !left.keeps("one") && left.keeps("other"));
    assert_eq!(left.noted("one", Note::Kept), all);
    assert_eq!(left.noted("one", Note::TakenBack), all);
    assert_eq!(all.noted("one", Note::TakenBack), all, "nothing is listed that could be taken off");
}

#[test]
fn a_user_that_keeps_more_than_is_listed_is_never_purged_and_is_released_with_all_it_has() {
    let mut world = at_rest(&World::new(ClassState::Purge));
    world.record.as_mut().unwrap().everything = true;
    world.edit(|claim| claim.deleting = true);
    let with = |buckets: BTreeSet<String>| {
        let mut seen = world.seen();
        let Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
        reached.user.as_mut().unwrap().buckets =
            (0..).zip(buckets).map(|(objects, name)| (name, objects % 2)).collect();
        let plan = claim::plan(&seen);
        let marks: Vec<_> = plan
            .iter()
            .filter_map(|step| match step {
                claim::Step::MarkRecord { mark, .. } => Some(mark.clone()),
                _ => None,
            })
            .collect();
        let told = plan.to_string();
        assert!(!told.contains("bucket b"), "{told}");
        let [mark] = &marks[..] else { panic!("{told}") };
        assert_eq!(mark.phase, Phase::Released);
        mark.set_aside.clone()
    };
    assert_eq!(with(numbered(0..LISTED)), SetAside { kept: numbered(0..LISTED), ..SetAside::default() });
    assert_eq!(with(numbered(0..LISTED + 1)), SetAside { everything: true, ..SetAside::default() });
}

#[test]
fn a_record_made_anew_keeps_more_than_it_can_list() {
    let mut world = with_a_kept_bucket(at_rest(&World::new(ClassState::Purge)));
    world.record = None;
    let mut seen = world.seen();
    let Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
    reached.user.as_mut().unwrap().buckets = numbered(0..LISTED + 1).into_iter().map(|name| (name, 1)).collect();
    let set_aside = claim::plan(&seen).iter().find_map(|step| match step {
        claim::Step::MarkRecord { mark, .. } => Some(mark.set_aside.clone()),
        _ => None,
    });
    assert_eq!(set_aside, Some(SetAside { everything: true, ..SetAside::default() }));
}

#[test]
fn a_secret_that_others_hung_onto_a_claim_stays() {
    let settled = at_rest(&World::new(ClassState::Retain));
    let mut seen = settled.seen();
    let mut theirs = seen.secrets[0].clone();
    (theirs.target.name, theirs.labelled) = ("theirs".to_owned(), false);
    seen.secrets.push(theirs);
    assert_eq!(claim::plan(&seen).to_string(), "nothing to do");
    seen.secrets.last_mut().unwrap().labelled = true;
    assert_eq!(
        claim::plan(&seen).to_string(),
        "delete Secret team-a/theirs: the claim no longer names it",
        "what we made goes once the claim names it no more"
    );
}

#[test]
fn a_claim_that_stays_after_a_migration_may_be_given_up_again() {
    let mut world = at_rest(&World::new(ClassState::Purge));
    world.record.as_mut().unwrap().moved_away = true;
    assert!(!at_rest(&world).record.unwrap().moved_away);
}

#[test]
fn a_record_made_anew_keeps_what_no_s3_bucket_answers_for() {
    let mut world = with_a_kept_bucket(at_rest(&World::new(ClassState::Purge)));
    world.record = None;
    assert_eq!(
        crate::explorer::plans(&world).concat(),
        "create S3User team-a.data granting 5k bytes, 10 objects, 1 buckets\n\
         mark S3User team-a.data as Bound: Provisioned"
    );
    // The mark is lost on the way: the record is still known to be blank.
    let unmarked = RecordState { claim: Some(NEW), ..RecordState::foreign() };
    for record in [None, Some(unmarked)] {
        let mut world = at_rest(&World { record, ..world.clone() });
        assert!(world.record.as_ref().unwrap().kept);
        world.edit(|claim| claim.deleting = true);
        let left = at_rest(&world);
        assert_eq!(left.user.unwrap().stored, Some(2), "retained, whatever became of its record");
        assert_eq!(left.record.unwrap().phase, Phase::Released);
    }
    let served = at_rest(&World { in_use: true, ..world });
    assert!(!served.record.unwrap().kept, "its S3Bucket answers for it");
}

#[test]
fn what_is_stored_beyond_a_lowered_quota_counts_until_it_is_gone() {
    let world = at_rest(&World { granted: Some(20_000), ..World::new(ClassState::Retain) });
    assert_eq!(world.granted, Some(5000), "nothing is stored");
    let settling = |usage: Option<u64>, quota: u64| {
        let mut seen = World { granted: Some(20_000), ..world.clone() }.seen();
        let Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
        let user = reached.user.as_mut().unwrap();
        user.usage = usage.map(|size| Usage { size, objects: 2, buckets: Some(1) });
        user.quota.size = Some(quota);
        let plan = claim::plan(&seen);
        (plan.to_string(), plan.next)
    };
    let told = |units: &str| format!("give back what S3UserClaim team-a/data had beyond {units}: Ceph has no more");
    assert_eq!(settling(Some(15_000), 5000).0, told("15000 bytes, 10 objects, 1 buckets"));
    assert_eq!(settling(Some(0), 5000).0, told("5000 bytes, 10 objects, 1 buckets"));
    let count_again = Next::After(Duration::from_secs(60));
    assert_eq!(settling(Some(0), 5000).1, count_again, "an upload may be under way");
    let kept = "book 20000 bytes, 10 objects, 1 buckets for S3UserClaim team-a/data as what is stored: Ceph gives it no more than \
                5000 bytes, 10 objects, 1 buckets";
    assert_eq!(settling(Some(20_000), 5000).0, kept, "it has no right to it any more");
    assert_eq!(settling(None, 5000).0, "nothing to do", "nobody knows what is stored");
    let (plan, next) = settling(Some(0), 20_000);
    assert!(plan.starts_with("let Ceph user") && !plan.contains("give back"), "more may be stored meanwhile: {plan}");
    assert_eq!(next, Next::After(Duration::ZERO));
}

#[test]
fn what_an_upload_brings_that_began_under_a_higher_quota_is_booked_with_its_claim_and_without() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    assert_eq!(world.granted, Some(5000));
    world.user.as_mut().unwrap().stored = Some(7);
    let plan = claim::plan(&world.seen()).to_string();
    let booked =
        "book 7000 bytes, 10 objects, 1 buckets for S3UserClaim team-a/data: so much is in Ceph, whoever let it in";
    assert_eq!(plan, booked);
    let mut kept = world.clone();
    world = at_rest(&world);
    assert_eq!((world.granted, world.booked()), (Some(5000), Some(7000)));
    let ready = world.claim.as_ref().unwrap().status.conditions.get("Ready").unwrap();
    assert!(ready.message.ends_with("what is stored beyond that counts until it is removed"), "{}", ready.message);
    world.user.as_mut().unwrap().stored = Some(0);
    assert_eq!(at_rest(&world).booked(), Some(5000), "it is gone");

    kept.user.as_mut().unwrap().stored = Some(2);
    kept.edit(|claim| claim.deleting = true);
    kept = at_rest(&kept);
    assert!(kept.claim.is_none() && kept.booked() == Some(5000));
    kept.user.as_mut().unwrap().stored = Some(7);
    assert_eq!(at_rest(&kept).booked(), Some(7000));
}

#[test]
fn what_is_stored_is_asked_for_where_more_is_booked_than_was_granted() {
    let seen = at_rest(&World::new(ClassState::Retain)).seen();
    let booked = |size| Entry { granted: Some(Units::from(&quota(size))), ..Entry::default() };
    let asked = |entry: &Entry| claim::inquiry(seen.claim.as_ref(), seen.record.as_ref(), Some(entry), Duration::ZERO);
    assert_eq!(asked(&booked(5000)), Inquiry::Nothing);
    assert_eq!(asked(&booked(5001)), Inquiry::Usage { exactly: true }, "by it something is given back");
}

#[test]
fn what_is_booked_beyond_the_quota_is_looked_at_again_until_it_is_known_what_is_stored() {
    let world = at_rest(&World::new(ClassState::Retain));
    let must_retry = |granted: u64, usage: Option<Usage>| {
        let mut seen = World { granted: Some(granted), ..world.clone() }.seen();
        let Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
        reached.user.as_mut().unwrap().usage = usage;
        let status = claim::report(&seen, &[], &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
        let told = &status.conditions.get("Ready").unwrap().message;
        assert_eq!(told.contains("does not tell what is stored"), claim::must_retry(&seen), "{told}");
        claim::must_retry(&seen)
    };
    assert!(must_retry(20_000, None), "the gateway did not tell, or was not asked");
    assert!(!must_retry(20_000, Some(Usage::default())));
    assert!(!must_retry(5000, None));
}

#[test]
fn nothing_is_given_back_while_a_migration_may_still_bring_what_is_stored() {
    let world = at_rest(&World::new(ClassState::Retain));
    let mut seen = World { granted: Some(20_000), ..world }.seen();
    assert!(claim::plan(&seen).to_string().starts_with("give back"));
    let holder = claim::Holder { name: "move".into(), uid: "uid-move".into() };
    (seen.is_held, seen.record.as_mut().unwrap().body.held_by) = (true, Some(holder));
    let plan = claim::plan(&seen);
    assert_eq!((plan.to_string().as_str(), plan.next), ("nothing to do", Next::Settled), "its end is told");
}

#[test]
fn of_too_many_buckets_those_are_looked_into_that_may_go() {
    let set_aside = SetAside { kept: numbered(0..50), left: numbered(1998..2005), everything: false };
    let all = numbered(0..2000);
    let counted: Vec<_> = claim::to_count(&all, &set_aside).map(String::as_str).collect();
    assert_eq!(counted[..3], ["b1998", "b1999", "b0050"]);
    assert_eq!(counted.len(), 10, "and no more than a few");
    let keeps_all = SetAside { everything: true, ..set_aside };
    assert_eq!(claim::to_count(&all, &keeps_all).collect::<Vec<_>>(), ["b1998", "b1999"]);
}

#[test]
fn an_immutable_secret_is_told_with_what_to_do_and_the_key_in_it_works_on() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.edit(|claim| claim.rotate = Some("first"));
    world = crate::explorer::worked(&world, "claim");
    let mut seen = world.seen();
    seen.secrets.iter_mut().for_each(|secret| secret.immutable = true);
    let plan = claim::plan(&seen).to_string();
    assert!(!plan.contains("Secret") && !plan.contains("remove key"), "{plan}");
    let status = claim::report(&seen, &[], &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
    let ready = status.conditions.get("Ready").unwrap();
    assert!(ready.reason == "SecretTaken" && ready.message.contains("delete it"), "{ready:?}");
}

#[test]
fn an_s3_user_that_names_another_claim_is_told_with_whom_it_names() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.record.iter_mut().for_each(|record| (record.claim, record.misnamed) = (Some(EARLIER), true));
    let status = claim::report(&world.seen(), &[], &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
    let ready = status.conditions.get("Ready").unwrap();
    assert_eq!(ready.reason, "RecordTaken");
    assert!(ready.message.contains("S3UserClaim team-a/other with uid uid-earlier"), "{ready:?}");
}

#[test]
fn who_asks_for_new_keys_all_the_time_has_two_keys_at_most_and_the_last_word_counts() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    let first = world.user.as_ref().unwrap().keys.clone();
    for asked in ["one", "two", "three", "four", "five"] {
        world.edit(|claim| claim.rotate = Some(asked));
        world = crate::explorer::worked(&world, "claim");
        let keys = &world.user.as_ref().unwrap().keys;
        assert!(keys.values().all(|keys| keys.len() <= 2), "{asked}: {keys:?}");
    }
    world.edit(|claim| claim.rotate = Some("six"));
    assert_eq!(claim::plan(&world.seen()).next, Next::After(Duration::ZERO), "nobody else says that it is time");
    let settled = at_rest(&world);
    let keys = settled.user.unwrap().keys;
    assert!(keys.values().all(|keys| keys.len() == 1) && keys.values().zip(first.values()).all(|(a, b)| a != b));
    assert_eq!(settled.record.unwrap().rotation.unwrap().0, "six");
}

#[test]
fn new_keys_are_handed_out_before_the_old_ones_go() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    let keys = |world: &World| world.user.as_ref().unwrap().keys.clone();
    let before = keys(&world);
    world.edit(|claim| claim.rotate = Some("first"));
    let plans: Vec<_> = [(); 2]
        .iter()
        .map(|()| {
            let told = crate::explorer::plans(&world).concat();
            world = crate::explorer::worked(&world, "claim");
            told.replace(|character: char| character.is_ascii_digit(), "")
        })
        .collect();
    assert_eq!(
        plans[0],
        "update SUser team-a.data granting k bytes,  objects,  buckets\n\
         add a key to Ceph user lab_team_a$data\nadd a key to Ceph subuser lab_team_a$data:readonly"
    );
    assert_eq!(
        plans[1],
        "update Secret team-a/admin: it does not hold the keys in Ceph\n\
         remove key AK of Ceph user lab_team_a$data: it is handed out to nobody\n\
         update Secret team-a/read: it does not hold the keys in Ceph\n\
         remove key AK of Ceph user lab_team_a$data: it is handed out to nobody"
    );
    let after = keys(&world);
    assert!(after.values().all(|keys| keys.len() == 1) && after.values().zip(before.values()).all(|(a, b)| a != b));
    assert_eq!(crate::explorer::plans(&world), ["nothing to do"], "once");
    assert_eq!(world.claim.unwrap().status.observed_key_rotation.as_deref(), Some("first"));
}
