//! What the reviews of this part look at: whether a claim's quota is there, and reserving it.

use std::sync::Arc;

use croft_api::{
    Problem,
    storage::{S3UserClaim, validate},
};
use croft_core::storage::{
    claim::{class_of, wanted},
    ledger::{Reservation, Units, entry_key},
    record_name,
};

use super::{
    Caches, claim,
    ledgers::{Ledgers, Unbooked},
    user,
};
use crate::{
    admission::{Context, Refusal, Request},
    engine::is_deleting,
};

#[derive(Debug)]
pub(super) struct Door {
    pub(super) caches: Caches,
    pub(super) ledgers: Ledgers,
}

/// Reserves what a claim asks for, unless none of it grows. A claim on its way out asks for nothing.
pub(super) async fn reserve(request: &Request<S3UserClaim>, context: &Context) -> Result<(), Refusal> {
    let (Some(door), Some(claim)) = (context.ground::<Door>(), &request.object) else { return Ok(()) };
    if is_deleting(&claim.metadata) {
        return Ok(());
    }
    let Some(units) = door.units(request, claim) else { return Ok(()) };
    let had = request.old.as_ref().and_then(|old| door.units(request, old));
    if had.is_some_and(|had| units.is_within(had)) {
        return Ok(());
    }
    let (key, dry_run) = (entry_key(&request.namespace, &request.name), request.dry_run);
    let at = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
    let reservation = Reservation { units, at, request: request.uid.clone() };
    let booked = door.ledgers.change(
        &request.namespace,
        Arc::new(move |ledger, limits| {
            if dry_run { ledger.fits(&key, units, limits) } else { ledger.reserve(&key, reservation.clone(), limits) }
        }),
    );
    match booked.await {
        Ok(_) => Ok(()),
        Err(Unbooked::Exceeded(exceeded)) => {
            Err(Refusal::Invalid(vec![Problem::new("spec.quota", exceeded.to_string())]))
        }
        Err(Unbooked::Failed(failure)) => {
            Err(Refusal::Unchecked(format!("the quota could not be checked: {}; try again", failure.message)))
        }
    }
}

impl Door {
    /// What the claim asks for; nothing that is invalid asks.
    fn units(&self, request: &Request<S3UserClaim>, object: &S3UserClaim) -> Option<Units> {
        let seen = claim::claim_seen(object);
        let spec = validate::claim(object).ok()?;
        let record = self.caches.users.get("", &record_name(&request.namespace, &request.name));
        let record = record.as_deref().map(user::record).filter(|record| record.is_of(&seen));
        let default = self.caches.gateways.default_quota(class_of(Some(&seen), record.as_ref()));
        Some(Units::from(&wanted(&spec.quota, record.as_ref(), &default)))
    }
}
