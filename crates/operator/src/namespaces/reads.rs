//! Live reads of what the watches cannot tell: side by side, and within a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use croft_core::{
    namespaces::{
        difference,
        excess::is_locked,
        manifest::Identity,
        resources::{KindName, Observed, Read},
        rights::gives_more,
        witness::{Seal, Witness},
    },
    plan::Failure,
};
use futures::future::join_all;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use tokio::sync::Semaphore;

use super::{described::described, kinds::ServedKind, stamping::whole};
use crate::engine::write::read;

/// Reads of one kind under way at once, of all looks together: each may be as large as the API server takes objects, and a kind
/// that hangs takes no place of others.
const AT_ONCE: usize = 4;

pub(crate) type Reads = Places<KindName>;

/// Places for reads, by group.
#[derive(Debug)]
pub(crate) struct Places<G>(Mutex<BTreeMap<G, Arc<Semaphore>>>);

impl<G> Default for Places<G> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<G: Ord + Clone> Places<G> {
    fn of(&self, group: &G) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(group.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone()
    }
}

/// One object to be read.
struct Doubtful<'k> {
    api_version: String,
    identity: Identity,
    resource: &'k ApiResource,
}

/// Reads what the watches cannot tell, and nobody has read yet. What cannot be read blocks itself only.
pub(crate) async fn read_doubtful(
    client: &Client,
    reads: &Reads,
    seen: &mut Observed,
    kinds: &BTreeMap<KindName, ServedKind>,
    seal: &Seal,
) -> Result<(), Failure> {
    let doubtful = seen.to_read().into_iter().filter(|(_, identity)| !seen.read.contains_key(identity));
    let doubtful = doubtful.filter_map(|(api_version, identity)| {
        let name = (api_version.clone(), identity.kind.clone());
        let kind = kinds.get(&name).filter(|kind| kind.stampable().is_some())?;
        Some((name, Doubtful { api_version, identity, resource: &kind.resource }))
    });
    let observed = &*seen;
    let read = together(reads, doubtful.collect(), |object: Doubtful<'_>| async move {
        let read = read_one(client, observed, &object, seal).await;
        (object, read)
    });
    let read = read.await;
    for (Doubtful { identity, .. }, object) in read {
        match object {
            Ok(object) => drop(seen.read.insert(identity, object)),
            Err(failure)
                if matches!(
                    failure.reason,
                    "ApiServerError" | "Forbidden" | "NotServed" | "TimedOut" | "UnreadableAnswer"
                ) =>
            {
                seen.unreadable.insert(identity, failure.message);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

async fn read_one(
    client: &Client,
    seen: &Observed,
    &Doubtful { ref api_version, ref identity, resource }: &Doubtful<'_>,
    seal: &Seal,
) -> Result<Option<Read>, Failure> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &seen.namespace.name, resource);
    if seen.shown_by(identity).is_some() {
        let object = read(api.get_opt(&identity.name)).await?;
        return Ok(object.map(|object| read_whole(seen, api_version, identity, &object, seal)));
    }
    let object = read(api.get_metadata_opt(&identity.name)).await?;
    Ok(object.map(|object| described(api_version.clone(), &object.metadata, &seen.binding.uid)))
}

/// What an object tells that was read whole.
pub(crate) fn read_whole(
    seen: &Observed,
    api_version: &str,
    identity: &Identity,
    object: &DynamicObject,
    seal: &Seal,
) -> Read {
    let described = described(api_version.to_owned(), &object.metadata, &seen.binding.uid);
    let Some(manifest) = seen.shown_by(identity) else { return described };
    let object = whole(object, api_version, &identity.kind);
    Read {
        witness: Some(Witness::of(&object, manifest, seal, seen.class.care())),
        excess: seen.excess_in(identity, &object),
        is_locked: is_locked(&object, manifest),
        gives_more: identity.gives_rights() && gives_more(&object, manifest),
        changed_field: difference::first(&object, manifest),
        ..described
    }
}

/// Reads things of several groups side by side. Where one does not answer in time those of its group that are not under way yet
/// are not even asked for: a look must come to its end.
async fn together<G, T, R, F>(
    places: &Places<G>,
    things: Vec<(G, T)>,
    read: impl Fn(T) -> F,
) -> Vec<(T, Result<R, Failure>)>
where
    G: Ord + Clone,
    F: Future<Output = (T, Result<R, Failure>)>,
{
    let silent: Mutex<BTreeMap<G, Failure>> = Mutex::default();
    let silent = || silent.lock().unwrap_or_else(PoisonError::into_inner);
    let (silent, read) = (&silent, &read);
    let each = things.into_iter().map(|(group, thing)| async move {
        // Never closed.
        let _place = places.of(&group).acquire_owned().await.ok();
        let known = silent().get(&group).cloned();
        let (thing, result) = match known {
            Some(failure) => (thing, Err(failure)),
            None => read(thing).await,
        };
        if let Err(failure) = &result
            && failure.reason == "TimedOut"
        {
            silent().insert(group, failure.clone());
        }
        (thing, result)
    });
    join_all(each).await
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;
    use crate::engine::failure::timed_out;

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_does_not_answer_holds_a_look_up_once_and_others_not_at_all() {
        let things =
            ["hangs", "answers"].into_iter().flat_map(|kind| (0..40).map(move |number| (kind, (kind, number))));
        let begun = tokio::time::Instant::now();
        let places = Places::default();
        let read = together(&places, things.collect(), |(kind, number)| async move {
            let hangs = kind == "hangs";
            tokio::time::sleep(Duration::from_secs(if hangs { 10 } else { 0 })).await;
            ((kind, number), if hangs { Err(timed_out("it")) } else { Ok(number) })
        });
        let read = read.await;
        assert_eq!(begun.elapsed().as_secs(), 10);
        for ((kind, number), answer) in read {
            assert_eq!(answer.ok(), (kind == "answers").then_some(number));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_look_only_a_few_objects_of_a_kind_are_read_at_once() {
        let (places, under_way, most) = (Places::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let (places, under_way, most) = (&places, &under_way, &most);
        let look = || {
            together(places, (0..10).map(|number| ("kind", number)).collect(), move |number| async move {
                most.fetch_max(under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
                under_way.fetch_sub(1, Ordering::Relaxed);
                (number, Ok(()))
            })
        };
        let read = join_all((0..30).map(|_| look())).await;
        assert_eq!(read.iter().flatten().count(), 300);
        assert_eq!(most.load(Ordering::Relaxed), AT_ONCE);
    }
}
