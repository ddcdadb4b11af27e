//! Choosing a class needs `use` on it, leaving it `leave`.

use anyhow::{Context, Result};
use croft::namespaces::fences::{BINDINGS, CHOICE, GATE, LEAVING, MARKS, METADATA, PARAMS, PROTECTION, REQUIRED};
use croft_api::namespaces::CLASS_LABEL;
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::{admissionregistration::v1::ValidatingAdmissionPolicy, core::v1::Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Plot, Target, Way, assert_refused, define, let_do, let_use};
use crate::support::{self, Shared, eventually, shared};

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

/// The object itself and, asked from the API server, every subresource it can be written through.
pub(super) async fn doors(client: &Client, namespace: &str) -> Result<Vec<(Target, Vec<Way>)>> {
    let target = Target::namespace(client, namespace);
    let mut doors = vec![(target.dry_run(), Way::ALL.to_vec()), (target.clone(), Way::ALL.to_vec())];
    let served = client.list_core_api_resources("v1").await?;
    for resource in served.resources {
        let Some(subresource) = resource.name.strip_prefix("namespaces/") else { continue };
        let ways = [(Way::Replace, "update"), (Way::Merge, "patch"), (Way::Json, "patch"), (Way::Strategic, "patch")];
        let ways: Vec<_> = ways
            .iter()
            .filter(|(_, verb)| resource.verbs.iter().any(|known| known == verb))
            .map(|(way, _)| *way)
            .collect();
        doors.push((target.through(subresource), ways));
    }
    Ok(doors)
}

