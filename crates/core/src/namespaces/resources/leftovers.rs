//! What a binding made and no longer wants: what becomes of it, and what of it is out of sight.

use super::{ClassSeen, KindSeen, Observed, Removal, ResourceStep, Unwanted, is_adopted, is_ours, report};
use crate::namespaces::{inventory::Applied, manifest::Identity};

/// Why something is out of sight, where nobody says more.
const UNREAD: &str = "it could not be read";

/// One object that is ours and no longer wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    pub(super) identity: Identity,
    pub(super) api_version: String,
    pub(super) uid: String,
    version: String,
    /// Released instead of deleted.
    pub(super) keep: bool,
    pub(super) deleting: bool,
    pub(super) held_by: Option<String>,
    /// Why nothing can be done about it: what is shown of it may not be true any more, or not be enough.
    pub(super) out_of_sight: Option<String>,
}

impl Observed {
    /// Whether the class wants the object, and the binding stays.
    pub fn wants(&self, identity: &Identity) -> bool {
        self.wanted().iter().any(|item| item.identity == *identity)
    }

    /// Ours and no longer wanted: stamped objects, and recorded ones whose stamp somebody took away.
    pub(super) fn leftovers(&self) -> Vec<Leftover> {
        // Anybody may make many objects that look like ours.
        let (wanted, records) = (self.wanted_names(), self.records());
        let stamped = self.stamped.iter().filter(|(identity, object)| {
            !wanted.contains(identity)
                && is_ours(records.get(*identity).copied(), &object.uid, &object.owner)
                && !self.may_be_wanted(identity)
        });
        let stamped = stamped.map(|(identity, object)| {
            let recorded = records.get(identity).copied();
            let (of_class, orphan) = self.origin_of(recorded, &object.uid, || (&object.class, object.orphan));
            let keep = self.is_kept(recorded, &object.uid, of_class, orphan);
            Leftover {
                identity: identity.clone(),
                api_version: object.api_version.clone(),
                uid: object.uid.clone(),
                version: object.version.clone(),
                keep,
                deleting: object.deleting,
                held_by: object.held_by.clone(),
                out_of_sight: self.hidden_because(identity, &object.api_version, keep && !object.deleting),
            }
        });
        let unstamped = self.read.iter().filter(|(identity, _)| {
            !wanted.contains(identity) && !self.stamped.contains_key(identity) && !self.may_be_wanted(identity)
        });
        let unstamped = unstamped.filter_map(|(identity, read)| {
            let object = read.as_ref().filter(|object| object.owner.is_a_binding())?;
            Some(Leftover {
                identity: identity.clone(),
                api_version: object.api_version.clone(),
                uid: object.uid.clone(),
                version: object.version.clone(),
                keep: {
                    let recorded = records.get(identity).copied();
                    let (of_class, orphan) =
                        self.origin_of(recorded, &object.uid, || (self.class_in_force(), self.orphan_unstamped));
                    self.is_kept(recorded, &object.uid, of_class, orphan)
                },
                deleting: object.deleting,
                held_by: object.held_by.clone(),
                out_of_sight: self.hidden_because(identity, &object.api_version, false),
            })
        });
        stamped.chain(unstamped).collect()
    }

    /// Whether rights that are no longer given would outlive their deletion.
    pub(super) fn has_held_rights(&self) -> bool {
        let leftovers = self.leftovers();
        let mut rights = leftovers.iter().filter(|leftover| leftover.identity.gives_rights() && !leftover.keep);
        rights.any(|right| right.held_by.is_some())
    }

    /// The class what is on record came from.
    pub(super) fn class_in_force(&self) -> &str {
        self.binding.status.observed_class_name.as_deref().unwrap_or(&self.binding.class)
    }

    /// The class an object came from, and whether objects of that are kept. Whoever may edit an object may write another class into
    /// its stamp: what is on record counts.
    pub(super) fn origin_of<'a>(
        &'a self,
        recorded: Option<&'a Applied>,
        uid: &str,
        otherwise: impl FnOnce() -> (&'a str, bool),
    ) -> (&'a str, bool) {
        let recorded = recorded.filter(|known| known.uid.as_deref() == Some(uid));
        match recorded.and_then(|known| known.class.as_deref()) {
            Some(class) => (class, self.keeping.contains(class)),
            None => otherwise(),
        }
    }

