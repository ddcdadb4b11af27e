//! Why a ledger was not changed as somebody wanted it.

use croft_core::{
    plan::{Failure, FailureClass},
    storage::{
        Reason,
        ledger::{Exceeded, Full, Regranted},
    },
};

use super::{super::no_longer_there, Owner};

/// Why a change was not made.
#[derive(Clone, Debug)]
pub(in super::super) enum Unbooked {
    Exceeded(Exceeded),
    /// The namespace is booked there by now.
    Elsewhere(Owner),
    Failed(Failure),
}

impl From<Exceeded> for Unbooked {
    fn from(exceeded: Exceeded) -> Self {
        Unbooked::Exceeded(exceeded)
    }
}

impl From<Regranted> for Unbooked {
    fn from(_: Regranted) -> Self {
        Unbooked::Failed(no_longer_there())
    }
}

impl From<Full> for Unbooked {
    fn from(_: Full) -> Self {
        let why = "the books of the team are full; what its namespaces brought along counts where it was booked before";
        Unbooked::Failed(Failure::new(FailureClass::Transient, "BooksFull", why))
    }
}

impl From<Unbooked> for Failure {
    fn from(unbooked: Unbooked) -> Self {
        match unbooked {
            Unbooked::Failed(failure) => failure,
            Unbooked::Elsewhere(_) => busy(),
            Unbooked::Exceeded(exceeded) => {
                Failure::new(FailureClass::Rejected, Reason::QuotaExceeded.as_str(), exceeded.to_string())
            }
        }
    }
}

pub(super) fn busy() -> Failure {
    Failure::new(FailureClass::Transient, "QuotaBusy", "too many others are asking for quota at this moment; try again")
}
