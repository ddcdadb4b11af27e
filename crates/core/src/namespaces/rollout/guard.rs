//! An edit that would delete much waits until somebody confirms it: `resources: []` by mistake empties no cluster.

use super::Share;
use crate::namespaces::{
    inventory::{Applied, State},
    manifest::Identity,
};

/// What may be deleted unasked where the class does not say: so many objects,
const MOST_UNASKED: u64 = 100;
/// or this part of what the class has made, whichever is more.
const PART_UNASKED: Share = Share::Percent(10);

/// What a revision would delete, of what a class has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    pub objects: u64,
    pub made: u64,
}

impl Deletions {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { objects: self.objects.saturating_add(other.objects), made: self.made.saturating_add(other.made) }
    }

    /// How many may go unasked.
    pub fn limit(self, most: Option<Share>) -> u64 {
        most.map_or_else(|| PART_UNASKED.of(self.made).max(MOST_UNASKED), |most| most.of(self.made))
    }

    pub fn are_beyond(self, most: Option<Share>) -> bool {
        self.objects > self.limit(most)
    }
}

/// What of these objects a revision would delete, sooner or later: all but what it wants, or may want once it fits. Rights are not
/// counted: taking them away must never wait for a guard. Neither is what was somebody's before, which is released, nor what has been
/// deleted already, nor what waits to go because what is in force would delete it as well: that was let in, and whoever keeps it
/// waiting keeps nothing else waiting. What waits to be let go of is counted.
pub fn deletions_in(
    made: &[Applied],
    is_wanted: impl Fn(&Identity) -> bool,
    is_let_in: impl Fn(&Identity) -> bool,
) -> Deletions {
    let mut deletions = Deletions::default();
    for applied in made.iter().filter(|applied| applied.uid.is_some() && !applied.is_deleted()) {
        let identity = applied.identity();
        let waits = applied.state == State::Pruning && is_let_in(&identity);
        let goes = !applied.adopted && !identity.gives_rights() && !is_wanted(&identity) && !waits;
        let one = Deletions { objects: u64::from(goes), made: 1 };
        deletions = deletions.and(one);
    }
    deletions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::inventory::held;

    fn applied(api_version: &str, kind: &str, name: &str) -> Applied {
        Applied {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: Some("u".into()),
            state: State::Applied,
            ..Applied::default()
        }
    }

    #[test]
    fn a_hundred_objects_or_a_tenth_of_all_may_go_unasked_whichever_is_more() {
        let beyond = |objects, made, most| Deletions { objects, made }.are_beyond(most);
        assert!(!beyond(100, 100, None) && beyond(101, 101, None), "`resources: []` in a small cluster");
        assert!(!beyond(1_000, 10_000, None) && beyond(1_001, 10_000, None));
        assert!(beyond(1, 10_000, Some(Share::Number(0))), "the class wants to be asked about each");
        assert!(!beyond(10_000, 10_000, Some(Share::Percent(100))), "the class wants never to be asked");
        assert!(!beyond(0, 0, Some(Share::Number(0))));
    }

    #[test]
    fn rights_that_are_taken_away_and_objects_that_are_given_back_are_no_deletions() {
        let rights = "rbac.authorization.k8s.io/v1";
        let made = [
            applied("v1", "ConfigMap", "stays"),
            applied("v1", "ConfigMap", "goes"),
            applied(rights, "Role", "r"),
            applied(rights, "RoleBinding", "r"),
            Applied { adopted: true, ..applied("v1", "ConfigMap", "was-theirs") },
            Applied { state: State::Pruning, message: Some(held(None)), ..applied("v1", "ConfigMap", "going") },
            Applied { state: State::Pruning, ..applied("v1", "ConfigMap", "waits") },
            Applied { uid: None, ..applied("v1", "ConfigMap", "never-made") },
        ];
        let wanted = made[0].identity();
        let counted = deletions_in(&made, |identity| *identity == wanted, |_| false);
        assert_eq!(counted, Deletions { objects: 2, made: 6 });
    }

    #[test]
    fn what_was_let_in_to_go_and_waits_is_not_asked_about_again() {
        let made = [
            applied("v1", "ConfigMap", "goes-now"),
            Applied { state: State::Pruning, ..applied("v1", "ConfigMap", "waits") },
            Applied { state: State::Pruning, ..applied("v1", "ConfigMap", "was-to-be-kept") },
        ];
        let kept = made[2].identity();
        let counted = deletions_in(&made, |_| false, |identity| *identity != kept);
        assert_eq!(counted, Deletions { objects: 2, made: 3 });
    }
}
