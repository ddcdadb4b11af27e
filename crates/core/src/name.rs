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

/// Whether the text can be the name of a kind.
pub fn is_kind(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
