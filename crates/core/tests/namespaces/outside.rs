//! What the API server makes of each step, preconditions included. Panics as soon as one breaks a promise.

use std::rc::Rc;

use croft_core::{
    namespaces::{
        binding::BindingStep,
        class::ClassStep,
        inventory::{Applied, Status},
        manifest::Identity,
        resources::{self, ClassSeen, Owner, ResourceStep},
    },
    plan::{Failure, FailureClass, Outcome},
};
use serde_json::Value;

use crate::{
    seeing::is_widget,
    world::{Bound, NAMES, Object, Sight, World, identity},
};

fn failed(class: FailureClass, reason: &'static str) -> Outcome {
    let message = match reason {
        "AlreadyExists" => "an object of this name already exists",
        "ApiServerError" => "the API server cannot handle the request now",
        "Conflict" => "the object has been changed or replaced meanwhile",
        "Forbidden" => "the operator lacks the right",
        "Immutable" => "field is immutable when `immutable` is set",
        "StampLost" => "the label was taken off on its way",
        "TwoControllers" => "only one owner can be the controller",
        _ => "the server could not find the requested resource",
    };
    Outcome::Failed(Failure::new(class, reason, message))
}

fn conflict() -> Outcome {
    failed(FailureClass::Stale, "Conflict")
}

fn name_of(identity: &Identity) -> &'static str {
    NAMES.into_iter().find(|name| *name == identity.name).expect("a name of this world")
}

