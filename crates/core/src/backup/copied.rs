//! What a request copies from Velero's object. A bucket or a server of the tenant's own may have written it, and a request that has
//! grown beyond what is read is one nobody looks after any more.

use serde_json::Value;

use super::velero::Fields;

/// What a copy weighs at most: as much as a spec may.
const MOST: usize = 32 << 10;
/// What is left of a text that is part of too much, and of a list.
const TEXT: usize = 1 << 10;
const ITEMS: usize = 8;

/// Where a backup lies and how far it is is read back from its copy: that goes in first.
const READ_BACK: [&str; 4] = ["storageLocation", "phase", "completionTimestamp", "expiration"];

/// A rough count of its bytes in JSON.
fn weight(value: &Value) -> usize {
    const EACH: usize = 8;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => EACH,
        Value::String(text) => EACH + text.chars().map(written).sum::<usize>(),
        Value::Array(items) => EACH + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => EACH + weight_of(fields),
    }
}

/// The bytes the API server writes for a character.
fn written(character: char) -> usize {
    match character {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        other if other.is_ascii_control() => 6,
        '"' | '\\' => 2,
        other => other.len_utf8(),
    }
}

fn weight_of(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + weight(value)).sum()
}

fn cut(text: &str) -> String {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= TEXT).last().unwrap_or_default();
    match text.get(..end) {
        Some(begin) if text.len() > TEXT => format!("{begin}..."),
        _ => text.to_owned(),
    }
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => cut(text).into(),
        Value::Array(items) => items.iter().take(ITEMS).map(shortened).collect(),
        other => other.clone(),
    }
}

/// The fields as they are; of too many the first words of each.
pub(super) fn copied(fields: &Fields) -> Fields {
    if weight_of(fields) <= MOST {
        return fields.clone();
    }
    let mut short: Vec<_> = fields.iter().map(|(name, value)| (name.clone(), shortened(value))).collect();
    short.sort_by_key(|(name, _)| !READ_BACK.contains(&name.as_str()));
    let mut room = MOST;
    let fits = |(name, value): &(String, Value)| {
        let weighs = name.len() + weight(value);
        let does_fit = weighs <= room;
        room = room.saturating_sub(if does_fit { weighs } else { 0 });
        does_fit
    };
    short.into_iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_not_too_much_is_copied_as_it_is() {
        let long = "x".repeat(30_000);
        for status in [json!({}), json!({ "phase": "Failed", "failureReason": long, "errors": [1, 2, { "a": null }] })]
        {
            assert_eq!(copied(&fields(status.clone())), fields(status));
        }
    }

    #[test]
    fn of_too_much_the_first_words_are_copied_and_never_more_than_is_read() {
        let long = "é".repeat(100_000);
        let status = fields(json!({
            "phase": "Failed",
            "failureReason": long,
            "validationErrors": vec![long.clone(); 9],
            "hookStatus": { "why": long },
            "expiration": "2026-01-01T00:00:00Z",
        }));
        let copy = copied(&status);
        assert!(weight_of(&copy) <= MOST);
        assert_eq!((&copy["phase"], &copy["expiration"]), (&status["phase"], &status["expiration"]));
        let reason = copy["failureReason"].as_str().unwrap();
        assert!(reason.starts_with("ééé") && reason.ends_with("...") && reason.len() < 1_100, "{}", reason.len());
        assert_eq!(copy["validationErrors"].as_array().map(Vec::len), Some(ITEMS));
        assert!(copy.get("hookStatus").is_none(), "what cannot be shortened is left out");
        assert_eq!(copied(&copy), copy, "said once");

        // Objects are not shortened, so that what comes before in the alphabet may take all the room.
        let hooks: Fields = (0..100).map(|number| (format!("hook{number}"), json!("x".repeat(312)))).collect();
        let spec = fields(
            json!({ "hooks": hooks, "labelSelector": { "a": "x".repeat(130) }, "storageLocation": "shop-here-1" }),
        );
        assert!(weight_of(&spec) > MOST && weight_of(&spec) < MOST + 100, "{}", weight_of(&spec));
        assert_eq!(copied(&spec).get("storageLocation"), Some(&json!("shop-here-1")), "where it lies is not forgotten");

        let escaped = copied(&fields(json!({ "a": "<".repeat(10_000), "b": "&".repeat(10_000) })));
        assert!(escaped.values().all(|text| text.as_str().is_some_and(|text| text.len() < 1_100)), "as it is written");

        let many: Fields = (0..10_000).map(|number| (format!("field{number}"), json!(number))).collect();
        assert!(weight_of(&copied(&many)) <= MOST);
    }
}
