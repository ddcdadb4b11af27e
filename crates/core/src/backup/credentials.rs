//! The credentials of a location. A file of AWS settings can name programs to run, roles to take and other servers to ask, and
//! Velero would do all of it as itself: so nothing of a tenant's file is passed on but a key id and a secret.

use crate::secret::Secret;

const KEY_ID: &str = "aws_access_key_id";
const SECRET: &str = "aws_secret_access_key";

/// A pair of access keys.
#[derive(Clone, Debug)]
pub struct AccessKeys {
    id: String,
    secret: Secret,
}

impl AccessKeys {
    /// Reads the file of settings under `key` of the Secret `name`. What is said about it never repeats a value.
    pub fn read(name: &str, key: &str, content: &[u8]) -> Result<Self, String> {
        let wrong = |what: &str| format!("BSL credentials secret \"{name}\" key \"{key}\": {what}");
        let found = |what: &str| wrong(&format!("only access keys are allowed, found {what}"));
        let text = std::str::from_utf8(content).map_err(|_| found("what is no text"))?;
        let (mut id, mut secret) = (None, None);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
            if line.starts_with('[') {
                if line != "[default]" {
                    return Err(found("a profile other than default"));
                }
                continue;
            }
            let (setting, value) = line.split_once('=').ok_or_else(|| found("a line that is no setting"))?;
            let (setting, value) = (setting.trim().to_ascii_lowercase(), value.trim());
            let place = match setting.as_str() {
                KEY_ID => &mut id,
                SECRET => &mut secret,
                other => return Err(found(nameable(other))),
            };
            if place.is_some() {
                return Err(found(&format!("{setting} twice")));
            }
            if !is_key(value) {
                return Err(found(&format!("a value of {setting} that is none")));
            }
            *place = Some(value.to_owned());
        }
        match (id, secret) {
            (Some(id), Some(secret)) => Ok(Self { id, secret: Secret::new(secret) }),
            (None, _) => Err(wrong("aws_access_key_id is missing")),
            (_, None) => Err(wrong("aws_secret_access_key is missing")),
        }
    }

    /// The file Velero gets.
    pub fn file(&self) -> Secret {
        Secret::new(format!("[default]\n{KEY_ID}={}\n{SECRET}={}\n", self.id, self.secret.expose()))
    }
}

/// The name of a setting, unless somebody wrote something else there.
fn nameable(setting: &str) -> &str {
    let is_name = setting.len() <= 40 && setting.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_name && !setting.is_empty() { setting } else { "a setting that cannot be read" }
}

/// What gateways hand out: no spaces, no quotes, nothing that begins a section or a comment.
fn is_key(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-.,@:~".contains(&byte);
    (1..=256).contains(&value.len()) && value.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<String, String> {
        AccessKeys::read("keys", "cloud", content.as_bytes()).map(|keys| keys.file().expose().to_owned())
    }

    #[test]
    fn of_a_file_only_the_two_keys_are_passed_on() {
        let normal = "[default]\naws_access_key_id=AKIA\naws_secret_access_key=abc/+=\n";
        for same in [
            normal,
            "aws_access_key_id = AKIA\r\naws_secret_access_key = abc/+=",
            "# mine\n[default]\n\n; two\n  AWS_Secret_Access_Key=abc/+=\n  aws_access_key_id=AKIA\n",
        ] {
            assert_eq!(read(same).as_deref(), Ok(normal), "{same:?}");
        }
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        let keys = "aws_access_key_id=AKIA\naws_secret_access_key=s3cr3t\n";
        for setting in [
            "credential_process",
            "role_arn",
            "source_profile",
            "web_identity_token_file",
            "sso_start_url",
            "endpoint_url",
            "ca_bundle",
            "region",
            "aws_session_token",
            "credential_source",
            "services",
        ] {
            let told = read(&format!("[default]\n{keys}{setting} = /bin/sh s3cr3t\n"));
            assert_eq!(
                told,
                Err(format!(
                    "BSL credentials secret \"keys\" key \"cloud\": only access keys are allowed, found {setting}"
                ))
            );
        }
        for (content, found) in [
            (format!("{keys}[profile velero]\n"), "a profile other than default"),
            (format!("{keys}[default ]\n"), "a profile other than default"),
            (format!("{keys}s3cr3t\n"), "a line that is no setting"),
            (format!("{keys}s3-cr3t=x\n"), "a setting that cannot be read"),
            (format!("{keys}aws_access_key_id=B\n"), "aws_access_key_id twice"),
            (
                "aws_access_key_id=A\naws_secret_access_key=a[b\n".into(),
                "a value of aws_secret_access_key that is none",
            ),
            ("aws_access_key_id=\n".into(), "a value of aws_access_key_id that is none"),
        ] {
            let told = read(&content).expect_err("refused");
            assert!(told.ends_with(&format!("found {found}")) && !told.contains("s3cr3t"), "{told}");
        }
    }

    #[test]
    fn both_keys_are_needed() {
        assert!(read("").is_err_and(|told| told.ends_with("aws_access_key_id is missing")));
        assert!(read("aws_access_key_id=A").is_err_and(|told| told.ends_with("aws_secret_access_key is missing")));
        assert!(AccessKeys::read("keys", "cloud", &[0xff]).is_err());
    }
}
