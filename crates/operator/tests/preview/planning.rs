//! `croft plan`.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    desk::{class, config_map, define, effects, furnished, label, plan, run, says, versions, with_policy, world},
    support::Shared,
};

async fn make_config_map(world: &Shared, namespace: &str, name: &str) -> Result<()> {
    let mine: ConfigMap = serde_json::from_value(config_map(name, &json!({"mine": "yes"})))?;
    Api::namespaced(world.client(), namespace).create(&PostParams::default(), &mine).await?;
    Ok(())
}

#[tokio::test]
async fn a_class_is_planned_for_a_namespace_before_it_is_defined_and_nothing_is_made() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("before").await?;
    let before = versions(world, &namespace).await?;
    let class =
        class("plan-before", &json!([config_map("one", &json!({})), config_map("{{ namespace.name }}", &json!({}))]));
    let said = plan(world, &class, &["-n", &namespace]).await?.ends_with_code(1);
    let expected = format!(
        "{namespace} (newly bound)\n  create        ConfigMap/one\n  create        ConfigMap/{namespace}\n\n1 namespace: 2 creates\n"
    );
    assert_eq!(said.text, expected);
    plan(world, &class, &[])
        .await?
        .ends_with_code(0)
        .mentions(&["no namespace has class plan-before", "0 namespaces: no change"]);
    assert_eq!(versions(world, &namespace).await?, before);
    assert!(
        world.bed.admin().kubectl(&["get", "namespaceclass", "plan-before"]).await.is_err(),
        "the class is not defined"
    );
    Ok(())
}

#[tokio::test]
async fn what_a_class_drops_and_somebody_says_is_his_as_well_is_told_to_go() -> Result<()> {
    let world = world().await;
    let with = |data: &Value| class("plan-shared", &json!([config_map("made", data)]));
    let namespace = furnished(world, "shared", &with(&json!({"key": "1", "gone": "1"}))).await?;
    let same = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"gone": "1"}});
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client(), &namespace);
    config_maps.patch("made", &PatchParams::apply("somebody"), &Patch::Apply(&same)).await?;
    let operator_namespace = world.installed.namespace.as_str();
    let arguments = ["--operator-namespace", operator_namespace];
    let said = plan(world, &with(&json!({"key": "1"})), &arguments).await?.ends_with_code(1);
    said.mentions(&["change        ConfigMap/made", "data.gone"]);
    Ok(())
}

#[tokio::test]
async fn a_class_as_it_is_changes_nothing_and_an_edited_one_is_told_field_by_field() -> Result<()> {
    let world = world().await;
    let resources = json!([
        config_map("keep", &json!({"level": "low", "same": "1", "gone": "1"})),
        config_map("drop", &json!({})),
        config_map("same", &json!({"a": "1"})),
    ]);
    let namespace = furnished(world, "edited", &class("plan-edit", &resources)).await?;
    let before = versions(world, &namespace).await?;
    let said = plan(world, &class("plan-edit", &resources), &[]).await?.ends_with_code(0);
    assert_eq!(said.text, "1 namespace: no change\n");

    let edited = json!([
        config_map("keep", &json!({"level": "high", "same": "1"})),
        config_map("add", &json!({})),
        config_map("same", &json!({"a": "1"})),
    ]);
    let edited = class("plan-edit", &edited);
    let said = plan(world, &edited, &["-o", "json"]).await?.ends_with_code(1).json();
    assert_eq!(effects(&said), ["create ConfigMap/add", "change ConfigMap/keep", "prune ConfigMap/drop"]);
    let changed = said["namespaces"][0]["effects"]
        .as_array()
        .unwrap()
        .iter()
        .find(|effect| effect["action"] == "change")
        .unwrap();
    assert_eq!(changed["fields"], json!(["data.gone", "data.level"]));
    assert_eq!(
        said["sum"],
        json!({"namespaces": 1, "create": 1, "change": 1, "prune": 1, "held": 0, "verdict": "changes"})
    );
    plan(world, &edited, &[])
        .await?
        .mentions(&["change        ConfigMap/keep: data.gone, data.level", "1 namespace: 1 create, 1 change, 1 prune"]);
    assert_eq!(versions(world, &namespace).await?, before, "nothing was written");

    // What was foretold comes true, and then there is nothing more to do.
    define(world, &edited).await?;
    crate::support::eventually("the edited class to be applied", || async {
        let now = versions(world, &namespace).await?;
        Ok((now.contains_key("ConfigMap/add") && !now.contains_key("ConfigMap/drop")).then_some(()))
    })
    .await;
    says(world, &namespace, "ReconcileSuccess").await;
    plan(world, &edited, &[]).await?.ends_with_code(0);
    Ok(())
}

