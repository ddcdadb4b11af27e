//! Where a watch gets its objects: the API server, or a script in tests.

use std::{
    future::Future,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use croft_core::{
    watching::{FIRST_PAGE, Trouble, most_bytes, next_page, smaller_page},
    weight::{Field, Limit},
};
use futures::{AsyncReadExt, Stream, StreamExt, stream::BoxStream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::{
    Api, Client, Resource,
    api::{ListParams, WatchEvent, WatchParams},
    core::{PartialObjectMeta, Request, Status},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::engine::{cache::Place, failure::root_cause};

/// A page that takes longer is asked for again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The API server ends a watch by itself after this long,
const WATCH_TIMEOUT: u32 = 290;
/// and says every minute that it is still there: a connection that is silent for longer is taken for dead.
const SILENCE: Duration = Duration::from_secs(100);

/// An object off the wire: decoded, or only its metadata and why it could not be decoded.
#[derive(Debug)]
pub(crate) enum Arrived<K> {
    Readable(K),
    Unreadable { metadata: Box<ObjectMeta>, error: String },
}

/// A part of a list.
pub(crate) struct Page<K> {
    /// Decoded one by one as they are taken: decoded, an object may be many times as large as its text.
    pub(crate) objects: Box<dyn Iterator<Item = Arrived<K>> + Send>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
    pub(crate) version: String,
}

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Happening<K> {
    Put(Arrived<K>),
    Gone(Departed),
    /// Nothing new up to this version.
    Bookmark(String),
}

/// An object that is gone: nobody asks what was in it.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) place: Place,
    /// At which it was deleted.
    pub(crate) version: String,
}

pub(crate) type Happenings<K> = BoxStream<'static, Result<Happening<K>, Trouble>>;

pub(crate) trait Source<K>: Send + Sync {
    /// A page of everything there is.
    fn list(&self, from: Option<&str>) -> impl Future<Output = Result<Page<K>, Trouble>> + Send;

    /// What happens after `version`. Ends when the other side ends it; a dead connection is an error.
    fn watch(&self, version: &str) -> impl Future<Output = Result<Happenings<K>, Trouble>> + Send;
}

/// Objects of one kind on the API server. Each is decoded by itself: what is in one of them disturbs no other.
pub(crate) struct Wire<K> {
    client: Client,
    url: String,
    form: Form,
    labels: Option<String>,
    fields: Option<String>,
    /// How many objects the next page may hold.
    page: AtomicU32,
    measure: Measure,
    decode: Decode<K>,
}

/// How much of an object is read.
#[derive(Clone, Copy, Debug)]
struct Measure {
    /// What exceeds it is not read.
    limit: Limit,
    /// What nobody reads: of that there may be any amount.
    unread: &'static [Field],
}

type Decode<K> = fn(&RawValue, Measure) -> Arrived<K>;

/// How much of an object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
}

impl<K: Resource + DeserializeOwned> Wire<K> {
    /// Whole objects.
    pub(crate) fn objects(api: Api<K>) -> Self {
        Self::of(api, Form::Whole)
    }

    /// Only the object of this name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.fields = Some(format!("metadata.name={name}"));
        self
    }

    /// Only objects that carry this label.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        self.labels = Some(label.to_owned());
        self
    }

    /// Only so much of each object.
    pub(crate) fn within(mut self, limit: Limit) -> Self {
        self.measure.limit = limit;
        self
    }

    /// However much there is of what nobody reads.
    pub(crate) fn whatever_is_in(mut self, unread: &'static [Field]) -> Self {
        self.measure.unread = unread;
        self
    }

    fn of<W: Resource>(api: Api<W>, form: Form) -> Self {
        Self {
            url: api.resource_url().to_owned(),
            client: api.into_client(),
            form,
            labels: None,
            fields: None,
            page: AtomicU32::new(FIRST_PAGE),
            measure: Measure { limit: Limit::OF_CLUSTER, unread: &[] },
            decode: decoded,
        }
    }
}

impl<K: Resource> Wire<PartialObjectMeta<K>>
where
    PartialObjectMeta<K>: Resource + DeserializeOwned,
{
    /// Metadata only: for Secrets, whose contents we never cache, and for kinds we only point at.
    pub(crate) fn metadata(api: Api<PartialObjectMeta<K>>) -> Self {
        Self::of(api, Form::Metadata)
    }
}

