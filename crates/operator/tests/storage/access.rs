//! Who may do what in a bucket: the table of every verb, and how the policy comes about.

use anyhow::Result;
use croft_rgw::Policy;
use serde_json::{Value, json};

use crate::{
    plot::Plot,
    verbs::{Client, names},
};

/// A claim with three subusers, and a bucket one of them may read and another one write.
async fn shared(prefix: &str) -> Result<Plot<'static>> {
    let plot = Plot::new(prefix).await?;
    let quota = json!({ "buckets": 10, "objects": 1000, "size": "1Gi" });
    plot.claim(json!({ "subusers": ["viewer", "writer", "nobody"], "quota": quota })).await?;
    bind(&plot, json!([{ "name": "viewer" }, { "name": "writer", "access": "readwrite" }])).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.ready("data").await;
    Ok(plot)
}

async fn bind(plot: &Plot<'_>, bindings: Value) -> Result<()> {
    plot.bucket("photos", json!({ "s3SubuserBinding": bindings })).await
}

/// What Ceph lets every key of a user do, whatever its access and the bucket's policy: the documented remainder. Making a bucket
/// that is there changes nothing.
const ANYBODY: [&str; 9] = [
    "list buckets",
    "get location",
    "get versioning",
    "get payer",
    "get notification",
    "put notification",
    "delete notification",
    "make bucket again",
    "make another bucket",
];
const READING: [&str; 5] = ["head bucket", "list objects", "list objects v2", "get object", "head object"];

/// A release of Ceph that changes anything in these tables is to be noticed.
#[tokio::test]
async fn the_read_key_reads_and_does_nothing_else_but_make_buckets_and_set_notifications() -> Result<()> {
    let plot = shared("readkey").await?;
    let owner = Client::new(&plot, "admin").await?;
    let allowed = Client::new(&plot, "read").await?.allowed(&owner, "photos").await?;
    let more = ["list versions", "list uploads", "list parts", "get object tags"];
    assert_eq!(names(&allowed), [&ANYBODY[..], &READING, &more].concat().into_iter().collect(), "{allowed:?}");
    Ok(())
}

