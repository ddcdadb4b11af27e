//! Whether a tenant's own bucket may be used: Velero acts on what is in it, so somebody has to trust her with that.
//!
//! With `ownBuckets: Approve` every location of a tenant has a `NonAdminBackupStorageLocationRequest` in Velero's namespace:
//!
//! ```text
//! location accepted         a request with its spec, `pending`; Velero is told nothing
//! approve                   the spec is noted as approved, and in force
//! the spec changes          `pending` again; what was approved stays in force until the change is approved
//! it changes meanwhile      what the request shows stays until somebody has decided about it: nobody approves what he has not read
//! it changes back           in force as before
//! pending, by a person      revoked: nothing is in force
//! reject                    nothing is in force, whatever changes, until somebody approves
//! location deleted          the request goes
//! ```
//!
//! With `Allow` the request is there and approved by itself unless somebody rejects it, with `Deny` nothing is in force. What was in force before anybody
//! could be asked stays so. Who approves a request trusts the tenant with what Velero does to the cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Victim,
    location::{SYNC_PERIOD, is_synchronised_never},
    meaning::meaning,
    ownership::{Marks, Origin},
    validate::LocationSpec,
    velero::Fields,
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{self, Plan},
    time::Timestamp,
};

/// What an approver trusts the tenant with, in one sentence.
pub const APPROVING_MEANS: &str = "Velero acts with the cluster's rights on what it finds in this bucket, so whoever can write it is \
                                   trusted with reading every object of the cluster, Secrets included, and with changing what the \
                                   admission policies leave, and whoever runs its server with holding up everybody's backups";

/// The condition of a location that says how it stands.
pub(super) const APPROVED: &str = "ClusterAdminApproved";

/// What the administrator lets tenants do with buckets of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OwnBuckets {
    #[default]
    Approve,
    Allow,
    Deny,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Approve,
    Reject,
    #[default]
    Pending,
}

/// A `NonAdminBackupStorageLocationRequest`, whoever made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub uid: String,
    pub version: String,
    pub marks: Marks,
    pub decision: Decision,
    /// It is `pending` because the spec has changed, not because somebody took the approval back.
    pub awaits_change: bool,
    pub status: RequestStatus,
}

/// `status` of a request, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RequestPhase>,
    #[serde(rename = "nonAdminBackupStorageLocation", skip_serializing_if = "Option::is_none")]
    pub location: Option<Asked>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequestPhase {
    Pending,
    Approved,
    Rejected,
}

/// What is to be decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Asked {
    pub nacuuid: String,
    pub name: String,
    pub namespace: String,
    pub requested_spec: Fields,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_spec: Option<Fields>,
}

/// What Velero had of a location before anybody could be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Before {
    #[default]
    Nothing,
    /// What is asked for now.
    This,
    /// Something else than what is asked for now.
    Another,
}

impl Before {
    /// From what Velero has of a location that nobody was ever asked about, and what is asked for now, if that is allowed. What is asked
    /// for beyond what Velero has needs somebody's approval, even in the same place; that Velero is not to look for others' backups there
    /// any more does not.
    pub fn of(velero: Option<&Fields>, wanted: Option<&LocationSpec>, secret: &str) -> Self {
        let Some(velero) = velero else { return Before::Nothing };
        let is_asked = wanted.is_some_and(|wanted| {
            let mut wanted = wanted.for_velero(secret);
            let mut had = velero.clone();
            if is_synchronised_never(&wanted) || !wanted.contains_key(SYNC_PERIOD) {
                wanted.remove(SYNC_PERIOD);
                had.remove(SYNC_PERIOD);
            }
            is_same(&wanted, &had)
        });
        if is_asked { Before::This } else { Before::Another }
    }
}

/// How a location stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// A vault's: nobody needs to be asked.
    Vault,
    /// In force since before anybody could be asked, and soon on record as approved.
    Grandfathered,
    /// What Velero has is in force since then; what is asked for now waits for approval.
    GrandfatheredAsItWas,
    /// This spec is in force; `is_current`: it is the one the tenant asks for now.
    InForce {
        spec: Fields,
        is_current: bool,
    },
    Pending,
    /// The same, of another spec than the one asked for now.
    PendingForAnother,
    Rejected,
    Denied,
}

