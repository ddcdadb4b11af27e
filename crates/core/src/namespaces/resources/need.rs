//! What one wanted object needs, by what there is of it.

use super::{
    Class, Identity, KindSeen, Observed, Owner, Read, Removal, ResourceStep, Stamped, report,
    stuck::{is_stuck, rest_of},
};
use crate::namespaces::{
    excess::{Extent, finalizers_left},
    inventory::{Applied, Fingerprint, State},
    manifest::Rendered,
    template::quoted,
};

/// What stands between a wanted object and its being applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    ClusterScoped,
    NotInstalled,
    /// The version the class uses is no longer served, another one is.
    Moved {
        to: String,
    },
    Forbidden {
        resource: String,
    },
    NotOurs,
    Controlled,
    BeingDeleted,
    /// Reported, not corrected.
    Drifted {
        change: String,
    },
    /// Somebody keeps changing it: left as it is for a while.
    Contested {
        message: String,
    },
    /// What there is under its name cannot be told.
    Unobservable {
        why: String,
    },
    /// Nobody's, and to be taken over: recorded first, so that it is released later even if we die in between.
    ToAdopt {
        uid: String,
    },
}

/// What one wanted object needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Need {
    /// The inventory vouches for it.
    Nothing,
    /// Somebody changed it, but nothing of ours: this is its fingerprint now.
    Vouch(String),
    Blocked(Obstacle),
    Steps(Vec<ResourceStep>),
}

impl Observed {
    fn need(&self, item: &Rendered, class: &Class) -> Need {
        match self.kind_of(item) {
            KindSeen::ClusterScoped => Need::Blocked(Obstacle::ClusterScoped),
            KindSeen::NotInstalled => Need::Blocked(Obstacle::NotInstalled),
            KindSeen::Moved { to } => Need::Blocked(Obstacle::Moved { to: to.clone() }),
            KindSeen::Forbidden { resource } => Need::Blocked(Obstacle::Forbidden { resource: resource.clone() }),
            KindSeen::Unobservable { why } => Need::Blocked(Obstacle::Unobservable { why: why.clone() }),
            KindSeen::Namespaced if self.unreadable.contains_key(&item.identity) => {
                let why = self.unreadable.get(&item.identity).cloned().unwrap_or_default();
                Need::Blocked(Obstacle::Unobservable { why })
            }
            KindSeen::Namespaced => match (self.stamped.get(&item.identity), self.read.get(&item.identity)) {
                (Some(object), read) => self.need_of_stamped(item, object, read.and_then(Option::as_ref), class),
                (None, Some(Some(object))) => self.need_of_unstamped(item, object, class),
                (None, _) => Need::Steps(vec![ResourceStep::create(item)]),
            },
        }
    }

    /// As [`Observed::need`], but for what is left as it is for a while.
    pub(super) fn need_now(&self, item: &Rendered, class: &Class) -> Need {
        match (self.need(item, class), self.contested(item, class)) {
            (Need::Steps(_), Some(message)) => Need::Blocked(Obstacle::Contested { message }),
            (need, _) => need,
        }
    }

    fn need_of_stamped(&self, item: &Rendered, object: &Stamped, read: Option<&Read>, class: &Class) -> Need {
        if !self.can_be_put_right(item, object) {
            let is_ours = self.is_ours(&item.identity, &object.uid, &object.owner);
            return self.need_of_ending(item, (&object.uid, &object.version), is_ours, read);
        }
        if !self.is_ours(&item.identity, &object.uid, &object.owner) && !self.is_restored(item, object, class) {
            return self.need_of_foreign(item, &object.uid, &object.owner, read, class);
        }
        if let Some(known) = self.applied_as(item) {
            if known.content == object.content && self.dropping(item).is_none() {
                return Need::Nothing;
            }
            if let Some(read) = read.filter(|read| read.shows(known)) {
                return self.need_of_right(item, object, read, known);
            }
            if known.content == object.content {
                return Need::Nothing;
            }
            if class.policy.report_drift {
                return Need::Blocked(Obstacle::Drifted { change: change(read) });
            }
        }
        if let Some(known) = self.applied_otherwise(item).filter(|_| class.policy.report_drift) {
            return need_of_reported(item, object, read, known);
        }
        if self.may_make_anew(&item.identity, class) && self.must_be_made_anew(&item.identity, &object.uid, read) {
            return anew(item, &object.uid, &object.version);
        }
        let take = read.filter(|_| self.shape_changed(item)).and_then(|read| ResourceStep::take_fields(item, read));
        after(take, self.put_right(item, &object.uid, read))
    }

