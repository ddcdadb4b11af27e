//! Namespaces furnished from a class: `akuity.io/v1alpha1`.

mod binding;
mod class;
mod names;
mod rollout;
pub mod validate;

pub use binding::{
    AppliedResource, AppliedState, FurnishedMetadata, NamespaceClassBinding, NamespaceClassBindingSpec,
    NamespaceClassBindingStatus,
};
pub use class::{
    FailingNamespace, Gate, NamespaceClass, NamespaceClassSpec, NamespaceClassStatus, NamespaceMetadata, OnClassDelete,
    OnConflict, OnDrift, OnImmutable, OnUnbind, Param, ParamType, Policy, StampedKind,
};
pub use names::*;
pub use rollout::{Rollout, RolloutGroup, RolloutPhase, RolloutStatus};
