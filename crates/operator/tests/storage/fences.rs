//! The fence around teams, tried by somebody who may do everything in a namespace, in every way the API offers.

use anyhow::{Context, Result};
use croft::storage::fences::TEAM;
use croft_api::storage::TEAM_LABEL;
use croft_testbed::Identity;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy, core::v1::Namespace, rbac::v1::PolicyRule,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    plot::Plot,
    support::{self, eventually},
};

/// Everything inside the namespace; Kubernetes counts the Namespace object itself as inside.
async fn owner_of(plot: &Plot<'_>) -> Result<Identity> {
    let everything = PolicyRule {
        api_groups: Some(vec!["*".into()]),
        resources: Some(vec!["*".into()]),
        verbs: vec!["*".into()],
        ..PolicyRule::default()
    };
    plot.bed.tenant(&format!("owner-of-{}", plot.namespace), &plot.namespace, vec![everything]).await
}

async fn let_use(plot: &Plot<'_>, user: &Identity, teams: &[&str]) -> Result<()> {
    let name = format!("use-teams-{}", plot.namespace);
    let rights = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": ["s3.snappcloud.io"], "resources": ["s3teamquotas"], "resourceNames": teams, "verbs": ["use"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
        },
    ]});
    support::apply(plot.bed.admin(), &rights.to_string()).await?;
    Ok(())
}

fn labelled(team: Option<&str>) -> Value {
    json!({ "metadata": { "labels": { TEAM_LABEL: team } } })
}

async fn team(plot: &Plot<'_>) -> Result<Option<String>> {
    Ok(plot.namespaces().get(&plot.namespace).await?.labels().get(TEAM_LABEL).cloned())
}

/// What the fence says to every way of writing the label; nothing where it lets pass.
async fn tries(plot: &Plot<'_>, who: &Identity, to: Option<&str>) -> Result<Vec<Result<(), String>>> {
    let api: Api<Namespace> = Api::all(who.client.clone());
    let name = plot.namespace.as_str();
    let merge = PatchParams::default();
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let mut whole = plot.namespaces().get(name).await?;
    match to {
        Some(team) => whole.labels_mut().insert(TEAM_LABEL.into(), team.into()),
        None => whole.labels_mut().remove(TEAM_LABEL),
    };
    whole.metadata.resource_version = None;
    whole.metadata.managed_fields = None;
    let answers = [
        api.patch(name, &dry, &Patch::Merge(labelled(to))).await.map(drop),
        api.patch(name, &merge, &Patch::Strategic(labelled(to))).await.map(drop),
        api.patch_subresource("status", name, &merge, &Patch::Merge(labelled(to))).await.map(drop),
        api.replace_subresource("finalize", name, &PostParams::default(), &whole).await.map(drop),
        api.replace(name, &PostParams::default(), &whole).await.map(drop),
        api.patch(name, &merge, &Patch::Merge(labelled(to))).await.map(drop),
    ];
    Ok(answers.into_iter().map(|answer| answer.map_err(|error| error.to_string())).collect())
}

async fn assert_no_way(plot: &Plot<'_>, who: &Identity, to: Option<&str>, missing: &str) -> Result<()> {
    let before = team(plot).await?;
    for answer in tries(plot, who, to).await? {
        let told = answer.expect_err("the fence refuses it");
        let needs = format!("needs the verb `use` on s3teamquotas.s3.snappcloud.io/{missing}");
        assert!(told.contains(TEAM) && told.contains(&needs), "{told}");
    }
    assert_eq!(team(plot).await?, before);
    Ok(())
}

