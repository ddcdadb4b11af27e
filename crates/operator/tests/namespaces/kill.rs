//! The operator is killed at every write of every story: the world ends up the same, nothing foreign is touched and no
//! object is deleted and made anew on the way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use croft_testbed::{
    Operator,
    fault::{Action, Match, Request, Rule},
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::{admissionregistration::v1::ValidatingAdmissionPolicyBinding, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    scene::{Class, Proxied, Space, config_map},
    support::PATIENCE,
};

/// Longer than the interval in which a class's counts are written.
const QUIET: Duration = Duration::from_millis(1300);

/// No story takes that many lives.
const MOST_LIVES: usize = 60;

/// When the operator dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The write is done; its reply never arrives.
    AfterTheWrite,
    /// The server never sees the write.
    BeforeTheWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    Define,
    DefineAnother,
    Label,
    Update,
    RollOut,
    RollBack,
    Switch,
    Unlabel,
    Relabel,
    DeleteClass,
}

impl Story {
    const ALL: [Story; 10] = [
        Story::Define,
        Story::DefineAnother,
        Story::Label,
        Story::Update,
        Story::RollOut,
        Story::RollBack,
        Story::Switch,
        Story::Unlabel,
        Story::Relabel,
        Story::DeleteClass,
    ];
}

/// One telling of all stories, in names of its own.
struct Tale {
    space: Space,
    one: Class,
    two: Class,
    bystander: ConfigMap,
    uids: Uids,
}

impl Tale {
    async fn begin(world: &Proxied, name: &str) -> Result<Self> {
        let space = Space::new(&world.bed, name).await?;
        let bystander = space.stranger_makes(config_map("bystander", "mine")).await?;
        let uids = Uids::watch(&space);
        let class = |number: &str| Class::named(world.client(), &format!("{name}-{number}"));
        Ok(Self { one: class("one"), two: class("two"), space, bystander, uids })
    }

