mod copy;
mod queue;
mod ready;

use std::time::Duration;

use croft_core::{
    backup::{
        Phase, Store, Victim,
        approval::Standing,
        location::{Claim, Copy, Keys, Observed, Status, Step, VeleroLocation, Version, copy_mark, plan, report, twin},
        ownership::Marks,
        validate::SecretKey,
    },
    plan::{Failure, FailureClass, Outcome, Plan},
    time::Timestamp,
};
use serde_json::{Map, Value, json};

use self::queue::Queued;
use crate::{
    EVERYTHING, assert_forward, done,
    explorer::{self, Act, at_rest, explore, stale},
    fields, now, object, policy,
    request::{self, Stored, Told},
    told,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spec {
    Invalid,
    /// Two that are allowed.
    Valid(u8),
}

/// What is under our name in Velero's namespace: the number says of which Secret or spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    Empty,
    Ours(u8),
    Theirs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    stored: Stored<Spec, Told<Status>>,
    /// The tenant's Secret, by version.
    secret: Option<u8>,
    copy: Slot,
    /// Whether an administrator has written something else into the copy.
    copy_is_edited: bool,
    location: Slot,
    backup: bool,
    /// A Velero Backup in the location that Velero has not begun with.
    queued: Option<Queued>,
}

type Look = request::Look<Spec, Told<Status>, Observed>;

fn version(number: u8) -> Version {
    Version { uid: "secret".into(), resource_version: number.to_string() }
}

fn user_spec(spec: Spec) -> Map<String, Value> {
    let credential = json!({ "name": "keys", "key": "cloud" });
    fields(match spec {
        Spec::Invalid => json!({ "default": true }),
        Spec::Valid(number) => json!({
            "provider": "aws",
            "objectStorage": { "bucket": format!("bucket-{number}") },
            "credential": credential,
        }),
    })
}

impl Slot {
    fn uid(self) -> &'static str {
        if self == Slot::Theirs { "theirs" } else { "ours" }
    }

    fn marks(self) -> Marks {
        if self == Slot::Theirs { Marks::default() } else { object(true, false, false).origin(None).marks() }
    }

    fn delete(&mut self, victim: &Victim) -> Outcome {
        if *self == Slot::Empty {
            return done();
        }
        if victim.uid != self.uid() {
            return stale();
        }
        assert_ne!(*self, Slot::Theirs, "deleted what is somebody else's");
        *self = Slot::Empty;
        done()
    }
}

impl World {
    fn new(spec: Spec, secret: Option<u8>, copy: Slot, location: Slot) -> Self {
        World { stored: Stored::new(spec), secret, copy, copy_is_edited: false, location, backup: true, queued: None }
    }

    fn something_of_ours(&self) -> bool {
        matches!(self.copy, Slot::Ours(_)) || matches!(self.location, Slot::Ours(_))
    }

    /// The Secret is read when the step is carried out.
    fn copy_secret(&mut self, source: &SecretKey) -> Outcome {
        assert_eq!((source.name.as_str(), source.key.as_str()), ("keys", "cloud"));
        match self.secret {
            Some(number) => {
                (self.copy, self.copy_is_edited) = (Slot::Ours(number), false);
                let Version { uid, resource_version } = self.copy_version();
                Outcome::Done { uid: Some(uid), witness: Some(resource_version) }
            }
            None => stale(),
        }
    }

    /// No two contents have the same.
    fn copy_version(&self) -> Version {
        let resource_version = match self.copy {
            Slot::Ours(number) if self.copy_is_edited => 10 + number,
            Slot::Ours(number) => number,
            Slot::Empty | Slot::Theirs => 0,
        };
        Version { uid: self.copy.uid().into(), resource_version: resource_version.to_string() }
    }

    fn number_of(spec: &Map<String, Value>) -> u8 {
        assert_eq!(spec["objectStorage"]["prefix"], "shop");
        assert_eq!(spec["credential"]["name"], object(true, false, false).origin(None).nacuuid);
        if spec["objectStorage"]["bucket"] == "bucket-1" { 1 } else { 2 }
    }
}

