//! Key pairs. A secret key leaves its [`Secret`] only through [`Secret::expose`], so every use is easy to find.

use std::fmt;

use serde::Deserialize;

/// A string that never shows itself: `Debug` and `Display` print `***`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// From now on nobody sees it by accident.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for signing and for writing it where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// An S3 key pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its public half: whose it is can be asked by it.
    pub access_key: String,
    /// Its other half, with which requests are signed.
    pub secret_key: Secret,
}

impl Credentials {
    /// A pair as it was handed out.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<Secret>) -> Self {
        Self { access_key: access_key.into(), secret_key: secret_key.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_never_print_their_secret() {
        let credentials = Credentials::new("AK", "hush");
        assert_eq!(format!("{credentials:?}"), r#"Credentials { access_key: "AK", secret_key: *** }"#);
        assert_eq!(credentials.secret_key.to_string(), "***");
        assert_eq!(credentials.secret_key.expose(), "hush");
    }
}
