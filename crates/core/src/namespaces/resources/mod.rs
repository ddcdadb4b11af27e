//! Binding -> resources: everything the class wants is there, nothing it no longer wants, and nothing foreign is touched.
//!
//! Order of safety: the class has recorded its kinds before the first object of a kind is made, so that a watch covers
//! everything that may exist; then make, rank by rank; and only when all of it stands remove what is no longer wanted (make
//! before break). Rights that the class does not give any more are the exception: they go first, whatever else is in the way.
//!
//! A binding that is not wanted any more goes last, when everything it owned is gone; the owner references
//! are the safety net for the day the operator is not there.
//!
//! Nothing is read to find drift: the watch tells a digest of the content, the inventory remembers it. See [`super::witness`].
//!
//! One bad thing blocks itself only: an item, or a kind that cannot be observed.

mod contest;
mod extent;
mod leftovers;
mod namespace;
mod need;
mod observed;
mod report;
mod step;
mod stuck;
mod telling;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use self::{
    contest::Contests,
    observed::{
        Binding, Class, ClassSeen, KindName, KindSeen, Namespace, NamespaceChanges, NamespaceMetadata, Owner, Policy,
        Read, Stamped, Withheld,
    },
    report::{Blocked, blocked_items, report},
    step::{Removal, ResourceStep, Unwanted},
    telling::{Held, Routine, Telling, current, tell},
};
use self::{leftovers::removals, need::Need};
use super::{
    binding::CLASS_LABEL,
    blueprint::Misfit,
    inventory::{Applied, State},
    manifest::{Identity, Rendered, rank},
};
use crate::plan::Plan;

/// Before every rank of [`rank`], and behind.
const FIRST: u8 = 0;
const LAST: u8 = u8::MAX;

/// What is known about one binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub namespace: Namespace,
    pub binding: Binding,
    pub class: ClassSeen,
    /// The class the namespace's label names now, if that is not the binding's and does not exist.
    pub unknown_class: Option<String>,
    /// The kinds the class uses.
    pub kinds: BTreeMap<KindName, KindSeen>,
    /// Objects in the namespace that carry the stamp, from the watches.
    pub stamped: BTreeMap<Identity, Stamped>,
    /// Objects whose stamp somebody took away are kept when they are no longer wanted: so says the class they came from.
    pub orphan_unstamped: bool,
    /// Classes on record here whose objects are kept when they are no longer wanted.
    pub keeping: BTreeSet<String>,
    /// What wanted objects were last applied as, where that had another shape; as far as it is still known.
    pub former: BTreeMap<Identity, Rendered>,
    /// Objects read just now, because [`Observed::to_read`] asked for them; `None` where there is none.
    pub read: BTreeMap<Identity, Option<Read>>,
    /// Objects that could not be read, and why.
    pub unreadable: BTreeMap<Identity, String>,
    /// Objects that were put right too often lately, and for how long they are left as they are: see [`Contests`].
    pub resting: BTreeMap<Identity, Duration>,
}

impl Observed {
    fn recorded(&self, identity: &Identity) -> Option<&Applied> {
        self.binding.status.applied(identity)
    }

