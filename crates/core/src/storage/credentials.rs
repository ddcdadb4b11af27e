//! Key pairs and the Secrets made of them.

use std::collections::BTreeMap;

use super::Class;
use crate::secret::Secret;

/// An S3 key pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    pub access_key: String,
    pub secret_key: Secret,
}

/// What a Secret for tenants holds. `cloud` is an AWS credentials file, the form Velero reads.
pub const SECRET_KEYS: [&str; 5] = ["accessKey", "secretKey", "endpoint", "region", "cloud"];

/// The contents of the Secret that hands out `pair`.
pub fn secret_contents(class: &Class, pair: &KeyPair) -> BTreeMap<String, Secret> {
    let cloud = credentials_file(pair);
    let values = [pair.access_key.as_str(), pair.secret_key.expose(), &class.endpoint, &class.region, cloud.expose()];
    SECRET_KEYS.into_iter().map(str::to_owned).zip(values.into_iter().map(Secret::new)).collect()
}

/// An AWS credentials file with nothing but `pair` in it.
pub fn credentials_file(pair: &KeyPair) -> Secret {
    let (id, secret) = (&pair.access_key, pair.secret_key.expose());
    Secret::new(format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{OnDelete, QuotaAsked};

    #[test]
    fn a_secret_holds_all_a_client_needs() {
        let class = Class {
            name: "gold".into(),
            endpoint: "https://s3.example.com".into(),
            region: "eu".into(),
            tenant_prefix: "lab".into(),
            on_delete: OnDelete::Retain,
            team_required: false,
            default_quota: QuotaAsked::default(),
        };
        let contents = secret_contents(&class, &KeyPair { access_key: "AK".into(), secret_key: Secret::new("hush") });
        let shown = |key: &str| contents[key].expose().to_owned();
        assert_eq!(
            [shown("accessKey"), shown("secretKey"), shown("endpoint"), shown("region")],
            ["AK", "hush", "https://s3.example.com", "eu"]
        );
        assert_eq!(shown("cloud"), "[default]\naws_access_key_id = AK\naws_secret_access_key = hush\n");
        assert!(!format!("{contents:?}").contains("hush"));
    }
}