/// Whether two specs ask for the same, whichever way they are written.
fn is_same(one: &Fields, other: &Fields) -> bool {
    meaning(one) == meaning(other)
}

impl Request {
    fn approved(&self) -> Option<&Fields> {
        self.status.location.as_ref().and_then(|asked| asked.approved_spec.as_ref())
    }

    fn requested(&self) -> Option<&Fields> {
        self.status.location.as_ref().map(|asked| &asked.requested_spec)
    }

    fn requests(&self, spec: &Fields) -> bool {
        self.requested().is_some_and(|requested| is_same(requested, spec))
    }

    /// Nobody has approved anything of it, or rejected it.
    fn is_undecided(&self) -> bool {
        self.requested().is_none() || (self.decision == Decision::Pending && self.approved().is_none())
    }

    /// It asks for a change that nobody has decided about, and that is not asked for any more.
    fn was_taken_back(&self, spec: &Fields) -> bool {
        self.requested().is_some() && self.is_undecided() && !self.requests(spec)
    }

    fn approves(&self, spec: &Fields) -> bool {
        self.approved().is_some_and(|approved| is_same(approved, spec))
    }
}

/// What is in force of a location that asks for `spec`. `request`: that of the location, proven to be its own.
pub fn standing(policy: OwnBuckets, spec: &Fields, was: Before, request: Option<&Request>) -> Standing {
    let current = || Standing::InForce { spec: spec.clone(), is_current: true };
    let before = |request: &Request| match request.approved() {
        Some(approved) => Standing::InForce { spec: approved.clone(), is_current: is_same(approved, spec) },
        None => Standing::Pending,
    };
    match (policy, request) {
        (OwnBuckets::Deny, _) => Standing::Denied,
        (OwnBuckets::Allow, Some(Request { decision: Decision::Reject, .. })) => Standing::Rejected,
        (OwnBuckets::Allow, _) => current(),
        (OwnBuckets::Approve, request)
            if was == Before::This && request.is_none_or(|it| it.requested().is_none() || it.was_taken_back(spec)) =>
        {
            Standing::Grandfathered
        }
        (OwnBuckets::Approve, request) if was == Before::Another && request.is_none_or(Request::is_undecided) => {
            Standing::GrandfatheredAsItWas
        }
        (OwnBuckets::Approve, None) => Standing::Pending,
        (OwnBuckets::Approve, Some(request)) => match request.decision {
            Decision::Approve if request.requests(spec) => current(),
            Decision::Approve => before(request),
            Decision::Pending if request.awaits_change => before(request),
            Decision::Pending if request.requested().is_some() && !request.requests(spec) => {
                Standing::PendingForAnother
            }
            Decision::Pending => Standing::Pending,
            Decision::Reject => Standing::Rejected,
        },
    }
}

/// As [`standing`], of a location whose request cannot be read: nobody knows what was decided, and nothing is in force that may have been
/// rejected.
pub fn standing_unknown(policy: OwnBuckets) -> Standing {
    if policy == OwnBuckets::Deny { Standing::Denied } else { Standing::Pending }
}

impl Standing {
    /// Nothing of the location may be with Velero.
    pub(super) fn is_withheld(&self) -> bool {
        matches!(self, Standing::Pending | Standing::PendingForAnother | Standing::Rejected | Standing::Denied)
    }

