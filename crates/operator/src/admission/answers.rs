//! One HTTP request -> one answer, whatever comes in.
//!
//! A review that panics is a bug of ours and the trouble of this one request: it is told to whoever asked, logged and counted,
//! and the server goes on.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use kube::core::{Status, admission::AdmissionResponse, response::StatusSummary};
use serde::Deserialize;
use tracing::{debug, error};

use super::{hooks::Hook, scopes::ClusterScoped};
use crate::telemetry::metrics::Metrics;

/// A review carries the object twice, and the API server takes objects of up to 3 MiB.
const BODY_LIMIT: usize = 8 << 20;

/// Where panics are counted.
const PLACE: &str = "admission";

pub(super) fn routes(hooks: &'static [Hook], cluster_scoped: &ClusterScoped, metrics: &Arc<Metrics>) -> Router {
    let route = |routes: Router, hook: &'static Hook| {
        let (cluster_scoped, metrics) = (cluster_scoped.clone(), metrics.clone());
        routes.route(hook.path, post(async move |body: Bytes| answer(hook, &body, &cluster_scoped, &metrics)))
    };
    hooks.iter().fold(Router::new(), route).layer(DefaultBodyLimit::max(BODY_LIMIT))
}

fn answer(hook: &Hook, body: &[u8], cluster_scoped: &ClusterScoped, metrics: &Metrics) -> Response {
    // A review reads and answers; it leaves nothing behind that could be broken.
    match catch_unwind(AssertUnwindSafe(|| (hook.review)(body, cluster_scoped))) {
        Ok(Ok(review)) => {
            if let Some(refused) = review.response.as_ref().filter(|response| !response.allowed) {
                debug!(hook = hook.name, request = refused.uid, code = refused.result.code, "refused");
            }
            Json(review).into_response()
        }
        Ok(Err(error)) => {
            let message = format!("this is not an AdmissionReview that can be read: {error}");
            refusal(&Asked::read(body), StatusCode::BAD_REQUEST, "BadRequest", message)
        }
        Err(_) => {
            let asked = Asked::read(body);
            error!(
                hook = hook.name,
                request = asked.uid,
                namespace = asked.namespace,
                name = asked.name,
                "a review panicked: a bug in croft; the request was refused"
            );
            metrics.panicked(PLACE);
            let message =
                "croft failed to check this object and refused it: this is a bug in croft, its log tells more";
            refusal(&asked, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message.to_owned())
        }
    }
}

/// A refusal the API server passes on word for word. Only where not even the request's UID can be read it is an HTTP error,
/// whose text the API server keeps to itself.
fn refusal(asked: &Asked, code: StatusCode, reason: &str, message: String) -> Response {
    if asked.uid.is_empty() {
        return (code, message + "\n").into_response();
    }
    let mut response = AdmissionResponse::invalid(reason);
    response.uid.clone_from(&asked.uid);
    response.result = Status {
        status: Some(StatusSummary::Failure),
        code: code.as_u16(),
        reason: reason.to_owned(),
        message,
        ..Status::default()
    };
    Json(response.into_review()).into_response()
}

/// What was asked for, as far as an answer needs it: read without looking at the object, so whatever that looks like.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    uid: String,
    namespace: String,
    name: String,
}

impl Asked {
    /// Empty if there is nothing of it.
    fn read(body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        struct Review {
            request: Asked,
        }
        serde_json::from_slice::<Review>(body).unwrap_or_default().request
    }
}

#[cfg(test)]
mod tests;
