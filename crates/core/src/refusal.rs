//! What the API server means by a refusal, by the causes it lists: its message as a whole repeats values anybody may have chosen.

/// What validation says about a field that can only be set when an object is made.
const UNCHANGEABLE: [&str; 5] =
    ["immutable", "may not change", "may not be changed", "updates to", "cannot change roleRef"];

/// Whether a cause, by its type and its words, says that a field of an existing object cannot be changed.
pub fn is_immutable(cause: &str, message: &str) -> bool {
    let detail = match cause {
        "FieldValueForbidden" => message.strip_prefix("Forbidden: "),
        "FieldValueInvalid" => message.strip_prefix("Invalid value: ").and_then(after_value),
        _ => None,
    };
    // Below the first line some list what differs.
    let detail = detail.and_then(|detail| detail.lines().next()).unwrap_or_default();
    UNCHANGEABLE.iter().any(|words| detail.contains(words))
}

/// Whether a request was refused because a ResourceQuota is used up: no right is missing.
pub fn is_over_quota(message: &str) -> bool {
    message.split_once(" is forbidden: ").is_some_and(|(_, why)| why.starts_with("exceeded quota: "))
}

/// Whether a request was refused by a policy or a webhook: whoever wrote that may think better of it, whatever number it answers.
pub fn is_by_a_rule(message: &str) -> bool {
    let denied = message.split_once(" is forbidden: ").map(|(_, why)| why);
    denied.is_some_and(|why| why.starts_with("ValidatingAdmissionPolicy '"))
        || message.starts_with("admission webhook \"")
}

/// What follows a value that is repeated as JSON or as Go writes it: nothing inside its quotes or braces counts.
fn after_value(text: &str) -> Option<&str> {
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' | '(' => depth = depth.saturating_add(1),
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => {
                if let Some(detail) = text.get(at..).and_then(|rest| rest.strip_prefix(": ")) {
                    return Some(detail);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_changed_is_told_by_the_causes_of_kubernetes() {
        for (cause, message) in [
            ("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set"),
            (
                "FieldValueForbidden",
                "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
            ),
            ("FieldValueForbidden", "Forbidden: spec is immutable after creation except resources.requests\n  {...}"),
            ("FieldValueInvalid", r#"Invalid value: "example.com/two": field is immutable"#),
            ("FieldValueInvalid", r#"Invalid value: {"a":{"b":["x: y"]}}: field is immutable"#),
            ("FieldValueInvalid", r#"Invalid value: rbac.RoleRef{Kind:"Role", Name:"x"}: cannot change roleRef"#),
            ("FieldValueInvalid", "Invalid value: 5: Value is immutable"),
        ] {
            assert!(is_immutable(cause, message), "{message}");
        }
    }

    #[test]
    fn a_quota_that_is_used_up_is_told_from_a_missing_right() {
        assert!(is_over_quota(r#"configmaps "a" is forbidden: exceeded quota: few, requested: count/configmaps=1"#));
        assert!(!is_over_quota(r#"configmaps "a" is forbidden: User "x" cannot create resource"#));
    }

    #[test]
    fn what_an_administrators_rule_denies_is_told_from_what_the_kind_does_not_take() {
        let policy = "ValidatingAdmissionPolicy 'labels' with binding 'labels' denied request: no label";
        assert!(is_by_a_rule(&format!(r#"backups.velero.io "a" is forbidden: {policy}"#)));
        assert!(is_by_a_rule(r#"admission webhook "rules.example.com" denied the request: no label"#));
        assert!(!is_by_a_rule(&format!(r#"Backup.velero.io "a" is invalid: spec.ttl: Invalid value: "{policy}""#)));
    }

    #[test]
    fn values_that_are_repeated_tell_nothing() {
        for (cause, message) in [
            ("FieldValueInvalid", r#"Invalid value: "field is immutable": a valid config key must consist of letters"#),
            ("FieldValueInvalid", r#"Invalid value: "x\": field is immutable": must be shorter"#),
            ("FieldValueInvalid", r#"Invalid value: {"a":"x: field is immutable"}: must be a list"#),
            ("FieldValueInvalid", r#"Invalid value: "field is immutable""#),
            ("FieldValueForbidden", "Forbidden: not so\n  field is immutable"),
            ("FieldValueNotSupported", r#"Unsupported value: "immutable": supported values: "a""#),
            ("", "field is immutable"),
        ] {
            assert!(!is_immutable(cause, message), "{message}");
        }
    }
}
