//! Approval: nothing of a tenant's own bucket is in force that nobody approved, whatever happens in between.

use std::collections::BTreeSet;

use croft_core::{
    backup::{
        Victim,
        approval::{
            Before, Decision, Location, Observed, OwnBuckets, Request, RequestStatus, Standing, Step, plan, standing,
            standing_unknown,
        },
        ownership::{Marks, Origin},
        validate,
    },
    plan::{Outcome, Plan},
};
use serde_json::{Map, Value, json};

use crate::{
    EVERYTHING, done,
    explorer::{self, Act, Limits, at_rest, explore, stale},
    fields, object, policy,
    request::Told,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestState {
    decision: Option<bool>,
    awaits_change: bool,
    status: Told<RequestStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Number of the spec asked for.
    location: Option<u8>,
    is_vaults: bool,
    policy: u8,
    request: Option<RequestState>,
    /// Numbers of the specs somebody approved while they were written down, and did not take back.
    trusted: BTreeSet<u8>,
}

const POLICIES: [OwnBuckets; 3] = [OwnBuckets::Approve, OwnBuckets::Allow, OwnBuckets::Deny];

fn spec(number: u8) -> Map<String, Value> {
    fields(json!({ "objectStorage": { "bucket": format!("bucket-{number}") } }))
}

fn number(spec: &Map<String, Value>) -> u8 {
    (0..9).find(|number| *spec == self::spec(*number)).expect("one of ours")
}

fn origin() -> Origin {
    object(true, false, false).origin(None)
}

impl RequestState {
    fn seen(&self) -> Request {
        Request {
            uid: "request".into(),
            version: "1".into(),
            marks: origin().marks(),
            decision: match self.decision {
                Some(true) => Decision::Approve,
                Some(false) => Decision::Reject,
                None => Decision::Pending,
            },
            awaits_change: self.awaits_change,
            status: RequestStatus::clone(&self.status),
        }
    }

    fn requested(&self) -> Option<u8> {
        self.status.location.as_ref().map(|asked| number(&asked.requested_spec))
    }
}

fn decided(decision: Decision) -> Option<bool> {
    match decision {
        Decision::Approve => Some(true),
        Decision::Reject => Some(false),
        Decision::Pending => None,
    }
}

impl World {
    fn new(policy: u8) -> Self {
        Self { location: Some(1), is_vaults: false, policy, request: None, trusted: BTreeSet::new() }
    }

    fn policy(&self) -> OwnBuckets {
        POLICIES[usize::from(self.policy)]
    }

    fn in_force(&self) -> Option<u8> {
        let wanted = spec(self.location?);
        match standing(self.policy(), &wanted, Before::Nothing, self.request.as_ref().map(RequestState::seen).as_ref())
        {
            Standing::InForce { spec, .. } => Some(number(&spec)),
            _ => None,
        }
    }

    /// Only the request exactly as it was seen.
    fn on_request(&mut self, seen: &Observed, change: impl FnOnce(&mut RequestState)) -> Outcome {
        match &mut self.request {
            Some(request) if Some(request.seen()) == seen.request => {
                change(request);
                done()
            }
            _ => stale(),
        }
    }
}

impl explorer::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Observed)> {
        let location = self.location.map(|number| Location {
            spec: spec(number),
            is_acceptable: true,
            is_vaults: self.is_vaults,
            was: Before::Nothing,
        });
        let request = self.request.as_ref().map(RequestState::seen);
        let policy = self.policy();
        // Without a location a request is known by its marks only.
        vec![(
            "request",
            if location.is_some() {
                Observed {
                    origin: Some(origin()),
                    location,
                    policy,
                    policy_is_clear: true,
                    request,
                    of_others: Vec::new(),
                }
            } else {
                let of_others = request.map(|request| (origin(), request)).into_iter().collect();
                Observed { origin: None, location, policy, policy_is_clear: true, request: None, of_others }
            },
        )]
    }

    fn plan(&self, seen: &Observed) -> Plan<Step> {
        plan(seen)
    }

    fn execute(&mut self, seen: &Observed, step: &Step) -> Outcome {
        match step {
            Step::CreateRequest { decision, .. } => {
                if self.request.is_some() {
                    return stale();
                }
                let status = Told::new(RequestStatus::default());
                let decision = decided(*decision);
                self.request = Some(RequestState { decision, awaits_change: false, status });
            }
            Step::Decide { decision, awaits_change, .. } => {
                return self.on_request(seen, |request| {
                    (request.decision, request.awaits_change) = (decided(*decision), *awaits_change);
                });
            }
            Step::WriteStatus { status, .. } => {
                return self.on_request(seen, |request| request.status = Told::new(status.clone()));
            }
            Step::DeleteRequest { .. } => self.request = None,
        }
        done()
    }

    fn report(&mut self, _: &Observed, _: &[(&Step, Outcome)]) {}

    fn others(&self) -> Vec<Act<World>> {
        let mut acts = Vec::new();
        for number in [1, 2] {
            acts.push(Act::new(format!("the tenant asks for {number}"), self, |world| {
                world.location = world.location.map(|_| number);
            }));
        }
        acts.push(Act::new("the tenant deletes it", self, |world| world.location = None));
        if self.request.is_some() {
            let decide = |what: &str, decision: Option<bool>| {
                Act::new(format!("an administrator says {what}"), self, |world| {
                    let Some(request) = &mut world.request else { return };
                    request.decision = decision;
                    if decision == Some(true) {
                        world.trusted.extend(request.requested());
                    } else if !(decision.is_none() && request.awaits_change) {
                        // Where a change waits, a decision nobody has looked at yet is taken back as if it had never been.
                        world.trusted.clear();
                    }
                })
            };
            acts.extend([decide("approve", Some(true)), decide("reject", Some(false))]);
            // A rejection nobody has looked at yet is taken back as if it had never been.
            if self.request.as_ref().is_some_and(|request| request.decision == Some(true)) {
                acts.push(decide("pending", None));
            }
        }
        acts
    }

    fn check(&self) {
        if self.policy() == OwnBuckets::Approve
            && let Some(number) = self.in_force()
        {
            assert!(self.trusted.contains(&number), "{number} is in force and nobody approved it");
        }
        assert!(self.policy() != OwnBuckets::Deny || self.in_force().is_none());
    }

    fn check_rest(&self) {
        let Some(wanted) = self.location else {
            assert_eq!(self.request, None, "a request for nothing");
            return;
        };
        match (self.policy(), &self.request) {
            (OwnBuckets::Deny, _) => {}
            (_, None) => panic!("nobody is asked"),
            (policy, Some(request)) => {
                assert!(request.requested().is_some(), "nobody knows what is asked about");
                match request.decision {
                    Some(true) => {
                        assert_eq!((request.requested(), self.in_force()), (Some(wanted), Some(wanted)));
                    }
                    Some(false) => assert_eq!(self.in_force(), None),
                    None => assert_ne!(policy, OwnBuckets::Allow, "it waits for nobody"),
                }
            }
        }
    }
}

