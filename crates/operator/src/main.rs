//! `croft`: parse, start, and turn every failure into one sentence.

use std::process::ExitCode;

use clap::Parser;
use croft::{
    cli::{Cli, Command},
    manifests, run,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Wrong flags or settings: trying again cannot help.
const BAD_CONFIGURATION: u8 = 2;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(options) => run::run(options),
        Command::Crds => print(&croft_api::crds_yaml()),
        Command::Manifests(options) => print(&manifests::yaml(&options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("croft: {error:#}");
            ExitCode::from(BAD_CONFIGURATION)
        }
    }
}

/// A closed pipe (`croft crds | head`) is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
