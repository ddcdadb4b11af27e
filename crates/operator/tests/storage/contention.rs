//! Quota under contention: two replicas serve admission, many ask at once, and somebody looks into Ceph all the time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use croft_api::storage::{S3QuotaLedger, S3TeamQuota, S3UserClaim};
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match},
    wait,
};
use futures::future::join_all;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{Event, ResourceQuota},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    input::unguarded_plot,
    plot::{Plot, apply},
    quota::{claim_of, ledger, team_is_known, team_of_two_on},
    support::{PATIENCE, World, eventually},
};

/// Rounds of two hundred requests each.
const ROUNDS: u64 = 50;

/// Lets one replica review the claims of namespaces labelled `door: a`, the other those labelled `door: b`. A front door shared by
/// both would not do: the API server keeps to one connection.
async fn split_the_door(client: &Client, doors: [(&str, &str); 2]) -> Result<()> {
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mut configuration = hooks.get("croft").await?;
    let webhooks = configuration.webhooks.get_or_insert_default();
    let own = webhooks.iter().position(|hook| hook.name == "vs3userclaim.kb.io").context("our webhook")?;
    let hook = webhooks.remove(own);
    for (label, url) in doors {
        let mut hook = hook.clone();
        hook.name = format!("{label}.{}", hook.name);
        hook.client_config.url = Some(format!("{url}/validate-s3-snappcloud-io-v1alpha1-s3userclaim"));
        hook.namespace_selector = Some(serde_json::from_value(json!({ "matchLabels": { "door": label } }))?);
        webhooks.push(hook);
    }
    hooks.replace("croft", &PostParams::default(), &configuration).await?;
    Ok(())
}

pub(crate) async fn label(plot: &Plot<'_>, labels: Value) -> Result<()> {
    let labels = json!({ "metadata": { "labels": labels } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&labels)).await?;
    Ok(())
}

