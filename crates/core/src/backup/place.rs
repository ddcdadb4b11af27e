//! Where a backup goes, or lies.

use std::{cell::LazyCell, fmt};

use jiff::Timestamp as Moment;

use super::ownership::Lies;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a location of its namespace.
    Location(String),
    /// In a vault of its namespace, whose location may be still to come.
    Vault(String),
    /// In a location that is gone, by the name Velero knew it by.
    Gone(String),
    /// In Velero's default location.
    Default,
}

impl Place {
    pub fn is_at(&self, location: &str) -> bool {
        matches!(self, Place::Location(name) | Place::Vault(name) if name == location)
    }

    /// Whether a backup there goes with the location of that name, which Velero knows as `known_as`. What waits for a vault goes
    /// into whichever location that gets.
    pub fn goes_with(&self, location: &str, known_as: &str) -> bool {
        match self {
            Place::Location(name) => name == location,
            Place::Gone(name) => name == location || name == known_as,
            Place::Vault(_) | Place::Default => false,
        }
    }

    /// Where Velero has a backup, whatever it names now; else the location it names; else that of its namespace's vault.
    pub fn of(named: Option<&str>, stored: Option<Stored>, home: &Home<'_>) -> Self {
        match (named, stored.map(Stored::place)) {
            // Known to people by the name they gave it.
            (Some(named), Some(Place::Gone(_))) => Place::Gone(named.to_owned()),
            (_, Some(place)) => place,
            (Some(named), None) => Place::Location(named.to_owned()),
            (None, None) => home.0.clone().map_or(Place::Default, Place::Vault),
        }
    }
}

/// Where Velero has a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub lies: Lies,
    /// The location, by the name Velero knows it by.
    pub known_as: Option<String>,
    /// The location of the backup's namespace that Velero knows by that name.
    pub own: Option<String>,
}

impl Stored {
    fn place(self) -> Place {
        match self {
            Stored { lies: Lies::WithAdministrator, .. } | Stored { known_as: None, .. } => Place::Default,
            Stored { own: Some(own), .. } => Place::Location(own),
            Stored { known_as: Some(known_as), own: None, .. } => Place::Gone(known_as),
        }
    }
}

/// What counts of a vault where a backup looks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vault<'a> {
    pub name: &'a str,
    pub created: Option<Moment>,
    pub is_deleting: bool,
}

/// The vault of a namespace for backups that name no location. Looked for by the first that needs it: there may be any number of
/// vaults, and any number of backups.
pub struct Home<'a>(LazyCell<Option<String>, Box<dyn FnOnce() -> Option<String> + 'a>>);

impl fmt::Debug for Home<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Home").finish_non_exhaustive()
    }
}

impl<'a> Home<'a> {
    pub fn found_by(look: impl FnOnce() -> Option<String> + 'a) -> Self {
        Self(LazyCell::new(Box::new(look)))
    }
}

/// Of several vaults that stay the oldest; of those made in one second, by name.
pub fn home<'a>(vaults: impl IntoIterator<Item = Vault<'a>>) -> Option<String> {
    let staying = vaults.into_iter().filter(|vault| !vault.is_deleting);
    staying.min_by_key(|vault| (vault.created, vault.name)).map(|vault| vault.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(name: &str, second: i64, is_deleting: bool) -> Vault<'_> {
        Vault { name, created: Moment::from_second(1_800_000_000 + second).ok(), is_deleting }
    }

    #[test]
    fn the_vaults_of_a_namespace_are_gone_through_once_however_many_backups_wait() {
        let looks = std::cell::Cell::new(0);
        let home = Home::found_by(|| {
            looks.set(looks.get() + 1);
            home((0..1_000).map(|second| vault("safe", second, false)))
        });
        let stored = || Some(Stored { lies: Lies::WithAdministrator, known_as: None, own: None });
        for _ in 0..1_000 {
            assert_eq!(Place::of(Some("there"), None, &home), Place::Location("there".into()));
            assert_eq!(Place::of(None, stored(), &home), Place::Default);
        }
        assert_eq!(looks.get(), 0, "nobody needs to know");
        for _ in 0..1_000 {
            assert_eq!(Place::of(None, None, &home), Place::Vault("safe".into()));
        }
        assert_eq!(looks.get(), 1);
    }

    #[test]
    fn what_only_waits_for_a_vault_does_not_go_with_a_location_of_its_name() {
        let safe = || "safe".to_owned();
        for (place, goes) in [
            (Place::Location(safe()), true),
            (Place::Location("other".into()), false),
            (Place::Gone(safe()), true),
            (Place::Gone("shop-safe-1".into()), true),
            (Place::Gone("shop-safe-2".into()), false),
            (Place::Vault(safe()), false),
            (Place::Default, false),
        ] {
            assert_eq!(place.goes_with("safe", "shop-safe-1"), goes, "{place:?}");
        }
    }

    #[test]
    fn a_backup_is_where_velero_has_it_then_where_it_says_then_in_the_vault() {
        let own = || Some("here".to_owned());
        for named in [None, Some("there")] {
            for lies in
                [None, Some(Lies::Nowhere), Some(Lies::WithAdministrator), Some(Lies::WithTenant("shop".into()))]
            {
                for known_as in [None, Some("shop-here-1".to_owned())] {
                    for own in [None, own()] {
                        let stored =
                            lies.clone().map(|lies| Stored { lies, known_as: known_as.clone(), own: own.clone() });
                        let place = Place::of(named, stored, &Home::found_by(|| Some("safe".into())));
                        let wanted = match (named, &lies, &known_as, &own) {
                            (Some(named), None, ..) => Place::Location(named.into()),
                            (None, None, ..) => Place::Vault("safe".into()),
                            (_, Some(Lies::WithAdministrator), ..) | (_, _, None, _) => Place::Default,
                            (_, Some(_), Some(_), Some(own)) => Place::Location(own.clone()),
                            (Some(named), Some(_), Some(_), None) => Place::Gone(named.into()),
                            (None, Some(_), Some(known_as), None) => Place::Gone(known_as.clone()),
                        };
                        assert_eq!(place, wanted, "{named:?} {lies:?} {known_as:?} {own:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn of_several_vaults_the_oldest_that_stays_is_home() {
        let place = |vaults: &[Vault<'_>]| Place::of(None, None, &Home::found_by(|| home(vaults.iter().copied())));
        assert_eq!(place(&[]), Place::Default);
        assert_eq!(place(&[vault("a", 0, true)]), Place::Default);
        assert_eq!(place(&[vault("a", 2, false), vault("b", 1, false)]), Place::Vault("b".into()));
        assert_eq!(place(&[vault("b", 1, false), vault("a", 1, false)]), Place::Vault("a".into()));
        assert_eq!(place(&[vault("a", 0, true), vault("b", 1, false)]), Place::Vault("b".into()));
    }

    #[test]
    fn a_backup_waits_for_the_location_of_its_place() {
        assert!(Place::Location("a".into()).is_at("a") && Place::Vault("a".into()).is_at("a"));
        assert!(
            !Place::Vault("a".into()).is_at("b") && !Place::Gone("a".into()).is_at("a") && !Place::Default.is_at("a")
        );
    }
}
