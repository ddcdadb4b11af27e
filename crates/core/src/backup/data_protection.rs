//! What a DataProtectionApplication says about tenants' backups (`spec.nonAdmin`), beside the settings: field by field it wins.

use serde_json::Value;

use super::{
    Policy,
    approval::OwnBuckets,
    fields,
    velero::{Fields, field},
};

impl Policy {
    /// The choices of applications on top of these: of several the first that says anything counts. What cannot be read may say
    /// anything.
    pub fn heed_applications<'a>(&mut self, said: impl IntoIterator<Item = Option<&'a Fields>>, can_be_read: bool) {
        if let Some(said) = said.into_iter().flatten().next() {
            self.heed(said);
        }
        if !can_be_read {
            self.mistake =
                Some("a DataProtectionApplication cannot be read: the administrator has to mend it".to_owned());
        }
    }

    fn heed(&mut self, non_admin: &Fields) {
        match field(non_admin, "requireApprovalForBSL") {
            Some(Value::Bool(true)) => self.own_buckets = OwnBuckets::Approve,
            Some(Value::Bool(false)) => self.own_buckets = OwnBuckets::Allow,
            Some(_) => self.mistake = Some(mistake("requireApprovalForBSL", "must be true or false")),
            None => {}
        }
        let sections = [
            ("enforceBackupSpec", fields::BACKUP, &mut self.enforced.backup),
            ("enforceRestoreSpec", fields::RESTORE, &mut self.enforced.restore),
            ("enforceBSLSpec", fields::LOCATION, &mut self.enforced.location),
        ];
        for (section, table, enforced) in sections {
            let mut said = match field(non_admin, section) {
                Some(Value::Object(said)) => said.clone(),
                Some(_) => {
                    self.mistake = Some(mistake(section, "must be a map of fields"));
                    continue;
                }
                None => continue,
            };
            said.retain(|_, value| !value.is_null());
            match fields::not_enforceable(table, &said) {
                None => enforced.extend(said),
                Some(name) => {
                    let wrong = "is non-enforceable by admins: the administrator has to leave it out";
                    self.mistake = Some(mistake(&format!("{section}.{name}"), wrong));
                }
            }
        }
    }
}

fn mistake(field: &str, wrong: &str) -> String {
    format!("DataProtectionApplication spec.nonAdmin.{field} {wrong}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn heeded(non_admin: Value) -> Policy {
        let of = |value: Value| value.as_object().cloned().unwrap_or_default();
        let mut policy = Policy { own_buckets: OwnBuckets::Deny, ..Policy::default() };
        policy.enforced.backup = of(json!({ "ttl": "1h", "snapshotVolumes": false }));
        policy.heed(&of(non_admin));
        policy
    }

    #[test]
    fn what_an_application_says_wins_field_by_field() {
        let policy = heeded(json!({
            "enable": true, "enforceBackupSpec": { "ttl": "36h", "hooks": null }, "enforceRestoreSpec": { "restorePVs": false },
            "enforceBSLSpec": { "provider": "aws" }, "backupSyncPeriod": "2m",
        }));
        assert_eq!(json!(policy.enforced.backup), json!({ "ttl": "36h", "snapshotVolumes": false }));
        assert_eq!(json!(policy.enforced.restore), json!({ "restorePVs": false }));
        assert_eq!(json!(policy.enforced.location), json!({ "provider": "aws" }));
        assert_eq!((policy.own_buckets, policy.mistake), (OwnBuckets::Deny, None), "nothing is said of these");
    }

    #[test]
    fn the_first_application_that_says_anything_counts_and_none_that_cannot_be_read_is_passed_over() {
        let ttl = |ttl: &str| json!({ "enforceBackupSpec": { "ttl": ttl } }).as_object().cloned();
        let (first, second) = (ttl("1h"), ttl("2h"));
        let heeded = |can_be_read| {
            let mut policy = Policy::default();
            policy.heed_applications([None, first.as_ref(), second.as_ref()], can_be_read);
            policy
        };
        assert_eq!(json!(heeded(true).enforced.backup), json!({ "ttl": "1h" }));
        assert!(heeded(true).is_clear().is_ok() && heeded(false).is_clear().is_err());
    }

    #[test]
    fn only_an_explicit_word_on_approval_counts() {
        let own_buckets = |said: Value| heeded(json!({ "requireApprovalForBSL": said })).own_buckets;
        assert_eq!(own_buckets(json!(true)), OwnBuckets::Approve);
        assert_eq!(own_buckets(json!(false)), OwnBuckets::Allow);
        assert_eq!(own_buckets(json!(null)), OwnBuckets::Deny);
    }

    #[test]
    fn what_cannot_be_enforced_is_a_mistake_that_is_named() {
        let mistake = heeded(json!({ "enforceBackupSpec": { "storageLocation": "x" } })).mistake.unwrap_or_default();
        assert!(
            mistake.starts_with("DataProtectionApplication spec.nonAdmin.enforceBackupSpec.storageLocation is non-")
        );
    }

    #[test]
    fn what_cannot_be_read_of_an_application_is_a_mistake_and_not_nothing() {
        for (said, field) in [
            (json!({ "enforceBackupSpec": "nonsense" }), "enforceBackupSpec must be a map of fields"),
            (json!({ "enforceBSLSpec": [] }), "enforceBSLSpec must be a map of fields"),
            (json!({ "requireApprovalForBSL": "no" }), "requireApprovalForBSL must be true or false"),
        ] {
            let mistake = heeded(said).mistake.unwrap_or_default();
            assert_eq!(mistake, format!("DataProtectionApplication spec.nonAdmin.{field}"));
        }
    }
}