/// What Ceph gives all claims of the namespaces together.
pub(crate) async fn given(plots: &[&Plot<'_>]) -> Result<u64> {
    let mut sum = 0;
    for plot in plots {
        for claim in plot.claims().list(&ListParams::default()).await?.items {
            let user = plot.user(claim.metadata.name.as_deref().unwrap_or_default()).await?;
            sum += user.and_then(|user| user.user_quota.max_size).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// Looks into Ceph until told to stop; gives the most it saw.
pub(crate) async fn most_given(plots: &[&Plot<'_>], over: &AtomicBool) -> Result<u64> {
    let most = AtomicU64::new(0);
    while !over.load(Ordering::SeqCst) {
        most.fetch_max(given(plots).await?, Ordering::SeqCst);
    }
    most.fetch_max(given(plots).await?, Ordering::SeqCst);
    Ok(most.into_inner())
}

/// Two hundred at once are many for a slow machine: whoever is not answered in time asks again, as any client would.
async fn answered<Answer: Future<Output = kube::Result<()>>>(ask: impl Fn() -> Answer) -> kube::Result<()> {
    for _ in 0..20 {
        match ask().await {
            Err(error) if error.to_string().contains("context deadline exceeded") => {}
            answer => return answer,
        }
    }
    ask().await
}

/// A round: two hundred requests at once, creates and updates, for room that is not enough.
async fn round(plots: &[Plot<'_>; 2], capacity: u64) -> Result<()> {
    let post = PostParams::default();
    for (number, plot) in plots.iter().enumerate() {
        for first in 0..4 {
            plot.claims().create(&post, &claim_of(&format!("old-{number}-{first}"), 1)).await?;
        }
    }
    let over = AtomicBool::new(false);
    let create = |number: usize| {
        let claims = plots[number % 2].claims();
        async move {
            let claim = claim_of(&format!("c{number}"), 1);
            answered(|| async { claims.create(&PostParams::default(), &claim).await.map(drop) }).await
        }
    };
    let grow = |number: usize| {
        let claims = plots[number % 2].claims();
        let more = Patch::Merge(json!({ "spec": { "quota": { "size": 2 } } }));
        async move {
            let name = format!("old-{}-{}", number % 2, number / 2);
            answered(|| async { claims.patch(&name, &PatchParams::default(), &more).await.map(drop) }).await
        }
    };
    let asking = async {
        let (created, grown) = futures::join!(join_all((0..192).map(create)), join_all((0..8).map(grow)));
        over.store(true, Ordering::SeqCst);
        created.into_iter().chain(grown).collect::<Vec<_>>()
    };
    let all = plots.each_ref();
    let (answers, most) = futures::join!(asking, most_given(&all, &over));
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).map(ToString::to_string).collect();
    for told in &refused {
        ensure!(told.contains("exceeded cluster quota"), "refused for another reason: {told}");
    }
    let admitted = u64::try_from(answers.len() - refused.len())? + 8;
    ensure!(admitted == capacity, "{admitted} of {capacity} admitted");
    ensure!(most? <= capacity, "Ceph gave more than {capacity}");
    wait::until("everybody to have what was admitted", 2 * PATIENCE, || async {
        let given = given(&all).await?;
        ensure!(given <= capacity, "Ceph gives {given} of {capacity}");
        Ok((given == capacity).then_some(()))
    })
    .await
}

#[tokio::test]
async fn two_replicas_admit_exactly_what_fits_of_two_hundred_requests_at_once_round_after_round() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let second = installed.start(&bed, "second", &installed.identity.kubeconfig, &["--log", "info,croft=debug"])?;
    second.ready(PATIENCE).await?;
    split_the_door(&bed.admin().client, [("a", &operator.webhook), ("b", &second.webhook)]).await?;
    let begun = Instant::now();
    for number in 0..ROUNDS {
        // Some of what is there already can grow, or others can come; few enough for Ceph to be served in a second or two.
        let capacity = 9 + number % 8;
        let plots = team_of_two_on(&bed, "contest", json!({ "size": capacity })).await?;
        label(&plots[0], json!({ "door": "a" })).await?;
        label(&plots[1], json!({ "door": "b" })).await?;
        team_is_known(&plots).await;
        round(&plots, capacity).await.with_context(|| format!("round {number}"))?;
    }
    println!("{ROUNDS} rounds in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// How many requests that change something the API server is at work on; it looks once a second.
async fn under_way(client: &Client) -> Result<usize> {
    let told = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let gauge = r#"apiserver_current_inflight_requests{request_kind="mutating"} "#;
    let value = told.lines().find_map(|line| line.strip_prefix(gauge)).context("the API server tells it")?;
    Ok(value.trim().parse()?)
}

#[tokio::test]
async fn those_who_ask_while_the_books_are_written_are_answered_by_one_write() -> Result<()> {
    const ASKING: usize = 40;
    let (bed, installed) = Box::pin(World::installed(Testbed::kubernetes().with_ceph())).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "proxied", proxy.kubeconfig(), &["--log", "info,croft=debug"])?;
    operator.ready(PATIENCE).await?;
    let plot = Plot::on(&bed, "atonce").await?;
    // Nothing is written for them but what they are promised.
    let claim = |name: String| {
        let mut claim = claim_of(&name, 1);
        claim.spec.s3_class_name = Some("nobody-made-it".into());
        claim
    };
    plot.claims().create(&PostParams::default(), &claim("first".into())).await?;
    plot.claim_says("first", "False", "ClassNotFound").await;
    proxy.clear_log();
    let held = proxy.on(Match::verb("update").resource("s3quotaledgers")).before(Action::Hold);
    let create = |number: usize| {
        let (claims, claim) = (plot.claims(), claim(format!("c{number}")));
        async move { claims.create(&PostParams::default(), &claim).await }
    };
    let released = async {
        let all_have_asked = eventually("all of them to be waiting at the door", || async {
            Ok((held.fired() > 0 && under_way(&plot.client).await? >= ASKING).then_some(()))
        });
        all_have_asked.await;
        held.release();
    };
    let (answers, ()) = futures::join!(join_all((0..ASKING).map(create)), released);
    for answer in answers {
        answer?;
    }
    let books = ledger(&plot, &format!("namespace.{}", plot.namespace)).await?.context("the books")?;
    assert_eq!(books.spec.entries.len(), ASKING + 1, "everybody was promised what he asked for");
    let log = proxy.log();
    let writes = log.iter().filter(|seen| seen.request.write && seen.request.resource.ends_with("/s3quotaledgers"));
    let writes: Vec<_> = writes.map(|seen| seen.request.to_string()).collect();
    // The one that was held, one for all who waited, and one for who came when that was on its way.
    assert!((2..=3).contains(&writes.len()), "{writes:#?}");
    Ok(())
}

#[tokio::test]
async fn a_create_that_fails_after_admission_gives_back_also_after_a_restart() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let plots = team_of_two_on(&bed, "vain", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    plot.claims().create(&PostParams::default(), &claim_of("data", 1)).await?;
    plot.ready("data").await;
    // Let in, and not stored: the name is taken.
    let failed = plot.claims().create(&PostParams::default(), &claim_of("data", 10)).await.expect_err("it is there");
    assert!(failed.to_string().contains("already exists"), "{failed}");
    let refused = other.claims().create(&PostParams::default(), &claim_of("late", 1)).await;
    assert!(refused.is_err(), "its request may still be under way");
    // Two minutes pass.
    let (books, entry) = (format!("team.{}", plot.namespace), format!("{}/data", plot.namespace));
    let ledgers: Api<S3QuotaLedger> = Api::all(plot.client.clone());
    let mut stored = ledger(plot, &books).await?.context("the team's books")?;
    let pending = stored.spec.entries.get_mut(&entry).context("a promise")?;
    pending.reserved_at = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z"))?);
    ledgers.replace(&books, &PostParams::default(), &stored).await?;
    drop(operator);
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    eventually("what was promised in vain to be free", || async {
        Ok(Some(other.claims().create(&PostParams::default(), &claim_of("late", 9)).await?))
    })
    .await;
    other.ready("late").await;
    Ok(())
}

#[tokio::test]
async fn with_the_door_open_the_controller_grants_no_more_than_there_is() -> Result<()> {
    let plot = unguarded_plot("opendoor").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(plot.client.clone(), &plot.namespace);
    apply(&quotas, "storage", json!({ "spec": { "hard": { "s3/size": "10" } } })).await?;
    let names: Vec<_> = (0..6).map(|number| format!("c{number}")).collect();
    let create = |name: &String| {
        let (claims, claim) = (plot.claims(), claim_of(name, 4));
        async move { claims.create(&PostParams::default(), &claim).await }
    };
    for answer in join_all(names.iter().map(create)).await {
        answer?;
    }
    let told = async || -> Result<BTreeMap<String, usize>> {
        let mut reasons = BTreeMap::new();
        for claim in plot.claims().list(&ListParams::default()).await?.items {
            let conditions = claim.status.unwrap_or_default().conditions;
            let ready = conditions.into_iter().find(|it| it.type_ == "Ready").context("no condition yet")?;
            *reasons.entry(ready.reason).or_default() += 1;
        }
        Ok(reasons)
    };
    let says = async |wanted: Value| {
        eventually(&format!("the claims to say {wanted}"), || async {
            let told = json!(told().await?);
            let given = given(&[&plot]).await?;
            ensure!(told == wanted, "they say {told}, and Ceph gives {given}");
            Ok(Some(()))
        })
        .await;
    };
    says(json!({ "Provisioned": 2, "QuotaExceeded": 4 })).await;
    assert_eq!(given(&[&plot]).await?, 8);
    apply(&quotas, "storage", json!({ "spec": { "hard": { "s3/size": "13" } } })).await?;
    says(json!({ "Provisioned": 3, "QuotaExceeded": 3 })).await;
    // What one gives back another one gets, without anybody asking.
    let claims = plot.claims().list(&ListParams::default()).await?.items;
    let is_provisioned = |claim: &&S3UserClaim| claim.status.as_ref().is_some_and(|status| status.quota.is_some());
    let one =
        claims.iter().find(is_provisioned).and_then(|claim| claim.metadata.name.clone()).context("one that has")?;
    plot.claims().delete(&one, &DeleteParams::default()).await?;
    says(json!({ "Provisioned": 3, "QuotaExceeded": 2 })).await;
    Ok(())
}

#[tokio::test]
async fn a_claim_raised_lowered_and_raised_again_at_once_keeps_what_it_was_promised() -> Result<()> {
    let plots = team_of_two_on(&crate::plot::world().await.bed, "updown", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    plot.claims().create(&PostParams::default(), &claim_of("data", 2)).await?;
    plot.ready("data").await;
    let resize = async |size: u64| -> Result<()> {
        let size = Patch::Merge(json!({ "spec": { "quota": { "size": size } } }));
        plot.claims().patch("data", &PatchParams::default(), &size).await?;
        Ok(())
    };
    for _ in 0..5 {
        resize(9).await?;
        resize(3).await?;
        resize(9).await?;
        // What is promised to one is not there for another, however far the operator is.
        let refused = other.claims().create(&PostParams::default(), &claim_of("thief", 2)).await;
        assert!(refused.is_err(), "nothing of the nine is free");
        eventually("Ceph to give what was promised", || async {
            Ok((plot.user("data").await?.and_then(|user| user.user_quota.max_size) == Some(9)).then_some(()))
        })
        .await;
        plot.ready("data").await;
        resize(2).await?;
        plot.ready("data").await;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_changes_its_team_takes_what_it_has_along() -> Result<()> {
    let ours = team_of_two_on(&crate::plot::world().await.bed, "ours", json!({ "size": 10 })).await?;
    let theirs = team_of_two_on(&crate::plot::world().await.bed, "theirs", json!({ "size": 10 })).await?;
    team_is_known(&ours).await;
    team_is_known(&theirs).await;
    let post = PostParams::default();
    ours[1].claims().create(&post, &claim_of("data", 6)).await?;
    theirs[0].claims().create(&post, &claim_of("data", 3)).await?;
    ours[1].ready("data").await;
    theirs[0].ready("data").await;
    label(&ours[1], json!({ "snappcloud.io/team": theirs[0].namespace })).await?;
    let (from, to) = (format!("team.{}", ours[0].namespace), format!("team.{}", theirs[0].namespace));
    let entry = format!("{}/data", ours[1].namespace);
    eventually("the books to follow", || async {
        let here = ledger(&ours[0], &from).await?.is_some_and(|it| it.spec.entries.contains_key(&entry));
        let there = ledger(&ours[0], &to).await?.is_some_and(|it| it.spec.entries.contains_key(&entry));
        Ok((!here && there).then_some(()))
    })
    .await;
    let refused = theirs[1].claims().create(&post, &claim_of("more", 2)).await.expect_err("1 is left");
    assert!(refused.to_string().contains("1 of the team's 10 left"), "{refused}");
    ours[0].claims().create(&post, &claim_of("data", 10)).await?;
    ours[0].ready("data").await;
    Ok(())
}

#[tokio::test]
async fn who_comes_to_a_team_without_room_keeps_what_he_has_and_is_not_told_that_it_is_too_much() -> Result<()> {
    let bed = &crate::plot::world().await.bed;
    let [_, comes] = &team_of_two_on(bed, "comes", json!({ "size": 10 })).await?;
    let full = team_of_two_on(bed, "full", json!({ "size": 10 })).await?;
    team_is_known(&full).await;
    for (plot, size) in [(comes, 6), (&full[0], 8)] {
        plot.claims().create(&PostParams::default(), &claim_of("data", size)).await?;
        plot.ready("data").await;
    }
    label(comes, json!({ "snappcloud.io/team": full[0].namespace })).await?;
    let (books, entry) = (format!("team.{}", full[0].namespace), format!("{}/data", comes.namespace));
    eventually("the books to follow", || async {
        Ok(ledger(comes, &books).await?.filter(|books| books.spec.entries.contains_key(&entry)))
    })
    .await;
    let edit = json!({ "spec": { "subusers": ["one"] } });
    comes.claims().patch("data", &PatchParams::default(), &Patch::Merge(&edit)).await?;
    comes.ready("data").await;
    let events: Api<Event> = Api::namespaced(comes.client.clone(), &comes.namespace);
    let told = events.list(&ListParams::default()).await?.items;
    assert!(!told.iter().any(|event| event.reason.as_deref() == Some("QuotaExceeded")), "{told:#?}");
    let more = json!({ "spec": { "quota": { "size": 7 } } });
    let refused = comes.claims().patch("data", &PatchParams::default(), &Patch::Merge(&more)).await;
    assert!(refused.expect_err("there is no room").to_string().contains("exceeded cluster quota"));
    Ok(())
}

#[tokio::test]
async fn books_that_are_lost_are_made_anew_of_what_ceph_has() -> Result<()> {
    let plots = team_of_two_on(&crate::plot::world().await.bed, "lost", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    plots[0].claims().create(&PostParams::default(), &claim_of("data", 7)).await?;
    plots[0].ready("data").await;
    let ledgers: Api<S3QuotaLedger> = Api::all(plots[0].client.clone());
    ledgers.delete(&format!("team.{}", plots[0].namespace), &DeleteParams::default()).await?;
    let refused = plots[1].claims().create(&PostParams::default(), &claim_of("more", 4)).await.expect_err("3 are left");
    assert!(refused.to_string().contains("3 of the team's 10 left"), "{refused}");
    plots[1].claims().create(&PostParams::default(), &claim_of("more", 3)).await?;
    plots[1].ready("more").await;
    Ok(())
}

#[tokio::test]
async fn a_claim_raised_again_while_the_operator_was_dead_gets_what_was_granted_before() -> Result<()> {
    let World { bed, installed, operator } = Box::pin(World::own(Testbed::kubernetes().with_ceph())).await?;
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(bed.admin().client.clone());
    hooks.delete("croft", &DeleteParams::default()).await?;
    let plot = Plot::on(&bed, "crash").await?;
    let quotas: Api<S3TeamQuota> = Api::all(plot.client.clone());
    apply(&quotas, "red", json!({ "spec": { "hard": { "objects": 3 } } })).await?;
    label(&plot, json!({ "snappcloud.io/team": "red" })).await?;
    let proxy = FaultProxy::rgw(&bed.ceph().endpoint).await?;
    plot.class("slow", json!({ "endpoint": proxy.endpoint() })).await?;
    plot.claim(json!({ "s3ClassName": "slow", "quota": { "objects": 2 } })).await?;
    plot.ready("data").await;
    // Granted 3, and the operator dies before Ceph hears of it.
    let operator = Arc::new(operator);
    let victim = operator.clone();
    proxy.on(Match::verb("put")).before(Action::kill(move || victim.process.kill()));
    let raise =
        async |objects: u64| plot.claim(json!({ "s3ClassName": "slow", "quota": { "objects": objects } })).await;
    raise(3).await?;
    eventually("the operator to die", || async { Ok((!operator.process.is_running()).then_some(())) }).await;
    proxy.clear_rules();
    assert_eq!(plot.user("data").await?.and_then(|user| user.user_quota.max_objects), Some(2));
    raise(4).await?;
    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    plot.claim_says("data", "False", "QuotaExceeded").await;
    eventually("Ceph to give what was granted", || async {
        Ok((plot.user("data").await?.and_then(|user| user.user_quota.max_objects) == Some(3)).then_some(()))
    })
    .await;
    Ok(())
}
