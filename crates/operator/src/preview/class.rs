//! The class in the file: read, and checked by us and by the API server, all problems at once.

use std::{io::Read as _, path::Path};

use anyhow::{Context as _, bail};
use croft_api::namespaces::{NamespaceClass, validate};
use http::{Method, Request};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::yaml;
use crate::engine::{
    failure::{classify, timed_out},
    write::CALL_TIMEOUT,
};

/// How often a class that changes meanwhile is tried again.
const ATTEMPTS: u32 = 5;

/// One NamespaceClass as somebody wrote it.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) name: String,
    raw: Value,
}

/// Reads a file, or standard input for `-`.
pub(super) fn read(path: &Path) -> anyhow::Result<Written> {
    let shown = path.display();
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        text
    } else {
        std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?
    };
    parse(&text).with_context(|| shown.to_string())
}

fn parse(text: &str) -> anyhow::Result<Written> {
    let mut documents: Vec<_> = yaml::documents(text)?.into_iter().filter(|document| !document.is_null()).collect();
    let Some(raw) = documents.pop().filter(|_| documents.is_empty()) else {
        bail!("give exactly one NamespaceClass");
    };
    let wanted = (NamespaceClass::api_version(&()), NamespaceClass::kind(&()));
    if (raw["apiVersion"].as_str(), raw["kind"].as_str()) != (Some(&*wanted.0), Some(&*wanted.1)) {
        bail!("not a NamespaceClass: give apiVersion {} and kind {}", wanted.0, wanted.1);
    }
    match raw["metadata"]["name"].as_str() {
        Some(name) if !name.is_empty() => Ok(Written { name: name.to_owned(), raw }),
        _ => bail!("metadata.name is missing"),
    }
}

impl Written {
    /// A class as if somebody had written it.
    pub(super) fn of(class: &NamespaceClass) -> anyhow::Result<Self> {
        let mut raw = serde_json::to_value(class).context("the class cannot be written as JSON")?;
        if let Some(fields) = raw.as_object_mut() {
            fields.remove("status");
        }
        Ok(Self { name: class.name_any(), raw })
    }

    /// The class as it would be once stored, or everything that is wrong with it.
    pub(super) async fn check(
        &self,
        client: &Client,
        live: Option<&NamespaceClass>,
    ) -> anyhow::Result<Result<NamespaceClass, Vec<String>>> {
        let refused = self.refusals(client, live).await?;
        let class = match serde_json::from_value::<NamespaceClass>(self.raw.clone()) {
            Ok(class) => class,
            Err(_) if !refused.is_empty() => return Ok(Err(refused)),
            Err(error) => return Ok(Err(vec![error.to_string()])),
        };
        let own = validate::validate(&class).err().unwrap_or_default();
        // Rules and webhook find in a field what we found there: say it once.
        let known = |refusal: &String| own.iter().any(|problem| refusal.starts_with(&format!("{}: ", problem.field)));
        let new = refused.into_iter().filter(|refusal| !known(refusal));
        let problems: Vec<_> = own.iter().map(ToString::to_string).chain(new).collect();
        Ok(if problems.is_empty() { Ok(as_stored(class, live)) } else { Err(problems) })
    }

    /// What the API server says to the class itself: schema, rules, admission.
    async fn refusals(&self, client: &Client, live: Option<&NamespaceClass>) -> anyhow::Result<Vec<String>> {
        // The operator writes the class's status whenever something happens: that is no fault of the class.
        let mut newest = live.cloned();
        for _ in 0..ATTEMPTS {
            if let Some(refusals) = self.refusals_at(client, newest.as_ref()).await? {
                return Ok(refusals);
            }
            newest = Api::all(client.clone()).get_opt(&self.name).await?;
        }
        anyhow::bail!("class {} changes all the time; try again", self.name)
    }

    /// As [`Self::refusals`], for exactly this form of the class; nothing if that is not the newest any more.
    async fn refusals_at(&self, client: &Client, live: Option<&NamespaceClass>) -> anyhow::Result<Option<Vec<String>>> {
        let mut body = self.raw.clone();
        let given = &self.raw["metadata"];
        body["metadata"] = json!({ "name": self.name, "labels": given["labels"], "annotations": given["annotations"] });
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        let (method, place) = match live {
            None => (Method::POST, String::new()),
            Some(live) => {
                body["metadata"]["resourceVersion"] = json!(live.resource_version());
                body["metadata"]["finalizers"] = json!(live.finalizers());
                (Method::PUT, format!("/{}", self.name))
            }
        };
        let path = NamespaceClass::url_path(&(), None);
        let uri = format!("{path}{place}?dryRun=All&fieldValidation=Strict");
        let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&body)?)?;
        let answer = tokio::time::timeout(CALL_TIMEOUT, client.request::<Value>(request)).await;
        match answer {
            Ok(Ok(_)) => Ok(Some(Vec::new())),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(None),
            // Nothing is wrong with the class.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                bail!("you may not write class {}: {}", self.name, status.message)
            }
            Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes: Vec<_> = causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
                Ok(Some(if causes.is_empty() { vec![status.message.clone()] } else { causes }))
            }
            Ok(Err(error)) => Err(classify(&error).into()),
            Err(_) => Err(timed_out("the API server").into()),
        }
    }
}

/// The written class with the identity of the one it replaces.
fn as_stored(mut class: NamespaceClass, live: Option<&NamespaceClass>) -> NamespaceClass {
    class.metadata.generation = Some(1);
    if let Some(live) = live {
        let changed = i64::from(live.spec != class.spec);
        class.metadata.uid.clone_from(&live.metadata.uid);
        class.metadata.generation = live.metadata.generation.map(|generation| generation + changed);
        class.metadata.deletion_timestamp.clone_from(&live.metadata.deletion_timestamp);
        class.status.clone_from(&live.status);
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_exactly_one_class() {
        let class = "apiVersion: akuity.io/v1alpha1\nkind: NamespaceClass\nmetadata: {name: team}\n";
        assert_eq!(parse(class).unwrap().name, "team");
        assert_eq!(parse(&format!("---\n{class}---\n")).unwrap().name, "team");
        for (text, says) in [
            ("", "exactly one"),
            (&format!("{class}---\n{class}"), "exactly one"),
            ("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}", "not a NamespaceClass"),
            ("apiVersion: akuity.io/v1alpha1\nkind: NamespaceClass", "metadata.name is missing"),
            ("a: [", "not valid YAML"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
