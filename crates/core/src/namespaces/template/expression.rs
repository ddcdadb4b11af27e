//! What may stand between `{{` and `}}`: one variable of a closed set, or the text `{{` itself.
//!
//! There are no functions, no lookups and no nesting, so what a template can reach is the list in [`ALLOWED`] and nothing else.

use std::fmt;

/// Opens a template.
pub(super) const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Everything a template can say; part of every refusal.
const ALLOWED: &str = "namespace.name, namespace.uid, namespace.labels[\"key\"], namespace.annotations[\"key\"], class.name, \
                       params.<name>; for the text {{ itself write {{ \"{{\" }}";

/// What is wrong with anything else, where it is not repeated.
pub(super) const NO_VARIABLE: &str =
    "is not a template variable of the closed set; for the text {{ itself write {{ \"{{\" }}";

/// Longest piece of foreign text repeated in a message.
const LONGEST_QUOTE: usize = 60;

/// Longest key of a label or annotation: 253 for the prefix, 63 for the name, one slash.
const LONGEST_KEY: usize = 317;

/// What a template can be filled with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    NamespaceName,
    NamespaceUid,
    NamespaceLabel(String),
    NamespaceAnnotation(String),
    ClassName,
    Param(String),
}

impl Variable {
    fn parse(expression: &str) -> Option<Self> {
        if let Some(name) = expression.strip_prefix("params.") {
            return is_param_name(name).then(|| Variable::Param(name.to_owned()));
        }
        if let Some(key) = expression.strip_prefix("namespace.labels") {
            return key_in_brackets(key).map(Variable::NamespaceLabel);
        }
        if let Some(key) = expression.strip_prefix("namespace.annotations") {
            return key_in_brackets(key).map(Variable::NamespaceAnnotation);
        }
        match expression {
            "namespace.name" => Some(Variable::NamespaceName),
            "namespace.uid" => Some(Variable::NamespaceUid),
            "class.name" => Some(Variable::ClassName),
            _ => None,
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::NamespaceName => out.write_str("namespace.name"),
            Variable::NamespaceUid => out.write_str("namespace.uid"),
            Variable::NamespaceLabel(key) => write!(out, "namespace.labels[{key:?}]"),
            Variable::NamespaceAnnotation(key) => write!(out, "namespace.annotations[{key:?}]"),
            Variable::ClassName => out.write_str("class.name"),
            Variable::Param(name) => write!(out, "params.{name}"),
        }
    }
}

/// A piece of a text: as it stands, or to be filled in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Variable(Variable),
}

/// Cuts a text into its parts. Only `{{` opens a template: a lone `}}` is text.
pub(super) fn parse(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(OPEN) {
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        let (part, after) = match escaped_open(inside) {
            Some(after) => (Part::Text(OPEN), after),
            None => variable(inside)?,
        };
        parts.push(part);
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    Ok(parts)
}

/// What follows `"{{" }}`, if that is how the text goes on.
fn escaped_open(inside: &str) -> Option<&str> {
    let inside = inside.trim_start();
    let after = inside.strip_prefix("\"{{\"").or_else(|| inside.strip_prefix("'{{'"))?;
    after.trim_start().strip_prefix(CLOSE)
}

fn variable(inside: &str) -> Result<(Part<'_>, &str), String> {
    let Some((expression, after)) = inside.split_once(CLOSE) else {
        return Err(format!("a {{{{ has no }}}}; allowed in templates: {ALLOWED}"));
    };
    match Variable::parse(expression.trim()) {
        Some(variable) => Ok((Part::Variable(variable), after)),
        None => {
            Err(format!("{} is not a template variable; allowed in templates: {ALLOWED}", quoted(expression.trim())))
        }
    }
}

fn key_in_brackets(text: &str) -> Option<String> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    let key = ['"', '\''].into_iter().find_map(|quote| inside.strip_prefix(quote)?.strip_suffix(quote))?;
    is_metadata_key(key).then(|| key.to_owned())
}

