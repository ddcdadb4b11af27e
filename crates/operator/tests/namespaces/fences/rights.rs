//! What the operator may put into namespaces, and what tenants may do with our kinds.

use std::time::{Duration, Instant};

use anyhow::Result;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClassBinding};
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::{
    core::v1::{ConfigMap, ResourceQuota},
    rbac::v1::RoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Plot, Target, config_map, define};
use crate::{
    scene::{gone, may_be_in_classes},
    support::{self, Shared, eventually, shared},
};

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

#[tokio::test]
async fn one_labelled_cluster_role_lets_classes_contain_another_kind() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "cron").await?;
    let job = json!({"restartPolicy": "Never", "containers": [{"name": "tidy", "image": "example.com/tidy"}]});
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tidy"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": job}}}},
    });
    define(&world.client(), "cron", false, vec![config_map("made"), cron_job]).await?;
    plot.bind("cron").await?;
    let (_, message) = plot.ready_reason("Forbidden").await;
    assert!(message.contains("CronJob") && message.contains("cronjobs"), "{message}");
    support::apply(world.bed.admin(), include_str!("../../../../../examples/class-contents-cronjobs.yaml")).await?;
    plot.ready().await;
    Ok(())
}

#[tokio::test]
async fn what_waits_for_a_right_goes_on_as_soon_as_it_is_granted() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "granted").await?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    define(&world.client(), "granted", false, vec![budget]).await?;
    plot.bind("granted").await?;
    plot.ready_reason("Forbidden").await;
    // By now it would be tried again but rarely.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let begun = Instant::now();
    support::apply(world.bed.admin(), &may_be_in_classes("policy", "poddisruptionbudgets")).await?;
    plot.ready().await;
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn whoever_may_annotate_the_namespace_has_it_looked_at() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "triggered").await?;
    define(&world.client(), "triggered", false, vec![config_map("made")]).await?;
    plot.bind("triggered").await?;
    plot.ready().await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client(), &plot.namespace);
    // Something that nobody announces: a name that is taken is free again.
    config_maps.create(&PostParams::default(), &serde_json::from_value(config_map("taken"))?).await?;
    define(&world.client(), "triggered", false, vec![config_map("made"), config_map("taken")]).await?;
    plot.ready_reason("Conflict").await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    config_maps.delete("taken", &DeleteParams::default()).await?;
    let begun = Instant::now();
    let trigger = json!({"metadata": {"annotations": {"reconcile.akuity.io/trigger": "now"}}});
    Target::namespace(&plot.owner.client, &plot.namespace).patch(&Patch::Merge(trigger)).await?;
    plot.ready().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    Ok(())
}

/// Gives everybody a role.
fn role_binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "everybody"}],
    })
}

/// A namespace of a class that gives what the operator may hand out, since it holds it itself.
async fn given(name: &str) -> Result<(Plot, Api<RoleBinding>)> {
    let world = world().await;
    let plot = Plot::new(&world.bed, name).await?;
    support::apply(world.bed.admin(), ROLE_BINDINGS).await?;
    let role = ["create", "clusterrole", name, "--verb=get,list", "--resource=configmaps"];
    world.bed.admin().kubectl(&role).await?;
    define(&world.client(), name, false, vec![role_binding("given", name)]).await?;
    plot.bind(name).await?;
    plot.ready().await;
    let bindings = Api::namespaced(world.client(), &plot.namespace);
    Ok((plot, bindings))
}

