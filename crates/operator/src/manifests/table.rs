//! The choices as a file for people: every value with what it is for, out of the schema.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::values::Values;

/// All of them with their defaults, as commented YAML.
pub fn commented() -> String {
    let (schema, defaults) = (Values::schema(), json!(Values::default()));
    let mut text = String::from("# The choices of an installation of Croft, each with its default.\n");
    write(&mut text, &schema, &schema, &defaults, 0);
    text
}

fn write(text: &mut String, schema: &Value, root: &Value, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    for (name, value) in value.as_object().into_iter().flatten() {
        let field = &schema["properties"][name];
        let inner = resolved(field, root);
        if depth == 0 {
            text.push('\n');
        }
        for line in lines(&described(field, inner), 110 - indent.len()) {
            let _ = writeln!(text, "{indent}# {line}");
        }
        let is_ours = inner["properties"].is_object() && value.as_object().is_some_and(|fields| !fields.is_empty());
        if is_ours && name != "settings" {
            let _ = writeln!(text, "{indent}{name}:");
            write(text, inner, root, value, depth + 1);
        } else {
            let _ = writeln!(text, "{indent}{name}: {value}");
        }
    }
}

/// What a field is for, in its own words, else in those of its type; and what it may be.
fn described(field: &Value, inner: &Value) -> String {
    let text = field["description"].as_str().or(inner["description"].as_str()).unwrap_or_default();
    let text = text.replace('\n', " ");
    let options = inner["enum"].as_array().into_iter().flatten().chain(inner["oneOf"].as_array().into_iter().flatten());
    let options: Vec<_> = options.filter_map(|option| option.as_str().or(option["const"].as_str())).collect();
    match (options.as_slice(), text.as_str()) {
        ([], _) => text,
        (_, "") => options.join(" or "),
        _ => format!("{text} {}.", options.join(" or ")),
    }
}

fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#')));
    target.unwrap_or(schema)
}

/// Broken at blanks.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_holds_without_it_and_every_value_says_what_it_is_for() {
        let text = commented();
        assert_eq!(Values::parse(&text).unwrap(), Values::default());
        let keys = text.lines().filter(|line| !line.trim_start().starts_with('#') && line.contains(':'));
        let mut undescribed = keys.filter(|key| {
            let before: Vec<_> = text.lines().take_while(|line| line != key).collect();
            let name = key.trim().split(':').next().unwrap_or_default();
            name != "enabled" && !before.last().is_some_and(|line| line.trim_start().starts_with('#'))
        });
        assert_eq!(undescribed.next(), None, "{text}");
    }
}
