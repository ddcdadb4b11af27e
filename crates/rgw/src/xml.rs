//! The two things we read from S3's XML: an error's code and the keys of a listing. Both are plain words in elements
//! without attributes (keys are asked for percent-encoded), so finding the tags is enough.

/// The texts of all elements `<tag>…</tag>`, in order.
pub(crate) fn texts<'a>(xml: &'a str, tag: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    xml.split(&open).skip(1).filter_map(|rest| rest.split_once(&close)).map(|(text, _)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_an_element_are_found_in_order() {
        let xml = "<R><Contents><Key>a</Key></Contents><Contents><Key>b%20c</Key></Contents></R>";
        assert_eq!(texts(xml, "Key"), ["a", "b%20c"]);
        assert!(texts(xml, "Code").is_empty());
        assert!(texts("<Key>cut off", "Key").is_empty());
    }
}
