//! Many claims on one gateway: against bare calls that leave the same users and objects behind, and by themselves.
//!
//! Both sides go through the same proxy, which counts what the gateway is asked.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use croft_api::storage::{
    LedgerAmount, LedgerEntry, S3Class, S3QuotaLedgerSpec, S3UserClaim, S3UserClaimStatus, books,
};
use croft_core::storage::ledger::{Form, Limits, MOST_IN_BOOKS, Reservation, Units};
use croft_rgw::{BucketLimit, Credentials, Endpoint, Gateway, NewUser, UserId};
use croft_testbed::{
    Installed, Operator, Testbed,
    fault::{FaultProxy, Request},
    wait,
};
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    as_f64,
    calls::Calls,
    claims::Floor,
    cluster::{client, in_flight},
    figures::{Bar, Figure},
    machine::{Load, quiet},
    namespaces::names,
    pairs::{Lap, Pair, Side, order, used},
    single::percentile,
};

const CLAIMS: usize = 1000;
const PAIRS: usize = 10;
/// Where the claims of the laps are, a block in each; the door's and the outage's have their own.
const BLOCKS: &str = "claims";
const DOORS: [&str; 2] = ["with", "without"];
const LATE: &str = "late";
const CLASS: &str = "bench";
const WRITERS: usize = 50;
/// How often they write, all at once: seldom enough for the machine, or the wait for a processor would be all that is measured.
const WRITES_EVERY: Duration = Duration::from_secs(2);
const WRITES: usize = 500;
const ENTRIES: usize = MOST_IN_BOOKS - 1;
const LIMIT: Duration = Duration::from_secs(300);
const READY_LIMIT: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_secs(10);
/// Longer than anybody backs off meanwhile: a class that is down is asked every five seconds however long it lasts, and who needs it
/// waits for its word. What comes after ten minutes is what comes after one.
const OUTAGE: Duration = Duration::from_secs(60);

const MIN_RATIO: f64 = 0.80;
const MAX_CALLS: f64 = 4.0;
const MAX_ADMISSION_MS: f64 = 15.0;
const MAX_LEDGER_MS: f64 = 5.0;
const MAX_RECOVERY_SECONDS: f64 = 30.0;

/// Dropped in this order: what uses before what is used.
struct Course {
    gateway: Gateway,
    proxy: FaultProxy,
    client: Client,
    installed: Installed,
    bed: Testbed,
}

pub(super) async fn measure(program: &Path) -> Result<Vec<Figure>> {
    println!("starting Kubernetes, Ceph and Croft, for {CLAIMS} claims ...");
    let course = Course::start(program).await?;
    let operator = course.start_operator("croft-0").await?;
    course.class().await?;
    let mut figures = course.against_bare_calls(&operator).await?;
    let operator = course.restart(operator, &mut figures).await?;
    figures.push(course.admission(&operator).await?);
    figures.push(course.recovery().await?);
    figures.push(ledger()?);
    drop(operator);
    Ok(figures)
}

impl Course {
    async fn start(program: &Path) -> Result<Self> {
        let bed = Testbed::kubernetes().with_ceph().start().await?;
        let installed = Installed::new(&bed, program).await?;
        let ceph = bed.ceph();
        let proxy = FaultProxy::rgw(&ceph.endpoint).await?;
        let endpoint = Endpoint { url: proxy.endpoint().to_owned(), region: ceph.region.clone(), ca_pem: None };
        let gateway = Gateway::new(endpoint, Credentials::new(&ceph.access_key, ceph.secret_key.as_str()))?;
        let client = client(bed.admin().config())?;
        let spaces = names(BLOCKS, PAIRS).into_iter().chain(DOORS.map(String::from)).chain([LATE.to_owned()]);
        for name in spaces {
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        }
        Ok(Self { gateway, proxy, client, installed, bed })
    }

    async fn start_operator(&self, name: &str) -> Result<Operator> {
        let operator = self.installed.start(&self.bed, name, &self.installed.identity.kubeconfig, &[])?;
        operator.ready(READY_LIMIT).await?;
        Ok(operator)
    }

