//! Classes: looked after before anybody uses them, kept as long as somebody does, and one gateway that hangs holds up no other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use croft_api::{
    namespaces::{CLASS_LABEL, NamespaceClass},
    storage::{CLASS_FINALIZER, S3Class},
};
use croft_core::storage::CONFIRM_CLUSTER;
use croft_rgw::UserId;
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match, Seen},
    wait,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    input::unguarded_plot,
    plot::{Plot, apply, gone},
    support::{PATIENCE, World, eventually},
};

pub(crate) async fn class_says(plot: &Plot<'_>, name: &str, status: &str, reason: &str) -> S3Class {
    let classes = plot.classes();
    eventually(&format!("S3Class {name} to be {status} because of {reason}"), || async {
        let class = classes.get(name).await?;
        let told = class.status.clone().unwrap_or_default();
        let ready = told.conditions.iter().find(|it| it.type_ == "Ready").context("no condition yet")?;
        let is_it = ready.observed_generation == class.metadata.generation
            && (ready.status.as_str(), ready.reason.as_str()) == (status, reason);
        anyhow::ensure!(is_it, "it says {ready:?}");
        Ok(Some(class))
    })
    .await
}

pub(crate) fn message(class: &S3Class) -> String {
    let conditions = class.status.clone().unwrap_or_default().conditions;
    conditions.into_iter().find(|it| it.type_ == "Ready").map(|it| it.message).unwrap_or_default()
}

async fn admin_secret(plot: &Plot<'_>, name: &str, access_key: &str, secret_key: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(plot.client.clone(), "croft-system");
    apply(&secrets, name, json!({ "stringData": { "accessKey": access_key, "secretKey": secret_key } })).await
}

#[tokio::test]
async fn a_class_says_that_its_gateway_answers() -> Result<()> {
    let plot = Plot::new("reached").await?;
    let class = class_says(&plot, "default", "True", "Reached").await;
    assert!(message(&class).contains("answers and knows admin"), "{}", message(&class));
    assert!(class.metadata.finalizers.unwrap_or_default().contains(&CLASS_FINALIZER.to_owned()));
    Ok(())
}

#[tokio::test]
async fn keys_that_are_refused_are_told_and_new_ones_are_taken_up() -> Result<()> {
    let plot = Plot::new("refused").await?;
    let name = format!("refused-{}", plot.namespace);
    admin_secret(&plot, &name, &plot.ceph.access_key, "wrong").await?;
    plot.class(&name, json!({ "adminSecret": { "name": name, "namespace": "croft-system" } })).await?;
    let class = class_says(&plot, &name, "False", "SignatureDoesNotMatch").await;
    assert!(!message(&class).contains(&plot.ceph.access_key), "the administrator's key is told: {}", message(&class));
    plot.claim(json!({ "s3ClassName": name })).await?;
    let claim = plot.claim_says("data", "False", "ClassNotReady").await;
    assert!(!json!(claim.status).to_string().contains(&plot.ceph.access_key), "and to tenants");
    admin_secret(&plot, &name, &plot.ceph.access_key, &plot.ceph.secret_key).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn a_class_is_in_use_by_an_s3user_that_names_it_in_the_old_spelling_too() -> Result<()> {
    let plot = Plot::new("oldspelling").await?;
    let name = format!("old-{}", plot.namespace);
    plot.class(&name, json!({})).await?;
    let waiting = json!({ "s3UserClass": name, "claimRef": { "namespace": plot.namespace, "name": "data" } });
    apply(&plot.users(), &plot.record_name("data"), json!({ "spec": waiting })).await?;
    eventually("the class to be kept", || async {
        let told = plot.classes().delete(&name, &DeleteParams { dry_run: true, ..DeleteParams::default() }).await;
        let told = told.err().map(|refused| refused.to_string()).unwrap_or_default();
        Ok(told.contains(&format!("is in use by S3Users {}", plot.record_name("data"))).then_some(()))
    })
    .await;
    plot.users().delete(&plot.record_name("data"), &DeleteParams::default()).await?;
    plot.classes().delete(&name, &DeleteParams::default()).await?;
    gone(&plot.classes(), &name).await;
    Ok(())
}

#[tokio::test]
async fn a_class_in_use_serves_whom_it_has_and_goes_with_the_last() -> Result<()> {
    let plot = Plot::new("inuse").await?;
    let name = format!("inuse-{}", plot.namespace);
    plot.class(&name, json!({})).await?;
    plot.claim(json!({ "s3ClassName": name })).await?;
    plot.ready("data").await;
    let refused =
        plot.classes().delete(&name, &DeleteParams::default()).await.expect_err("a person is told").to_string();
    let told = format!("S3Class {name} is in use by S3Users {}; delete their claims first", plot.record_name("data"));
    assert!(refused.contains(&told), "{refused}");
    plot.seen_by_the_cluster()?.classes().delete(&name, &DeleteParams::default()).await?;
    eventually("the class to say what it waits for", || async {
        let class = plot.classes().get(&name).await?;
        Ok(message(&class).contains(&plot.record_name("data")).then_some(()))
    })
    .await;
    plot.claim(json!({ "s3ClassName": name, "quota": { "buckets": 7 } })).await?;
    plot.ready("data").await;
    assert_eq!(plot.user("data").await?.expect("a user").max_buckets, croft_rgw::BucketLimit::AtMost(7));
    plot.claim_called(
        "late",
        json!({ "s3ClassName": name, "adminSecretName": "late-admin", "readSecretName": "late-read" }),
    )
    .await?;
    plot.claim_says("late", "False", "ClassDeleting").await;
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.classes(), &name).await;
    Ok(())
}

