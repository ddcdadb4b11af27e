//! Buckets that change hands between two namespaces, with real objects in them.

use anyhow::Result;
use croft_api::storage::{MigrationPhase, UserMigration};
use croft_rgw::{Policy, S3};
use croft_testbed::S3Call;
use http::Method;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, apply, gone, world},
    support::eventually,
};

pub(crate) fn migrations(plot: &Plot<'_>) -> Api<UserMigration> {
    Api::all(plot.client.clone())
}

pub(crate) async fn migrate(from: &Plot<'_>, to: &Plot<'_>, buckets: &[&str], more: Value) -> Result<String> {
    let mut spec = json!({
        "currentUser": { "namespace": from.namespace, "name": "data" },
        "targetUser": { "namespace": to.namespace, "name": "data" },
        "buckets": buckets,
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    apply(&migrations(from), &from.namespace, json!({ "spec": spec })).await?;
    Ok(from.namespace.clone())
}

pub(crate) async fn ends(plot: &Plot<'_>, name: &str, phase: MigrationPhase) -> UserMigration {
    eventually(&format!("migration {name} to be {phase:?}"), || async {
        let migration = migrations(plot).get(name).await?;
        let status = migration.status.clone().unwrap_or_default();
        let is_over = status.phase == Some(phase) && migration.metadata.finalizers.is_none();
        anyhow::ensure!(is_over, "it says {status:?}");
        Ok(Some(migration))
    })
    .await
}

pub(crate) fn message(migration: &UserMigration) -> String {
    let conditions = migration.status.clone().unwrap_or_default().conditions;
    conditions.into_iter().find(|it| it.type_ == "Ready").map(|it| it.message).unwrap_or_default()
}

/// A claim with a bucket that one subuser is bound to, an object in it, and a policy of the tenant's own that lets in another one
/// and names its tenant.
async fn furnished(prefix: &str) -> Result<(Plot<'static>, S3)> {
    let plot = Plot::new(prefix).await?;
    plot.claim(json!({ "subusers": ["one", "two"] })).await?;
    plot.bucket("photos", json!({ "s3SubuserBinding": [{ "name": "one" }] })).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let s3 = plot.s3("admin").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    let tenant = plot.user_id("data").tenant().to_owned();
    let mine = json!({
        "Sid": "mine", "Effect": "Allow", "Action": ["s3:GetObject"],
        "Principal": { "AWS": [format!("arn:aws:iam::{tenant}:user/data:two")] },
        "Resource": [format!("arn:aws:s3::{tenant}:photos/*")],
    });
    s3.put_bucket_policy("photos", &policy(&[mine])?).await?;
    Ok((plot, s3))
}

fn policy(statements: &[Value]) -> Result<Policy> {
    Ok(serde_json::from_value(json!({ "Version": "2012-10-17", "Statement": statements }))?)
}

/// About everything in the bucket.
fn statement(effect: &str, who: &Value, actions: &[&str]) -> Value {
    let resources = ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"];
    json!({ "Effect": effect, "Action": actions, "Principal": who, "Resource": resources })
}

async fn nobody_is_held(plots: [&Plot<'_>; 2]) -> Result<()> {
    for plot in plots {
        let user = plot.users().get_opt(&plot.record_name("data")).await?;
        assert!(user.is_none_or(|user| user.spec.held_by.is_none()), "somebody is held");
    }
    Ok(())
}

/// Everything a migration promises.
async fn has_moved(from: &Plot<'_>, old: &S3, to: &Plot<'_>) -> Result<()> {
    let owner = to.gateway().bucket(to.user_id("data").tenant(), "photos").await?.map(|bucket| bucket.owner);
    assert_eq!(owner, Some(to.user_id("data")));
    let new = to.s3("admin").await?;
    assert_eq!(new.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()), "the new owner reads");
    let reader = to.s3("read").await?;
    assert!(
        reader.get_object("photos", "cat.jpg").await?.is_some() && reader.put_object("photos", "x", "y").await.is_err()
    );
    let elsewhere = old.in_tenant(to.user_id("data").tenant())?;
    assert!(!matches!(elsewhere.get_object("photos", "cat.jpg").await, Ok(Some(_))), "the old owner is out");
    assert!(!matches!(old.get_object("photos", "cat.jpg").await, Ok(Some(_))));
    gone(&from.buckets(), "photos").await;
    to.bucket_says("photos", "True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_migration_moves_a_bucket_with_its_objects_and_then_removes_the_first_claim() -> Result<()> {
    let (from, old) = furnished("from").await?;
    let to = Plot::new("to").await?;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    let migration = ends(&from, &name, MigrationPhase::Succeeded).await;
    assert_eq!(migration.status.clone().unwrap_or_default().moved.as_deref(), Some("1/1"));
    has_moved(&from, &old, &to).await?;
    // The subuser that is bound is let in by the new owner's name. Whom the old owner had let in beside is for the new one to say.
    assert!(to.s3("data-one").await?.get_object("photos", "cat.jpg").await?.is_some());
    assert!(to.s3("data-two").await?.get_object("photos", "cat.jpg").await.is_err(), "nothing binds it to the bucket");
    gone(&from.claims(), "data").await;
    from.user_is_gone("data").await;
    nobody_is_held([&from, &to]).await?;

    // It runs once, and is as it was made.
    let edit = json!({ "spec": { "buckets": ["other"] } });
    let refused = migrations(&from).patch(&name, &PatchParams::default(), &Patch::Merge(&edit)).await;
    assert!(format!("{:?}", refused.expect_err("a migration cannot be changed")).contains("make a new one"));
    let kubectl = world().await.bed.admin().kubectl(&["get", "usermigrations", &name]).await?;
    assert!(kubectl.contains("Succeeded") && kubectl.contains("1/1"), "{kubectl}");
    migrations(&from).delete(&name, &DeleteParams::default()).await?;
    gone(&migrations(&from), &name).await;
    Ok(())
}

#[tokio::test]
async fn a_migration_leaves_a_claim_with_other_buckets_alone() -> Result<()> {
    let (from, old) = furnished("stays").await?;
    old.create_bucket("more").await?;
    let to = Plot::new("gets").await?;
    to.claim(json!({ "subusers": ["one"] })).await?;
    to.ready("data").await;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    let migration = ends(&from, &name, MigrationPhase::Succeeded).await;
    assert!(message(&migration).contains("it has buckets: more"), "{}", message(&migration));
    has_moved(&from, &old, &to).await?;
    from.ready("data").await;
    assert!(old.head_bucket("more").await?);
    Ok(())
}

#[tokio::test]
async fn nobody_the_old_owner_let_in_gets_in_after_a_migration_and_nobody_is_shut_out_by_it() -> Result<()> {
    let (from, old) = furnished("lets-in").await?;
    let (friend, to) = (Plot::new("friend").await?, Plot::new("heir").await?);
    friend.claim(json!({})).await?;
    apply(&from.claims(), "second", json!({ "spec": { "readSecretName": "r2", "adminSecretName": "a2" } })).await?;
    friend.ready("data").await;
    from.ready("second").await;
    let arn = |user: croft_rgw::UserId| format!("arn:aws:iam::{}:user/{}", user.tenant(), user.id());
    let named = json!({ "AWS": [arn(friend.user_id("data")), arn(from.user_id("second"))] });
    let everybody = json!({ "AWS": ["*"] });
    // What would be read as ours, and what would hold for the new owner if it were about it.
    let mut forged = statement("Allow", &everybody, &["s3:GetObject"]);
    forged["Sid"] = json!("MovedAway");
    let mut hostile = statement("Deny", &json!({ "AWS": [arn(from.user_id("data"))] }), &["s3:PutObject"]);
    hostile["Condition"] = json!({ "StringLike": { "aws:Referer": "*" } });
    let said = [statement("Allow", &named, &["s3:*"]), statement("Allow", &everybody, &["s3:*"]), forged, hostile];
    old.put_bucket_policy("photos", &policy(&said)?).await?;
    // An object's own list lets somebody in, too.
    let friends = format!("id=\"{}\"", friend.user_id("data"));
    put_with(&from, "cat.jpg", ("x-amz-grant-read", &friends)).await?;
    let strangers = [friend.s3("admin").await?, from.s3("a2").await?];
    let home = from.user_id("data").tenant().to_owned();
    for stranger in &strangers {
        assert!(stranger.in_tenant(&home)?.get_object("photos", "cat.jpg").await?.is_some(), "let in before");
    }
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    let migration = ends(&from, &name, MigrationPhase::Succeeded).await;
    has_moved(&from, &old, &to).await?;
    let new = to.s3("admin").await?;
    new.put_object("photos", "dog.jpg", "woof").await?;
    let nobody_gets_in = async || -> Result<()> {
        for stranger in strangers.iter().chain([&old]) {
            let there = stranger.in_tenant(to.user_id("data").tenant())?;
            assert!(!matches!(there.get_object("photos", "cat.jpg").await, Ok(Some(_))), "let in after");
            assert!(there.put_object("photos", "x", "y").await.is_err());
        }
        Ok(())
    };
    nobody_gets_in().await?;
    let told = migration.status.unwrap_or_default().buckets.into_iter().find_map(|bucket| bucket.message);
    assert!(told.as_deref().is_some_and(|told| told.contains("left out")), "{told:?}");

    // A policy of the new owner's own does not let them in again, but whom it names.
    let heir = Plot::new("guest").await?;
    heir.claim(json!({})).await?;
    heir.ready("data").await;
    let guest = statement("Allow", &json!({ "AWS": [arn(heir.user_id("data"))] }), &["s3:GetObject"]);
    new.put_bucket_policy("photos", &policy(&[guest])?).await?;
    to.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    to.bucket_says("photos", "True", "Provisioned").await;
    nobody_gets_in().await?;
    let guest = heir.s3("admin").await?.in_tenant(to.user_id("data").tenant())?;
    assert!(
        guest.get_object("photos", "cat.jpg").await?.is_some() && new.get_object("photos", "cat.jpg").await?.is_some()
    );
    Ok(())
}

#[tokio::test]
async fn in_a_bucket_that_was_moved_nobody_but_its_new_owner_changes_what_is_said_of_old_objects() -> Result<()> {
    let (from, _) = furnished("acl").await?;
    let (friend, to) = (Plot::new("aclfriend").await?, Plot::new("aclheir").await?);
    friend.claim(json!({})).await?;
    friend.ready("data").await;
    let everything = format!("id=\"{}\"", friend.user_id("data"));
    for object in ["cat.jpg", "public/cat.jpg"] {
        put_with(&from, object, ("x-amz-grant-full-control", &everything)).await?;
    }
    let there = friend.s3("admin").await?.in_tenant(from.user_id("data").tenant())?;
    assert!(there.get_object("photos", "cat.jpg").await?.is_some(), "let in before");
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    to.bucket_says("photos", "True", "Provisioned").await;
    let tenant = to.user_id("data").tenant().to_owned();
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let attempt = async |plot: &Plot<'_>, secret: &str, object: &str, (method, query, body): (Method, &str, &str)| {
        let (keys, path) = (plot.secret(secret).await?, format!("/{tenant}%3Aphotos/{object}"));
        let header = (query == "acl=").then_some(("x-amz-acl", "private"));
        let call = S3Call { method, path: &path, query, header, body: body.as_bytes() };
        let (status, _) = plot.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?;
        anyhow::Ok(status.is_success())
    };
    let changes =
        || [(Method::PUT, "tagging=", tags), (Method::DELETE, "tagging=", ""), (Method::PUT, "acl=", "")].into_iter();
    let only_the_owner_changes = async |object: &str| -> Result<()> {
        for change in changes() {
            let told = format!("{} {} of {object}", change.0, change.1);
            assert!(!attempt(&friend, "admin", object, change.clone()).await?, "somebody else: {told}");
            assert!(!attempt(&to, "read", object, change.clone()).await?, "the read key: {told}");
            assert!(!attempt(&to, "data-one", object, change.clone()).await?, "a subuser that may read: {told}");
            // Ceph lets nobody give an object an access list of another owner's, whatever the policy allows.
            let is_list = change.1 == "acl=";
            assert_eq!(attempt(&to, "admin", object, change).await?, !is_list, "its owner: {told}");
        }
        Ok(())
    };
    let reads = async |object: &str| attempt(&friend, "admin", object, (Method::GET, "", "")).await;
    assert!(!reads("cat.jpg").await? && !reads("public/cat.jpg").await?);
    // What is opened to everybody is open, and opens nothing else.
    let mut folder = statement("Allow", &json!("*"), &["s3:GetObject"]);
    folder["Resource"] = json!(["arn:aws:s3:::photos/public/*"]);
    to.s3("admin").await?.put_bucket_policy("photos", &policy(&[folder])?).await?;
    to.bucket("photos", json!({ "s3SubuserBinding": [{ "name": "one" }], "s3DeletionPolicy": "retain" })).await?;
    to.bucket_says("photos", "True", "Provisioned").await;
    assert!(reads("public/cat.jpg").await?, "everybody reads there");
    assert!(!reads("cat.jpg").await?, "and nowhere else");
    only_the_owner_changes("public/cat.jpg").await?;
    only_the_owner_changes("cat.jpg").await
}

#[tokio::test]
async fn in_a_bucket_that_was_moved_everybody_has_exactly_what_its_new_owner_says() -> Result<()> {
    let (from, _) = furnished("exact").await?;
    let (friend, to) = (Plot::new("exactfriend").await?, Plot::new("exactheir").await?);
    friend.claim(json!({})).await?;
    friend.ready("data").await;
    let grantees = format!("id=\"{}\", id=\"{}\"", from.user_id("data"), friend.user_id("data"));
    for object in ["cat.jpg", "public/cat.jpg"] {
        put_with(&from, object, ("x-amz-grant-full-control", &grantees)).await?;
    }
    let keys = from.secret("admin").await?;
    let header = Some(("x-amz-grant-full-control", grantees.as_str()));
    let call = S3Call { method: Method::PUT, path: "/photos", query: "acl=", header, body: b"-" };
    let (status, body) = from.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?;
    anyhow::ensure!(status.is_success(), "{status} {body}");
    // What somebody gets done, by whatever gives the right.
    let rights = async |plot: &Plot<'_>, there: &Plot<'_>| {
        let keys = plot.secret("admin").await?;
        let mut rights = Vec::new();
        for (right, method, place, query) in [
            ("reads the folder", Method::GET, "/public/cat.jpg", ""),
            ("reads the rest", Method::GET, "/cat.jpg", ""),
            ("reads lists", Method::GET, "/public/cat.jpg", "acl="),
            ("lists", Method::GET, "", ""),
            ("stores", Method::PUT, "/public/dog.jpg", ""),
            ("deletes", Method::DELETE, "/nothing.jpg", ""),
        ] {
            let path = format!("/{}%3Aphotos{place}", there.user_id("data").tenant());
            let body: &[u8] = if method == Method::PUT { b"woof" } else { b"" };
            let call = S3Call { method, path: &path, query, header: None, body };
            let (status, _) = plot.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?;
            rights.extend(status.is_success().then_some(right));
        }
        anyhow::Ok(rights)
    };
    let all = rights(&from, &from).await?;
    assert_eq!((rights(&friend, &from).await?, all.len()), (all.clone(), 6), "let in before");
    let name = migrate(&from, &to, &["photos"], json!({ "deleteCurrentUser": false })).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    to.bucket_says("photos", "True", "Provisioned").await;
    let nothing: [&str; 0] = [];
    assert_eq!(rights(&friend, &to).await?, nothing, "a third party");
    assert_eq!(rights(&from, &to).await?, nothing, "the former owner");
    let arn = |plot: &Plot<'_>| format!("arn:aws:iam::{}:user/data", plot.user_id("data").tenant());
    let allow = |plot: &Plot<'_>, action: &str, resource: &str| {
        json!({ "Effect": "Allow", "Principal": { "AWS": [arn(plot)] }, "Action": [action],
                "Resource": [format!("arn:aws:s3:::photos{resource}")] })
    };
    let said = [
        allow(&friend, "s3:GetObject", "/public/*"),
        allow(&from, "s3:ListBucket", ""),
        allow(&from, "s3:GetObject", "/cat.jpg"),
    ];
    to.s3("admin").await?.put_bucket_policy("photos", &policy(&said)?).await?;
    to.bucket("photos", json!({ "s3SubuserBinding": [{ "name": "one" }], "s3DeletionPolicy": "retain" })).await?;
    to.bucket_says("photos", "True", "Provisioned").await;
    assert_eq!(rights(&friend, &to).await?, ["reads the folder"]);
    assert_eq!(rights(&from, &to).await?, ["reads the rest", "lists"]);
    let owners = rights(&to, &to).await?;
    assert!(
        ["reads the folder", "reads the rest", "lists", "stores"].iter().all(|it| owners.contains(it)),
        "{owners:?}"
    );
    Ok(())
}

/// Stores an object as the bucket's owner, with an access list.
pub(crate) async fn put_with(plot: &Plot<'_>, object: &str, list: (&str, &str)) -> Result<()> {
    let (keys, path) = (plot.secret("admin").await?, format!("/photos/{object}"));
    let call = S3Call { method: Method::PUT, path: &path, query: "", header: Some(list), body: b"meow" };
    let (status, body) = plot.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?;
    anyhow::ensure!(status.is_success(), "{status} {body}");
    Ok(())
}

#[tokio::test]
async fn a_policy_that_nobody_could_take_off_keeps_a_migration_from_beginning() -> Result<()> {
    let (from, old) = furnished("shut").await?;
    let to = Plot::new("waits").await?;
    let shut = statement("Deny", &json!("*"), &["s3:GetBucketPolicy"]);
    old.put_bucket_policy("photos", &policy(&[shut])?).await?;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("photos: its policy cannot be read by its owner"), "{told}");
    assert!(old.get_object("photos", "cat.jpg").await?.is_some());
    nobody_is_held([&from, &to]).await
}