/// Tries everything to get from the label as it is to `to`.
pub(super) async fn assert_no_way(plot: &Plot, to: Option<&str>) -> Result<()> {
    let before = plot.label().await?;
    for (target, ways) in doors(&plot.owner.client, &plot.namespace).await? {
        for way in ways {
            let what =
                format!("{before:?} -> {to:?} by {way:?} on {:?}, dry run {}", target.subresource, target.dry_run);
            let answer = target.write(way, CLASS_LABEL, to).await;
            // Who changes it chooses one and leaves one: either may be refused first.
            let is_leaving = to.is_none_or(str::is_empty) || super::is_fence(LEAVING, &answer);
            let (fence, verb) = if is_leaving { (LEAVING, "leave") } else { (CHOICE, "use") };
            let message = assert_refused(fence, &answer, &what);
            assert!(message.contains(&format!("needs the verb `{verb}` on namespaceclasses.akuity.io/")), "{message}");
            assert_eq!(plot.label().await?, before, "{what}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_subresources_that_can_write_a_namespace_are_known_to_discovery() -> Result<()> {
    let world = world().await;
    let doors = doors(&world.client(), "default").await?;
    let subresources: Vec<_> = doors
        .iter()
        .filter(|(_, ways)| !ways.is_empty())
        .filter_map(|(target, _)| target.subresource.clone())
        .collect();
    assert!(
        subresources.contains(&"status".to_owned()) && subresources.contains(&"finalize".to_owned()),
        "{subresources:?}"
    );
    Ok(())
}

#[tokio::test]
async fn who_may_do_everything_in_a_namespace_still_cannot_choose_change_or_leave_its_class() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "choice").await?;
    assert_no_way(&plot, Some("choice-any")).await?;
    define(&plot.admin, "choice-first", false, vec![]).await?;
    plot.bind("choice-first").await?;
    leaving_is_fenced(&plot).await;
    assert_no_way(&plot, Some("choice-any")).await?;
    assert_no_way(&plot, None).await?;
    assert_no_way(&plot, Some("")).await
}

/// A policy hears of a new class a moment after it was made.
async fn leaving_is_fenced(plot: &Plot) {
    let target = Target::namespace(&plot.owner.client, &plot.namespace).dry_run();
    eventually("the class to be known to the fence", || async {
        Ok(super::is_fence(LEAVING, &target.write(Way::Merge, CLASS_LABEL, None).await).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn who_may_use_a_class_may_not_thereby_leave_it() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "stay").await?;
    let_do(&world.bed, &plot.owner, &["stay", "stay-other"], &["use"]).await?;
    define(&plot.admin, "stay", false, vec![]).await?;
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    eventually("the right to count", || async { Ok(Some(target.write(Way::Merge, CLASS_LABEL, Some("stay")).await?)) })
        .await;
    leaving_is_fenced(&plot).await;
    for to in [None, Some(""), Some("stay-other")] {
        let message = assert_refused(LEAVING, &target.write(Way::Merge, CLASS_LABEL, to).await, "left");
        assert!(message.contains("the verb `leave` on namespaceclasses.akuity.io/stay"), "{message}");
    }
    Ok(())
}

#[tokio::test]
async fn a_class_that_does_not_exist_can_always_be_left() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "nowhere").await?;
    plot.bind("nowhere-at-all").await?;
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    target.write(Way::Merge, CLASS_LABEL, None).await.context("left")?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_of_a_tenant_has_one_of_the_classes_that_are_required() -> Result<()> {
    let world = world().await;
    let label = ("example.com/required-in-tests", "yes");
    let arguments = [
        "manifests",
        "--webhook-url",
        "https://nowhere",
        "--class-required",
        &format!("{}={}", label.0, label.1),
        "--required-class",
        "required",
    ];
    let output = tokio::process::Command::new(support::croft()).args(arguments).output().await?;
    let text = String::from_utf8(output.stdout)?;
    let parts: Vec<_> = text.split("\n---\n").filter(|part| part.contains(REQUIRED)).collect();
    let policies = parts.join("\n---\n");
    support::apply(world.bed.admin(), &policies).await?;
    let plot = Plot::new(&world.bed, "required").await?;
    define(&plot.admin, "required", false, vec![]).await?;
    let_use(&world.bed, &plot.owner, &["required", "required-other"]).await?;
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    eventually("the fence", || async {
        Ok(super::is_fence(REQUIRED, &target.dry_run().write(Way::Merge, label.0, Some(label.1)).await).then_some(()))
    })
    .await;
    eventually("the class", || async { Ok(Some(target.write(Way::Merge, CLASS_LABEL, Some("required")).await?)) })
        .await;
    target.write(Way::Merge, label.0, Some(label.1)).await.context("with the class it may be a tenant's")?;
    for (key, value) in [(CLASS_LABEL, None), (CLASS_LABEL, Some("required-other")), (label.0, None)] {
        assert_refused(REQUIRED, &target.write(Way::Merge, key, value).await, key);
    }
    target.write(Way::Merge, "example.com/note", Some("mine")).await.context("anything else")?;
    Ok(())
}

#[tokio::test]
async fn with_use_and_leave_every_way_is_open() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "useful").await?;
    let_use(&world.bed, &plot.owner, &["useful-a", "useful-b"]).await?;
    let target = Target::namespace(&plot.owner.client, &plot.namespace).dry_run();
    eventually("the right to count", || async {
        Ok(Some(target.write(Way::Merge, CLASS_LABEL, Some("useful-a")).await?))
    })
    .await;
    for to in ["useful-a", "useful-b"] {
        for (target, ways) in doors(&plot.owner.client, &plot.namespace).await? {
            for way in ways {
                let done = target.write(way, CLASS_LABEL, Some(to)).await;
                done.with_context(|| format!("to {to} by {way:?} on {:?}", target.subresource))?;
            }
        }
        assert_eq!(plot.label().await?.as_deref(), Some(to));
    }
    Target::namespace(&plot.owner.client, &plot.namespace).write(Way::Merge, CLASS_LABEL, None).await?;
    assert_eq!(plot.label().await?, None);
    Ok(())
}

