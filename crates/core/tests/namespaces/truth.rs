//! What must hold once nothing moves any more: everything is as the class in force wants it, or the status says why not.

use croft_core::{
    namespaces::{
        inventory::{Applied, State},
        manifest::Rendered,
        resources,
    },
    plan::Step,
    time::{Instant, Timestamp},
};

use crate::{
    seeing::{class_uid, is_widget},
    world::{Bound, ClassSpec, Object, Sight, World, identity},
};

/// What keeps a wanted object from being as it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trouble {
    /// The reason by which the binding tells.
    reason: &'static str,
    state: State,
}

const UNOBSERVABLE: Trouble = Trouble { reason: "Unobservable", state: State::Pending };
const FORBIDDEN: Trouble = Trouble { reason: "Forbidden", state: State::Failed };
const NOT_INSTALLED: Trouble = Trouble { reason: "KindNotInstalled", state: State::Pending };
const TERMINATING: Trouble = Trouble { reason: "Terminating", state: State::Pending };
const CONFLICT: Trouble = Trouble { reason: "Conflict", state: State::Conflict };
const DRIFTED: Trouble = Trouble { reason: "Drifted", state: State::Drifted };
const REFUSED: Trouble = Trouble { reason: "ApplyFailed", state: State::Failed };

impl World {
    pub fn check_truth(&self) {
        self.check_quiet();
        match (&self.binding, self.class_in_force()) {
            (None, None) => self.check_bare(),
            (None, Some(class)) => panic!("the namespace is not bound to class {class}"),
            (Some(_), None) => self.check_waits(),
            (Some(bound), Some(class)) => {
                assert_eq!(bound.class, class, "bound to another class");
                self.check_furnished(bound, &self.classes[class]);
            }
        }
        self.check_classes();
    }

    /// Nothing to tell, whenever it is looked at again, and where all is well nothing to ask.
    fn check_quiet(&self) {
        let Some(seen) = self.see_resources() else { return };
        let plan = resources::plan(&seen);
        if !plan.is_settled() {
            let waits = ["ApplyFailed", "PruneFailed", "Forbidden"].contains(&self.ready_reason());
            assert!(waits, "{} and yet: {plan}", self.ready_reason());
            return;
        }
        let told = self.told();
        assert_eq!((told.status, told.event), (None, None), "something to tell although nothing happens");
        if self.ready_reason() == "ReconcileSuccess" {
            // What is deleted, held by somebody and without our stamp is not watched any more.
            let mut read = seen.read.values().filter(|read| read.as_ref().is_none_or(|read| !read.deleting));
            assert!(read.next().is_none(), "reads at rest");
        }
    }

    /// What is told by somebody who looks much later and has nothing to do.
    pub fn told(&self) -> resources::Telling {
        let seen = self.see_resources().expect("there is a binding");
        let (later, mut routine) = (Timestamp("2026-01-02T00:00:00Z".into()), resources::Routine::default());
        resources::tell(&seen, self.status(), &[], &mut None, &mut routine, &later, Instant(0))
    }