fn owner_in(manifest: &Value) -> Option<String> {
    manifest["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned)
}

fn stamp_in(manifest: &Value) -> Option<String> {
    manifest["metadata"]["labels"]["namespaceclass.akuity.io/class"].as_str().map(str::to_owned)
}

fn data_in(manifest: &Value) -> Option<String> {
    manifest["data"]["k"].as_str().map(str::to_owned)
}

impl World {
    pub fn do_binding(&mut self, step: &BindingStep) -> Outcome {
        match (step, &mut self.binding) {
            (BindingStep::CreateBinding { .. }, Some(_)) => return failed(FailureClass::Stale, "AlreadyExists"),
            (BindingStep::CreateBinding { class, .. }, None) => {
                let (uid, class) = (self.uid(), class.clone());
                self.binding = Some(Bound::new(uid, class, Status::default()));
            }
            (BindingStep::Rebind { uid, version, to, .. }, Some(bound))
                if bound.uid == *uid && bound.version.to_string() == *version =>
            {
                *bound = Bound::new(uid.clone(), to.clone(), Status::clone(&bound.status));
            }
            (BindingStep::Rebind { .. }, _) => return conflict(),
        }
        Outcome::done()
    }

    pub fn do_class(&mut self, name: &'static str, uid: u32, step: &ClassStep) -> Outcome {
        let Some(class) = self.classes.get_mut(name).filter(|class| class.uid == uid) else { return conflict() };
        let class = Rc::make_mut(class);
        class.held = *step == ClassStep::Hold;
        if class.deleting && !class.held {
            self.classes.remove(name);
        }
        Outcome::done()
    }

    pub fn do_resource(&mut self, seen: &resources::Observed, step: &ResourceStep) -> Outcome {
        if let Some(refusal) = self.refusal(step) {
            return refusal;
        }
        match step {
            ResourceStep::ApplyNamespaceMetadata { metadata, .. } => {
                self.namespace_labels.clone_from(&metadata.labels);
                Outcome::done()
            }
            ResourceStep::PutBackNamespaceMetadata { metadata } => {
                for (key, value) in &metadata.labels {
                    assert_eq!(*value, None, "nobody else labels this namespace");
                    self.namespace_labels.remove(key);
                }
                Outcome::done()
            }
            ResourceStep::KeepNamespaceMetadata { .. } => unreachable!("nobody else labels this namespace"),
            ResourceStep::ForgetNotes { .. } => {
                self.noted = false;
                Outcome::done()
            }
            ResourceStep::Create { identity, manifest, .. } => {
                assert!(is_recorded(seen, step), "made {identity} before the class has recorded its kind");
                self.create(identity, manifest)
            }
            ResourceStep::TakeFields { identity, uid, version, .. } => {
                let Some(object) = self.exactly(identity, uid, version) else { return conflict() };
                object.created = false;
                Outcome::done()
            }
            ResourceStep::Apply { identity, uid, manifest, .. } => {
                assert!(may_be_applied(seen, identity, uid), "applied {identity}, which is not ours");
                self.apply(seen, identity, uid, manifest)
            }
            ResourceStep::Strip { identity, uid, version, manifest, .. } => {
                self.strip(identity, uid, version, manifest)
            }
            ResourceStep::LetGo { identity, uid, version, left, .. } => {
                assert!(left.is_empty() && identity.gives_rights(), "{identity} is held by whom it may");
                self.let_go(seen, identity, uid, version.as_deref())
            }
            ResourceStep::Rehearse { .. } => Outcome::done(),
            ResourceStep::Prune { identity, uid, version, .. } => self.prune(seen, identity, uid, version.as_deref()),
            ResourceStep::Release { identity, uid, version, .. } => {
                let Some(object) = self.exactly(identity, uid, version) else { return conflict() };
                assert!(is_proven(seen, identity, object), "released {identity}, which is not ours");
                assert!(object.made_by_others || keeps(seen, identity, uid), "released {identity}, which should go");
                (object.owner, object.stamp) = (None, None);
                Outcome::done()
            }
            ResourceStep::DeleteBinding { uid, version, .. } => self.delete_binding(seen, uid, version),
        }
    }

    /// What stands in the way of any call about the kind.
    fn refusal(&self, step: &ResourceStep) -> Option<Outcome> {
        step.identity().filter(|identity| is_widget(&identity.name))?;
        match self.widgets {
            Sight::Away => Some(failed(FailureClass::Transient, "ApiServerError")),
            Sight::Forbidden => Some(failed(FailureClass::Forbidden, "Forbidden")),
            // Whether something is gone with its kind is not told by who does not know the kind.
            Sight::NotInstalled(_) => Some(failed(FailureClass::Stale, "NotServed")),
            Sight::Clear | Sight::Frozen(_) | Sight::Unreadable => None,
        }
    }

    /// The object, if it still is exactly the one that was seen.
    fn exactly(&mut self, identity: &Identity, uid: &str, version: &str) -> Option<&mut Object> {
        self.just(identity, uid, Some(version))
    }

    /// As [`World::exactly`], where it matters only as it was at that version.
    fn just(&mut self, identity: &Identity, uid: &str, version: Option<&str>) -> Option<&mut Object> {
        let object = self.objects.get_mut(name_of(identity))?;
        let is_it = object.uid == uid && version.is_none_or(|version| object.version() == version);
        is_it.then(|| Rc::make_mut(object))
    }

    fn create(&mut self, identity: &Identity, manifest: &Value) -> Outcome {
        if self.objects.contains_key(name_of(identity)) {
            return failed(FailureClass::Stale, "AlreadyExists");
        }
        let object = Object {
            uid: self.uid(),
            owner: owner_in(manifest),
            stamp: self.stored_stamp(identity, manifest),
            data: data_in(manifest),
            additions: false,
            created: true,
            immutable: false,
            held: false,
            deleting: false,
            made_by_others: false,
        };
        let answer = answered(&object, manifest);
        self.objects.insert(name_of(identity), Rc::new(object));
        answer
    }

    /// The label as it arrives.
    fn stored_stamp(&self, identity: &Identity, manifest: &Value) -> Option<String> {
        stamp_in(manifest).filter(|_| self.stripped != Some(name_of(identity)))
    }

    /// Everything goes that is not in the manifest, whose values are written with it.
    fn strip(&mut self, identity: &Identity, uid: &str, version: &str, manifest: &Value) -> Outcome {
        let stamp = self.stored_stamp(identity, manifest);
        let Some(object) = self.exactly(identity, uid, version) else { return conflict() };
        if object.owner.is_some() && !object.is_a_bindings() {
            return failed(FailureClass::Rejected, "TwoControllers");
        }
        if object.immutable && object.data != data_in(manifest) {
            return failed(FailureClass::Rejected, "Immutable");
        }
        (object.additions, object.data) = (false, data_in(manifest));
        (object.owner, object.stamp) = (owner_in(manifest), stamp);
        answered(object, manifest)
    }

    /// Server-side apply can be bound to a UID, but not to a version.
    fn apply(&mut self, seen: &resources::Observed, identity: &Identity, uid: &str, manifest: &Value) -> Outcome {
        let stamp = self.stored_stamp(identity, manifest);
        let Some(object) = self.objects.get_mut(name_of(identity)).filter(|object| object.uid == uid) else {
            return conflict();
        };
        let object = Rc::make_mut(object);
        if object.owner.is_some() && !object.is_a_bindings() {
            return failed(FailureClass::Rejected, "TwoControllers");
        }
        // What a create set belongs to it until it is taken over, and an apply that does not set it leaves it.
        let data = data_in(manifest).or_else(|| object.data.clone().filter(|_| object.created));
        if object.immutable && object.data != data {
            return failed(FailureClass::Rejected, "Immutable");
        }
        object.data = data;
        object.owner = owner_in(manifest);
        object.stamp = stamp;
        object.made_by_others &= !is_restored(seen, identity);
        answered(object, manifest)
    }

    fn prune(&mut self, seen: &resources::Observed, identity: &Identity, uid: &str, version: Option<&str>) -> Outcome {
        if !self.objects.contains_key(name_of(identity)) {
            return Outcome::done();
        }
        let Some(object) = self.just(identity, uid, version) else { return conflict() };
        // Without a version it was ours when it was seen, and whoever has changed it since keeps no right by that.
        let was_ours = version.is_none() && identity.gives_rights() && is_on_record(seen, identity, uid);
        assert!(was_ours || is_proven(seen, identity, object), "deleted {identity}, which is not ours");
        assert!(!object.made_by_others, "deleted {identity}, which others made");
        assert!(is_wanted(seen, identity) || !keeps(seen, identity, uid), "deleted {identity}, which is to stay");
        self.delete_object(name_of(identity));
        // One that somebody holds is answered as it is left.
        let left = self.objects.get(name_of(identity)).map(|object| object.uid.clone());
        Outcome::Done { uid: left, witness: None }
    }

    /// What holds it is taken off, and it goes.
    fn let_go(&mut self, seen: &resources::Observed, identity: &Identity, uid: &str, version: Option<&str>) -> Outcome {
        if !self.objects.contains_key(name_of(identity)) {
            return Outcome::done();
        }
        let Some(object) = self.just(identity, uid, version) else { return conflict() };
        assert!(object.deleting, "let go of {identity}, which is not being deleted");
        let was_ours = version.is_none() && is_on_record(seen, identity, uid);
        assert!(was_ours || is_proven(seen, identity, object), "let go of {identity}, which is not ours");
        self.objects.remove(name_of(identity));
        Outcome::done()
    }

    /// What belongs to the binding is collected with it. Nothing may that we can know of, or that is to be kept.
    fn delete_binding(&mut self, seen: &resources::Observed, uid: &str, version: &str) -> Outcome {
        let Some(bound) = &self.binding else { return Outcome::done() };
        if bound.uid != uid || bound.version.to_string() != version {
            return conflict();
        }
        let owned = self.objects.iter().filter(|(_, object)| object.owner.as_deref() == Some(uid) && !object.deleting);
        let mut left = owned.filter(|(name, object)| {
            let is_known = self.can_be_found(name, object) && (!self.is_out_of_sight(name) || self.is_listed(name));
            let may_go = object.stamp.is_none() || !keeps(seen, &identity(name), &object.uid);
            object.made_by_others || is_known || !may_go
        });
        assert_eq!(left.next(), None, "left to the collector");
        self.binding = None;
        Outcome::done()
    }
}

fn answered(object: &Object, manifest: &Value) -> Outcome {
    if object.stamp.is_none() {
        return failed(FailureClass::Rejected, "StampLost");
    }
    Outcome::Done { uid: Some(object.uid.clone()), witness: Some(object.witness(manifest).to_string()) }
}

fn is_recorded(seen: &resources::Observed, step: &ResourceStep) -> bool {
    let ClassSeen::Present(class) = &seen.class else { return false };
    let Some((api_version, kind)) = step.kind_name() else { return false };
    class.recorded_kinds.contains(&(api_version.to_owned(), kind.to_owned()))
}

fn is_on_record(seen: &resources::Observed, identity: &Identity, uid: &str) -> bool {
    seen.binding.status.applied(identity).is_some_and(|known| known.uid.as_deref() == Some(uid))
}

/// Whether the class has such an item: what is wanted may be deleted to be made anew.
fn is_wanted(seen: &resources::Observed, identity: &Identity) -> bool {
    matches!(&seen.class, ClassSeen::Present(class) if class.items.iter().any(|item| item.identity == *identity))
}

/// Whether the class it came from says that such an object stays, or it was nobody's when we took it.
fn keeps(seen: &resources::Observed, identity: &Identity, uid: &str) -> bool {
    let in_force = seen.binding.status.observed_class_name.as_ref().unwrap_or(&seen.binding.class);
    let unstamped = (in_force, seen.orphan_unstamped);
    let recorded = seen.binding.status.applied(identity).filter(|known| known.uid.as_deref() == Some(uid));
    let recorded = recorded.and_then(|known| known.class.as_ref());
    let (of_class, on_unbind) = match (seen.stamped.get(identity), recorded) {
        (None, _) => unstamped,
        (Some(_), Some(class)) => (class, seen.keeping.contains(class)),
        (Some(object), None) => (&object.class, object.orphan),
    };
    let orphans = match &seen.class {
        ClassSeen::Present(class) if class.deleting && class.name == *of_class && !seen.namespace.unlabelled => {
            class.policy.orphan_on_class_delete
        }
        _ => on_unbind,
    };
    let is_this = |applied: &Applied| applied.adopted && applied.uid.as_deref() == Some(uid);
    orphans || seen.binding.status.applied(identity).is_some_and(is_this)
}

/// Whether an object is ours: a binding controls it, or it carries our stamp, nobody controls it, and it is on record.
fn is_proven(seen: &resources::Observed, identity: &Identity, object: &Object) -> bool {
    let is_nobodys = object.owner.is_none() && object.stamp.is_some();
    object.is_a_bindings() || (is_nobodys && is_on_record(seen, identity, &object.uid))
}

/// Whether it carries the stamp without an owner under a binding that has never been in force: a backup brought it back.
fn is_restored(seen: &resources::Observed, identity: &Identity) -> bool {
    let is_nobodys = seen.stamped.get(identity).is_some_and(|object| object.owner == Owner::Nobody);
    let adopts = matches!(&seen.class, ClassSeen::Present(class) if class.policy.adopt);
    is_nobodys && seen.binding.status.observed_class_name.is_none() && !adopts
}

/// Whether what was seen of an object allows to apply it: a binding's, on record as ours, or brought back.
fn may_be_applied(seen: &resources::Observed, identity: &Identity, uid: &str) -> bool {
    let stamped = seen.stamped.get(identity).filter(|object| object.uid == uid).map(|object| &object.owner);
    let read = seen.read.get(identity).and_then(Option::as_ref).filter(|object| object.uid == uid);
    match stamped.or(read.map(|object| &object.owner)) {
        Some(Owner::ThisBinding | Owner::FormerBinding) => true,
        Some(Owner::Nobody) => is_on_record(seen, identity, uid) || is_restored(seen, identity),
        Some(Owner::Other) | None => false,
    }
}