#[tokio::test]
async fn a_change_of_class_needs_use_on_the_new_and_leave_on_the_old_one() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "both").await?;
    let_use(&world.bed, &plot.owner, &["both-mine"]).await?;
    let target = Target::namespace(&plot.owner.client, &plot.namespace);
    eventually("the right to count", || async {
        Ok(Some(target.write(Way::Merge, CLASS_LABEL, Some("both-mine")).await?))
    })
    .await;
    let away = target.write(Way::Merge, CLASS_LABEL, Some("both-other")).await;
    let message = assert_refused(CHOICE, &away, "to a class of others");
    assert!(
        message.contains("choosing this class") && message.contains("namespaceclasses.akuity.io/both-other"),
        "{message}"
    );
    define(&plot.admin, "both-other", false, vec![]).await?;
    plot.bind("both-other").await?;
    leaving_is_fenced(&plot).await;
    let back = target.write(Way::Merge, CLASS_LABEL, Some("both-mine")).await;
    let message = assert_refused(LEAVING, &back, "away from a class of others");
    assert!(
        message.contains("leaving this class") && message.contains("namespaceclasses.akuity.io/both-other"),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn a_namespace_is_not_born_into_a_class_without_use() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "birth").await?;
    may_make_namespaces(world, &plot.owner).await?;
    let api: Api<Namespace> = Api::all(plot.owner.client.clone());
    let named = |suffix: &str, class: Option<&str>| -> Namespace {
        let labels = class.map(|class| json!({CLASS_LABEL: class}));
        let metadata = json!({"name": format!("{}-{suffix}", plot.namespace), "labels": labels});
        serde_json::from_value(json!({"metadata": metadata})).expect("a namespace")
    };
    eventually("the right to count", || async {
        Ok(Some(api.create(&PostParams::default(), &named("plain", None)).await?))
    })
    .await;
    api.create(&PostParams::default(), &named("empty", Some(""))).await?;
    let born = named("born", Some("birth"));
    assert_refused(CHOICE, &api.create(&PostParams::default(), &born).await, "by create");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert_refused(CHOICE, &api.create(&dry, &born).await, "by dry run");
    let applied = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": born.metadata});
    let by_apply = api.patch(&born.name_any(), &PatchParams::apply("somebody"), &Patch::Apply(&applied)).await;
    assert_refused(CHOICE, &by_apply, "by apply");
    let mut unnamed = born.clone();
    unnamed.metadata.name = None;
    unnamed.metadata.generate_name = Some("birth-".into());
    assert_refused(CHOICE, &api.create(&PostParams::default(), &unnamed).await, "under a generated name");
    assert!(Api::<Namespace>::all(world.client()).get_opt(&born.name_any()).await?.is_none());

    let_use(&world.bed, &plot.owner, &["birth"]).await?;
    eventually("the class to be open", || async { Ok(Some(api.create(&PostParams::default(), &born).await?)) }).await;
    Ok(())
}

async fn may_make_namespaces(world: &Shared, user: &Identity) -> Result<()> {
    let name = format!("makes-namespaces-{}", user.name);
    let admin = world.bed.admin();
    admin.kubectl(&["create", "clusterrole", &name, "--verb=create,patch", "--resource=namespaces"]).await?;
    admin.kubectl(&["create", "clusterrolebinding", &name, "--clusterrole", &name, "--user", &user.name]).await?;
    Ok(())
}

#[tokio::test]
async fn what_leaves_the_class_alone_passes() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "alone").await?;
    let unlabelled = Target::namespace(&plot.owner.client, &plot.namespace);
    unlabelled.write(Way::Merge, CLASS_LABEL, Some("")).await.context("an empty value chooses nothing")?;
    unlabelled.write(Way::Merge, CLASS_LABEL, None).await.context("and nothing is left")?;
    plot.bind("alone").await?;
    for (target, ways) in doors(&plot.owner.client, &plot.namespace).await? {
        // An apply of other labels by the manager of the class label would remove it.
        for way in ways.into_iter().filter(|way| *way != Way::Apply) {
            let done = target.write(way, "example.com/note", Some("mine")).await;
            done.with_context(|| format!("{way:?} on {:?}", target.subresource))?;
        }
    }
    assert_eq!(plot.label().await?.as_deref(), Some("alone"));
    Ok(())
}

