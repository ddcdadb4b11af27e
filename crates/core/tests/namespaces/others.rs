//! What others do in a namespace, and what must hold whatever they do.

use croft_core::{
    namespaces::{
        binding::{self, BindingStep},
        resources::{self, Policy, ResourceStep},
    },
    plan::{Outcome, Plan},
    time::Timestamp,
};

use crate::{
    explorer::{self, Act},
    world::{Bound, NAMES, Object, Others, World, now},
};

/// What the operator sees for either kind of work.
#[derive(Debug)]
pub enum Seen {
    Binding(Box<binding::Observed>),
    Resources(Box<resources::Observed>),
}

#[derive(Clone, Debug)]
pub enum Step {
    Binding(BindingStep),
    Resources(Box<ResourceStep>),
}

impl std::fmt::Display for Step {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Binding(step) => step.fmt(out),
            Step::Resources(step) => step.fmt(out),
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
        [binding].into_iter().chain(resources).collect()
    }

    fn plan(&self, seen: &Seen) -> Plan<Step> {
        match seen {
            Seen::Binding(seen) => mapped(binding::plan(seen), Step::Binding),
            Seen::Resources(seen) => mapped(resources::plan(seen), |step| Step::Resources(Box::new(step))),
        }
    }

    fn execute(&mut self, seen: &Seen, step: &Step) -> Outcome {
        match (seen, step) {
            (_, Step::Binding(step)) => self.do_binding(step),
            (Seen::Resources(seen), Step::Resources(step)) => self.do_resource(seen, step),
            (Seen::Binding(_), Step::Resources(step)) => panic!("{step} is not about the binding"),
        }
    }

    fn report(&mut self, seen: &Seen, outcomes: &[(&Step, Outcome)]) {
        let Seen::Resources(seen) = seen else { return };
        let outcomes: Vec<_> = outcomes
            .iter()
            .filter_map(|(step, outcome)| match step {
                Step::Resources(step) => Some((&**step, outcome.clone())),
                Step::Binding(_) => None,
            })
            .collect();
        let is_gone = |(step, outcome): &(&ResourceStep, Outcome)| {
            matches!(step, ResourceStep::DeleteBinding { .. }) && outcome.is_done()
        };
        if outcomes.iter().any(is_gone) {
            return;
        }
        let status = resources::report(seen, &outcomes, &now());
        let bound = self.binding.as_mut().filter(|bound| bound.uid == seen.binding.uid);
        // Written only if it differs from what was seen.
        if let (Some(bound), true) = (bound, status != seen.binding.status) {
            *bound = Bound::new(bound.uid.clone(), bound.class.clone(), status);
        }
    }

    fn others(&self) -> Vec<Act<World>> {
        let mut acts: Vec<_> = [None, Some(""), Some("web"), Some("db"), Some("typo")]
            .into_iter()
            .filter(|label| *label != self.label)
            .map(|label| Act::new(format!("somebody sets the label to {label:?}"), self, |world| world.label = label))
            .collect();
        if self.others == Others::Meddle {
            acts.extend(self.acts_on_classes());
            acts.extend(self.objects.iter().flat_map(|(name, object)| self.acts_on(name, object)));
            let free = NAMES.into_iter().filter(|name| self.is_wanted(name) && !self.objects.contains_key(name));
            acts.extend(free.map(|name| {
                Act::new(format!("a stranger makes {name}"), self, |world| world.stranger_makes(name))
            }));
        }
        acts
    }

    /// The collector takes what belongs to a binding that is no more.
    fn passes(&self) -> Option<World> {
        let binding = self.binding.as_ref().map(|bound| &bound.uid);
        let is_dangling = |object: &Object| object.is_a_bindings() && object.owner.as_ref() != binding;
        self.objects.values().any(|object| is_dangling(object)).then(|| {
            let mut later = self.clone();
            later.objects.retain(|_, object| !is_dangling(object));
            later
        })
    }

    fn check_ours(&self, before: &World) {
        for (name, object) in before.objects.iter().filter(|(_, object)| object.is_foreign()) {
            // Only an apply of what was ours a moment ago may come too late; anything else is asked about in `outside`.
            let now = self.objects.get(name);
            assert!(now == Some(object) || now.is_some_and(|now| now.uid == object.uid), "{name} is not ours");
        }
    }

    fn check_rest(&self) {
        if self.classes.values().all(|class| class.policy == Policy::default() && !class.orphan_on_unbind) {
            self.check_furnished();
        }
        let Some(bound) = &self.binding else { return };
        let seen = self.see_resources().expect("there is a binding");
        let later = Timestamp("2026-01-02T00:00:00Z".into());
        assert_eq!(resources::report(&seen, &[], &later), *bound.status, "something to tell although nothing happens");
        if self.ready_reason() == "ReconcileSuccess" {
            assert!(seen.to_read().is_empty(), "reads at rest");
        }
    }
}

