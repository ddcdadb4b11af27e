//! What whoever keeps objects must be told of them: the generator holds the operator's two watches on its own objects.
//!
//! It reads what it is sent and drops it. So the ratio tells what following, deciding and reporting cost, and not that the API
//! server has somebody to tell.

use anyhow::Result;
use croft_api::namespaces::STAMP_LABEL;
use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, Resource,
    api::WatchParams,
    core::{DynamicObject, Request},
};
use tokio::task::JoinSet;

use super::twin::{renamed, twin_binding};

/// Of one read: more than the API server sends at once.
const BUFFER: usize = 64 << 10;

/// Ends with its owner.
pub(super) struct News {
    _watches: JoinSet<Result<()>>,
}

impl News {
    pub(super) async fn follow(client: &Client) -> Result<Self> {
        let stamped = WatchParams::default().labels(&renamed(STAMP_LABEL));
        let objects = Request::new(ConfigMap::url_path(&(), None)).watch(&stamped, "0")?;
        let bindings = Request::new(DynamicObject::url_path(&twin_binding(), None));
        let bindings = bindings.watch(&WatchParams::default(), "0")?;
        let mut watches = JoinSet::new();
        for request in [objects, bindings] {
            let mut stream = client.request_stream(request).await?;
            watches.spawn(async move {
                let mut buffer = vec![0; BUFFER];
                while stream.read(&mut buffer).await? > 0 {}
                Ok(())
            });
        }
        Ok(Self { _watches: watches })
    }
}
