//! What objects can be called.

/// No object has a longer name.
pub const LONGEST_NAME: usize = 253;

/// Whether the text can stand for one object in a path, and leads nowhere else: what every name is at least.
pub fn is_path_segment(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/%?#\\".contains(&byte);
    name.len() <= LONGEST_NAME && !matches!(name, "." | "..") && name.bytes().all(is_plain)
}

/// Whether the text is a DNS subdomain (RFC 1123), as most names are.
pub fn is_dns_subdomain(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.into_iter().all(|end| end.is_some_and(|byte| inside(*byte)))
            && bytes.iter().all(|byte| inside(*byte) || *byte == b'-')
    };
    name.len() <= LONGEST_NAME && name.split('.').all(is_label)
}

/// Whether the text can be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name_of_label(value)
}

/// Whether the text can be the key of a label: a name, with or without the domain of who gives it.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_dns_subdomain(domain) && is_name_of_label(name),
        None => is_name_of_label(key),
    }
}

fn is_name_of_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Whether the text can be the name of a kind.
pub fn is_kind(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_told_from_what_no_label_can_be() {
        let longest = "x".repeat(63);
        for value in ["", "a", "A.b_c-9", &longest] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["-a", "a-", "a b", "a/b", "\u{e4}", &"x".repeat(64)] {
            assert!(!is_label_value(value), "{value}");
        }
        for key in ["a", "app.kubernetes.io/name", "tier_1", &format!("a.b/{longest}")] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/a", "a/", "A.b/c", "a/b/c", "a b", &"x".repeat(64)] {
            assert!(!is_label_key(key), "{key}");
        }
    }
}
