//! Backups and restores for tenants, on Velero.
//!
//! A tenant's request lives in its own namespace; what Velero works on lives in Velero's. Each of the three kinds has one
//! file here that decides what happens next: [`location`], [`backup`], [`restore`]. What they promise, from every small
//! world, with a crash after every step (`tests/backup/`):
//! - **Recorded, held, made.** The name of the Velero object goes into the request's status, then the finalizer onto the
//!   request, then the object is made; deletion goes the other way round.
//! - **Proven, then touched.** No Velero object is read into a status, changed or deleted unless its marks say it was made
//!   for exactly this request ([`ownership`]).
//! - **A phase only moves forward**, but for an edit of what was refused, which begins anew; and a request that Velero has had is
//!   never handed to it a second time ([`handover`]).

pub mod approval;
mod availability;
#[expect(clippy::module_inception, reason = "the part and one of its kinds have the same name")]
pub mod backup;
mod copied;
mod counters;
mod credentials;
mod data_protection;
pub mod download;
pub mod duration;
mod enforcement;
pub mod fields;
mod filters;
mod handover;
mod hooks;
mod hosts;
pub mod left_out;
pub mod leftover;
pub mod location;
mod meaning;
pub mod names;
mod own_bucket;
pub mod ownership;
pub mod place;
mod policy;
pub mod queue_position;
pub mod repository;
mod request;
pub mod restorable;
pub mod restore;
pub mod schedule;
mod selectors;
mod standing;
pub mod sync;
pub mod turn;
pub mod validate;
pub mod vault;
mod velero;

pub use counters::{Counts, Transfers};
pub use credentials::AccessKeys;
pub use handover::{Handed, fingerprint, is_decided, is_denied};
pub use hosts::{Hosts, is_outside};
pub use own_bucket::{OwnBucket, Reach};
pub use policy::{Enforced, Limits, OnDelete, Policy};
pub use request::{Object, Phase, Presence, QueueInfo, Reference, Tried, Victim};
pub use standing::{settles_in, stands_for};
pub use velero::{BYPASS_ANNOTATIONS, Fields, MODIFIERS, Progress, Store, VOLUME_TIMEOUT, hook_annotations, modifiers};
