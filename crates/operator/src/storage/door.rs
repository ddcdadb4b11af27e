//! What the reviews of this part look at: whether a claim's quota is there, and reserving it.

use std::sync::Arc;

use croft_api::{Problem, storage::S3UserClaim};
use croft_core::storage::ledger::{Reservation, entry_key};

use super::{
    Caches,
    ledgers::{Ledgers, Unbooked, now},
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
    let asks = |claim: &S3UserClaim| door.caches.asks(&request.namespace, &request.name, claim);
    let Some(units) = asks(claim) else { return Ok(()) };
    let had = request.old.as_ref().and_then(asks);
    if had.is_some_and(|had| units.is_within(had)) {
        return Ok(());
    }
    let (key, dry_run) = (entry_key(&request.namespace, &request.name), request.dry_run);
    let reservation = Reservation { units, at: now(), request: request.uid.clone() };
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