    /// What it was applied as is still so: what somebody changed is nothing of ours, but something of ours may be left in it.
    fn need_of_right(&self, item: &Rendered, object: &Stamped, read: &Read, known: Fingerprint<'_>) -> Need {
        let rest = read.excess.clone().filter(|_| self.dropping(item).is_some());
        // What was found that it cannot go stays, and nothing else.
        let stuck = self.recorded(&item.identity).filter(|known| is_stuck(known));
        let rest = rest.and_then(|rest| stuck.map_or(Some(rest.clone()), |known| rest_of(&rest, known)));
        if let Some(rest) = rest {
            return Need::Steps(vec![ResourceStep::take_away(item, read, rest)]);
        }
        // The watch may show another version of the API: what it shows is vouched for if it is what was read.
        let shown = read.witness.as_ref().map_or("", |shown| shown.content.as_str());
        let content = if read.version == object.version { &object.content } else { shown };
        let shape = if self.dropping(item).is_some() { &item.shape } else { known.shape };
        Need::Vouch(Fingerprint { shape, content, ..known }.to_string())
    }

    /// What there is goes, and is made anew once it is gone. A right is not held until others let go of it: it may be another
    /// one than the class gives. Nor is what never was the class's, once it was deleted: nobody can hold it again then.
    fn need_of_ending(
        &self,
        item: &Rendered,
        (uid, version): (&str, &str),
        is_ours: bool,
        read: Option<&Read>,
    ) -> Need {
        let identity = &item.identity;
        let let_go = |version, left| {
            Need::Steps(vec![ResourceStep::let_go(identity, &item.api_version, uid, Some(version), left)])
        };
        if identity.gives_rights() && is_ours && !self.is_adopted(identity, uid) {
            return let_go(version, Vec::new());
        }
        let read = read.filter(|read| read.uid == uid && self.is_being_replaced(identity, uid));
        match read.and_then(|read| Some((read, finalizers_left(read.excess.as_ref()?)?))) {
            Some((read, left)) => let_go(read.version.as_str(), left),
            None => Need::Blocked(Obstacle::BeingDeleted),
        }
    }

    /// What makes an object what the class says. Where nothing else is to be in it, the rest goes with the values of the class: what
    /// is answered is then all there may be, and neither half of a Service that was made an alias can be undone without the other.
    /// Where others may add, what the class has dropped goes only after the rest was accepted.
    fn put_right(&self, item: &Rendered, uid: &str, read: Option<&Read>) -> Need {
        let apply = ResourceStep::apply(item, uid, self.dropping(item));
        let (excess, extent) =
            (read.and_then(|read| Some((read, read.excess.clone()?))), self.extent_of(&item.identity));
        let stuck = self.known_of(&item.identity, uid).filter(|known| is_stuck(known));
        Need::Steps(match excess {
            None => vec![apply],
            Some((read, dropped)) if extent.is_none() && self.was_refused(&item.identity) => {
                vec![ResourceStep::exchange(item, read, dropped), apply]
            }
            Some(_) if extent.is_none() => vec![apply],
            // Who has locked what was never the class's, or made it what it stays for good, gets no further with it: it is made anew.
            Some((read, _))
                if extent == Some(Extent::Whole)
                    && (read.is_locked
                        || (stuck.is_some_and(|known| !known.adopted) && holds_nothing(&item.identity))) =>
            {
                return anew(item, uid, &read.version);
            }
            Some((read, excess)) => match stuck.filter(|_| !read.is_locked) {
                // What the cluster itself set for good stays, and nothing else.
                Some(known) => {
                    let rest = rest_of(&excess, known).map(|rest| ResourceStep::take_away(item, read, rest));
                    rest.into_iter().chain([apply]).collect()
                }
                None => vec![ResourceStep::strip(item, read, excess), apply],
            },
        })
    }

    /// Whether an object goes where it cannot be changed in place. What was somebody else's does not.
    pub(super) fn may_make_anew(&self, identity: &Identity, class: &Class) -> bool {
        // Another role is another right: the old one is not kept because of its name.
        let must_go = class.policy.recreate_immutable || identity.gives_rights();
        must_go && !self.recorded(identity).is_some_and(|known| known.adopted)
    }

    /// Whether this very object could not be changed in place. That a role cannot be changed is told only to who may give the new one;
    /// so what was refused goes where it gives what the class does not.
    fn must_be_made_anew(&self, identity: &Identity, uid: &str, read: Option<&Read>) -> bool {
        let is_whole = self.extent_of(identity) == Some(Extent::Whole);
        let gives_more = identity.gives_rights() && read.is_some_and(|read| read.gives_more);
        let is_locked = read.is_some_and(|read| read.is_locked);
        self.known_of(identity, uid).is_some_and(|known| {
            report::failed_on_immutable(known)
                || (is_stuck(known) && (is_locked || (is_whole && holds_nothing(identity))))
                || (known.state == State::Failed && gives_more)
        })
    }

    /// What is on record about this very object.
    fn known_of(&self, identity: &Identity, uid: &str) -> Option<&Applied> {
        self.recorded(identity).filter(|known| known.is_about(uid))
    }

    /// Whether this very object never was the class's and was deleted to be made anew.
    pub(super) fn is_being_replaced(&self, identity: &Identity, uid: &str) -> bool {
        self.recorded(identity).is_some_and(|known| known.has_replaced(uid))
    }

