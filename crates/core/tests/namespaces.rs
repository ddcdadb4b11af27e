//! Labels, bindings and stamped objects: every small world converges, also with a crash after every step and with the reply
//! of every step lost, and nothing foreign is ever touched.

use std::collections::BTreeMap;

use croft_core::{
    namespaces::{
        binding::{self, BindingStep},
        manifest::{Identity, Item, digest, parse_all},
        resources::{self, Class, ClassSeen, KindSeen, Live, ResourceStep, State, Status},
    },
    plan::{Failure, FailureClass, Outcome},
    time::Timestamp,
};
use serde_json::json;

const NAMESPACE: &str = "team-a";

#[derive(Clone, Debug, PartialEq)]
struct Object {
    uid: String,
    owner: Option<String>,
    digest: String,
}

#[derive(Clone, Debug, PartialEq)]
struct BoundTo {
    uid: String,
    class: String,
    version: u32,
    status: Status,
}

/// One namespace, two classes that share an object, and whatever is in the namespace.
#[derive(Clone, Debug, PartialEq)]
struct World {
    label: Option<&'static str>,
    classes: BTreeMap<&'static str, Vec<Item>>,
    binding: Option<BoundTo>,
    objects: BTreeMap<Identity, Object>,
    made: u32,
}

fn config_map(name: &str) -> Item {
    let raw = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": name}});
    Item::parse(raw.as_object().unwrap()).unwrap()
}

fn class_items(name: &str) -> Vec<Item> {
    let names: &[&str] = if name == "web" { &["shared", "web-only"] } else { &["shared", "db-only"] };
    names.iter().map(|name| config_map(name)).collect()
}

impl World {
    fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    fn see_binding(&self) -> binding::Observed {
        binding::Observed {
            namespace: binding::Namespace {
                name: NAMESPACE.into(),
                uid: "ns".into(),
                terminating: false,
                system: false,
                label: self.label.map(str::to_owned),
            },
            binding: self.binding.as_ref().map(|bound| binding::Binding {
                uid: bound.uid.clone(),
                version: bound.version.to_string(),
                class: bound.class.clone(),
                deleting: false,
            }),
            wanted_class: self.label.filter(|label| self.classes.contains_key(label)).map(str::to_owned),
        }
    }

    fn see_resources(&self) -> Option<resources::Observed> {
        let bound = self.binding.as_ref()?;
        let class = self.classes.get(bound.class.as_str()).map_or(ClassSeen::Gone, |items| {
            ClassSeen::Present(Class {
                name: bound.class.clone(),
                uid: format!("class-{}", bound.class),
                generation: 1,
                items: items.clone(),
                problems: Vec::new(),
            })
        });
        let mut seen = resources::Observed {
            namespace: NAMESPACE.into(),
            terminating: false,
            unlabelled: self.label.is_none(),
            unknown_class: None,
            binding: resources::Binding {
                uid: bound.uid.clone(),
                generation: 1,
                class: bound.class.clone(),
                deleting: false,
                status: bound.status.clone(),
            },
            class,
            kinds: [(("v1".into(), "ConfigMap".into()), KindSeen::Namespaced)].into(),
            live: BTreeMap::new(),
        };
        for (_, identity) in seen.to_read() {
            if let Some(object) = self.objects.get(&identity) {
                let ours = object.owner.as_deref() == Some(&bound.uid);
                seen.live.insert(identity, Live { uid: object.uid.clone(), ours });
            }
        }
        Some(seen)
    }

    /// What the API server does with a step; preconditions included.
    fn do_binding(&mut self, step: &BindingStep) -> Option<String> {
        match step {
            BindingStep::CreateBinding { class, .. } => {
                if self.binding.is_some() {
                    return None;
                }
                let uid = self.uid();
                self.binding = Some(BoundTo { uid, class: class.clone(), version: 1, status: Status::default() });
            }
            BindingStep::Rebind { uid, version, to, .. } => {
                let bound = self.binding.as_mut().filter(|b| b.uid == *uid && b.version.to_string() == *version)?;
                bound.class.clone_from(to);
                bound.version += 1;
            }
        }
        Some(String::new())
    }

