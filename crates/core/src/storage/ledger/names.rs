//! What ledgers and their entries are called, and whose they are by that.

use crate::name::is_dns_subdomain;

const OF_NAMESPACE: &str = "namespace.";
const OF_TEAM: &str = "team.";
const OF_HASHED_TEAM: &str = "team-by-hash.";
const VAULT: &str = "vault:";

/// The key of a claim's entry.
pub fn entry_key(namespace: &str, claim: &str) -> String {
    format!("{namespace}/{claim}")
}

/// The key of a vault's entry: no claim's name has a colon.
pub fn vault_entry_key(namespace: &str, vault: &str) -> String {
    entry_key(namespace, &format!("{VAULT}{vault}"))
}

/// The vault of an entry that is not a claim's, from the second part of its key.
pub fn vault_of_entry(name: &str) -> Option<&str> {
    name.strip_prefix(VAULT)
}

/// Namespace and claim, or vault, of an entry; nothing where none can be called so.
pub fn claim_of_entry(key: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| is_dns_subdomain(vault_of_entry(name).unwrap_or(name));
    key.split_once('/').filter(|(namespace, name)| is_dns_subdomain(namespace) && is_name(name))
}

/// The name of the ledger of a team, or of a namespace without a team. A namespace's name has no dot, and so no two share a
/// ledger. `hash` is for label values that are no object names.
pub fn ledger_name(team: Option<&str>, namespace: &str, hash: impl Fn(&str) -> String) -> String {
    match team {
        None => format!("{OF_NAMESPACE}{namespace}"),
        Some(team) if is_dns_subdomain(team) => format!("{OF_TEAM}{team}"),
        Some(team) => format!("{OF_HASHED_TEAM}{}", hash(team)),
    }
}

/// Whose books they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BooksOf {
    Namespace(String),
    Team(String),
}

impl BooksOf {
    /// By the name of the ledger, whatever it says of itself: anybody who may write it can have it say something else. A hash is
    /// told by the first of `teams` that has it.
    pub fn by_name(name: &str, hash: impl Fn(&str) -> String, teams: impl IntoIterator<Item = String>) -> Option<Self> {
        if let Some(namespace) = name.strip_prefix(OF_NAMESPACE) {
            return Some(Self::Namespace(namespace.to_owned()));
        }
        if let Some(team) = name.strip_prefix(OF_TEAM) {
            return Some(Self::Team(team.to_owned()));
        }
        name.strip_prefix(OF_HASHED_TEAM)?;
        teams.into_iter().find(|team| ledger_name(Some(team), "", &hash) == name).map(Self::Team)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> String {
        text.len().to_string()
    }

    #[test]
    fn every_team_and_every_namespace_has_a_ledger_of_its_own() {
        assert_eq!(ledger_name(None, "a", hash), "namespace.a");
        assert_eq!(ledger_name(Some("red"), "a", hash), "team.red");
        assert_eq!(ledger_name(Some("Red_Team"), "a", hash), "team-by-hash.8");
    }

    #[test]
    fn whose_a_ledger_is_follows_from_its_name() {
        let teams = || ["Red".to_owned(), "Red_Team".to_owned()];
        let of = |name: &str| BooksOf::by_name(name, hash, teams());
        assert_eq!(of("namespace.a"), Some(BooksOf::Namespace("a".into())));
        assert_eq!(of("team.red.blue"), Some(BooksOf::Team("red.blue".into())));
        assert_eq!(of("team-by-hash.8"), Some(BooksOf::Team("Red_Team".into())));
        assert_eq!((of("team-by-hash.9"), of("mine")), (None, None));
    }

    #[test]
    fn an_entry_that_no_claim_can_have_is_of_nobody() {
        assert_eq!(claim_of_entry("a/x.y"), Some(("a", "x.y")));
        for key in ["", "a", "a/", "/x", "a/b/c", "a/../b", "A/x", "a/x y", "a/x?dryRun=All"] {
            assert_eq!(claim_of_entry(key), None, "{key}");
        }
    }
}
