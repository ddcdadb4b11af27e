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
        is_going: false,
    }
}

fn ground(choice: Choice) -> Ground {
    let policy = kind(POLICIES, "ValidatingAdmissionPolicy");
    let binding = kind(POLICIES, "ValidatingAdmissionPolicyBinding");
    let installed = [policy, binding, kind("apps", "Deployment"), kind("", "ServiceAccount")];
    Ground {
        choice,
        namespace: "croft-system".into(),
        kinds: vec![OurKind {
            kind: kind("akuity.io", "NamespaceClassBinding"),
            crd: "namespaceclassbindings.akuity.io".into(),
            part: "namespaces",
        }],
        finalizers: vec!["ours"],
        marks: vec!["mark"],
        of_a_class: vec!["revision-of"],
        of_velero: ("managed-by", "us"),
        guards: vec!["around-velero"],
        tenants_role: "croft-edit",
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
    let text = describe(&plan(&objects, &ground), &objects, &ground, None);
    assert!(text.contains("namespaces: 1 NetworkPolicy\n"), "{text}");
    assert!(text.contains("1 ValidatingAdmissionPolicy, 1 ValidatingAdmissionPolicyBinding"), "{text}");
    assert!(describe(&[], &[], &ground, None).contains("nothing of Croft is here"));
}

#[test]
fn backups_go_before_the_place_they_are_in() {
    let work = work();
    let place = |kind: &str| work.iter().rposition(|work| work.kind.kind == kind);
    assert!(place("BackupSchedule") < place("NonAdminBackup"));
    assert!(place("NonAdminBackup") < place("BackupVault"));
    assert!(place("NamespaceClass") < place("S3UserClaim"), "what a class stamps would come back");
}

#[test]
fn nothing_of_a_kind_that_another_operator_installed_is_touched() {
    let mut objects = everything();
    objects[0].labels.clear();
    for choice in [Choice::KeepData, Choice::Purge] {
        let mut ground = ground(choice);
        assert_eq!(ground.keep_what_is_ours(&objects, Some(&["storage".to_owned()])), Ok(()));
        let steps = plan(&objects, &ground);
        let kinds: Vec<_> = steps.iter().flat_map(|step| &step.objects).map(|object| &object.kind.kind).collect();
        assert!(
            !kinds.iter().any(|kind| ["NamespaceClassBinding", "NetworkPolicy"].contains(&kind.as_str())),
            "{kinds:?}"
        );
    }
}

#[test]
fn what_somebody_else_owns_as_well_is_not_deleted() {
    let mut objects = everything();
    objects[4].owners.push(kind("apps", "Deployment"));
    let steps = plan(&objects, &ground(Choice::Purge));
    assert!(stages(&steps).contains(&Stage::Orphans) && !stages(&steps).contains(&Stage::Dependents));
}

#[test]
fn a_purge_is_told_in_the_order_it_is_done() {
    let (ground, objects) = (ground(Choice::Purge), everything());
    let text = describe(&plan(&objects, &ground), &objects, &ground, None);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(place("1. remove policies") < place("2. have the operator delete"));
    assert!(place("2. have the operator delete") < place("3. stop the operator"));
}

#[test]
fn a_purge_waits_for_every_user_in_ceph_and_gives_data_up_no_sooner_than_it_must() {
    let work = work();
    let last = work.last().unwrap();
    assert!(last.kind.kind == "S3User" && last.awaits && !last.deletes);
    let place = |kind: &str| work.iter().position(|work| work.kind.kind == kind);
    assert!(place("NonAdminBackup") < place("S3Class") && place("S3Class") < place("NamespaceClass"));
}

#[test]
fn a_kind_whose_crd_does_not_say_whose_it_is_is_ours_where_its_part_runs_and_is_not_guessed_at() {
    let mut objects = everything();
    let kept = |objects: &[Seen], parts: Option<&[String]>| {
        let mut ground = ground(Choice::KeepData);
        ground.keep_what_is_ours(objects, parts).map(|()| ground.kinds.len())
    };
    let runs = ["namespaces".to_owned()];
    assert_eq!(kept(&objects, None), Ok(1));
    assert_eq!(kept(&objects, Some(&[])), Ok(1), "it says so itself");
    objects[0].labels.clear();
    assert_eq!(kept(&objects, Some(&runs)), Ok(1));
    assert_eq!(kept(&objects, Some(&[])), Ok(0));
    assert_eq!(kept(&objects, None), Err(Unclear(vec!["namespaceclassbindings.akuity.io".to_owned()])));
}

#[test]
fn a_wrong_namespace_is_told_from_the_right_one() {
    let found = ["platform".to_owned()];
    assert_eq!(misplaced("croft-system", &found), Some("platform"));
    assert_eq!(misplaced("platform", &found), None);
    assert_eq!(misplaced("croft-system", &[]), None, "it is gone already, or never was here");
}

fn storage(choice: Choice) -> Ground {
    let claim = |kind_of: &str| OurKind {
        kind: kind("s3.snappcloud.io", kind_of),
        crd: format!("{}s.s3.snappcloud.io", kind_of.to_lowercase()),
        part: "storage",
    };
    Ground { kinds: vec![claim("S3UserClaim"), claim("S3User"), claim("S3Class")], ..ground(choice) }
}

#[test]
fn what_only_the_operator_can_delete_is_not_purged_without_it() {
    let ground = storage(Choice::Purge);
    let of = |name: &str| vec![seen(kind("s3.snappcloud.io", name), "app")];
    let told = hindrance(&of("S3User"), &ground, false, None).unwrap();
    assert!(told.contains("no operator leads") && told.contains("--keep-data"), "{told}");
    assert_eq!(hindrance(&of("S3User"), &ground, true, None), None);
    assert_eq!(hindrance(&of("S3Class"), &ground, false, None), None, "there is nothing to delete");
    let told = hindrance(&of("S3UserClaim"), &ground, true, Some(&["backup".to_owned()])).unwrap();
    assert!(told.contains("parts.storage: true"), "{told}");
    let foreign = vec![seen(kind("oadp.openshift.io", "NonAdminBackup"), "nightly")];
    assert_eq!(hindrance(&foreign, &ground, false, None), None, "another operator's");
}

#[test]
fn what_stays_behind_is_told_in_numbers() {
    let mut backup = seen(kind("velero.io", "Backup"), "nightly");
    backup.labels.insert(("managed-by".into(), "us".into()));
    let mut keys = seen(kind("", "Secret"), "app-admin");
    keys.owners = vec![kind("s3.snappcloud.io", "S3UserClaim")];
    let objects = vec![seen(kind("s3.snappcloud.io", "S3User"), "blue.app"), backup, keys];
    let (kept, gone) = (storage(Choice::KeepData), storage(Choice::Purge));
    assert!(objects.iter().all(|object| concerns(object, &kept)));
    assert!(!concerns(&seen(kind("velero.io", "Backup"), "theirs"), &kept));
    let text = describe(&plan(&objects, &kept), &objects, &kept, None);
    for told in ["1 users in Ceph", "1 Secrets", "1 Backups of Velero"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!describe(&plan(&objects, &gone), &objects, &gone, None).contains("stays"));
}

#[test]
fn the_operators_namespace_stays_for_anything_that_is_somebody_elses() {
    let mut ground = ground(Choice::KeepData);
    ground.installed.insert((kind("", "Service"), "croft-system".into(), "croft-webhook".into()));
    let own = |kind_of: Kind, name: &str| Seen { namespace: "croft-system".into(), ..seen(kind_of, name) };
    let labelled = |mut object: Seen, key: &str, value: &str| {
        object.labels.insert((key.into(), value.into()));
        object
    };
    let ours = vec![
        labelled(own(kind("", "Pod"), "croft-1"), "app.kubernetes.io/name", "croft"),
        own(kind("", "Endpoints"), "croft-webhook"),
        labelled(own(kind("discovery.k8s.io", "EndpointSlice"), "x"), "kubernetes.io/service-name", "croft-webhook"),
        own(kind("", "ConfigMap"), "kube-root-ca.crt"),
        seen(kind("", "Pod"), "in-another-namespace"),
    ];
    assert_eq!(staying(&ours, &ground), None);
    for other in [kind("", "Pod"), kind("coordination.k8s.io", "Lease"), kind("", "Secret")] {
        let objects = [ours.clone(), vec![own(other, "theirs")]].concat();
        assert!(staying(&objects, &ground).is_some_and(|why| why.to_string().contains("theirs")));
    }
    let record =
        labelled(labelled(own(kind("", "Secret"), "sh.helm.release.v1.croft.v1"), "owner", "helm"), "name", "croft");
    let objects = [ours, vec![record]].concat();
    assert_eq!(staying(&objects, &ground), Some(Staying::Record { release: "croft" }));
}

#[test]
fn rights_by_which_places_are_known_go_after_all_else_that_is_there() {
    let mut ground = ground(Choice::KeepData);
    let rbac = |name: &str| kind("rbac.authorization.k8s.io", name);
    let mut objects = Vec::new();
    for kind_of in [rbac("RoleBinding"), rbac("Role"), kind("", "ConfigMap")] {
        ground.installed.insert((kind_of.clone(), "safe".into(), "croft".into()));
        objects.push(Seen { namespace: "safe".into(), ..seen(kind_of, "croft") });
    }
    let steps = plan(&objects, &ground);
    assert_eq!(stages(&steps), [Stage::Belongings, Stage::Rights]);
    assert_eq!(steps[1].objects[0].kind, rbac("RoleBinding"));
}

#[test]
fn what_was_deleted_already_is_not_deleted_again_but_let_go_of() {
    let mut objects = everything();
    for object in &mut objects {
        object.is_going = true;
    }
    let steps = plan(&objects, &ground(Choice::Purge));
    assert_eq!(stages(&steps), [Stage::Fences, Stage::Operator, Stage::Marks, Stage::Held, Stage::Kinds]);
}

#[test]
fn what_keeps_velero_in_bounds_goes_after_the_operator_and_no_tenant_makes_more_while_a_purge_lasts() {
    let guard = |kind_: &str| seen(kind(POLICIES, kind_), "around-velero");
    let role = seen(kind("rbac.authorization.k8s.io", "ClusterRole"), "croft-edit");
    let mut objects = everything();
    objects.extend([guard("ValidatingAdmissionPolicy"), guard("ValidatingAdmissionPolicyBinding"), role]);
    for choice in [Choice::KeepData, Choice::Purge] {
        let mut ground = ground(choice);
        ground.installed.extend(
            objects
                .iter()
                .map(|object| (object.kind.clone(), object.namespace.clone(), object.name.clone()))
                .filter(|(_, _, name)| name == "around-velero" || name == "croft-edit"),
        );
        let steps = plan(&objects, &ground);
        let of = |name: &str| -> Vec<Stage> {
            let has = |step: &&Step| step.objects.iter().any(|object| object.name == name);
            steps.iter().filter(has).map(|step| step.stage).collect()
        };
        assert_eq!(of("around-velero"), [Stage::Guards]);
        assert!(Stage::Operator < Stage::Guards && Stage::Guards < Stage::Orphans);
        let guards = steps.iter().find(|step| step.stage == Stage::Guards).unwrap();
        assert!(guards.objects[0].kind.kind.ends_with("Binding"), "a policy without binding judges nobody");
        let role = if choice == Choice::Purge { Stage::Fences } else { Stage::Belongings };
        assert_eq!(of("croft-edit"), [role], "{choice:?}");
    }
}
