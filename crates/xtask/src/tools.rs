//! Cargo, called from inside cargo, and where it puts things.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use croft_testbed::cache_root;

/// The linter of dependencies, built once into the cache.
const DENY_VERSION: &str = "0.20.2";

/// The top of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this crate is in crates/xtask")
}

/// Cargo's target directory: this program is in `<target>/<profile>/`.
pub(crate) fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().context("finding the target directory")?;
    let target = program.ancestors().nth(2).context("finding the target directory")?;
    Ok(target.strip_prefix(root()).unwrap_or(target).to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// Builds the operator and tells where it is.
pub(crate) fn croft(profile: Profile) -> Result<PathBuf> {
    let mut arguments = vec!["build", "--locked", "--package", "croft"];
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Release => {
            arguments.push("--release");
            "release"
        }
    };
    cargo(&arguments)?;
    Ok(root().join(target()?).join(folder).join("croft"))
}

/// Runs cargo in the checkout; what it prints goes to the terminal.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let line = format!("cargo {}", arguments.join(" "));
    run(&line, cargo_command().args(arguments))
}

/// Checks the dependencies; builds the checker first where it is missing.
pub(crate) fn cargo_deny(arguments: &[&str]) -> Result<()> {
    let deny = ensure_deny()?;
    let line = format!("cargo deny {}", arguments.join(" "));
    run(&line, clean(Command::new(deny).args(arguments)))
}

fn ensure_deny() -> Result<PathBuf> {
    let tools = cache_root()?.join(format!("cargo-deny-{DENY_VERSION}"));
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        eprintln!("setup: building cargo-deny {DENY_VERSION}, once (usually 6 minutes on two cores)");
        let mut install = cargo_command();
        // Away from the checkout, whose configuration is not meant for it.
        install
            .args(["install", "--locked", "--version", DENY_VERSION, "cargo-deny", "--root"])
            .arg(&tools)
            .current_dir("/");
        run("cargo install cargo-deny", &mut install)?;
        ensure!(program.exists(), "cargo install put no cargo-deny into {}", tools.display());
    }
    Ok(program)
}

fn cargo_command() -> Command {
    let mut command = Command::new("cargo");
    clean(&mut command);
    command.current_dir(root());
    command
}

/// Without what the outer `cargo run` tells about this package: build scripts would take it for a change and run again.
fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") || told == "CARGO" {
            command.env_remove(&name);
        }
    }
    command
}

fn run(line: &str, command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: see above");
    }
    Ok(())
}