    /// Like the class `default`, by way of the proxy.
    async fn class(&self) -> Result<()> {
        let classes: Api<S3Class> = Api::all(self.client.clone());
        let mut class = classes.get("default").await?;
        class.metadata = ObjectMeta { name: Some(CLASS.into()), ..ObjectMeta::default() };
        class.spec.default = false;
        self.proxy.endpoint().clone_into(&mut class.spec.endpoint);
        class.status = None;
        wait::until("the class to be accepted", READY_LIMIT, || async {
            Ok(Some(classes.create(&PostParams::default(), &class).await?))
        })
        .await?;
        wait::until("the class to be ready", READY_LIMIT, || async {
            let conditions = classes.get(CLASS).await?.status.unwrap_or_default().conditions;
            Ok(conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True").then_some(()))
        })
        .await
    }

    fn claims(&self, namespace: &str) -> Api<S3UserClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The operator and bare calls in turns, block by block.
    async fn against_bare_calls(&self, croft: &Operator) -> Result<Vec<Figure>> {
        let block = names("claim", CLAIMS / PAIRS);
        let floor = self.floor().await?;
        let (mut pairs, mut asked) = (Vec::new(), 0);
        let before = Calls::of(croft).await?;
        for (index, namespace) in names(BLOCKS, PAIRS).iter().enumerate() {
            let (mut generator, mut operator) = (None, None);
            for side in order(index) {
                quiet().await;
                self.proxy.clear_log();
                let (load, clock) = (Load::start(), Instant::now());
                match side {
                    Side::Generator => {
                        let (floor, namespace) = (floor.clone(), namespace.clone());
                        let work = move |name: String| {
                            let (floor, namespace) = (floor.clone(), namespace.clone());
                            async move { floor.claim(&namespace, &name).await }
                        };
                        in_flight(&block, work).await?;
                    }
                    Side::Operator => self.make(namespace, &block).await?,
                }
                let lap = Lap { took: clock.elapsed(), conditions: load.since() };
                match side {
                    Side::Generator => generator = Some(lap),
                    Side::Operator => {
                        quiet().await;
                        asked += self.proxy.log().iter().filter(|seen| !is_a_look_at_the_class(&seen.request)).count();
                        operator = Some(lap);
                    }
                }
            }
            let (generator, operator) = generator.zip(operator).context("both sides have run")?;
            pairs.push(Pair { generator, operator });
        }
        let claims = as_f64(CLAIMS);
        let calls = Calls::of(croft).await?.since(&before);
        let ratio = Figure::of_pairs("claims_ratio", pairs.clone())
            .bar(Bar::AtLeast(MIN_RATIO))
            .note(Floor::TOLD)
            .note(format!("processor time a claim: generator {}", used(&pairs, |pair| &pair.generator, claims)))
            .note(format!("operator {}", used(&pairs, |pair| &pair.operator, claims)))
            .note(format!("croft sent {:.2} requests a claim: {calls}", calls.requests() / claims));
        Ok(vec![
            ratio,
            Figure::new("claim_gateway_calls", as_f64(asked) / as_f64(CLAIMS), "per claim")
                .bar(Bar::AtMost(MAX_CALLS))
                .note("without looks at the class"),
        ])
    }

    /// Lets the operator serve one claim, and learns from it.
    async fn floor(&self) -> Result<Floor> {
        let (space, name) = (LATE, "model");
        self.make(space, &[name.to_owned()]).await?;
        Floor::like(self.client.clone(), self.gateway.clone(), space, name).await
    }

    /// Makes claims, and waits until the last is ready.
    async fn make(&self, namespace: &str, names: &[String]) -> Result<()> {
        self.create(namespace, names).await?;
        self.all_ready(&[namespace]).await
    }

    async fn create(&self, namespace: &str, names: &[String]) -> Result<()> {
        let claims = self.claims(namespace);
        let create = move |name: String| {
            let claims = claims.clone();
            async move {
                claims.create(&PostParams::default(), &claim(&name)).await?;
                Ok(())
            }
        };
        in_flight(names, create).await
    }

    /// Waits for one after the other: to be asked for all of them all the time is work for the API server, too.
    async fn all_ready(&self, namespaces: &[&str]) -> Result<()> {
        for namespace in namespaces {
            let claims = self.claims(namespace);
            while let Some(last) = claims.list(&ListParams::default()).await?.items.iter().rfind(|it| !is_ready(it)) {
                let name = last.name_any();
                wait::until_true("a claim to be ready", LIMIT, || async { Ok(is_ready(&claims.get(&name).await?)) })
                    .await?;
            }
        }
        Ok(())
    }

    /// Another process takes over a world in which nothing is to be done.
    async fn restart(&self, operator: Operator, figures: &mut Vec<Figure>) -> Result<Operator> {
        operator.process.terminate();
        operator.process.wait(SETTLE);
        drop(operator);
        self.proxy.clear_log();
        let operator = self.start_operator("croft-1").await?;
        tokio::time::sleep(SETTLE).await;
        let calls = Calls::of(&operator).await?;
        let asked = self.asked();
        figures.extend([
            Figure::new("claims_restart_writes", calls.writes(), "requests")
                .bar(Bar::AtMost(0.0))
                .note(calls.to_string()),
            // Two looks at each class, which ask for the administrator and its buckets.
            Figure::new("claims_restart_gateway", as_f64(asked.len()), "calls")
                .bar(Bar::AtMost(4.0))
                .note(asked.join(", ")),
        ]);
        Ok(operator)
    }

    /// What the gateway was asked since the log was cleared.
    fn asked(&self) -> Vec<String> {
        let log = self.proxy.log();
        log.iter()
            .map(|seen| {
                format!(
                    "{} {} {}",
                    seen.request.verb,
                    seen.request.resource,
                    seen.request.name.as_deref().unwrap_or_default()
                )
            })
            .collect()
    }

    /// What the door adds to a create, with many at once: the slowest hundredth with it and without it.
    async fn admission(&self, croft: &Operator) -> Result<Figure> {
        let [with_it, without_it] = DOORS;
        let (with, reaction) = self.slowest_creates(with_it, croft).await?;
        let hooks: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let hook = hooks.get("croft").await?;
        hooks.delete("croft", &DeleteParams::default()).await?;
        // The API server notices a moment later.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (without, _) = self.slowest_creates(without_it, croft).await?;
        let metadata = ObjectMeta { name: hook.metadata.name.clone(), ..ObjectMeta::default() };
        hooks.create(&PostParams::default(), &ValidatingWebhookConfiguration { metadata, ..hook }).await?;
        Ok(Figure::new("claim_admission_p99", with - without, "ms more")
            .bar(Bar::AtMost(MAX_ADMISSION_MS))
            .note(format!(
                "{WRITERS} writers at once every {WRITES_EVERY:?}: {with:.1} ms with the door, {without:.1} ms without"
            ))
            .note(format!(
                "meanwhile croft sent {:.2} requests a claim: {reaction}",
                reaction.requests() / as_f64(WRITES)
            )))
    }

    /// Claims of a class nobody has made: nothing but admission and storing is measured.
    async fn slowest_creates(&self, namespace: &str, croft: &Operator) -> Result<(f64, Calls)> {
        quiet().await;
        let before = Calls::of(croft).await?;
        let names = names("claim", WRITES);
        let begin = Instant::now();
        let writers = names.chunks(WRITES / WRITERS).map(|names| async move {
            let mut took = Vec::new();
            for (name, turn) in names.iter().zip(0_u32..) {
                let mut claim = claim(name);
                claim.spec.s3_class_name = Some("nobody-made-it".into());
                // Together with all others.
                tokio::time::sleep_until((begin + WRITES_EVERY * turn).into()).await;
                let clock = Instant::now();
                self.claims(namespace).create(&PostParams::default(), &claim).await?;
                took.push(clock.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(took)
        });
        let mut took: Vec<_> = futures::future::try_join_all(writers).await?.concat();
        took.sort_by(f64::total_cmp);
        let reaction = Calls::of(croft).await?.since(&before);
        for name in &names {
            self.claims(namespace).delete(name, &DeleteParams::default()).await?;
        }
        Ok((percentile(&took, 99), reaction))
    }

    /// Claims made while the gateway is away, once it is back.
    async fn recovery(&self) -> Result<Figure> {
        let (names, changed) = (names("claim", CLAIMS / PAIRS), format!("{BLOCKS}-0000"));
        self.bed.ceph().stop_gateway();
        self.create(LATE, &names).await?;
        // Those who are there are changed too.
        let more = Patch::Merge(json!({ "spec": { "quota": { "objects": 2000 } } }));
        for name in &names {
            self.claims(&changed).patch(name, &PatchParams::default(), &more).await?;
        }
        tokio::time::sleep(OUTAGE).await;
        self.bed.ceph().start_gateway().await?;
        let back = Instant::now();
        // Ceph itself takes a while before it writes for a gateway again.
        self.gateway.create_user(&probe_user()?).await.ok();
        let clock = Instant::now();
        self.all_ready(&[LATE, &changed]).await?;
        Ok(Figure::new("claims_after_outage", clock.elapsed().as_secs_f64(), "s")
            .bar(Bar::AtMost(MAX_RECOVERY_SECONDS))
            .note(format!("{} new and as many changed claims, {OUTAGE:?} without a gateway", names.len()))
            .note(format!(
                "{:.1} s since it answered, with what Ceph needs for its first write",
                back.elapsed().as_secs_f64()
            )))
    }
}

fn is_ready(claim: &S3UserClaim) -> bool {
    let now = |status: &&S3UserClaimStatus| status.observed_generation == claim.metadata.generation;
    let mut conditions = claim.status.iter().filter(now).flat_map(|status| &status.conditions);
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// A class is looked at by three calls: the administrator by its key, its buckets, and what Ceph it is.
fn is_a_look_at_the_class(request: &Request) -> bool {
    let names = |wanted: &str| {
        let names = request.subresource.as_deref().unwrap_or_default();
        names.split('&').any(|name| name == wanted)
    };
    match request.resource.as_str() {
        "/admin/info" => true,
        "/admin/user" => !names("uid"),
        "/admin/bucket" => !names("stats"),
        _ => false,
    }
}

fn probe_user() -> Result<NewUser> {
    Ok(NewUser {
        id: UserId::new("bare", "probe")?,
        display_name: "probe".into(),
        max_buckets: BucketLimit::AtMost(1),
        access_key: "PROBE".into(),
    })
}

fn claim(name: &str) -> S3UserClaim {
    let mut claim = S3UserClaim::default();
    claim.metadata.name = Some(name.to_owned());
    claim.spec.s3_class_name = Some(CLASS.into());
    claim.spec.admin_secret_name = Some(format!("{name}-admin"));
    claim.spec.read_secret_name = Some(format!("{name}-read"));
    claim
}

/// Our own work for one change of a large ledger: read, reserved in, made ready to be written.
fn ledger() -> Result<Figure> {
    let amount = LedgerAmount { size: 1 << 30, objects: 1000, buckets: 10 };
    let entry = LedgerEntry { granted: Some(amount), uid: Some("uid".into()), ..LedgerEntry::default() };
    let entries = names("claim", ENTRIES).into_iter().map(|name| (format!("{BLOCKS}/{name}"), entry.clone()));
    let spec = S3QuotaLedgerSpec { entries: entries.collect(), ..S3QuotaLedgerSpec::default() };
    let stored = serde_json::to_vec(&spec)?;
    let clock = Instant::now();
    let rounds = 100;
    for round in 0..rounds {
        let spec: S3QuotaLedgerSpec = serde_json::from_slice(&stored)?;
        let mut ledger = books::ledger(&spec);
        let units = Units { size: 1, objects: 1, buckets: 1 };
        let form = Form { uid: "uid".into(), generation: 1 };
        let promise = Reservation { units, at: 0, request: format!("{round}"), form };
        ledger.reserve("other/claim", promise, &Limits::default()).map_err(|why| anyhow::anyhow!("{why}"))?;
        let spec = S3QuotaLedgerSpec { entries: books::stored(&ledger).collect(), ..spec };
        std::hint::black_box(serde_json::to_vec(&spec)?);
    }
    let each = clock.elapsed().as_secs_f64() * 1000.0 / f64::from(rounds);
    Ok(Figure::new("ledger_change", each, "ms").bar(Bar::AtMost(MAX_LEDGER_MS)).note(format!("{ENTRIES} entries")))
}
