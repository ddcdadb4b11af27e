//! Velero's lists of what is in a backup and what became of it in a restore: found, fetched and counted for
//! [`croft_core::backup::left_out`].

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use croft_api::velero::{DownloadRequest, DownloadRequestSpec, DownloadRequestStatus, Restore};
use croft_core::backup::{
    Hosts, is_outside,
    left_out::{AGAIN, Asked, LONGEST_LIST, List, Listing, Tally},
    ownership::{Lies, Origin},
};
use flate2::read::GzDecoder;
use kube::ResourceExt;
use tracing::debug;

use super::{Caches, RESTORE, marks, request};
use crate::engine::{Change, is_deleting};

impl Caches {
    /// Our requests for the lists of a restore.
    pub(super) fn listings(&self, origin: &Origin, uid: &str) -> [Listing; 2] {
        List::ALL.map(|list| {
            let asked = self.own_request(list, origin, uid);
            let asked = asked.map(|asked| Asked { uid: asked.uid().unwrap_or_default(), age: request::age(&*asked) });
            Listing { list, asked, read: None }
        })
    }

    fn own_request(&self, list: List, origin: &Origin, uid: &str) -> Option<Arc<DownloadRequest>> {
        let asked = self.velero_downloads.get(&self.velero_namespace, &list.request(uid))?;
        let is_ours = origin.owns(&marks::RESTORE.marks(&asked.metadata)) && !is_deleting(&asked.metadata);
        is_ours.then_some(asked)
    }

    /// Reads the lists Velero has signed a URL for, each once.
    pub(super) async fn read_lists(&self, listings: &mut [Listing; 2], origin: &Origin, uid: &str, hosts: &Hosts) {
        let restore = self.velero_restores.get(&self.velero_namespace, &origin.nacuuid);
        for listing in listings {
            let Some(asked) = self.own_request(listing.list, origin, uid) else { continue };
            let url = asked.status.as_ref().and_then(DownloadRequestStatus::download_url);
            let (Some(url), Some(restore)) = (url, &restore) else { continue };
            let request = asked.uid().unwrap_or_default();
            let read = if let Some(read) = self.shelf.get(&request) {
                read
            } else {
                let (ca_pem, reach) = (self.certificates_for(restore), self.reach_for(restore, url, hosts));
                if let Some(_place) = self.shelf.place(&origin.namespace) {
                    let read = counted(url, ca_pem.as_deref(), reach).await;
                    // What nobody asks for any more would stay for ever.
                    let is_asked = self.own_request(listing.list, origin, uid).is_some();
                    if is_asked { self.shelf.put(request, read) } else { read }
                } else {
                    Err("too many of Velero's lists are read at the moment".to_owned())
                }
            };
            listing.read = Some(read);
        }
    }

    /// Where the server of a backup may be: a tenant's outside, one of the administrator's choice anywhere.
    fn reach_for(&self, restore: &Restore, url: &str, hosts: &Hosts) -> fn(IpAddr) -> bool {
        let backup = restore.spec.backup_name().and_then(|name| self.velero_backups.get(&self.velero_namespace, name));
        let is_administrators = backup.is_some_and(|backup| self.lies(&backup.spec.0.0) == Lies::WithAdministrator);
        if is_administrators || hosts.chose(url) { |_| true } else { is_outside }
    }

    /// What the server that keeps the backup of a restore is known by.
    fn certificates_for(&self, restore: &Restore) -> Option<String> {
        let backup = self.velero_backups.get(&self.velero_namespace, restore.spec.backup_name()?)?;
        let location = self.velero_locations.get(&self.velero_namespace, backup.spec.storage_location()?)?;
        String::from_utf8(STANDARD.decode(location.spec.ca_cert()?).ok()?).ok()
    }

    /// Velero's answer wakes the restore it is for.
    pub(super) fn wake_on_lists(&self) {
        let known = self.shelf.clone();
        self.velero_downloads.wakes(move |change: Change<'_, DownloadRequest>| {
            if change.after.is_none() {
                known.forget(&change.object().uid().unwrap_or_default());
            }
            marks::RESTORE.request(RESTORE, &change.object().metadata).into_iter().collect()
        });
    }
}