    /// What is on record about the item, if it is its present form that was applied.
    pub(super) fn applied_as(&self, item: &Rendered) -> Option<Fingerprint<'_>> {
        let known = self.recorded(&item.identity).and_then(Applied::fingerprint);
        known.filter(|known| known.manifest == item.digest)
    }

    /// What a backup brought back under a binding that has never been in force: stamped by this class, but without an
    /// owner, since no owner of then exists any more. Anybody may have made it look so, and nothing of it is to stay.
    pub(super) fn is_restored(&self, item: &Rendered, object: &Stamped, class: &Class) -> bool {
        let new = self.binding.status.observed_class_name.is_none() && self.recorded_uid(&item.identity).is_none();
        new && object.owner == Owner::Nobody && object.class == class.name && !class.policy.adopt
    }

    /// An object without the stamp under a name we want.
    fn need_of_unstamped(&self, item: &Rendered, object: &Read, class: &Class) -> Need {
        if object.deleting {
            // Stripped of stamp and owner it has been released.
            let is_ours = object.owner.is_a_binding();
            return self.need_of_ending(item, (&object.uid, &object.version), is_ours, Some(object));
        }
        if !object.owner.is_a_binding() {
            return self.need_of_foreign(item, &object.uid, &object.owner, Some(object), class);
        }
        if self.may_make_anew(&item.identity, class)
            && self.must_be_made_anew(&item.identity, &object.uid, Some(object))
        {
            return anew(item, &object.uid, &object.version);
        }
        self.taken_over(item, &object.uid, Some(object))
    }

    fn need_of_foreign(&self, item: &Rendered, uid: &str, owner: &Owner, read: Option<&Read>, class: &Class) -> Need {
        let announced = self.is_adopted(&item.identity, uid);
        match owner {
            Owner::Nobody if class.policy.adopt && announced => self.taken_over(item, uid, read),
            Owner::Nobody if class.policy.replace => match read {
                Some(read)
                    if self.may_make_anew(&item.identity, class)
                        && self.must_be_made_anew(&item.identity, uid, Some(read)) =>
                {
                    anew(item, uid, &read.version)
                }
                Some(_) => self.put_right(item, uid, read),
                None => Need::Blocked(Obstacle::NotOurs),
            },
            Owner::Nobody if class.policy.adopt => Need::Blocked(Obstacle::ToAdopt { uid: uid.to_owned() }),
            Owner::Nobody => Need::Blocked(Obstacle::NotOurs),
            Owner::ThisBinding | Owner::FormerBinding | Owner::Other => Need::Blocked(Obstacle::Controlled),
        }
    }

    /// Applied, after the fields of a plain create of ours have become those of an apply.
    fn taken_over(&self, item: &Rendered, uid: &str, read: Option<&Read>) -> Need {
        let take = read.and_then(|read| ResourceStep::take_fields(item, read));
        after(take, self.put_right(item, uid, read))
    }
}

/// Deletes an object so that it is made anew, once that is known to be accepted.
fn anew(item: &Rendered, uid: &str, version: &str) -> Need {
    let prune = ResourceStep::prune(&item.identity, &item.api_version, uid, Some(version), Removal::Anew);
    Need::Steps(vec![ResourceStep::rehearse(item), prune])
}

/// Whether an object is no more than its manifest says: with another one of its name nothing is lost.
fn holds_nothing(identity: &Identity) -> bool {
    identity.group.is_empty()
        && matches!(identity.kind.as_str(), "ConfigMap" | "LimitRange" | "ResourceQuota" | "Secret")
}

/// Only what is applied and nothing else needs something done before: everything else goes by the version that was read.
fn after(first: Option<ResourceStep>, then: Need) -> Need {
    match then {
        Need::Steps(steps) if matches!(steps.as_slice(), [ResourceStep::Apply { .. }]) => {
            Need::Steps(first.into_iter().chain(steps).collect())
        }
        then => then,
    }
}

/// Where drift is only reported, an object stays as it is although something else counts as set from now on. What of it was
/// changed before cannot be told.
fn need_of_reported(item: &Rendered, object: &Stamped, read: Option<&Read>, known: Fingerprint<'_>) -> Need {
    if known.content != object.content {
        return Need::Blocked(Obstacle::Drifted { change: change(read) });
    }
    let shown = read.filter(|read| read.version == object.version).and_then(|read| read.witness.as_ref());
    shown.map_or(Need::Nothing, |shown| {
        Need::Vouch(Fingerprint { manifest: &item.digest, fields: &shown.fields, ..known }.to_string())
    })
}

impl Read {
    /// Whether it is, as far as the class sets it, what is on record.
    fn shows(&self, known: Fingerprint<'_>) -> bool {
        self.witness.as_ref().is_some_and(|shown| shown.fields == known.fields)
    }
}

/// Who changed what, as far as the object tells: whoever may write it may write anything there.
pub(super) fn change(read: Option<&Read>) -> String {
    let by = read.and_then(|read| read.changed_by.as_deref());
    let by = by.map_or_else(|| "somebody".to_owned(), |manager| format!("field manager {}", quoted(manager)));
    let field = read.and_then(|read| read.changed_field.as_deref()).unwrap_or("what the class sets");
    format!("{by} changed {field}")
}

#[cfg(test)]
mod tests;
