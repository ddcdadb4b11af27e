//! Live reads of what the watches cannot tell: side by side, and within a time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use croft_core::{
    namespaces::{
        manifest::Identity,
        resources::{KindName, Observed, Read},
        witness::{Seal, Witness},
    },
    plan::Failure,
};
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};

use super::{described::described, kinds::ServedKind, stamping::whole};
use crate::engine::write::read;

/// Reads of one look under way at once.
const AT_ONCE: usize = 10;

/// One object to be read.
struct Doubtful<'k> {
    api_version: String,
    identity: Identity,
    resource: &'k ApiResource,
}

/// Reads what the watches cannot tell. What cannot be read blocks itself only.
pub(crate) async fn read_doubtful(
    client: &Client,
    seen: &mut Observed,
    kinds: &BTreeMap<KindName, ServedKind>,
    seal: &Seal,
) -> Result<(), Failure> {
    let doubtful = seen.to_read().into_iter().filter_map(|(api_version, identity)| {
        let name = (api_version.clone(), identity.kind.clone());
        let kind = kinds.get(&name).filter(|kind| kind.stampable().is_some())?;
        Some((name, Doubtful { api_version, identity, resource: &kind.resource }))
    });
    let observed = &*seen;
    let read = together(doubtful.collect(), |object: Doubtful<'_>| async move {
        let read = read_one(client, observed, &object, seal).await;
        (object, read)
    });
    let read = read.await;
    for (Doubtful { identity, .. }, object) in read {
        match object {
            Ok(object) => drop(seen.read.insert(identity, object)),
            Err(failure)
                if matches!(failure.reason, "ApiServerError" | "Forbidden" | "TimedOut" | "UnreadableAnswer") =>
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
    let found = match seen.shown_by(identity) {
        None => read(api.get_metadata_opt(&identity.name)).await?.map(|object| (object.metadata, None)),
        Some(manifest) => read(api.get_opt(&identity.name)).await?.map(|object| {
            let object_whole = whole(&object, api_version, &identity.kind);
            let witness = Witness::of(&object_whole, manifest, seal, seen.class.care());
            (object.metadata, Some(witness))
        }),
    };
    Ok(found
        .map(|(metadata, witness)| Read { witness, ..described(api_version.clone(), &metadata, &seen.binding.uid) }))
}

/// Reads things of several groups side by side. Where one does not answer in time those of its group that are not under way yet
/// are not even asked for: a look must come to its end.
async fn together<G, T, R, F>(things: Vec<(G, T)>, read: impl Fn(T) -> F) -> Vec<(T, Result<R, Failure>)>
where
    G: Ord,
    F: Future<Output = (T, Result<R, Failure>)>,
{
    let silent: Mutex<BTreeMap<G, Failure>> = Mutex::default();
    let silent = || silent.lock().unwrap_or_else(PoisonError::into_inner);
    let (silent, read) = (&silent, &read);
    let each = things.into_iter().map(|(group, thing)| async move {
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
    let each: Vec<_> = each.collect();
    stream::iter(each).buffered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::failure::timed_out;

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_does_not_answer_holds_a_look_up_once_and_others_not_at_all() {
        let things =
            ["hangs", "answers"].into_iter().flat_map(|kind| (0..40).map(move |number| (kind, (kind, number))));
        let begun = tokio::time::Instant::now();
        let read = together(things.collect(), |(kind, number)| async move {
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
}