impl World {
    fn seen(&self) -> Option<Observed> {
        let request = self.stored.request.as_ref()?;
        let copy = (self.copy != Slot::Empty).then(|| Copy {
            version: self.copy_version(),
            marks: self.copy.marks(),
            copy_of: match self.copy {
                Slot::Ours(number) => Some(copy_mark(&version(number), "cloud")),
                Slot::Empty | Slot::Theirs => None,
            },
        });
        let name = object(true, false, false).origin(None).nacuuid;
        let velero = (self.location != Slot::Empty).then(|| VeleroLocation {
            uid: self.location.uid().into(),
            marks: self.location.marks(),
            is_own_bucket: true,
            spec: match self.location {
                Slot::Ours(number) => fields(json!({
                    "provider": "aws",
                    "objectStorage": { "bucket": format!("bucket-{number}"), "prefix": "shop" },
                    "credential": { "name": name, "key": "cloud" },
                    "backupSyncPeriod": "0s",
                })),
                Slot::Empty | Slot::Theirs => Map::new(),
            },
            status: fields(json!({ "phase": if self.location == Slot::Theirs { "Foreign" } else { "Available" } })),
        });
        Some(Observed {
            object: object(request.finalizer, request.deleting, false),
            spec: user_spec(request.asked),
            is_readable: true,
            status: Status::clone(&request.status),
            secret: self.secret.map(version),
            keys: Keys::Unread,
            copy,
            rest: Duration::ZERO,
            velero,
            answer: None,
            twin: None,
            backups: self
                .backup
                .then(|| Victim { name: "nightly".into(), uid: "nightly".into() })
                .into_iter()
                .collect(),
            may_move: true,
            let_go: Vec::new(),
            standing: Standing::Grandfathered,
            missing_fences: Vec::new(),
            taken_in: 0,
            in_queue: self.queued.map(Queued::seen).into_iter().collect(),
        })
    }
}

