//! What a class says about itself.

use croft_core::{
    namespaces::{
        class::{Bound, ClassStep, Kind, Observed, plan, report},
        resources::Policy,
    },
    problem::Problem,
};

use crate::{
    explorer::{Limits, at_rest, explore},
    world::{ClassSpec, Other, World, class, now},
};

fn kind(name: &str) -> Kind {
    Kind { api_version: "v1".into(), kind: name.into(), resource: name.to_lowercase() }
}

fn bound(name: &str, updated: bool, stalled: Option<&str>) -> Bound {
    Bound {
        name: name.into(),
        updated,
        ready: updated && stalled.is_none(),
        stalled: stalled.map(str::to_owned),
        ..Bound::default()
    }
}

#[test]
fn counts_name_the_failing_namespaces_up_to_ten() {
    let mut namespaces = vec![bound("fine", true, None), bound("old", false, None)];
    namespaces.extend((0..15).map(|number| bound(&format!("bad-{number:02}"), true, Some("Conflict"))));
    let seen = Observed { generation: 3, namespaces, ..Observed::default() };
    let status = report(&seen, &now()).unwrap();
    let counts =
        (status.bound_namespaces, status.updated_namespaces, status.ready_namespaces, status.failing_namespaces);
    assert_eq!(counts, (Some(17), Some(16), Some(1), Some(15)));
    assert_eq!((status.failing.len(), status.failing[0].namespace.as_str()), (10, "bad-00"));
    assert_eq!(status.conditions.reason("Ready"), Some("RollingOut"));
}

#[test]
fn a_kind_stays_recorded_while_objects_of_it_exist() {
    let mut seen = Observed { live: [kind("Secret")].into(), uses: [kind("ConfigMap")].into(), ..Observed::default() };
    let status = report(&seen, &now()).unwrap();
    assert_eq!(status.kinds.len(), 2);
    seen.status = status;
    seen.live.clear();
    assert_eq!(report(&seen, &now()).unwrap().kinds.len(), 1);
}

#[test]
fn a_class_at_rest_writes_nothing() {
    let mut seen = Observed { generation: 1, namespaces: vec![bound("a", true, None)], ..Observed::default() };
    seen.status = report(&seen, &now()).unwrap();
    let later = croft_core::time::Timestamp("2027-01-01T00:00:00Z".into());
    assert_eq!(report(&seen, &later), None);
}

#[test]
fn problems_are_told_on_the_class() {
    let seen = Observed { problems: vec![Problem::new("spec.resources[0]", "kind is missing")], ..Observed::default() };
    let status = report(&seen, &now()).unwrap();
    assert_eq!(status.conditions.reason("Accepted"), Some("InvalidClass"));
    assert!(status.conditions.get("Accepted").unwrap().message.contains("spec.resources[0]: kind is missing"));
}

#[test]
fn a_class_is_held_only_where_its_deletion_needs_us() {
    let steps = |seen: &Observed| plan(seen).iter().cloned().collect::<Vec<_>>();
    let mut seen = Observed { must_hold: true, ..Observed::default() };
    assert_eq!(steps(&seen), [ClassStep::Hold]);
    seen.held = true;
    assert!(steps(&seen).is_empty());
    seen.deleting = true;
    seen.namespaces = vec![bound("a", true, None)];
    assert!(steps(&seen).is_empty(), "waits for its namespaces");
    seen.namespaces.clear();
    assert_eq!(steps(&seen), [ClassStep::LetGo]);
    assert_eq!(steps(&Observed { held: true, ..Observed::default() }), [ClassStep::LetGo], "policy changed back");
}

/// A class of either policy, new and in use.
fn tended() -> impl Iterator<Item = World> {
    let orphan = Policy { orphan_on_class_delete: true, ..Policy::default() };
    let block = Policy { block_class_delete: true, ..Policy::default() };
    [Policy::default(), orphan, block].into_iter().flat_map(|policy| {
        let spec = ClassSpec { policy, ..class(&["gadget"]) };
        let others = &[Other::Owner, Other::Administrator];
        let new = World { label: Some("web"), others, tends_classes: true, ..World::new([("web", spec)]) };
        [at_rest(&new), new]
    })
}

#[test]
fn a_class_records_its_kinds_first_goes_last_and_counts_right_whatever_others_do() {
    let explored = explore("class", tended(), Limits { acts: 2, faults: false, at_once: 1 });
    assert!(explored.worlds.len() > 1_000, "only {} worlds", explored.worlds.len());
    explore("class, with faults", tended(), Limits { acts: 1, faults: true, at_once: 1 });
}
