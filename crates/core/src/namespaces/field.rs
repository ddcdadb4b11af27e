//! Where something stands in a manifest, as its author would say it: `spec.resources[3].metadata.annotations["example.com/a"]`.

use std::fmt::Write;

use super::template::quoted;

/// Longest key that is written out; a longer one is cut.
const LONGEST_KEY: usize = 63;

/// From a value to one inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The place that `steps` lead to from `start`.
pub(super) fn path(start: &str, steps: &[Step<'_>]) -> String {
    steps.iter().fold(start.to_owned(), |mut path, step| {
        // Writing to a String cannot fail.
        let _ = match step {
            Step::Key(key) if is_plain(key) && path.is_empty() => write!(path, "{key}"),
            Step::Key(key) if is_plain(key) => write!(path, ".{key}"),
            Step::Key(key) => write!(path, "[{}]", quoted(key)),
            Step::Index(index) => write!(path, "[{index}]"),
        };
        path
    })
}

fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= LONGEST_KEY
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_its_author_would_write_it() {
        let steps = [Step::Key("metadata"), Step::Key("annotations"), Step::Key("example.com/a"), Step::Index(2)];
        assert_eq!(path("spec.resources[3]", &steps), r#"spec.resources[3].metadata.annotations["example.com/a"][2]"#);
        assert_eq!(path("", &[Step::Key("data"), Step::Key("")]), r#"data[""]"#);
    }

    #[test]
    fn a_path_is_short_however_long_the_keys_are() {
        assert!(path("data", &[Step::Key(&"x".repeat(1_000_000))]).len() < 100);
    }
}
