//! Quota, versioning and lifecycle of a bucket: what is asked for is set, what is not is left alone, what was is taken back.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::{
    plan::{Failure, FailureClass, Outcome},
    secret::Secret,
    storage::{
        CephUser, KeyPair, Target, Usage,
        bucket::{
            self, Bindings, Bucket, BucketQuota, Deletion, Found, LifecycleRule, Observed, Owner, PolicySeen, Setting,
            Settings, Spec, State, Status, Step, Versioning,
        },
        claim::UserQuota,
    },
    time::Timestamp,
};

fn rules() -> BTreeMap<String, LifecycleRule> {
    BTreeMap::from([("tmp".to_owned(), LifecycleRule { expiration: Some(7), ..LifecycleRule::default() })])
}

fn everything() -> Settings {
    Settings {
        quota: Some(BucketQuota { size: Some(4096), objects: None }),
        versioning: Some(Versioning::Enabled),
        lifecycle: rules(),
    }
}

/// As a new bucket has it.
fn nothing_set() -> State {
    State {
        policy: PolicySeen::Read { current: Some("ours".into()), wanted: "ours".into() },
        quota: UserQuota::default(),
        usage: Usage::default(),
        versioning: Versioning::Suspended,
        lifecycle: BTreeMap::new(),
    }
}

fn everything_set() -> State {
    State {
        quota: UserQuota { enabled: true, size: Some(4096), objects: None },
        versioning: Versioning::Enabled,
        lifecycle: rules(),
        ..nothing_set()
    }
}

fn all() -> BTreeSet<Setting> {
    [Setting::Quota, Setting::Versioning, Setting::Lifecycle].into()
}

fn seen(settings: Settings, managed: BTreeSet<Setting>, state: State) -> Observed {
    let target = Target { namespace: "a".into(), name: "photos".into(), uid: "u".into(), resource_version: "1".into() };
    let spec = Spec { claim: "data".into(), bindings: Bindings::new(), settings };
    Observed {
        bucket: Some(Bucket {
            target,
            generation: 1,
            deleting: None,
            finalizer: true,
            deletion: Deletion::Delete,
            spec: Ok(spec),
            status: Status { created: true, managed_settings: managed, ..Status::default() },
        }),
        namespace_terminating: false,
        unwanted: false,
        given_up: false,
        held_by: None,
        record: None,
        record_is_anothers: false,
        record_comes: false,
        owner: Owner::Ready {
            user: CephUser { tenant: "lab_a".into(), id: "data".into() },
            key: KeyPair { access_key: "AK".into(), secret_key: Secret::new("hush") },
            found: Found::Ours,
        },
        subusers: BTreeSet::new(),
        state: Some(state),
    }
}

fn plan_of(seen: &Observed) -> String {
    bucket::plan(seen).to_string()
}

fn status_after(seen: &Observed, outcome: impl Fn(&Step) -> Outcome) -> Status {
    let plan = bucket::plan(seen);
    let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome(step))).collect();
    bucket::report(seen, &outcomes, &Timestamp("2026-01-01T00:00:00Z".into())).unwrap()
}

#[test]
fn what_is_asked_for_is_noted_and_then_set() {
    let seen = seen(everything(), BTreeSet::new(), nothing_set());
    assert_eq!(
        plan_of(&seen),
        "note on S3Bucket a/photos which settings it has a say in\n\
         set the quota of bucket photos\n\
         keep the versions of bucket photos\n\
         set 1 lifecycle rules of bucket photos"
    );
    assert_eq!(status_after(&seen, |_| Outcome::done()).managed_settings, all());
    let refused = |step: &Step| match step {
        Step::NoteSettings { .. } => Outcome::done(),
        _ => Outcome::Failed(Failure::new(FailureClass::Rejected, "InvalidArgument", "")),
    };
    assert_eq!(status_after(&seen, refused).managed_settings, all());
}

