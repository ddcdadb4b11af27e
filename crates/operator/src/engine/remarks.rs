//! What an administrator should know although everything runs: shown with the readiness, and logged when it is new.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::{info, warn};

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Remarks(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Remarks {
    /// What there is to say of something from now on, if anything.
    pub fn set(&self, about: &'static str, said: Option<String>) {
        let mut all = self.lock();
        match said {
            Some(said) if all.get(about) != Some(&said) => {
                warn!(about, "{said}");
                all.insert(about, said);
            }
            None if all.remove(about).is_some() => info!(about, "put right"),
            Some(_) | None => {}
        }
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_stands_until_it_is_put_right() {
        let remarks = Remarks::default();
        for said in ["this", "this", "that"] {
            remarks.set("a", Some(said.into()));
        }
        remarks.set("b", None);
        assert_eq!(remarks.all(), ["that"]);
        remarks.set("a", None);
        assert_eq!(remarks.all(), [""; 0]);
    }
}