#[tokio::test]
async fn a_full_quota_keeps_no_right_that_a_class_gives_no_more() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("quota-is-full").await?;
    let (counted, quotas) = (
        "count/rolebindings.rbac.authorization.k8s.io",
        Api::<ResourceQuota>::namespaced(world.client(), &plot.namespace),
    );
    let count = bindings.list(&ListParams::default()).await?.items.len().to_string();
    let full = json!({"metadata": {"name": "full"}, "spec": {"hard": {counted: count}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(full)?).await?;
    eventually("the quota to be full", || async {
        let used = quotas.get("full").await?.status.and_then(|status| status.used?.get(counted).cloned());
        Ok(used.filter(|used| used.0 == count))
    })
    .await;
    let role = ["create", "clusterrole", "quota-is-full-still", "--verb=get", "--resource=services"];
    world.bed.admin().kubectl(&role).await?;
    define(&world.client(), "quota-is-full", false, vec![role_binding("given", "quota-is-full-still")]).await?;
    eventually("the other role to be given", || async {
        Ok(bindings.get_opt("given").await?.filter(|given| given.role_ref.name == "quota-is-full-still"))
    })
    .await;
    plot.ready().await;
    Ok(())
}

/// Somebody holds a right in its deletion.
async fn hold(bindings: &Api<RoleBinding>) -> Result<()> {
    let held = json!({"metadata": {"finalizers": ["example.com/mine"]}});
    bindings.patch("given", &PatchParams::default(), &Patch::Merge(held)).await?;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_keeps_no_right_that_a_class_gives_no_more() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("held-right").await?;
    hold(&bindings).await?;
    define(&world.client(), "held-right", false, vec![config_map("made")]).await?;
    gone(&bindings, "given").await;
    plot.ready().await;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_keeps_no_role_that_a_class_replaces() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("held-role").await?;
    hold(&bindings).await?;
    let role = ["create", "clusterrole", "held-role-still", "--verb=get", "--resource=services"];
    world.bed.admin().kubectl(&role).await?;
    define(&world.client(), "held-role", false, vec![role_binding("given", "held-role-still")]).await?;
    eventually("the other role to be given", || async {
        Ok(bindings.get_opt("given").await?.filter(|given| given.role_ref.name == "held-role-still"))
    })
    .await;
    plot.ready().await;
    Ok(())
}

#[tokio::test]
async fn a_binding_goes_as_soon_as_a_right_that_somebody_held_is_gone() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("held-left").await?;
    hold(&bindings).await?;
    let of_class: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &plot.namespace);
    let unlabelled = json!({"metadata": {"labels": {CLASS_LABEL: null}}});
    Target::namespace(&plot.admin, &plot.namespace).patch(&Patch::Merge(unlabelled)).await?;
    gone(&bindings, "given").await;
    gone(&of_class, &plot.namespace).await;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_keeps_no_role_whose_owner_is_taken_off_in_its_deletion() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("held-ownerless").await?;
    hold(&bindings).await?;
    let watched = bindings.clone();
    let meddles = tokio::spawn(async move {
        let ownerless = Patch::Merge(json!({"metadata": {"ownerReferences": []}}));
        loop {
            let seen = watched.get_opt("given").await.ok().flatten();
            if seen.is_some_and(|given| given.metadata.deletion_timestamp.is_some()) {
                let _ = watched.patch("given", &PatchParams::default(), &ownerless).await;
            }
        }
    });
    let role = ["create", "clusterrole", "held-ownerless-still", "--verb=get", "--resource=services"];
    world.bed.admin().kubectl(&role).await?;
    define(&world.client(), "held-ownerless", false, vec![role_binding("given", "held-ownerless-still")]).await?;
    eventually("the other role to be given", || async {
        Ok(bindings.get_opt("given").await?.filter(|given| given.role_ref.name == "held-ownerless-still"))
    })
    .await;
    meddles.abort();
    plot.ready().await;
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_given_no_more_is_not_kept_by_who_keeps_writing_into_it() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("kept-busy").await?;
    let written = bindings.clone();
    let writes = tokio::spawn(async move {
        for turn in 0.. {
            let note = Patch::Merge(json!({"metadata": {"annotations": {"example.com/turn": format!("{turn}")}}}));
            let _ = written.patch("given", &PatchParams::default(), &note).await;
        }
    });
    define(&world.client(), "kept-busy", false, vec![config_map("made")]).await?;
    gone(&bindings, "given").await;
    writes.abort();
    plot.ready().await;
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_not_be_given_keeps_no_right_that_a_class_gives_no_more() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("may-not-bind").await?;
    define(&world.client(), "may-not-bind", false, vec![role_binding("given", "cluster-admin")]).await?;
    eventually("the right to be withdrawn", || async { Ok(bindings.get_opt("given").await?.is_none().then_some(())) })
        .await;
    plot.ready_reason("Forbidden").await;
    Ok(())
}

