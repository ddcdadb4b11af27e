//! Buckets that outlive their S3Buckets, as the record of their user lists them.

use std::collections::BTreeSet;

use super::super::bucket::Note;

/// So many names a list has at most: whoever makes and keeps buckets for ever must not make a record too long to be written.
pub const LISTED: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAside {
    /// There were more than can be listed: of the buckets without an S3Bucket all are kept but those that are listed as left.
    pub everything: bool,
    /// Never removed: their S3Buckets said `retain`, or were taken away by us while there was something in them.
    pub kept: BTreeSet<String>,
    /// Nobody could look into them when their S3Buckets went: removed if they turn out to be empty, else kept.
    pub left: BTreeSet<String>,
}

impl SetAside {
    /// These are kept, and no others.
    pub(super) fn keeping(kept: BTreeSet<String>) -> Self {
        Self { kept, ..Self::default() }.listable()
    }

    /// Whether it is said of this very bucket what becomes of it.
    pub fn lists(&self, bucket: &str) -> bool {
        self.kept.contains(bucket) || self.left.contains(bucket)
    }

    /// Whether the bucket stays, if no S3Bucket answers for it.
    pub fn keeps(&self, bucket: &str) -> bool {
        self.kept.contains(bucket) || (self.everything && !self.left.contains(bucket))
    }

    /// Whether the bucket is not to be purged, if no S3Bucket answers for it.
    pub fn holds(&self, bucket: &str) -> bool {
        self.everything || self.lists(bucket)
    }

    /// The same with a note about one bucket, which overrules what was said of it before.
    #[must_use]
    pub fn noted(&self, bucket: &str, note: Note) -> Self {
        let Self { everything, mut kept, mut left } = self.clone();
        for names in [&mut kept, &mut left] {
            names.remove(bucket);
        }
        match note {
            Note::Kept => drop(kept.insert(bucket.to_owned())),
            Note::Left => drop(left.insert(bucket.to_owned())),
            Note::TakenBack => {}
        }
        Self { everything, kept, left }.listable()
    }

    /// What cannot be listed is kept.
    fn listable(mut self) -> Self {
        self.everything |= self.kept.len() > LISTED || self.left.len() > LISTED;
        if self.everything {
            self.kept.clear();
        }
        while self.left.len() > LISTED {
            self.left.pop_last();
        }
        self
    }
}