#[tokio::test]
async fn every_namespace_that_asks_for_the_class_is_in_the_sum() -> Result<()> {
    let world = world().await;
    for prefix in ["many-a", "many-b"] {
        let namespace = world.bed.namespace(prefix).await?;
        label(world, &namespace, "plan-many").await?;
    }
    let said = plan(world, &class("plan-many", &json!([config_map("one", &json!({}))])), &[]).await?.ends_with_code(1);
    assert!(said.text.ends_with("\n2 namespaces: 2 creates\n"), "{}", said.text);
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_not_ours_is_a_conflict_or_is_adopted_as_the_policy_says() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("taken").await?;
    make_config_map(world, &namespace, "taken").await?;
    let before = versions(world, &namespace).await?;
    let class =
        class("plan-conflict", &json!([config_map("taken", &json!({"key": "1"})), config_map("free", &json!({}))]));
    let said = plan(world, &class, &["-n", &namespace]).await?.ends_with_code(2);
    said.mentions(&[
        "create        ConfigMap/free",
        "conflict      ConfigMap/taken: an object of this name exists and is not ours",
        "1 namespace: 1 create, 1 conflict\n",
    ]);
    let adopting = with_policy(class, &json!({"onConflict": "Adopt"}));
    let said = plan(world, &adopting, &["-n", &namespace, "-o", "json"]).await?.ends_with_code(1).json();
    assert!(effects(&said).contains(&"adopt ConfigMap/taken".to_owned()), "{said:#}");
    assert_eq!(versions(world, &namespace).await?, before);
    Ok(())
}

#[tokio::test]
async fn a_change_that_cannot_be_made_in_place_is_told_before_anybody_tries_it() -> Result<()> {
    let world = world().await;
    let secret = |kind: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": kind, "stringData": {"a": "swordfish"}});
    let resources = json!([secret("croft.dev/one"), config_map("old", &json!({}))]);
    let namespace = furnished(world, "immutable", &class("plan-immutable", &resources)).await?;
    let before = versions(world, &namespace).await?;
    let edited = class("plan-immutable", &json!([secret("croft.dev/two")]));
    let said = plan(world, &edited, &[]).await?.ends_with_code(2);
    said.mentions(&[
        "immutable     Secret/s: ",
        "prune         ConfigMap/old (not before the refusals above are solved)",
        "1 namespace: 1 immutable, 1 held back\n",
    ]);
    let recreating = with_policy(edited, &json!({"onImmutable": "Recreate"}));
    let said = plan(world, &recreating, &[]).await?.ends_with_code(1).mentions(&[
        "recreate      Secret/s",
        "prune         ConfigMap/old\n",
        "1 namespace: 1 recreate, 1 prune\n",
    ]);
    assert!(!said.text.contains("swordfish") && !said.text.contains("c3dvcmRmaXNo"), "secrets stay secret");
    assert_eq!(versions(world, &namespace).await?, before);
    Ok(())
}

