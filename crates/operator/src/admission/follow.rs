//! One object under watch.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api, Resource,
    runtime::watcher::{self, watch_object},
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{debug, warn};

const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Follows the object `name` for ever; a broken watch is opened anew, which lists the object again.
pub(super) struct Follow<K> {
    api: Api<K>,
    name: String,
    stream: Option<BoxStream<'static, watcher::Result<Option<K>>>>,
    delay: Duration,
    open_at: Instant,
}

impl<K> Follow<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(super) fn new(api: Api<K>, name: impl Into<String>) -> Self {
        Self { api, name: name.into(), stream: None, delay: FIRST_DELAY, open_at: Instant::now() }
    }

    /// The object as it is now; `None` while it does not exist. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<K> {
        loop {
            tokio::time::sleep_until(self.open_at).await;
            let stream = self.stream.get_or_insert_with(|| watch_object(self.api.clone(), &self.name).boxed());
            match stream.next().await {
                Some(Ok(object)) => {
                    self.delay = FIRST_DELAY;
                    return object;
                }
                Some(Err(error)) => self.broke(&error),
                None => self.stream = None,
            }
        }
    }

    fn broke(&mut self, error: &watcher::Error) {
        // A lost connection is nothing to tell; what stays broken is said, more and more seldom.
        if self.delay == FIRST_DELAY {
            debug!(name = self.name, %error, "watch interrupted");
        } else {
            warn!(name = self.name, %error, "cannot watch this object; will try again");
        }
        self.stream = None;
        self.open_at = Instant::now() + self.delay;
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
    }
}