impl<K: Send + 'static> Source<K> for Wire<K> {
    async fn list(&self, from: Option<&str>) -> Result<Page<K>, Trouble> {
        let text = loop {
            let limit = self.page.load(Ordering::Relaxed);
            let page = self.text(self.page_of(limit, from)?, most_bytes(limit));
            if let Some(text) = tokio::time::timeout(PAGE_TIMEOUT, page).await.map_err(|_| slow())?? {
                break text;
            }
            if limit <= 1 {
                return Err(Trouble::Other("one object alone is larger than the API server lets any be".to_owned()));
            }
            self.page.store(smaller_page(limit), Ordering::Relaxed);
        };
        let list: RawList = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        self.page.store(next_page(list.items.len(), text.len()), Ordering::Relaxed);
        let (decode, measure) = (self.decode, self.measure);
        Ok(Page {
            objects: Box::new(list.items.into_iter().map(move |raw| decode(&raw, measure))),
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
        let request = Request::new(self.url.as_str());
        let request = match self.form {
            Form::Whole => request.watch(&params, version),
            Form::Metadata => request.watch_metadata(&params, version),
        };
        let request = request.map_err(|error| Trouble::Other(error.to_string()))?;
        let answer = tokio::time::timeout(PAGE_TIMEOUT, self.client.request_events(request)).await;
        let stream = answer.map_err(|_| slow())?.map_err(|error| trouble(&error))?;
        let (decode, measure) = (self.decode, self.measure);
        Ok(alive(stream).map(move |event| happening(event?, |raw| decode(raw, measure))).boxed())
    }
}

impl<K> Wire<K> {
    fn page_of(&self, limit: u32, from: Option<&str>) -> Result<http::Request<Vec<u8>>, Trouble> {
        let params = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: Some(limit),
            continue_token: from.map(str::to_owned),
            ..ListParams::default()
        };
        let request = Request::new(self.url.as_str());
        let request = match self.form {
            Form::Whole => request.list(&params),
            Form::Metadata => request.list_metadata(&params),
        };
        request.map_err(|error| Trouble::Other(error.to_string()))
    }

    /// What the API server answers, unless it is longer than `most` bytes.
    async fn text(&self, request: http::Request<Vec<u8>>, most: usize) -> Result<Option<Vec<u8>>, Trouble> {
        let answer = self.client.request_stream(request).await.map_err(|error| trouble(&error))?;
        let mut text = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        answer.take(limit).read_to_end(&mut text).await.map_err(|error| Trouble::Unreachable(error.to_string()))?;
        Ok((text.len() <= most).then_some(text))
    }
}

/// A list whose items are not looked into yet.
#[derive(Deserialize)]
struct RawList {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default, deserialize_with = "null_is_empty")]
    items: Vec<Box<RawValue>>,
}

/// Go writes an empty list as `null` at times.
fn null_is_empty<'de, D: Deserializer<'de>>(items: D) -> Result<Vec<Box<RawValue>>, D::Error> {
    Option::deserialize(items).map(Option::unwrap_or_default)
}

fn decoded<K: DeserializeOwned>(raw: &RawValue, measure: Measure) -> Arrived<K> {
    let read = measure.limit.read(raw.get(), measure.unread);
    let read = read.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    match read {
        Ok(object) => Arrived::Readable(object),
        Err(error) => Arrived::Unreadable { metadata: Box::new(metadata_of(raw)), error },
    }
}

/// As much of the metadata as can be read. Anybody may write much of it, so that less must do: only what the API server itself
/// gives is always well formed.
fn metadata_of(raw: &RawValue) -> ObjectMeta {
    if let Ok(Object { metadata }) = serde_json::from_str(raw.get()) {
        return metadata;
    }
    let Least { name, namespace, uid, resource_version } = Least::of(raw);
    ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
}

#[derive(Deserialize)]
struct Object<M> {
    metadata: M,
}

/// The metadata that is always well formed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Least {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Least {
    fn of(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).map(|Object { metadata }| metadata).unwrap_or_default()
    }
}

fn departed(raw: &RawValue) -> Departed {
    let Least { name, namespace, resource_version, .. } = Least::of(raw);
    let place = Place::new(namespace.unwrap_or_default(), name.unwrap_or_default());
    Departed { place, version: resource_version.unwrap_or_default() }
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

fn happening<K>(
    event: WatchEvent<Box<RawValue>>,
    decode: impl FnOnce(&RawValue) -> Arrived<K>,
) -> Result<Happening<K>, Trouble> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Happening::Put(decode(&object))),
        WatchEvent::Deleted(object) => Ok(Happening::Gone(departed(&object))),
        WatchEvent::Bookmark(bookmark) => Ok(Happening::Bookmark(bookmark.metadata.resource_version)),
        WatchEvent::Error(status) => Err(trouble_of(&status)),
    }
}

/// It may be this kind alone that is slow, behind an aggregated API or a conversion: what is known of it must not be taken for
/// true for ever.
fn slow() -> Trouble {
    Trouble::Other("the API server does not answer in time".into())
}

fn unreadable(error: &serde_json::Error) -> Trouble {
    Trouble::Other(format!("its answer cannot be read: {error}"))
}

fn trouble(error: &kube::Error) -> Trouble {
    match error {
        kube::Error::Api(status) => trouble_of(status),
        kube::Error::SerdeError(error) => unreadable(error),
        other => Trouble::Unreachable(root_cause(other)),
    }
}

