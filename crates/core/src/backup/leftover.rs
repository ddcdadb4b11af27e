//! What is left in Velero's namespace of a request that is gone: Velero was closed to us when its namespace went, say, or somebody
//! took its finalizer away.
//!
//! A request is known by the name we chose for it, which holds its UID: who is made again under the old name does not keep what its
//! predecessor left. What Velero finds in a bucket it makes again as often as it is deleted, so that a Backup of which something may be
//! stored goes only when its location is gone; see [`super::sync`] for the others. One that waits in a location that is gone goes whoever
//! has asked for it: it can only fail. A location goes after whatever waits in it, as [`super::location`] has it.

use std::{fmt, time::Duration};

use super::{
    Victim,
    location::{InQueue, MOMENT},
    ownership::{Lies, Marks},
    restore::OVERDUE,
};
use crate::{
    name::is_dns_subdomain,
    plan::{self, Plan},
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
    /// Backups in it that Velero has not begun with, if it is a location.
    pub in_queue: Vec<InQueue>,
    pub hands: Hands,
    /// The API server judges by it what Velero writes.
    pub counts_as_unfinished: bool,
}

/// How far Velero is with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// Its turn has not come: nothing of it is stored.
    Waiting,
    /// It is done.
    Off,
    AtWork,
    /// It finishes a Restore, for so long since that was noted on it.
    Finishing(Option<Duration>),
}

