//! The Helm chart, as far as it can be made from what `croft manifests` prints: kinds, rights, fences, webhooks, values.
//!
//! The program is asked for the manifests of every situation that the chart's values can make. What comes out the same in all of
//! them is written as it is, everything else under the condition of the situations it comes out in. Names that the reader chooses
//! are asked for under names of ours, which are then replaced by expressions.

mod conditions;
mod templates;

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::{
    conditions::{Situation, Situations, condition, situations},
    templates::templated,
};
use super::{Files, MARK, printed};

const FOLDER: &str = "deploy/chart";

/// What is made of which kinds.
const TEMPLATES: [(&str, &[&str]); 4] = [
    ("crds", &["CustomResourceDefinition"]),
    ("rights", &["Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"]),
    ("fences", &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]),
    ("webhooks", &["ValidatingWebhookConfiguration"]),
];

/// Lists whose items depend on the situation one by one.
const LISTS: [&str; 2] = ["rules", "webhooks"];

pub(super) fn files(croft: &Path) -> Result<Files> {
    let objects = Objects::of(croft)?;
    let mut files = Files::new();
    let mut add = |name: &str, content: String| files.insert(format!("{FOLDER}/{name}").into(), content);
    for (name, kinds) in TEMPLATES {
        add(&format!("templates/{name}.yaml"), objects.template(name, kinds)?);
    }
    let schema: Value = serde_json::from_str(&output(croft, &["values", "--schema"])?)?;
    add("templates/_generated.tpl", templates::system_namespaces(objects.known_system_namespaces()?));
    add("Chart.yaml", chart());
    add("values.yaml", printed(croft, &["values"])?);
    add("values.schema.json", commented(schema.clone())?);
    add("README.md", templates::readme(&schema, &serde_saphyr::from_str(&output(croft, &["values"])?)?));
    Ok(files)
}

fn chart() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "# {MARK}.\napiVersion: v2\nname: croft\ntype: application\nversion: {version}\nappVersion: {version}\n\
         description: Namespaces from classes, storage on Ceph and backups on Velero, by self-service\n\
         kubeVersion: \">=1.31.0-0\"\n"
    )
}

fn commented(mut schema: Value) -> Result<String> {
    schema["$comment"] = format!("{MARK} from `croft values --schema`.").into();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

pub(super) fn output(croft: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(croft).args(arguments).output().with_context(|| format!("running {}", croft.display()))?;
    let line = arguments.join(" ");
    ensure!(output.status.success(), "croft {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// Every object in every form it takes, with the situations it does so in, in the order they are installed.
struct Objects(Vec<(Key, Vec<(Value, Situations)>)>);

/// Kind, namespace and name.
type Key = [String; 3];

impl Objects {
    fn of(croft: &Path) -> Result<Self> {
        let mut order: Vec<Key> = Vec::new();
        let mut forms: BTreeMap<Key, Vec<(Value, Situations)>> = BTreeMap::new();
        for situation in situations() {
            for object in manifests(croft, &situation)? {
                let key = key(&object);
                if !order.contains(&key) {
                    order.push(key.clone());
                }
                add(forms.entry(key).or_default(), object, &situation);
            }
        }
        Ok(Self(order.into_iter().filter_map(|key| forms.remove(&key).map(|forms| (key, forms))).collect()))
    }

    fn template(&self, name: &str, kinds: &[&str]) -> Result<String> {
        let mut text = format!("{{{{- /* {MARK} from `croft manifests`. */ -}}}}\n");
        for (key, forms) in self.0.iter().filter(|(key, _)| kinds.contains(&key[0].as_str())) {
            // Helm makes it, or knows it already.
            if key[0] == "Namespace" && key[2] == templates::OWN {
                continue;
            }
            text.push_str(&document(key, forms)?);
        }
        Ok(if name == "crds" { format!("{{{{- if .Values.crds.install }}}}\n{text}{{{{- end }}}}\n") } else { text })
    }

    /// Those that are the system's in every installation.
    fn known_system_namespaces(&self) -> Result<Vec<String>> {
        let all = self.0.iter().flat_map(|(_, forms)| forms).map(|(object, _)| object.to_string());
        let mut lists = all.filter_map(|text| templates::system_list(&text).map(|(_, list, _)| list.to_owned()));
        let list = lists.next().context("no fence knows the system's namespaces")?;
        let names = list.split(", ").map(|name| name.trim_matches('\'').to_owned());
        Ok(names.filter(|name| !name.starts_with(templates::CHOSEN)).collect())
    }
}

fn manifests(croft: &Path, situation: &Situation) -> Result<Vec<Value>> {
    let arguments = situation.arguments();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    serde_saphyr::from_multiple(&output(croft, &arguments)?).context("reading what croft manifests printed")
}

fn key(object: &Value) -> Key {
    ["/kind", "/metadata/namespace", "/metadata/name"]
        .map(|place| object.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn add(forms: &mut Vec<(Value, Situations)>, form: Value, situation: &Situation) {
    match forms.iter_mut().find(|(known, _)| *known == form) {
        Some((_, situations)) => drop(situations.insert(situation.clone())),
        None => forms.push((form, [situation.clone()].into())),
    }
}

/// One object, in whichever forms it has.
fn document(key: &Key, forms: &[(Value, Situations)]) -> Result<String> {
    for list in LISTS {
        if forms.iter().any(|(form, _)| form[list].is_array()) {
            return piece_by_piece(forms, list).with_context(|| key.join(" "));
        }
    }
    let mut text = String::new();
    for (form, situations) in forms {
        let body = format!("---\n{}", templated(&kept(form.clone())));
        let mut condition = condition(situations).with_context(|| key.join(" "))?;
        if key[0] == "Namespace" {
            condition.push(templates::IS_WANTED_NAMESPACE.to_owned());
        }
        text.push_str(&under(&condition, &body));
    }
    Ok(text)
}

/// A role, or what is checked at the door, is one object in every situation; each of its rules has situations of its own.
fn piece_by_piece(forms: &[(Value, Situations)], list: &str) -> Result<String> {
    let (mut pieces, mut all) = (Vec::new(), Situations::new());
    for (form, situations) in forms {
        all.extend(situations.iter().cloned());
        for piece in form[list].as_array().into_iter().flatten() {
            for situation in situations {
                add(&mut pieces, piece.clone(), situation);
            }
        }
    }
    pieces.sort_by_cached_key(|(piece, _)| {
        [&piece["apiGroups"], &piece["resources"], &piece["verbs"]].map(Value::to_string)
    });
    let mut object = forms.first().map(|(form, _)| form.clone()).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.remove(list);
    }
    let mut text = format!("---\n{}{list}:\n", templated(&object));
    for (piece, situations) in pieces {
        let body = templated(&Value::Array(vec![piece]));
        let condition = if situations == all { Vec::new() } else { condition(&situations)? };
        text.push_str(&under(&condition, &body));
    }
    Ok(under(&condition(&all)?, &text))
}

fn under(condition: &[String], text: &str) -> String {
    match condition {
        [] => text.to_owned(),
        [one] => format!("{{{{- if {one} }}}}\n{text}{{{{- end }}}}\n"),
        several => format!("{{{{- if and ({}) }}}}\n{text}{{{{- end }}}}\n", several.join(") (")),
    }
}

/// What others may depend on stays when the release goes.
fn kept(mut object: Value) -> Value {
    if object["kind"] == "CustomResourceDefinition" || object["kind"] == "Namespace" {
        object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    }
    object
}