    /// Only an administrator's other decision helps.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Standing::Rejected | Standing::Denied)
    }

    pub(super) fn tell(&self, conditions: &mut Conditions, now: &Timestamp) {
        let mut approved = |truth, reason, message: &str| {
            conditions.set(APPROVED, truth, reason, message, now);
        };
        match self {
            // Said for good: a location that is no vault's any more has not been there before approvals.
            Standing::Vault => approved(Truth::True, "VaultLocation", "the location is of the BackupVault of its name"),
            Standing::Grandfathered | Standing::GrandfatheredAsItWas => {}
            Standing::InForce { .. } => approved(
                Truth::True,
                "BslSpecApproved",
                "NonAdminBackupStorageLocationRequest approval decision set to Approve",
            ),
            Standing::Pending => approved(
                Truth::False,
                "BslSpecApprovalPending",
                "NonAdminBackupStorageLocationRequest approval pending",
            ),
            Standing::PendingForAnother => approved(
                Truth::False,
                "BslSpecApprovalPending",
                "NonAdminBackupStorageLocationRequest approval pending, of an earlier spec; to ask for another one delete this \
                 location and make it anew",
            ),
            Standing::Rejected => approved(
                Truth::False,
                "BslSpecRejected",
                "NonAdminBackupStorageLocationRequest approval decision set to Reject",
            ),
            Standing::Denied => approved(
                Truth::False,
                "OwnBucketsDenied",
                "buckets of tenants' own are not allowed on this cluster; make a BackupVault",
            ),
        }
        match self {
            Standing::InForce { is_current: false, .. } | Standing::GrandfatheredAsItWas => {
                let message = "the change waits for approval; what was approved before stays in force";
                conditions.set("SpecUpdateApproved", Truth::False, "BslSpecApprovalPending", message, now);
            }
            _ => drop(conditions.remove("SpecUpdateApproved")),
        }
    }
}

/// The world around the request of one location.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Of the location, if there is one.
    pub origin: Option<Origin>,
    /// Its location, unless that is gone or goes.
    pub location: Option<Location>,
    pub policy: OwnBuckets,
    /// Whether that is what the administrator wants is known; see [`super::Policy::is_clear`].
    pub policy_is_clear: bool,
    /// Under the location's name in Velero's namespace, whoever made it.
    pub request: Option<Request>,
    /// Those that say they are of a location of this name and are not under its name in Velero's namespace, with what they would have
    /// to be of.
    pub of_others: Vec<(Origin, Request)>,
}

/// What matters of a location to its request.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    pub spec: Fields,
    /// Its spec may be asked for, and its name is on record.
    pub is_acceptable: bool,
    pub is_vaults: bool,
    pub was: Before,
}

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    CreateRequest {
        origin: Origin,
        decision: Decision,
    },
    /// Fails if the request is not the one seen.
    Decide {
        name: String,
        uid: String,
        version: String,
        decision: Decision,
        awaits_change: bool,
    },
    /// Fails if the request is not the one seen.
    WriteStatus {
        name: String,
        uid: String,
        version: String,
        status: RequestStatus,
    },
    /// At `version` where a decision since would be lost with it.
    DeleteRequest {
        request: Victim,
        version: Option<String>,
    },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::CreateRequest { .. } => "CreateApprovalRequest",
            Step::Decide { .. } => "DecideApprovalRequest",
            Step::WriteStatus { .. } => "WriteApprovalRequest",
            Step::DeleteRequest { .. } => "DeleteApprovalRequest",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIND: &str = "NonAdminBackupStorageLocationRequest";
        match self {
            Step::CreateRequest { origin, decision } => {
                write!(out, "create {KIND} {} (absent): {decision:?}", origin.nacuuid)
            }
            Step::Decide { name, uid, decision, .. } => write!(out, "set {KIND} {name} (uid {uid}) to {decision:?}"),
            Step::WriteStatus { name, uid, .. } => {
                write!(out, "say in {KIND} {name} (uid {uid}) what is to be decided")
            }
            Step::DeleteRequest { request: Victim { name, uid }, .. } => {
                write!(out, "delete {KIND} {name} (uid {uid}): there is nothing to decide")
            }
        }
    }
}

/// What to do next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let left = seen.of_others.iter().filter(|(origin, request)| origin.owns(&request.marks));
    let left = left.map(|(origin, request)| {
        let request = Victim { name: origin.nacuuid.clone(), uid: request.uid.clone() };
        vec![Step::DeleteRequest { request, version: None }]
    });
    let Plan { groups, next } = seen.origin.as_ref().map_or_else(Plan::settled, |origin| plan_own(seen, origin));
    // What was decided about a location that is gone says nothing about the one that has its name now.
    Plan { groups: left.chain(groups).collect(), next }
}

