//! Bad input: refused at the door with its field, and held up by the reconcilers where the door was open.

use anyhow::Result;
use croft_api::storage::{S3Bucket, S3UserClaim};
use croft_testbed::Testbed;
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    plot::{Plot, merge},
    support::{World, eventually},
};

static UNGUARDED: OnceCell<World> = OnceCell::const_new();

/// A namespace in a cluster whose administrator took our door away.
pub(crate) async fn unguarded_plot(prefix: &str) -> Result<Plot<'static>> {
    let world = UNGUARDED.get_or_try_init(|| {
        Box::pin(async {
            let world = World::own(Testbed::kubernetes().with_ceph()).await?;
            open_the_door(world.client()).await?;
            anyhow::Ok(world)
        })
    });
    Plot::on(&world.await?.bed, prefix).await
}

/// Takes our door away, and waits until the API server has noticed.
pub(crate) async fn open_the_door(client: Client) -> Result<()> {
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    hooks.delete("croft", &DeleteParams::default()).await?;
    let negative = claim(json!({ "quota": { "buckets": i64::from(u32::MAX) } }));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let claims: Api<S3UserClaim> = Api::namespaced(client, "default");
    eventually("the door to be open", || async { Ok(Some(claims.create(&dry, &negative).await?)) }).await;
    Ok(())
}

fn claim(more: Value) -> S3UserClaim {
    let mut spec = json!({ "adminSecretName": "admin", "readSecretName": "read" });
    merge(&mut spec, more);
    let object = json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": "data" }, "spec": spec });
    serde_json::from_value(object).expect("a claim")
}

fn bucket(name: &str, more: Value) -> S3Bucket {
    let mut spec = json!({ "s3UserRef": "data" });
    merge(&mut spec, more);
    let object = json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket", "metadata": { "name": name }, "spec": spec });
    serde_json::from_value(object).expect("a bucket")
}

/// Fails unless it is refused in these words.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(answer: kube::Result<T>, words: &[&str]) {
    let told = answer.expect_err("it is refused").to_string();
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
}

async fn foreign_secret(plot: &Plot<'_>, name: &str) -> Result<()> {
    let secret: Secret =
        serde_json::from_value(json!({ "metadata": { "name": name }, "stringData": { "mine": "yes" } }))?;
    plot.secrets().create(&PostParams::default(), &secret).await?;
    Ok(())
}

