//! The name a request has in Velero's namespace.

/// Longest name that is also a label value.
const LONGEST: usize = 63;

/// The `nacuuid` of a request: unique, readable, and the same however often it is worked out.
///
/// It reads `<namespace>-<name>-<uid>`. Where that is too long the name loses its end, and then the namespace does; the
/// UID stays whole, so that a request made anew under an old name is a different one.
pub fn nacuuid(namespace: &str, name: &str, uid: &str) -> String {
    let whole = joined([namespace, name, uid]);
    if whole.len() <= LONGEST {
        return whole;
    }
    let room = LONGEST.saturating_sub(uid.len() + 2);
    if namespace.len() > room {
        joined([cut(namespace, room), "", uid])
    } else {
        joined([namespace, cut(name, room - namespace.len()), uid])
    }
}

fn joined(parts: [&str; 3]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// The first `most` bytes, without a dash or dot at the end of what was cut.
fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let whole_characters = (0..=most).rev().find_map(|end| text.get(..end)).unwrap_or_default();
    whole_characters.trim_end_matches(|last: char| !last.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0d0b7b2c-ee76-412d-a867-2c23b8aa51ab";

    #[test]
    fn short_names_are_kept_whole() {
        assert_eq!(nacuuid("shop", "nightly", UID), format!("shop-nightly-{UID}"));
    }

    #[test]
    fn the_name_loses_its_end_first() {
        assert_eq!(nacuuid("nacuser1", "nacuser1-backup-3-data", UID), format!("nacuser1-nacuser1-backup-3-{UID}"));
    }

    #[test]
    fn a_long_namespace_drops_the_name() {
        let namespace = "a".repeat(63);
        assert_eq!(nacuuid(&namespace, "nightly", UID), format!("{}-{UID}", "a".repeat(25)));
    }

    #[test]
    fn a_cut_never_ends_in_a_dash_or_dot() {
        assert_eq!(nacuuid("mongo-persistent", "another.-test", UID), format!("mongo-persistent-another-{UID}"));
        assert_eq!(
            nacuuid(&format!("{}-{}", "a".repeat(24), "b".repeat(9)), "x", UID),
            format!("{}-{UID}", "a".repeat(24))
        );
    }

    #[test]
    fn every_name_is_a_valid_label_value_and_object_name() {
        let parts = ["", "a", "a.b-c", &"x".repeat(25), &"long-name.".repeat(7), &"y".repeat(73)].map(str::to_owned);
        for namespace in &parts {
            for name in &parts {
                let made = nacuuid(namespace, name, UID);
                assert!(made.len() <= LONGEST && made.ends_with(UID), "{made}");
                assert!(!made.contains("--") && !made.contains(".-") && !made.contains("-."), "{made}");
            }
        }
    }
}
