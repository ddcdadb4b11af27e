//! How much of the memory a JSON text takes once it is read: a text of `[0,0,...]` becomes sixteen times as large.

use std::borrow::Cow;

use crate::conditions::cut;

/// No field of an object has a longer name.
const LONGEST_NAME: usize = 100;

/// Where a field is, by the names on the way to it.
pub type Field = &'static [&'static str];

const MANAGED_FIELDS: Field = &["metadata", "managedFields"];

/// What nobody reads of a Namespace, although its tenant may write it: of the rest the API server, or a fence, bounds all she may.
pub const UNREAD_OF_NAMESPACES: &[Field] = &[
    &["spec"],
    &["status"],
    &["metadata", "finalizers"],
    &["metadata", "generateName"],
    &["metadata", "ownerReferences"],
];

/// What is read of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of its text.
    pub bytes: usize,
    /// Values in it, nested ones included.
    pub values: usize,
}

impl Limit {
    /// An object of the whole cluster, which only administrators write: as large as the API server takes them.
    pub const OF_CLUSTER: Self = Self { bytes: 3 << 20, values: 100_000 };

    /// An object of which nothing is kept.
    pub const NONE: Self = Self { bytes: usize::MAX, values: usize::MAX };

    /// An object in a namespace, of which tenants make as many as they like.
    pub const OF_NAMESPACE: Self = Self { bytes: 256 << 10, values: 10_000 };

    /// So much room is left for what is added to the object later: by its author, and by us.
    #[must_use]
    pub fn part(self, one_of: usize) -> Self {
        let part = |whole: usize| whole.checked_div(one_of).unwrap_or(whole);
        Self { bytes: part(self.bytes), values: part(self.values) }
    }

    /// The text of an object as it is read, or why it is not. What nobody reads of it is left out where it would be too much, who
    /// manages which field in any case: whoever may write an object may write as much there as he likes.
    pub fn read<'t>(self, text: &'t str, unread: &[Field]) -> Result<Cow<'t, str>, String> {
        if self.objection(text).is_none() {
            return Ok(text.into());
        }
        let unread = unread.iter().chain([&MANAGED_FIELDS]);
        let text = unread.fold(Cow::from(text), |text, field| without(&text, field).map_or(text, Cow::from));
        self.objection(&text).map_or(Ok(text), Err)
    }

    /// Why the object is not read; `None` if it is.
    pub fn objection(self, text: &str) -> Option<String> {
        let Self { bytes, values } = self;
        if text.len() > bytes {
            let told = format!("it is {} bytes long; at most {bytes} are read", text.len());
            return Some(told + &shorten(text, str::len));
        }
        // Each takes a byte at least.
        (text.len() > values && values_in(text) > values)
            .then(|| format!("it holds more than {values} values") + &shorten(text, values_in))
    }
}

/// The text with nothing in a field; `None` where it has no such field.
fn without(text: &str, field: Field) -> Option<String> {
    let member_of = |text, name| members(text).into_iter().find(|(known, _)| *known == name).map(|(_, member)| member);
    let taken = field.iter().try_fold(text, |text, name| member_of(text, *name))?;
    // It is a part of the text.
    let begin = taken.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some([text.get(..begin)?, "null", text.get(begin.checked_add(taken.len())?..)?].concat())
}

/// What to do about a text that is too heavy.
fn shorten(text: &str, weigh: fn(&str) -> usize) -> String {
    let heaviest = |text| members(text).into_iter().max_by_key(|(_, member)| weigh(member));
    let Some((name, member)) = heaviest(text) else { return String::new() };
    let told = |name: &str| cut(name.to_owned(), LONGEST_NAME);
    let inner = heaviest(member).map(|(inner, _)| format!(".{}", told(inner))).unwrap_or_default();
    format!("; shorten {}{inner}, which has most of it", told(name))
}

/// The members of an object with their texts; none of what is no object.
fn members(text: &str) -> Vec<(&str, &str)> {
    let mut members = Vec::new();
    let (mut depth, mut in_text, mut is_escaped, mut begin) = (0_usize, false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                begin = begin.or((depth == 1 && byte == b'{').then_some(at + 1));
            }
            b',' | b'}' | b']' => {
                if let Some(begun) = begin.filter(|_| depth == 1) {
                    members.extend(text.get(begun..at).and_then(member));
                    begin = Some(at + 1);
                }
                depth = depth.saturating_sub(usize::from(byte != b','));
            }
            _ => {}
        }
    }
    members
}

/// Name and text of a member as it is written.
fn member(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.trim().strip_prefix('"')?.split_once('"')?;
    Some((name, text.trim_start().strip_prefix(':')?))
}

