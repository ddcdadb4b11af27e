//! Where a watch gets its objects: the API server, or a script in tests.

use std::{future::Future, time::Duration};

use croft_core::watching::Trouble;
use futures::{Stream, StreamExt, stream::BoxStream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
    core::{DeserializeGuard, DynamicObject, PartialObjectMeta, Status},
};
use serde::de::DeserializeOwned;

use crate::engine::failure::root_cause;

/// A page that takes longer is asked for again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The API server ends a watch by itself after this long; a connection that is silent for longer is dead.
const WATCH_TIMEOUT: u32 = 290;
const SILENCE: Duration = Duration::from_secs(WATCH_TIMEOUT as u64 + 10);

/// An object off the wire: decoded, or only its metadata and why it could not be decoded.
#[derive(Debug)]
pub(crate) enum Arrived<K> {
    Readable(K),
    Unreadable { metadata: Box<ObjectMeta>, error: String },
}

/// A part of a list.
#[derive(Debug)]
pub(crate) struct Page<K> {
    pub(crate) objects: Vec<Arrived<K>>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
    pub(crate) version: String,
}

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Happening<K> {
    Put(Arrived<K>),
    Gone(Arrived<K>),
    /// Nothing new up to this version.
    Bookmark(String),
}

pub(crate) type Happenings<K> = BoxStream<'static, Result<Happening<K>, Trouble>>;

pub(crate) trait Source<K>: Send + Sync {
    /// A page of everything there is.
    fn list(&self, from: Option<&str>) -> impl Future<Output = Result<Page<K>, Trouble>> + Send;

    /// What happens after `version`. Ends when the other side ends it; a dead connection is an error.
    fn watch(&self, version: &str) -> impl Future<Output = Result<Happenings<K>, Trouble>> + Send;
}

/// Objects of one kind on the API server; `W` is their form on the wire.
pub(crate) struct Wire<W, K> {
    api: Api<W>,
    labels: Option<String>,
    fields: Option<String>,
    page: u32,
    decode: fn(W) -> Arrived<K>,
}

impl<K> Wire<DeserializeGuard<K>, K> {
    /// Whole objects; one that cannot be decoded does not disturb the others.
    pub(crate) fn objects(api: Api<DeserializeGuard<K>>) -> Self {
        Self {
            api,
            labels: None,
            fields: None,
            page: 100,
            decode: |guarded| match guarded.0 {
                Ok(object) => Arrived::Readable(object),
                Err(invalid) => Arrived::Unreadable { metadata: Box::new(invalid.metadata), error: invalid.error },
            },
        }
    }
}

impl<K> Wire<PartialObjectMeta<K>, PartialObjectMeta<K>> {
    /// Metadata only: for Secrets, whose contents we never cache, and for kinds we only point at.
    pub(crate) fn metadata(api: Api<PartialObjectMeta<K>>) -> Self {
        Self { api, labels: None, fields: None, page: 500, decode: Arrived::Readable }
    }
}

impl Wire<DynamicObject, DynamicObject> {
    /// Whole objects of a kind known only at run time that carry a label.
    pub(crate) fn labelled(api: Api<DynamicObject>, label: &str) -> Self {
        Self { api, labels: Some(label.to_owned()), fields: None, page: 500, decode: Arrived::Readable }
    }
}

impl<W, K> Wire<W, K> {
    /// Only the object of this name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.fields = Some(format!("metadata.name={name}"));
        self
    }
}

impl<W, K> Source<K> for Wire<W, K>
where
    W: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    K: Send + 'static,
{
    async fn list(&self, from: Option<&str>) -> Result<Page<K>, Trouble> {
        let params = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: Some(self.page),
            continue_token: from.map(str::to_owned),
            ..ListParams::default()
        };
        let answer = tokio::time::timeout(PAGE_TIMEOUT, self.api.list(&params)).await;
        let list = answer.map_err(|_| slow())?.map_err(|error| trouble(&error))?;
        Ok(Page {
            objects: list.items.into_iter().map(self.decode).collect(),
            next: list.metadata.continue_.filter(|token| !token.is_empty()),
            version: list.metadata.resource_version.unwrap_or_default(),
        })
    }

    async fn watch(&self, version: &str) -> Result<Happenings<K>, Trouble> {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_TIMEOUT),
            bookmarks: true,
            ..WatchParams::default()
        };
        let answer = tokio::time::timeout(PAGE_TIMEOUT, self.api.watch(&params, version)).await;
        let stream = answer.map_err(|_| slow())?.map_err(|error| trouble(&error))?;
        let decode = self.decode;
        Ok(alive(stream).map(move |event| happening(event?, decode)).boxed())
    }
}

/// The stream, with an error for the silence of a dead connection.
fn alive<T: Send + 'static>(
    stream: impl Stream<Item = kube::Result<T>> + Send + 'static,
) -> impl Stream<Item = Result<T, Trouble>> + Send {
    futures::stream::unfold(Some(stream.boxed()), |stream| async {
        let mut stream = stream?;
        match tokio::time::timeout(SILENCE, stream.next()).await {
            Err(_) => Some((Err(Trouble::Unreachable("the connection is dead".into())), None)),
            Ok(None) => None,
            Ok(Some(event)) => Some((event.map_err(|error| trouble(&error)), Some(stream))),
        }
    })
}

fn happening<W, K>(event: WatchEvent<W>, decode: fn(W) -> Arrived<K>) -> Result<Happening<K>, Trouble> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Happening::Put(decode(object))),
        WatchEvent::Deleted(object) => Ok(Happening::Gone(decode(object))),
        WatchEvent::Bookmark(bookmark) => Ok(Happening::Bookmark(bookmark.metadata.resource_version)),
        WatchEvent::Error(status) => Err(trouble_of(&status)),
    }
}

fn slow() -> Trouble {
    Trouble::Unreachable("the API server does not answer in time".into())
}

fn trouble(error: &kube::Error) -> Trouble {
    match error {
        kube::Error::Api(status) => trouble_of(status),
        kube::Error::SerdeError(error) => Trouble::Other(format!("its answer cannot be read: {error}")),
        other => Trouble::Unreachable(root_cause(other)),
    }
}

fn trouble_of(status: &Status) -> Trouble {
    match status.code {
        401 | 403 => Trouble::Forbidden,
        404 => Trouble::NotServed,
        410 => Trouble::Expired,
        _ => Trouble::Other(status.message.clone()),
    }
}