#[tokio::test]
async fn a_right_whose_name_cannot_be_told_keeps_no_other_right() -> Result<()> {
    let world = world().await;
    let (plot, bindings) = given("name-untold").await?;
    let nameless = role_binding("{{ namespace.labels['example.com/nobody-sets-it'] }}", "name-untold");
    define(&world.client(), "name-untold", false, vec![nameless]).await?;
    plot.ready_reason("InvalidClass").await;
    eventually("the right to be withdrawn", || async { Ok(bindings.get_opt("given").await?.is_none().then_some(())) })
        .await;
    Ok(())
}

#[tokio::test]
async fn a_class_cannot_hand_out_rights_the_operator_does_not_hold() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "mint").await?;
    support::apply(world.bed.admin(), ROLE_BINDINGS).await?;
    define(&world.client(), "mint", false, vec![config_map("made"), role_binding("too-much", "cluster-admin")]).await?;
    plot.bind("mint").await?;
    let refused = || async {
        let (_, message) = plot.ready_reason("Forbidden").await;
        anyhow::ensure!(message.contains("too-much") && message.contains("not currently held"), "{message}");
        Ok(Some(()))
    };
    // Until the aggregated right counts, it is the creation as such that is forbidden.
    eventually("the refusal to name the grant", refused).await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.client(), &plot.namespace);
    assert!(bindings.get_opt("too-much").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_conflict_in_the_new_class_keeps_no_right_of_the_old_one() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "withdrawn").await?;
    support::apply(world.bed.admin(), ROLE_BINDINGS).await?;
    // What the operator holds itself it may hand out.
    let role = ["create", "clusterrole", "reads-config-maps", "--verb=get,list", "--resource=configmaps"];
    world.bed.admin().kubectl(&role).await?;
    let given = role_binding("given", "reads-config-maps");
    define(&world.client(), "withdrawn-old", false, vec![config_map("old"), given]).await?;
    define(&world.client(), "withdrawn-new", false, vec![config_map("taken")]).await?;
    plot.bind("withdrawn-old").await?;
    plot.ready().await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client(), &plot.namespace);
    config_maps.create(&PostParams::default(), &serde_json::from_value(config_map("taken"))?).await?;
    plot.bind("withdrawn-new").await?;
    plot.ready_reason("Conflict").await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.client(), &plot.namespace);
    eventually("the right to be withdrawn", || async { Ok(bindings.get_opt("given").await?.is_none().then_some(())) })
        .await;
    assert!(config_maps.get_opt("old").await?.is_some(), "everything else waits until all of the new class stands");
    Ok(())
}

#[tokio::test]
async fn a_class_that_does_not_fit_the_namespace_keeps_no_right_of_the_old_one() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "unfit").await?;
    support::apply(world.bed.admin(), ROLE_BINDINGS).await?;
    let role = ["create", "clusterrole", "reads-services", "--verb=get,list", "--resource=services"];
    world.bed.admin().kubectl(&role).await?;
    let given = role_binding("given", "reads-services");
    let mut unfit = config_map("unfit");
    unfit["data"] = json!({"note": "{{ namespace.annotations['example.com/nobody-sets-it'] }}"});
    define(&world.client(), "unfit-old", false, vec![config_map("old"), given]).await?;
    define(&world.client(), "unfit-new", false, vec![config_map("new"), unfit]).await?;
    plot.bind("unfit-old").await?;
    plot.ready().await;
    plot.bind("unfit-new").await?;
    plot.ready_reason("InvalidClass").await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.client(), &plot.namespace);
    eventually("the right to be withdrawn", || async { Ok(bindings.get_opt("given").await?.is_none().then_some(())) })
        .await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client(), &plot.namespace);
    assert!(config_maps.get_opt("new").await?.is_some(), "what fits is made");
    assert!(config_maps.get_opt("old").await?.is_some(), "everything else waits until all of the new class stands");
    Ok(())
}