/// Whether the text can be the name of a parameter.
pub(in crate::namespaces) fn is_param_name(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether the text can be the key of a label or an annotation, as far as its characters tell.
pub(in crate::namespaces) fn is_metadata_key(key: &str) -> bool {
    let can_stand_in_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    !key.is_empty() && key.len() <= LONGEST_KEY && key.bytes().all(can_stand_in_key)
}

/// Foreign text for a message: in quotes, on one line, not too long.
pub(in crate::namespaces) fn quoted(text: &str) -> String {
    let start: String = text.chars().take(LONGEST_QUOTE).collect();
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("{start:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_text_and_variables() {
        use Part::{Text, Variable as Var};
        let label = || Var(Variable::NamespaceLabel("a.io/b".into()));
        let cases: [(&str, Vec<Part<'_>>); 12] = [
            ("", vec![]),
            ("plain } }} { text", vec![Text("plain } }} { text")]),
            ("{{namespace.name}}", vec![Var(Variable::NamespaceName)]),
            ("{{ \t\n namespace.uid }}", vec![Var(Variable::NamespaceUid)]),
            ("a-{{ class.name }}-b", vec![Text("a-"), Var(Variable::ClassName), Text("-b")]),
            (
                "{{ params.a }}{{ params.B_2 }}",
                vec![Var(Variable::Param("a".into())), Var(Variable::Param("B_2".into()))],
            ),
            ("{{ namespace.labels[\"a.io/b\"] }}", vec![label()]),
            ("{{ namespace.labels['a.io/b'] }}", vec![label()]),
            ("{{ namespace.annotations['x'] }}", vec![Var(Variable::NamespaceAnnotation("x".into()))]),
            ("{{ \"{{\" }} x }}", vec![Text("{{"), Text(" x }}")]),
            ("{{'{{'}}", vec![Text("{{")]),
            (
                "{\"a\":{\"b\":{{ params.n }}}}",
                vec![Text("{\"a\":{\"b\":"), Var(Variable::Param("n".into())), Text("}}")],
            ),
        ];
        for (text, parts) in cases {
            assert_eq!(parse(text), Ok(parts), "{text}");
        }
    }

    #[test]
    fn nothing_but_the_closed_set_is_a_variable() {
        let refused = [
            "",
            " ",
            "name",
            "namespace",
            "namespace.name.x",
            "namespace.labels",
            "namespace.labels.a",
            "namespace.spec",
            "namespace.labels[a]",
            "namespace.labels[\"a']",
            "namespace.labels[\"\"]",
            "namespace.labels[\"a b\"]",
            "namespace.labels[\"a\"][\"b\"]",
            "namespace.labels[params.a]",
            "namespace.annotations['",
            "namespace.labels['']",
            "class",
            "class.uid",
            "params",
            "params.",
            "params.a.b",
            "params.1a",
            "params.a-b",
            "params[\"a\"]",
            "params.é",
            "params.a | upper",
            "upper(params.a)",
            "lookup \"v1\" \"Secret\" \"kube-system\" \"x\"",
            "env.HOME",
            "env \"HOME\"",
            "include \"x\"",
            ".Values.a",
            "$x",
            "1 + 1",
            "\"text\"",
            "\"}\"",
            "namespace.name namespace.name",
            "namespace.name; class.name",
            "Namespace.Name",
            "namespace .name",
            "{ namespace.name",
            "\"{{\" \"{{\"",
        ];
        for expression in refused {
            for text in [format!("{{{{{expression}}}}}"), format!("x {{{{ {expression} }}}} y")] {
                assert!(parse(&text).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn a_template_that_is_not_closed_is_an_error_and_shows_how_to_write_the_braces_themselves() {
        for text in ["{{", "a {{ namespace.name", "{{ namespace.name }", "{{ class.name }}{{", "{{ \"{{\" ", "{{{{"] {
            let message = parse(text).unwrap_err();
            assert!(message.contains("has no }}") && message.contains("write {{ \"{{\" }}"), "{text}: {message}");
        }
    }

    #[test]
    fn a_message_repeats_foreign_text_on_one_line_and_cut_short() {
        assert_eq!(quoted("a\nb\"c"), "\"a\\nb\\\"c\"");
        assert_eq!(quoted(&"é".repeat(1000)), format!("{:?}...", "é".repeat(60)));
    }

    #[test]
    fn a_variable_prints_as_it_is_written_in_a_template() {
        let texts = [
            "namespace.name",
            "namespace.uid",
            "namespace.labels[\"a/b\"]",
            "namespace.annotations[\"c\"]",
            "class.name",
            "params.x",
        ];
        for text in texts {
            assert_eq!(Variable::parse(text).unwrap().to_string(), text);
        }
    }
}