#[tokio::test]
async fn a_claim_that_cannot_be_carried_out_is_refused_with_its_field() -> Result<()> {
    let plot = Plot::new("badclaim").await?;
    let post = PostParams::default();
    let quotas = [
        (json!({ "size": "-1Gi" }), "spec.quota.size: Invalid value: \"-1Gi\": must not be negative"),
        (json!({ "size": "500m" }), "spec.quota.size: Forbidden: 500m must be a whole number"),
        (json!({ "objects": "1500m" }), "spec.quota.objects: Forbidden: 1500m must be a whole number"),
        (json!({ "maxObjects": "10E" }), "spec.quota.objects: Forbidden: 10E must be at most 1Ei"),
        (json!({ "size": "16Ei" }), "spec.quota.size: Forbidden: 16Ei must be at most 1Ei"),
        (json!({ "objects": i64::MAX }), "spec.quota.objects: Forbidden: 9223372036854775807 must be at most 1Ei"),
        (json!({ "buckets": i64::from(u32::MAX) }), "spec.quota.buckets: Forbidden: 4294967295 must be between 0 and"),
        (json!({ "buckets": -1 }), "spec.quota.buckets"),
    ];
    for (quota, told) in quotas {
        assert_refused(plot.claims().create(&post, &claim(json!({ "quota": quota }))).await, &[told]);
    }
    let twice = claim(json!({ "readSecretName": "admin" }));
    assert_refused(plot.claims().create(&post, &twice).await, &["must have different names"]);
    let clash = claim(json!({ "adminSecretName": "data-app", "subusers": ["app"] }));
    assert_refused(plot.claims().create(&post, &clash).await, &["spec.subusers[0]", "data-app"]);
    Ok(())
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_never_promised_to_a_claim() -> Result<()> {
    let plot = Plot::new("taken").await?;
    let post = PostParams::default();
    foreign_secret(&plot, "mine").await?;
    foreign_secret(&plot, "data-app").await?;
    let answer = eventually("the Secret to be seen", || async {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        Ok(plot.claims().create(&dry, &claim(json!({ "adminSecretName": "mine" }))).await.err())
    })
    .await;
    assert_refused::<()>(Err(answer), &["spec.adminSecretName: Forbidden: secret mine exists", "\"data\" is invalid"]);
    let other_spelling = json!({ "readSecretName": null, "readonlySecret": "mine" });
    let mut spelled = claim(json!({}));
    spelled.spec.read_secret_name = None;
    spelled.spec.readonly_secret = other_spelling["readonlySecret"].as_str().map(str::to_owned);
    assert_refused(
        plot.claims().create(&post, &spelled).await,
        &["spec.readonlySecret: Forbidden: secret mine exists"],
    );
    assert_refused(
        plot.claims().create(&post, &claim(json!({ "subusers": ["app"] }))).await,
        &["spec.subusers[0]: Forbidden: secret data-app exists"],
    );
    // A claim that is there may be edited, but not onto a Secret of others, nor onto that of another claim.
    plot.claims().create(&post, &claim(json!({}))).await?;
    plot.ready("data").await;
    let edit = async |spec: Value| {
        plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await
    };
    edit(json!({ "quota": { "buckets": 3 } })).await?;
    assert_refused(
        edit(json!({ "readSecretName": "mine" })).await,
        &["spec.readSecretName: Forbidden: secret mine exists"],
    );
    let mut second = claim(json!({ "readSecretName": "other-read" }));
    second.metadata.name = Some("other".into());
    let told = ["spec.adminSecretName: Forbidden: secret admin is named by S3UserClaim data already"];
    assert_refused(plot.claims().create(&post, &second).await, &told);
    // Its own Secrets do not keep the next claim of the same name out.
    plot.claims().delete("data", &DeleteParams::default()).await?;
    crate::plot::gone(&plot.claims(), "data").await;
    plot.claims().create(&post, &claim(json!({}))).await?;
    Ok(())
}

#[tokio::test]
async fn a_bucket_needs_a_name_of_s3_a_claim_and_its_subusers() -> Result<()> {
    let plot = Plot::new("badbucket").await?;
    let post = PostParams::default();
    let nobody = "spec.s3UserRef: Forbidden: there is no s3UserClaim regarding the defined s3UserRef";
    assert_refused(plot.buckets().create(&post, &bucket("photos", json!({}))).await, &[nobody]);
    plot.claim(json!({ "subusers": ["app"] })).await?;
    for name in ["ab", "192.168.1.1", "999.999.1.1", "admin", "auth", "swift"] {
        assert_refused(plot.buckets().create(&post, &bucket(name, json!({}))).await, &["the name of a bucket must"]);
    }
    let stranger = bucket("photos", json!({ "s3SubuserBinding": [{ "name": "app" }, { "name": "nobody" }] }));
    let told = "spec.s3SubuserBinding[1].name: Forbidden: S3UserClaim data has no subuser nobody";
    assert_refused(plot.buckets().create(&post, &stranger).await, &[told]);
    let known = bucket("photos", json!({ "s3SubuserBinding": [{ "name": "app" }] }));
    plot.buckets().create(&post, &known).await?;
    let edit = async |spec: Value| {
        plot.buckets().patch("photos", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await
    };
    assert_refused(edit(json!({ "s3SubuserBinding": [{ "name": "nobody" }] })).await, &["has no subuser nobody"]);
    assert_refused(edit(json!({ "s3UserRef": "other" })).await, &["s3UserRef is immutable"]);
    // A subuser that went does not keep the bucket from being edited.
    plot.claim(json!({})).await?;
    edit(json!({ "s3DeletionPolicy": "retain" })).await?;
    Ok(())
}

#[tokio::test]
async fn who_restores_brings_buckets_claims_and_secrets_in_any_order() -> Result<()> {
    let plot = Plot::new("restore").await?;
    foreign_secret(&plot, "admin").await?;
    let restored = plot.seen_by_velero().await?;
    let post = PostParams::default();
    eventually("the rights to count", || async {
        Ok(Some(
            restored
                .buckets()
                .create(&post, &bucket("photos", json!({ "s3SubuserBinding": [{ "name": "app" }] })))
                .await?,
        ))
    })
    .await;
    restored.claims().create(&post, &claim(json!({}))).await?;
    // The Secret is not ours to overwrite all the same.
    plot.claim_says("data", "False", "SecretTaken").await;
    assert_eq!(plot.secret("admin").await?["mine"], "yes");
    Ok(())
}

#[tokio::test]
async fn the_class_of_a_claim_cannot_be_changed_whatever_it_is_called() -> Result<()> {
    let plot = Plot::new("reclass").await?;
    plot.claims().create(&PostParams::default(), &claim(json!({ "s3ClassName": "default" }))).await?;
    let edit = async |spec: Value| {
        plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await
    };
    assert_refused(edit(json!({ "s3ClassName": "other" })).await, &["s3ClassName is immutable"]);
    assert_refused(edit(json!({ "s3ClassName": null })).await, &["s3ClassName is immutable"]);
    let other_spelling = json!({ "s3ClassName": null, "s3UserClass": "other" });
    assert_refused(edit(other_spelling).await, &["s3UserClass is immutable"]);
    // The same class in the other spelling is the same class.
    edit(json!({ "s3ClassName": null, "s3UserClass": "default" })).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn an_unknown_class_is_not_refused_because_it_may_come_with_the_same_apply() -> Result<()> {
    let plot = Plot::new("unknown").await?;
    let class = format!("later-{}", plot.namespace);
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.claim_says("data", "False", "ClassNotFound").await;
    plot.class(&class, json!({})).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn a_second_default_class_and_one_that_could_share_a_tenant_are_refused() -> Result<()> {
    let plot = Plot::new("badclass").await?;
    let told = |answer: Result<()>| answer.expect_err("it is refused").to_string();
    let default = told(plot.class("badclass-default", json!({ "default": true })).await);
    assert!(default.contains("spec.default: Forbidden: S3Class default is the default already"), "{default}");
    let overlap = told(plot.class("badclass-overlap", json!({ "tenantPrefix": "croft_a" })).await);
    assert!(overlap.contains("spec.tenantPrefix: Forbidden: S3Class default on the same Ceph"), "{overlap}");
    let name = format!("good-{}", plot.namespace);
    plot.class(&name, json!({})).await?;
    let turned = told(plot.class(&name, json!({ "default": true })).await);
    assert!(turned.contains("spec.default"), "{turned}");
    plot.class(&name, json!({ "region": "elsewhere" })).await?;
    Ok(())
}

#[tokio::test]
async fn a_class_for_teams_refuses_claims_of_namespaces_without_one() -> Result<()> {
    let plot = Plot::new("noteam").await?;
    let class = format!("teams-{}", plot.namespace);
    plot.class(&class, json!({ "teamRequired": true })).await?;
    let asked = claim(json!({ "s3ClassName": class }));
    let told = format!("namespace {} doesn't have the team label: snappcloud.io/team", plot.namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let refused =
        eventually("the class to be known", || async { Ok(plot.claims().create(&dry, &asked).await.err()) }).await;
    assert_refused::<()>(Err(refused), &["spec.quota: Forbidden: ", &told]);
    let team = json!({ "metadata": { "labels": { "snappcloud.io/team": plot.namespace } } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(team)).await?;
    plot.claims().create(&PostParams::default(), &asked).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn what_gets_past_the_door_is_held_up_by_the_reconcilers() -> Result<()> {
    let plot = unguarded_plot("bypassed").await?;
    let class = format!("teams-{}", plot.namespace);
    plot.class(&class, json!({ "teamRequired": true })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.claim_says("data", "False", "TeamMissing").await;
    let team = json!({ "metadata": { "labels": { "snappcloud.io/team": plot.namespace } } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(team)).await?;
    plot.ready("data").await;

    let other = unguarded_plot("bypassed").await?;
    // What is negative does not even get past the schema.
    for quota in [json!({ "size": "500m" }), json!({ "objects": "10E" }), json!({ "size": i64::MAX })] {
        other.claim(json!({ "quota": quota })).await?;
        other.claim_says("data", "False", "InvalidSpec").await;
    }
    foreign_secret(&other, "mine").await?;
    other.claim_called("second", json!({ "adminSecretName": "mine", "readSecretName": "read-2" })).await?;
    other.claim_says("second", "False", "SecretTaken").await;
    other.bucket("photos", json!({ "s3UserRef": "nobody" })).await?;
    other.bucket_says("photos", "False", "WaitingForClaim").await;
    Ok(())
}

#[tokio::test]
async fn one_secret_for_two_a_bad_name_and_an_unknown_subuser_are_refused_with_the_door_open_too() -> Result<()> {
    let plot = unguarded_plot("bypassing").await?;
    let post = PostParams::default();
    // Of one claim in its schema, whatever the fields are called.
    let twice = claim(json!({ "readSecretName": "admin" }));
    assert_refused(plot.claims().create(&post, &twice).await, &["must have different names"]);
    let spelled = claim(json!({ "readSecretName": null, "readonlySecret": "admin" }));
    assert_refused(plot.claims().create(&post, &spelled).await, &["must have different names"]);
    plot.claim(json!({ "adminSecretName": "data-app", "subusers": ["app"] })).await?;
    let told = plot.claim_says("data", "False", "InvalidSpec").await;
    assert!(json!(told.status).to_string().contains("spec.subusers[0]"), "{:?}", told.status);
    plot.claim(json!({ "subusers": ["app"] })).await?;
    plot.ready("data").await;
    // Of two claims in the status of the second, whichever of its Secrets that is.
    let keys = plot.secret("admin").await?;
    for (name, spec) in [
        ("second", json!({ "readSecretName": "second-read" })),
        ("third", json!({ "adminSecretName": "third-admin", "readSecretName": "data-app" })),
    ] {
        plot.claim_called(name, spec).await?;
        plot.claim_says(name, "False", "SecretTaken").await;
    }
    assert_eq!(plot.secret("admin").await?, keys);

    for name in ["ab", "192.168.1.1", "admin", "swift"] {
        assert_refused(plot.buckets().create(&post, &bucket(name, json!({}))).await, &["the name of a bucket must"]);
    }
    let stranger = json!({ "s3SubuserBinding": [{ "name": "app" }, { "name": "nobody" }] });
    plot.buckets().create(&post, &bucket("photos", stranger)).await?;
    let told = plot.bucket_says("photos", "False", "UnknownSubuser").await;
    let told = told.status.and_then(|status| status.reason);
    assert!(told.as_ref().is_some_and(|told| told.contains("nobody")), "{told:?}");
    Ok(())
}
