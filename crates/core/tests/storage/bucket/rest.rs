//! What must hold for an S3Bucket at rest.

use croft_core::storage::bucket::Deletion;

use super::{InCeph, Limit, Object, OwnerState, Policy, World};

impl World {
    pub(super) fn check_one_that_stays(&self, object: &Object) {
        let is_ready = object.status.conditions.is_true("Ready");
        let is_served = self.owner == OwnerState::Ready && !self.record_is_gone && object.is_valid();
        let is_lost = is_served && self.ceph.is_none();
        let is_shut_out = self.policy == Policy::Unreadable;
        assert_eq!(is_ready, is_served && !is_lost && !is_shut_out && self.ceph != Some(InCeph::Foreign));
        if is_lost {
            assert_eq!(object.status.conditions.reason("Ready"), Some("BucketLost"), "gone, and nobody is told");
        }
        assert!(!is_ready || (self.is_ours() && object.finalizer), "ready, but not there");
        assert!(!is_ready || !(self.kept || self.left), "ready, but not taken back");
        assert!(!is_ready || self.policy == Policy::Granting, "ready, but nobody is let in");
        assert!(!is_ready || (self.quota == Limit::Ours) == object.quota, "the quota is not as asked");
        if is_served {
            assert_eq!(object.status.created, self.is_ours() || is_lost);
        }
    }

    pub(super) fn check_one_that_goes(&self, object: &Object) {
        let is_without_record = self.record_is_gone && self.owner != OwnerState::Nobody;
        let is_misnamed = self.owner == OwnerState::Misnamed && !is_without_record;
        let is_kept = object.seen().deletion == Deletion::Retain;
        let waits_for_record = is_without_record && !self.claim_goes;
        assert!(!is_kept || is_misnamed || waits_for_record, "hangs although nothing is to be removed");
        assert!(!self.terminating, "hangs a namespace");
        let waits = match self.owner {
            OwnerState::Nobody => false,
            _ if is_without_record => (is_kept || object.status.created) && !self.claim_goes,
            OwnerState::Misnamed if is_kept => true,
            OwnerState::NotReady | OwnerState::Misnamed => object.status.created && !self.claim_goes,
            OwnerState::NoClass | OwnerState::Unreachable => true,
            OwnerState::Ready => self.ceph == Some(InCeph::Filled) && !self.unwanted && !self.kept,
        };
        assert!(waits, "hangs for nothing");
    }
}
