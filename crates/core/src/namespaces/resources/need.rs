//! What one wanted object needs, by what there is of it.

use super::{Class, Identity, KindSeen, Observed, Owner, Read, Removal, ResourceStep, Stamped, report};
use crate::namespaces::{
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
            return Need::Blocked(Obstacle::BeingDeleted);
        }
        if !self.is_ours(&item.identity, &object.uid, &object.owner) && !self.is_restored(item, object, class) {
            return self.need_of_foreign(item, &object.uid, &object.owner, read, class);
        }
        if let Some(known) = self.applied_as(item) {
            if known.content == object.content {
                return Need::Nothing;
            }
            let shown = read.and_then(|read| Some((&read.version, read.witness.as_ref()?)));
            if let Some((version, shown)) = shown.filter(|(_, shown)| shown.fields == known.fields) {
                // The watch may show another version of the API: what it shows is vouched for if it is what was read.
                let content = if *version == object.version { &object.content } else { &shown.content };
                return Need::Vouch(Fingerprint { content, ..known }.to_string());
            }
            if class.policy.report_drift {
                return Need::Blocked(Obstacle::Drifted { change: change(read) });
            }
        }
        if self.may_make_anew(&item.identity, class) && self.must_be_made_anew(&item.identity, &object.uid, read) {
            let (uid, version) = (&object.uid, &object.version);
            let prune = ResourceStep::prune(&item.identity, &item.api_version, uid, version, Removal::Anew);
            return Need::Steps(vec![ResourceStep::rehearse(item), prune]);
        }
        let take = read.filter(|_| self.shape_changed(item)).and_then(|read| ResourceStep::take_fields(item, read));
        let (strip, apply) = (self.strip(item, read), ResourceStep::apply(item, &object.uid));
        Need::Steps(take.into_iter().chain(strip).chain([apply]).collect())
    }

    /// What cannot be taken away stays: a volume is bound to its claim for good. What was refused by itself is tried with the
    /// class's values: neither half of a Service that was made an alias can be undone without the other.
    fn strip(&self, item: &Rendered, read: Option<&Read>) -> Option<ResourceStep> {
        let can_strip = !self.recorded(&item.identity).is_some_and(report::failed_on_immutable);
        let strip = read.filter(|_| can_strip).and_then(|read| ResourceStep::strip(item, read))?;
        Some(if self.was_refused(&item.identity) { strip.with_values_of(item) } else { strip })
    }

    /// Whether an object goes where it cannot be changed in place. What was somebody else's does not.
    pub(super) fn may_make_anew(&self, identity: &Identity, class: &Class) -> bool {
        // Another role is another right: the old one is not kept because of its name.
        let must_go = class.policy.recreate_immutable || identity.gives_rights();
        must_go && !self.recorded(identity).is_some_and(|known| known.adopted)
    }

    /// Whether this very object could not be changed in place: one made since then is another one. That a role cannot be
    /// changed is told only to who may give the new one; so what was refused goes where it gives what the class does not.
    fn must_be_made_anew(&self, identity: &Identity, uid: &str, read: Option<&Read>) -> bool {
        let this = self.recorded(identity).filter(|known| known.uid.as_deref() == Some(uid));
        let gives_more = identity.gives_rights() && read.is_some_and(|read| read.gives_more);
        this.is_some_and(|known| report::failed_on_immutable(known) || (known.state == State::Failed && gives_more))
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
            return Need::Blocked(Obstacle::BeingDeleted);
        }
        if !object.owner.is_a_binding() {
            return self.need_of_foreign(item, &object.uid, &object.owner, Some(object), class);
        }
        taken_over(item, &object.uid, Some(object))
    }

    fn need_of_foreign(&self, item: &Rendered, uid: &str, owner: &Owner, read: Option<&Read>, class: &Class) -> Need {
        let announced = self.is_adopted(&item.identity, uid);
        match owner {
            Owner::Nobody if class.policy.adopt && announced => taken_over(item, uid, read),
            Owner::Nobody if class.policy.replace && read.is_some() => {
                let (strip, apply) = (self.strip(item, read), ResourceStep::apply(item, uid));
                Need::Steps(strip.into_iter().chain([apply]).collect())
            }
            Owner::Nobody if class.policy.adopt => Need::Blocked(Obstacle::ToAdopt { uid: uid.to_owned() }),
            Owner::Nobody => Need::Blocked(Obstacle::NotOurs),
            Owner::ThisBinding | Owner::FormerBinding | Owner::Other => Need::Blocked(Obstacle::Controlled),
        }
    }
}

