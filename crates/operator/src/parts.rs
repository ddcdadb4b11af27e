//! The parts of the product. Each is one folder, and one line here.

use croft_api::backup as names;

use crate::{
    admission::Hook,
    backup,
    engine::{EngineBuilder, Part, Writer},
    manifests::Installation,
    namespaces,
    rbac::Use,
    roles::TenantKinds,
    settings::SharedSettings,
    storage,
};

/// Labels and annotations that any part reads of objects known by their metadata only, which are Secrets: no others are kept.
pub(crate) const METADATA_MARKS: &[&str] = &[
    names::MANAGED_BY_LABEL,
    names::OADP_LABEL,
    names::NABSL_ORIGIN_NACUUID_LABEL,
    names::NABSL_ORIGIN_NAMESPACE_ANNOTATION,
    names::NABSL_ORIGIN_NAME_ANNOTATION,
    names::VAULT_NACUUID_LABEL,
    names::VAULT_NAMESPACE_ANNOTATION,
    names::VAULT_NAME_ANNOTATION,
    "croft.dev/copy-of",
];

/// All of them, in the order in which they are named and installed.
pub const PARTS: &[&Definition] = &[&namespaces::PART, &storage::PART, &backup::PART];

/// Everything a part is made of.
#[derive(Debug)]
pub struct Definition {
    /// Its name; `--enable` takes it, and it can be switched off.
    pub part: Part,
    /// API groups whose CRDs `croft crds` installs for it: without them the operator is not ready.
    pub groups: &'static [&'static str],
    /// The rights its code uses.
    pub uses: &'static [Use],
    /// Its kinds in the hands of tenants, by group.
    pub tenants: &'static [TenantKinds],
    /// What it checks at the door.
    pub(crate) hooks: &'static [Hook],
    /// What is installed for it besides CRDs and roles, each as a YAML document.
    pub manifests: fn(&Installation) -> Vec<String>,
    /// Registers what it watches and the work it does.
    pub install: fn(&mut EngineBuilder, &Ground),
}

/// What every part stands on.
#[derive(Clone, Debug)]
pub struct Ground {
    pub writer: Writer,
    pub settings: SharedSettings,
    pub operator_namespace: String,
}

/// The definitions of the parts named.
pub fn of(parts: &[Part]) -> impl Iterator<Item = &'static Definition> {
    PARTS.iter().copied().filter(move |definition| parts.contains(&definition.part))
}

/// Reads the name of a part from the command line.
pub fn value_parser() -> impl clap::builder::TypedValueParser<Value = Part> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let known = PossibleValuesParser::new(names());
    known.try_map(|name| {
        let found = PARTS.iter().find(|definition| definition.part.name() == name);
        found.map(|definition| definition.part).ok_or(format!("there is no part {name}"))
    })
}

/// The names of all parts.
pub fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|definition| definition.part.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_parts_share_a_name_or_a_group() {
        for (index, one) in PARTS.iter().enumerate() {
            for other in &PARTS[index + 1..] {
                assert_ne!(one.part, other.part);
                assert!(one.groups.iter().all(|group| !other.groups.contains(group)), "{} {}", one.part, other.part);
            }
        }
    }
}