    /// The class that must be in force at rest.
    fn class_in_force(&self) -> Option<&'static str> {
        let bound = self.binding.as_ref().map(|bound| bound.class.as_str());
        let bound = bound.and_then(|bound| self.classes.get_key_value(bound));
        // It stays while it is there, and on its way out if it waits for its namespaces.
        let stays = bound.filter(|(_, class)| !class.deleting || class.policy.block_class_delete);
        match self.label? {
            label if self.can_be_chosen(label) && !self.system => Some(label),
            // Unknown or unclear: what was bound stays.
            _ => stays.map(|(name, _)| *name),
        }
    }

    /// Nothing of ours is left but what is going already.
    fn check_bare(&self) {
        let left: Vec<_> = self.ours().into_iter().filter(|name| !self.objects[name].deleting).collect();
        assert_eq!(left, [""; 0], "objects of a binding that is no more");
        assert!(self.namespace_labels.is_empty(), "labels of a class that is not in force");
    }

    /// A binding that should go stays only for what cannot be seen, and says so.
    fn check_waits(&self) {
        let mut made = self.status().applied_resources.iter().filter(|applied| applied.uid.is_some());
        let is_shown = matches!(&self.widgets, Sight::Frozen(shown) if !shown.is_empty());
        let waits = is_shown || self.may_lose() || made.any(|applied| self.is_out_of_sight(&applied.name));
        assert!(waits, "the binding stays for nothing");
        assert!(["Unobservable", "Forbidden"].contains(&self.ready_reason()), "{}", self.ready_reason());
        let ours = self.ours();
        let left = ours.iter().filter(|name| !self.objects[**name].deleting && !self.is_out_of_sight(name));
        assert_eq!(left.collect::<Vec<_>>(), [&""; 0], "what can be seen goes all the same");
    }

    /// Whether the class has objects out of sight that must not go with the binding.
    fn may_lose(&self) -> bool {
        let class = self.binding.as_ref().and_then(|bound| self.classes.get(bound.class.as_str()));
        class.is_some_and(|class| {
            let keeps = class.orphan_on_unbind || class.policy.orphan_on_class_delete;
            keeps && class.items.iter().any(|item| self.is_out_of_sight(&item.identity.name))
        })
    }

    /// Everything the class wants is there as it wants it and nothing else is ours, or the binding tells why not.
    fn check_furnished(&self, bound: &Bound, class: &ClassSpec) {
        assert!(!self.noted, "the namespace says that a label is kept, and no class does");
        let rendered = self.rendered(bound);
        let mut troubles = Vec::new();
        for item in rendered.iter() {
            let trouble = self.trouble(bound, class, item);
            self.check_entry(item, trouble);
            troubles.extend(trouble);
        }
        self.check_leftovers(bound, &rendered, troubles.is_empty());
        if troubles.is_empty() {
            assert_eq!(self.namespace_labels, class.labels, "the labels of the namespace");
        }
        self.check_ready(bound, class, &troubles);
    }

    /// What is wrong with a wanted object, if anything is that can stay so.
    fn trouble(&self, bound: &Bound, class: &ClassSpec, item: &Rendered) -> Option<Trouble> {
        let name = item.identity.name.as_str();
        match self.widgets {
            Sight::Away | Sight::Frozen(_) if is_widget(name) => return Some(UNOBSERVABLE),
            Sight::Forbidden if is_widget(name) => return Some(FORBIDDEN),
            Sight::NotInstalled(_) if is_widget(name) => return Some(NOT_INSTALLED),
            _ => {}
        }
        let entry = bound.status.applied(&item.identity);
        let object = self.objects.get(name).unwrap_or_else(|| panic!("{} is missing", item.identity));
        let is_ours =
            object.is_a_bindings() || (object.owner.is_none() && object.stamp.is_some() && is_entry_of(entry, object));
        let is_told = |entry: &Applied| entry.message.as_ref().is_some_and(|message| message.contains("observed"));
        if self.is_out_of_sight(name) && entry.is_some_and(is_told) {
            // It can be watched but not read, and only a read could tell.
            return Some(UNOBSERVABLE);
        }
        if object.deleting {
            let is_held = identity(name).gives_rights() && object.is_a_bindings() && object.stamp.is_some();
            assert!(!is_held || object.shows(item), "{name} is another right than the class gives");
            return Some(TERMINATING);
        }
        if !is_ours {
            assert!(!class.policy.adopt || object.owner.is_some(), "{name} is not adopted");
            return Some(CONFLICT);
        }
        if object.shows(item) {
            return None;
        }
        if class.policy.report_drift && entry.is_some_and(|entry| entry.state == State::Drifted) {
            return Some(DRIFTED);
        }
        let is_adopted = entry.is_some_and(|entry| entry.adopted);
        let is_stuck = object.immutable && (!class.policy.recreate_immutable || is_adopted);
        assert!(is_stuck, "{} is not as wanted: {object:?}", item.identity);
        Some(REFUSED)
    }

    /// The inventory says of each wanted object how it is.
    fn check_entry(&self, item: &Rendered, trouble: Option<Trouble>) {
        let identity = &item.identity;
        let entry = self.status().applied(identity).unwrap_or_else(|| panic!("{identity} is not listed"));
        let state = trouble.map_or(State::Applied, |trouble| trouble.state);
        // A name that was taken by the time it went out of sight, or by what is on its way out, is still told as taken.
        let was_taken = [UNOBSERVABLE, TERMINATING].map(Some).contains(&trouble) && entry.state == State::Conflict;
        assert!(entry.state == state || was_taken, "{identity}: {entry:?}");
        assert_eq!(entry.message.is_some(), trouble.is_some(), "{identity}: {entry:?}");
        if trouble.is_none() {
            assert!(is_entry_of(Some(entry), &self.objects[identity.name.as_str()]), "{identity}: {entry:?}");
        }
    }

    /// Nothing we can know of is left over, unless something stands in the way: then old objects may stay.
    fn check_leftovers(&self, bound: &Bound, rendered: &[Rendered], is_free: bool) {
        let is_wanted = |name: &str| rendered.iter().any(|item| item.identity.name == name);
        let found = self.objects.iter().filter(|(name, object)| self.can_be_found(name, object) && !is_wanted(name));
        // Nobody keeps a right by holding it.
        let is_right = |name: &str| identity(name).gives_rights();
        let left = found.filter(|(name, object)| object.is_a_bindings() && (!object.deleting || is_right(name)));
        let mut left = left.map(|(name, _)| *name).filter(|name| !self.is_out_of_sight(name));
        assert!(!is_free || left.next().is_none(), "something is left over");
        for entry in &bound.status.applied_resources {
            let is_namespace = entry.kind == "Namespace";
            let is_there = self.objects.get(entry.name.as_str()).is_some_and(|object| is_entry_of(Some(entry), object));
            let may_be_there = is_there || self.is_out_of_sight(&entry.name);
            assert!(is_namespace || is_wanted(&entry.name) || may_be_there, "{entry:?} is listed and gone");
        }
    }

    /// Whether its watch shows that it is on its way out.
    fn is_going(&self, name: &str) -> bool {
        self.objects.get(name).is_some_and(|object| object.deleting && object.stamp.is_some())
    }

    fn check_ready(&self, bound: &Bound, class: &ClassSpec, troubles: &[Trouble]) {
        let reason = self.ready_reason();
        let hidden = bound.status.applied_resources.iter().any(|entry| {
            let is_wanted = class.items.iter().any(|item| item.identity == identity(&entry.name));
            let is_going = self.widgets == Sight::Unreadable && self.is_going(&entry.name);
            entry.state == State::Pruning && !is_wanted && self.is_out_of_sight(&entry.name) && !is_going
        });
        let label = self.label.unwrap_or_default();
        if class.deleting {
            let is_refused = troubles.iter().any(|trouble| *trouble == REFUSED && reason == trouble.reason);
            assert!(reason == "ClassDeleting" || is_refused, "{reason}");
        } else if !troubles.is_empty() {
            assert!(troubles.iter().any(|trouble| trouble.reason == reason), "{reason}, but {troubles:?}");
        } else if hidden {
            assert!(["Unobservable", "Forbidden"].contains(&reason), "{reason}");
        } else if label.is_empty() || label == bound.class {
            assert_eq!(reason, "ReconcileSuccess");
        } else {
            assert_eq!(
                reason,
                match self.classes.get(label) {
                    None => "ClassNotFound",
                    Some(class) if class.deleting => "ClassDeleting",
                    Some(_) => "NotAllowed",
                }
            );
        }
        assert_eq!(bound.status.conditions.is_true("Ready"), reason == "ReconcileSuccess");
        if reason == "ReconcileSuccess" {
            assert_eq!(bound.status.observed_class_uid, Some(class_uid(&bound.class, class)));
            assert_eq!(bound.status.observed_class_generation, Some(class.generation));
        }
    }

    /// A class that we hold is there to be held, and counts its namespaces.
    fn check_classes(&self) {
        for (name, class) in self.classes.iter().filter(|_| self.tends_classes) {
            let bound = self.binding.as_ref().filter(|bound| bound.class == *name);
            if class.deleting {
                let waits = class.policy.block_class_delete || !self.widgets_are_seen();
                let was_left = self.has_left(name);
                assert!(class.held && (was_left || bound.is_some() && waits), "class {name} hangs for nothing");
            } else {
                assert_eq!(class.held, class.must_hold(), "class {name}");
            }
            let ready = i64::from(bound.is_some_and(|bound| bound.status.is_ready()));
            let counts = (class.status.bound_namespaces, class.status.ready_namespaces);
            assert_eq!(counts, (Some(i64::from(bound.is_some())), Some(ready)), "class {name}");
        }
    }

    fn widgets_are_seen(&self) -> bool {
        !self.is_out_of_sight("gadget")
    }

    /// Carries out the next plan, and dies before telling.
    pub fn die_after_the_plan(&mut self) {
        let seen = self.see_resources().expect("there is a binding");
        for step in resources::plan(&seen).iter() {
            assert!(self.do_resource(&seen, step).is_done(), "{step}");
        }
    }

    /// The kinds of the steps of the next plan, group by group.
    pub fn planned(&self) -> Vec<Vec<&'static str>> {
        let plan = resources::plan(&self.see_resources().expect("there is a binding"));
        plan.groups.iter().map(|group| group.iter().map(Step::kind).collect()).collect()
    }
}

fn is_entry_of(entry: Option<&Applied>, object: &Object) -> bool {
    entry.is_some_and(|entry| entry.uid.as_ref() == Some(&object.uid))
}