/// Applied, after the fields of a plain create of ours have become those of an apply.
fn taken_over(item: &Rendered, uid: &str, read: Option<&Read>) -> Need {
    let take = read.and_then(|read| ResourceStep::take_fields(item, read));
    Need::Steps(take.into_iter().chain([ResourceStep::apply(item, uid)]).collect())
}

/// Who changed what, as far as the object tells: whoever may write it may write anything there.
pub(super) fn change(read: Option<&Read>) -> String {
    let by = read.and_then(|read| read.changed_by.as_deref());
    let by = by.map_or_else(|| "somebody".to_owned(), |manager| format!("field manager {}", quoted(manager)));
    let field = read.and_then(|read| read.changed_field.as_deref()).unwrap_or("what the class sets");
    format!("{by} changed {field}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        namespaces::resources::{ClassSeen, plan},
        plan::{Failure, FailureClass, Outcome, Step, may_begin},
    };

    /// A binding whose only object was refused with these words.
    fn refused(group: &str, kind: &str, message: &str) -> (Observed, Identity) {
        let identity = Identity { group: group.into(), kind: kind.into(), name: "given".into() };
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let item = Rendered { identity: identity.clone(), api_version: api_version.clone(), ..Rendered::default() };
        let kind_name = (api_version.clone(), kind.to_owned());
        let mut class = Class { items: vec![item], recorded_kinds: [kind_name.clone()].into(), ..Class::default() };
        class.policy.recreate_immutable = true;
        let mut seen = Observed { class: ClassSeen::Present(class), ..Observed::default() };
        seen.kinds.insert(kind_name, KindSeen::Namespaced);
        seen.stamped
            .insert(identity.clone(), Stamped { uid: "u".into(), owner: Owner::ThisBinding, ..Stamped::default() });
        seen.binding.status.applied_resources = vec![Applied {
            api_version,
            kind: kind.into(),
            name: "given".into(),
            uid: Some("u".into()),
            state: State::Failed,
            message: Some(message.into()),
            ..Applied::default()
        }];
        (seen, identity)
    }

    const RBAC: &str = "rbac.authorization.k8s.io";

    #[test]
    fn a_right_that_is_given_no_more_goes_although_the_new_one_would_not_be_accepted() {
        let goes = |group: &str, kind: &str| {
            let (seen, _) = refused(group, kind, "cannot be changed in place: no");
            let plan = plan(&seen);
            let steps: Vec<_> = plan.iter().collect();
            let [rehearse, prune] = steps.as_slice() else { panic!("{plan}") };
            assert_eq!((rehearse.kind(), prune.kind()), ("Rehearse", "Prune"));
            let full = Failure::new(FailureClass::Rejected, "QuotaExceeded", "full");
            may_begin(*prune, &[(*rehearse, Outcome::Failed(full))])
        };
        assert!(goes(RBAC, "RoleBinding"));
        assert!(!goes("", "Service"), "what gives no right stays");
    }

    #[test]
    fn what_may_not_be_given_is_taken_away_where_it_gives_what_the_class_does_not() {
        let (mut seen, identity) = refused(RBAC, "RoleBinding", "not currently held");
        assert!(seen.to_read().iter().any(|(_, asked)| *asked == identity) && seen.shown_by(&identity).is_some());
        let mut kinds = |gives_more: bool| {
            let read = Read { uid: "u".into(), owner: Owner::ThisBinding, gives_more, ..Read::default() };
            seen.read.insert(identity.clone(), Some(read));
            plan(&seen).iter().map(Step::kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(true), ["Rehearse", "Prune"]);
        assert_eq!(kinds(false), ["Apply"], "what is missing is given when it may be");
        let (seen, _) = refused("", "ConfigMap", "not currently held");
        assert!(seen.to_read().is_empty());
    }
}