const ROLE_BINDINGS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: classes-contain-role-bindings
  labels: {croft.dev/aggregate-to-namespace-classes: 'true'}
rules:
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, delete]
";

#[tokio::test]
async fn the_operator_holds_neither_escalate_nor_bind_nor_impersonate() -> Result<()> {
    let operator = &world().await.installed.identity;
    for (verb, resource) in [
        ("escalate", "rbac.authorization.k8s.io/clusterroles"),
        ("escalate", "rbac.authorization.k8s.io/roles"),
        ("bind", "rbac.authorization.k8s.io/clusterroles"),
        ("bind", "rbac.authorization.k8s.io/roles"),
        ("impersonate", "users"),
        ("impersonate", "serviceaccounts"),
        ("create", "rbac.authorization.k8s.io/clusterrolebindings"),
        ("patch", "admissionregistration.k8s.io/validatingadmissionpolicies"),
        ("patch", "admissionregistration.k8s.io/validatingadmissionpolicybindings"),
        ("delete", "admissionregistration.k8s.io/validatingadmissionpolicybindings"),
    ] {
        assert!(!operator.can(verb, resource, None).await?, "{verb} {resource}");
    }
    Ok(())
}

#[tokio::test]
async fn who_views_or_edits_a_namespace_views_or_edits_our_kinds_in_it_but_no_classes() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("people").await?;
    let user_with = async |role: &str| -> Result<Identity> {
        let name = format!("{role}-of-{namespace}");
        let granted = ["create", "rolebinding", &name, "--clusterrole", role, "--user", &name, "-n", &namespace];
        world.bed.admin().kubectl(&granted).await?;
        world.bed.tenant(&name, &namespace, vec![]).await
    };
    let (view, edit, admin) = (user_with("view").await?, user_with("edit").await?, user_with("admin").await?);
    let claims = "s3.snappcloud.io/s3userclaims";
    let bindings = "akuity.io/namespaceclassbindings";
    let downloads = "oadp.openshift.io/nonadmindownloadrequests";
    let buckets = "s3.snappcloud.io/s3buckets";
    for (user, verb, kind, expected) in [
        (&view, "list", claims, true),
        (&view, "list", bindings, true),
        (&view, "list", "oadp.openshift.io/nonadminbackups", true),
        (&view, "create", claims, false),
        (&view, "get", downloads, false),
        (&edit, "create", claims, true),
        (&edit, "create", downloads, true),
        (&edit, "patch", "oadp.openshift.io/nonadminrestores", true),
        (&edit, "get", bindings, true),
        (&edit, "patch", bindings, false),
        (&admin, "delete", buckets, true),
        (&admin, "delete", bindings, false),
        (&admin, "list", "s3.snappcloud.io/s3users", false),
        // Who writes a class acts with the rights of the operator, and what stands in a class is for administrators.
        (&admin, "create", "akuity.io/namespaceclasses", false),
        (&admin, "patch", "akuity.io/namespaceclasses", false),
        (&admin, "get", "akuity.io/namespaceclasses", false),
    ] {
        eventually(&format!("{} may {verb} {kind}: {expected}", user.name), || async {
            Ok((user.can(verb, kind, Some(&namespace)).await? == expected).then_some(()))
        })
        .await;
    }
    Ok(())
}
