//! One HTTP request -> one answer, whatever comes in.
//!
//! A review that panics is a bug of ours and the trouble of this one request: it is told to whoever asked, logged and counted,
//! and the server goes on. One that takes too long is refused while the API server still listens, so that whoever asked can
//! be told to try again.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use futures::FutureExt;
use kube::core::{Status, admission::AdmissionResponse};
use serde::Deserialize;
use tracing::{debug, error, warn};

use super::{
    bodies::Bodies,
    context::Context,
    hooks::Hook,
    review::{failure, unchecked},
};
use crate::telemetry::metrics::Metrics;

/// A review takes no longer than this: less than the API server waits.
const DEADLINE: Duration = Duration::from_secs(4);

/// Where panics are counted.
const PLACE: &str = "admission";

pub(super) fn routes(hooks: &'static [Hook], context: &Context, metrics: &Arc<Metrics>) -> Router {
    let bodies = Bodies::default();
    let route = |routes: Router, hook: &'static Hook| {
        let (context, metrics, bodies) = (context.clone(), metrics.clone(), bodies.clone());
        let reply = async move |body: Body| match bodies.receive(body).await {
            Ok(received) => answer(hook, &received.text, &context, &metrics).await,
            Err(code) => code.into_response(),
        };
        routes.route(hook.path, post(reply))
    };
    hooks.iter().fold(Router::new(), route)
}

async fn answer(hook: &Hook, body: &[u8], context: &Context, metrics: &Metrics) -> Response {
    // What a review leaves behind is written in one step each, so that it can end anywhere.
    let review = AssertUnwindSafe(async { (hook.review)(body, context).await }).catch_unwind();
    match tokio::time::timeout(DEADLINE, review).await {
        Ok(Ok(Ok(review))) => {
            if let Some(refused) = review.response.as_ref().filter(|response| !response.allowed) {
                debug!(hook = hook.name, request = refused.uid, code = refused.result.code, "refused");
            }
            Json(review).into_response()
        }
        Ok(Ok(Err(error))) => {
            let message = format!("this is not an AdmissionReview that can be read: {error}");
            refusal(&Asked::read(body), failure(400, "BadRequest", message))
        }
        Ok(Err(_)) => {
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
            refusal(&asked, failure(500, "InternalError", message.to_owned()))
        }
        Err(_) => {
            let asked = Asked::read(body);
            warn!(
                hook = hook.name,
                request = asked.uid,
                namespace = asked.namespace,
                name = asked.name,
                "a review took too long; the request was refused"
            );
            let message = format!("croft could not check this object within {} seconds; try again", DEADLINE.as_secs());
            refusal(&asked, unchecked(message))
        }
    }
}

/// A refusal the API server passes on word for word. Only where not even the request's UID can be read it is an HTTP error,
/// whose text the API server keeps to itself.
fn refusal(asked: &Asked, status: Status) -> Response {
    if asked.uid.is_empty() {
        let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return (code, status.message + "\n").into_response();
    }
    let mut response = AdmissionResponse::invalid(&status.reason);
    response.uid.clone_from(&asked.uid);
    response.result = status;
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