#[tokio::test]
async fn a_subuser_does_what_its_binding_says_and_no_more() -> Result<()> {
    let plot = shared("verbs").await?;
    let owner = Client::new(&plot, "admin").await?;
    let writing = [
        "put object",
        "copy object",
        "start upload",
        "upload part",
        "complete upload",
        "abort upload",
        "list parts",
        "delete objects",
        "delete object",
    ];
    for (secret, tables) in [
        ("data-nobody", [&ANYBODY[..], &[], &[]]),
        ("data-viewer", [&ANYBODY, &READING, &[]]),
        ("data-writer", [&ANYBODY, &READING, &writing]),
    ] {
        let allowed = Client::new(&plot, secret).await?.allowed(&owner, "photos").await?;
        assert_eq!(names(&allowed), tables.concat().into_iter().collect(), "{secret}: {allowed:?}");
    }
    let allowed = owner.allowed(&owner, "photos").await?;
    assert!(
        ["put versioning", "put cors", "put bucket tags"].iter().all(|verb| allowed.contains_key(verb)),
        "{allowed:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_user_of_another_tenant_is_refused_on_every_verb() -> Result<()> {
    let plot = shared("mine").await?;
    let stranger = Plot::new("stranger").await?;
    stranger.claim(json!({})).await?;
    stranger.ready("data").await;
    let owner = Client::new(&plot, "admin").await?;
    for secret in ["admin", "read"] {
        let client = Client::new(&stranger, secret).await?.in_tenant(plot.user_id("data").tenant());
        let allowed = client.allowed(&owner, "photos").await?;
        assert_eq!(names(&allowed), ["list buckets"].into(), "{secret}: {allowed:?}");
    }
    assert!(!stranger.s3("admin").await?.head_bucket("photos").await?, "there is none of that name in its own tenant");
    Ok(())
}

/// The bucket's grants.
fn granted(policy: &Policy) -> String {
    let grants = policy.statements().iter().filter(|statement| statement["Sid"] == "BucketAllow");
    grants.map(Value::to_string).collect()
}

/// What of the bucket's policy is not ours.
fn theirs(policy: &Policy) -> Vec<Value> {
    let ours = |sid: &Value| sid == "BucketAllow" || sid.as_str().is_some_and(|sid| sid.starts_with("Croft"));
    policy.statements().iter().filter(|statement| !ours(&statement["Sid"])).cloned().collect()
}

#[tokio::test]
async fn what_is_no_longer_bound_is_no_longer_granted() -> Result<()> {
    let plot = shared("unbind").await?;
    let (viewer, writer) = (plot.s3("data-viewer").await?, plot.s3("data-writer").await?);
    writer.put_object("photos", "cat.jpg", "meow").await?;
    assert_eq!(viewer.list_objects("photos", "").await?, ["cat.jpg"]);

    bind(&plot, json!([{ "name": "writer" }])).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    assert!(viewer.get_object("photos", "cat.jpg").await.is_err());
    assert!(writer.put_object("photos", "cat.jpg", "purr").await.is_err());
    assert!(writer.get_object("photos", "cat.jpg").await?.is_some());
    let shown = plot.buckets().get("photos").await?.status.unwrap_or_default().policy.expect("a policy");
    let policy = plot.s3("admin").await?.bucket_policy("photos").await?.expect("a policy");
    assert_eq!(shown, policy.to_string());
    assert!(granted(&policy).contains(":writer") && !granted(&policy).contains(":viewer"), "{policy}");

    // One that is not named by the claim any more has no grant left for another one of its name.
    plot.claim(json!({ "subusers": ["viewer", "nobody"] })).await?;
    let told = plot.bucket_says("photos", "False", "UnknownSubuser").await.status.unwrap_or_default();
    assert!(told.reason.unwrap_or_default().contains("no subuser writer"));
    let policy = plot.s3("admin").await?.bucket_policy("photos").await?.expect("a policy");
    assert!(!policy.to_string().contains(":writer"), "{policy}");
    plot.claim(json!({ "subusers": ["viewer", "writer"] })).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    assert!(plot.s3("data-writer").await?.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn statements_of_the_tenant_stay_and_ours_come_back() -> Result<()> {
    let plot = shared("statements").await?;
    let admin = plot.s3("admin").await?;
    let own = json!({"Sid": "public", "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::photos/open/*", "Condition": {"StringLike": {"aws:Referer": "https://example.org/*"}}});
    let policy: Policy = serde_json::from_value(json!({"Version": "2012-10-17", "Statement": [own]}))?;
    admin.put_bucket_policy("photos", &policy).await?;

    bind(&plot, json!([{ "name": "viewer", "access": "write" }])).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let composed = admin.bucket_policy("photos").await?.expect("a policy");
    assert_eq!(theirs(&composed), std::slice::from_ref(&own));
    plot.s3("data-viewer").await?.put_object("photos", "cat.jpg", "meow").await?;

    bind(&plot, json!([])).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    assert_eq!(theirs(&admin.bucket_policy("photos").await?.expect("a policy")), [own]);
    assert!(plot.s3("data-viewer").await?.list_objects("photos", "").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_policy_that_cannot_be_read_is_told_and_not_written_over() -> Result<()> {
    let plot = shared("shut").await?;
    let admin = plot.s3("admin").await?;
    let shut = json!({"Version": "2012-10-17", "Statement": [{"Sid": "shut", "Effect": "Deny", "Principal": "*",
        "Action": "s3:GetBucketPolicy", "Resource": "arn:aws:s3:::photos"}]});
    admin.put_bucket_policy("photos", &serde_json::from_value(shut)?).await?;
    bind(&plot, json!([{ "name": "viewer" }])).await?;
    plot.bucket_says("photos", "False", "PolicyUnreadable").await;
    assert!(plot.s3("data-viewer").await?.list_objects("photos", "").await.is_err(), "it was not written over");

    admin.delete_bucket_policy("photos").await?;
    bind(&plot, json!([{ "name": "viewer", "access": "write" }])).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("data-viewer").await?.put_object("photos", "cat.jpg", "meow").await?;
    Ok(())
}