#[tokio::test]
async fn a_system_namespace_takes_no_class_from_anybody() -> Result<()> {
    let world = world().await;
    Plot::new(&world.bed, "system").await?;
    for name in ["kube-system", "kube-public", "default", "croft-system", "velero"] {
        let target = Target::namespace(&world.client(), name);
        let message = assert_refused(CHOICE, &target.write(Way::Merge, CLASS_LABEL, Some("system")).await, name);
        assert!(message.contains(&format!("namespace {name} belongs to the system")), "{message}");
    }
    let born: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "kube-new", "labels": {CLASS_LABEL: "system"}}}))?;
    let api: Api<Namespace> = Api::all(world.client());
    assert_refused(CHOICE, &api.create(&PostParams::default(), &born).await, "a new one");
    Ok(())
}

#[tokio::test]
async fn a_dying_namespace_cannot_change_its_class() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "dying-fence").await?;
    define(&world.client(), "dying-fence", false, vec![]).await?;
    plot.bind("dying-fence").await?;
    let api: Api<Namespace> = Api::all(plot.owner.client.clone());
    let held = |finalizers: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    api.patch(&plot.namespace, &PatchParams::default(), &held(&["example.com/hold"])).await?;
    api.delete(&plot.namespace, &DeleteParams::default()).await?;
    // Inside a dying namespace the owner loses its rights with its Role; an account with rights on the cluster keeps them.
    let outside = world.bed.service_account("fence-tests", "dying").await?;
    let admin = world.bed.admin();
    let subject = "--serviceaccount=fence-tests:dying";
    admin
        .kubectl(&[
            "create",
            "clusterrole",
            "dying-fence",
            "--verb=*",
            "--resource=namespaces,namespaces/status,namespaces/finalize",
        ])
        .await?;
    admin.kubectl(&["create", "clusterrolebinding", "dying-fence", "--clusterrole=dying-fence", subject]).await?;
    let plot = Plot { owner: outside, ..plot };
    plot.wait_for_the_fences().await;
    assert_no_way(&plot, Some("dying-other")).await?;
    assert_no_way(&plot, None).await?;
    Api::<Namespace>::all(world.client()).patch(&plot.namespace, &PatchParams::default(), &held(&[])).await?;
    Ok(())
}

#[tokio::test]
async fn the_api_server_finds_nothing_wrong_with_the_policies() -> Result<()> {
    let world = world().await;
    let api: Api<ValidatingAdmissionPolicy> = Api::all(world.client());
    for name in [CHOICE, LEAVING, BINDINGS, PROTECTION, MARKS, METADATA, PARAMS, GATE] {
        let checked = eventually(&format!("{name} to be type-checked"), || async {
            Ok(api.get(name).await?.status.filter(|status| status.observed_generation.is_some()))
        })
        .await;
        let warnings = checked.type_checking.and_then(|checking| checking.expression_warnings).unwrap_or_default();
        assert!(warnings.is_empty(), "{name}: {warnings:#?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_example_lets_a_team_use_its_class_and_no_other() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "example-use").await?;
    let example = include_str!("../../../../../examples/use-class-team.yaml").replace("team-a", &plot.namespace);
    support::apply(world.bed.admin(), &example).await?;
    let group = format!("--as-group={}", plot.namespace);
    let label = |class: &'static str| {
        let (namespace, group) = (plot.namespace.clone(), group.clone());
        let admin = world.bed.admin();
        async move {
            let label = format!("{CLASS_LABEL}={class}");
            admin.kubectl(&["label", "namespace", &namespace, &label, "--overwrite", "--as=alice", &group]).await
        }
    };
    eventually("the team to use its class", || async { label("team").await.map(Some) }).await;
    assert_eq!(plot.label().await?.as_deref(), Some("team"));
    let other = label("example-other").await.expect_err("another class").to_string();
    assert!(other.contains("namespaceclasses.akuity.io/example-other"), "{other}");
    Ok(())
}
