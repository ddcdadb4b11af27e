use super::{pruning::MOST_UNRECORDED, *};
use crate::namespaces::resources::{Namespace, Removal};

#[test]
fn a_binding_whose_class_cannot_be_read_stays_although_its_label_is_gone() {
    let namespace = Namespace { unlabelled: true, ..Namespace::default() };
    let seen = Observed { namespace, class: ClassSeen::Unreadable, ..Observed::default() };
    let plan = super::super::plan(&seen);
    assert!(plan.is_settled() && seen.to_read().is_empty(), "{plan}");
    let status = report(&seen, &[], &Timestamp::default());
    assert_eq!(status.conditions.reason("Ready"), Some("ClassUnreadable"));
}

#[test]
fn a_missing_right_is_told_with_the_rule_to_add_and_no_other_refusal_is() {
    let told = |message: &str| with_fix(&Failure::new(FailureClass::Forbidden, "Forbidden", message));
    let right = "deployments.apps \"web\" is forbidden: User \"system:serviceaccount:croft-system:croft\" cannot create \
                 resource \"deployments\" in API group \"apps\" in the namespace \"team-a\"";
    let rule = "{apiGroups: [\"apps\"], resources: [deployments], verbs: [create]}";
    assert!(told(right).starts_with(right) && told(right).ends_with(rule), "{}", told(right));
    for other in [
        "exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5",
        "user \"croft\" is attempting to grant RBAC permissions not currently held",
    ] {
        assert_eq!(told(other), other);
    }
}

#[test]
fn objects_that_were_made_to_look_like_ours_do_not_make_a_status_too_large_to_be_stored() {
    use crate::namespaces::resources::{Binding, Namespace, Owner, Stamped};
    let identity =
        |number: u32| Identity { kind: "ConfigMap".into(), name: format!("c-{number}"), ..Identity::default() };
    let forged = |number| {
        let object = Stamped { uid: "u".into(), owner: Owner::ThisBinding, deleting: true, ..Stamped::default() };
        (identity(number), object)
    };
    let seen = Observed {
        namespace: Namespace { name: "shop".into(), ..Namespace::default() },
        binding: Binding { uid: "b".into(), ..Binding::default() },
        class: ClassSeen::Present(Class::default()),
        stamped: (0..20_000).map(forged).collect(),
        ..Observed::default()
    };
    let failure = Failure::new(FailureClass::Rejected, "Rejected", "no ".repeat(100_000));
    let prune = ResourceStep::prune(&identity(0), "v1", "u", Some("1"), Removal::Unwanted);
    let status = report(&seen, &[(&prune, Outcome::Failed(failure))], &Timestamp("2026-01-01T00:00:00Z".into()));
    assert_eq!(status.applied_resources.len(), MOST_UNRECORDED);
    let stored = serde_json::to_string(&status).map_or(usize::MAX, |text| text.len());
    assert!(stored < 200_000, "{stored} bytes");
}
