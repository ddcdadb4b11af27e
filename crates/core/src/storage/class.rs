//! An S3Class: whether its gateway can be worked with, who may go on using it, and when it may go.
//!
//! - A class that is in use is never let go, and serves whom it has until then.
//! - Nobody calls a gateway that is known not to answer: claims wait for the class, and one look after the other is made here.
//! - No two classes of one Ceph can put two namespaces into one tenant: the younger class waits, also where nobody knows whether it is
//!   one, unless it has users already, who are served on. It takes nobody new.
//! - A class with users serves nobody in another Ceph than the one they are in.

mod cluster;

pub use cluster::{Cluster, is_one_ceph, origin};

use std::{collections::BTreeSet, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Class, GIVE_UP, NoClass, OnDelete, Problem, Reason, Target, reason::readiness_of};
use crate::{
    conditions::{Conditions, Readiness},
    plan::{self, Failure, FailureClass, Outcomes, Plan, first_failure},
    time::Timestamp,
};

/// A gateway that answers is asked this often whether it still does; whoever fails on it asks for a look before.
const WELL: Duration = Duration::from_secs(300);
/// One that does not is asked this often,
const DOWN: Duration = Duration::from_secs(5);
/// and one that refuses: somebody must act first.
const REFUSING: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Observed {
    pub class: ClassSeen,
    /// Of each it is known whether it is used.
    pub others: Vec<ClassSeen>,
    /// S3Users of the class.
    pub users: BTreeSet<String>,
    /// What the gateway said; `None` where [`asks_gateway`] says not to ask.
    pub gateway: Option<Result<Gateway, Failure>>,
}

/// An S3Class as stored.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSeen {
    pub target: Target,
    pub created: Timestamp,
    pub generation: i64,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Whether it is meant for claims that name no class.
    pub default: bool,
    /// The Ceph an administrator says the users of the class are in.
    pub confirmed_cluster: Option<String>,
    /// Whether it has S3Users, as far as anybody looked: see [`Observed::others`].
    pub is_used: bool,
    pub spec: Result<Class, Vec<Problem>>,
    pub status: Status,
}

/// `status` of an S3Class, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: Option<i64>,
    /// The release of Ceph, where the gateway tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The Ceph it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    pub conditions: Conditions,
}

/// A gateway that answers and knows the administrator's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Whose key it is.
    pub admin: String,
    /// Whether the key may change users and buckets.
    pub may_write: bool,
    pub release: Option<String>,
    /// The Ceph behind it, where it tells.
    pub cluster_id: Option<String>,
}

impl ClassSeen {
    fn name(&self) -> &str {
        &self.target.name
    }

    /// Who was there first.
    fn age(&self) -> (&Timestamp, &str) {
        (&self.created, self.name())
    }

    /// Why the class serves nobody, or nobody new.
    pub fn refusal(&self, is_new: bool) -> Option<NoClass> {
        let class = || self.name().to_owned();
        if let Err(problems) = &self.spec {
            return Some(NoClass::Invalid { class: class(), problems: problems.clone() });
        }
        if self.deleting && is_new {
            return Some(NoClass::Going(class()));
        }
        let is_current = self.status.observed_generation == Some(self.generation);
        match self.status.conditions.get("Ready") {
            Some(ready) if is_current && self.status.conditions.is_true("Ready") => {
                let is_closed = is_new && ready.reason == Reason::PrefixOverlap.as_str();
                let why = || format!("it takes nobody new: {}", ready.message);
                is_closed.then(|| NoClass::NotReady { class: class(), why: why() })
            }
            Some(ready) if is_current => Some(NoClass::NotReady { class: class(), why: ready.message.clone() }),
            _ => Some(NoClass::NotReady { class: class(), why: "it is being looked at".to_owned() }),
        }
    }
}

/// The class for claims that name none: of several the oldest, so that another one changes nothing.
pub fn default_of(classes: &[ClassSeen]) -> Option<&ClassSeen> {
    classes.iter().filter(|class| class.default && !class.deleting).min_by_key(|class| class.age())
}

