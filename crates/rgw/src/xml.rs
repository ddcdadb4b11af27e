//! As much of XML as S3 speaks: elements and text. Attributes are skipped, as nothing we read is told by one.

/// Deeper than anything S3 says; an answer gone wild must not fill our stack.
const MAX_DEPTH: usize = 32;

/// An element of a document that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) name: &'a str,
    /// All of it, tags included, as it stands in the document.
    pub(crate) source: &'a str,
    /// What stands directly in it, decoded.
    pub(crate) text: String,
    pub(crate) children: Vec<Element<'a>>,
}

impl<'a> Element<'a> {
    /// The root of a document; `None` if it is not well-formed, or has a DTD.
    pub(crate) fn parse(document: &'a [u8]) -> Option<Self> {
        Reader { document: std::str::from_utf8(document).ok()?, open: Vec::new(), root: None }.root()
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the child of that name.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    pub(crate) fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

struct Reader<'a> {
    document: &'a str,
    /// The elements not yet closed, each with where it begins.
    open: Vec<(usize, Element<'a>)>,
    /// Once it is closed.
    root: Option<Element<'a>>,
}

impl<'a> Reader<'a> {
    fn root(mut self) -> Option<Element<'a>> {
        let mut at = 0;
        while self.root.is_none() {
            let tag = at + self.document[at..].find('<')?;
            self.text(&unescape(&self.document[at..tag])?)?;
            let rest = &self.document[tag..];
            at = tag + self.markup(rest)?;
            let markup = &self.document[tag..at];
            if let Some(text) = markup.strip_prefix("<![CDATA[") {
                self.text(text.strip_suffix("]]>")?)?;
            } else if let Some(name) = markup.strip_prefix("</") {
                self.close(name.strip_suffix('>')?.trim_end(), at)?;
            } else if !markup.starts_with("<?") && !markup.starts_with("<!--") {
                let inside = &markup[1..markup.len() - 1];
                let name = inside.split(|c: char| c.is_ascii_whitespace() || c == '/').next()?;
                self.open(name, tag)?;
                if inside.ends_with('/') {
                    self.close(name, at)?;
                }
            }
        }
        self.root
    }

    /// How long the markup is that the rest of the document begins with.
    fn markup(&self, rest: &str) -> Option<usize> {
        let up_to = |end: &str| rest.find(end).map(|at| at + end.len());
        if rest.starts_with("<?") {
            up_to("?>")
        } else if rest.starts_with("<!--") {
            up_to("-->")
        } else if rest.starts_with("<![CDATA[") {
            up_to("]]>").filter(|_| !self.open.is_empty())
        } else if rest.starts_with("<!") {
            None
        } else {
            let mut quote = None;
            let end = rest.bytes().position(|byte| {
                match (quote, byte) {
                    (None, b'"' | b'\'') => quote = Some(byte),
                    (Some(open), _) if open == byte => quote = None,
                    _ => {}
                }
                quote.is_none() && byte == b'>'
            });
            end.map(|end| end + 1)
        }
    }

    fn text(&mut self, text: &str) -> Option<()> {
        match self.open.last_mut() {
            Some((_, element)) => element.text.push_str(text),
            None if text.trim_start_matches('\u{feff}').trim().is_empty() => {}
            None => return None,
        }
        Some(())
    }

    fn open(&mut self, name: &'a str, at: usize) -> Option<()> {
        if name.is_empty() || self.open.len() == MAX_DEPTH {
            return None;
        }
        self.open.push((at, Element { name, source: "", text: String::new(), children: Vec::new() }));
        Some(())
    }

    fn close(&mut self, name: &str, end: usize) -> Option<()> {
        let (begin, mut element) = self.open.pop().filter(|(_, element)| element.name == name)?;
        element.source = &self.document[begin..end];
        match self.open.last_mut() {
            Some((_, parent)) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Some(())
    }
}

/// Text as it may stand in a document.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // A reader would take it for part of a line break.
            '\r' => escaped.push_str("&#13;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('&');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';')?;
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => numbered(entity.strip_prefix('#')?)?,
        });
        plain.push_str(rest);
    }
    Some(plain)
}

fn numbered(number: &str) -> Option<char> {
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(document: &str) -> Option<Element<'_>> {
        Element::parse(document.as_bytes())
    }

    #[test]
    fn elements_text_and_sources_are_read() {
        let document = "<?xml version=\"1.0\"?><!-- no > --><R xmlns=\"a>b\">\n<K a='/'>a&amp;&#x62;&#99;</K><E/><K>\
                        <![CDATA[<d>]]></K ></R>";
        let root = parse(document).unwrap();
        assert_eq!((root.name, root.text.trim()), ("R", ""));
        assert_eq!(root.all("K").map(|key| key.text.as_str()).collect::<Vec<_>>(), ["a&bc", "<d>"]);
        assert_eq!(root.text_of("E"), Some(""));
        assert_eq!(root.child("K").unwrap().source, "<K a='/'>a&amp;&#x62;&#99;</K>");
        assert_eq!(root.child("Missing"), None);
    }

    #[test]
    fn what_is_not_well_formed_is_not_read() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        for document in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a",
            "<>",
            "<a>&nbsp;</a>",
            "<a>&amp</a>",
            "<a>&#xd800;</a>",
            "<!DOCTYPE html><html></html>",
            "<![CDATA[x]]><a/>",
            "x<a/>",
            "<a><b></a></b>",
            &deep,
        ] {
            assert_eq!(parse(document), None, "{document}");
        }
        assert_eq!(Element::parse(b"<a>\xff</a>"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_it_was_written(text in any::<String>()) {
            let document = format!("<a><b>{}</b></a>", escape(&text));
            let root = parse(&document).unwrap();
            prop_assert_eq!(root.text_of("b"), Some(text.as_str()));
        }

        #[test]
        fn nothing_makes_the_reader_panic(document in "(<[/!?]?|>|[ab]|--|\\[CDATA\\[|\\]\\]|\\?|&#?x?|;|[\"'= /]|é){0,40}") {
            parse(&document);
        }
    }
}