    /// All that is on record, for whoever asks about many objects.
    fn records(&self) -> Records<'_> {
        // Of several about one object the first counts, as in [`Observed::recorded`].
        self.binding.status.applied_resources.iter().rev().map(|applied| (applied.identity(), applied)).collect()
    }

    fn recorded_uid(&self, identity: &Identity) -> Option<&str> {
        self.recorded(identity)?.uid.as_deref()
    }

    fn is_adopted(&self, identity: &Identity, uid: &str) -> bool {
        is_adopted(self.recorded(identity), uid)
    }

    fn is_ours(&self, identity: &Identity, uid: &str, owner: &Owner) -> bool {
        is_ours(self.recorded(identity), uid, owner)
    }

    fn kind_of(&self, item: &Rendered) -> &KindSeen {
        // There are few.
        let mut kinds = self.kinds.iter();
        kinds.find(|(name, _)| is_kind_of(name, item)).map_or(&KindSeen::NotInstalled, |(_, seen)| seen)
    }

    /// Why the binding has to go, if it has to.
    fn unwanted_because(&self) -> Option<Unwanted> {
        match &self.class {
            // Only the class can tell of which kinds there may be objects that are not recorded yet.
            ClassSeen::Unreadable => None,
            _ if self.namespace.unlabelled => Some(Unwanted::LabelRemoved),
            ClassSeen::Gone => Some(Unwanted::ClassDeleted),
            ClassSeen::Present(class) if class.deleting && !class.policy.block_class_delete => {
                Some(Unwanted::ClassDeleted)
            }
            ClassSeen::Present(_) => None,
        }
    }

    /// What the namespace's label says; nothing where it has none.
    fn label(&self) -> &str {
        self.namespace.labels.get(CLASS_LABEL).map_or("", String::as_str)
    }

    /// The class the label names, where the binding does not follow although there is one: it is on its way out.
    fn class_on_its_way_out(&self) -> Option<&str> {
        let named = self.label();
        let is_another = !named.is_empty() && named != self.binding.class;
        (is_another && !self.namespace.relabelled && self.unknown_class.is_none()).then_some(named)
    }

    /// The binding is about to follow the label: namespaces of the system do not, whatever their label names.
    fn is_about_to_rebind(&self) -> bool {
        self.namespace.relabelled && !self.namespace.system
    }

    /// The items wanted now; none if the binding goes.
    fn wanted(&self) -> &[Rendered] {
        match &self.class {
            ClassSeen::Present(class) if self.unwanted_because().is_none() => &class.items,
            _ => &[],
        }
    }

    /// The namespace or the binding is on its way out, or the binding on its way to another class.
    fn is_not_ours_to_touch(&self) -> bool {
        self.namespace.terminating || self.is_about_to_rebind() || self.binding.deleting
    }

    /// With its kind an object is gone, though a watch that was not told shows it as it was.
    pub fn forget_vanished(&mut self) {
        let is_gone = |seen: &KindSeen| matches!(seen, KindSeen::NotInstalled | KindSeen::ClusterScoped);
        let gone: Vec<_> = self.kinds.iter().filter(|(_, seen)| is_gone(seen)).map(|(name, _)| name).collect();
        self.stamped.retain(|identity, object| {
            !gone.iter().any(|(api_version, kind)| *api_version == object.api_version && *kind == identity.kind)
        });
    }

    /// Objects the shell must read before planning. Empty in steady state.
    pub fn to_read(&self) -> BTreeSet<(String, Identity)> {
        let class_is_fit = match &self.class {
            ClassSeen::Present(_) if self.unwanted_because().is_some() => true,
            ClassSeen::Present(class) => !class.is_unfit() && self.is_recorded(class),
            ClassSeen::Gone => true,
            ClassSeen::Unreadable => false,
        };
        if self.is_not_ours_to_touch() || !class_is_fit {
            return BTreeSet::new();
        }
        let doubtful = self.wanted().iter().filter(|item| self.is_doubtful(item));
        let doubtful = doubtful.map(|item| (item.api_version.clone(), item.identity.clone()));
        let unstamped = self.unwanted_records().map(|applied| (applied.api_version.clone(), applied.identity()));
        let unstamped = unstamped.filter(|(_, identity)| !self.stamped.contains_key(identity));
        let released = self.leftovers().into_iter().filter(|leftover| leftover.keep && !leftover.deleting);
        let released = released.map(|leftover| (leftover.api_version, leftover.identity));
        doubtful.chain(unstamped).chain(released).collect()
    }

    fn wanted_names(&self) -> BTreeSet<&Identity> {
        self.wanted().iter().map(|item| &item.identity).collect()
    }

    /// What is on record as made and no longer wanted.
    fn unwanted_records(&self) -> impl Iterator<Item = &Applied> {
        let wanted = self.wanted_names();
        let made = self.binding.status.applied_resources.iter().filter(|applied| applied.uid.is_some());
        made.filter(move |applied| {
            let identity = applied.identity();
            !wanted.contains(&identity) && !self.may_be_wanted(&identity)
        })
    }

    /// Whether an object of the class may be what cannot be made now: then nobody knows that it is not wanted. What another class
    /// left is not wanted by this one.
    fn may_be_wanted(&self, identity: &Identity) -> bool {
        let ClassSeen::Present(class) = &self.class else { return false };
        if class.misfits.is_empty() || self.unwanted_because().is_some() {
            return false;
        }
        let origin = match self.stamped.get(identity) {
            Some(object) => self.origin_of(self.recorded(identity), &object.uid, || (&object.class, false)).0,
            None => self.class_in_force(),
        };
        // A right is not kept because of what can only be guessed.
        let is_its_own = |misfit: &Misfit| {
            let known = self.recorded(identity).filter(|_| identity.gives_rights());
            // On record from when that was not noted.
            let is_old = |known: &Applied| known.class.is_none() && known.named_by.is_none();
            known.is_none_or(|known| is_old(known) || misfit.may_have_made(known.named_by.as_deref()))
        };
        let mut misfits = class.misfits.iter();
        origin == class.name && misfits.any(|misfit| misfit.may_be(identity) && is_its_own(misfit))
    }

    /// Whether the watches alone cannot tell what to do about a wanted object.
    fn is_doubtful(&self, item: &Rendered) -> bool {
        if *self.kind_of(item) != KindSeen::Namespaced {
            return false;
        }
        match self.stamped.get(&item.identity) {
            // A create found the name taken, an adoption was not heard of again, or what was made is not shown.
            None => self.recorded(&item.identity).is_some_and(|applied| match applied.state {
                State::Conflict => true,
                State::Failed => applied.adopted || applied.uid.is_some() || report::cannot_change(applied),
                State::Applied => false,
                _ => applied.adopted || applied.replacing.is_some(),
            }),
            Some(object) if self.is_being_replaced(&item.identity, &object.uid) => object.deleting,
            Some(object) => {
                self.can_be_put_right(item, object)
                    && ((object.created && self.shape_changed(item)) || self.is_to_be_shown(item))
            }
        }
    }

    /// What is being deleted counts as long as finalizers hold it, so what has stood is kept right until it is gone; but nothing
    /// is begun with it.
    fn can_be_put_right(&self, item: &Rendered, object: &Stamped) -> bool {
        let has_stood = |known: &Applied| {
            known.uid.as_ref() == Some(&object.uid) && known.digest.is_some() && !report::failed_on_immutable(known)
        };
        let is_ours = self.is_ours(&item.identity, &object.uid, &object.owner);
        !object.deleting || (is_ours && self.recorded(&item.identity).is_some_and(has_stood))
    }

    /// Whether what there is of an item is on its way out.
    fn is_ending(&self, item: &Rendered) -> bool {
        self.stamped.get(&item.identity).is_some_and(|object| object.deleting)
    }

    /// The class has recorded every kind it is about to make objects of: the watches cover what is about to be made.
    fn is_recorded(&self, class: &Class) -> bool {
        let stampable =
            |item: &&Rendered| matches!(self.kind_of(item), KindSeen::Namespaced | KindSeen::Forbidden { .. });
        let recorded = |item: &Rendered| class.recorded_kinds.iter().any(|name| is_kind_of(name, item));
        class.items.iter().filter(stampable).all(recorded)
    }

    /// Whether a right may still be given in a form that the class does not give it in: what is there could not be changed.
    fn may_give_more(&self, item: &Rendered) -> bool {
        item.identity.gives_rights() && self.was_refused(&item.identity)
    }

    /// Whether the API server refused the object the last time: it is tried again, behind all others.
    fn was_refused(&self, identity: &Identity) -> bool {
        self.recorded(identity).is_some_and(|known| known.state == State::Failed)
    }
}

