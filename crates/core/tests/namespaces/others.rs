//! What the operator does step by step, and what others do in between.

use std::{collections::BTreeMap, fmt, rc::Rc};

use croft_core::{
    namespaces::{
        binding::{self, BindingStep},
        class::{self, ClassStep},
        resources::{self, Policy, ResourceStep},
    },
    plan::{Outcome, Plan, Step as _},
};

use crate::{
    explorer::{self, Act},
    seeing::is_widget,
    world::{Bound, ClassSpec, NAMES, Object, Other, Sight, World, class, item, now},
};

/// What the operator sees for either kind of work.
#[derive(Debug)]
pub enum Seen {
    Binding(Box<binding::Observed>),
    Resources(Box<resources::Observed>),
    /// A class, by name and identity.
    Class(&'static str, u32, Box<class::Observed>),
}

#[derive(Clone, Debug)]
pub enum Step {
    Binding(BindingStep),
    Resources(Box<ResourceStep>),
    Class(ClassStep),
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Binding(step) => step.fmt(out),
            Step::Resources(step) => step.fmt(out),
            Step::Class(step) => step.fmt(out),
        }
    }
}

fn mapped<A, B>(plan: Plan<A>, wrap: impl Fn(A) -> B) -> Plan<B> {
    let groups = plan.groups.into_iter().map(|group| group.into_iter().map(&wrap).collect());
    Plan { groups: groups.collect(), next: plan.next }
}

impl explorer::World for World {
    type Seen = Seen;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Seen)> {
        let binding = ("binding", Seen::Binding(Box::new(self.see_binding())));
        let resources = self.see_resources().map(|seen| ("resources", Seen::Resources(Box::new(seen))));
        let classes = self.classes.iter().filter(|_| self.tends_classes).filter_map(|(name, spec)| {
            let seen = self.see_class(name)?;
            Some((*name, Seen::Class(name, spec.uid, Box::new(seen))))
        });
        [binding].into_iter().chain(resources).chain(classes).collect()
    }

    fn needs(&self, step: &Step, earlier: &Step) -> bool {
        match (step, earlier) {
            (Step::Resources(step), Step::Resources(earlier)) => step.needs(earlier),
            _ => true,
        }
    }

    fn plan(&self, seen: &Seen) -> Plan<Step> {
        match seen {
            Seen::Binding(seen) => mapped(binding::plan(seen), Step::Binding),
            Seen::Resources(seen) => mapped(resources::plan(seen), |step| Step::Resources(Box::new(step))),
            Seen::Class(_, _, seen) => mapped(class::plan(seen), Step::Class),
        }
    }

    fn execute(&mut self, seen: &Seen, step: &Step) -> Outcome {
        match (seen, step) {
            (Seen::Binding(_), Step::Binding(step)) => self.do_binding(step),
            (Seen::Resources(seen), Step::Resources(step)) => self.do_resource(seen, step),
            (Seen::Class(name, uid, _), Step::Class(step)) => self.do_class(name, *uid, step),
            _ => panic!("{step} belongs to other work"),
        }
    }

    fn report(&mut self, seen: &Seen, outcomes: &[(&Step, Outcome)]) {
        match seen {
            Seen::Resources(seen) => self.report_resources(seen, outcomes),
            Seen::Class(name, uid, seen) if !is_let_go(outcomes) => self.report_class(name, *uid, seen),
            Seen::Binding(_) | Seen::Class(..) => {}
        }
    }

    fn others(&self) -> Vec<Act<World>> {
        let acts = self.others.iter().map(|other| match other {
            Other::Owner => self.acts_on_the_label(),
            Other::Tenant => self.acts_on_objects(),
            Other::Administrator => self.acts_on_classes(),
            Other::Outage => self.acts_on_the_kind(),
            Other::Backup => self.brings_back(),
        });
        acts.flatten().collect()
    }

    /// The collector takes what belongs to a binding that is no more.
    fn passes(&self) -> Option<World> {
        let binding = self.binding.as_ref().map(|bound| &bound.uid);
        let is_dangling = |object: &Object| object.is_a_bindings() && object.owner.as_ref() != binding;
        let dangling = self.objects.iter().filter(|(_, object)| is_dangling(object) && !object.deleting);
        let dangling: Vec<_> = dangling.map(|(name, _)| *name).collect();
        (!dangling.is_empty()).then(|| {
            let mut later = self.clone();
            for name in dangling {
                later.delete_object(name);
            }
            later
        })
    }

    fn check_ours(&self, before: &World) {
        // Where others act, an apply of what was ours a moment ago may come too late: it can only be bound to a UID.
        let may_change = !self.others.is_empty() || self.classes.values().any(|class| class.policy.adopt);
        for (name, object) in before.objects.iter().filter(|(_, object)| object.is_foreign()) {
            let now = self.objects.get(name);
            let is_same = now.is_some_and(|now| now.uid == object.uid);
            assert!(now == Some(object) || (may_change && is_same), "{name} is not ours");
        }
    }

    fn check_rest(&self) {
        self.check_truth();
    }
}