impl explorer::World for World {
    type Seen = Look;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Look)> {
        self.stored.look("location", self.seen())
    }

    fn plan(&self, look: &Look) -> Plan<Step> {
        plan(&look.observed, &policy())
    }

    fn execute(&mut self, look: &Look, step: &Step) -> Outcome {
        let is_held = look.request.finalizer;
        match step {
            Step::AddFinalizer { .. } => return self.stored.add_finalizer(&look.request),
            Step::CreateSecret { .. } if self.copy != Slot::Empty => return stale(),
            Step::UpdateSecret { uid, .. } if self.copy == Slot::Empty || self.copy.uid() != uid => return stale(),
            Step::CreateSecret { source, .. } | Step::UpdateSecret { source, .. } => {
                assert!(is_held, "copied a Secret that nothing holds");
                return self.copy_secret(source);
            }
            Step::CreateLocation { .. } if self.location != Slot::Empty => return stale(),
            Step::UpdateLocation { uid, .. } if self.location == Slot::Empty || self.location.uid() != uid => {
                return stale();
            }
            Step::CreateLocation { spec, .. } | Step::UpdateLocation { spec, .. } => {
                assert!(is_held, "made a location that nothing holds");
                self.location = Slot::Ours(Self::number_of(spec));
            }
            Step::TakeFromQueue { backup, version } => return self.take_from_queue(backup, version),
            Step::DeleteSecret(victim) => {
                let outcome = self.copy.delete(victim);
                self.copy_is_edited &= self.copy != Slot::Empty;
                return outcome;
            }
            Step::DeleteLocation(victim) => {
                let outcome = self.location.delete(victim);
                let was_seen = !look.observed.in_queue.is_empty();
                assert!(outcome != done() || self.queued.is_none() || !was_seen, "it fails when its turn comes");
                return outcome;
            }
            Step::DeleteBackup(_) => {
                assert!(look.request.deleting, "deleted a backup unasked");
                self.backup = false;
            }
            Step::ForgetLetGo { .. } => panic!("nothing was let go"),
            Step::ReleaseFinalizer { .. } => {
                let left = self.something_of_ours();
                return self.stored.release_finalizer(&look.request, left);
            }
        }
        done()
    }

    fn report(&mut self, look: &Look, outcomes: &[(&Step, Outcome)]) {
        self.stored.write_status(report(&look.observed, &policy(), outcomes, &now()));
    }

    fn others(&self) -> Vec<Act<World>> {
        let mut acts = vec![
            Act::new("the Secret goes", self, |world| world.secret = None),
            Act::new("the Secret becomes version 1", self, |world| world.secret = Some(1)),
            Act::new("the Secret becomes version 2", self, |world| world.secret = Some(2)),
            Act::new("somebody takes the name of the copy", self, |world| {
                (world.copy, world.copy_is_edited) = (Slot::Theirs, false);
            }),
            Act::new("somebody takes the name of the location", self, |world| world.location = Slot::Theirs),
        ];
        for (what, spec) in [("wrong", Spec::Invalid), ("spec 1", Spec::Valid(1)), ("spec 2", Spec::Valid(2))] {
            acts.push(Act::new(format!("the user makes it {what}"), self, |world| {
                world.stored.edit(|request| request.asked = spec);
            }));
        }
        acts.extend(self.stored.acts(self, |world| &mut world.stored));
        acts.push(Act::new("an administrator deletes the copy", self, |world| {
            (world.copy, world.copy_is_edited) = (Slot::Empty, false);
        }));
        acts.push(Act::new("an administrator deletes the location", self, |world| world.location = Slot::Empty));
        if let Slot::Ours(_) = self.location {
            acts.push(Act::new("an administrator edits the location", self, |world| world.location = Slot::Ours(2)));
        }
        if let Slot::Ours(_) = self.copy {
            acts.push(Act::new("an administrator edits the copy", self, |world| world.copy_is_edited = true));
        }
        acts.extend(self.queue_moves());
        acts
    }

    fn check(&self) {
        let Some(request) = &self.stored.request else {
            assert!(!self.something_of_ours() || self.stored.let_go_by_hand, "left something behind");
            return;
        };
        let reference = request.status.velero_backup_storage_location.as_ref();
        let copied = reference.and_then(|reference| reference.status.as_ref());
        assert!(copied.is_none_or(|status| status["phase"] != "Foreign"), "read somebody else's location");
        let is_held = request.finalizer || self.stored.let_go_by_hand;
        assert!(!self.something_of_ours() || is_held, "Velero objects that nothing holds");
    }

    fn check_ours(&self, before: &World) {
        if let (Some(before), Some(after)) = (&before.stored.request, &self.stored.request) {
            assert_forward(before.status.phase, after.status.phase);
        }
        for (before, after) in [(before.copy, self.copy), (before.location, self.location)] {
            assert!(before != Slot::Theirs || after == before, "touched what is somebody else's");
        }
    }

    fn check_rest(&self) {
        let Some(request) = &self.stored.request else { return };
        if request.deleting {
            assert_eq!(self.queued, Some(Queued::Next), "a request that never goes");
            return;
        }
        let (status, conditions) = (&request.status, &request.status.conditions);
        match (request.asked, self.secret) {
            (Spec::Invalid, _) | (_, None) => {
                assert!(!conditions.is_true("Accepted") && status.phase >= Some(Phase::BackingOff));
            }
            (Spec::Valid(_), Some(secret)) => {
                assert!(request.finalizer && conditions.is_true("Accepted"));
                if self.copy == Slot::Theirs {
                    assert_eq!(conditions.reason("SecretSynced"), Some("SecretSyncFailed"));
                } else {
                    assert_eq!(self.copy, Slot::Ours(secret), "a stale copy");
                    assert!(!self.copy_is_edited, "not our copy");
                    assert!(conditions.is_true("SecretSynced"));
                    self.check_location_at_rest(request);
                }
            }
        }
    }
}