/// What is on record, by identity.
type Records<'a> = BTreeMap<Identity, &'a Applied>;

/// Whether exactly this object was taken over from somebody: one made anew under its name is not.
fn is_adopted(recorded: Option<&Applied>, uid: &str) -> bool {
    recorded.is_some_and(|applied| applied.adopted && applied.uid.as_deref() == Some(uid))
}

/// Of what carries the stamp, ours is what this binding controls, and what nobody controls if we recorded it. Without the stamp
/// only the owner counts: an object stripped of both has been released.
fn is_ours(recorded: Option<&Applied>, uid: &str, owner: &Owner) -> bool {
    match owner {
        Owner::ThisBinding | Owner::FormerBinding => true,
        Owner::Nobody => recorded.is_some_and(|applied| applied.uid.as_deref() == Some(uid)),
        Owner::Other => false,
    }
}

/// Whether the item is of that kind.
fn is_kind_of((api_version, kind): &KindName, item: &Rendered) -> bool {
    *api_version == item.api_version && *kind == item.identity.kind
}

pub fn plan(seen: &Observed) -> Plan<ResourceStep> {
    if seen.is_not_ours_to_touch() {
        return Plan::settled();
    }
    if let Some(because) = seen.unwanted_because() {
        return take_down(seen, because);
    }
    match &seen.class {
        ClassSeen::Gone | ClassSeen::Unreadable => Plan::settled(),
        ClassSeen::Present(class) if class.is_unfit() || !seen.is_recorded(class) => Plan::settled(),
        // Whoever keeps changing a label that is about to be set keeps no right by that.
        ClassSeen::Present(class) if seen.must_announce(class) => Plan::steps(removals(seen).0),
        ClassSeen::Present(class) => furnish(seen, class),
    }
}

