//! `make setup`: everything that is built or installed once.

use anyhow::Result;
use croft_testbed::{Testbed, parts::Parts};

use crate::terminal::timed;

pub(crate) fn setup() -> Result<()> {
    timed("Kubernetes, Velero and Ceph are here", ensure)
}

/// Silent and quick where everything is there already.
pub(crate) fn ensure() -> Result<()> {
    Parts::ensure(&Testbed::kubernetes().with_velero()).map(drop)
}