fn trouble_of(status: &Status) -> Trouble {
    match status.code {
        401 | 403 => Trouble::Forbidden,
        404 => Trouble::NotServed,
        410 => Trouble::Expired,
        // It knows, and has no time to tell.
        429 => Trouble::Unreachable(status.message.clone()),
        _ => Trouble::Other(status.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use croft_core::weight::UNREAD_OF_NAMESPACES;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    /// An object in which something is nested this deep.
    fn nested(depth: usize, place: &str) -> String {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        format!(
            r#"{{"metadata":{{"name":"x","namespace":"shop","uid":"u","resourceVersion":"7",
                "managedFields":[{{"manager":"m","fieldsV1":{}}}]}},"data":{}}}"#,
            if place == "metadata" { deep.as_str() } else { "{}" },
            if place == "data" { deep.as_str() } else { "{}" },
        )
    }

    fn read(raw: &RawValue) -> Arrived<ConfigMap> {
        decoded(raw, Measure { limit: Limit::OF_NAMESPACE, unread: &[] })
    }

    #[test]
    fn an_object_that_would_fill_the_memory_is_known_to_be_there_and_not_read() {
        let many = r#""k":"","#.repeat(Limit::OF_NAMESPACE.values);
        let long = format!(r#""k":"{}","#, "x".repeat(Limit::OF_NAMESPACE.bytes));
        for data in [many, long] {
            let text = format!(r#"{{"metadata":{{"name":"x","uid":"u"}},"data":{{{data}"l":"m"}}}}"#);
            let Arrived::Unreadable { metadata, error } = read(&RawValue::from_string(text).unwrap()) else {
                panic!("it was read")
            };
            assert_eq!(metadata.uid.as_deref(), Some("u"), "{error}");
        }
    }

    #[test]
    fn a_namespace_is_read_however_much_there_is_in_it_that_nobody_reads() {
        let much = format!("[{}{{}}]", "{},".repeat(Limit::OF_CLUSTER.values));
        let text = format!(
            r#"{{"metadata":{{"name":"shop","uid":"u","labels":{{"a":"b"}},"ownerReferences":{much},"finalizers":{much}}},
                "spec":{{"finalizers":{much}}},"status":{{"conditions":{much}}}}}"#
        );
        let raw = RawValue::from_string(text).unwrap();
        let arrived: Arrived<Namespace> =
            decoded(&raw, Measure { limit: Limit::OF_CLUSTER, unread: UNREAD_OF_NAMESPACES });
        let Arrived::Readable(namespace) = arrived else { panic!("it was not read") };
        assert_eq!(namespace.metadata.labels.unwrap_or_default().get("a").map(String::as_str), Some("b"));
        assert!(matches!(read(&raw), Arrived::Unreadable { .. }), "of other kinds all counts");
    }

    #[test]
    fn one_object_that_cannot_be_read_leaves_the_others_of_a_page_readable() {
        for place in ["metadata", "data"] {
            let good = r#"{"metadata":{"name":"good"},"data":{"a":"b"}}"#;
            let page = format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{},{good}]}}"#, nested(5_000, place));
            let list: RawList = serde_json::from_str(&page).unwrap();
            let arrived: Vec<Arrived<ConfigMap>> = list.items.iter().map(|raw| read(raw)).collect();
            let [Arrived::Unreadable { metadata, .. }, Arrived::Readable(_)] = &arrived[..] else {
                panic!("{place}: {arrived:?}")
            };
            let place_of = (metadata.namespace.as_deref(), metadata.name.as_deref(), metadata.uid.as_deref());
            assert_eq!(place_of, (Some("shop"), Some("x"), Some("u")), "{place}: where it is is known all the same");
        }
    }

    #[test]
    fn an_event_about_an_object_that_cannot_be_read_is_still_an_event() {
        let line = format!(r#"{{"type":"ADDED","object":{}}}"#, nested(5_000, "metadata"));
        let event: WatchEvent<Box<RawValue>> = serde_json::from_str(&line).unwrap();
        let happening = happening(event, read).unwrap();
        assert!(matches!(happening, Happening::Put(Arrived::Unreadable { .. })), "{happening:?}");
    }

    #[test]
    fn which_object_is_gone_is_known_whatever_was_in_it() {
        for place in ["metadata", "data"] {
            let line = format!(r#"{{"type":"DELETED","object":{}}}"#, nested(5_000, place));
            let event: WatchEvent<Box<RawValue>> = serde_json::from_str(&line).unwrap();
            let Ok(Happening::Gone(gone)) = happening(event, read) else { panic!("{place}") };
            assert_eq!((gone.place, gone.version.as_str()), (Place::new("shop", "x"), "7"), "{place}");
        }
    }

    #[test]
    fn a_server_that_is_busy_is_no_server_that_cannot_tell() {
        let answered = |code| trouble_of(&Status { code, message: "why".into(), ..Status::default() });
        assert_eq!(answered(429), Trouble::Unreachable("why".into()));
        assert_eq!(answered(500), Trouble::Other("why".into()));
    }

    #[test]
    fn a_list_of_nothing_is_read_however_it_is_written() {
        for items in [r#","items":null"#, r#","items":[]"#, ""] {
            let text = format!(r#"{{"metadata":{{}}{items}}}"#);
            let list: RawList = serde_json::from_str(&text).unwrap();
            assert!(list.items.is_empty());
        }
    }
}
