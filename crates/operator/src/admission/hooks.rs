//! What is checked, where, under which name: the parts say.

use std::sync::LazyLock;

use super::{review::Answer, scopes::ClusterScoped};
use crate::parts::PARTS;

/// One webhook: its place in the configuration and on the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hook {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) scope: &'static str,
    pub(crate) review: fn(&[u8], &ClusterScoped) -> Answer,
}

/// Those of all parts, enabled or not: whatever is stored can be relied on when a part is switched on.
pub(super) static HOOKS: LazyLock<Vec<Hook>> =
    LazyLock::new(|| PARTS.iter().flat_map(|definition| definition.hooks).copied().collect());
