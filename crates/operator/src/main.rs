//! `croft`: parse, start, and turn every failure into one sentence.

use std::process::ExitCode;

use clap::Parser;
use croft::{
    cli::{Cli, Command},
    manifests, preview, run, steering, uninstall, version,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Wrong flags or settings: trying again cannot help.
const BAD_CONFIGURATION: u8 = 2;

fn main() -> ExitCode {
    match command() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("croft: {error:#}");
            ExitCode::from(BAD_CONFIGURATION)
        }
    }
}

fn command() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(options) => run::run(options)?,
        Command::Crds => print(&croft_api::crds_yaml())?,
        Command::Manifests(options) => print(&manifests::yaml(&options.installation()?))?,
        Command::Values(options) => print(&options.text())?,
        Command::Version => print(&version::text())?,
        Command::Uninstall(options) => return answer(&uninstall::uninstall(&options)?),
        Command::Plan(options) => return answer(&preview::plan(&options)?),
        Command::Explain(options) => return answer(&preview::explain(&options)?),
        Command::Rollback(options) => return answer(&steering::rollback(&options)?),
        Command::Pause(options) => return answer(&steering::pause(&options, true)?),
        Command::Resume(options) => return answer(&steering::pause(&options, false)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// A preview is for scripts too: its code says what it found.
fn answer(answer: &preview::Answer) -> anyhow::Result<ExitCode> {
    print(&answer.text)?;
    Ok(ExitCode::from(answer.code))
}

/// A closed pipe (`croft crds | head`) is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
