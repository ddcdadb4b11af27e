//! What a bucket forgets by itself.

use std::fmt::Write;

use crate::xml::{Element, escape};

/// A bucket's lifecycle configuration. The gateway keeps its rules in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// Those that say no more than a [`LifecycleRule`] can.
    pub rules: Vec<LifecycleRule>,
    /// Rules that say more than a [`LifecycleRule`] can, such as moves to another storage class. They are written back
    /// with all that was read.
    pub others: Vec<OtherRule>,
}

/// A rule for the objects whose key begins with `prefix`. At least one of the numbers of days must be given, and none
/// may be 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Must be the rule's own.
    pub id: String,
    /// Empty for all objects.
    pub prefix: String,
    /// One that is not is kept and does nothing.
    pub enabled: bool,
    /// After these days an object is deleted.
    pub expiration_days: Option<u32>,
    /// These days after it was replaced or deleted, an old version is deleted for good.
    pub noncurrent_expiration_days: Option<u32>,
    /// After these days an upload in parts that was not completed is given up.
    pub abort_multipart_days: Option<u32>,
}

/// A rule that says what the gateway told, in the words in which it takes that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRule {
    id: String,
    xml: String,
}

impl OtherRule {
    /// The id by which its bucket knows the rule.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Lifecycle {
    /// Whether there is no rule of any kind.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.others.is_empty()
    }

    pub(crate) fn to_xml(&self) -> String {
        let mut xml = "<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
        for rule in &self.rules {
            rule.write(&mut xml);
        }
        for other in &self.others {
            xml.push_str(&other.xml);
        }
        xml + "</LifecycleConfiguration>"
    }

    pub(crate) fn read(root: &Element<'_>) -> Self {
        let mut lifecycle = Self::default();
        for element in root.all("Rule") {
            match LifecycleRule::read(element) {
                Some(rule) => lifecycle.rules.push(rule),
                None => lifecycle.others.push(OtherRule {
                    id: element.text_of("ID").unwrap_or_default().to_owned(),
                    xml: as_taken(element),
                }),
            }
        }
        lifecycle
    }
}

/// The elements in which the numbers of days stand.
const EXPIRATION: (&str, &str) = ("Expiration", "Days");
const NONCURRENT_EXPIRATION: (&str, &str) = ("NoncurrentVersionExpiration", "NoncurrentDays");
const ABORT_MULTIPART: (&str, &str) = ("AbortIncompleteMultipartUpload", "DaysAfterInitiation");

impl LifecycleRule {
    fn write(&self, xml: &mut String) {
        let (id, prefix) = (escape(&self.id), escape(&self.prefix));
        let status = if self.enabled { "Enabled" } else { "Disabled" };
        let _ = write!(xml, "<Rule><ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>{status}</Status>");
        for ((action, unit), days) in [
            (EXPIRATION, self.expiration_days),
            (NONCURRENT_EXPIRATION, self.noncurrent_expiration_days),
            (ABORT_MULTIPART, self.abort_multipart_days),
        ] {
            if let Some(days) = days {
                let _ = write!(xml, "<{action}><{unit}>{days}</{unit}></{action}>");
            }
        }
        xml.push_str("</Rule>");
    }

    /// `None` if it says anything that would be lost.
    fn read(rule: &Element<'_>) -> Option<Self> {
        let mut read = Self {
            id: String::new(),
            prefix: String::new(),
            enabled: false,
            expiration_days: None,
            noncurrent_expiration_days: None,
            abort_multipart_days: None,
        };
        for part in &rule.children {
            match part.name {
                "ID" => read.id.clone_from(&part.text),
                // A rule for all objects is told in the old form, without a filter.
                "Prefix" => read.prefix.clone_from(&part.text),
                "Filter" => only(part, "Prefix")?.clone_into(&mut read.prefix),
                "Status" => read.enabled = part.text == "Enabled",
                name if name == EXPIRATION.0 => read.expiration_days = Some(days(part, EXPIRATION.1)?),
                name if name == NONCURRENT_EXPIRATION.0 => {
                    read.noncurrent_expiration_days = Some(days(part, NONCURRENT_EXPIRATION.1)?);
                }
                name if name == ABORT_MULTIPART.0 => read.abort_multipart_days = Some(days(part, ABORT_MULTIPART.1)?),
                _ => return None,
            }
        }
        Some(read)
    }
}

/// Ceph tells a prefix beside `And`, and takes nothing but what stands in it: put back as it was told, the rule would be for more
/// objects than it was.
fn as_taken(rule: &Element<'_>) -> String {
    let told = rule.child("Filter").and_then(|filter| Some((filter, filter.child("And")?)));
    let Some((filter, and)) = told else { return rule.source.to_owned() };
    let beside = filter.children.iter().filter(|condition| condition.name != and.name);
    let all: String = beside.chain(&and.children).map(|condition| condition.source).collect();
    rule.source.replacen(filter.source, &format!("<Filter><And>{all}</And></Filter>"), 1)
}

fn days(action: &Element<'_>, unit: &str) -> Option<u32> {
    only(action, unit)?.parse().ok()
}