    /// What a person does.
    async fn act(&self, story: Story) -> Result<()> {
        let metadata = json!({"labels": {"example.com/level": "one"}});
        let spec = |items: &[(&str, &str)], metadata: &Value| {
            let items: Vec<_> = items.iter().map(|(name, value)| config_map(name, value)).collect();
            let mut spec = json!({"resources": items, "namespaceMetadata": metadata});
            if metadata.get("labels").is_some() {
                spec["gate"] = json!("Pods");
            }
            spec
        };
        match story {
            Story::Define => {
                self.one.set_spec(spec(&[("shared", "1"), ("kept", "1"), ("dropped", "1")], &metadata)).await?;
            }
            Story::DefineAnother => {
                self.two.set_spec(spec(&[("shared", "2"), ("other", "1")], &json!({}))).await?;
            }
            Story::Label => self.space.label(Some(&self.one.name)).await?,
            Story::Update => {
                self.one.set_spec(spec(&[("shared", "1"), ("kept", "2"), ("added", "1")], &metadata)).await?;
            }
            Story::RollOut | Story::RollBack => {
                let kept = if story == Story::RollOut { "3" } else { "2" };
                let mut staged = spec(&[("shared", "1"), ("kept", kept), ("added", "1")], &metadata);
                staged["rollout"] = json!({"batch": 1});
                self.one.set_spec(staged).await?;
            }
            Story::Switch | Story::Relabel => self.space.label(Some(&self.two.name)).await?,
            Story::Unlabel => self.space.label(None).await?,
            Story::DeleteClass => {
                self.two.api.delete(&self.two.name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// Everything there is, without what differs from telling to telling.
    async fn picture(&self) -> Result<Value> {
        let objects = self.space.config_maps().list(&ListParams::default()).await?;
        let objects: Vec<_> = objects.iter().filter(|object| object.name_any() != "kube-root-ca.crt").collect();
        let objects: BTreeMap<_, _> = objects.iter().map(|object| (object.name_any(), json!(object))).collect();
        let binding = self.space.bindings().get_opt(&self.space.name).await?;
        let namespace = self.space.namespaces().get(&self.space.name).await?;
        let (mut classes, mut gates) = (Vec::new(), Vec::new());
        let stored: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.space.client.clone());
        for class in [&self.one, &self.two] {
            gates.push(stored.get_opt(&format!("croft-gate-{}", class.name)).await?);
            classes.push(class.api.get_opt(&class.name).await?.map(|class| json!(class.status)));
        }
        let all = json!({
            "objects": objects, "binding": binding, "classes": classes, "labels": namespace.labels(), "gates": gates,
        });
        let text = all.to_string().replace(&self.space.name, "SPACE");
        let text = text.replace(&self.one.name, "ONE").replace(&self.two.name, "TWO");
        let mut picture: Value = serde_json::from_str(&text)?;
        strip(&mut picture);
        Ok(picture)
    }

    async fn assert_bystander_untouched(&self) -> Result<()> {
        let now = self.space.config_maps().get("bystander").await?;
        assert_eq!((now.uid(), now.resource_version()), (self.bystander.uid(), self.bystander.resource_version()));
        Ok(())
    }
}

/// Takes out identities, times and versions.
fn strip(value: &mut Value) {
    const DIFFERENT: [&str; 9] = [
        "uid",
        "observedClassUID",
        "lastTransitionTime",
        "digest",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "time",
        "kubernetes.io/metadata.name",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !DIFFERENT.contains(&key.as_str()));
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Every object that ever was: its name and its UIDs.
struct Uids {
    seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    _task: AbortOnDropHandle<()>,
}

impl Uids {
    fn watch(space: &Space) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>> = Arc::default();
        let (api, into): (Api<ConfigMap>, _) = (space.config_maps(), seen.clone());
        let task = tokio::spawn(async move {
            let objects = watcher(api, watcher::Config::default()).applied_objects();
            pin_mut!(objects);
            while let Some(object) = objects.next().await {
                let Ok(object) = object else { continue };
                let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
                seen.entry(object.name_any()).or_default().insert(object.uid().unwrap_or_default());
            }
        });
        Self { seen, _task: AbortOnDropHandle::new(task) }
    }

    /// How many objects there were under each name.
    fn counts(&self) -> BTreeMap<String, usize> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(name, uids)| (name.clone(), uids.len())).collect()
    }
}

/// An operator that may be killed by a rule of the proxy, and is then started again.
struct Mortal<'w> {
    world: &'w Proxied,
    life: Arc<Mutex<Option<Arc<Operator>>>>,
}

impl<'w> Mortal<'w> {
    fn new(world: &'w Proxied) -> Self {
        Self { world, life: Arc::default() }
    }

    fn current(&self) -> Option<Arc<Operator>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Dies at this write, once.
    fn dies(&self, death: Death, write: Match) -> Rule {
        let life = self.life.clone();
        let kill = Action::kill(move || {
            if let Some(operator) = life.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                operator.process.kill();
            }
        });
        match death {
            Death::AfterTheWrite => self.world.proxy.on(write).after(kill),
            Death::BeforeTheWrite => self.world.proxy.on(write).before(kill),
        }
    }

    async fn start(&self) -> Result<()> {
        self.world.forget_leader().await?;
        let operator = Arc::new(self.world.start()?);
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(operator);
        Ok(())
    }

    /// Life after life until one of them finds nothing left to do; gives their number.
    async fn settle(&self) -> Result<usize> {
        for lives in 0..MOST_LIVES {
            match self.current().filter(|operator| operator.process.is_running()) {
                Some(operator) if rests(self.world, &operator).await? => return Ok(lives),
                _ => self.start().await?,
            }
        }
        let writes = self.world.proxy.writes();
        let last: Vec<_> = writes.iter().rev().take(10).map(|seen| seen.request.to_string()).collect();
        bail!("not settled after {MOST_LIVES} lives; last writes, newest first: {last:#?}")
    }
}

