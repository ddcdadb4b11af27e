//! One object under watch, for whoever wants to know nothing else.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use croft_core::watching::Standing;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Arrived, Departed, How, Sink, Supervisor, Surroundings, Wire};
use crate::engine::{cache::Place, write::resource_name};

/// What is known about the object.
#[derive(Clone, Debug, Default)]
pub(crate) enum Known<K> {
    #[default]
    Nothing,
    /// Not there; if it was deleted while we watched, at this version.
    Absent {
        deleted_at: Option<String>,
    },
    Present(Arc<K>),
}

/// Follows one object for ever; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Follow<K> {
    known: watch::Receiver<Known<K>>,
    _task: AbortOnDropHandle<()>,
}

impl<K: Clone> Follow<K> {
    /// What has become known; several changes may be told as one. May be dropped and called again.
    pub(crate) async fn changed(&mut self) -> Known<K> {
        if self.known.changed().await.is_err() {
            // The task never ends before us.
            std::future::pending::<()>().await;
        }
        self.known.borrow_and_update().clone()
    }

    /// As [`Follow::changed`]: the object, or nothing while it does not exist.
    pub(crate) async fn next(&mut self) -> Option<Arc<K>> {
        loop {
            match self.changed().await {
                Known::Nothing => {}
                Known::Absent { .. } => return None,
                Known::Present(object) => return Some(object),
            }
        }
    }
}

/// Follows the object `name`.
pub(crate) fn follow<K>(api: Api<K>, name: &str, surroundings: Surroundings) -> Follow<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (sender, known) = watch::channel(Known::Nothing);
    let supervisor = Supervisor {
        resource: resource_name::<K>(),
        source: Wire::objects(api).named(name),
        sink: One { sender },
        standing: watch::Sender::new(Standing::default()),
        surroundings,
    };
    Follow { known, _task: AbortOnDropHandle::new(tokio::spawn(supervisor.run::<K>())) }
}

struct One<K> {
    sender: watch::Sender<Known<K>>,
}

impl<K: Resource + Send + Sync> Sink<K> for One<K> {
    fn put(&mut self, object: Arrived<K>, _how: How) {
        // An object that cannot be read is as if nothing new were known: nobody may take it for absent.
        if let Arrived::Readable(object) = object {
            self.sender.send_replace(Known::Present(Arc::new(object)));
        }
    }

    fn gone(&mut self, object: &Departed) {
        let deleted_at = Some(object.version.clone()).filter(|version| !version.is_empty());
        self.sender.send_replace(Known::Absent { deleted_at });
    }

    fn listed(&mut self, places: &BTreeSet<Place>, _revision: u64) {
        if places.is_empty() {
            self.sender.send_replace(Known::Absent { deleted_at: None });
        }
    }
}