    fn do_resource(&mut self, step: &ResourceStep) -> Option<String> {
        match step {
            ResourceStep::DeleteBinding { uid, .. } => {
                if self.binding.as_ref().is_some_and(|bound| bound.uid == *uid) {
                    assert!(self.objects.values().all(|object| object.owner.as_ref() != Some(uid)), "left to the collector");
                    self.binding = None;
                }
                Some(String::new())
            }
            ResourceStep::RecordIntent { status } => {
                self.binding.as_mut()?.status = (**status).clone();
                Some(String::new())
            }
            ResourceStep::Apply { identity, manifest, .. } => {
                let owner = manifest["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned);
                let fresh = self.uid();
                let object = self.objects.entry(identity.clone()).or_insert(Object { uid: fresh, owner: None, digest: String::new() });
                object.owner = owner;
                object.digest = digest(manifest);
                Some(object.uid.clone())
            }
            ResourceStep::Prune { identity, uid, .. } => {
                if self.objects.get(identity).is_some_and(|object| object.uid == *uid) {
                    self.objects.remove(identity);
                }
                Some(String::new())
            }
        }
    }

    /// Runs both reconcilers once; stops for good after `steps_left` steps, as a crash would. With `lose_replies` the steps
    /// are carried out but reported as failed. Returns the number of steps run.
    fn round(&mut self, steps_left: &mut usize, lose_replies: bool, now: &Timestamp) -> usize {
        let mut ran = 0;
        for step in binding::plan(&self.see_binding()).iter() {
            if *steps_left == 0 {
                return ran;
            }
            *steps_left -= 1;
            ran += 1;
            self.do_binding(step);
        }
        let Some(seen) = self.see_resources() else { return ran };
        let plan = resources::plan(&seen);
        let mut outcomes = Vec::new();
        for step in plan.iter() {
            if *steps_left == 0 {
                return ran;
            }
            *steps_left -= 1;
            ran += 1;
            outcomes.push(match self.do_resource(step) {
                Some(_) if lose_replies => (step, Outcome::Failed(lost())),
                Some(uid) => (step, Outcome::Done { uid: Some(uid) }),
                None => (step, Outcome::Failed(lost())),
            });
        }
        let status = resources::report(&seen, &outcomes, now);
        if let Some(bound) = self.binding.as_mut().filter(|bound| bound.uid == seen.binding.uid && bound.status != status) {
            if *steps_left == 0 {
                return ran;
            }
            *steps_left -= 1;
            ran += 1;
            bound.status = status;
        }
        ran
    }

    fn settle(&mut self, now: &Timestamp) {
        for _ in 0..12 {
            if self.round(&mut usize::MAX.clone(), false, now) == 0 {
                return;
            }
        }
        panic!("never settles: {self:#?}");
    }

    fn ours(&self) -> Vec<&str> {
        self.objects.iter().filter(|(_, object)| object.owner.is_some()).map(|(identity, _)| identity.name.as_str()).collect()
    }
}

fn lost() -> Failure {
    Failure::new(FailureClass::Transient, "TimedOut", "no reply")
}

fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

const FOREIGN: [&str; 3] = ["shared", "web-only", "unrelated"];

/// Every start: what was bound before, the label now, which classes exist, and which names a stranger has taken.
fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for before in [None, Some("web"), Some("db")] {
        for label in [None, Some(""), Some("web"), Some("db"), Some("typo")] {
            for present in [vec!["web", "db"], vec!["web"], vec!["db"], vec![]] {
                for taken in 0..1 << FOREIGN.len() {
                    worlds.push(world(before, label, &present, taken));
                }
            }
        }
    }
    worlds
}

