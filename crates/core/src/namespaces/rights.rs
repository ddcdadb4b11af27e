//! What a Role or RoleBinding gives, compared with what its class gives.

use serde_json::Value;

/// Whether an object gives what its manifest does not: another role, a further subject, a further rule.
pub fn gives_more(live: &Value, manifest: &Value) -> bool {
    let is_more = |field: &str| {
        let wanted = members(manifest.get(field));
        members(live.get(field)).iter().any(|given| !wanted.iter().any(|wanted| is_within(given, wanted)))
    };
    ["roleRef", "subjects", "rules"].into_iter().any(is_more)
}

/// What is no list is its own only member.
fn members(value: Option<&Value>) -> &[Value] {
    match value {
        None => &[],
        Some(Value::Array(members)) => members,
        Some(one) => std::slice::from_ref(one),
    }
}

/// Whether all that is wanted is as it is given: what was left out the API server has set itself.
fn is_within(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (Value::Object(given), Value::Object(wanted)) => {
            let given = |field: &String| given.get(field).unwrap_or(&Value::Null);
            wanted.iter().all(|(field, value)| given(field) == value || (is_nothing(given(field)) && is_nothing(value)))
        }
        _ => given == wanted,
    }
}

/// What the API server leaves out as it stores it.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_role_a_further_subject_and_a_further_rule_are_more_and_less_is_not() {
        let team = json!({"kind": "Group", "name": "team"});
        let stored = json!({"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"});
        let binding = |role: &str, subjects: &[&Value]| json!({"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects});
        let wanted = binding("view", &[&team]);
        assert!(!gives_more(&binding("view", &[&stored]), &wanted), "as the API server stores it");
        assert!(!gives_more(&binding("view", &[]), &wanted));
        assert!(gives_more(&binding("edit", &[&stored]), &wanted));
        assert!(gives_more(&binding("view", &[&stored, &json!({"kind": "User", "name": "eve"})]), &wanted));
        let role = |verbs: &[&str]| {
            let rule = |verb: &&str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
            json!({"rules": verbs.iter().map(rule).collect::<Vec<_>>()})
        };
        assert!(!gives_more(&role(&["get"]), &role(&["list", "get"])));
        assert!(gives_more(&role(&["get", "delete"]), &role(&["get"])));
        let mut empty = role(&["get"]);
        empty["rules"][0]["resourceNames"] = json!([]);
        assert!(!gives_more(&role(&["get"]), &empty), "stored without what is empty");
        empty["rules"][0]["resourceNames"] = json!(["one"]);
        assert!(gives_more(&role(&["get"]), &empty));
    }
}
