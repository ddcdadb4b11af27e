//! Ledgers as this replica wrote them last, while nobody works on them: who writes one anew need not read it before.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use croft_api::storage::S3QuotaLedger;
use kube::ResourceExt;

/// More than are busy at the same time.
const MOST: usize = 64;

#[derive(Default)]
pub(super) struct Left(Mutex<HashMap<String, S3QuotaLedger>>);

impl Left {
    /// The ledger, unless by what was `told` somebody else has written it since, or it is gone.
    pub(super) fn take_up(&self, name: &str, told: Option<&S3QuotaLedger>) -> Option<S3QuotaLedger> {
        let told = version(told?);
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name)?;
        (told.is_some() && told <= version(&left)).then_some(left)
    }

    pub(super) fn leave(&self, ledger: S3QuotaLedger) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if left.len() >= MOST {
            left.clear();
        }
        left.insert(ledger.name_any(), ledger);
    }
}

fn version(ledger: &S3QuotaLedger) -> Option<u64> {
    ledger.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use croft_api::storage::S3QuotaLedgerSpec;

    use super::*;

    fn at(name: &str, version: u64) -> S3QuotaLedger {
        let mut ledger = S3QuotaLedger::new(name, S3QuotaLedgerSpec::default());
        ledger.metadata.resource_version = Some(version.to_string());
        ledger
    }

    #[test]
    fn a_ledger_is_taken_up_once_and_only_while_nobody_else_is_known_to_have_written_it() {
        for (told, is_taken_up) in [(Some(9), true), (Some(10), true), (Some(11), false), (None, false)] {
            let left = Left::default();
            left.leave(at("team.a", 10));
            let told = told.map(|version| at("team.a", version));
            assert_eq!(left.take_up("team.a", told.as_ref()).is_some(), is_taken_up, "{told:?}");
            assert!(left.take_up("team.b", told.as_ref()).is_none());
        }
        let left = Left::default();
        left.leave(at("team.a", 10));
        let told = at("team.a", 10);
        assert_eq!([(); 2].map(|()| left.take_up("team.a", Some(&told)).is_some()), [true, false]);
    }

    #[test]
    fn however_many_ledgers_are_written_few_are_remembered() {
        let left = Left::default();
        for number in 0..1000 {
            left.leave(at(&format!("team.{number}"), 10));
        }
        assert!(left.0.lock().unwrap().len() <= MOST);
        assert!(left.take_up("team.999", Some(&at("team.999", 10))).is_some());
    }
}
