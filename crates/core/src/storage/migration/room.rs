//! Whether a claim has room for what comes to it. Nobody but us would mind: the gateway does not ask when it links.

use super::{
    super::{Reason, Usage},
    Decision, Reached,
    observed::Observed,
};

/// Whether the target has room for those that were looked at.
pub(super) enum Room {
    Enough,
    Lacking(String),
    /// What the target has stored was not told, and it may have no more than so much.
    Unknown,
}

pub(super) fn room(seen: &Observed, reached: &Reached) -> Room {
    let Some(target) = &reached.target else { return Room::Unknown };
    let has = target.usage.unwrap_or_default();
    let coming = || reached.buckets.iter().filter_map(|found| found.in_current.as_ref()).map(|bucket| bucket.stored);
    let sum = |figure: fn(Usage) -> u64| coming().map(figure).fold(figure(has), u64::saturating_add);
    let quota = Some(target.quota).filter(|quota| quota.enabled);
    let (size, objects) = (quota.and_then(|quota| quota.size), quota.and_then(|quota| quota.objects));
    let buckets = u64::try_from(target.buckets.len() + reached.buckets.len()).unwrap_or(u64::MAX);
    let figures = [
        ("buckets", buckets, target.max_buckets.map(u64::from)),
        ("size", sum(|usage| usage.size), size),
        ("objects", sum(|usage| usage.objects), objects),
    ];
    let exceeded = figures
        .into_iter()
        .find_map(|(member, needed, limit)| Some((member, needed, limit.filter(|limit| needed > *limit)?)));
    match exceeded {
        Some((member, needed, limit)) => Room::Lacking(format!(
            "S3UserClaim {} may have {limit} {member} and would have {needed}; raise its spec.quota.{member} first",
            seen.migration.spec.target
        )),
        None if target.usage.is_none() && (size.is_some() || objects.is_some()) => Room::Unknown,
        None => Room::Enough,
    }
}

/// Nothing is moved on a guess.
pub(super) fn is_asked_again(seen: &Observed) -> Decision {
    let target = &seen.migration.spec.target;
    let message = format!("the gateway does not say what S3UserClaim {target} has stored; it is asked again");
    Decision::wait_for_ceph(Reason::Migrating.progressing(message))
}
