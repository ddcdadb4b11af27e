//! Kubernetes Events: told once per change of reason, never in the way of work.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use croft_core::{
    budget::{Budget, Budgets},
    conditions::cut,
    time::Instant,
};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, Resource, api::PostParams};
use tracing::debug;

use super::{clock::Clock, write::call};

/// When a thousand objects change at once, the first Events show what happens and the status of each tells the rest.
const BURST: u32 = 100;
const EVERY: Duration = Duration::from_millis(200);

/// News in the same words about many objects have one cause: a few of them say it for all.
const SAME_BURST: u32 = 5;
const SAME_EVERY: Duration = Duration::from_secs(30);

/// The API server takes notes of at most 1024 bytes.
const LONGEST: usize = 1000;

/// Of names, which have at most 253 letters, seventeen are our own.
const LONGEST_NAME: usize = 253 - 17;

/// One thing worth telling a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub warning: bool,
    /// Stable, `UpperCamelCase`.
    pub reason: String,
    pub message: String,
}

impl Note {
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { warning: false, reason: reason.into(), message: message.into() }
    }

    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { warning: true, reason: reason.into(), message: message.into() }
    }
}

/// Sends Events in the background; a lost Event is not an error.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
    clock: Clock,
    pace: Arc<Mutex<Pace>>,
}

/// How much is told. Good news never crowd out bad ones.
struct Pace {
    normal: Budget,
    warning: Budget,
    /// By what reason and message come to: these may be long, and many.
    same: Budgets<u64>,
}

impl Pace {
    fn new() -> Self {
        let all = Budget::new(BURST, EVERY);
        Self { normal: all, warning: all, same: Budgets::new(Budget::new(SAME_BURST, SAME_EVERY)) }
    }

    fn allows(&mut self, note: &Note, now: Instant) -> bool {
        let all = if note.warning { &mut self.warning } else { &mut self.normal };
        // What is not told at all repeats nothing, and what only repeats takes nothing from the others.
        all.has_left(now) && self.same.spend(words_of(note), now) && all.spend(now)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Events").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl Events {
    pub fn new(client: Client, instance: impl Into<String>, clock: Clock) -> Self {
        Self { client, instance: instance.into(), clock, pace: Arc::new(Mutex::new(Pace::new())) }
    }

    pub fn emit(&self, about: &ObjectReference, note: &Note) {
        let allowed = self.pace.lock().unwrap_or_else(PoisonError::into_inner).allows(note, self.clock.now());
        if !allowed {
            debug!(reason = note.reason, "event not sent: too many at once");
            return;
        }
        let event = self.event(about, note);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        tokio::spawn(async move {
            if let Err(failure) = call("create event", api.create(&PostParams::default(), &event)).await {
                debug!(%failure, reason = event.reason, "event not recorded");
            }
        });
    }

    fn event(&self, about: &ObjectReference, note: &Note) -> Event {
        // Events about cluster-scoped objects live in `default`, where kubectl looks for them.
        let namespace =
            about.namespace.clone().filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "default".into());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:016x}", beginning(about.name.as_deref()), rand::random::<u64>())),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".into()),
            event_time: Some(MicroTime(jiff::Timestamp::now())),
            note: Some(cut(note.message.clone(), LONGEST)),
            reason: Some(note.reason.clone()),
            regarding: Some(about.clone()),
            reporting_controller: Some("croft.dev/croft".into()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.into()),
            ..Event::default()
        }
    }
}

fn words_of(note: &Note) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&note.reason, &note.message).hash(&mut hasher);
    hasher.finish()
}

/// As much of an object's name as there is room for in that of an Event, which ends as no part of a name may.
fn beginning(name: Option<&str>) -> &str {
    let name = name.unwrap_or("croft");
    name.get(..LONGEST_NAME).unwrap_or(name).trim_end_matches(['.', '-'])
}

/// A reference to `object` for Events.
pub fn about<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pace: &mut Pace, notes: impl Iterator<Item = Note>) -> usize {
        notes.filter(|note| pace.allows(note, Instant(1000))).count()
    }

    #[test]
    fn the_name_of_an_event_is_a_name_whatever_the_object_is_called() {
        assert_eq!(beginning(Some("web")), "web");
        assert_eq!(beginning(None), "croft");
        assert_eq!(beginning(Some(&"a".repeat(253))).len(), LONGEST_NAME);
        let dotted = format!("{}.-.{}", "a".repeat(LONGEST_NAME - 3), "b".repeat(10));
        assert_eq!(beginning(Some(&dotted)), "a".repeat(LONGEST_NAME - 3));
    }

    #[test]
    fn what_holds_for_a_thousand_namespaces_is_told_of_a_few_and_other_news_still_get_through() {
        let mut pace = Pace::new();
        let bound = || Note::normal("BindingCreated", "bound to class web");
        assert_eq!(told(&mut pace, (0..1000).map(|_| bound())), 5);
        assert_eq!(told(&mut pace, (0..1000).map(|one| Note::normal("Created", format!("bucket {one}")))), 95);
        assert_eq!(told(&mut pace, (0..1000).map(|_| Note::warning("ClassNotFound", "there is no class web"))), 5);
        assert_eq!(told(&mut pace, (0..1000).map(|one| Note::warning("Conflict", format!("item {one}")))), 95);
    }
}