    /// Whether an object of a class is released instead of deleted when it is no longer wanted. What a class says about its own
    /// end is said about its own objects: the namespace has left the class of any other.
    fn is_kept(&self, recorded: Option<&Applied>, uid: &str, of_class: &str, orphan_on_unbind: bool) -> bool {
        let orphan = match (self.unwanted_because(), &self.class) {
            (Some(Unwanted::ClassDeleted), _) if of_class != self.binding.class => orphan_on_unbind,
            (Some(Unwanted::ClassDeleted), ClassSeen::Present(class)) => class.policy.orphan_on_class_delete,
            (Some(Unwanted::ClassDeleted), _) => false,
            (Some(Unwanted::LabelRemoved) | None, _) => orphan_on_unbind,
        };
        orphan || is_adopted(recorded, uid)
    }

    /// Why an object cannot be dealt with: nobody watches its kind, or it was not read although only who has read an object
    /// can release it.
    fn hidden_because(&self, identity: &Identity, api_version: &str, must_be_read: bool) -> Option<String> {
        match self.kinds.get(&(api_version.to_owned(), identity.kind.clone())) {
            Some(KindSeen::Unobservable { why }) => Some(why.clone()),
            _ if must_be_read && !self.read.contains_key(identity) => Some(self.unread_because(identity)),
            _ => None,
        }
    }

    fn unread_because(&self, identity: &Identity) -> String {
        self.unreadable.get(identity).map_or_else(|| UNREAD.to_owned(), Clone::clone)
    }

    /// Something this binding made that cannot be observed now, and why.
    pub(super) fn out_of_sight(&self) -> Option<(Identity, String)> {
        let made = self.binding.status.applied_resources.iter().filter(|applied| applied.uid.is_some());
        let mut hidden = made.filter_map(|applied| match self.kinds.get(&applied.kind_name()) {
            Some(KindSeen::Unobservable { why }) => Some((applied.identity(), why.clone())),
            _ => None,
        });
        hidden.next().or_else(|| self.unwanted_out_of_sight()).or_else(|| self.kept_out_of_sight())
    }

    /// Something of the class that may be there without being on record, since we died right after making it, and would be
    /// collected with the binding although it is to be kept.
    fn kept_out_of_sight(&self) -> Option<(Identity, String)> {
        let ClassSeen::Present(class) = &self.class else { return None };
        if !self.is_kept(None, "", &self.binding.class, self.orphan_unstamped) {
            return None;
        }
        let mut hidden = class.items.iter().filter_map(|item| match self.kind_of(item) {
            KindSeen::Unobservable { why } => Some((item.identity.clone(), why.clone())),
            KindSeen::Forbidden { .. } => Some((item.identity.clone(), self.unread_because(&item.identity))),
            KindSeen::Namespaced | KindSeen::Moved { .. } | KindSeen::ClusterScoped | KindSeen::NotInstalled => None,
        });
        hidden.next()
    }

    /// Something no longer wanted that cannot be observed now, and why.
    pub(super) fn unwanted_out_of_sight(&self) -> Option<(Identity, String)> {
        let lost = self.unaccounted().map(|(applied, why)| (applied.identity(), why));
        let leftovers = self.leftovers().into_iter();
        let hidden = leftovers.filter_map(|leftover| Some((leftover.identity, leftover.out_of_sight?)));
        lost.chain(hidden).next()
    }

    /// What is on record, no longer wanted, and neither seen nor read: it may be there all the same.
    pub(super) fn unaccounted(&self) -> impl Iterator<Item = (&Applied, String)> {
        self.unwanted_records().filter_map(|applied| {
            let identity = applied.identity();
            let is_known = self.stamped.contains_key(&identity) || self.read.contains_key(&identity);
            match self.kinds.get(&applied.kind_name()) {
                _ if is_known => None,
                // With its kind the object is gone.
                Some(KindSeen::NotInstalled | KindSeen::ClusterScoped) => None,
                Some(KindSeen::Unobservable { why }) => Some((applied, why.clone())),
                _ => Some((applied, self.unread_because(&identity))),
            }
        })
    }
}

impl Leftover {
    /// Rights are withdrawn first and regardless: whoever could keep something else from being made could keep them.
    fn removal(&self) -> Removal {
        if self.identity.gives_rights() { Removal::Withdrawn } else { Removal::Unwanted }
    }
}

/// Rights that are no longer given, and everything else that goes.
pub(super) fn removals(seen: &Observed) -> (Vec<ResourceStep>, Vec<ResourceStep>) {
    all_removals(seen).into_iter().partition(ResourceStep::is_withdrawal)
}

