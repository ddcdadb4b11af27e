//! Cargo, called from inside cargo, and where it puts things.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use croft_testbed::cache_root;
use serde_json::Value;

/// A program of cargo's that is built once into the cache.
struct Tool {
    name: &'static str,
    version: &'static str,
    /// Measured on two cores, to tell the one who waits.
    usually: &'static str,
}

/// The linter of dependencies.
const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", usually: "6 minutes" };

/// Puts the list of dependencies into the program.
const AUDITABLE: Tool = Tool { name: "cargo-auditable", version: "0.7.7", usually: "1 minute" };

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
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
    let deny = DENY.ensure()?;
    let line = format!("cargo deny {}", arguments.join(" "));
    run(&line, clean(Command::new(deny).args(arguments)))
}

/// Builds the release of the operator that is given away: its dependencies and its commit are inside, no path of this machine is.
pub(crate) fn croft_auditable(commit: &str, date: &str) -> Result<PathBuf> {
    let auditable = AUDITABLE.ensure()?;
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let cargo_home = cargo_home.context("no place of cargo's: set CARGO_HOME")?;
    let elsewhere =
        format!("--remap-path-prefix={}=/cargo --remap-path-prefix={}=/croft", cargo_home.display(), root().display());
    let mut build = Command::new(auditable);
    clean(&mut build);
    build
        .args(["auditable", "build", "--locked", "--package", "croft", "--release"])
        .env("CROFT_COMMIT", commit)
        .env("CROFT_COMMIT_DATE", date)
        .env("RUSTFLAGS", elsewhere)
        .current_dir(root());
    run("cargo auditable build --release", &mut build)?;
    Ok(root().join(target()?).join("release/croft"))
}

/// What cargo knows about all packages on this platform.
pub(crate) fn metadata() -> Result<Value> {
    let mut command = cargo_command();
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.args(["metadata", "--locked", "--format-version=1", "--filter-platform", &platform]);
    let output = command.output().context("cannot start `cargo metadata`")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(serde_json::from_slice(&output.stdout)?)
}

impl Tool {
    fn ensure(&self) -> Result<PathBuf> {
        let Self { name, version, usually } = self;
        let tools = cache_root()?.join(format!("{name}-{version}"));
        let program = tools.join("bin").join(name);
        if !program.exists() {
            eprintln!("setup: building {name} {version}, once (usually {usually} on two cores)");
            let mut install = cargo_command();
            // Away from the checkout, whose configuration is not meant for it.
            install.args(["install", "--locked", "--version", version, name, "--root"]).arg(&tools).current_dir("/");
            run(&format!("cargo install {name}"), &mut install)?;
            ensure!(program.exists(), "cargo install put no {name} into {}", tools.display());
        }
        Ok(program)
    }
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
