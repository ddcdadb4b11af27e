//! Naming requests the way a person would: "the second patch of configmaps team-a/settings".

use std::fmt;

use http::{Method, Uri};

/// What a request asks for.
///
/// On the way to Kubernetes `verb` is the API verb and `resource` is `plural` for core kinds, `group/plural` for the
/// others. On the way to the gateway they are the method in lower case and the path, and `subresource` holds the names
/// of the query parameters, joined by `&`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub verb: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// Counts requests that are otherwise equal, from 1.
    pub occurrence: usize,
    /// Changes something at the server if it succeeds.
    pub write: bool,
}

/// Which API a proxy stands in front of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Kubernetes,
    Gateway,
}

/// Kinds that are asked, not stored.
const REVIEWS: [&str; 6] = [
    "authentication.k8s.io/tokenreviews",
    "authentication.k8s.io/selfsubjectreviews",
    "authorization.k8s.io/subjectaccessreviews",
    "authorization.k8s.io/selfsubjectaccessreviews",
    "authorization.k8s.io/localsubjectaccessreviews",
    "authorization.k8s.io/selfsubjectrulesreviews",
];

/// Written at their own pace, so they belong to no story a test tells.
const BACKGROUND: [&str; 3] = ["coordination.k8s.io/leases", "events", "events.k8s.io/events"];

impl Request {
    pub(crate) fn parse(dialect: Dialect, method: &Method, uri: &Uri) -> Self {
        match dialect {
            Dialect::Kubernetes => Self::kubernetes(method, uri),
            Dialect::Gateway => Self::gateway(method, uri),
        }
    }

    /// A write that counts in [`super::Match::write_number`]: not a lease, not an event.
    pub fn is_deliberate_write(&self) -> bool {
        self.write && !BACKGROUND.contains(&self.resource.as_str())
    }

    /// Equal but for the occurrence.
    pub(crate) fn is_again(&self, other: &Self) -> bool {
        let key = |request: &Self| {
            let Self { verb, resource, namespace, name, subresource, .. } = request.clone();
            (verb, resource, namespace, name, subresource)
        };
        key(self) == key(other)
    }

    fn kubernetes(method: &Method, uri: &Uri) -> Self {
        let target = Target::parse(uri.path());
        let query = uri.query().unwrap_or_default();
        let verb = kubernetes_verb(method, target.name.is_some(), query);
        let dry_run = query.split('&').any(|pair| pair.starts_with("dryRun="));
        let changes = matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection");
        Self {
            write: changes && !dry_run && !REVIEWS.contains(&target.resource.as_str()),
            verb: verb.to_owned(),
            resource: target.resource,
            namespace: target.namespace,
            name: target.name,
            subresource: target.subresource,
            occurrence: 1,
        }
    }

    fn gateway(method: &Method, uri: &Uri) -> Self {
        let mut keys: Vec<_> =
            uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or(pair)).collect();
        keys.sort_unstable();
        let keys = keys.join("&");
        Self {
            verb: method.as_str().to_lowercase(),
            resource: uri.path().to_owned(),
            namespace: None,
            name: None,
            subresource: (!keys.is_empty()).then_some(keys),
            occurrence: 1,
            write: !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(out, "[{subresource}]")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(out, " {namespace}/{name}")?,
            (Some(namespace), None) => write!(out, " {namespace}/")?,
            (None, Some(name)) => write!(out, " {name}")?,
            (None, None) => {}
        }
        write!(out, " #{}", self.occurrence)
    }
}

fn kubernetes_verb(method: &Method, named: bool, query: &str) -> &'static str {
    let watch = query.split('&').any(|pair| matches!(pair, "watch" | "watch=true" | "watch=1"));
    match *method {
        Method::GET | Method::HEAD if watch => "watch",
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "other",
    }
}

struct Target {
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

impl Target {
    fn parse(path: &str) -> Self {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        match segments.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => Self::resource("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => Self::resource(group, rest),
            // Discovery, health, version: a thing that has a name and no kind.
            _ => Self { resource: String::new(), namespace: None, name: Some(path.to_owned()), subresource: None },
        }
    }

    fn resource(group: &str, rest: &[&str]) -> Self {
        let own = |text: &&str| (*text).to_owned();
        let (namespace, rest) = match rest {
            // A namespace's own subresources; everything else below a namespace is an object in it.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(own(namespace)), rest),
            _ => (None, rest),
        };
        let plural = rest.first().map(own).unwrap_or_default();
        Self {
            resource: if group.is_empty() { plural } else { format!("{group}/{plural}") },
            namespace,
            name: rest.get(1).map(own),
            subresource: rest.get(2..).filter(|rest| !rest.is_empty()).map(|rest| rest.join("/")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(method: &Method, uri: &str) -> String {
        Request::parse(Dialect::Kubernetes, method, &uri.parse().unwrap()).to_string()
    }

    #[test]
    fn requests_are_named_by_verb_kind_and_object() {
        for (method, uri, name) in [
            (Method::GET, "/api/v1/namespaces", "list namespaces #1"),
            (Method::GET, "/api/v1/namespaces?watch=true&resourceVersion=1", "watch namespaces #1"),
            (Method::GET, "/api/v1/namespaces/a", "get namespaces a #1"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update namespaces[finalize] a #1"),
            (Method::POST, "/api/v1/namespaces/a/configmaps", "create configmaps a/ #1"),
            (Method::DELETE, "/api/v1/namespaces/a/configmaps", "deletecollection configmaps a/ #1"),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/d/status", "patch apps/deployments[status] a/d #1"),
            (Method::GET, "/apis/apps/v1", "get  /apis/apps/v1 #1"),
        ] {
            assert_eq!(named(&method, uri), name, "{uri}");
        }
    }

    #[test]
    fn dry_runs_and_reviews_are_no_writes() {
        let write = |uri: &str| Request::parse(Dialect::Kubernetes, &Method::POST, &uri.parse().unwrap()).write;
        assert!(write("/api/v1/namespaces/a/configmaps"));
        assert!(!write("/api/v1/namespaces/a/configmaps?dryRun=All"));
        assert!(!write("/apis/authorization.k8s.io/v1/subjectaccessreviews"));
    }

    #[test]
    fn gateway_requests_are_named_by_method_path_and_parameters() {
        let request = Request::parse(Dialect::Gateway, &Method::PUT, &"/admin/user?uid=a&quota".parse().unwrap());
        assert_eq!(request.to_string(), "put /admin/user[quota&uid] #1");
    }
}