/// Whether it leads and writes nothing for a while; false if it died.
async fn rests(world: &Proxied, operator: &Operator) -> Result<bool> {
    let clock = Instant::now();
    let mut since: Option<(Instant, usize)> = None;
    while clock.elapsed() < PATIENCE {
        if !operator.process.is_running() {
            operator.process.wait(PATIENCE).context("it is dead")?;
            return Ok(false);
        }
        let leads = operator.metrics().await.is_ok_and(|metrics| metrics.contains("croft_leading 1"));
        let writes = world.proxy.writes().len();
        match since {
            Some((start, before)) if before == writes && start.elapsed() >= QUIET => return Ok(true),
            Some((_, before)) if before == writes => {}
            _ if leads && operator.ready(Duration::from_secs(1)).await.is_ok() => {
                since = Some((Instant::now(), world.proxy.writes().len()));
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("neither dead nor at rest:\n{}", operator.process.log_tail())
}

/// What one story looked like when nobody died.
struct Calm {
    writes: Vec<Request>,
    picture: Value,
}

async fn calm(world: &Proxied, operator: &Mortal<'_>, tale: &Tale) -> Result<Vec<Calm>> {
    let mut told = Vec::new();
    for story in Story::ALL {
        world.proxy.clear_log();
        tale.act(story).await?;
        operator.settle().await.with_context(|| format!("in {story:?}"))?;
        let writes = world.proxy.writes().into_iter().map(|seen| seen.request).collect();
        told.push(Calm { writes, picture: tale.picture().await? });
    }
    Ok(told)
}

/// The same write in another telling.
fn again(write: &Request, calm: &Tale, rough: &Tale) -> Match {
    let rename = |name: &str| {
        let name = name.replace(&calm.space.name, &rough.space.name);
        name.replace(&calm.one.name, &rough.one.name).replace(&calm.two.name, &rough.two.name)
    };
    let mut again = Match::verb(&write.verb).resource(&write.resource).nth(write.occurrence);
    again = match &write.subresource {
        Some(subresource) => again.subresource(subresource),
        None => again.no_subresource(),
    };
    again = write.namespace.iter().fold(again, |again, namespace| again.namespace(&rename(namespace)));
    write.name.iter().fold(again, |again, name| again.name(&rename(name)))
}

/// Tells all stories twice, the second time with a death at every write of the first.
async fn same_as_without(death: Death) -> Result<()> {
    let world = Proxied::new().await?;
    let operator = Mortal::new(&world);
    operator.settle().await?;
    let calm_tale = Tale::begin(&world, "calm").await?;
    let told = calm(&world, &operator, &calm_tale).await?;

    let tale = Tale::begin(&world, "rough").await?;
    let (mut deaths, mut writes) = (0, 0);
    for (story, calm) in Story::ALL.into_iter().zip(told) {
        world.proxy.clear_log();
        let rules: Vec<_> =
            calm.writes.iter().map(|write| operator.dies(death, again(write, &calm_tale, &tale))).collect();
        tale.act(story).await?;
        operator.settle().await.with_context(|| format!("in {story:?}"))?;
        deaths += rules.iter().filter(|rule| rule.fired() > 0).count();
        writes += rules.len();
        world.proxy.clear_rules();
        let text = |picture: &Value| serde_json::to_string_pretty(picture).unwrap_or_default();
        assert_eq!(text(&calm.picture), text(&tale.picture().await?), "after {story:?}");
    }
    assert_eq!(calm_tale.uids.counts(), tale.uids.counts(), "objects made per name");
    calm_tale.assert_bystander_untouched().await?;
    tale.assert_bystander_untouched().await?;
    // A death in the middle may make a later write needless or another one of it.
    assert!(writes >= 25 && deaths * 10 >= writes * 8, "{deaths} deaths at {writes} writes");
    Ok(())
}

#[tokio::test]
async fn killed_after_every_write_of_every_story_the_world_ends_up_the_same() -> Result<()> {
    Box::pin(same_as_without(Death::AfterTheWrite)).await
}

#[tokio::test]
async fn killed_before_every_write_of_every_story_the_world_ends_up_the_same() -> Result<()> {
    Box::pin(same_as_without(Death::BeforeTheWrite)).await
}