impl World {
    fn check_location_at_rest(&self, request: &request::Request<Spec, Told<Status>>) {
        let conditions = &request.status.conditions;
        match (request.asked, self.location) {
            (_, Slot::Theirs) => {
                assert_eq!(conditions.reason("BackupStorageLocationSynced"), Some("BackupStorageLocationSyncError"));
            }
            (Spec::Valid(number), location) => {
                assert_eq!(location, Slot::Ours(number), "a stale location");
                assert!(conditions.is_true("BackupStorageLocationSynced"));
                assert_eq!(request.status.phase, Some(Phase::Created));
            }
            (Spec::Invalid, _) => {}
        }
    }
}

#[test]
fn every_location_keeps_its_promises_whatever_goes_wrong() {
    let mut starts = Vec::new();
    for copy in [Slot::Empty, Slot::Theirs] {
        for location in [Slot::Empty, Slot::Theirs] {
            starts.push(World::new(Spec::Valid(1), None, copy, location));
        }
    }
    let worlds = explore("location", starts, EVERYTHING).worlds.len();
    assert!(worlds > 1_000, "only {worlds} worlds");
}

#[test]
fn a_location_waits_for_its_secret_and_then_goes_on_by_itself() {
    let waiting = at_rest(&World::new(Spec::Valid(1), None, Slot::Empty, Slot::Empty));
    let status = &waiting.stored.request.as_ref().expect("there").status;
    assert_eq!(status.phase, Some(Phase::BackingOff));
    assert_eq!(
        status.conditions.get("Accepted").map(|condition| condition.message.as_str()),
        Some(r#"BSL credentials secret not found: secrets "keys" not found"#)
    );
    let made = at_rest(&World { secret: Some(1), ..waiting });
    let status = &made.stored.request.as_ref().expect("there").status;
    assert_eq!(status.phase, Some(Phase::Created));
    assert_eq!(
        told(&status.conditions),
        [
            "Accepted=True BslSpecValidation",
            "SecretSynced=True SecretCreated",
            "BackupStorageLocationSynced=True BackupStorageLocationCreated",
        ]
    );
}

#[test]
fn keys_that_are_none_are_said_and_what_velero_has_stays() {
    let made = at_rest(&World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty));
    let mut seen = made.seen().expect("there");
    assert_eq!(seen.unread(&policy()), None, "the copy is up to date");
    seen.secret = Some(version(2));
    assert!(seen.unread(&policy()).is_some_and(|unread| unread.source.key == "cloud" && unread.is_s3));
    seen.keys = Keys::Refused("found role_arn".into());
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    let accepted = status.conditions.get("Accepted").expect("told");
    assert_eq!((accepted.reason.as_str(), accepted.message.as_str()), ("BslSpecValidation", "found role_arn"));
    seen.keys = Keys::Fine;
    assert_eq!(plan(&seen, &policy()).iter().count(), 1);
}

#[test]
fn a_failed_copy_says_why_and_clears_when_it_works() {
    let mut world = World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty);
    world.stored.edit(|request| request.finalizer = true);
    let mut seen = world.seen().expect("there");
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    let plan = plan(&seen, &policy());
    let failure = Failure::new(FailureClass::Rejected, "KeyMissing", "Secret keys has no key cloud");
    let mut outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::NotRun)).collect();
    outcomes[0].1 = Outcome::Failed(failure);
    seen.status = report(&seen, &policy(), &outcomes, &now()).expect("a status");
    let condition = seen.status.conditions.get("SecretSynced").expect("told");
    assert_eq!(condition.reason, "SecretSyncFailed");
    assert_eq!(condition.message, "Failed to sync secret to OADP namespace: Secret keys has no key cloud");
    assert_eq!(seen.status.conditions.get("BackupStorageLocationSynced"), None);

    let outcomes: Vec<_> = plan.iter().map(|step| (step, done())).collect();
    let status = report(&seen, &policy(), &outcomes, &now()).expect("a status");
    assert!(status.conditions.is_true("SecretSynced") && status.conditions.is_true("BackupStorageLocationSynced"));
}