#[test]
fn nothing_is_in_force_that_nobody_approved_whatever_goes_wrong() {
    let limits = Limits { acts: 4, ..EVERYTHING };
    let worlds = explore("approval", (0..3).map(World::new), limits).worlds.len();
    assert!(worlds > 50, "only {worlds} worlds");
}

fn decide(world: &World, decision: Option<bool>) -> World {
    let mut world = at_rest(world);
    let request = world.request.as_mut().expect("asked");
    request.decision = decision;
    world.trusted.extend(request.requested());
    at_rest(&world)
}

#[test]
fn what_was_approved_stays_in_force_until_the_change_is() {
    let approved = decide(&World::new(0), Some(true));
    assert_eq!(approved.in_force(), Some(1));
    let changed = at_rest(&World { location: Some(2), ..approved.clone() });
    assert_eq!((changed.in_force(), changed.request.as_ref().and_then(|it| it.decision)), (Some(1), None));
    assert_eq!(decide(&changed, Some(true)).in_force(), Some(2));
    let back = at_rest(&World { location: Some(1), ..changed.clone() });
    assert_eq!((back.in_force(), back.request.as_ref().and_then(|it| it.decision)), (Some(1), None));
    let decided = decide(&back, Some(true));
    assert_eq!((decided.in_force(), decided.request.as_ref().and_then(RequestState::requested)), (Some(1), Some(1)));
    assert_eq!(decide(&changed, Some(false)).in_force(), None, "a tenant cannot edit her way out of a revocation");
}

