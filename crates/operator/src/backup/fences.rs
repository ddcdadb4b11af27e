//! The fence around vaults: an admission policy the API server evaluates itself, so it stands while the operator is down.
//!
//! The location of a vault is written by the operator alone. What counts is the object as it is stored, controlled by a vault: a
//! copy of one (a restored backup, say) locks nobody out.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use crate::{
    cli::ManifestOptions,
    manifests::operator,
    policies::{condition, denied_unless, documents, matched, policy, trusted},
};

pub const VAULT_LOCATIONS: &str = "croft-vault-locations";

/// Each as a YAML document.
pub(super) fn manifests(options: &ManifestOptions) -> Vec<String> {
    documents(&vault_locations(&operator(&options.namespace))).into()
}

fn vault_locations(operator: &str) -> ValidatingAdmissionPolicy {
    let of_a_vault = "oldObject != null && oldObject.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'BackupVault' \
                      && owner.apiVersion.startsWith('croft.dev/') && owner.?controller.orValue(false))";
    policy(
        VAULT_LOCATIONS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched(
                "oadp.openshift.io",
                &["nonadminbackupstoragelocations"],
                &["UPDATE", "DELETE"],
                None,
            )),
            match_conditions: Some(vec![condition("of-a-vault", of_a_vault.to_owned())]),
            validations: Some(vec![denied_unless(
                trusted(operator),
                "'this location belongs to BackupVault ' + oldObject.metadata.name + ' and is written by the operator only: \
                 change or delete the vault'"
                    .to_owned(),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
