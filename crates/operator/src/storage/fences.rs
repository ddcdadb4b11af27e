//! The fence around teams: an admission policy the API server evaluates itself, so it stands while the operator is down.
//!
//! The label of a Namespace says whose limits count for it. Joining a team, changing it and leaving it need the verb `use` on
//! the S3TeamQuota of that name, whether or not there is one: who could leave would leave the limits behind.

use croft_api::{namespaces::USE_VERB, storage::TEAM_LABEL};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::GROUP;
use crate::policies::{Choice, Chosen};

pub const TEAM: &str = "croft-team-choice";

pub(super) fn team() -> ValidatingAdmissionPolicy {
    let teams = Chosen { label: TEAM_LABEL, what: "team", group: GROUP, resource: "s3teamquotas" };
    let validations = vec![teams.choosing(), teams.leaving(USE_VERB)];
    Choice { variables: teams.variables(), validations }.policy(TEAM)
}
