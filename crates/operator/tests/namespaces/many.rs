//! What a class costs the API server does not grow with the number of its namespaces.

use std::time::Instant;

use anyhow::Result;

use crate::{
    scene::{Class, Proxied, Space, proxied},
    support::eventually,
};

const SPACES: usize = 30;

/// A class, and namespaces that have it.
async fn bound_to_many(proxied: &Proxied, name: &str) -> Result<(Class, Vec<Space>)> {
    let class = Class::define(proxied.client(), name, &[("made", "1")]).await?;
    let mut spaces = Vec::new();
    for number in 0..SPACES {
        spaces.push(Space::of(&proxied.bed, &format!("{name}-{number}"), name).await?);
    }
    is_rolled_out(&class).await;
    Ok((class, spaces))
}

async fn is_rolled_out(class: &Class) {
    let all = i64::try_from(SPACES).ok();
    let generation = class.api.get(&class.name).await.ok().and_then(|class| class.metadata.generation);
    class
        .status("all its namespaces counted", |status| {
            status.observed_generation == generation && status.ready_namespaces == all
        })
        .await;
}

/// How often this was asked for about the class itself since the log was `mark` long.
fn asked(proxied: &Proxied, mark: usize, verb: &str, class: &Class) -> usize {
    let log = proxied.proxy.log();
    let about = log.iter().skip(mark).map(|seen| &seen.request).filter(|request| {
        request.resource == "akuity.io/namespaceclasses"
            && request.name.as_deref() == Some(&class.name)
            && request.verb == verb
    });
    about.count()
}

/// Once at once, once at the end, and once a second in between, the first of which may have begun before.
fn now_and_then(since: Instant) -> usize {
    3 + usize::try_from(since.elapsed().as_secs()).unwrap_or(usize::MAX)
}

#[tokio::test]
async fn a_class_counts_a_roll_out_now_and_then() -> Result<()> {
    let proxied = proxied().await;
    let (class, _spaces) = bound_to_many(proxied, "many-counted").await?;
    let (mark, clock) = (proxied.proxy.log().len(), Instant::now());
    class.set(&[("made", "2")]).await?;
    is_rolled_out(&class).await;
    let written = asked(proxied, mark, "update", &class);
    assert!((1..=now_and_then(clock)).contains(&written), "{written} times in {:?}", clock.elapsed());
    Ok(())
}

#[tokio::test]
async fn one_look_tells_all_namespaces_that_their_class_is_gone() -> Result<()> {
    let proxied = proxied().await;
    let (class, spaces) = bound_to_many(proxied, "many-gone").await?;
    let (mark, clock) = (proxied.proxy.log().len(), Instant::now());
    class.delete().await?;
    for space in &spaces {
        space.is_unbound().await;
        eventually("the namespace to be empty", || async { Ok(space.names().await?.is_empty().then_some(())) }).await;
    }
    let looks = asked(proxied, mark, "get", &class);
    assert!((1..=now_and_then(clock)).contains(&looks), "{looks} looks in {:?}", clock.elapsed());
    Ok(())
}