#[tokio::test]
async fn a_class_whose_prefix_could_share_a_tenant_with_another_serves_nobody() -> Result<()> {
    let plot = unguarded_plot("overlap").await?;
    // Ceph 16 does not tell that both are one.
    for (name, host) in [("same", "127.0.0.1"), ("other", "localhost")] {
        let class = format!("overlap-{name}-{}", plot.namespace);
        let endpoint = plot.ceph.endpoint.replace("127.0.0.1", host);
        plot.class(&class, json!({ "endpoint": endpoint, "tenantPrefix": "croft_a" })).await?;
        let told = class_says(&plot, &class, "False", "PrefixOverlap").await;
        assert!(message(&told).contains("S3Class default"), "{}", message(&told));
        plot.claim_called(name, json!({ "s3ClassName": class })).await?;
        plot.claim_says(name, "False", "ClassNotReady").await;
        assert!(plot.gateway().user(&plot.user_id_with("croft_a", name)).await?.is_none());
    }
    Ok(())
}

fn claim_of(class: &str, number: usize) -> Value {
    json!({ "s3ClassName": class, "adminSecretName": format!("admin-{number}"), "readSecretName": format!("read-{number}") })
}

/// The most that waiting for somebody else may cost on a machine that does nothing else; it was up to half a minute.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The best of a few: what it takes to serve somebody, not what a busy machine does beside.
async fn quickest<Served: Future<Output = Result<()>>>(serve: impl Fn(usize) -> Served) -> Result<Duration> {
    let mut best = Duration::MAX;
    for number in 0..3 {
        let begun = Instant::now();
        serve(number).await?;
        best = best.min(begun.elapsed());
    }
    Ok(best)
}

