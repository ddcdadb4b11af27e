//! What a user has in its buckets, as far as the gateway can tell in reasonable time.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::storage::{
    Usage,
    claim::{COUNTED_AT_ONCE, SetAside, UNCOUNTED, to_count},
};
use croft_rgw::{Bucket, ErrorClass, RgwError, UserId};

use super::{ceph::Ceph, not_empty::NotEmpty};

/// A gateway that cannot tell of more buckets than this is not asked for others: each may take its time.
const MOST_FAILURES: usize = 2;

impl Ceph {
    /// What is in a user's buckets, so many; nothing if it could not be told. Of very many, or of one it cannot look into, the gateway
    /// tells only the sum.
    pub(super) async fn usage(&self, id: &UserId, so_many: usize) -> Option<Usage> {
        let told = self.gateway.buckets_with_usage_of(id).await;
        if let Some(buckets) = told.ok().filter(|told| told.len() >= so_many) {
            return Some(stored(&buckets));
        }
        let sum = self.gateway.usage_of(id).await.ok().flatten()?;
        Some(Usage { size: sum.size, objects: sum.objects, buckets: None })
    }

    /// What is in a user's buckets. A gateway leaves out without a word what it cannot look into; of more than it can look into in
    /// time it tells the sum.
    pub(super) async fn told_usage(&self, id: &UserId, exactly: bool) -> Option<Usage> {
        let told = self.gateway.buckets_with_usage_of(id).await;
        if !exactly {
            return told.ok().map(|told| stored(&told));
        }
        let names: BTreeSet<_> = self.gateway.buckets_of(id).await.ok()?.into_iter().collect();
        if let Ok(told) = told {
            let left_out = left_out(&names, &told);
            let is_whole = self.gone_among(id, left_out.iter().copied()).await.len() == left_out.len();
            return is_whole.then(|| stored(&told));
        }
        let sum = self.gateway.usage_of(id).await.ok().flatten()?;
        Some(Usage { size: sum.size, objects: sum.objects, buckets: u64::try_from(names.len()).ok() })
    }

    /// Those of a user's list that are not there any more: a gateway that died in the middle may leave such a list. What nobody can
    /// tell of is there.
    async fn gone_among(&self, id: &UserId, names: impl Iterator<Item = &String> + Send) -> BTreeSet<String> {
        let (mut gone, mut failures) = (BTreeSet::new(), 0);
        for name in names.take(COUNTED_AT_ONCE) {
            match self.gateway.bucket(id.tenant(), name).await {
                Ok(None) => drop(gone.insert(name.clone())),
                Ok(Some(_)) => {}
                Err(_) => failures += 1,
            }
            if failures > MOST_FAILURES {
                break;
            }
        }
        if !gone.is_empty() {
            // Somebody may just have removed them, list and all.
            let listed = self.gateway.buckets_of(id).await.unwrap_or_default();
            gone.retain(|name| listed.contains(name));
        }
        gone
    }

    /// The buckets of a user and how many objects each holds, as far as that can be told in reasonable time.
    pub(super) async fn buckets(&self, id: &UserId, set_aside: &SetAside) -> Result<Listed, RgwError> {
        let names: BTreeSet<_> = self.gateway.buckets_of(id).await?.into_iter().collect();
        // Whatever is not told of one that is there, it is there, and may hold something.
        let mut listed =
            Listed { buckets: names.iter().map(|name| (name.clone(), UNCOUNTED)).collect(), ..Listed::default() };
        if names.len() <= COUNTED_AT_ONCE {
            match self.gateway.buckets_with_usage_of(id).await {
                Ok(buckets) => {
                    listed.gone_buckets = self.gone_among(id, left_out(&names, &buckets).into_iter()).await;
                    let is_whole = buckets.len() == names.len() && buckets.iter().all(|bucket| bucket.owner == *id);
                    listed.usage = is_whole.then(|| stored(&buckets));
                    for bucket in buckets {
                        listed.add(bucket, id, &self.not_empty);
                    }
                    return Ok(listed);
                }
                // A slow gateway cannot tell of all of them in time: it is asked for a few.
                Err(error) if error.class() == ErrorClass::Transient => {}
                Err(error) => return Err(error),
            }
        }
        let mut absent = Vec::new();
        for name in to_count(&names, set_aside) {
            match self.gateway.bucket(id.tenant(), name).await? {
                Some(bucket) => listed.add(bucket, id, &self.not_empty),
                None => absent.push(name),
            }
        }
        listed.gone_buckets = self.gone_among(id, absent.into_iter()).await;
        Ok(listed)
    }
}

/// What is on a user's list of buckets.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) buckets: BTreeMap<String, u64>,
    pub(super) others_buckets: BTreeSet<String>,
    pub(super) gone_buckets: BTreeSet<String>,
    /// What is in all of them, where that was told and they are its own.
    pub(super) usage: Option<Usage>,
}

/// What a gateway does not tell of although it is on the list.
fn left_out<'n>(names: &'n BTreeSet<String>, told: &[Bucket]) -> Vec<&'n String> {
    let told: BTreeSet<_> = told.iter().map(|bucket| &bucket.name).collect();
    names.iter().filter(|name| !told.contains(name)).collect()
}

impl Listed {
    fn add(&mut self, bucket: Bucket, of: &UserId, not_empty: &NotEmpty) {
        if bucket.owner != *of {
            self.others_buckets.insert(bucket.name.clone());
        }
        let objects = not_empty.counted(of.tenant(), &bucket.name, bucket.objects);
        self.buckets.insert(bucket.name, objects);
    }
}

pub(super) fn stored(buckets: &[Bucket]) -> Usage {
    let sum = |figure: fn(&Bucket) -> u64| buckets.iter().map(figure).fold(0, u64::saturating_add);
    Usage {
        size: sum(|bucket| bucket.size),
        objects: sum(|bucket| bucket.objects),
        buckets: u64::try_from(buckets.len()).ok(),
    }
}
