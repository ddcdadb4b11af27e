//! What a review may look at and act with.

use std::{fmt, sync::Arc};

use super::scopes::ClusterScoped;

/// What the parts that run have put at the door, one thing of a type: their caches, their way to write.
#[derive(Clone, Default)]
pub struct Grounds(http::Extensions);

impl Grounds {
    pub(crate) fn put<T: Send + Sync + 'static>(&mut self, ground: Arc<T>) {
        self.0.insert(ground);
    }

    /// What a part has put here; nothing if the part is switched off.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&Arc<T>> {
        self.0.get::<Arc<T>>()
    }
}

impl fmt::Debug for Grounds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Grounds").field(&self.0.len()).finish()
    }
}

/// The same for every review.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) cluster_scoped: ClusterScoped,
    grounds: Grounds,
}

impl Context {
    pub(super) fn new(cluster_scoped: ClusterScoped, grounds: Grounds) -> Self {
        Self { cluster_scoped, grounds }
    }

    /// What a part has put here; nothing if the part is switched off.
    pub(crate) fn ground<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.grounds.get().map(AsRef::as_ref)
    }
}
