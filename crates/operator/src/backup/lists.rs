//! Velero's lists of what is in a backup and what became of it in a restore: found, fetched and counted for
//! [`croft_core::backup::left_out`].

use std::{io::Read as _, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use croft_api::velero::{DownloadRequest, DownloadRequestSpec, DownloadRequestStatus, Restore};
use croft_core::backup::{
    left_out::{Asked, LONGEST_LIST, List, Listing, Tally},
    ownership::Origin,
};
use flate2::read::GzDecoder;
use kube::ResourceExt;

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

    /// Reads the lists Velero has signed a URL for.
    pub(super) async fn read_lists(&self, listings: &mut [Listing; 2], origin: &Origin, uid: &str) {
        let ca_pem = self.velero_restores.get(&self.velero_namespace, &origin.nacuuid);
        let ca_pem = ca_pem.and_then(|restore| self.certificates_for(&restore));
        for listing in listings {
            let asked = self.own_request(listing.list, origin, uid);
            let status = asked.as_ref().and_then(|asked| asked.status.as_ref());
            if let Some(url) = status.and_then(DownloadRequestStatus::download_url) {
                listing.read = Some(counted(url, ca_pem.as_deref()).await);
            }
        }
    }

    /// What the server that keeps the backup of a restore is known by.
    fn certificates_for(&self, restore: &Restore) -> Option<String> {
        let backup = self.velero_backups.get(&self.velero_namespace, restore.spec.backup_name()?)?;
        let location = self.velero_locations.get(&self.velero_namespace, backup.spec.storage_location()?)?;
        String::from_utf8(STANDARD.decode(location.spec.ca_cert()?).ok()?).ok()
    }

    /// Velero's answer wakes the restore it is for.
    pub(super) fn wake_on_lists(&self) {
        self.velero_downloads.wakes(|change: Change<'_, DownloadRequest>| {
            marks::RESTORE.request(RESTORE, &change.object().metadata).into_iter().collect()
        });
    }
}

/// A request for a list, in Velero's namespace.
pub(super) fn asking(list: List, origin: &Origin, uid: &str, of: &str, velero_namespace: &str) -> DownloadRequest {
    let mut metadata = marks::RESTORE.metadata(origin, velero_namespace);
    metadata.name = Some(list.request(uid));
    DownloadRequest { metadata, spec: DownloadRequestSpec::for_target(list.in_veleros_words(), of), status: None }
}

async fn counted(url: &str, ca_pem: Option<&str>) -> Result<Tally, String> {
    let packed = croft_rgw::fetch(url, ca_pem, LONGEST_LIST).await.map_err(|error| error.to_string())?;
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
    fn a_list_is_unpacked_up_to_a_bound_however_small_it_was_packed() {
        assert_eq!(unpacked(&packed(b"{}")).unwrap(), b"{}");
        assert!(unpacked(&packed(&vec![b' '; 64 << 20])).unwrap_err().contains("longer"));
        assert!(unpacked(b"no list").is_err() && unpacked(&packed(b"{}")[..12]).is_err());
    }
}