/// It answers at first, then takes requests and says nothing more.
#[tokio::test]
async fn a_gateway_that_falls_silent_holds_up_no_other_and_everybody_is_served_once_it_speaks() -> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "silent").await?;
    let proxy = FaultProxy::rgw(&world.bed.ceph().endpoint).await?;
    plot.class("silent", json!({ "endpoint": proxy.endpoint() })).await?;
    class_says(&plot, "silent", "True", "Reached").await;
    let other = Plot::on(&world.bed, "speaks").await?;
    let classes: Api<NamespaceClass> = Api::all(plot.client.clone());
    let note = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "note" } });
    apply(&classes, "noted", json!({ "spec": { "resources": [note] } })).await?;
    let serve_claim = async |name: String| -> Result<()> {
        let secrets = json!({ "adminSecretName": format!("{name}-a"), "readSecretName": format!("{name}-r") });
        other.claim_called(&name, secrets).await?;
        other.ready(&name).await;
        Ok(())
    };
    let furnish = async || -> Result<()> {
        let namespace = Plot::on(&world.bed, "furnished").await?;
        let label = json!({ "metadata": { "labels": { CLASS_LABEL: "noted" } } });
        other.namespaces().patch(&namespace.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
        let notes: Api<ConfigMap> = Api::namespaced(plot.client.clone(), &namespace.namespace);
        eventually("the namespace to be furnished", || async { Ok(notes.get_opt("note").await?) }).await;
        Ok(())
    };
    let claim_alone = quickest(|number| serve_claim(format!("alone-{number}"))).await?;
    let namespace_alone = quickest(|_| furnish()).await?;
    let silence = proxy.on(Match::any()).before(Action::Hold).always();
    for number in 0..48 {
        plot.claim_called(&format!("waits-{number}"), claim_of("silent", number)).await?;
    }
    eventually("the gateway to be asked in vain", || async { Ok((silence.fired() > 0).then_some(())) }).await;

    for (what, alone, beside) in [
        ("a claim of another gateway", claim_alone, quickest(|number| serve_claim(format!("beside-{number}"))).await?),
        ("a namespace", namespace_alone, quickest(|_| furnish()).await?),
    ] {
        println!("{what} takes {alone:?} alone and {beside:?} beside a hung gateway");
        assert!(beside < AT_ONCE.max(4 * alone), "{what} took {beside:?}, and {alone:?} before");
    }
    let served = plot.claims().list(&kube::api::ListParams::default()).await?.items;
    let is_ready = |it: &croft_api::Condition| it.type_ == "Ready" && it.status == "True";
    assert!(!served.iter().any(|claim| claim.status.iter().flat_map(|it| &it.conditions).any(is_ready)));
    class_says(&plot, "silent", "False", "GatewayTimeout").await;
    for number in 0..48 {
        plot.claim_says(&format!("waits-{number}"), "False", "ClassNotReady").await;
    }
    silence.remove();
    silence.release();
    class_says(&plot, "silent", "True", "Reached").await;
    for number in 0..48 {
        plot.ready(&format!("waits-{number}")).await;
    }
    Ok(())
}

fn asks_for_user(seen: &Seen) -> bool {
    let parameters = seen.request.subresource.clone().unwrap_or_default();
    seen.request.verb == "get" && seen.request.resource == "/admin/user" && parameters.contains("uid")
}

#[tokio::test]
async fn a_restart_asks_the_gateway_for_nobody_who_has_what_he_needs() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&bed, "calm").await?;
    let proxy = FaultProxy::rgw(&bed.ceph().endpoint).await?;
    plot.class("calm", json!({ "endpoint": proxy.endpoint() })).await?;
    for number in 0..3 {
        plot.claim_called(&format!("settled-{number}"), claim_of("calm", number)).await?;
        plot.ready(&format!("settled-{number}")).await;
    }
    apply(&plot.buckets(), "photos", json!({ "spec": { "s3UserRef": "settled-0" } })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    // One that is gone and has left its buckets.
    plot.s3("admin-1").await?.create_bucket("left").await?;
    plot.claims().delete("settled-1", &DeleteParams::default()).await?;
    gone(&plot.claims(), "settled-1").await;
    drop(operator);
    proxy.clear_log();
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    // Somebody new is served; by then the others would have been looked at, too.
    plot.claim_called("new", claim_of("calm", 9)).await?;
    plot.ready("new").await;
    let log = proxy.log();
    let asked = log.iter().filter(|seen| asks_for_user(seen)).count();
    assert!((1..=2).contains(&asked), "the new one's keys are read, and nothing else: {log:#?}");
    Ok(())
}

#[tokio::test]
async fn a_change_of_one_class_asks_the_gateway_for_nobody_of_another() -> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "unmoved").await?;
    let proxy = FaultProxy::rgw(&world.bed.ceph().endpoint).await?;
    plot.class("default", json!({ "endpoint": proxy.endpoint(), "default": true })).await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.class("other", json!({ "endpoint": plot.ceph.endpoint })).await?;
    plot.claim_called("other", claim_of("other", 1)).await?;
    plot.ready("other").await;
    proxy.clear_log();
    plot.class("other", json!({ "endpoint": plot.ceph.endpoint, "region": "elsewhere" })).await?;
    eventually("the change to reach whom it concerns", || async {
        Ok((plot.secret("admin-1").await?["region"] == "elsewhere").then_some(()))
    })
    .await;
    let log = proxy.log();
    assert!(!log.iter().any(asks_for_user), "those of another class have what they need: {log:#?}");
    Ok(())
}

