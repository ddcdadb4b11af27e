//! What is left in Velero's namespace of a request that is gone: Velero was closed to us when its namespace went, say, or somebody
//! took its finalizer away.
//!
//! A request is known by the name we chose for it, which holds its UID: who is made again under the old name does not keep what its
//! predecessor left. What Velero finds in a bucket it makes again as often as it is deleted, so that a Backup goes only when its
//! location is gone; see [`super::sync`] for the others.

use std::fmt;

use super::{
    Victim,
    ownership::{Lies, Marks},
};
use crate::{
    plan::{self, Plan},
    storage::is_object_name,
};

/// The world around one object in Velero's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub object: Victim,
    /// Its version.
    pub version: String,
    pub marks: Marks,
    pub is_deleting: bool,
    /// The name we chose for the request its marks tell of, if there is one.
    pub request: Option<String>,
    /// Where it lies, if it is a Backup.
    pub lies: Option<Lies>,
    /// Velero has begun with it and is not done.
    pub is_at_work: bool,
}

/// One external call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Only as it was seen: Velero may have begun with it meanwhile.
    Delete { object: Victim, version: String },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::Delete { .. } => "DeleteLeftover",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Delete { object: Victim { name, uid }, .. } => {
                write!(out, "delete {name} (uid {uid}): its request is gone")
            }
        }
    }
}

/// What to do next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let Marks { managed: true, nacuuid: Some(nacuuid), namespace: Some(namespace), name: Some(name) } = &seen.marks
    else {
        return Plan::settled();
    };
    // A bucket may say anything: what is no name is nobody's.
    let are_names = is_object_name(namespace) && is_object_name(name);
    let is_ours = *nacuuid == seen.object.name && are_names;
    let is_held = seen.request.as_ref() == Some(nacuuid);
    let comes_back = seen.lies.as_ref().is_some_and(|lies| *lies != Lies::Nowhere);
    if !is_ours || is_held || comes_back || seen.is_deleting || seen.is_at_work {
        return Plan::settled();
    }
    Plan::step(Step::Delete { object: seen.object.clone(), version: seen.version.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::ownership::Origin;

    fn left() -> Observed {
        let origin = Origin { namespace: "shop".into(), name: "nightly".into(), nacuuid: "shop-nightly-1".into() };
        Observed {
            object: Victim { name: origin.nacuuid.clone(), uid: "u1".into() },
            version: "7".into(),
            marks: origin.marks(),
            is_deleting: false,
            request: None,
            lies: None,
            is_at_work: false,
        }
    }

    #[test]
    fn what_a_request_has_left_goes_and_what_one_of_the_same_name_has_stays() {
        let goes = |change: fn(&mut Observed)| {
            let mut seen = left();
            change(&mut seen);
            !plan(&seen).is_settled()
        };
        assert!(goes(|_| {}));
        assert!(goes(|seen| seen.request = Some("shop-nightly-2".into())), "made again under the old name");
        assert!(goes(|seen| seen.lies = Some(Lies::Nowhere)));
        assert!(!goes(|seen| seen.request = Some("shop-nightly-1".into())));
        assert!(!goes(|seen| seen.is_deleting = true));
        assert!(!goes(|seen| seen.is_at_work = true), "under Velero's hands");
        assert!(!goes(|seen| seen.lies = Some(Lies::WithAdministrator)), "Velero would find it again");
        assert!(!goes(|seen| seen.lies = Some(Lies::WithTenant("shop".into()))));
    }

    #[test]
    fn what_is_not_marked_as_ours_in_every_way_stays() {
        let other = || Some("other".to_owned());
        for marks in [
            Marks { managed: false, ..left().marks },
            Marks { nacuuid: other(), ..left().marks },
            Marks { nacuuid: None, ..left().marks },
            Marks { namespace: None, ..left().marks },
            Marks { name: None, ..left().marks },
            Marks { namespace: Some("..".into()), ..left().marks },
            Marks { name: Some("x?watch=true".into()), ..left().marks },
            Marks::default(),
        ] {
            assert!(plan(&Observed { marks, ..left() }).is_settled());
        }
    }
}
