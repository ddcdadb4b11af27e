//! `croft plan` of a class in many namespaces: somebody waits for it.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use croft_api::namespaces::CLASS_LABEL;
use serde_json::Value;
use tokio::process::Command;

use super::{
    cluster::{Cluster, ITEMS, class_with},
    figures::{Bar, Figure},
    laps::{BEFORE, LIMIT},
    machine::quiet,
    namespaces::{count, names},
    witness::{Space, Witness},
};
use crate::tools::target;

const CLASS: &str = "planned";
const MAX_SECONDS: f64 = 15.0;

/// Every object of the class would change in every namespace.
pub(super) async fn measure(program: &Path) -> Result<Vec<Figure>> {
    let names = names(CLASS, count()?);
    println!("starting Kubernetes and Croft, furnishing {} namespaces ...", names.len());
    let cluster = Cluster::start(program).await?;
    cluster.make_namespaces(&names).await?;
    let operator = cluster.start_operator("croft-0").await?;
    let witness = Witness::start(&cluster.admin).await?;
    let generation = cluster.apply_class(CLASS, BEFORE).await?;
    cluster.label(&names, CLASS_LABEL, Some(CLASS)).await?;
    witness.until(&names, LIMIT, |space| space.is_furnished(generation), Space::last_change).await?;
    // What is told is how long a plan takes, not how long one waits for the operator.
    drop((witness, operator));
    quiet().await;

    let file = target()?.join("planned-class.json");
    std::fs::write(&file, class_with(CLASS, "other").to_string())?;
    let begun = Instant::now();
    let plan = Command::new(program)
        .arg("plan")
        .arg(&file)
        .args(["--output", "json", "--kubeconfig"])
        .arg(&cluster.bed.admin().kubeconfig)
        .output()
        .await?;
    let took = begun.elapsed().as_secs_f64();
    let told = String::from_utf8_lossy(&plan.stderr);
    let sum: Value = serde_json::from_slice(&plan.stdout).with_context(|| format!("croft plan said: {told}"))?;
    let changes = sum["sum"]["change"].as_u64().and_then(|changes| usize::try_from(changes).ok());
    ensure!(changes == Some(names.len() * ITEMS), "{} changes were planned: {told}", sum["sum"]);
    let note =
        format!("{} namespaces, {ITEMS} changes each; told on the way {} times", names.len(), told.lines().count());
    Ok(vec![Figure::new("plan_seconds", took, "s").bar(Bar::AtMost(MAX_SECONDS)).note(note)])
}