/// The older class with which `class` could share a tenant of two namespaces, unless they are known to be of two Cephs. One that is
/// refused for that reason itself stands in nobody's way.
pub fn overlapping<'a>(class: &ClassSeen, others: &'a [ClassSeen]) -> Option<&'a ClassSeen> {
    let mut older: Vec<_> = others.iter().filter(|other| other.age() < class.age()).collect();
    older.sort_by_key(|other| other.age());
    let mut served: Vec<&ClassSeen> = Vec::new();
    for other in older {
        let conditions = &other.status.conditions;
        let is_refused = conditions.reason("Ready") == Some(Reason::PrefixOverlap.as_str());
        // Whoever has users is served on once its gateway answers again.
        let is_served = conditions.is_true("Ready") || (other.is_used && !is_refused);
        if is_served || !served.iter().any(|before| share(before, other)) {
            served.push(other);
        }
    }
    served.into_iter().find(|other| share(other, class))
}

/// What stands in the way of a class that somebody wants to make or change, beside all others. Of several in its way the
/// oldest is named: the same answer however often it is asked. Which Ceph it is of, its gateway tells only once it is there.
pub fn beside_others(class: &ClassSeen, others: &[ClassSeen]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(other) = default_of(others).filter(|_| class.default) {
        let message = format!("S3Class {} is the default already; of two the older one counts", other.name());
        problems.push(Problem::new("spec.default", message));
    }
    let is_in_the_way = |other: &&ClassSeen| has_such_a_prefix(other, class) && is_one_ceph(other, class);
    if let Some(other) = others.iter().filter(is_in_the_way).min_by_key(|other| other.age()) {
        problems.push(Problem::new("spec.tenantPrefix", overlap(class, other)));
    }
    problems
}

fn overlap(class: &ClassSeen, other: &ClassSeen) -> String {
    let (name, remedy) = (other.name(), "make this class anew with another prefix");
    if is_one_ceph(class, other) {
        return format!(
            "S3Class {name} on the same Ceph has a prefix with which two namespaces could share a tenant; {remedy}"
        );
    }
    format!(
        "S3Class {name} has a prefix with which two namespaces could share a tenant, and may be of the same Ceph at another address: not \
         both gateways tell which one they are of (their administrators need the capability info=read for that, from Ceph 17 on); \
         {remedy}"
    )
}

/// Whether two classes could put two namespaces into one tenant.
fn share(one: &ClassSeen, other: &ClassSeen) -> bool {
    has_such_a_prefix(one, other) && !cluster::are_two_cephs(one, other)
}

/// Whether they would if they were of one Ceph.
fn has_such_a_prefix(one: &ClassSeen, other: &ClassSeen) -> bool {
    let (Ok(here), Ok(there)) = (&one.spec, &other.spec) else { return false };
    let (here, there) = (&here.tenant_prefix, &there.tenant_prefix);
    extends(here, there) || extends(there, here)
}

/// Whether `<longer>_<namespace>` may be `<shorter>_<another namespace>`. A namespace begins with a letter or digit.
fn extends(shorter: &str, longer: &str) -> bool {
    let rest = longer.strip_prefix(shorter).and_then(|rest| rest.strip_prefix('_'));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_alphanumeric()))
}

/// Whether it matters what the gateway says.
pub fn asks_gateway(class: &ClassSeen, is_used: bool) -> bool {
    class.spec.is_ok() && (is_used || !class.deleting)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the S3Class is not the one seen.
    AddFinalizer { class: Target },
    /// Fails if the S3Class is not the one seen.
    RemoveFinalizer { class: Target },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::RemoveFinalizer { .. } => "RemoveFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { class } => {
                write!(out, "add the finalizer to S3Class {}: it stays as long as it is used", class.name)
            }
            Step::RemoveFinalizer { class } => {
                write!(out, "remove the finalizer from S3Class {}: nobody uses it", class.name)
            }
        }
    }
}

pub fn plan(seen: &Observed) -> Plan<Step> {
    let class = &seen.class;
    let target = || class.target.clone();
    let step = match (class.deleting, class.finalizer) {
        (true, true) if seen.users.is_empty() => Some(Step::RemoveFinalizer { class: target() }),
        (false, false) => Some(Step::AddFinalizer { class: target() }),
        _ => None,
    };
    let plan = Plan::steps(step);
    match &seen.gateway {
        None => plan,
        Some(Ok(_)) if cluster::led_astray(seen).is_some() => plan.look_again(REFUSING),
        Some(Ok(gateway)) if gateway.may_write => plan.look_again(WELL),
        Some(Err(failure)) if is_passing(failure) => plan.look_again(DOWN),
        Some(_) => plan.look_again(REFUSING),
    }
}

fn is_passing(failure: &Failure) -> bool {
    matches!(failure.class, FailureClass::Stale | FailureClass::Transient)
}