async fn fence_stands(plot: &Plot<'_>, who: &Identity) {
    let api: Api<Namespace> = Api::all(who.client.clone());
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    eventually("the fence to stand and the tenant's rights to count", || async {
        let refused = api.patch(&plot.namespace, &dry, &Patch::Merge(labelled(Some("nobody")))).await;
        Ok(refused.is_err_and(|error| error.to_string().contains(TEAM)).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn who_may_do_everything_in_a_namespace_still_cannot_join_change_or_leave_a_team() -> Result<()> {
    let plot = Plot::new("teamless").await?;
    let owner = owner_of(&plot).await?;
    fence_stands(&plot, &owner).await;
    assert_no_way(&plot, &owner, Some("red"), "red").await?;
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(labelled(Some("red")))).await?;
    assert_no_way(&plot, &owner, Some("Blue_Team"), "Blue_Team").await?;
    assert_no_way(&plot, &owner, None, "red").await?;
    assert_no_way(&plot, &owner, Some(""), "red").await?;
    // What does not touch the label passes.
    let note = json!({ "metadata": { "labels": { "example.com/note": "mine" } } });
    let api: Api<Namespace> = Api::all(owner.client.clone());
    api.patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(note)).await?;
    Ok(())
}

#[tokio::test]
async fn with_use_on_both_teams_a_namespace_changes_its_team_and_with_one_it_does_not() -> Result<()> {
    let plot = Plot::new("teamed").await?;
    let owner = owner_of(&plot).await?;
    fence_stands(&plot, &owner).await;
    let_use(&plot, &owner, &["teamed-a", "teamed-b"]).await?;
    let api: Api<Namespace> = Api::all(owner.client.clone());
    eventually("the right to count", || async {
        Ok(Some(api.patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(labelled(Some("teamed-a")))).await?))
    })
    .await;
    for answer in tries(&plot, &owner, Some("teamed-b")).await? {
        answer.map_err(anyhow::Error::msg).context("both are open")?;
    }
    assert_eq!(team(&plot).await?.as_deref(), Some("teamed-b"));
    assert_no_way(&plot, &owner, Some("teamed-c"), "teamed-c").await?;
    plot.namespaces()
        .patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(labelled(Some("teamed-c"))))
        .await?;
    assert_no_way(&plot, &owner, Some("teamed-a"), "teamed-c").await
}

#[tokio::test]
async fn a_namespace_is_not_born_into_a_team_without_use() -> Result<()> {
    let plot = Plot::new("born").await?;
    let owner = owner_of(&plot).await?;
    fence_stands(&plot, &owner).await;
    let (name, admin) = (format!("makes-namespaces-{}", plot.namespace), plot.bed.admin());
    admin.kubectl(&["create", "clusterrole", &name, "--verb=create", "--resource=namespaces"]).await?;
    admin.kubectl(&["create", "clusterrolebinding", &name, "--clusterrole", &name, "--user", &owner.name]).await?;
    let api: Api<Namespace> = Api::all(owner.client.clone());
    let born = |suffix: &str, team: Option<&str>| -> Namespace {
        let labels = team.map(|team| json!({ TEAM_LABEL: team }));
        let metadata = json!({ "name": format!("{}-{suffix}", plot.namespace), "labels": labels });
        serde_json::from_value(json!({ "metadata": metadata })).expect("a namespace")
    };
    eventually("the right to count", || async {
        Ok(Some(api.create(&PostParams::default(), &born("plain", None)).await?))
    })
    .await;
    let refused = api.create(&PostParams::default(), &born("red", Some("red"))).await.expect_err("it is refused");
    assert!(refused.to_string().contains(TEAM), "{refused}");
    Ok(())
}

#[tokio::test]
async fn the_api_server_finds_nothing_wrong_with_the_policy() -> Result<()> {
    let plot = Plot::new("checked").await?;
    let api: Api<ValidatingAdmissionPolicy> = Api::all(plot.client.clone());
    let checked = eventually("the policy to be type-checked", || async {
        Ok(api.get(TEAM).await?.status.filter(|status| status.observed_generation.is_some()))
    })
    .await;
    let warnings = checked.type_checking.and_then(|checking| checking.expression_warnings).unwrap_or_default();
    assert!(warnings.is_empty(), "{warnings:#?}");
    Ok(())
}