fn plan_own(seen: &Observed, origin: &Origin) -> Plan<Step> {
    let name = || origin.nacuuid.clone();
    let victim = |request: &Request| Victim { name: origin.nacuuid.clone(), uid: request.uid.clone() };
    let own = seen.request.as_ref().filter(|request| origin.owns(&request.marks));
    let Some(location) = seen.location.as_ref().filter(|location| !location.is_vaults) else {
        return match own {
            Some(request) => Plan::step(Step::DeleteRequest { request: victim(request), version: None }),
            None => Plan::settled(),
        };
    };
    if !location.is_acceptable || !seen.policy_is_clear || seen.policy == OwnBuckets::Deny {
        return Plan::settled();
    }
    let is_free = seen.policy == OwnBuckets::Allow;
    let Some(request) = &seen.request else {
        let decision = if is_free || location.was == Before::This { Decision::Approve } else { Decision::Pending };
        return Plan::step(Step::CreateRequest { origin: origin.clone(), decision });
    };
    if own.is_none() {
        return Plan::settled();
    }
    if location.was == Before::This && !is_free && request.was_taken_back(&location.spec) {
        // What is in force since before anybody could be asked is put on record by a request of its own.
        let version = Some(request.version.clone());
        return Plan::step(Step::DeleteRequest { request: victim(request), version });
    }
    let decide = |decision, awaits_change| {
        let (uid, version) = (request.uid.clone(), request.version.clone());
        Plan::step(Step::Decide { name: name(), uid, version, decision, awaits_change })
    };
    let spec = &location.spec;
    let is_noted = request.requested().is_some_and(|requested| request.approves(requested));
    let is_changed = !request.requests(spec);
    // What it is to show, and what of that is approved.
    let (shown, approved) = match (request.decision, request.requested()) {
        (Decision::Pending, _) if is_free => return decide(Decision::Approve, false),
        // A person has decided since: what waited for that waits no more.
        (Decision::Approve | Decision::Reject, _) if request.awaits_change => return decide(request.decision, false),
        (Decision::Approve, _) if is_free => (spec, Some(spec)),
        // An approval of what nobody had written down yet approves nothing.
        (Decision::Approve, None) if location.was != Before::This => return decide(Decision::Pending, false),
        (Decision::Approve, None) => (spec, Some(spec)),
        // The change was taken back before it was approved, or there is none.
        (Decision::Approve, Some(_)) if request.approves(spec) => (spec, Some(spec)),
        (Decision::Approve, Some(_)) if is_noted => return decide(Decision::Pending, true),
        // What was read is approved, whatever is asked for by now.
        (Decision::Approve, Some(requested)) => (requested, Some(requested)),
        (Decision::Pending, Some(_)) if request.awaits_change && is_noted && !is_changed => {
            return decide(Decision::Approve, false);
        }
        (Decision::Pending, Some(_)) if request.awaits_change && is_noted => (spec, request.approved()),
        // Somebody may be reading it.
        (Decision::Pending, Some(requested)) if request.awaits_change => (requested, request.approved()),
        // Taken back, or never given.
        (Decision::Pending | Decision::Reject, requested) => (requested.unwrap_or(spec), None),
    };
    let status = RequestStatus {
        phase: Some(match request.decision {
            Decision::Approve => RequestPhase::Approved,
            Decision::Reject => RequestPhase::Rejected,
            Decision::Pending => RequestPhase::Pending,
        }),
        location: Some(Asked {
            nacuuid: name(),
            name: origin.name.clone(),
            namespace: origin.namespace.clone(),
            requested_spec: shown.clone(),
            approved_spec: approved.cloned(),
        }),
    };
    if status == request.status {
        return Plan::settled();
    }
    Plan::step(Step::WriteStatus { name: name(), uid: request.uid.clone(), version: request.version.clone(), status })
}
