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
    fault::{Action, Match, Rule},
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    scene::{Class, Proxied, Space, config_map},
    support::{PATIENCE, eventually},
};

/// Longer than the interval in which a class's counts are written.
const QUIET: Duration = Duration::from_millis(1300);

/// No story takes that many lives.
const MOST_LIVES: usize = 60;

/// When the operator dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    Never,
    /// The write is done; its reply never arrives.
    AfterEveryWrite,
    /// Each life may do one write, and dies before its second.
    BeforeEveryWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    Define,
    Label,
    Update,
    Switch,
    Unlabel,
    Relabel,
    DeleteClass,
}

impl Story {
    const ALL: [Story; 7] =
        [Story::Define, Story::Label, Story::Update, Story::Switch, Story::Unlabel, Story::Relabel, Story::DeleteClass];
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
            json!({"resources": items, "namespaceMetadata": metadata})
        };
        match story {
            Story::Define => {
                self.one.set_spec(spec(&[("shared", "1"), ("kept", "1"), ("dropped", "1")], &metadata)).await?;
                self.two.set_spec(spec(&[("shared", "2"), ("other", "1")], &json!({}))).await?;
            }
            Story::Label => self.space.label(Some(&self.one.name)).await?,
            Story::Update => {
                self.one.set_spec(spec(&[("shared", "1"), ("kept", "2"), ("added", "1")], &metadata)).await?;
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
        let mut classes = Vec::new();
        for class in [&self.one, &self.two] {
            classes.push(class.api.get_opt(&class.name).await?.map(|class| json!(class.status)));
        }
        let all = json!({
            "objects": objects, "binding": binding, "classes": classes, "labels": namespace.labels(),
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

/// An operator that dies as it is told to, and is started again.
struct Mortal<'w> {
    world: &'w Proxied,
    death: Death,
    life: Arc<Mutex<Option<Arc<Operator>>>>,
    lives: usize,
}

impl<'w> Mortal<'w> {
    fn new(world: &'w Proxied, death: Death) -> Self {
        Self { world, death, life: Arc::default(), lives: 0 }
    }

    fn arm(&self) -> Option<Rule> {
        let life = self.life.clone();
        let kill = Action::kill(move || {
            if let Some(operator) = life.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                operator.process.kill();
            }
        });
        let proxy = &self.world.proxy;
        match self.death {
            Death::Never => None,
            Death::AfterEveryWrite => Some(proxy.on(Match::write_number(1)).after(kill)),
            Death::BeforeEveryWrite => Some(proxy.on(Match::write_number(2)).before(kill)),
        }
    }

    fn alive(&self) -> Option<Arc<Operator>> {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        life.clone().filter(|operator| operator.process.is_running())
    }

    async fn start(&mut self) -> Result<()> {
        self.lives += 1;
        self.world.proxy.clear_rules();
        self.world.forget_leader().await?;
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        *life = Some(Arc::new(self.world.start()?));
        drop(life);
        self.arm();
        Ok(())
    }

    /// Life after life until one of them finds nothing left to do.
    async fn settle(&mut self) -> Result<()> {
        for _ in 0..MOST_LIVES {
            let Some(operator) = self.alive() else {
                self.start().await?;
                continue;
            };
            if self.rests(&operator).await? {
                return Ok(());
            }
        }
        bail!(
            "not settled after {MOST_LIVES} lives; last writes: {:#?}",
            self.world.proxy.writes().iter().rev().take(10).collect::<Vec<_>>()
        )
    }

    /// Whether it leads and writes nothing for a while; false if it died.
    async fn rests(&self, operator: &Operator) -> Result<bool> {
        let mut since: Option<(Instant, usize)> = None;
        let clock = Instant::now();
        loop {
            if !operator.process.is_running() {
                operator.process.wait(PATIENCE).context("it is dead")?;
                return Ok(false);
            }
            let leads = operator.metrics().await.is_ok_and(|metrics| metrics.contains("croft_leading 1"));
            let ready = operator.ready(Duration::from_millis(1)).await.is_ok();
            let writes = self.world.proxy.writes().len();
            match since {
                Some((start, before)) if before == writes && start.elapsed() >= QUIET => return Ok(true),
                Some((_, before)) if before == writes => {}
                _ => since = (leads && ready).then(|| (Instant::now(), writes)),
            }
            if clock.elapsed() > PATIENCE {
                bail!("neither dead nor at rest:\n{}", operator.process.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// All stories under one kind of death: the picture after each, and the tale.
async fn tell(world: &Proxied, name: &str, death: Death) -> Result<(Vec<(Story, Value)>, Tale, usize)> {
    let mut mortal = Mortal::new(world, death);
    mortal.settle().await?;
    let tale = Tale::begin(world, name).await?;
    let mut pictures = Vec::new();
    for story in Story::ALL {
        eventually(&format!("{story:?} to be accepted"), || async { tale.act(story).await.map(Some) }).await;
        mortal.settle().await.with_context(|| format!("in {story:?}"))?;
        pictures.push((story, tale.picture().await?));
    }
    let lives = mortal.lives;
    world.proxy.clear_rules();
    if let Some(operator) = mortal.alive() {
        operator.process.kill();
        operator.process.wait(PATIENCE).context("it is dead")?;
    }
    Ok((pictures, tale, lives))
}

async fn same_as_without(death: Death) -> Result<()> {
    let world = Proxied::new().await?;
    let (calm, calm_tale, _) = tell(&world, "calm", Death::Never).await?;
    let (rough, rough_tale, lives) = tell(&world, "rough", death).await?;
    for ((story, calm), (_, rough)) in calm.iter().zip(&rough) {
        let text = |picture: &Value| serde_json::to_string_pretty(picture).unwrap_or_default();
        assert_eq!(text(calm), text(rough), "after {story:?}");
    }
    assert_eq!(calm_tale.uids.counts(), rough_tale.uids.counts(), "objects made per name");
    calm_tale.assert_bystander_untouched().await?;
    rough_tale.assert_bystander_untouched().await?;
    assert!(lives > 20, "it died at every write: {lives} lives");
    Ok(())
}

#[tokio::test]
async fn killed_after_every_write_the_world_ends_up_the_same() -> Result<()> {
    same_as_without(Death::AfterEveryWrite).await
}

#[tokio::test]
async fn killed_before_every_second_write_the_world_ends_up_the_same() -> Result<()> {
    same_as_without(Death::BeforeEveryWrite).await
}