#[tokio::test]
async fn a_touch_of_a_class_asks_the_gateway_for_nobody_who_has_what_he_needs() -> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plot = Plot::on(&world.bed, "touched").await?;
    let proxy = FaultProxy::rgw(&world.bed.ceph().endpoint).await?;
    plot.class("touched", json!({ "endpoint": proxy.endpoint() })).await?;
    for number in 0..3 {
        plot.claim_called(&format!("settled-{number}"), claim_of("touched", number)).await?;
        plot.ready(&format!("settled-{number}")).await;
    }
    plot.bucket("photos", json!({ "s3UserRef": "settled-0" })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.class("later", json!({})).await?;
    plot.claim_called("later", claim_of("later", 9)).await?;
    plot.ready("later").await;
    proxy.clear_log();
    let params = PatchParams::default();
    let noted =
        json!({ "metadata": { "annotations": { "example.com/note": "x" }, "labels": { "example.com/tier": "1" } } });
    plot.classes().patch("touched", &params, &Patch::Merge(&noted)).await?;
    let told = json!({ "status": { "release": "told by somebody" } });
    plot.classes().patch_status("touched", &params, &Patch::Merge(&told)).await?;
    // What is told of a later class reaches whom it concerns, and what was told before has.
    plot.class("later", json!({ "region": "elsewhere" })).await?;
    eventually("the later change to reach whom it concerns", || async {
        Ok((plot.secret("admin-9").await?["region"] == "elsewhere").then_some(()))
    })
    .await;
    let log = proxy.log();
    let is_about_a_bucket = |seen: &Seen| {
        let parameters = seen.request.subresource.as_deref().unwrap_or_default();
        seen.request.resource == "/admin/bucket" && parameters.contains("stats") || seen.request.resource == "/photos"
    };
    assert!(!log.iter().any(|seen| asks_for_user(seen) || is_about_a_bucket(seen)), "{log:#?}");
    Ok(())
}

#[tokio::test]
async fn two_classes_on_two_cephs_serve_each_its_own_claims_and_one_that_is_down_stops_nobody_of_the_other()
-> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let (plot, other) = (Plot::on(&world.bed, "two-cephs").await?, Plot::new("elsewhere").await?);
    admin_secret(&plot, "other-ceph", &other.ceph.access_key, &other.ceph.secret_key).await?;
    let there = json!({ "namespace": "croft-system", "name": "other-ceph" });
    let spec = json!({ "endpoint": other.ceph.endpoint, "adminSecret": there, "tenantPrefix": "there" });
    plot.class("there", spec).await?;
    for (name, class, number) in [("near", "default", 1), ("far", "there", 2)] {
        plot.claim_called(name, claim_of(class, number)).await?;
        plot.ready(name).await;
        let bucket = format!("bucket-{name}");
        plot.bucket(&bucket, json!({ "s3UserRef": name })).await?;
        plot.bucket_says(&bucket, "True", "Provisioned").await;
    }
    let (near, far) = (plot.user_id("near"), plot.user_id_with("there", "far"));
    let is_there = async |plot: &Plot<'_>, id: &UserId| anyhow::Ok(plot.gateway().user(id).await?.is_some());
    assert!(is_there(&plot, &near).await? && !is_there(&other, &near).await?, "each in one Ceph only");
    assert!(is_there(&other, &far).await? && !is_there(&plot, &far).await?, "each in one Ceph only");
    assert!(other.gateway().bucket(far.tenant(), "bucket-far").await?.is_some());
    assert_eq!(plot.secret("admin-1").await?["endpoint"], plot.ceph.endpoint);
    assert_eq!(plot.secret("admin-2").await?["endpoint"], other.ceph.endpoint);

    world.bed.ceph().stop_gateway();
    plot.claim_called("waits", claim_of("default", 3)).await?;
    plot.claim_says("waits", "False", "ClassNotReady").await;
    plot.claim_called("comes", claim_of("there", 4)).await?;
    plot.ready("comes").await;
    plot.claims().delete("comes", &DeleteParams::default()).await?;
    gone(&plot.claims(), "comes").await;
    assert!(!is_there(&other, &plot.user_id_with("there", "comes")).await?);
    // All that while the other one is down.
    plot.claim_says("waits", "False", "ClassNotReady").await;
    world.bed.ceph().start_gateway().await?;
    // Ceph waits 30 s for the gateway that is gone before it writes for the new one.
    wait::until_true("whoever has waited to be served", 3 * PATIENCE, || async {
        let conditions = plot.claims().get("waits").await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
    })
    .await?;
    // Nothing of it is known in the other one.
    assert!(!is_there(&other, &plot.user_id("waits")).await?);
    Ok(())
}