/// The text of the only child, if it has that name; no child is an empty text.
fn only<'e>(element: &'e Element<'_>, name: &str) -> Option<&'e str> {
    match &element.children[..] {
        [] => Some(""),
        [child] if child.name == name => Some(&child.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(xml: &str) -> Lifecycle {
        Lifecycle::read(&Element::parse(xml.as_bytes()).unwrap())
    }

    fn rule(id: &str) -> LifecycleRule {
        LifecycleRule {
            id: id.into(),
            prefix: String::new(),
            enabled: true,
            expiration_days: None,
            noncurrent_expiration_days: None,
            abort_multipart_days: None,
        }
    }

    #[test]
    fn a_rule_is_written_as_s3_documents() {
        let rule = LifecycleRule {
            prefix: "tmp & <old>/".into(),
            expiration_days: Some(3),
            noncurrent_expiration_days: Some(4),
            abort_multipart_days: Some(5),
            ..rule("a\"b")
        };
        let xml = Lifecycle { rules: vec![rule], others: vec![] }.to_xml();
        assert_eq!(
            xml,
            "<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule><ID>a&quot;b</ID>\
             <Filter><Prefix>tmp &amp; &lt;old&gt;/</Prefix></Filter><Status>Enabled</Status>\
             <Expiration><Days>3</Days></Expiration>\
             <NoncurrentVersionExpiration><NoncurrentDays>4</NoncurrentDays></NoncurrentVersionExpiration>\
             <AbortIncompleteMultipartUpload><DaysAfterInitiation>5</DaysAfterInitiation></AbortIncompleteMultipartUpload>\
             </Rule></LifecycleConfiguration>"
        );
    }

    /// As Ceph 16.2.15 answers.
    #[test]
    fn rules_that_say_more_are_kept_as_they_are() {
        let others = [
            "<Rule><ID>dm</ID><Filter><Prefix>dm</Prefix></Filter><Status>Enabled</Status><Expiration>\
             <ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>",
            "<Rule><ID>old</ID><Prefix>pre</Prefix><Status>Enabled</Status><Expiration>\
             <Date>2030-01-01T00:00:00Z</Date></Expiration></Rule>",
            "<Rule><ID>tag</ID><Filter><Prefix>q</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></Filter>\
             <Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>",
            "<Rule><ID>tr</ID><Filter><Prefix>t</Prefix></Filter><Status>Enabled</Status><Transition><Days>30</Days>\
             <StorageClass>STANDARD</StorageClass></Transition></Rule>",
        ];
        let ours = "<Rule><ID>all</ID><Prefix></Prefix><Status>Disabled</Status><AbortIncompleteMultipartUpload>\
                    <DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>";
        let xml = format!("<LifecycleConfiguration>{ours}{}</LifecycleConfiguration>", others.concat());

        let lifecycle = read(&xml);

        assert_eq!(lifecycle.rules, [LifecycleRule { enabled: false, abort_multipart_days: Some(7), ..rule("all") }]);
        assert_eq!(lifecycle.others.iter().map(OtherRule::id).collect::<Vec<_>>(), ["dm", "old", "tag", "tr"]);
        let written = lifecycle.to_xml();
        assert!(others.iter().all(|other| written.contains(other)), "{written}");
        assert_eq!(read(&written), lifecycle);
    }

    /// As Ceph 16.2.15 answers, and as it takes it.
    #[test]
    fn a_rule_for_several_tags_keeps_the_prefix_that_is_told_beside_them() {
        let tag = |key| format!("<Tag><Key>{key}</Key><Value>v</Value></Tag>");
        let rule = |filter: &str| {
            format!(
                "<LifecycleConfiguration><Rule><ID>and</ID><Filter>{filter}</Filter><Status>Enabled</Status><Expiration>\
                 <Days>1</Days></Expiration></Rule></LifecycleConfiguration>"
            )
        };
        let tags = tag("x") + &tag("y");
        let told = read(&rule(&format!("<Prefix>a&amp;b/</Prefix><And>{tags}</And>")));

        let taken = format!("<Filter><And><Prefix>a&amp;b/</Prefix>{tags}</And></Filter><Status>");
        assert!(told.to_xml().contains(&taken), "{}", told.to_xml());
        assert_eq!(read(&told.to_xml()), told);
        assert_eq!(read(&rule(&format!("<And>{tags}</And>"))).to_xml().matches("<Prefix>").count(), 0);
    }

    fn any_rule() -> impl Strategy<Value = LifecycleRule> {
        let days = any::<Option<u32>>;
        (any::<String>(), any::<String>(), any::<bool>(), days(), days(), days()).prop_map(
            |(id, prefix, enabled, expiration_days, noncurrent_expiration_days, abort_multipart_days)| LifecycleRule {
                id,
                prefix,
                enabled,
                expiration_days,
                noncurrent_expiration_days,
                abort_multipart_days,
            },
        )
    }

    proptest! {
        #[test]
        fn any_rules_are_read_as_they_were_written(rules in prop::collection::vec(any_rule(), 0..4)) {
            let lifecycle = Lifecycle { rules, others: vec![] };
            prop_assert_eq!(read(&lifecycle.to_xml()), lifecycle);
        }
    }
}
