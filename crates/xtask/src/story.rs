//! How the story is told: a sentence, commands with their real output, a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use croft_testbed::{Identity, wait};
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::terminal::{bold, dim, seconds};

const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Numbers the steps and takes their times.
pub(crate) struct Story {
    begun: Instant,
    step: usize,
    clock: Option<Instant>,
}

impl Story {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), step: 0, clock: None }
    }

    /// Ends the step before.
    pub(crate) fn begin(&mut self, sentence: &str) {
        self.end();
        self.step += 1;
        println!("\n{}", bold(&format!("{}. {sentence}", self.step)));
        self.clock = Some(Instant::now());
    }

    pub(crate) fn end(&mut self) {
        if let Some(clock) = self.clock.take() {
            println!("   {}", dim(&format!("({})", seconds(clock.elapsed()))));
        }
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    pub(crate) fn told_in(&self) -> String {
        seconds(self.begun.elapsed())
    }
}

/// Somebody at a terminal.
pub(crate) struct Actor<'a> {
    pub(crate) name: &'static str,
    pub(crate) identity: &'a Identity,
}

impl Actor<'_> {
    /// Runs `kubectl <line>` and shows both. Single quotes hold words together, as in a shell.
    pub(crate) async fn kubectl(&self, line: &str) -> Result<()> {
        self.told(line).await.map(drop)
    }

    /// [`Actor::kubectl`] for one who wants to know what it said.
    pub(crate) async fn told(&self, line: &str) -> Result<String> {
        let told = self.run(line).await?;
        show_output(&told);
        Ok(told)
    }

    /// Runs what must not be allowed and shows in which words it is refused.
    pub(crate) async fn is_refused(&self, line: &str, words: &str) -> Result<()> {
        match self.run(line).await {
            Ok(_) => bail!("{} may `kubectl {line}` and should not", self.name),
            Err(refusal) => {
                let text = refusal.to_string();
                ensure!(text.contains(words), "{text}");
                let told =
                    text.split_once(&format!(" as {}: ", self.identity.name)).map_or(text.as_str(), |(_, told)| told);
                show_output(told);
                Ok(())
            }
        }
    }

    async fn run(&self, line: &str) -> Result<String> {
        let words = words(line);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        show_command(self.name, &format!("kubectl {line}"));
        self.identity.kubectl(&words).await
    }
}

pub(crate) fn show_command(who: &str, line: &str) {
    println!("   {} {line}", dim(&format!("{who:<5} $")));
}

pub(crate) fn show_output(output: &str) {
    for line in output.lines() {
        println!("     {line}");
    }
}

fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("there is always a word").push(other),
        }
    }
    words
}

/// One object of one namespace that is waited for.
pub(crate) struct Watched<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Watched<'_> {
    /// Waits until the condition `Ready` is true.
    pub(crate) async fn is_ready<K: Kind>(&self) -> Result<()> {
        self.until::<K>("ready", |object| {
            let conditions = object["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
        })
        .await
    }

    /// Waits until the field at `pointer` is `wanted`.
    pub(crate) async fn has<K: Kind>(&self, pointer: &str, wanted: &str) -> Result<()> {
        self.until::<K>(wanted, |object| object.pointer(pointer).and_then(Value::as_str) == Some(wanted)).await
    }

    pub(crate) async fn is_gone<K: Kind>(&self) -> Result<()> {
        let what = format!("{} {} to be gone", K::kind(&()), self.name);
        wait::until(&what, STEP_LIMIT, || async {
            match self.api::<K>().get_opt(self.name).await? {
                None => Ok(Some(())),
                Some(object) => Err(anyhow!("it still has the status {}", status(&object)?)),
            }
        })
        .await
    }

    /// Waits until it exists and `holds`.
    pub(crate) async fn until<K: Kind>(&self, state: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let what = format!("{} {} to be {state}", K::kind(&()), self.name);
        wait::until(&what, STEP_LIMIT, || async {
            let object = self.api::<K>().get_opt(self.name).await?.context("it does not exist")?;
            let value = serde_json::to_value(&object)?;
            ensure!(holds(&value), "its status is {}", value["status"]);
            Ok(Some(()))
        })
        .await
    }

    fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), self.namespace)
    }
}

fn status<K: Serialize>(object: &K) -> Result<Value> {
    Ok(serde_json::to_value(object)?["status"].take())
}

/// A kind of objects that live in namespaces.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned + Serialize
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize
{
}