/// When a list was read, and what it says.
type Read = (Instant, Result<Tally, String>);

/// Lists that were read, by the UID of the request for them, as long as that is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    known: Arc<Mutex<BTreeMap<String, Read>>>,
    /// Namespaces for which one is being read.
    readers: Arc<Mutex<BTreeSet<String>>>,
}

/// So many are read at a time, and one for a namespace: each takes memory, and as long as the server of a tenant likes.
const PLACES: usize = 4;

/// Where a list is read, until it is dropped.
#[derive(Debug)]
struct Place<'a> {
    shelf: &'a Shelf,
    namespace: String,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shelf.readers().remove(&self.namespace);
    }
}

impl Shelf {
    /// Nobody waits for a place: whoever does takes one of the places of the whole part.
    fn place(&self, namespace: &str) -> Option<Place<'_>> {
        let mut readers = self.readers();
        let is_free = readers.len() < PLACES && readers.insert(namespace.to_owned());
        is_free.then(|| Place { shelf: self, namespace: namespace.to_owned() })
    }

    fn readers(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read, unless that failed and may be tried again.
    fn get(&self, request: &str) -> Option<Result<Tally, String>> {
        let known = self.lock();
        let (at, read) = known.get(request)?;
        (read.is_ok() || at.elapsed() < AGAIN).then(|| read.clone())
    }

    fn put(&self, request: String, read: Result<Tally, String>) -> Result<Tally, String> {
        self.lock().insert(request, (Instant::now(), read.clone()));
        read
    }

    fn forget(&self, request: &str) {
        self.lock().remove(request);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Read>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request for a list, in Velero's namespace.
pub(super) fn asking(list: List, origin: &Origin, uid: &str, of: &str, velero_namespace: &str) -> DownloadRequest {
    let mut metadata = marks::RESTORE.metadata(origin, velero_namespace);
    metadata.name = Some(list.request(uid));
    DownloadRequest { metadata, spec: DownloadRequestSpec::for_target(list.in_veleros_words(), of), status: None }
}

async fn counted(url: &str, ca_pem: Option<&str>, reach: fn(IpAddr) -> bool) -> Result<Tally, String> {
    let packed = croft_rgw::fetch(url, ca_pem, LONGEST_LIST, reach).await.map_err(|error| {
        // Whoever chose the server learns nothing of what else we can reach.
        debug!(%error, "a list of Velero's was not read");
        "the server that keeps the backup did not hand out Velero's lists".to_owned()
    })?;
    Tally::read(&unpacked(&packed)?)
}

fn unpacked(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut list = Vec::new();
    let most = u64::try_from(LONGEST_LIST).unwrap_or(u64::MAX);
    let read = GzDecoder::new(packed).take(most).read_to_end(&mut list);
    match read {
        Ok(length) if length < LONGEST_LIST => Ok(list),
        Ok(_) => Err(format!("one of Velero's lists is longer than {LONGEST_LIST} bytes")),
        Err(_) => Err("one of Velero's lists cannot be unpacked".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn packed(list: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(list).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn nobody_waits_for_a_list_to_be_read_and_no_namespace_takes_the_place_of_another() {
        let shelf = Shelf::default();
        let slow = shelf.place("slow");
        assert!(slow.is_some() && shelf.place("slow").is_none(), "one for a namespace");
        let others: Vec<_> = (1..PLACES).map(|number| shelf.place(&format!("other-{number}"))).collect();
        assert!(others.iter().all(Option::is_some) && shelf.place("late").is_none());
        drop(slow);
        assert!(shelf.place("late").is_some());
    }

    #[test]
    fn a_list_is_unpacked_up_to_a_bound_however_small_it_was_packed() {
        assert_eq!(unpacked(&packed(b"{}")).unwrap(), b"{}");
        assert!(unpacked(&packed(&vec![b' '; 64 << 20])).unwrap_err().contains("longer"));
        assert!(unpacked(b"no list").is_err() && unpacked(&packed(b"{}")[..12]).is_err());
    }
}