fn world(before: Option<&'static str>, label: Option<&'static str>, present: &[&'static str], taken: usize) -> World {
    let mut world = World {
        label: before,
        classes: ["web", "db"].map(|name| (name, class_items(name))).into(),
        binding: None,
        objects: BTreeMap::new(),
        made: 0,
    };
    for (bit, name) in FOREIGN.iter().enumerate() {
        if taken & (1 << bit) != 0 {
            let uid = world.uid();
            world.objects.insert(config_map(name).identity, Object { uid, owner: None, digest: "foreign".into() });
        }
    }
    world.settle(&now());
    world.label = label;
    world.classes.retain(|name, _| present.contains(name));
    world
}

/// What must be there in the end.
fn check_end(world: &World, start: &World) {
    let foreign = |world: &World| world.objects.iter().filter(|(_, o)| o.owner.is_none()).map(|(i, o)| (i.clone(), o.clone())).collect::<Vec<_>>();
    assert_eq!(foreign(world), foreign(start), "a foreign object was touched");
    let class = match (start.label, &start.binding) {
        (None, _) => None,
        (Some(label), _) if world.classes.contains_key(label) => Some(label),
        // Unknown or unclear: what was bound stays, unless its class is gone.
        (Some(_), Some(bound)) => world.classes.keys().find(|name| **name == bound.class).copied(),
        (Some(_), None) => None,
    };
    let mut wanted: Vec<String> = class
        .map(|class| class_items(class).into_iter().filter(|item| start.objects.get(&item.identity).is_none_or(|o| o.owner.is_some())).map(|item| item.identity.name).collect())
        .unwrap_or_default();
    let blocked = class.is_some_and(|class| class_items(class).len() > wanted.len());
    wanted.sort();
    if blocked {
        // Make before break: with a conflict in the way, old objects may stay, but nothing wanted is missing.
        assert!(wanted.iter().all(|name| world.ours().contains(&name.as_str())), "{world:#?}");
    } else {
        assert_eq!(world.ours(), wanted, "from {start:#?} to {world:#?}");
    }
    assert_eq!(world.binding.as_ref().map(|bound| bound.class.as_str()), class);
}

#[test]
fn every_small_world_converges_and_then_rests() {
    let worlds = worlds();
    assert_eq!(worlds.len(), 3 * 5 * 4 * 8);
    for start in worlds {
        let mut world = start.clone();
        world.settle(&now());
        check_end(&world, &start);
        let rested = world.clone();
        world.round(&mut usize::MAX.clone(), false, &Timestamp("2026-01-02T00:00:00Z".into()));
        assert_eq!(world, rested, "writes in steady state");
    }
}

#[test]
fn a_crash_after_any_step_changes_nothing_about_the_end() {
    for start in worlds() {
        for crash_after in 0..12 {
            let mut world = start.clone();
            let mut left = crash_after;
            world.round(&mut left, false, &now());
            world.settle(&now());
            check_end(&world, &start);
        }
    }
}

#[test]
fn losing_every_reply_changes_nothing_about_the_end() {
    for start in worlds() {
        for crash_after in 0..12 {
            let mut world = start.clone();
            world.round(&mut crash_after.clone(), true, &now());
            world.settle(&now());
            check_end(&world, &start);
        }
    }
}

#[test]
fn an_object_shared_by_two_classes_survives_the_switch() {
    let mut world = world(Some("web"), Some("db"), &["web", "db"], 0);
    let shared = config_map("shared").identity;
    let before = world.objects[&shared].uid.clone();
    world.settle(&now());
    assert_eq!(world.objects[&shared].uid, before);
    assert_eq!(world.ours(), ["db-only", "shared"]);
}

#[test]
fn old_objects_go_only_when_all_new_ones_stand() {
    let start = world(Some("web"), Some("db"), &["web", "db"], 0);
    let mut world = start.clone();
    world.do_binding(binding::plan(&world.see_binding()).iter().next().unwrap());
    let plan = resources::plan(&world.see_resources().unwrap());
    let kinds: Vec<_> = plan.groups.iter().map(|group| croft_core::plan::Step::kind(&group[0])).collect();
    assert_eq!(kinds, ["RecordIntent", "Apply", "Prune"]);
}

#[test]
fn a_conflict_is_reported_with_the_name_and_the_others_are_applied() {
    let mut world = world(None, Some("web"), &["web"], 1);
    world.settle(&now());
    let status = &world.binding.as_ref().unwrap().status;
    assert_eq!(status.conditions.reason("Ready"), Some("Conflict"));
    let states: Vec<_> = status.applied_resources.iter().map(|applied| (applied.name.as_str(), applied.state)).collect();
    assert_eq!(states, [("shared", State::Conflict), ("web-only", State::Applied)]);
}

#[test]
fn a_bad_class_changes_nothing_anywhere() {
    let mut world = world(Some("web"), Some("web"), &["web"], 0);
    let before = world.objects.clone();
    let mut seen = world.see_resources().unwrap();
    let raw = json!({"kind": "ConfigMap"});
    let problems = parse_all(&[raw.as_object().unwrap().clone()]).unwrap_err();
    seen.class = ClassSeen::Present(Class { name: "web".into(), problems, ..Class::default() });
    assert!(resources::plan(&seen).is_settled());
    let status = resources::report(&seen, &[], &now());
    assert_eq!(status.conditions.reason("Ready"), Some("InvalidClass"));
    world.settle(&now());
    assert_eq!(world.objects, before);
}
