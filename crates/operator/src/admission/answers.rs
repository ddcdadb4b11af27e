//! One HTTP request -> one answer, whatever comes in.
//!
//! A review that panics is a bug of ours and the trouble of this one request: it is told to whoever asked, logged and counted,
//! and the server goes on. One that takes too long is refused while the API server still listens, so that whoever asked can
//! be told to try again.

use std::{panic::AssertUnwindSafe, sync::Arc, task::Poll, time::Duration};

use axum::{
    Extension, Json, Router,
    body::Body,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use croft_core::name::is_path_segment;
use futures::FutureExt;
use kube::core::{Status, admission::AdmissionResponse};
use serde::Deserialize;
use tokio::{
    sync::Semaphore,
    time::{Instant, error::Elapsed},
};
use tracing::{debug, error, warn};

use super::{
    bodies::{Bodies, Received},
    context::Context,
    hooks::Hook,
    refusal::{failure, unchecked},
    review::Answer,
};
use crate::{connections::Peer, telemetry::metrics::Metrics};

/// A review takes no longer than this from its arrival on: less than the API server waits.
const DEADLINE: Duration = Duration::from_secs(4);

/// Where panics are counted.
const PLACE: &str = "admission";

pub(super) fn routes(hooks: &'static [Hook], context: &Context, metrics: &Arc<Metrics>) -> Router {
    let (bodies, desk) = (Bodies::default(), Desk::new(context, metrics));
    let route = |routes: Router, hook: &'static Hook| {
        let (bodies, desk) = (bodies.clone(), desk.clone());
        let reply = async move |Extension(peer): Extension<Peer>, body: Body| {
            let deadline = Instant::now() + DEADLINE;
            match bodies.receive(body, peer.0).await {
                Ok(received) => desk.answer(hook, received, deadline).await,
                Err(code) => code.into_response(),
            }
        };
        routes.route(hook.path, post(reply))
    };
    hooks.iter().fold(Router::new(), route)
}

/// Where reviews are judged.
#[derive(Clone)]
struct Desk {
    context: Context,
    metrics: Arc<Metrics>,
    /// Large ones are read one at a time: what is made of one may be many times its size.
    large: Arc<Semaphore>,
}

impl Desk {
    fn new(context: &Context, metrics: &Arc<Metrics>) -> Self {
        Self { context: context.clone(), metrics: metrics.clone(), large: Arc::new(Semaphore::new(1)) }
    }

    async fn answer(&self, hook: &Hook, received: Received, deadline: Instant) -> Response {
        let asked = Asked::read(&received.text);
        let reviewed = tokio::time::timeout_at(deadline, self.review(hook, received)).await;
        response(hook, &asked, reviewed, &self.metrics)
    }

    /// What a review leaves behind is written in one step each, so that it can end anywhere.
    async fn review(&self, hook: &Hook, received: Received) -> Reviewed {
        // The semaphore is never closed.
        let turn = if received.is_large() { self.large.acquire().await.ok() } else { None };
        let Received { text, units, place: _until_it_is_answered } = received;
        let review = AssertUnwindSafe(async { (hook.review)(text, &self.context).await }).catch_unwind();
        let mut review = std::pin::pin!(review);
        match futures::poll!(review.as_mut()) {
            Poll::Ready(reviewed) => reviewed,
            Poll::Pending => {
                // It was read before it waited for anybody else: its text is gone.
                drop((turn, units));
                review.await
            }
        }
    }
}

/// An answer, or a panic.
type Reviewed = Result<Answer, Box<dyn std::any::Any + Send>>;

fn response(hook: &Hook, asked: &Asked, reviewed: Result<Reviewed, Elapsed>, metrics: &Metrics) -> Response {
    match reviewed {
        Ok(Ok(Ok(review))) => {
            if let Some(refused) = review.response.as_ref().filter(|response| !response.allowed) {
                debug!(hook = hook.name, request = refused.uid, code = refused.result.code, "refused");
            }
            Json(review).into_response()
        }
        Ok(Ok(Err(error))) => {
            let message = format!("this is not an AdmissionReview that can be read: {error}");
            refusal(asked, failure(400, "BadRequest", message))
        }
        Ok(Err(_)) => {
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
            refusal(asked, failure(500, "InternalError", message.to_owned()))
        }
        Err(_) => {
            warn!(
                hook = hook.name,
                request = asked.uid,
                namespace = asked.namespace,
                name = asked.name,
                "a review took too long; the request was refused"
            );
            let message = format!("croft could not check this object within {} seconds; try again", DEADLINE.as_secs());
            refusal(asked, unchecked(message))
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
    /// Empty if there is nothing of it. It is kept, logged and sent back: what no request has is not.
    fn read(body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        struct Review {
            request: Asked,
        }
        let Asked { uid, namespace, name } = serde_json::from_slice::<Review>(body).unwrap_or_default().request;
        let [uid, namespace, name] = [uid, namespace, name].map(|text| Some(text).filter(|text| is_path_segment(text)));
        Self { uid: uid.unwrap_or_default(), namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests;
