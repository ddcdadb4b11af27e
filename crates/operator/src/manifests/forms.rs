//! Forms that texts among the values have: each as a pattern for Helm, and as a check for `croft manifests`.

use std::{collections::BTreeMap, net::IpAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

pub(super) const TAG: &str = "^[A-Za-z0-9_.-]*$";
pub(super) const DIGEST: &str = "^(sha256:[0-9a-f]{64})?$";
pub(super) const RANGE: &str = "^[0-9A-Fa-f.:]+/[0-9]{1,3}$";

pub(super) fn tag(text: &str) -> Result<(), String> {
    let fits = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
    or(fits, text, "give letters, digits and _ . - only")
}

pub(super) fn digest(text: &str) -> Result<(), String> {
    let is_digit = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
    let is_digest = |digits: &str| digits.len() == 64 && digits.chars().all(is_digit);
    or(text.is_empty() || text.strip_prefix("sha256:").is_some_and(is_digest), text, "give sha256: and 64 digits")
}

pub(super) fn range(text: &str) -> Result<(), String> {
    let fits = text.split_once('/').is_some_and(|(address, bits)| {
        let most = address.parse().map(|address: IpAddr| if address.is_ipv4() { 32 } else { 128 });
        most.is_ok_and(|most| bits.parse().is_ok_and(|bits: u8| bits <= most))
    });
    or(fits, text, "give a range of addresses such as 10.0.0.0/28")
}

fn or(fits: bool, text: &str, wanted: &str) -> Result<(), String> {
    if fits { Ok(()) } else { Err(format!("`{text}`: {wanted}")) }
}

/// As people write it: `--set resources.limits.cpu=2` is a number to Helm.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Amount {
    Text(String),
    Whole(u64),
    Part(f64),
}

pub(super) fn amounts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let amounts: BTreeMap<String, Amount> = BTreeMap::deserialize(from)?;
    let text = |amount| match amount {
        Amount::Text(text) => text,
        Amount::Whole(number) => number.to_string(),
        Amount::Part(number) => number.to_string(),
    };
    Ok(amounts.into_iter().map(|(name, amount)| (name, text(amount))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_addresses_that_exist() {
        assert!(["10.0.0.0/28", "::1/128", "0.0.0.0/0"].iter().all(|text| range(text).is_ok()));
        assert!(["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "host/8"].iter().all(|text| range(text).is_err()));
    }
}
