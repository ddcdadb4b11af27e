//! How much of a wanted object is the class's, and what of it has to go: an apply alone takes away only what nobody else says is his
//! as well, and who may write an object may write that into it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Class, ClassSeen, Identity, Observed, Owner, Stamped, observed::unmarked};
use crate::namespaces::{
    excess::{Extent, dropped, excess, union},
    inventory::{Applied, Fingerprint},
    manifest::Rendered,
};

impl Observed {
    fn wanted_item(&self, identity: &Identity) -> Option<&Rendered> {
        self.wanted().iter().find(|item| item.identity == *identity)
    }

    fn last_applied(&self, identity: &Identity) -> Option<Fingerprint<'_>> {
        self.recorded(identity).and_then(Applied::fingerprint)
    }

    /// What an object is to be compared with, where only its values can tell whether a change of it concerns us.
    pub fn shown_by(&self, identity: &Identity) -> Option<&Value> {
        let item = self.wanted_item(identity)?;
        self.is_to_be_shown(item).then_some(&item.manifest)
    }

    pub(super) fn is_to_be_shown(&self, item: &Rendered) -> bool {
        let is_changed = self.stamped.get(&item.identity).is_some_and(|object| self.is_changed(item, object));
        let was_tried = self.applied_as(item).is_some() || self.was_refused(&item.identity);
        let has_rest = was_tried && self.dropping(item).is_some();
        let is_counted_anew = self.only_reports() && self.applied_otherwise(item).is_some();
        is_changed
            || has_rest
            || is_counted_anew
            || self.may_give_more(item)
            || self.extent_of(&item.identity).is_some()
    }

    /// How much of an object is to be its manifest's, where nothing that others put into it is to stay: whatever is applied then is
    /// taken for right from then on.
    pub fn extent_of(&self, identity: &Identity) -> Option<Extent> {
        let ClassSeen::Present(class) = &self.class else { return None };
        let item = self.wanted_item(identity)?;
        let stands = |object: &Stamped| self.applied_as(item).is_some_and(|known| known.content == object.content);
        match self.stamped.get(identity) {
            None if class.policy.replace => Some(Extent::Whole),
            Some(object) if self.is_being_replaced(identity, &object.uid) => Some(Extent::Whole),
            Some(object) if self.comes_from_elsewhere(item, object, class) => Some(Extent::Whole),
            object => (class.policy.exact && !object.is_some_and(stands)).then_some(Extent::Owned),
        }
    }

    /// Whether an object that becomes ours, or says it is, was made by we do not know whom: a backup brought it back, it is to be
    /// replaced, or its owner is ours and yet it has never stood as we left it. Had we died right after making it, nothing is in it
    /// that would have to go.
    fn comes_from_elsewhere(&self, item: &Rendered, object: &Stamped, class: &Class) -> bool {
        let is_nobodys = object.owner == Owner::Nobody && self.recorded_uid(&item.identity) != Some(&object.uid);
        let has_stood =
            self.recorded_uid(&item.identity) == Some(&object.uid) && self.last_applied(&item.identity).is_some();
        let is_unheard_of = object.owner.is_a_binding() && !has_stood && !self.is_adopted(&item.identity, &object.uid);
        self.is_restored(item, object, class) || (class.policy.replace && is_nobodys) || is_unheard_of
    }

    /// What takes out of `live` what is not to be in it: what others added, where that does not stay; and what it was applied with
    /// before and the class does not set any more, where it still is what was set.
    pub fn excess_in(&self, identity: &Identity, live: &Value) -> Option<Value> {
        let item = self.wanted_item(identity)?;
        let added = self.extent_of(identity).and_then(|extent| excess(live, &item.manifest, extent));
        let left = self.dropping(item).and_then(|former| dropped(live, former, &item.manifest));
        match (added, left) {
            (Some(added), Some(left)) => Some(union(added, left)),
            (added, left) => added.or(left),
        }
    }

    /// What an object was last applied as, where that set what its present form does not. An apply alone does not take that away
    /// where somebody says it is his as well. Of what somebody else had made before, some may have been his.
    pub(super) fn dropping(&self, item: &Rendered) -> Option<&Arc<Value>> {
        let (shape, _) = self.recorded(&item.identity).filter(|known| !known.adopted)?.fingerprint()?.left();
        let former = self.former.get(&item.identity).filter(|former| former.shape == shape)?;
        let sets_more = || dropped(&former.manifest, &former.manifest, &item.manifest).is_some();
        (shape != item.shape && sets_more()).then_some(&former.manifest)
    }

    /// Whether something was last applied in a form that is not known and may have set what the class does not set any more.
    pub fn lacks_former(&self) -> bool {
        let mut otherwise = self.formerly_otherwise();
        otherwise.any(|(item, applied)| !self.former.get(&item.identity).is_some_and(|former| is(former, applied)))
    }

    /// Learns what the class, or the one before it, made at some time: of that counts what an object was last applied as. Where that is
    /// not kept any more, what was told first of those that set the same fields.
    pub fn learn_former(&mut self, then: Vec<Rendered>) {
        let owned = |(item, (shape, manifest)): (&Rendered, (&str, &str))| {
            (item.identity.clone(), (shape.to_owned(), manifest.to_owned()))
        };
        let applied: BTreeMap<_, _> = self.formerly_otherwise().map(owned).collect();
        for former in then {
            let Some((shape, manifest)) = applied.get(&former.identity) else { continue };
            let is_first = former.shape == *shape && !self.former.contains_key(&former.identity);
            if is_first || is(&former, (shape, manifest)) {
                self.former.insert(former.identity.clone(), former);
            }
        }
    }

    /// What something was last applied as, by shape and digest, where it has another shape now.
    fn formerly_otherwise(&self) -> impl Iterator<Item = (&Rendered, (&str, &str))> {
        let applied = self.wanted().iter().filter_map(|item| Some((item, self.last_applied(&item.identity)?.left())));
        applied.filter(|(item, (shape, _))| *shape != item.shape)
    }

    /// What is on record about the item if nothing has changed since but how much of the object counts as set by it: see
    /// [`super::Policy::made_of`].
    pub(super) fn applied_otherwise(&self, item: &Rendered) -> Option<Fingerprint<'_>> {
        let known = self.last_applied(&item.identity)?;
        (known.manifest != item.digest && unmarked(known.manifest) == unmarked(&item.digest)).then_some(known)
    }

    fn only_reports(&self) -> bool {
        matches!(&self.class, ClassSeen::Present(class) if class.policy.report_drift)
    }

    /// Whether an object is not what it was when the present form of its item was applied.
    pub(super) fn is_changed(&self, item: &Rendered, object: &Stamped) -> bool {
        self.applied_as(item).is_some_and(|known| known.content != object.content)
    }

    pub(super) fn shape_changed(&self, item: &Rendered) -> bool {
        self.last_applied(&item.identity).is_none_or(|known| known.left().0 != item.shape)
    }
}

/// Whether something was applied as this very form of it, under whatever policy.
fn is(former: &Rendered, (shape, manifest): (&str, &str)) -> bool {
    former.shape == shape && unmarked(&former.digest) == unmarked(manifest)
}
