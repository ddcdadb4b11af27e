//! From an object with names of ours in it to a template with expressions in their places.

use std::fmt::Write as _;

use serde_json::Value;

use super::MARK;

/// How every name of ours begins: no name in the manifests does.
pub(super) const CHOSEN: &str = "zz-chosen-";
pub(super) const OWN: &str = "zz-chosen-own";
const VELERO: &str = "zz-chosen-velero";
const SYSTEM: &str = "zz-chosen-system";
const TRUSTED: &str = "zz-chosen-trusted";
pub(super) const LABEL: &str = "zz-chosen-label";
pub(super) const VALUE: &str = "zz-chosen-value";
pub(super) const CLASS: &str = "zz-chosen-class";

/// Velero's namespace is made where it is missing, and is nobody's to take away. Every later revision of the release that made it has it,
/// too: else Helm could not go back to the one that did. What is rendered without a cluster, as `GitOps` does, is
/// compared with everything that is there, and what is missing in it may be pruned: there it is made for those only who ask for it.
pub(super) const IS_WANTED_NAMESPACE: &str = "and (ne .Values.velero.namespace .Release.Namespace) \
     (or .Values.velero.createNamespace (and (lookup \"v1\" \"Namespace\" \"\" \"kube-system\") \
     (or (not (lookup \"v1\" \"Namespace\" \"\" .Values.velero.namespace)) \
     (eq .Release.Name (dig \"metadata\" \"annotations\" \"meta.helm.sh/release-name\" \"\" \
     (lookup \"v1\" \"Namespace\" \"\" .Values.velero.namespace))))))";

/// The names that are asked for in every situation.
pub(super) fn asked_for() -> Vec<String> {
    vec![
        "--image=none".into(),
        format!("--namespace={OWN}"),
        format!("--velero-namespace={VELERO}"),
        "--create-velero-namespace".into(),
        format!("--system-namespace={SYSTEM}"),
        format!("--trusted-user={TRUSTED}"),
    ]
}

/// The object as YAML, with expressions.
pub(super) fn templated(object: &Value) -> String {
    let mut texts = Vec::new();
    let yaml = croft_api::yaml_document(&marked(object, &mut texts));
    let mut yaml = escaped(&yaml);
    for (place, text) in texts.iter().enumerate() {
        yaml = yaml.replace(&mark(place), text);
    }
    yaml
}

/// Each text with a name of ours in it makes way for a word that is written as it is: only then is it known how it is quoted.
fn marked(value: &Value, texts: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) if text.contains(CHOSEN) => {
            texts.push(with_expressions(text));
            Value::String(mark(texts.len() - 1))
        }
        Value::Array(items) => items.iter().map(|item| marked(item, texts)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), marked(value, texts))).collect())
        }
        other => other.clone(),
    }
}

fn mark(place: usize) -> String {
    format!("zz-text-{place:04}-zz")
}

/// What means something to Helm and is not meant for it.
fn escaped(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// In double quotes, in which nothing that a reader may choose has to be escaped.
fn with_expressions(text: &str) -> String {
    let quoted = escaped(&Value::from(text).to_string());
    let quoted = match system_list(&quoted) {
        Some((before, _, after)) => format!("{before}{{{{ include \"croft.quotedSystemNamespaces\" . }}}}{after}"),
        None => quoted,
    };
    quoted
        .replace(&format!(", '{TRUSTED}'"), "{{ range .Values.trustedUsers }}, '{{ . }}'{{ end }}")
        .replace(&format!("'{CLASS}'"), "'{{ join \"', '\" .Values.classRequired.classes }}'")
        .replace(CLASS, "{{ join \", \" .Values.classRequired.classes }}")
        .replace(LABEL, "{{ .Values.classRequired.label }}")
        .replace(VALUE, "{{ .Values.classRequired.value }}")
        .replace(VELERO, "{{ .Values.velero.namespace }}")
        .replace(OWN, "{{ .Release.Namespace }}")
}

/// What is before the list of the system's namespaces, the list, and what is after it.
pub(super) fn system_list(text: &str) -> Option<(&str, &str, &str)> {
    let place = text.find(&format!("'{SYSTEM}'"))?;
    let (start, end) = (text.get(..place)?.rfind('[')? + 1, place + text.get(place..)?.find(']')?);
    Some((text.get(..start)?, text.get(start..end)?, text.get(end..)?))
}

/// Those that are the system's in every installation, for the templates that people wrote.
pub(super) fn system_namespaces(names: Vec<String>) -> String {
    let names: Vec<_> = names.into_iter().map(Value::from).collect();
    format!(
        "{{{{- /* {MARK} from `croft manifests`. */ -}}}}\n{{{{- define \"croft.knownSystemNamespaces\" -}}}}\n{}\n{{{{- end }}}}\n",
        Value::from(names)
    )
}

/// The page about the chart, with every value in a table.
pub(super) fn readme(schema: &Value, defaults: &Value) -> String {
    let mut page = format!(
        "# The Helm chart of Croft\n\n<!-- {MARK}. -->\n\n\
         How to install with it: [docs/install.md](../../docs/install.md). `croft manifests --values FILE` takes the same file and prints the same objects.\n\n\
         | value | default | what it is for |\n| --- | --- | --- |\n"
    );
    rows(&mut page, schema, schema, defaults, "");
    page
}

fn rows(page: &mut String, schema: &Value, root: &Value, defaults: &Value, path: &str) {
    for (name, default) in defaults.as_object().into_iter().flatten() {
        let field = &schema["properties"][name];
        let inner = resolved(field, root);
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let description = field["description"].as_str().or(inner["description"].as_str()).unwrap_or_default();
        let description = description.replace('\n', " ").replace('|', "\\|");
        let is_ours = inner["properties"].is_object() && default.as_object().is_some_and(|fields| !fields.is_empty());
        let options = options(inner);
        let told = if is_ours { String::new() } else { format!("`{default}`") };
        let _ = writeln!(page, "| `{path}` | {told} | {description}{options} |");
        if is_ours {
            rows(page, inner, root, default, &path);
        }
    }
}

fn options(schema: &Value) -> String {
    let all = schema["enum"].as_array().into_iter().flatten().chain(schema["oneOf"].as_array().into_iter().flatten());
    let all: Vec<_> = all.filter_map(|option| option.as_str().or(option["const"].as_str())).collect();
    if all.is_empty() { String::new() } else { format!(" `{}`", all.join("`, `")) }
}

fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#')));
    target.unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_become_expressions_and_foreign_braces_stay_braces() {
        let object = json!({ "a": format!("user in ['x', '{TRUSTED}'] of {OWN}"), "b": "`{{ params.x }}`" });
        assert_eq!(
            templated(&object),
            "a: \"user in ['x'{{ range .Values.trustedUsers }}, '{{ . }}'{{ end }}] of {{ .Release.Namespace }}\"\n\
             b: \"`{{ \"{{\" }} params.x }}`\"\n"
        );
    }

    #[test]
    fn the_whole_list_of_the_systems_namespaces_is_replaced() {
        let text = format!("x in ['default', '{SYSTEM}', 'velero'] && y in ['z']");
        assert_eq!(
            with_expressions(&text),
            "\"x in [{{ include \"croft.quotedSystemNamespaces\" . }}] && y in ['z']\""
        );
    }
}
