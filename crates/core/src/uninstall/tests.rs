use super::*;

fn kind(group: &str, kind: &str) -> Kind {
    Kind { group: group.to_owned(), kind: kind.to_owned() }
}

fn seen(of: Kind, name: &str) -> Seen {
    Seen {
        kind: of,
        namespace: "blue".into(),
        name: name.into(),
        uid: "u".into(),
        labels: BTreeSet::new(),
        annotations: BTreeSet::new(),
        finalizers: Vec::new(),
        owners: Vec::new(),
    }
}

fn ground(choice: Choice) -> Ground {
    let policy = kind(POLICIES, "ValidatingAdmissionPolicy");
    let binding = kind(POLICIES, "ValidatingAdmissionPolicyBinding");
    let installed = [policy, binding, kind("apps", "Deployment"), kind("", "ServiceAccount")];
    Ground {
        choice,
        namespace: "croft-system".into(),
        kinds: vec![(kind("akuity.io", "NamespaceClassBinding"), "namespaceclassbindings.akuity.io".into())],
        finalizers: vec!["ours"],
        marks: vec!["mark"],
        of_a_class: vec!["revision-of"],
        installed: installed.into_iter().map(|kind| (kind, "blue".into(), "croft".into())).collect(),
    }
}

fn everything() -> Vec<Seen> {
    let mut crd = seen(kind("apiextensions.k8s.io", "CustomResourceDefinition"), "namespaceclassbindings.akuity.io");
    crd.labels.insert((PART_OF.0.into(), PART_OF.1.into()));
    let mut held = seen(kind("akuity.io", "NamespaceClassBinding"), "blue");
    held.finalizers = vec!["theirs".into(), "ours".into()];
    let mut fence = seen(kind("networking.k8s.io", "NetworkPolicy"), "deny-all");
    fence.owners = vec![held.kind.clone()];
    let mut namespace = seen(kind("", "Namespace"), "blue");
    namespace.annotations.insert("mark".into());
    vec![
        crd,
        seen(kind("", "ServiceAccount"), "croft"),
        held,
        namespace,
        fence,
        seen(kind("apps", "Deployment"), "croft"),
        seen(kind(POLICIES, "ValidatingAdmissionPolicy"), "croft"),
        seen(kind(POLICIES, "ValidatingAdmissionPolicyBinding"), "croft"),
        seen(kind("apps", "Deployment"), "shop"),
        seen(kind("", "ConfigMap"), "croft"),
    ]
}

fn stages(steps: &[Step]) -> Vec<Stage> {
    steps.iter().map(|step| step.stage).collect()
}

#[test]
fn what_could_block_goes_first_and_kinds_go_last() {
    let steps = plan(&everything(), &ground(Choice::KeepData));
    assert_eq!(
        stages(&steps),
        [Stage::Fences, Stage::Operator, Stage::Orphans, Stage::Marks, Stage::Held, Stage::Belongings, Stage::Kinds]
    );
    let fences: Vec<_> = steps[0].objects.iter().map(|object| object.kind.kind.as_str()).collect();
    assert_eq!(fences, ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"]);
}

#[test]
fn what_is_not_ours_is_in_no_step() {
    for choice in [Choice::KeepData, Choice::Purge] {
        let steps = plan(&everything(), &ground(choice));
        let names: Vec<_> = steps.iter().flat_map(|step| &step.objects).map(|object| object.name.as_str()).collect();
        assert!(!names.contains(&"shop"), "{names:?}");
        assert_eq!(steps.iter().map(|step| step.objects.len()).sum::<usize>(), 8);
    }
}

#[test]
fn what_was_made_stays_without_an_owner_unless_it_is_to_go() {
    let kept = plan(&everything(), &ground(Choice::KeepData));
    assert!(stages(&kept).contains(&Stage::Orphans) && !stages(&kept).contains(&Stage::Dependents));
    let gone = plan(&everything(), &ground(Choice::Purge));
    assert!(stages(&gone).contains(&Stage::Dependents) && !stages(&gone).contains(&Stage::Orphans));
}

#[test]
fn a_kind_that_another_operator_installed_stays() {
    let mut objects = everything();
    objects[0].labels.clear();
    assert!(!stages(&plan(&objects, &ground(Choice::KeepData))).contains(&Stage::Kinds));
}

#[test]
fn an_orphan_keeps_its_other_owners_and_loses_our_marks() {
    let metadata = json!({
        "ownerReferences": [
            { "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClassBinding", "name": "blue", "uid": "b" },
            { "apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": "d" },
        ],
        "labels": { "mark": "x", "app": "shop" },
    });
    let orphaned = orphaned(&metadata, &ground(Choice::KeepData));
    assert_eq!(orphaned["ownerReferences"].as_array().map(Vec::len), Some(1));
    assert_eq!(orphaned["labels"], json!({ "mark": null }));
    assert_eq!(orphaned["annotations"], json!({}));
}

#[test]
fn the_plan_is_told_in_numbers() {
    let ground = ground(Choice::KeepData);
    let objects = everything();
    let text = describe(&plan(&objects, &ground), &objects, &ground, true);
    assert!(text.contains("namespaces: 1 NetworkPolicy\n"), "{text}");
    assert!(text.contains("1 ValidatingAdmissionPolicy, 1 ValidatingAdmissionPolicyBinding"), "{text}");
    assert!(describe(&[], &[], &ground, false).contains("nothing of Croft is here"));
}

#[test]
fn backups_go_before_the_place_they_are_in() {
    let work = work();
    let place = |kind: &str| work.iter().rposition(|work| work.kind.kind == kind);
    assert!(place("BackupSchedule") < place("NonAdminBackup"));
    assert!(place("NonAdminBackup") < place("BackupVault"));
    assert!(place("NamespaceClass") < place("S3UserClaim"), "what a class stamps would come back");
}
