//! YAML as kubectl reads it, which is YAML 1.1: `0644` is 420, `yes` a boolean, and so is `y`, also where it is a key.

use std::fmt;

use anyhow::Context as _;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Every document in a text.
pub(super) fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let read: Vec<Read> = serde_saphyr::from_multiple_with_options(text, options).context("not valid YAML")?;
    Ok(read.into_iter().map(|Read(document)| document).collect())
}

/// A value whose keys are scalars of any type.
struct Read(Value);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Whole).map(Read)
    }
}

/// A key, in the words kubectl makes of it.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(key: D) -> Result<Self, D::Error> {
        match key.deserialize_any(Whole)? {
            Value::String(text) => Ok(Key(text)),
            scalar @ (Value::Bool(_) | Value::Number(_)) => Ok(Key(scalar.to_string())),
            Value::Null => Ok(Key("null".to_owned())),
            Value::Array(_) | Value::Object(_) => Err(serde::de::Error::custom("a key is a text")),
        }
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("YAML")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Read(value)) = list.next_element()? {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((Key(key), Read(value))) = map.next_entry()? {
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_read_as_kubectl_reads_it() {
        let text =
            "mode: 0644\nport: 80\nname: \"0644\"\nyes: y\ny: \"1\"\n5: five\nhex: 0x1F\nlist: [on, ~, 1.5, text]\n";
        let read = documents(text).unwrap();
        // What `kubectl label --local -o json` makes of it; of two keys that are one the last counts.
        let same = json!({
            "mode": 420, "port": 80, "name": "0644", "true": "1", "5": "five", "hex": 31, "list": [true, null, 1.5, "text"],
        });
        assert_eq!(read, [same]);
    }

    #[test]
    fn several_documents_are_several() {
        assert_eq!(documents("a: 1\n---\nb: 2\n").unwrap().len(), 2);
        assert!(documents("a: [").is_err());
    }
}