impl Object {
    /// Whether nothing about it says that it is ours.
    fn is_foreign(&self) -> bool {
        !self.is_a_bindings() && !self.labelled
    }
}

impl World {
    /// Whether any class has an object of that name.
    fn is_wanted(&self, name: &str) -> bool {
        self.classes.values().flat_map(|class| &class.items).any(|item| item.identity.name == name)
    }

    fn acts_on_classes(&self) -> Vec<Act<World>> {
        let mut acts = Vec::new();
        for (name, class) in &self.classes {
            acts.push(Act::new(format!("class {name} goes"), self, |world| drop(world.classes.remove(name))));
            acts.push(Act::new(format!("class {name} is deleted"), self, |world| world.class_mut(name).deleting = true));
            if !class.items.is_empty() {
                acts.push(Act::new(format!("class {name} drops its last object"), self, |world| {
                    world.class_mut(name).items.pop();
                }));
            }
        }
        if self.binding.is_some() {
            acts.push(Act::new("somebody deletes the binding", self, |world| world.binding = None));
        }
        acts
    }

    fn acts_on(&self, name: &str, object: &Object) -> Vec<Act<World>> {
        let change = |what: &str, change: fn(&mut Object)| {
            Act::new(format!("somebody {what} {name}"), self, |world| change(world.object_mut(name)))
        };
        let delete =
            Act::new(format!("somebody deletes {name}"), self, |world| drop(world.objects.remove(name)));
        let mut acts = vec![delete];
        if object.is_a_bindings() {
            acts.push(change("edits", |object| {
                object.content = "edited".into();
                object.tell();
            }));
            acts.push(change("edits, untold,", |object| {
                object.content = "edited".into();
                object.suspect = true;
            }));
            acts.push(change("makes it impossible to change", |object| object.immutable = true));
            acts.push(change("adds something to", |object| object.additions = 1));
            acts.push(change("takes the label from", |object| object.labelled = false));
            acts.push(change("takes the owner from", |object| {
                object.owner = None;
                object.tell();
            }));
            acts.push(change("takes label and owner from", |object| {
                (object.owner, object.labelled) = (None, false);
                object.tell();
            }));
            acts.push(change("takes over", |object| {
                object.owner = Some("somebody".into());
                object.tell();
            }));
        }
        acts
    }

    /// The class that must be in force at rest.
    fn class_in_force(&self) -> Option<&str> {
        let bound = self.binding.as_ref().map(|bound| bound.class.as_str());
        match self.label? {
            label if self.can_be_chosen(label) => Some(label),
            // Unknown or unclear: what was bound stays, unless its class is gone.
            _ => bound.filter(|bound| self.classes.contains_key(bound)),
        }
    }

    /// Everything the class wants is there as it wants it, and nothing else is ours.
    fn check_furnished(&self) {
        let class = self.class_in_force();
        assert_eq!(self.binding.as_ref().map(|bound| bound.class.as_str()), class);
        let Some(bound) = &self.binding else {
            assert_eq!(self.ours(), [""; 0], "objects of a binding that is no more");
            return;
        };
        let wanted = self.rendered(bound);
        let is_taken = |item: &&_| {
            let item: &croft_core::namespaces::manifest::Rendered = item;
            self.objects.get(item.identity.name.as_str()).is_some_and(|object| !object.is_a_bindings())
        };
        for item in wanted.iter().filter(|item| !is_taken(item)) {
            let object = self.objects.get(item.identity.name.as_str()).unwrap_or_else(|| panic!("{} is missing", item.identity));
            assert!(object.labelled && object.owner.as_ref() == Some(&bound.uid), "{object:?}");
            assert_eq!(object.content, item.digest, "{} is not as wanted", item.identity);
        }
        // Make before break: with a conflict in the way, old objects may stay.
        if wanted.iter().any(|item| is_taken(&item)) {
            assert_eq!(self.ready_reason(), "Conflict");
            return;
        }
        let mut names: Vec<_> = wanted.iter().map(|item| item.identity.name.as_str()).collect();
        names.sort_unstable();
        let found = self.objects.iter().filter(|(name, object)| self.can_be_found(name, object));
        let found = found.filter(|(_, object)| object.is_a_bindings()).map(|(name, _)| *name);
        assert_eq!(found.collect::<Vec<_>>(), names, "something is left over");
        let is_unknown = self.label.is_some_and(|label| !label.is_empty() && label != bound.class);
        assert_eq!(self.ready_reason(), if is_unknown { "ClassNotFound" } else { "ReconcileSuccess" });
    }
}