/// Deletes what is ours and no longer wanted, by UID; what is to be kept is released instead. Nobody keeps a right by holding it in
/// its deletion.
fn all_removals(seen: &Observed) -> Vec<ResourceStep> {
    let leftovers = seen.leftovers().into_iter();
    let leftovers = leftovers.filter(|leftover| leftover.out_of_sight.is_none());
    let steps = leftovers.filter_map(|leftover| {
        let Leftover { identity, api_version, uid, version, .. } = &leftover;
        // Whoever keeps writing into a right keeps it no longer than until the next try.
        let known = seen.recorded(identity).filter(|known| known.uid.as_ref() == Some(uid));
        let is_kept_busy = identity.gives_rights() && known.is_some_and(report::was_changed);
        let version = (!is_kept_busy).then_some(version.as_str());
        if leftover.deleting {
            let is_held = identity.gives_rights() && !leftover.keep;
            return is_held.then(|| ResourceStep::let_go(identity, api_version, uid, version, Vec::new()));
        }
        if !leftover.keep {
            return Some(ResourceStep::prune(identity, api_version, uid, version, leftover.removal()));
        }
        let read = seen.read.get(identity)?.as_ref()?;
        Some(ResourceStep::release(identity, read))
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{
        namespaces::{
            blueprint::Misfit,
            manifest::Rendered,
            resources::{Class, Owner, Routine, Stamped, plan, report, tell},
        },
        plan::{Failure, FailureClass, Next, Outcome, Step},
        time::{Instant as At, Timestamp},
    };

    #[test]
    fn what_finalizers_hold_is_listed_until_it_is_gone() {
        let identity = Identity { kind: "ConfigMap".into(), name: "held".into(), ..Identity::default() };
        let object = Stamped { uid: "u".into(), owner: Owner::ThisBinding, ..Stamped::default() };
        let mut seen = Observed { class: ClassSeen::Present(Class::default()), ..Observed::default() };
        seen.stamped.insert(identity, object);
        let listed = |answer: Outcome| {
            let plan = plan(&seen);
            let outcomes: Vec<_> = plan.iter().map(|step| (step, answer.clone())).collect();
            assert!(matches!(outcomes.as_slice(), [(ResourceStep::Prune { .. }, _)]), "{plan}");
            report(&seen, &outcomes, &Timestamp::default()).applied_resources.len()
        };
        assert_eq!(listed(Outcome::done()), 0);
        assert_eq!(listed(Outcome::Done { uid: Some("u".into()), witness: None }), 1);
    }

    #[test]
    fn rights_that_are_no_longer_given_go_first_and_whatever_else_is_in_the_way() {
        let role =
            |kind: &str| Identity { group: "rbac.authorization.k8s.io".into(), kind: kind.into(), name: "old".into() };
        let old = Identity { kind: "ConfigMap".into(), name: "old".into(), ..Identity::default() };
        let taken = Identity { name: "taken".into(), ..old.clone() };
        let kind = ("v1".to_owned(), "ConfigMap".to_owned());
        let item = Rendered { identity: taken.clone(), api_version: "v1".into(), ..Rendered::default() };
        let class = Class { items: vec![item], recorded_kinds: [kind.clone()].into(), ..Class::default() };
        let mut seen = Observed { class: ClassSeen::Present(class), ..Observed::default() };
        seen.kinds.insert(kind, KindSeen::Namespaced);
        for identity in [role("Role"), role("RoleBinding"), old.clone()] {
            let object = Stamped { uid: "u".into(), owner: Owner::ThisBinding, ..Stamped::default() };
            seen.stamped.insert(identity, object);
        }
        seen.stamped.insert(taken.clone(), Stamped { owner: Owner::Other, ..Stamped::default() });
        let plan = plan(&seen);
        let gone: Vec<_> = plan.iter().filter_map(ResourceStep::identity).cloned().collect();
        assert_eq!(gone, [role("Role"), role("RoleBinding")], "{plan}");
        let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
        let status = report(&seen, &outcomes, &Timestamp::default());
        let waits = status.applied(&old).and_then(|known| known.message.clone()).unwrap_or_default();
        assert!(waits.contains("ConfigMap/taken"), "{waits}");
        seen.namespace.unlabelled = true;
        let kinds: Vec<_> = super::super::plan(&seen).iter().map(Step::kind).collect();
        assert_eq!(kinds, ["Prune", "Prune", "Prune", "DeleteBinding"]);
    }

    #[test]
    fn what_may_be_what_does_not_fit_stays_and_what_another_class_gave_goes() {
        const TEMPLATE: &str = "{{ namespace.labels['team'] }}";
        let rbac = "rbac.authorization.k8s.io";
        let right = |name: &str| Identity { group: rbac.into(), kind: "RoleBinding".into(), name: name.into() };
        let misfit = |name: Option<&str>| Misfit {
            group: rbac.into(),
            kind: "RoleBinding".into(),
            name: name.map(str::to_owned),
            named_by: Some(TEMPLATE.to_owned()),
            ..Misfit::default()
        };
        let gone = |name: Option<&str>| {
            let class = Class { name: "web".into(), misfits: vec![misfit(name)], ..Class::default() };
            let mut seen = Observed { class: ClassSeen::Present(class), ..Observed::default() };
            for (name, class) in [("here", "web"), ("there", "web"), ("before", "old")] {
                let object =
                    Stamped { owner: Owner::ThisBinding, class: class.into(), uid: "u".into(), ..Stamped::default() };
                seen.stamped.insert(right(name), object);
            }
            let recorded = |name: &str| Applied {
                api_version: format!("{rbac}/v1"),
                kind: "RoleBinding".into(),
                name: name.into(),
                named_by: (name == "here").then(|| TEMPLATE.to_owned()),
                class: Some(if name == "before" { "old" } else { "web" }.to_owned()),
                uid: Some("u".into()),
                digest: Some("d".into()),
                ..Applied::default()
            };
            seen.binding.status.applied_resources = vec![recorded("here"), recorded("there"), recorded("before")];
            let plan = plan(&seen);
            let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
            let status = report(&seen, &outcomes, &Timestamp::default());
            let kept = status.applied(&right("here")).unwrap();
            assert!(kept.digest.is_some() && kept.message.is_some(), "{kept:?}");
            plan.iter().filter_map(ResourceStep::identity).map(|identity| identity.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(gone(Some("here")), ["before", "there"]);
        assert_eq!(gone(None), ["before", "there"], "the name of one is no secret, so it is not what is wanted");
    }

    #[test]
    fn a_right_on_record_from_when_its_class_was_not_noted_may_be_what_cannot_be_made_now() {
        let identity =
            Identity { group: "rbac.authorization.k8s.io".into(), kind: "RoleBinding".into(), name: "made".into() };
        let goes = |class: Option<&str>, named_by: Option<&str>| {
            let misfit = Misfit {
                group: "rbac.authorization.k8s.io".into(),
                kind: "RoleBinding".into(),
                named_by: Some("of".into()),
                ..Misfit::default()
            };
            let class_seen = Class { name: "web".into(), misfits: vec![misfit], ..Class::default() };
            let mut seen = Observed { class: ClassSeen::Present(class_seen), ..Observed::default() };
            seen.binding.class = "web".into();
            let object =
                Stamped { uid: "u".into(), class: "web".into(), owner: Owner::ThisBinding, ..Stamped::default() };
            seen.stamped.insert(identity.clone(), object);
            seen.binding.status.applied_resources = vec![Applied {
                api_version: "rbac.authorization.k8s.io/v1".into(),
                kind: "RoleBinding".into(),
                name: "made".into(),
                class: class.map(str::to_owned),
                named_by: named_by.map(str::to_owned),
                uid: Some("u".into()),
                ..Applied::default()
            }];
            !seen.leftovers().is_empty()
        };
        assert!(!goes(None, None), "an upgrade takes no right away");
        assert!(!goes(Some("web"), Some("of")));
        assert!(goes(Some("web"), None), "what has another name is another one");
    }

    #[test]
    fn nobody_keeps_a_right_by_holding_it_in_its_deletion() {
        let held = |group: &str, kind: &str| {
            let identity = Identity { group: group.into(), kind: kind.into(), name: "old".into() };
            let object = Stamped {
                api_version: format!("{group}/v1"),
                uid: "u".into(),
                owner: Owner::ThisBinding,
                deleting: true,
                held_by: Some("example.com/mine".into()),
                ..Stamped::default()
            };
            let mut seen = Observed { class: ClassSeen::Present(Class::default()), ..Observed::default() };
            seen.stamped.insert(identity.clone(), object);
            let status = report(&seen, &[], &Timestamp::default());
            let told = status.applied(&identity).unwrap().clone();
            assert!(told.is_deleted() && told.message.unwrap().contains("example.com/mine"));
            let kinds = plan(&seen).iter().map(Step::kind).collect::<Vec<_>>();
            seen.namespace.unlabelled = true;
            let plan = plan(&seen);
            let ends = plan.iter().any(|step| step.kind() == "DeleteBinding");
            assert_eq!(ends, !identity.gives_rights(), "nobody would be left to take it away");
            if identity.gives_rights() {
                let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
                let (mut held, mut routine) = (None, Routine::default());
                let stored = report(&seen, &outcomes, &Timestamp::default());
                let told = tell(&seen, &stored, &outcomes, &mut held, &mut routine, &Timestamp::default(), At(0));
                assert_eq!(told.next, Next::After(Duration::ZERO), "nobody tells of what we let go ourselves");
            }
            kinds
        };
        assert_eq!(held("rbac.authorization.k8s.io", "RoleBinding"), ["LetGo"]);
        assert_eq!(held("", "ConfigMap"), [""; 0], "what gives no right waits for whoever holds it");
    }

    #[test]
    fn nobody_keeps_a_right_by_writing_into_it_again_and_again() {
        let right = Identity { group: "rbac.authorization.k8s.io".into(), kind: "Role".into(), name: "old".into() };
        let other = Identity { kind: "ConfigMap".into(), name: "old".into(), ..Identity::default() };
        for (identity, unlabelled, deleting) in
            [(&right, false, false), (&right, true, false), (&right, false, true), (&other, false, false)]
        {
            let object = Stamped {
                api_version: if identity.gives_rights() { "rbac.authorization.k8s.io/v1" } else { "v1" }.into(),
                uid: "u".into(),
                version: "7".into(),
                owner: Owner::ThisBinding,
                deleting,
                ..Stamped::default()
            };
            let mut seen = Observed { class: ClassSeen::Present(Class::default()), ..Observed::default() };
            seen.stamped.insert(identity.clone(), object);
            seen.namespace.unlabelled = unlabelled;
            let version = |seen: &Observed| match plan(seen).iter().next() {
                Some(ResourceStep::Prune { version, .. } | ResourceStep::LetGo { version, .. }) => version.clone(),
                other => panic!("{other:?}"),
            };
            assert_eq!(version(&seen).as_deref(), Some("7"));
            let stale = Outcome::Failed(Failure::new(FailureClass::Stale, "Conflict", "it has changed"));
            let plan_now = plan(&seen);
            let outcomes: Vec<_> = plan_now.iter().map(|step| (step, stale.clone())).collect();
            seen.binding.status = report(&seen, &outcomes, &Timestamp::default());
            assert_eq!(version(&seen).is_none(), identity.gives_rights(), "{identity}, unlabelled: {unlabelled}");
            seen.stamped.get_mut(identity).unwrap().uid = "later".into();
            assert!(version(&seen).is_some(), "another one is another one");
        }
    }

    #[test]
    fn whoever_writes_another_class_into_a_stamp_keeps_nothing_by_that() {
        let identity = Identity { kind: "ConfigMap".into(), name: "made".into(), ..Identity::default() };
        let keeps = |class: Option<&str>, stamp: &str, keeping: &[&str]| {
            let object = Stamped {
                uid: "u".into(),
                owner: Owner::ThisBinding,
                class: stamp.into(),
                orphan: keeping.contains(&stamp),
                ..Stamped::default()
            };
            let mut seen = Observed { class: ClassSeen::Present(Class::default()), ..Observed::default() };
            seen.keeping = keeping.iter().map(|class| (*class).to_owned()).collect();
            seen.stamped.insert(identity.clone(), object);
            seen.binding.status.applied_resources = vec![Applied {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                name: "made".into(),
                class: class.map(str::to_owned),
                uid: Some("u".into()),
                ..Applied::default()
            }];
            seen.leftovers().iter().all(|leftover| leftover.keep)
        };
        assert!(!keeps(Some("web"), "keeper", &["keeper"]), "forged");
        assert!(keeps(Some("keeper"), "web", &["keeper"]), "the other way round");
        assert!(keeps(Some("keeper"), "keeper", &["keeper"]));
        assert!(keeps(None, "keeper", &["keeper"]), "on record from when that was not noted");
    }

    #[test]
    fn however_many_objects_look_like_ours_a_look_at_them_is_soon_over() {
        let identity = |name: String| Identity { kind: "ConfigMap".into(), name, ..Identity::default() };
        let mut seen = Observed { class: ClassSeen::Present(Class::default()), ..Observed::default() };
        for number in 0..100_000 {
            let (name, uid) = (format!("forged-{number}"), number.to_string());
            let object = Stamped { uid, owner: Owner::Nobody, ..Stamped::default() };
            seen.stamped.insert(identity(name), object);
        }
        let recorded = |number| Applied {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: format!("recorded-{number}"),
            uid: Some("u".into()),
            ..Applied::default()
        };
        seen.binding.status.applied_resources = (0..50_000).map(recorded).collect();
        let begun = Instant::now();
        assert_eq!(seen.to_read().len(), 50_000);
        let plan = plan(&seen);
        let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
        report(&seen, &outcomes, &Timestamp::default());
        assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    }
}
