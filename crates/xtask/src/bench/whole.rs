//! What it costs to watch what classes make whole, to digest it and to drop it, beside a watch of its metadata.
//!
//! A new watch is told all there is as if it had just been made: thousands of changes in a row, which both ways of watching are
//! told in turns. What is counted is all that the API server and the reader do for them.

use anyhow::{Context, Result, bail};
use croft_core::namespaces::witness::{Seal, content};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, Resource,
    api::WatchParams,
    core::{DynamicObject, PartialObjectMeta, Request, WatchEvent},
};
use serde_json::json;

use super::{as_f64, cluster::ITEM_SELECTOR, figures::Figure, machine::quiet, pairs::Spread, processes::Usage};

const PAIRS: usize = 5;

/// What is asked for of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
}

impl Form {
    /// Asks for everything there is and then for what happens.
    fn request(self) -> Result<http::Request<Vec<u8>>> {
        let request = Request::new(ConfigMap::url_path(&(), None));
        let params = WatchParams::default().labels(ITEM_SELECTOR).initial_events();
        Ok(match self {
            Form::Whole => request.watch(&params, "0")?,
            Form::Metadata => request.watch_metadata(&params, "0")?,
        })
    }

    /// Reads one change as the operator would; whether it is one, and not the end of what there is.
    fn read(self, line: &str) -> Result<bool> {
        let is_change = match self {
            Form::Whole => is_change(serde_json::from_str(line)?, |object: DynamicObject| {
                content(&json!(object), &Seal::new([0; 32]))
            })?,
            Form::Metadata => {
                is_change(serde_json::from_str(line)?, |object: PartialObjectMeta<ConfigMap>| object.metadata.uid)?
            }
        };
        Ok(is_change)
    }
}

/// Lets `keep` have what is kept of a change.
fn is_change<K, Kept>(event: WatchEvent<K>, keep: impl Fn(K) -> Kept) -> Result<bool> {
    match event {
        WatchEvent::Added(object) => {
            std::hint::black_box(keep(object));
            Ok(true)
        }
        WatchEvent::Bookmark(_) => Ok(false),
        WatchEvent::Modified(_) | WatchEvent::Deleted(_) => bail!("something has changed meanwhile"),
        WatchEvent::Error(status) => bail!("{}", status.message),
    }
}

/// The cost of one change.
#[derive(Clone, Copy)]
struct Cost {
    bytes: f64,
    microseconds: f64,
}

pub(super) async fn measure(client: &Client) -> Result<Vec<Figure>> {
    let (mut whole, mut metadata) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let turns = [Form::Whole, Form::Metadata];
        for form in if pair.is_multiple_of(2) { turns } else { [turns[1], turns[0]] } {
            quiet().await;
            let costs = if form == Form::Whole { &mut whole } else { &mut metadata };
            costs.push(follow(client, form).await.with_context(|| format!("watching in the form {form:?}"))?);
        }
    }
    let median = |costs: &[Cost], of: fn(&Cost) -> f64| Spread::of(costs.iter().map(of)).median;
    let figure = |name, unit, of| {
        Figure::new(name, median(&whole, of), unit).note(format!("{:.0} with metadata only", median(&metadata, of)))
    };
    Ok(vec![
        figure("watch_whole_bytes", "bytes a change", |cost| cost.bytes),
        figure("watch_whole_cpu", "us a change", |cost| cost.microseconds)
            .note(format!("processor time of API server and reader, medians of {PAIRS}")),
    ])
}

/// Watches until everything there is has been told.
async fn follow(client: &Client, form: Form) -> Result<Cost> {
    let before = Usage::now();
    let mut lines = client.request_stream(form.request()?).await?.lines();
    let (mut changes, mut bytes) = (0, 0);
    while let Some(line) = lines.try_next().await? {
        if !form.read(&line)? {
            break;
        }
        changes += 1;
        bytes += line.len() + 1;
    }
    let microseconds = Usage::now().since(&before).seconds() * 1e6;
    Ok(Cost { bytes: as_f64(bytes) / as_f64(changes), microseconds: microseconds / as_f64(changes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_until_the_bookmark_in_both_forms() {
        let added = r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}}"#;
        let end = r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":
            {"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let refused = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        for form in [Form::Whole, Form::Metadata] {
            assert_eq!((form.read(added).unwrap(), form.read(end).unwrap()), (true, false), "{form:?}");
            assert!(form.read(refused).is_err(), "{form:?}");
        }
    }
}
