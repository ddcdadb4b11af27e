//! Hooks of a backup that Velero would not take, and how long they may take for each pod, all together: Velero does nothing else
//! meanwhile, for anybody.

use serde_json::Value;

use super::{
    duration,
    velero::{Fields, field, text},
};

const MOST_MINUTES: f64 = 30.0;
const MINUTE: f64 = 6e10;
/// Where a hook does not say it, as Velero has it.
const UNSAID: f64 = 0.5 * MINUTE;

/// What is wrong with the hooks of a `backupSpec` whose fields are right.
pub(super) fn objection(spec: &Fields) -> Option<String> {
    let resources = field(spec, "hooks")?.get("resources").and_then(Value::as_array)?;
    let wrong = resources.iter().enumerate().find_map(|(index, resource)| {
        let told = wrong_in(resource)?;
        Some(format!("NonAdminBackup spec.backupSpec.hooks.resources[{index}].{told}"))
    });
    wrong.or_else(|| too_long(resources))
}

/// Where something is missing or wrong, and what would be right.
fn wrong_in(resource: &Value) -> Option<String> {
    if resource.get("name").and_then(Value::as_str).is_none() {
        return Some("name must be given".to_owned());
    }
    ["pre", "post"].into_iter().find_map(|list| {
        let hooks = resource.get(list).and_then(Value::as_array).into_iter().flatten().enumerate();
        hooks.into_iter().find_map(|(index, hook)| Some(format!("{list}[{index}].{}", wrong_in_hook(hook)?)))
    })
}

fn wrong_in_hook(hook: &Value) -> Option<&'static str> {
    let Some(exec) = hook.get("exec").and_then(Value::as_object) else { return Some("exec must be given") };
    if exec.get("command").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        return Some("exec.command must name at least the program to run");
    }
    let on_error = field(exec, "onError").and_then(Value::as_str);
    on_error
        .is_some_and(|said| !["Continue", "Fail"].contains(&said))
        .then_some("exec.onError must be Continue or Fail")
}

fn too_long(resources: &[Value]) -> Option<String> {
    let lists = resources.iter().flat_map(|resource| ["pre", "post"].map(|list| resource.get(list)));
    let hooks = lists.flatten().filter_map(Value::as_array).flatten();
    let minutes = hooks.map(longest).sum::<f64>() / MINUTE;
    (minutes > MOST_MINUTES).then(|| {
        format!(
            "NonAdminBackup spec.backupSpec.hooks is restricted, all of them together can only take up to {MOST_MINUTES}m, \
             not {minutes:.0}m: give fewer hooks or shorter timeouts"
        )
    })
}

/// In nanoseconds.
fn longest(hook: &Value) -> f64 {
    let exec = hook.get("exec").and_then(Value::as_object);
    let said = exec.and_then(|exec| text(exec, "timeout")).and_then(duration::nanoseconds);
    said.filter(|said| *said > 0.0).unwrap_or(UNSAID)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hooks_are_bounded_together_and_one_that_says_nothing_counts() {
        let spec = |pre: usize, post: usize, timeout: Value| -> Fields {
            let hook = json!({ "exec": { "command": ["sync"], "timeout": timeout } });
            let resource = json!({ "name": "h", "pre": vec![hook.clone(); pre], "post": vec![hook; post] });
            serde_json::from_value(json!({ "hooks": { "resources": [resource] } })).expect("fields")
        };
        for allowed in [spec(2, 1, json!("10m")), spec(30, 30, json!(null)), spec(0, 0, json!(null)), Fields::new()] {
            assert_eq!(objection(&allowed), None, "{allowed:?}");
        }
        for refused in [spec(2, 2, json!("10m")), spec(31, 30, json!(null)), spec(31, 30, json!("0s"))] {
            assert!(objection(&refused).is_some_and(|told| told.contains("up to 30m")), "{refused:?}");
        }
    }

    #[test]
    fn what_velero_would_not_take_is_told_at_its_field() {
        let told = |resource: Value| {
            let spec = json!({ "hooks": { "resources": [resource] } });
            objection(spec.as_object().expect("fields"))
        };
        let with = |exec: Value| told(json!({ "name": "h", "post": [{ "exec": exec }] }));
        for (told, expected) in [
            (told(json!({ "pre": [] })), "name must be given"),
            (told(json!({ "name": null })), "name must be given"),
            (told(json!({ "name": "h", "pre": [{}] })), "pre[0].exec must be given"),
            (with(json!({})), "post[0].exec.command must name at least the program to run"),
            (with(json!({ "command": [] })), "post[0].exec.command must name at least the program to run"),
            (with(json!({ "command": ["x"], "onError": "Maybe" })), "post[0].exec.onError must be Continue or Fail"),
        ] {
            assert_eq!(told, Some(format!("NonAdminBackup spec.backupSpec.hooks.resources[0].{expected}")));
        }
        assert_eq!(with(json!({ "command": ["x"], "onError": "Fail" })), None);
        assert_eq!(with(json!({ "command": ["x"], "onError": null })), None);
    }
}
