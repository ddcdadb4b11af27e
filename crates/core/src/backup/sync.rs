//! A Velero Backup that Velero found in a tenant's location and that has no `NonAdminBackup`: the one of a lost cluster, or one that
//! was let go. It is given back to the namespace the location belongs to, under the name it had there.
//!
//! What a bucket says of itself is not believed: the backup goes to the namespace of the location it lies in and to no other, and
//! only if that is where it says it comes from.

use std::fmt;

use serde_json::Value;

use super::{
    Progress,
    copied::copied,
    ownership::{Lies, Marks},
    velero::{Fields, without_others},
};
use crate::{
    name::is_dns_subdomain,
    plan::{self, Plan},
};

/// The world around one Velero Backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Its name.
    pub name: String,
    pub marks: Marks,
    pub spec: Fields,
    pub status: Fields,
    pub is_deleting: bool,
    pub lies: Lies,
    /// The tenant's location it lies in, unless that goes.
    pub location: Option<String>,
    /// Its owner has let it go for good.
    pub is_let_go: bool,
    /// There is a `NonAdminBackup` of the name it had, or its namespace goes.
    pub is_taken: bool,
    pub scheduled: Option<Scheduled>,
}

/// That a schedule made a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// UID of the schedule.
    pub by: String,
    /// The time the backup was made for.
    pub at: String,
}

impl Scheduled {
    /// As it is noted on a backup, by whomever: only what is a time goes on from there, and as short as that is written. What Velero has
    /// must stay readable.
    pub fn noted(by: &str, at: &str) -> Option<Self> {
        let at: jiff::Timestamp = at.parse().ok()?;
        Some(Self { by: by.to_owned(), at: at.to_string() })
    }
}

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Its schedule goes on to keep it, and to end it.
    CreateBackup { namespace: String, name: String, synced_from: String, spec: Fields, scheduled: Option<Scheduled> },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::CreateBackup { .. } => "CreateNonAdminBackup",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::CreateBackup { namespace, name, synced_from, .. } => {
                write!(
                    out,
                    "create NonAdminBackup {namespace}/{name} (absent): its location has Velero Backup {synced_from}"
                )
            }
        }
    }
}

/// What to do next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let (Lies::WithTenant(tenant), Some(location)) = (&seen.lies, &seen.location) else { return Plan::settled() };
    let Marks { managed: true, nacuuid: Some(nacuuid), namespace: Some(namespace), name: Some(name) } = &seen.marks
    else {
        return Plan::settled();
    };
    let is_finished = Progress(&seen.status).completed().is_some();
    let is_hers = namespace == tenant && *nacuuid == seen.name && is_dns_subdomain(name);
    if !is_hers || !is_finished || seen.is_deleting || seen.is_let_go || seen.is_taken {
        return Plan::settled();
    }
    // Who writes the bucket decides how long it is, and what is too long nobody is let in with.
    let mut spec = copied(&without_others(&seen.spec));
    spec.insert("storageLocation".into(), Value::String(location.clone()));
    Plan::step(Step::CreateBackup {
        namespace: namespace.clone(),
        name: name.clone(),
        synced_from: nacuuid.clone(),
        spec,
        scheduled: seen.scheduled.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backup::ownership::Origin;

    fn found() -> Observed {
        let origin = Origin { namespace: "shop".into(), name: "nightly".into(), nacuuid: "shop-nightly-1".into() };
        let fields = |value: Value| value.as_object().cloned().unwrap_or_default();
        Observed {
            name: origin.nacuuid.clone(),
            marks: origin.marks(),
            spec: fields(json!({ "storageLocation": "shop-here-1", "ttl": "1h" })),
            status: fields(json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z" })),
            is_deleting: false,
            lies: Lies::WithTenant("shop".into()),
            location: Some("here".into()),
            is_let_go: false,
            is_taken: false,
            scheduled: Some(Scheduled { by: "s1".into(), at: "2026-01-01T00:00:00Z".into() }),
        }
    }

    #[test]
    fn a_backup_in_a_tenants_location_comes_back_under_its_name() {
        let plan = plan(&found());
        let Some(Step::CreateBackup { namespace, name, spec, scheduled, .. }) = plan.iter().next() else {
            panic!("{plan}")
        };
        assert_eq!((namespace.as_str(), name.as_str(), &spec["storageLocation"]), ("shop", "nightly", &json!("here")));
        assert_eq!(*scheduled, found().scheduled, "as one of its schedule");
    }

    #[test]
    fn what_velero_added_about_others_does_not_come_back() {
        let mut seen = found();
        seen.spec.insert("excludedNamespaces".into(), json!(["secret-project"]));
        seen.spec.insert("volumeSnapshotLocations".into(), json!(["theirs"]));
        let plan = plan(&seen);
        let Some(Step::CreateBackup { spec, .. }) = plan.iter().next() else { panic!("{plan}") };
        assert_eq!(Value::Object(spec.clone()), json!({ "storageLocation": "here", "ttl": "1h" }));
    }

    #[test]
    fn a_backup_that_says_too_much_of_itself_comes_back_with_less() {
        let mut seen = found();
        seen.spec.insert("includedResources".into(), json!(vec!["<".repeat(100); 1_000]));
        let plan = plan(&seen);
        let Some(Step::CreateBackup { spec, .. }) = plan.iter().next() else { panic!("{plan}") };
        assert_eq!((&spec["storageLocation"], &spec["ttl"]), (&json!("here"), &json!("1h")));
        assert!(json!(spec).to_string().len() < 10_000, "nobody would let it in");
    }

    #[test]
    fn only_a_time_is_passed_on_and_no_more_of_it_than_that() {
        let noted = |at: &str| Scheduled::noted("s1", at).map(|noted| noted.at);
        assert_eq!(noted("2026-01-01T03:00:00Z").as_deref(), Some("2026-01-01T03:00:00Z"));
        assert_eq!(noted("2026-01-01T05:00:00+02:00").as_deref(), Some("2026-01-01T03:00:00Z"));
        let long = format!("2026-01-01T03:00:00.{}Z", "0".repeat(250_000));
        assert!(noted(&long).is_none_or(|noted| noted.len() < 40));
        assert_eq!(["", "soon", &"x".repeat(250_000)].map(noted), [None, None, None]);
    }

    #[test]
    fn what_says_it_is_somebody_elses_goes_to_nobody() {
        let forged = |change: fn(&mut Observed)| {
            let mut seen = found();
            change(&mut seen);
            assert!(plan(&seen).is_settled(), "{seen:?}");
        };
        forged(|seen| seen.lies = Lies::WithTenant("bank".into()));
        forged(|seen| seen.lies = Lies::WithAdministrator);
        forged(|seen| seen.lies = Lies::Nowhere);
        forged(|seen| seen.marks.managed = false);
        forged(|seen| seen.marks.nacuuid = Some("shop-nightly-2".into()));
        forged(|seen| seen.marks.name = None);
        forged(|seen| seen.marks.name = Some("../nightly".into()));
        forged(|seen| seen.status = Fields::new());
        forged(|seen| seen.is_let_go = true);
        forged(|seen| seen.is_taken = true);
        forged(|seen| seen.is_deleting = true);
        forged(|seen| seen.location = None);
    }
}