impl Object {
    /// Whether nothing about it says that it is ours.
    fn is_foreign(&self) -> bool {
        !self.is_a_bindings() && self.stamp.is_none()
    }
}

/// Whether we have let a class go: then it says nothing more.
pub fn is_let_go(outcomes: &[(&Step, Outcome)]) -> bool {
    let is_end = |step: &Step| matches!(step, Step::Class(ClassStep::LetGo));
    outcomes.iter().any(|(step, outcome)| is_end(step) && outcome.is_done())
}

/// The outcomes of steps about objects.
pub fn of_resources<'a>(outcomes: &'a [(&Step, Outcome)]) -> Vec<(&'a ResourceStep, Outcome)> {
    let of_resources = outcomes.iter().filter_map(|(step, outcome)| match step {
        Step::Resources(step) => Some((&**step, outcome.clone())),
        Step::Binding(_) | Step::Class(_) => None,
    });
    of_resources.collect()
}

impl World {
    /// Written only if it is new, and only over what was seen.
    fn report_resources(&mut self, seen: &resources::Observed, outcomes: &[(&Step, Outcome)]) {
        let outcomes = of_resources(outcomes);
        let is_end = |step: &ResourceStep| matches!(step, ResourceStep::DeleteBinding { .. });
        if outcomes.iter().any(|(step, outcome)| is_end(step) && outcome.is_done()) {
            return;
        }
        let status = resources::report(seen, &outcomes, &now());
        let is_same =
            |bound: &&mut Bound| bound.uid == seen.binding.uid && bound.version.to_string() == seen.binding.version;
        if let (Some(bound), true) = (self.binding.as_mut().filter(is_same), status != seen.binding.status) {
            *bound = Bound::new(bound.uid.clone(), bound.class.clone(), status);
        }
    }

    fn report_class(&mut self, name: &str, uid: u32, seen: &class::Observed) {
        let class = self.classes.get_mut(name).filter(|class| class.uid == uid);
        if let (Some(class), Some(status)) = (class, class::report(seen, &now())) {
            Rc::make_mut(class).status = status;
        }
    }

    fn brings_back(&self) -> Vec<Act<World>> {
        let act = || Act::new("a backup says that a label is kept".to_owned(), self, |world| world.noted = true);
        (!self.noted).then(act).into_iter().collect()
    }

