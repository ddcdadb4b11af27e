//! What whoever keeps objects must be told of them: the generator holds the operator's two watches on its own objects.
//!
//! It reads what it is sent and drops it. So the ratio tells what following, deciding and reporting cost, and not that the API
//! server has somebody to tell.

use std::time::Duration;

use anyhow::{Result, ensure};
use croft_api::namespaces::STAMP_LABEL;
use futures::AsyncReadExt;
use http::Uri;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, Resource,
    api::WatchParams,
    core::{DynamicObject, Request},
};
use tokio::task::JoinHandle;

use super::twin::{renamed, twin_binding};

/// Of one read: more than the API server sends at once.
const BUFFER: usize = 64 << 10;
/// Longer than any run: a watch that had to begin anew would be told everything again, in the middle of a lap.
const WATCH: Duration = Duration::from_secs(6 * 3600);

pub(super) struct News {
    watches: Vec<JoinHandle<()>>,
}

impl News {
    pub(super) async fn follow(client: &Client) -> Result<Self> {
        let stamped = WatchParams::default().labels(&renamed(STAMP_LABEL));
        let objects = Request::new(ConfigMap::url_path(&(), None)).watch(&stamped, "0")?;
        let bindings = Request::new(DynamicObject::url_path(&twin_binding(), None));
        let bindings = bindings.watch(&WatchParams::default(), "0")?;
        let mut watches = Vec::new();
        for mut request in [objects, bindings] {
            *request.uri_mut() = lasting(request.uri())?;
            let mut stream = client.request_stream(request).await?;
            watches.push(tokio::spawn(async move {
                let mut buffer = vec![0; BUFFER];
                while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
            }));
        }
        Ok(Self { watches })
    }

    /// A lap without them would be too cheap.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(!self.watches.iter().any(JoinHandle::is_finished), "a watch of the generator has ended; run it again");
        Ok(())
    }
}

impl Drop for News {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

/// The same watch for longer than the library lets it be asked for.
fn lasting(uri: &Uri) -> Result<Uri> {
    let parts = uri.to_string();
    let (before, after) = parts.split_once("timeoutSeconds=").unwrap_or((&parts, ""));
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    Ok(format!("{before}timeoutSeconds={}{rest}", WATCH.as_secs()).parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_lasts_longer_than_any_run_and_is_otherwise_the_same() {
        let asked = Request::new("/api/v1/configmaps").watch(&WatchParams::default().labels("a"), "0").unwrap();
        let lasting = lasting(asked.uri()).unwrap().to_string();
        assert_eq!(lasting.replace("=21600", "=290"), asked.uri().to_string());
        assert!(lasting.contains("timeoutSeconds=21600&"), "{lasting}");
    }
}
