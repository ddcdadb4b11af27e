//! `make check` and `make test`.

use anyhow::Result;

use crate::{
    generate, setup,
    terminal::{dim, timed},
    tools::{cargo, cargo_deny},
};

pub(crate) fn check() -> Result<()> {
    timed("formatting", || cargo(&["fmt", "--all", "--check"]))?;
    timed("lints", || cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    timed("dependencies", check_dependencies)?;
    timed("generated files", generate::check)
}

/// Known vulnerabilities need the advisory database, which a machine without internet cannot fetch: everything else
/// about the dependencies is checked there too.
fn check_dependencies() -> Result<()> {
    cargo_deny(&["--log-level", "error", "--offline", "check", "bans", "licenses", "sources"])?;
    if cargo_deny(&["--log-level", "off", "fetch", "db"]).is_err() {
        println!("{}", dim("   advisories not checked: the database cannot be fetched from here"));
        return Ok(());
    }
    cargo_deny(&["--log-level", "error", "check", "--disable-fetch", "advisories"])
}

pub(crate) fn test() -> Result<()> {
    setup::setup()?;
    check()?;
    timed("tests", || cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]))
}