#[test]
fn a_location_with_backups_moves_only_when_that_is_confirmed() {
    let made = at_rest(&World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty));
    let mut seen = made.seen().expect("there");
    (seen.spec, seen.may_move) = (user_spec(Spec::Valid(2)), false);
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(status.phase, Some(Phase::Created));
    let accepted = status.conditions.get("Accepted").expect("told");
    assert!(
        accepted.message.contains("1 backups") && accepted.message.contains("croft.dev/confirm-move"),
        "{accepted:?}"
    );
    seen.may_move = true;
    assert_eq!(plan(&seen, &policy()).iter().count(), 1);
    (seen.may_move, seen.backups) = (false, Vec::new());
    assert_eq!(plan(&seen, &policy()).iter().count(), 1, "nothing would vanish");
}

#[test]
fn two_locations_never_share_a_place() {
    let mut seen = World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty).seen().expect("there");
    seen.twin = Some("other".into());
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(status.phase, Some(Phase::BackingOff));
    assert!(status.conditions.get("Accepted").is_some_and(|condition| condition.message.contains("other")));
}

#[test]
fn a_place_belongs_to_who_stores_there_and_then_to_who_came_first() {
    let place = |bucket: &str| Some(Store::of(&fields(json!({ "objectStorage": { "bucket": bucket } }))));
    let claim = |name: &str, created: &str, wanted: &str, in_force: Option<&str>| Claim {
        name: name.into(),
        uid: name.into(),
        created: Timestamp(created.into()),
        wanted: place(wanted),
        in_force: in_force.and_then(place),
    };
    let (old, young) = (claim("old", "1", "b", None), claim("young", "2", "b", None));
    assert_eq!(twin(&young, [&old, &young]), Some("old"));
    assert_eq!(twin(&old, [&old, &young]), None);

    let settled = claim("young", "2", "b", Some("b"));
    assert_eq!(twin(&old, [&old, &settled]), Some("young"), "an edit does not push others out");
    assert_eq!(twin(&settled, [&old, &settled]), None);

    let moving_out = claim("old", "1", "c", Some("b"));
    assert_eq!(twin(&young, [&moving_out, &young]), Some("old"), "the place is not free yet");
    let elsewhere = claim("old", "1", "c", Some("c"));
    assert_eq!(twin(&young, [&elsewhere, &young]), None);
}

#[test]
fn velero_looking_again_is_no_news() {
    let made = at_rest(&World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty));
    let mut seen = made.seen().expect("there");
    let mut told = |status: Value| {
        seen.velero.as_mut().expect("made").status = fields(status);
        let reference = report(&seen, &policy(), &[], &now()).and_then(|status| status.velero_backup_storage_location);
        Value::Object(reference.and_then(|reference| reference.status).expect("copied"))
    };
    assert_eq!(told(json!({ "phase": "Available", "lastValidationTime": "later" })), json!({ "phase": "Available" }));
    let changed = json!({ "phase": "Unavailable", "lastValidationTime": "later" });
    assert_eq!(told(changed.clone()), changed);
}

#[test]
fn the_number_of_a_refused_request_is_no_news() {
    let made = at_rest(&World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty));
    let refused = |number: u8, code: u16| {
        let message = format!("https response error StatusCode: {code}, RequestID: tx{number}, HostID: , api error");
        fields(json!({ "phase": "Unavailable", "message": message }))
    };
    let mut seen = made.seen().expect("there");
    seen.status.velero_backup_storage_location.as_mut().expect("on record").status = Some(refused(1, 403));
    let mut told = |status: Map<String, Value>| {
        seen.velero.as_mut().expect("made").status = status;
        let reference = report(&seen, &policy(), &[], &now()).and_then(|status| status.velero_backup_storage_location);
        reference.and_then(|reference| reference.status).expect("copied")
    };
    assert_eq!(told(refused(2, 403)), refused(1, 403));
    assert_eq!(told(refused(2, 404)), refused(2, 404));
}
