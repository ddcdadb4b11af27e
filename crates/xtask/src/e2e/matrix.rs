//! `make matrix`: the story on every Kubernetes there is a module for.

use std::{process::Command, time::Instant};

use anyhow::{Context, Result, ensure};
use croft_testbed::{parts, process};

use crate::terminal::{bold, green, seconds};

pub(crate) fn matrix() -> Result<()> {
    let mut rows = Vec::new();
    for version in parts::versions()? {
        println!("\n{}", bold(&format!("Kubernetes {version}")));
        let clock = Instant::now();
        let mut story = Command::new(std::env::current_exe()?);
        story.args(["e2e", "story"]).env(parts::VERSION, &version);
        let status = process::leash(&story).status().context("starting the story")?;
        rows.push((version, status.success(), clock.elapsed()));
    }
    println!();
    for (version, told, took) in &rows {
        let told = if *told { green("ok") } else { bold("failed") };
        println!("   Kubernetes {version:<6} {told:<6} {:>8}", seconds(*took));
    }
    let failed: Vec<_> = rows.iter().filter(|row| !row.1).map(|row| row.0.as_str()).collect();
    ensure!(failed.is_empty(), "failed on {}: see above", failed.join(", "));
    Ok(())
}