#[tokio::test]
async fn what_the_api_server_would_refuse_is_told_with_its_words() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("refused").await?;
    let class = class(
        "plan-refused",
        &json!([
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"cpu": "-1"}}},
            {"apiVersion": "gadgets.croft.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}},
            config_map("fine", &json!({})),
        ]),
    );
    let said = plan(world, &class, &["-n", &namespace]).await?.ends_with_code(2);
    said.mentions(&[
        "refused       ResourceQuota/q: ResourceQuota \"q\" is invalid",
        "not installed Gadget/g: the kind is not installed",
        "create        ConfigMap/fine\n",
        "1 namespace: 1 create, 1 refused, 1 not installed\n",
    ]);
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_not_namespaced_is_told_and_never_made() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("scope").await?;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "plan-scope"}, "rules": []});
    let class = class("plan-scope", &json!([role]));
    // Found by the webhook once it is trusted, and by the plan itself before that.
    plan(world, &class, &["-n", &namespace])
        .await?
        .ends_with_code(2)
        .mentions(&["ClusterRole", "a class holds namespaced objects only"]);
    assert!(world.bed.admin().kubectl(&["get", "clusterrole", "plan-scope"]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_missing_parameter_is_a_refusal_of_that_namespace() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("param").await?;
    let mut class = class("plan-param", &json!([config_map("one", &json!({"size": "{{ params.size }}"}))]));
    class["spec"]["params"] = json!([{"name": "size", "fromNamespaceAnnotation": "croft.dev/size"}]);
    let said = plan(world, &class, &["-n", &namespace]).await?.ends_with_code(2);
    said.mentions(&["refused", "parameter size has no value", "annotation croft.dev/size"]);
    Ok(())
}

#[tokio::test]
async fn a_switch_of_class_shows_what_goes_and_what_comes() -> Result<()> {
    let world = world().await;
    let old = class("plan-switch-a", &json!([config_map("shared", &json!({"a": "1"})), config_map("old", &json!({}))]));
    let namespace = furnished(world, "switch", &old).await?;
    let mut new =
        class("plan-switch-b", &json!([config_map("shared", &json!({"a": "1"})), config_map("new", &json!({}))]));
    new["spec"]["namespaceMetadata"] = json!({"labels": {"croft.dev/plan": "yes"}});
    let said = plan(world, &new, &["-n", &namespace]).await?.ends_with_code(1);
    let expected = format!(
        "{namespace} (now of class plan-switch-a)\n  change        Namespace/{namespace}: metadata.labels[\"croft.dev/plan\"]\n  \
         change        ConfigMap/shared: metadata.labels[\"namespaceclass.akuity.io/class\"]\n  create        ConfigMap/new\n  \
         prune         ConfigMap/old\n\n1 namespace: 1 create, 2 changes, 1 prune\n"
    );
    assert_eq!(said.text, expected);
    Ok(())
}

#[tokio::test]
async fn everything_wrong_with_a_class_is_listed_at_once() -> Result<()> {
    let world = world().await;
    let mut wrong = class(
        "plan-wrong",
        &json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "x"}},
            config_map("a", &json!({"k": "{{ params.nope }}"})),
        ]),
    );
    wrong["spec"]["polcy"] = json!({});
    let said = plan(world, &wrong, &[]).await?.ends_with_code(2);
    said.mentions(&[
        "class plan-wrong is invalid",
        "spec.resources[0]: metadata.name is missing",
        "metadata.namespace is set",
        "spec.resources[1]",
        "nope",
        "spec.polcy",
    ]);
    let said = plan(world, &wrong, &["-o", "json"]).await?.ends_with_code(2).json();
    assert!(said["problems"].as_array().is_some_and(|problems| problems.len() >= 4), "{said:#}");
    Ok(())
}

#[tokio::test]
async fn wrong_input_ends_with_code_2_and_names_the_fix() -> Result<()> {
    let world = world().await;
    let class = class("plan-input", &json!([]));
    plan(world, &class, &["-n", "no-such-namespace"])
        .await?
        .ends_with_code(2)
        .mentions(&["there is no namespace no-such-namespace"]);
    plan(world, &class, &["-n", "kube-system"])
        .await?
        .ends_with_code(2)
        .mentions(&["refused       Namespace/kube-system"]);
    plan(world, &json!({"kind": "Namespace"}), &[]).await?.ends_with_code(2).mentions(&["not a NamespaceClass"]);
    plan(world, &class, &["-o", "xml"]).await?.ends_with_code(2).mentions(&["json"]);
    let admin = &world.bed.admin().kubeconfig;
    run(admin, &["plan", "/no/such/file"], "").await?.ends_with_code(2).mentions(&["/no/such/file cannot be read"]);
    let said = run(admin, &["plan", "--help"], "").await?;
    said.ends_with_code(0).mentions(&["Exit code", "croft plan team.yaml -n team-a"]);
    Ok(())
}

#[tokio::test]
async fn the_plan_has_the_rights_of_whoever_asks() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("stranger").await?;
    let stranger = world.bed.service_account(&namespace, "stranger").await?;
    let class: Value = class("plan-stranger", &json!([config_map("one", &json!({}))]));
    let said = run(&stranger.kubeconfig, &["plan", "-"], &class.to_string()).await?.ends_with_code(2);
    said.mentions(&["listing namespaceclasses", "stranger", "forbidden"]);
    Ok(())
}