/// One external call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Only as it was seen: Velero may have begun with it meanwhile.
    Delete { object: Victim, version: String },
    /// A Backup that waits in a location that goes; only as it was seen.
    TakeFromQueue { backup: Victim, version: String },
    /// Since when Velero finishes a Restore nobody but the Restore itself can tell.
    NoteFinishing(Victim),
    /// What Velero does not get done with is over; only as it was seen: Velero may get done with it.
    End { object: Victim, version: String },
    /// What Velero is done with judges nothing any more.
    CountAsFinished(Victim),
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::Delete { .. } => "DeleteLeftover",
            Step::TakeFromQueue { .. } => "DeleteVeleroBackup",
            Step::NoteFinishing(_) => "NoteFinishing",
            Step::End { .. } => "EndVeleroRestore",
            Step::CountAsFinished(_) => "CountAsFinished",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Delete { object: Victim { name, uid }, .. } => {
                write!(out, "delete {name} (uid {uid}): its request is gone")
            }
            Step::TakeFromQueue { backup: Victim { name, uid }, .. } => {
                write!(out, "delete Velero Backup {name} (uid {uid}): it waits in a location that goes")
            }
            Step::NoteFinishing(Victim { name, uid }) => {
                write!(out, "note on {name} (uid {uid}) that Velero finishes it: its request is gone")
            }
            Step::End { object: Victim { name, uid }, .. } => {
                write!(out, "end {name} (uid {uid}): its request is gone and Velero does not get done with it")
            }
            Step::CountAsFinished(Victim { name, uid }) => {
                write!(out, "unlabel {name} (uid {uid}): Velero is done with it")
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
    let are_names = is_dns_subdomain(namespace) && is_dns_subdomain(name);
    let is_ours = *nacuuid == seen.object.name && are_names;
    // Velero would come to it, find no location, and serve nobody else for a minute or longer.
    let is_stranded = seen.hands == Hands::Waiting && seen.lies == Some(Lies::Nowhere);
    let is_held = seen.request.as_ref() == Some(nacuuid) && !is_stranded;
    let is_stored = seen.hands != Hands::Waiting;
    let comes_back = is_stored && seen.lies.as_ref().is_some_and(|lies| *lies != Lies::Nowhere);
    if !is_ours || is_held || comes_back {
        return Plan::settled();
    }
    let (object, version) = (seen.object.clone(), seen.version.clone());
    match seen.hands {
        Hands::AtWork => Plan::settled(),
        Hands::Finishing(None) => Plan::step(Step::NoteFinishing(object)),
        Hands::Finishing(Some(ago)) => match OVERDUE.saturating_sub(ago) {
            Duration::ZERO => Plan::step(Step::End { object, version }),
            rest => Plan::settled().look_again(rest),
        },
        Hands::Off if seen.in_queue.iter().any(|waiting| waiting.is_of(namespace)) => {
            let own = || seen.in_queue.iter().filter(|waiting| waiting.is_of(namespace));
            let waiting = own().filter(|waiting| !waiting.is_next).map(|waiting| Step::TakeFromQueue {
                backup: waiting.backup.clone(),
                version: waiting.version.clone(),
            });
            // The location goes at the next look: Velero may have come to one of them meanwhile.
            Plan { groups: vec![waiting.collect()], next: plan::Next::After(MOMENT) }
        }
        // Velero may keep one that is deleted for as long as it does not reach what is stored of it.
        Hands::Waiting | Hands::Off => {
            let counts = seen.counts_as_unfinished.then(|| Step::CountAsFinished(object.clone()));
            let delete = (!seen.is_deleting).then_some(Step::Delete { object, version });
            Plan::steps(delete.into_iter().chain(counts))
        }
    }
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
            in_queue: Vec::new(),
            hands: Hands::Off,
            counts_as_unfinished: false,
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
        assert!(!goes(|seen| seen.hands = Hands::AtWork), "under Velero's hands");
        assert!(!goes(|seen| seen.lies = Some(Lies::WithAdministrator)), "Velero would find it again");
        assert!(!goes(|seen| seen.lies = Some(Lies::WithTenant("shop".into()))));
    }

    #[test]
    fn what_waits_for_velero_does_not_stay_in_its_queue_without_its_request() {
        for lies in [Lies::Nowhere, Lies::WithAdministrator, Lies::WithTenant("shop".into())] {
            let waiting = Observed { hands: Hands::Waiting, lies: Some(lies), ..left() };
            assert_eq!(plan(&waiting).iter().map(plan::Step::kind).collect::<Vec<_>>(), ["DeleteLeftover"]);
            let is_stranded = waiting.lies == Some(Lies::Nowhere);
            let held = Observed { request: Some("shop-nightly-1".into()), ..waiting };
            assert_eq!(plan(&held).is_settled(), !is_stranded, "nothing can be stored where no location is");
        }
    }

    #[test]
    fn a_location_that_was_left_goes_after_what_waits_in_it() {
        let in_queue = |namespace: &str, is_next| {
            let origin = Origin { namespace: namespace.into(), name: "b".into(), nacuuid: format!("{namespace}-b-1") };
            let backup = Victim { name: origin.nacuuid.clone(), uid: "b1".into() };
            InQueue { backup, version: "3".into(), marks: origin.marks(), is_next }
        };
        let planned = |in_queue: Vec<InQueue>| {
            let plan = plan(&Observed { in_queue, ..left() });
            (plan.iter().map(plan::Step::kind).collect::<Vec<_>>(), plan.next)
        };
        let gone = (vec!["DeleteLeftover"], plan::Next::Settled);
        let soon = plan::Next::After(Duration::from_secs(2));
        assert_eq!(planned(vec![]), gone);
        assert_eq!(planned(vec![in_queue("shop", false); 2]), (vec!["DeleteVeleroBackup"; 2], soon));
        assert_eq!(planned(vec![in_queue("shop", true)]), (vec![], soon), "Velero looks at it next");
        assert_eq!(
            planned(vec![in_queue("shop", true), in_queue("shop", false)]),
            (vec!["DeleteVeleroBackup"], soon),
            "and at this one it is not to come"
        );
        assert_eq!(planned(vec![in_queue("bank", true)]), gone, "what others store there is none of our business");
        let held = Observed { request: Some("shop-nightly-1".into()), ..left() };
        assert!(plan(&Observed { in_queue: vec![in_queue("shop", false)], ..held }).is_settled());
    }

    #[test]
    fn a_restore_that_velero_does_not_get_done_with_is_ended_in_the_end_and_judges_nothing_any_more() {
        let steps = |hands: Hands, is_deleting: bool, change: fn(&mut Observed)| {
            let mut seen = Observed { hands, is_deleting, counts_as_unfinished: true, ..left() };
            change(&mut seen);
            let plan = plan(&seen);
            (plan.iter().map(plan::Step::kind).collect::<Vec<_>>(), plan.next)
        };
        let settled = plan::Next::Settled;
        for is_deleting in [false, true] {
            let finishing =
                |ago: Option<u64>| steps(Hands::Finishing(ago.map(Duration::from_secs)), is_deleting, |_| {});
            assert_eq!(finishing(None), (vec!["NoteFinishing"], settled));
            assert_eq!(finishing(Some(3600)), (vec![], plan::Next::After(Duration::from_secs(23 * 3600))));
            assert_eq!(finishing(Some(24 * 3600)), (vec!["EndVeleroRestore"], settled));
        }
        assert_eq!(steps(Hands::Off, false, |_| {}).0, ["DeleteLeftover", "CountAsFinished"]);
        assert_eq!(steps(Hands::Off, true, |_| {}).0, ["CountAsFinished"], "Velero cannot reach what is stored of it");
        let held = steps(Hands::Finishing(None), false, |seen| seen.request = Some("shop-nightly-1".into()));
        assert!(held.0.is_empty(), "its request sees to it");
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