#[test]
fn pending_by_a_person_takes_the_approval_back() {
    let approved = decide(&World::new(0), Some(true));
    let revoked = decide(&approved, None);
    assert_eq!(revoked.in_force(), None);
    let edited = at_rest(&World { location: Some(2), ..revoked });
    assert_eq!(edited.in_force(), None);
}

#[test]
fn a_rejection_outlasts_that_everything_was_allowed_for_a_while() {
    let rejected = decide(&World::new(0), Some(false));
    let allowed = at_rest(&World { policy: 1, ..rejected });
    assert_eq!((allowed.in_force(), allowed.request.as_ref().and_then(|it| it.decision)), (None, Some(false)));
    let again = at_rest(&World { policy: 0, ..allowed });
    assert_eq!((again.in_force(), again.request.as_ref().and_then(|it| it.decision)), (None, Some(false)));
}

#[test]
fn what_was_asked_for_a_location_that_had_the_name_before_goes() {
    let approved = decide(&World::new(0), Some(true));
    let before = Origin { nacuuid: "shop-nightly-before".into(), ..origin() };
    let request = approved.request.as_ref().map(RequestState::seen).expect("asked");
    let left = Request { uid: "before".into(), marks: before.marks(), ..request.clone() };
    let (_, mut seen) = explorer::World::observe(&approved).remove(0);
    seen.of_others = vec![(before.clone(), left.clone())];
    let request = Victim { name: before.nacuuid.clone(), uid: "before".into() };
    let gone = Step::DeleteRequest { request, version: None };
    assert_eq!(plan(&seen).groups, [[gone]], "and the one of the new location stays");
    // What only looks like one is somebody else's.
    seen.of_others = vec![(before, Request { marks: Marks::default(), ..left })];
    assert!(plan(&seen).is_settled());
}

#[test]
fn nothing_is_decided_while_nobody_knows_what_the_administrator_wants() {
    let asked = at_rest(&World::new(0));
    for world in [World::new(1), World { policy: 1, ..asked }] {
        let (_, mut seen) = explorer::World::observe(&world).remove(0);
        assert!(!plan(&seen).is_settled(), "approved by itself");
        seen.policy_is_clear = false;
        assert!(plan(&seen).is_settled());
    }
}

#[test]
fn the_request_of_a_vaults_location_goes() {
    let asked = at_rest(&World::new(0));
    assert!(at_rest(&World { is_vaults: true, ..asked }).request.is_none());
}

#[test]
fn what_was_in_force_before_anybody_could_be_asked_stays_so_and_is_noted_as_approved() {
    let stands = |request: Option<&Request>| standing(OwnBuckets::Approve, &spec(1), Before::This, request);
    let (_, mut seen) = explorer::World::observe(&World::new(0)).remove(0);
    seen.location.as_mut().expect("a location").was = Before::This;
    assert_eq!(stands(None), Standing::Grandfathered);
    let made = plan(&seen);
    assert!(matches!(made.iter().next(), Some(Step::CreateRequest { decision: Decision::Approve, .. })), "{made}");

    let unfilled =
        RequestState { decision: Some(true), awaits_change: false, status: Told::new(RequestStatus::default()) };
    assert_eq!(stands(Some(&unfilled.seen())), Standing::Grandfathered, "nobody has written down what is asked for");
    seen.request = Some(unfilled.seen());
    let written = plan(&seen);
    let Some(Step::WriteStatus { status, .. }) = written.iter().next() else { panic!("{written}") };
    let filled = RequestState { status: Told::new(status.clone()), ..unfilled };
    assert_eq!(stands(Some(&filled.seen())), Standing::InForce { spec: spec(1), is_current: true });
    let revoked = RequestState { decision: None, ..filled };
    assert_eq!(stands(Some(&revoked.seen())), Standing::Pending, "it can be taken back like any other");
}