#[tokio::test]
async fn a_bucket_that_cannot_be_moved_after_all_stays_and_the_others_go() -> Result<()> {
    let (from, old) = furnished("partly").await?;
    old.create_bucket("more").await?;
    let to = Plot::new("some").await?;
    let stuck = statement("Deny", &json!("*"), &["s3:DeleteBucketPolicy", "s3:PutBucketPolicy"]);
    old.put_bucket_policy("photos", &policy(&[stuck])?).await?;
    let name = migrate(&from, &to, &["photos", "more"], json!({})).await?;
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("1 of 2 buckets are moved; photos: "), "{told}");
    assert!(old.get_object("photos", "cat.jpg").await?.is_some(), "it is where it was");
    assert!(to.s3("admin").await?.head_bucket("more").await?);
    from.ready("data").await;
    nobody_is_held([&from, &to]).await
}

#[tokio::test]
async fn a_binding_to_a_subuser_the_new_owner_lacks_is_told_and_holds_nothing_up() -> Result<()> {
    let (from, _) = furnished("binds").await?;
    let to = Plot::new("lacks").await?;
    to.claim(json!({})).await?;
    to.ready("data").await;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    ends(&from, &name, MigrationPhase::Succeeded).await;
    to.bucket_says("photos", "False", "UnknownSubuser").await;
    assert!(to.s3("admin").await?.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_migration_to_a_claim_without_room_is_refused_with_nothing_moved() -> Result<()> {
    let (from, old) = furnished("large").await?;
    let to = Plot::new("small").await?;
    to.claim(json!({ "quota": { "size": "1Gi", "objects": "0", "buckets": 3 } })).await?;
    to.ready("data").await;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("raise its spec.quota.objects first"), "{told}");
    assert!(old.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_name_that_is_taken_where_it_would_go_is_refused_with_nothing_moved() -> Result<()> {
    let (from, old) = furnished("clash").await?;
    let to = Plot::new("taken").await?;
    to.claim(json!({})).await?;
    to.ready("data").await;
    to.s3("admin").await?.create_bucket("photos").await?;
    to.s3("admin").await?.put_object("photos", "dog.jpg", "woof").await?;
    let name = migrate(&from, &to, &["photos", "nothing"], json!({})).await?;
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("has a bucket of this name where it would go"), "{told}");
    assert!(told.contains("nothing: there is no such bucket"), "{told}");
    assert_eq!(to.s3("admin").await?.get_object("photos", "dog.jpg").await?.as_deref(), Some("woof".as_bytes()));
    assert_eq!(old.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
    from.bucket_says("photos", "True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_migration_between_two_gateways_is_refused() -> Result<()> {
    let (from, _) = furnished("here").await?;
    let to = Plot::new("there").await?;
    let class = format!("there-{}", to.namespace);
    // The same gateway by another name is another one, as far as anybody can tell.
    let endpoint = to.ceph.endpoint.replace("127.0.0.1", "localhost");
    to.class(&class, json!({ "endpoint": endpoint, "tenantPrefix": "elsewhere" })).await?;
    to.claim(json!({ "s3ClassName": class })).await?;
    to.ready("data").await;
    let name = migrate(&from, &to, &["photos"], json!({})).await?;
    let told = message(&ends(&from, &name, MigrationPhase::Failed).await);
    assert!(told.contains("two gateways"), "{told}");
    Ok(())
}

#[tokio::test]
async fn no_tenant_can_ask_for_a_migration() -> Result<()> {
    let plot = Plot::new("thief").await?;
    let bed = &world().await.bed;
    let tenant = bed.service_account(&plot.namespace, "thief").await?;
    // All that a tenant can be given in a namespace of hers.
    let subject = format!("--serviceaccount={}:thief", plot.namespace);
    let binding = ["create", "rolebinding", "thief", "-n", &plot.namespace, "--clusterrole=admin", &subject];
    bed.admin().kubectl(&binding).await?;
    for verb in ["create", "get", "list", "update", "patch", "delete"] {
        for resource in ["usermigrations", "s3users"] {
            assert!(!tenant.can(verb, &format!("s3.snappcloud.io/{resource}"), None).await?, "{verb} {resource}");
        }
    }
    Ok(())
}
