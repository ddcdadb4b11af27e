//! Notes on a location of what was deleted by force in it: Velero finds it in the bucket again, and nobody wants it back.
//!
//! A note goes once Velero has looked into the bucket and found nothing of the kind. Where it never looks the last ones stay.

use std::time::Duration;

use jiff::Timestamp as Moment;

/// A look of Velero's that ended so long after the note began after it, too.
const LOOK: Duration = Duration::from_secs(600);
/// As many as fit onto one object, with room for others.
const MOST: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetGo {
    /// Name of the Velero Backup.
    pub name: String,
    /// When it was let go, if the note says so.
    pub since: Option<Moment>,
    pub velero_has_it: bool,
}

/// Names in the notes that are of no more use. `looked`: when Velero last looked into the bucket.
pub(super) fn outdated(notes: &[LetGo], looked: Option<Moment>) -> Vec<String> {
    let is_gone = |note: &LetGo| {
        let earliest = note.since.unwrap_or_default().checked_add(LOOK);
        !note.velero_has_it && looked.zip(earliest.ok()).is_some_and(|(looked, earliest)| looked > earliest)
    };
    let (gone, mut left): (Vec<_>, Vec<_>) = notes.iter().partition(|note| is_gone(note));
    left.sort_by_key(|note| std::cmp::Reverse((note.since, &note.name)));
    gone.into_iter().chain(left.into_iter().skip(MOST)).map(|note| note.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<Moment> {
        Moment::from_second(1_800_000_000 + seconds).ok()
    }

    fn note(name: &str, since: Option<Moment>, velero_has_it: bool) -> LetGo {
        LetGo { name: name.into(), since, velero_has_it }
    }

    #[test]
    fn a_note_goes_once_velero_has_looked_and_found_nothing() {
        let notes = [note("gone", at(0), false), note("found", at(0), true), note("undated", None, false)];
        assert!(outdated(&notes, None).is_empty(), "nobody has looked");
        assert_eq!(outdated(&notes, at(600)), ["undated"], "that look may have begun before");
        assert_eq!(outdated(&notes, at(601)), ["gone", "undated"]);
    }

    #[test]
    fn of_very_many_the_last_ones_stay() {
        let notes: Vec<_> = (0..1003).map(|number| note(&format!("n{number}"), at(number), true)).collect();
        let mut first = outdated(&notes, None);
        first.sort();
        assert_eq!(first, ["n0", "n1", "n2"]);
        assert!(outdated(&notes[3..], None).is_empty());
    }
}
