//! Names that follow from a vault's own. None of them can be that of a claim, or of another vault.

use crate::storage::{CephUser, tenant};

/// The longest name of a vault: everything that is named after it must be a name too.
pub const LONGEST_NAME: usize = 50;

/// Whether something can be the name of a vault: one label, and short enough.
pub fn is_valid(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    name.len() <= LONGEST_NAME
        && ends.into_iter().all(|end| end.is_some_and(|byte| inside(*byte)))
        && bytes.iter().all(|byte| inside(*byte) || *byte == b'-')
}

/// The Ceph user of a vault. Tenants of namespaces are in lower case, so that nobody but the operator can make a bucket in
/// this one.
pub fn ceph_user(tenant_prefix: &str, namespace: &str, vault: &str) -> CephUser {
    CephUser { tenant: format!("{}_VAULT", tenant(tenant_prefix, namespace)), id: vault.to_owned() }
}

/// The bucket of a vault, in the tenant of its user.
pub fn bucket(vault: &str) -> String {
    format!("vault-{vault}")
}

/// Name of the S3User that records a vault's user. Records of claims have a dot, this has none; and with every dash of theirs
/// doubled, the single one between namespace and vault can be told from the others.
pub fn record_name(namespace: &str, vault: &str) -> String {
    let doubled = |name: &str| name.replace('-', "--");
    format!("vault-{}-{}", doubled(namespace), doubled(vault))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::storage;

    #[test]
    fn a_vault_has_a_label_for_a_name() {
        for name in ["a", "backups", "a-b-1", &"x".repeat(LONGEST_NAME)] {
            assert!(is_valid(name), "{name}");
        }
        for name in ["", "a.b", "A", "-a", "a-", "a_b", &"x".repeat(LONGEST_NAME + 1)] {
            assert!(!is_valid(name), "{name}");
        }
    }

    #[test]
    fn no_two_vaults_and_no_claim_share_a_record() {
        let names = ["a", "b", "a-b", "b-a", "a--b", "vault", "vault-a", "a-vault", "a-b-a", "a-a"];
        let mut records = BTreeSet::new();
        for namespace in names {
            for vault in names {
                let record = record_name(namespace, vault);
                assert!(!record.contains('.') && records.insert(record.clone()), "{record}");
                assert!(storage::record_name(namespace, vault).contains('.'));
            }
        }
    }

    #[test]
    fn no_namespace_has_a_vaults_tenant() {
        let user = ceph_user("lab", "team-a", "backups");
        assert_eq!(user.to_string(), "lab_team_a_VAULT$backups");
        for namespace in ["team-a", "team-a-vault", "vault"] {
            assert_ne!(storage::tenant("lab", namespace), user.tenant);
        }
    }

    #[test]
    fn the_longest_names_give_names_kubernetes_and_s3_take() {
        let (namespace, vault) = (["a"; 32].join("-"), ["b"; 25].join("-"));
        assert!(namespace.len() == 63 && is_valid(&vault));
        assert!(record_name(&namespace, &vault).len() <= 253 && bucket(&vault).len() <= 63);
    }
}
