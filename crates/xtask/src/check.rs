//! `make check` and `make test`.

use std::thread::available_parallelism;

use anyhow::Result;

use crate::{
    generate, setup,
    terminal::{dim, timed},
    tools::{cargo, cargo_deny},
};

pub(crate) fn check() -> Result<()> {
    check_code()?;
    timed("dependencies", check_dependencies)
}

/// What needs no tool beyond the toolchain.
fn check_code() -> Result<()> {
    timed("formatting", || cargo(&["fmt", "--all", "--check"]))?;
    timed("lints", || cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    timed("generated files", generate::check)
}

/// Known vulnerabilities need the advisory database, which a machine without internet cannot fetch: everything else
/// about the dependencies is checked there too, once their sources have been fetched. That includes those for other
/// platforms, which nothing that was built here has needed.
fn check_dependencies() -> Result<()> {
    cargo(&["fetch", "--locked"])?;
    cargo_deny(&["--log-level", "error", "--offline", "check", "bans", "licenses", "sources"])?;
    if cargo_deny(&["--log-level", "off", "fetch", "db"]).is_err() {
        println!("{}", dim("   advisories not checked: the database cannot be fetched from here"));
        return Ok(());
    }
    cargo_deny(&["--log-level", "error", "check", "--disable-fetch", "advisories"])
}

pub(crate) fn test() -> Result<()> {
    // What takes a minute first: the parts may take a quarter of an hour.
    check_code()?;
    setup::setup()?;
    let threads = format!("--test-threads={}", threads(available_parallelism()?.get()));
    timed("tests", || cargo(&["test", "--locked", "--workspace", "--no-fail-fast", "--", &threads]))
}

/// Most tests wait for a server half of the time.
fn threads(processors: usize) -> usize {
    2 * processors
}