#[test]
fn what_is_as_asked_for_is_left_alone() {
    assert_eq!(plan_of(&seen(everything(), all(), everything_set())), "nothing to do");
}

#[test]
fn what_drifted_is_put_right() {
    let seen = seen(everything(), all(), nothing_set());
    assert_eq!(
        plan_of(&seen),
        "set the quota of bucket photos\nkeep the versions of bucket photos\nset 1 lifecycle rules of bucket photos"
    );
}

#[test]
fn what_is_no_longer_asked_for_is_taken_back() {
    let seen = seen(Settings::default(), all(), everything_set());
    assert_eq!(
        plan_of(&seen),
        "take the quota off bucket photos\nsuspend the versions of bucket photos\nset 0 lifecycle rules of bucket photos"
    );
    assert_eq!(status_after(&seen, |_| Outcome::done()).managed_settings, BTreeSet::new());
    let failed = |_: &Step| Outcome::Failed(Failure::new(FailureClass::Transient, "GatewayTimeout", ""));
    assert_eq!(status_after(&seen, failed).managed_settings, all(), "forgotten before it was taken back");
}

#[test]
fn what_was_never_asked_for_is_left_as_others_set_it() {
    assert_eq!(plan_of(&seen(Settings::default(), BTreeSet::new(), everything_set())), "nothing to do");
}

#[test]
fn numbers_of_a_quota_that_is_not_enabled_mean_nothing() {
    let state = State { quota: UserQuota { enabled: false, size: Some(5), objects: None }, ..nothing_set() };
    assert_eq!(plan_of(&seen(Settings::default(), all(), state)), "nothing to do");
}

#[test]
fn suspended_versions_need_never_have_been_kept() {
    let asked = Settings { versioning: Some(Versioning::Suspended), ..Settings::default() };
    let managed = BTreeSet::from([Setting::Versioning]);
    assert_eq!(plan_of(&seen(asked.clone(), managed.clone(), nothing_set())), "nothing to do");
    assert_eq!(plan_of(&seen(asked, managed, everything_set())), "suspend the versions of bucket photos");
}

#[test]
fn usage_is_told_when_it_moved_noticeably() {
    let used = |size| Some(Usage { size, objects: 10, buckets: None });
    let told = |before, now: Option<Usage>| {
        let mut seen = seen(Settings::default(), BTreeSet::new(), State { usage: now.unwrap(), ..nothing_set() });
        seen.bucket.as_mut().unwrap().status.used = before;
        status_after(&seen, |_| Outcome::done()).used
    };
    assert_eq!(told(None, used(4096)), used(4096));
    assert_eq!(told(used(1_000_000), used(1_004_096)), used(1_000_000));
    assert_eq!(told(used(1_000_000), used(1_104_096)), used(1_104_096));
}

#[test]
fn a_policy_too_long_for_a_status_is_not_repeated_there() {
    let long = "x".repeat(20 * 1024 + 1);
    let policy = PolicySeen::Read { current: Some(long.clone()), wanted: long };
    let seen = seen(Settings::default(), BTreeSet::new(), State { policy, ..nothing_set() });
    let status = status_after(&seen, |_| Outcome::done());
    assert_eq!(status.policy, None);
    assert!(status.conditions.is_true("Ready"));
}

#[test]
fn what_a_policy_hides_is_neither_set_nor_forgotten() {
    let hidden = State { policy: PolicySeen::Unreadable("denied".into()), ..nothing_set() };
    let asked = seen(everything(), all(), hidden.clone());
    let plan = bucket::plan(&asked);
    assert!(plan.iter().all(|step| matches!(step, Step::SetQuota { .. })), "an administrator sets the quota: {plan}");
    let given_up = seen(Settings::default(), all(), hidden);
    let status = bucket::report(&given_up, &[], &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
    assert_eq!(status.conditions.reason("Ready"), Some("PolicyUnreadable"));
    assert_eq!(status.managed_settings, all(), "they are taken back once they can be seen");
}
