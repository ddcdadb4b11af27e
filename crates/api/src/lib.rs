//! The kinds Croft serves, the Velero kinds it drives, and the strings both sides agree on.
//!
//! What holds for every type here:
//! - nothing serialises as `null`, and empty lists and maps are left out, so a value can be sent as it is in a server-side
//!   apply or a status patch;
//! - the doc comment of a field is the description in its CRD;
//! - fields that carry a Velero spec or status are open objects: what we do not know survives a round trip.
//!
//! One module per part; the labels, annotations and finalizers of a part are constants of its module.

// One panic on a stored object would end every replica, one after the other.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]
// `KubeSchema` copies each struct, visibility included, into a function body, where `pub` reaches nobody.
#![allow(unreachable_pub)]
// Printer columns repeat `type_ = "string"` inside one `kube` attribute.
#![allow(clippy::duplicated_attributes)]
// Doc comments are CRD descriptions, which name kinds as people do.
#![allow(clippy::doc_markdown)]

pub mod backup;
mod crds;
pub mod namespaces;
pub mod open;
mod schema;
pub mod storage;
pub mod velero;

pub use crds::{crds, crds_yaml, never_pruned, yaml_document, yaml_stream};
pub use croft_core::problem::Problem;
pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};

/// For `skip_serializing_if`: a switch that is off is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// For `skip_serializing_if`: a counter at zero is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
