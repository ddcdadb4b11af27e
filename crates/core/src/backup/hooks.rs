//! How long the hooks of a backup may take for each pod, all together: Velero does nothing else meanwhile, for anybody.

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
            let resource = json!({ "pre": vec![hook.clone(); pre], "post": vec![hook; post] });
            serde_json::from_value(json!({ "hooks": { "resources": [resource] } })).expect("fields")
        };
        for allowed in [spec(2, 1, json!("10m")), spec(30, 30, json!(null)), spec(0, 0, json!(null)), Fields::new()] {
            assert_eq!(objection(&allowed), None, "{allowed:?}");
        }
        for refused in [spec(2, 2, json!("10m")), spec(31, 30, json!(null)), spec(31, 30, json!("0s"))] {
            assert!(objection(&refused).is_some_and(|told| told.contains("up to 30m")), "{refused:?}");
        }
    }
}