/// At least as many as there are.
fn values_in(text: &str) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (1_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => count = count.saturating_add(1),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn really_in(value: &Value) -> usize {
        1 + match value {
            Value::Array(list) => list.iter().map(really_in).sum(),
            Value::Object(map) => map.values().map(really_in).sum(),
            _ => 0,
        }
    }

    #[test]
    fn no_text_holds_more_values_than_are_counted() {
        let quotes = json!({ "a\"b,[{\\": ["\\", "\"", ",,,", [], {}, [[1, 2], { "c": null }]] });
        for value in [json!(1), json!([]), json!({}), json!([1, 2, 3]), json!({ "a": { "b": [0, "x"] } }), quotes] {
            let (counted, real) = (values_in(&value.to_string()), really_in(&value));
            assert!(counted >= real && counted <= 2 * real, "{counted} for {real} in {value}");
        }
    }

    #[test]
    fn members_are_told_with_their_texts() {
        assert_eq!(
            members(r#"{"a": {"x,": [1, "}"]} , "b":[{}],"c":"{,"}"#),
            [("a", r#" {"x,": [1, "}"]}"#), ("b", "[{}]"), ("c", r#""{,""#)]
        );
        for none in ["", "[]", "7", "[{\"a\":1}]", "{}", "{,}", "}", "\"{\""] {
            assert!(members(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn who_manages_the_fields_of_an_object_keeps_nobody_from_reading_it() {
        let limit = Limit { bytes: 1000, values: 20 };
        let object = |labels: usize| {
            let labels: BTreeMap<_, _> = (0..labels).map(|number| (format!("l{number}"), "")).collect();
            let fields: BTreeMap<_, _> = (0..200).map(|number| (format!("f:l{number}"), json!({}))).collect();
            let managed = json!([{ "manager": "m]}", "fieldsV1": { "f:metadata": { "f:labels": fields } } }]);
            json!({ "metadata": { "labels": labels, "managedFields": managed, "name": "a" }, "spec": { "a": 1 } })
        };
        let read: Value = serde_json::from_str(&limit.read(&object(2).to_string(), &[]).unwrap()).unwrap();
        assert_eq!(
            read,
            json!({ "metadata": { "labels": { "l0": "", "l1": "" }, "managedFields": null, "name": "a" }, "spec": { "a": 1 } })
        );
        assert!(limit.read(&object(30).to_string(), &[]).unwrap_err().contains("shorten metadata.labels"));
        assert_eq!(limit.read("{}", &[]).unwrap(), "{}");
    }

    #[test]
    fn what_nobody_reads_of_a_namespace_weighs_nothing() {
        let limit = Limit { bytes: 1000, values: 20 };
        let many: Vec<_> = (0..100).map(|number| format!("a.b/{number}]}}\\\"")).collect();
        let namespace = |field: &[&str], much: Value| {
            let mut namespace = json!({
                "metadata": { "name": "shop", "uid": "u", "resourceVersion": "7", "labels": { "a": "b" } },
                "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" },
            });
            let place = field.iter().fold(&mut namespace, |at, name| &mut at[*name]);
            *place = much;
            namespace.to_string()
        };
        let fields: [&[&str]; 7] = [
            &["status", "conditions"],
            &["spec", "finalizers"],
            &["metadata", "managedFields"],
            &["metadata", "ownerReferences"],
            &["metadata", "finalizers"],
            &["metadata", "generateName"],
            &["status"],
        ];
        for field in fields {
            for much in [json!(many), json!("<".repeat(2000))] {
                let text = namespace(field, much);
                let read: Value = serde_json::from_str(&limit.read(&text, UNREAD_OF_NAMESPACES).unwrap()).unwrap();
                let kept = &read["metadata"];
                assert_eq!((&kept["name"], &kept["labels"]["a"]), (&json!("shop"), &json!("b")), "{field:?}");
            }
        }
        let labels = namespace(&["metadata", "labels"], json!(many));
        assert!(limit.read(&labels, UNREAD_OF_NAMESPACES).is_err(), "what is read counts");
    }

    #[test]
    fn a_long_text_is_one_value_and_a_short_one_may_be_many() {
        let limit = Limit { bytes: 100, values: 10 };
        assert_eq!(limit.objection(&json!({ "text": ",".repeat(80) }).to_string()), None);
        let objection = limit.objection(&json!(vec![0; 20]).to_string());
        assert_eq!(objection.as_deref(), Some("it holds more than 10 values"));
        let labels = json!({ "metadata": { "name": "a", "labels": { "b": "}" } }, "spec": { "names": vec![0; 20] } });
        let objection = Limit { bytes: 1000, values: 10 }.objection(&labels.to_string());
        assert_eq!(
            objection.as_deref(),
            Some("it holds more than 10 values; shorten spec.names, which has most of it")
        );
        let objection = limit.objection(&json!({ "metadata": { "labels": { "x": "y".repeat(99) } } }).to_string());
        let told = "it is 131 bytes long; at most 100 are read; shorten metadata.labels, which has most of it";
        assert_eq!(objection.as_deref(), Some(told));
        let objection = limit.objection(&json!({ "m".repeat(9999): { "n".repeat(9999): 1 } }).to_string());
        assert!(objection.as_ref().is_some_and(|told| told.len() < 400), "{objection:?}");
        let objection = limit.objection(&json!("x".repeat(99)).to_string());
        assert_eq!(objection.as_deref(), Some("it is 101 bytes long; at most 100 are read"));
    }
}