#[tokio::test]
async fn a_class_that_is_led_to_another_ceph_makes_removes_and_forgets_nobody_there() -> Result<()> {
    let world = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let (plot, other) = (Plot::on(&world.bed, "astray").await?, Plot::new("elsewhere").await?);
    admin_secret(&plot, "other-ceph", &other.ceph.access_key, &other.ceph.secret_key).await?;
    plot.class("gold", json!({})).await?;
    plot.claim(json!({ "s3ClassName": "gold" })).await?;
    plot.bucket("photos", json!({})).await?;
    plot.claim_called("leaves", claim_of("gold", 1)).await?;
    plot.ready("data").await;
    plot.ready("leaves").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let keys = plot.secret("admin").await?;

    let there = json!({ "namespace": "croft-system", "name": "other-ceph" });
    plot.class("gold", json!({ "endpoint": other.ceph.endpoint, "adminSecret": there })).await?;
    let told = message(&class_says(&plot, "gold", "False", "AnotherCluster").await);
    assert!(told.contains(&plot.ceph.endpoint), "{told}");
    plot.claims().delete("leaves", &DeleteParams::default()).await?;
    plot.claim_called("comes", claim_of("gold", 2)).await?;
    plot.claim_says("comes", "False", "ClassNotReady").await;
    plot.claim(json!({ "s3ClassName": "gold", "quota": { "buckets": 7 } })).await?;
    plot.claim_says("data", "False", "ClassNotReady").await;
    assert_eq!(plot.secret("admin").await?, keys);
    for claim in ["data", "leaves", "comes"] {
        assert!(other.gateway().user(&plot.user_id(claim)).await?.is_none(), "{claim} was made in another Ceph");
    }
    assert!(plot.users().get_opt(&plot.record_name("leaves")).await?.is_some(), "its user is in the first Ceph");

    plot.class("gold", json!({})).await?;
    for claim in ["data", "comes"] {
        plot.ready(claim).await;
    }
    gone(&plot.claims(), "leaves").await;
    plot.user_is_gone("leaves").await;
    assert_eq!(plot.secret("admin").await?, keys);
    Ok(())
}

#[tokio::test]
async fn another_address_of_the_same_ceph_is_taken_up_where_it_is_told_or_confirmed() -> Result<()> {
    let plot = Plot::new("renamed").await?;
    let name = format!("renamed-{}", plot.namespace);
    plot.class(&name, json!({})).await?;
    plot.claim(json!({ "s3ClassName": name })).await?;
    plot.ready("data").await;
    let proxy = FaultProxy::rgw(&plot.ceph.endpoint).await?;
    plot.class(&name, json!({ "endpoint": proxy.endpoint() })).await?;
    if plot.gateway().probe().await?.cluster_id.is_none() {
        let told = message(&class_says(&plot, &name, "False", "AnotherCluster").await);
        assert!(told.ends_with(&format!("{CONFIRM_CLUSTER}={}`", proxy.endpoint())), "{told}");
        let confirmed = json!({ "metadata": { "annotations": { CONFIRM_CLUSTER: proxy.endpoint() } } });
        plot.classes().patch(&name, &PatchParams::default(), &Patch::Merge(&confirmed)).await?;
    }
    class_says(&plot, &name, "True", "Reached").await;
    eventually("the new address to be told to the tenant", || async {
        Ok((plot.secret("admin").await?["endpoint"] == proxy.endpoint()).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_tenant_sees_which_classes_there_are_and_changes_none() -> Result<()> {
    let world = crate::plot::world().await;
    let plot = Plot::new("offers").await?;
    let tenant = world.bed.tenant(&plot.namespace, &plot.namespace, vec![]).await?;
    eventually("the classes to be readable", || async {
        Ok(tenant.can("list", "s3.snappcloud.io/s3classes", None).await?.then_some(()))
    })
    .await;
    for verb in ["create", "update", "patch", "delete"] {
        assert!(!tenant.can(verb, "s3.snappcloud.io/s3classes", None).await?, "{verb}");
    }
    Ok(())
}
