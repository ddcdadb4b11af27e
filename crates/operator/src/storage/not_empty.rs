//! Buckets that a gateway counts as empty and would not remove as such: its count is wrong, and they are taken to hold something from
//! then on. Nothing more than a call is lost where that is forgotten.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// More than are removed at the same time.
const MOST: usize = 1000;

/// By tenant and name.
#[derive(Clone, Debug, Default)]
pub(super) struct NotEmpty(Arc<Mutex<HashSet<(String, String)>>>);

impl NotEmpty {
    /// The gateway refused to remove the bucket.
    pub(super) fn note(&self, tenant: &str, bucket: &str) {
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((tenant.to_owned(), bucket.to_owned()));
    }

    /// The bucket is gone.
    pub(super) fn forget(&self, tenant: &str, bucket: &str) {
        self.known().remove(&(tenant.to_owned(), bucket.to_owned()));
    }

    /// How many objects there are at least, where the gateway counts so many.
    pub(super) fn counted(&self, tenant: &str, bucket: &str, objects: u64) -> u64 {
        let is_known = objects == 0 && self.known().contains(&(tenant.to_owned(), bucket.to_owned()));
        if is_known { 1 } else { objects }
    }

    fn known(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_would_not_go_is_not_taken_for_empty_until_it_is_gone() {
        let known = NotEmpty::default();
        assert_eq!(known.counted("lab_a", "photos", 0), 0);
        known.clone().note("lab_a", "photos");
        assert_eq!([0, 7].map(|objects| known.counted("lab_a", "photos", objects)), [1, 7]);
        assert_eq!(known.counted("lab_b", "photos", 0), 0);
        known.forget("lab_a", "photos");
        assert_eq!(known.counted("lab_a", "photos", 0), 0);
    }

    #[test]
    fn however_many_would_not_go_few_are_remembered() {
        let known = NotEmpty::default();
        for number in 0..5000 {
            known.note("lab_a", &format!("b{number}"));
        }
        assert!(known.known().len() <= MOST);
    }
}
