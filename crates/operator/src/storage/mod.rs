//! Being written.
use crate::{engine::{EngineBuilder, Writer}, rbac::Use, settings::SharedSettings};
pub const USES: &[Use] = &[];
pub fn install(_: &mut EngineBuilder, _: &Writer, _: &SharedSettings) {}
