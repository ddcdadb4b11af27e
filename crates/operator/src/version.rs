//! Which build this is.

/// The release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built of; empty where nobody could tell.
pub const COMMIT: &str = env!("CROFT_COMMIT");

/// When that commit was made.
const COMMIT_DATE: &str = env!("CROFT_COMMIT_DATE");

/// What `croft version` prints.
pub fn text() -> String {
    format!("croft {VERSION}\ncommit {}\ncommitted {}\n", known(COMMIT), known(COMMIT_DATE))
}

fn known(text: &'static str) -> &'static str {
    if text.is_empty() { "unknown" } else { text }
}
