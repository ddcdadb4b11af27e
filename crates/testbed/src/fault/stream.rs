//! Bodies that flow through the proxy, and the tap on those that never end.

use std::convert::Infallible;

use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, BodyStream, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use tokio::sync::watch;
use tower::BoxError;

use super::reply::watch_gone_event;

pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What all open watches do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tap {
    /// Nothing is delivered meanwhile, and nothing is lost.
    pub(super) paused: bool,
    /// Watches opened before this number rose end.
    pub(super) generation: u64,
    /// How those end: with a 410 event, or with the connection.
    pub(super) gone: bool,
}

pub(super) const OPEN: Tap = Tap { paused: false, generation: 0, gone: false };

pub(super) fn whole(text: String) -> Body {
    Full::from(text).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(super) fn passed_on(body: Incoming) -> Body {
    body.map_err(BoxError::from).boxed_unsync()
}

enum Next {
    Frame(Option<Result<Frame<Bytes>, BoxError>>),
    End { gone: bool },
}

/// A watch's events, delivered while `tap` is open and until its generation is no longer `born`.
pub(super) fn tapped(body: Incoming, tap: watch::Receiver<Tap>, born: u64) -> Body {
    let frames = TryStreamExt::map_err(BodyStream::new(body), BoxError::from).boxed();
    let events = stream::unfold(Some((frames, tap)), move |state| async move {
        let (mut frames, mut tap) = state?;
        match next(&mut frames, &mut tap, born).await {
            Next::Frame(frame) => Some((frame?, Some((frames, tap)))),
            Next::End { gone: true } => Some((Ok(Frame::data(Bytes::from(watch_gone_event()))), None)),
            Next::End { gone: false } => Some((Err("the proxy closed this watch".into()), None)),
        }
    });
    StreamBody::new(events).boxed_unsync()
}

async fn next<S>(frames: &mut S, tap: &mut watch::Receiver<Tap>, born: u64) -> Next
where
    S: futures::Stream<Item = Result<Frame<Bytes>, BoxError>> + Unpin,
{
    loop {
        let now = *tap.borrow_and_update();
        if now.generation != born {
            return Next::End { gone: now.gone };
        }
        if now.paused {
            // A proxy that is gone delivers nothing more.
            if tap.changed().await.is_err() {
                return Next::End { gone: false };
            }
            continue;
        }
        tokio::select! {
            biased;
            _ = tap.changed() => {}
            frame = frames.next() => return Next::Frame(frame),
        }
    }
}