fn furnish(seen: &Observed, class: &Class) -> Plan<ResourceStep> {
    let mut ranks: BTreeMap<(u8, usize), Vec<ResourceStep>> = BTreeMap::new();
    let mut blocked = !class.misfits.is_empty();
    for item in &class.items {
        blocked |= seen.is_ending(item);
        match seen.need_now(item, class) {
            Need::Nothing | Need::Vouch(_) => {}
            Need::Blocked(_) => blocked = true,
            // What one object needs is done in order; objects of one rank side by side.
            Need::Steps(steps) => {
                let rank = match &item.identity {
                    _ if steps.iter().any(ResourceStep::withdraws) => FIRST,
                    identity if seen.was_refused(identity) => LAST,
                    identity => rank(&identity.kind),
                };
                for (turn, step) in steps.into_iter().enumerate() {
                    ranks.entry((rank, turn)).or_default().push(step);
                }
            }
        }
    }
    let namespace_rank = if seen.was_refused(&step::namespace_identity(&seen.namespace.name)) { LAST } else { FIRST };
    ranks.entry((namespace_rank, 0)).or_default().extend(seen.namespace_step(class));
    ranks.entry((FIRST, 0)).or_default().extend(seen.namespace_forgets(class));
    let (withdrawals, removals) = removals(seen);
    let mut groups = vec![withdrawals];
    groups.extend(ranks.into_values());
    if !blocked {
        groups.push(removals);
        groups.extend(seen.namespace_leaves(&seen.namespace_wanted(class)));
    }
    groups.retain(|group| !group.is_empty());
    Plan { groups, next: seen.looks_again() }
}

/// Removes everything the binding owns, then the binding.
fn take_down(seen: &Observed, because: Unwanted) -> Plan<ResourceStep> {
    let (withdrawals, removals) = removals(seen);
    let mut groups = vec![withdrawals, removals];
    if seen.recorded_namespace().is_some() {
        groups.extend(seen.namespace_is_left());
    }
    // What cannot be seen cannot be released, and would go with the binding; and nobody would be left to take a right away that is
    // held.
    if seen.out_of_sight().is_none() && !seen.has_held_rights() {
        let (uid, version) = (seen.binding.uid.clone(), seen.binding.version.clone());
        groups.push(vec![ResourceStep::DeleteBinding { uid, version, because }]);
    }
    groups.retain(|group| !group.is_empty());
    Plan { groups, ..Plan::settled() }
}
