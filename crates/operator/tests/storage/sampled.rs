//! Limits that are lowered, claims that shrink and namespaces that move while others try to get more: somebody looks into Ceph all
//! the time, and never finds more there than there may be.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use croft_api::storage::S3TeamQuota;
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match},
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    contention::{given, label, most_given},
    plot::{Plot, apply, gone, world},
    quota::{claim_of, ledger, team_is_known, team_of_two, team_of_two_on},
    support::{PATIENCE, World, eventually},
};

async fn resize(plot: &Plot<'_>, name: &str, size: u64) -> kube::Result<()> {
    let size = Patch::Merge(json!({ "spec": { "quota": { "size": size } } }));
    plot.claims().patch(name, &PatchParams::default(), &size).await.map(drop)
}

async fn create(plot: &Plot<'_>, name: &str, size: u64) -> kube::Result<()> {
    plot.claims().create(&PostParams::default(), &claim_of(name, size)).await.map(drop)
}

/// What somebody wants in vain, as often as he can until told to stop; gives how often he was refused.
async fn in_vain<Answer: Future<Output = kube::Result<()>>>(
    wish: impl Fn() -> Answer,
    over: &AtomicBool,
    refusals: &AtomicUsize,
) -> Result<()> {
    while !over.load(Ordering::SeqCst) {
        let told = wish().await.err().context("it was let in")?.to_string();
        ensure!(told.contains("exceeded"), "refused for another reason: {told}");
        refusals.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// So often somebody is refused before the story goes on.
const OFTEN: usize = 5;

async fn refused_often(refusals: &AtomicUsize) {
    let before = refusals.load(Ordering::SeqCst);
    eventually("somebody to be refused again and again", || async {
        Ok((refusals.load(Ordering::SeqCst) >= before + OFTEN).then_some(()))
    })
    .await;
}

/// Tells everybody to stop, also if the story ends early.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn while_a_limit_is_lowered_ceph_never_gives_more_than_was_given_before() -> Result<()> {
    let plots = team_of_two("lowered", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    create(plot, "data", 8).await?;
    plot.ready("data").await;
    let quotas: Api<S3TeamQuota> = Api::all(plot.client.clone());
    let (over, refusals) = (AtomicBool::new(false), AtomicUsize::new(0));
    let story = async {
        let _over = Over(&over);
        refused_often(&refusals).await;
        for size in [9, 8, 5] {
            apply(&quotas, &plot.namespace, json!({ "spec": { "hard": { "size": size } } })).await?;
            refused_often(&refusals).await;
        }
        // Below the limit again, and there is just as much left as nobody asks for.
        resize(plot, "data", 3).await?;
        plot.ready("data").await;
        eventually("Ceph to give less", || async { Ok((given(&[plot, other]).await? == 3).then_some(())) }).await;
        refused_often(&refusals).await;
        anyhow::Ok(())
    };
    let wants_more = in_vain(|| resize(plot, "data", 11), &over, &refusals);
    let wants_some = in_vain(|| create(other, "late", 3), &over, &refusals);
    let both = [plot, other];
    let (told, most, more, some) = futures::join!(story, most_given(&both, &over), wants_more, wants_some);
    told?;
    more?;
    some?;
    assert_eq!(most?, 8, "the most Ceph ever gave");
    create(other, "late", 2).await?;
    other.ready("late").await;
    assert_eq!(given(&[plot, other]).await?, 5);
    Ok(())
}

#[tokio::test]
async fn while_one_shrinks_and_another_waits_for_that_ceph_never_gives_both() -> Result<()> {
    let plots = team_of_two("shrinks", json!({ "size": 10 })).await?;
    team_is_known(&plots).await;
    let [plot, other] = &plots;
    let proxy = FaultProxy::rgw(&plot.ceph.endpoint).await?;
    let class = format!("shrinks-{}", plot.namespace);
    plot.class(&class, json!({ "endpoint": proxy.endpoint() })).await?;
    let mut claim = claim_of("data", 10);
    claim.spec.s3_class_name = Some(class);
    plot.claims().create(&PostParams::default(), &claim).await?;
    plot.ready("data").await;
    let (over, refusals) = (AtomicBool::new(false), AtomicUsize::new(0));
    let story = async {
        let _over = Over(&over);
        for (more, less) in [(10, 4), (10, 2), (10, 4)] {
            resize(plot, "data", more).await?;
            plot.ready("data").await;
            let under_way = proxy.on(Match::verb("put").resource("/admin/user")).before(Action::Hold).always();
            resize(plot, "data", less).await?;
            eventually("Ceph to be given less", || async { Ok((under_way.fired() > 0).then_some(())) }).await;
            let refused = create(other, "thief", 6).await.err().context("Ceph still has it")?.to_string();
            ensure!(refused.contains("exceeded cluster quota"), "{refused}");
            under_way.remove();
            under_way.release();
            eventually("the rest to be free", || async { Ok(Some(create(other, "thief", 6).await?)) }).await;
            other.ready("thief").await;
            other.claims().delete("thief", &DeleteParams::default()).await?;
            gone(&other.claims(), "thief").await;
        }
        anyhow::Ok(())
    };
    let both = [plot, other];
    // He never gets it: there is no moment at which it is free.
    let greedy = in_vain(|| create(other, "greedy", 9), &over, &refusals);
    let (told, most, greedy) = futures::join!(story, most_given(&both, &over), greedy);
    told?;
    greedy?;
    assert_eq!(most?, 10, "the most Ceph ever gave");
    Ok(())
}

#[tokio::test]
async fn while_a_namespace_moves_to_another_team_ceph_never_gives_it_more_than_there_is() -> Result<()> {
    let bed = &world().await.bed;
    let ours = team_of_two_on(bed, "leaves", json!({ "size": 6 })).await?;
    let theirs = team_of_two_on(bed, "receives", json!({ "size": 10 })).await?;
    team_is_known(&ours).await;
    team_is_known(&theirs).await;
    let moves = &ours[1];
    create(moves, "data", 6).await?;
    create(&theirs[0], "data", 3).await?;
    moves.ready("data").await;
    theirs[0].ready("data").await;
    let (over, refusals) = (AtomicBool::new(false), AtomicUsize::new(0));
    let teams = [&ours[0].namespace, &theirs[0].namespace];
    let story = async {
        let _over = Over(&over);
        for _ in 0..3 {
            for team in [teams[1], teams[0]] {
                refused_often(&refusals).await;
                label(moves, json!({ "snappcloud.io/team": team })).await?;
                refused_often(&refusals).await;
                let (books, entry) = (format!("team.{team}"), format!("{}/data", moves.namespace));
                eventually("the books to follow", || async {
                    Ok(ledger(moves, &books).await?.filter(|it| it.spec.entries.contains_key(&entry)))
                })
                .await;
            }
        }
        anyhow::Ok(())
    };
    let all = [moves, &theirs[0], &theirs[1]];
    // 0 are left to it where it comes from, 1 where it goes to.
    let wants_more = in_vain(|| resize(moves, "data", 8), &over, &refusals);
    let wants_another = in_vain(|| create(moves, "more", 2), &over, &refusals);
    let (told, most, more, another) = futures::join!(story, most_given(&all, &over), wants_more, wants_another);
    told?;
    more?;
    another?;
    assert_eq!(most?, 9, "the most Ceph ever gave");
    Ok(())
}

/// A world whose operator hears of nothing while its watches are paused.
async fn deaf() -> Result<(World, FaultProxy)> {
    let (bed, installed) = World::installed(Testbed::kubernetes().with_ceph()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let operator = installed.start(&bed, "deaf", proxy.kubeconfig(), &["--log", "info,croft=debug"])?;
    operator.ready(PATIENCE).await?;
    Ok((World { bed, installed, operator }, proxy))
}

#[tokio::test]
async fn a_namespace_brings_its_own_weight_to_a_team_before_anybody_has_heard_of_its_move() -> Result<()> {
    let (world, proxy) = Box::pin(deaf()).await?;
    let ours = team_of_two_on(&world.bed, "unheard", json!({ "size": 20 })).await?;
    let theirs = team_of_two_on(&world.bed, "hearing", json!({ "size": 12 })).await?;
    team_is_known(&ours).await;
    team_is_known(&theirs).await;
    let moves = &ours[1];
    let quotas: Api<ResourceQuota> = Api::namespaced(moves.client.clone(), &moves.namespace);
    apply(&quotas, "storage", json!({ "spec": { "hard": { "s3/size": "13" } } })).await?;
    for (plot, name, size) in [(moves, "one", 5), (moves, "two", 5), (&theirs[0], "data", 2)] {
        create(plot, name, size).await?;
        plot.ready(name).await;
    }
    proxy.pause_watches();
    label(moves, json!({ "snappcloud.io/team": theirs[0].namespace })).await?;
    let told = resize(moves, "one", 9).await.err().context("14 of the namespace's 13")?.to_string();
    assert!(told.contains("exceeded namespace quota: 9 bytes asked for, 8 of the namespace's 13 left"), "{told}");
    let told = resize(moves, "one", 6).await.err().context("13 of the team's 12")?.to_string();
    assert!(told.contains("exceeded cluster quota: 6 bytes asked for, 5 of the team's 12 left"), "{told}");
    proxy.resume_watches();
    let books = format!("team.{}", theirs[0].namespace);
    eventually("the books to follow", || async {
        let entries = ledger(moves, &books).await?.map(|books| books.spec.entries.len());
        Ok((entries == Some(3)).then_some(()))
    })
    .await;
    assert_eq!(given(&[moves]).await?, 10);
    assert!(resize(moves, "one", 6).await.is_err(), "and nothing was promised meanwhile");
    Ok(())
}

#[tokio::test]
async fn what_ends_while_its_namespace_moves_is_free_for_others_as_soon_as_the_books_have_followed() -> Result<()> {
    let (world, proxy) = Box::pin(deaf()).await?;
    let ours = team_of_two_on(&world.bed, "ends", json!({ "size": 20 })).await?;
    let theirs = team_of_two_on(&world.bed, "heirs", json!({ "size": 11 })).await?;
    team_is_known(&ours).await;
    team_is_known(&theirs).await;
    let moves = &ours[1];
    // The one that stays is taken over first: from then on the namespace is known there.
    for name in ["a-stays", "z-goes"] {
        create(moves, name, 5).await?;
        moves.ready(name).await;
    }
    // They have books already.
    create(&theirs[0], "first", 1).await?;
    theirs[0].ready("first").await;
    // Nobody takes anything over for a while: the keeper is held up at its first write.
    let to = format!("team.{}", theirs[0].namespace);
    let held = proxy.on(Match::write().resource("s3quotaledgers").name(&to)).before(Action::Hold).always();
    label(moves, json!({ "snappcloud.io/team": theirs[0].namespace })).await?;
    eventually("the keeper to be at work", || async { Ok((held.fired() > 0).then_some(())) }).await;
    moves.claims().delete("z-goes", &DeleteParams::default()).await?;
    gone(&moves.claims(), "z-goes").await;
    moves.user_is_gone("z-goes").await;
    held.remove();
    held.release();
    eventually("what nobody has to be free", || async { Ok(Some(create(&theirs[1], "heir", 5).await?)) }).await;
    theirs[1].ready("heir").await;
    let entries = ledger(moves, &to).await?.context("books")?.spec.entries;
    assert!(!entries.contains_key(&format!("{}/z-goes", moves.namespace)), "{entries:?}");
    Ok(())
}
