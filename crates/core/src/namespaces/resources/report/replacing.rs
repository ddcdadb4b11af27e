//! What is noted about an object that there is under a name and is not the class's: who comes after it is not judged by it.

use crate::namespaces::{
    excess::Extent,
    inventory::{Applied, State},
    manifest::Rendered,
    resources::Observed,
};

/// What there is under the name of an item has just been refused as it is to be. What was noted of another one before is over.
pub(super) fn met(seen: &Observed, item: &Rendered, applied: Applied) -> Applied {
    match foreign(seen, item) {
        Some(uid) if !applied.is_about(uid) => {
            Applied { replacing: Some(uid.to_owned()), message: None, digest: None, ..applied }
        }
        _ => applied,
    }
}

/// Deleted to be made anew: as long as somebody holds it (then it was answered with its UID), it is known which one it is, and whether
/// it ever was the class's.
pub(super) fn pruned(seen: &Observed, item: &Rendered, applied: Applied, uid: Option<String>) -> Applied {
    let replacing = uid.clone().filter(|uid| foreign(seen, item) == Some(uid));
    Applied { uid, replacing, digest: None, state: State::Pending, message: None, ..applied }
}

/// What there is under the name of an item, where we do not know who has made it.
fn foreign<'s>(seen: &'s Observed, item: &Rendered) -> Option<&'s String> {
    let is_whole = seen.extent_of(&item.identity) == Some(Extent::Whole);
    let stamped = seen.stamped.get(&item.identity).map(|object| &object.uid);
    let read = || Some(&seen.read.get(&item.identity)?.as_ref()?.uid);
    stamped.or_else(read).filter(|_| is_whole)
}