#[test]
fn what_was_edited_before_anybody_could_be_asked_is_asked_for_and_what_velero_has_stays_meanwhile() {
    let stands = |request: Option<&Request>| standing(OwnBuckets::Approve, &spec(2), Before::Another, request);
    let (_, mut seen) = explorer::World::observe(&World::new(0)).remove(0);
    let location = seen.location.as_mut().expect("a location");
    (location.spec, location.was) = (spec(2), Before::Another);
    assert_eq!(stands(None), Standing::GrandfatheredAsItWas);
    let made = plan(&seen);
    assert!(matches!(made.iter().next(), Some(Step::CreateRequest { decision: Decision::Pending, .. })), "{made}");

    let unfilled = RequestState { decision: None, awaits_change: false, status: Told::new(RequestStatus::default()) };
    seen.request = Some(unfilled.seen());
    let written = plan(&seen);
    let Some(Step::WriteStatus { status, .. }) = written.iter().next() else { panic!("{written}") };
    let asked = RequestState { status: Told::new(status.clone()), ..unfilled };
    assert_eq!(asked.requested(), Some(2));
    assert_eq!(stands(Some(&asked.seen())), Standing::GrandfatheredAsItWas, "nobody has decided");
    let approved = RequestState { decision: Some(true), ..asked.clone() };
    assert_eq!(stands(Some(&approved.seen())), Standing::InForce { spec: spec(2), is_current: true });
    let rejected = RequestState { decision: Some(false), ..asked };
    assert_eq!(stands(Some(&rejected.seen())), Standing::Rejected);
    let early = RequestState { decision: Some(true), status: Told::new(RequestStatus::default()), ..rejected };
    assert_eq!(stands(Some(&early.seen())), Standing::GrandfatheredAsItWas, "approved by nobody who had read it");
}

#[test]
fn a_change_of_what_was_there_before_anybody_could_be_asked_is_taken_back_and_leaves_it_in_force() {
    // Another spec is asked for, and nobody has decided about it.
    let asked = at_rest(&World::new(0)).request.expect("asked");
    assert_eq!((asked.requested(), asked.decision), (Some(1), None));
    let stands = |request: Option<&Request>| standing(OwnBuckets::Approve, &spec(2), Before::This, request);
    assert_eq!(stands(Some(&asked.seen())), Standing::Grandfathered);

    let (_, mut seen) = explorer::World::observe(&World::new(0)).remove(0);
    let location = seen.location.as_mut().expect("a location");
    (location.spec, location.was) = (spec(2), Before::This);
    seen.request = Some(asked.seen());
    let steps = plan(&seen);
    let Some(Step::DeleteRequest { version, .. }) = steps.iter().next() else {
        panic!("nobody is to approve it any more: {steps}")
    };
    assert_eq!(version.as_ref(), Some(&asked.seen().version), "or a decision since would be lost");
    seen.request = None;
    let steps = plan(&seen);
    assert!(matches!(steps.iter().next(), Some(Step::CreateRequest { decision: Decision::Approve, .. })), "{steps}");

    let approved = RequestState { decision: Some(true), ..asked.clone() };
    assert_ne!(stands(Some(&approved.seen())), Standing::Grandfathered, "somebody has decided");
    let rejected = RequestState { decision: Some(false), ..asked };
    assert_eq!(stands(Some(&rejected.seen())), Standing::Rejected);
}