/// The new status. `outcomes` are those of [`plan`]'s steps on the same observation.
pub fn report(seen: &Observed, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Status {
    let class = &seen.class;
    let verdict = match first_failure(outcomes) {
        // The world has moved on: the next look will tell.
        Some(failure) if failure.class == FailureClass::Stale => return class.status.clone(),
        Some(failure) => readiness_of(failure),
        None => verdict(seen),
    };
    let mut status = Status { observed_generation: Some(class.generation), ..class.status.clone() };
    if let Some(Ok(gateway)) = &seen.gateway {
        status.release.clone_from(&gateway.release);
    }
    if cluster::led_astray(seen).is_none() {
        status.cluster = cluster::reached(seen).or(status.cluster);
    }
    verdict.write(&mut status.conditions, class.generation, now);
    status
}

fn verdict(seen: &Observed) -> Readiness {
    let class = &seen.class;
    if let Err(problems) = &class.spec {
        return Reason::InvalidSpec.stalled(Problem::list(problems));
    }
    if let Some((bound, reached)) = cluster::led_astray(seen) {
        return cluster::another(class.name(), bound, &reached);
    }
    let told = as_told(seen);
    let other = overlapping(&told, &seen.others);
    let overlap = other.map(|other| format!("spec.tenantPrefix: {}", overlap(&told, other)));
    // Whoever has users could not be made anew with another prefix: they would never go.
    let is_known = other.is_some_and(|other| is_one_ceph(&told, other));
    if let Some(overlap) = overlap.as_ref().filter(|_| is_known || seen.users.is_empty()) {
        return Reason::PrefixOverlap.stalled(overlap);
    }
    let health = match &seen.gateway {
        None => Reason::Deleting.progressing("nobody uses the class"),
        Some(Err(failure)) => readiness_of(failure),
        Some(Ok(gateway)) if !gateway.may_write => Reason::MissingCapabilities.stalled(format!(
            "spec.adminSecret: Ceph user {} may not change users and buckets; allow it with `radosgw-admin caps add --uid={} --caps=\"users=*;buckets=*\"`",
            gateway.admin, gateway.admin
        )),
        Some(Ok(gateway)) => Reason::Reached.ready(answers(seen, gateway)),
    };
    let gives_up = class.spec.as_ref().is_ok_and(|spec| spec.on_delete == OnDelete::GiveUp).then(|| {
        format!("it gives up everything its users have, also what was kept of them; annotation {GIVE_UP} says so")
    });
    // What two namespaces share already goes on; nobody else is to get into it.
    let health = match health {
        Readiness::Ready { message, .. } if overlap.is_some() => Reason::PrefixOverlap.ready(message),
        health => health,
    };
    let notes = [overlap, gives_up, waits_for(seen)].into_iter().flatten();
    notes.fold(health, |health, note| health.noting(&note))
}

/// The class with what its gateway says of the Ceph behind it.
fn as_told(seen: &Observed) -> ClassSeen {
    let mut class = seen.class.clone();
    class.status.cluster = cluster::reached(seen).or(class.status.cluster);
    class
}

fn answers(seen: &Observed, gateway: &Gateway) -> String {
    let release = gateway.release.as_ref().map_or_else(String::new, |release| format!(" of Ceph {release}"));
    let class = &seen.class;
    let older = class.default.then(|| default_of(&seen.others)).flatten();
    let not_default = older.filter(|other| other.age() < class.age()).map_or_else(String::new, |other| {
        format!("; claims that name no class use S3Class {}, which is marked as default too and older", other.name())
    });
    format!("the gateway{release} answers and knows {}{not_default}", gateway.admin)
}

/// What the deletion of the class waits for.
fn waits_for(seen: &Observed) -> Option<String> {
    if !seen.class.deleting || seen.users.is_empty() {
        return None;
    }
    Some(format!("it is being deleted and waits for its S3Users: {}", a_few(&seen.users)))
}

/// Why a class that somebody wants to delete is to stay.
pub fn in_use(class: &str, users: &BTreeSet<String>) -> Option<String> {
    let told = || format!("S3Class {class} is in use by S3Users {}; delete their claims first", a_few(users));
    (!users.is_empty()).then(told)
}

/// The first of them, and how many more.
fn a_few(users: &BTreeSet<String>) -> String {
    const NAMED: usize = 5;
    let some: Vec<_> = users.iter().take(NAMED).map(String::as_str).collect();
    let more = users.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", some.join(", "))
}
