//! What is checked, where, under which name: the parts say.

use std::sync::LazyLock;

use futures::future::BoxFuture;

use super::{context::Context, review::Answer};
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
    pub(crate) operations: &'static [Operation],
    /// Whether a request that is let in leaves something behind; a dry run never does.
    pub(crate) writes: bool,
    pub(crate) when_down: WhenDown,
    pub(crate) review: Review,
}

pub(crate) type Review = for<'a> fn(Vec<u8>, &'a Context) -> BoxFuture<'a, Answer>;

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// What becomes of a request while no replica answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenDown {
    /// It is refused: nobody is hurt but those who would create or change one of our own kinds.
    Refuse,
    /// It passes: something else protects what matters.
    LetPass,
}

impl WhenDown {
    pub(super) fn failure_policy(self) -> &'static str {
        match self {
            WhenDown::Refuse => "Fail",
            WhenDown::LetPass => "Ignore",
        }
    }
}

/// Those of all parts: whoever is asked by the API server answers. What it asks about is what is installed.
pub(super) static HOOKS: LazyLock<Vec<Hook>> =
    LazyLock::new(|| PARTS.iter().flat_map(|definition| definition.hooks).copied().collect());