#[test]
fn what_was_there_before_anybody_could_be_asked_is_known_by_all_of_it_and_not_by_its_place() {
    let wanted = |change: Value| {
        let mut spec = fields(json!({
            "provider": "aws",
            "objectStorage": { "bucket": "b", "prefix": "deeper" },
            "credential": { "name": "keys", "key": "cloud" },
            "config": { "region": "eu" },
        }));
        spec.extend(fields(change));
        validate::location(&spec, "shop", &policy()).expect("a valid spec")
    };
    let velero = fields(json!({
        "provider": "aws",
        "objectStorage": { "bucket": "b", "prefix": "shop/deeper" },
        "credential": { "name": "copied", "key": "cloud" },
        "config": { "region": "eu" },
    }));
    let was = |velero: &Map<String, Value>, change| Before::of(Some(velero), Some(&wanted(change)), "copied");
    assert_eq!(was(&velero, json!({})), Before::This);
    for (what, change) in [
        ("others' backups are taken in", json!({ "backupSyncPeriod": "1m" })),
        (
            "another server is trusted",
            json!({ "objectStorage": { "bucket": "b", "prefix": "deeper", "caCert": "eA==" } }),
        ),
        ("another key", json!({ "credential": { "name": "keys", "key": "other" } })),
        ("another region", json!({ "config": { "region": "us" } })),
        ("another place", json!({ "objectStorage": { "bucket": "c" } })),
    ] {
        assert_eq!(was(&velero, change), Before::Another, "{what}");
    }
    // Of what was there before, Velero may have looked for others' backups unasked; and we have it stop that.
    let mut synchronised = velero.clone();
    for period in ["1m", "0s"] {
        synchronised.insert("backupSyncPeriod".into(), period.into());
        assert_eq!(was(&synchronised, json!({})), Before::This, "{period}");
        assert_eq!(was(&synchronised, json!({ "backupSyncPeriod": "0s" })), Before::This, "{period}");
        assert_eq!(was(&synchronised, json!({ "backupSyncPeriod": "2m" })), Before::Another, "{period}");
    }
    assert_eq!(Before::of(Some(&velero), None, "copied"), Before::Another, "it is not allowed any more");
    assert_eq!(Before::of(None, Some(&wanted(json!({}))), "copied"), Before::Nothing);
}

#[test]
fn a_request_that_cannot_be_read_approves_nothing() {
    assert_eq!(POLICIES.map(standing_unknown), [Standing::Pending, Standing::Pending, Standing::Denied]);
}

#[test]
fn whoever_denies_own_buckets_ends_what_was_approved_and_whoever_allows_them_again_finds_it() {
    let approved = decide(&World::new(0), Some(true));
    let denied = at_rest(&World { policy: 2, ..approved.clone() });
    assert_eq!((denied.in_force(), &denied.request), (None, &approved.request));
    assert_eq!(at_rest(&World { policy: 0, ..denied }).in_force(), Some(1));
}

#[test]
fn what_a_request_shows_stays_until_somebody_has_decided_about_it() {
    let shown = |world: &World| world.request.as_ref().and_then(RequestState::requested);
    let asked = at_rest(&World::new(0));
    let rethought = at_rest(&World { location: Some(2), ..asked });
    assert_eq!((shown(&rethought), rethought.in_force()), (Some(1), None), "an approver may be reading it");
    let approved = decide(&rethought, Some(true));
    assert_eq!(
        (shown(&approved), approved.in_force()),
        (Some(2), Some(1)),
        "what he read, and the change is asked about"
    );
    let again = at_rest(&World { location: Some(3), ..approved.clone() });
    assert_eq!((shown(&again), again.in_force()), (Some(2), Some(1)));
    for way_back in [1, 3] {
        let flipped = at_rest(&World { location: Some(way_back), ..again.clone() });
        assert_eq!((shown(&flipped), flipped.in_force()), (Some(2), Some(1)));
    }
    let rejected = decide(&World::new(0), Some(false));
    assert_eq!(shown(&at_rest(&World { location: Some(2), ..rejected })), Some(1));
}
