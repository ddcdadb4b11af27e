//! What the API server makes of each step, preconditions included. Panics as soon as one breaks a promise.

use std::rc::Rc;

use croft_core::{
    namespaces::{
        binding::BindingStep,
        inventory::Status,
        manifest::Identity,
        resources::{self, Owner, ResourceStep},
    },
    plan::{Failure, FailureClass, Outcome},
};
use serde_json::Value;

use crate::world::{Bound, NAMES, Object, World};

fn failed(reason: &'static str) -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::Stale, reason, "refused"))
}

fn refused(reason: &'static str) -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::Rejected, reason, "refused"))
}

fn name_of(identity: &Identity) -> &'static str {
    NAMES.into_iter().find(|name| *name == identity.name).expect("a name of this world")
}

fn owner_in(manifest: &Value) -> Option<String> {
    manifest["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned)
}

fn class_in(manifest: &Value) -> String {
    manifest["metadata"]["labels"]["namespaceclass.akuity.io/class"].as_str().unwrap().to_owned()
}

impl World {
    pub fn do_binding(&mut self, step: &BindingStep) -> Outcome {
        match (step, &mut self.binding) {
            (BindingStep::CreateBinding { .. }, Some(_)) => return failed("AlreadyExists"),
            (BindingStep::CreateBinding { class, .. }, None) => {
                let (uid, class) = (self.uid(), class.clone());
                self.binding = Some(Bound::new(uid, class, Status::default()));
            }
            (BindingStep::Rebind { uid, version, to, .. }, Some(bound))
                if bound.uid == *uid && bound.version.to_string() == *version =>
            {
                *bound = Bound::new(uid.clone(), to.clone(), Status::clone(&bound.status));
            }
            (BindingStep::Rebind { .. }, _) => return failed("Conflict"),
        }
        Outcome::done()
    }

    pub fn do_resource(&mut self, seen: &resources::Observed, step: &ResourceStep) -> Outcome {
        match step {
            ResourceStep::ApplyNamespaceMetadata { metadata } => {
                self.namespace_labels.clone_from(&metadata.labels);
                Outcome::done()
            }
            ResourceStep::Create { identity, manifest, digest, .. } => self.create(identity, manifest, digest),
            ResourceStep::TakeFields { identity, uid, version, .. } => {
                let Some(object) = self.exactly(identity, uid, version) else { return failed("Conflict") };
                object.created = false;
                object.tell();
                Outcome::done()
            }
            ResourceStep::Apply { identity, uid, manifest, digest, .. } => {
                assert!(may_be_applied(seen, identity, uid), "applied {identity}, which is not ours");
                self.apply(identity, uid, manifest, digest)
            }
            ResourceStep::Prune { identity, uid, version, .. } => {
                if !self.objects.contains_key(name_of(identity)) {
                    return Outcome::done();
                }
                let Some(object) = self.exactly(identity, uid, version) else { return failed("Conflict") };
                assert!(!object.made_by_others, "deleted {identity}, which others made");
                self.objects.remove(name_of(identity));
                Outcome::done()
            }
            ResourceStep::Release { identity, uid, version, .. } => {
                let Some(object) = self.exactly(identity, uid, version) else { return failed("Conflict") };
                object.owner = None;
                object.labelled = false;
                Outcome::done()
            }
            ResourceStep::DeleteBinding { uid, version, .. } => self.delete_binding(uid, version),
        }
    }

    /// The object, if it still is exactly the one that was seen.
    fn exactly(&mut self, identity: &Identity, uid: &str, version: &str) -> Option<&mut Object> {
        let object = self.objects.get_mut(name_of(identity))?;
        (object.uid == uid && object.version() == version).then(|| Rc::make_mut(object))
    }

    fn create(&mut self, identity: &Identity, manifest: &Value, digest: &str) -> Outcome {
        if self.objects.contains_key(name_of(identity)) {
            return failed("AlreadyExists");
        }
        let uid = self.uid();
        let mut object = Object {
            uid: uid.clone(),
            owner: owner_in(manifest),
            labelled: true,
            class: class_in(manifest),
            content: digest.to_owned(),
            additions: 0,
            entry: 0,
            suspect: false,
            created: true,
            immutable: false,
            made_by_others: false,
        };
        object.tell();
        let witness = Some(object.entry.to_string());
        self.objects.insert(name_of(identity), Rc::new(object));
        Outcome::Done { uid: Some(uid), witness }
    }

    fn apply(&mut self, identity: &Identity, uid: &str, manifest: &Value, digest: &str) -> Outcome {
        let owner = owner_in(manifest);
        let Some(object) = self.objects.get_mut(name_of(identity)).filter(|object| object.uid == uid) else {
            return failed("Conflict");
        };
        let object = Rc::make_mut(object);
        if object.owner.is_some() && !object.is_a_bindings() {
            return refused("TwoControllers");
        }
        if object.immutable && object.content != digest {
            return refused("Immutable");
        }
        object.suspect = false;
        object.owner = owner;
        object.labelled = true;
        object.class = class_in(manifest);
        digest.clone_into(&mut object.content);
        object.tell();
        Outcome::Done { uid: Some(object.uid.clone()), witness: Some(object.entry.to_string()) }
    }

    fn delete_binding(&mut self, uid: &str, version: &str) -> Outcome {
        let Some(bound) = &self.binding else { return Outcome::done() };
        if bound.uid != uid || bound.version.to_string() != version {
            return failed("Conflict");
        }
        let mut owned = self.objects.iter().filter(|(_, object)| object.owner.as_deref() == Some(uid));
        let left = owned.find(|(name, object)| self.can_be_found(name, object));
        assert_eq!(left, None, "left to the collector");
        self.binding = None;
        Outcome::done()
    }
}

/// Whether what was seen of an object allows to apply it: a binding's, on record as ours, or nobody's where the class
/// says so. Server-side apply can be bound to a UID, but not to a version.
fn may_be_applied(seen: &resources::Observed, identity: &Identity, uid: &str) -> bool {
    let stamped = seen.stamped.get(identity).filter(|object| object.uid == uid).map(|object| &object.owner);
    let read = seen.read.get(identity).and_then(Option::as_ref).filter(|object| object.uid == uid);
    let recorded = seen.binding.status.applied(identity).is_some_and(|known| known.uid.as_deref() == Some(uid));
    // A backup restores stamped objects under a binding that has never been in force.
    let restored = stamped.is_some() && seen.binding.status.observed_class_name.is_none();
    match stamped.or(read.map(|object| &object.owner)) {
        Some(Owner::ThisBinding | Owner::FormerBinding) => true,
        Some(Owner::Nobody) => recorded || restored,
        Some(Owner::Other) | None => false,
    }
}
