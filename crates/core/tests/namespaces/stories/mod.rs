//! What happens to a namespace, told look by look: every story is a text file next to this one, to be read as documentation.
//!
//! The stories run through the real plans and reports in the small world. `CROFT_BLESS=1` writes the files anew.

mod scripts;
mod teller;
mod words;

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use self::{scripts::STORIES, teller::Teller};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/namespaces/stories")
}

/// The first line in which the two differ.
fn difference(written: &str, told: &str) -> String {
    let lines = written.lines().map(Some).chain(std::iter::repeat(None));
    let count = written.lines().count().max(told.lines().count());
    let mut both = lines.zip(told.lines().map(Some).chain(std::iter::repeat(None))).take(count).zip(1..);
    let different = both.find(|((written, told), _)| written != told);
    different.map_or_else(String::new, |((written, told), number)| {
        let shown = |line: Option<&str>| line.map_or("the end".to_owned(), |line| format!("`{line}`"));
        format!("line {number}: written {}, told {}", shown(written), shown(told))
    })
}

#[test]
fn every_story_goes_as_it_is_written() {
    let mut broken = Vec::new();
    for (name, story) in STORIES {
        let mut teller = Teller::default();
        story(&mut teller);
        let (told, path) = (teller.text(), folder().join(format!("{name}.txt")));
        if env::var_os("CROFT_BLESS").is_some() {
            fs::write(&path, &told).expect("the story can be written");
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        if written != told {
            broken.push(format!("{name}.txt, {}", difference(&written, &told)));
        }
    }
    assert!(broken.is_empty(), "not as written (CROFT_BLESS=1 writes anew):\n{}", broken.join("\n"));
}

#[test]
fn every_written_story_is_told() {
    let files = fs::read_dir(folder()).expect("there are stories").map(|file| file.expect("a file").file_name());
    let files = files.filter_map(|file| Some(file.to_str()?.strip_suffix(".txt")?.to_owned()));
    let told = STORIES.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(files.collect::<BTreeSet<_>>(), told.collect());
}