    fn acts_on_the_label(&self) -> Vec<Act<World>> {
        let labels = [None, Some(""), Some("web"), Some("db"), Some("typo")].into_iter();
        let labels = labels.filter(|label| *label != self.label);
        let relabel = |label: Option<&'static str>| {
            let what = label.map_or("takes the label off".to_owned(), |label| format!("sets the label to {label:?}"));
            Act::new(format!("somebody {what}"), self, |world| world.label = label)
        };
        labels.map(relabel).collect()
    }

    fn acts_on_classes(&self) -> Vec<Act<World>> {
        let mut acts: Vec<_> = self.classes.keys().flat_map(|name| self.acts_on_class(name)).collect();
        for name in ["web", "db"].into_iter().filter(|name| !self.classes.contains_key(name)) {
            acts.push(Act::new(format!("class {name} is made anew"), self, |world| {
                world.made += 1;
                let uid = world.made;
                world.classes.insert(name, Rc::new(ClassSpec { uid, ..class(&["shared"]) }));
            }));
        }
        // Whoever deletes a binding deletes the objects it adopted, and the only record of the labels it has set.
        let is_needed = |class: &Rc<ClassSpec>| class.policy.adopt || !class.labels.is_empty();
        if self.binding.is_some() && !self.classes.values().any(is_needed) {
            acts.push(Act::new("somebody deletes the binding", self, |world| world.binding = None));
        }
        acts
    }

    fn acts_on_class(&self, name: &'static str) -> Vec<Act<World>> {
        let spec = &self.classes[name];
        let change = |what: &str, change: fn(&mut ClassSpec)| {
            Act::new(format!("class {name} {what}"), self, |world| change(world.class_mut(name)))
        };
        let mut acts = Vec::new();
        if spec.held {
            acts.push(Act::new(format!("somebody takes our finalizer off class {name}"), self, |world| {
                world.class_mut(name).held = false;
                world.classes.retain(|_, class| !class.deleting || class.held);
            }));
        } else {
            acts.push(Act::new(format!("class {name} goes"), self, |world| drop(world.classes.remove(name))));
        }
        if !spec.deleting && (spec.held || !self.tends_classes) {
            acts.push(change("is deleted and held by a finalizer", |class| class.deleting = true));
        }
        if let Some(first) = spec.items.first() {
            acts.push(change("drops its last object", |class| drop(class.items.pop())));
            // It sets no field anew: only our own unreported write could tell such a field from somebody's addition.
            if *first != item(&first.identity.name, None) {
                let edit = |class: &mut ClassSpec, value| class.items[0] = item(&class.items[0].identity.name, value);
                acts.push(Act::new(format!("class {name} wants another value"), self, |world| {
                    edit(world.class_mut(name), Some("new"));
                }));
                acts.push(Act::new(format!("class {name} drops a field"), self, |world| {
                    edit(world.class_mut(name), None);
                }));
            }
        }
        if spec.policy != Policy::default() || spec.orphan_on_unbind {
            acts.push(change("takes its policy back", |class| {
                (class.policy, class.orphan_on_unbind) = (Policy::default(), false);
            }));
        }
        acts
    }

    fn acts_on_the_kind(&self) -> Vec<Act<World>> {
        let shown = self.objects.iter().filter(|(name, _)| is_widget(name));
        let shown: BTreeMap<_, _> = shown.map(|(name, object)| (*name, object.clone())).collect();
        let sights = [
            ("can be seen again", Sight::Clear),
            ("are away with their API", Sight::Away),
            ("are no longer watched", Sight::Frozen(shown.clone())),
            ("cannot be read", Sight::Unreadable),
            ("are forbidden", Sight::Forbidden),
            ("are no longer installed", Sight::NotInstalled(BTreeMap::new())),
            ("are no longer installed, which their watch did not see", Sight::NotInstalled(shown)),
        ];
        let is_gone = self.is_uninstalled();
        let others = sights
            .into_iter()
            .filter(|(_, sight)| *sight != self.widgets && !(is_gone && matches!(sight, Sight::NotInstalled(_))));
        let act = |(what, sight): (&str, Sight)| {
            Act::new(format!("widgets {what}"), self, |world| {
                if matches!(sight, Sight::NotInstalled(_)) {
                    world.objects.retain(|name, _| !is_widget(name));
                }
                world.widgets = sight;
            })
        };
        others.map(act).collect()
    }

    fn acts_on_objects(&self) -> Vec<Act<World>> {
        let mut acts: Vec<_> = self.objects.iter().flat_map(|(name, object)| self.acts_on(name, object)).collect();
        let free = NAMES.into_iter().filter(|name| self.is_wanted(name) && !self.objects.contains_key(name));
        for name in free.filter(|name| !self.is_uninstalled() || !is_widget(name)) {
            acts.push(Act::new(format!("a stranger makes {name}"), self, |world| world.stranger_makes(name)));
            acts.push(Act::new(format!("a stranger makes {name} with our stamp"), self, |world| {
                world.stranger_makes(name);
                world.object_mut(name).stamp = Some("web".into());
            }));
        }
        if !self.namespace_labels.is_empty() {
            acts.push(Act::new("somebody takes our labels off the namespace", self, |world| {
                world.namespace_labels.clear();
            }));
        }
        acts
    }

    fn is_uninstalled(&self) -> bool {
        matches!(self.widgets, Sight::NotInstalled(_))
    }

    /// Whether any class has an object of that name.
    fn is_wanted(&self, name: &str) -> bool {
        self.classes.values().flat_map(|class| &class.items).any(|item| item.identity.name == name)
    }

    fn acts_on(&self, name: &'static str, object: &Object) -> Vec<Act<World>> {
        let change = |what: &str, change: fn(&mut Object)| {
            Act::new(format!("somebody {what} {name}"), self, |world| change(world.object_mut(name)))
        };
        let mut acts = vec![Act::new(format!("somebody deletes {name}"), self, |world| world.delete_object(name))];
        if object.held {
            acts.push(Act::new(format!("somebody removes the finalizer of {name}"), self, |world| {
                world.object_mut(name).held = false;
                world.objects.retain(|_, object| !object.deleting || object.held);
            }));
        }
        if object.is_a_bindings() {
            acts.push(Act::new(format!("somebody replaces {name} by their own"), self, |world| {
                world.stranger_makes(name);
            }));
            acts.push(change("puts a finalizer on", |object| object.held = true));
            acts.push(change("edits", |object| object.data = Some("edited".into())));
            acts.push(change("makes it impossible to change", |object| object.immutable = true));
            acts.push(change("adds something to", |object| object.additions = true));
            acts.push(change("takes the label from", |object| object.stamp = None));
            acts.push(change("puts the label of another class on", |object| object.stamp = Some("other".into())));
            acts.push(change("takes the owner from", |object| object.owner = None));
            acts.push(change("takes label and owner from", |object| (object.owner, object.stamp) = (None, None)));
            acts.push(change("takes over", |object| object.owner = Some("somebody".into())));
        }
        // An edit of what cannot be changed is refused to everybody.
        let is_same = |after: &Object| after.uid != object.uid || after.data == object.data;
        acts.retain(|act| !object.immutable || act.after.objects.get(name).is_none_or(|after| is_same(after)));
        acts
    }
}
