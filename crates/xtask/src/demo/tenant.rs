//! What the tenant may do: work in its own namespace, ask for backups there, look at what the class gave it, and ask for more storage.

use k8s_openapi::api::rbac::v1::PolicyRule;

pub(crate) fn rules() -> Vec<PolicyRule> {
    vec![
        rule("apps", &["deployments", "replicasets"], &["*"]),
        rule("", &["configmaps", "secrets", "pods"], &["*"]),
        rule("oadp.openshift.io", &["nonadminbackups", "nonadminrestores", "nonadmindownloadrequests"], &["*"]),
        rule("croft.dev", &["backupschedules"], &["*"]),
        rule("oadp.openshift.io", &["nonadminbackupstoragelocations"], &["create", "get", "list", "patch", "watch"]),
        rule("s3.snappcloud.io", &["s3userclaims"], &["create", "get", "list", "watch"]),
        rule("croft.dev", &["backupvaults"], &["get", "list", "watch"]),
    ]
}

pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let strings = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(strings(resources)),
        verbs: strings(verbs),
        ..PolicyRule::default()
    }
}
