//! The chores of this repository: `cargo xtask <chore>`, or `make <chore>`.

mod bench;
mod chart;
mod check;
mod demo;
mod dev;
mod e2e;
mod generate;
mod image;
mod setup;
mod story;
mod terminal;
mod tools;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Chores of the Croft repository", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Build or install what everything else needs: Kubernetes, Velero, Ceph
    Setup,
    /// Start Kubernetes, Ceph, Velero and the operator, until Ctrl-C
    Dev,
    /// Tell the story of one tenant on real Kubernetes, Ceph and Velero
    Demo,
    /// The same on a real node, with real pods and what is in their volumes
    E2e {
        /// What to do; default: everything
        #[arg(value_enum)]
        chapter: Option<e2e::Chapter>,
        /// With the image of the release, or of what tests run: that is sooner built
        #[arg(long, value_enum, default_value_t = tools::Profile::Release)]
        profile: tools::Profile,
    },
    /// The story of `e2e` on every Kubernetes there is a module for
    Matrix,
    /// Measure the operator at rest and under load, into target/bench.json
    Bench {
        /// What to measure; default: everything
        subjects: Vec<bench::Subject>,
    },
    /// Make the operator's image, into target/image/
    Image {
        /// Of the release, or of what tests run: that is sooner built, and larger
        #[arg(long, value_enum, default_value_t = tools::Profile::Release)]
        profile: tools::Profile,
    },
    /// Check the Helm chart: against the manifests, and what it says to wrong values
    Chart,
    /// Write the generated files: deploy/ and docs/
    Generate,
    /// Formatting, lints, whether the generated files are up to date, and the dependencies
    Check,
    /// Formatting, lints, generated files, set-up and all tests
    Test,
}

fn main() -> ExitCode {
    match run(&Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<()> {
    std::env::set_current_dir(tools::root())?;
    match chore {
        Chore::Setup => setup::setup(),
        Chore::Dev => dev::dev(),
        Chore::Demo => demo::demo(),
        Chore::E2e { chapter, profile } => e2e::e2e(*chapter, *profile),
        Chore::Matrix => e2e::matrix::matrix(),
        Chore::Bench { subjects } => bench::bench(subjects),
        Chore::Image { profile } => image::image(*profile),
        Chore::Chart => chart::chart(),
        Chore::Generate => generate::write(),
        Chore::Check => check::check(),
        Chore::Test => check::test(),
    }
}
