//! The password of Velero's repositories, in which it keeps what it copies out of volumes.

/// The Secret beside Velero that holds it, and under which key.
pub const SECRET: &str = "velero-repo-credentials";
pub const KEY: &str = "repository-password";
/// What Velero writes into that Secret where nobody else has made it.
const SAME_EVERYWHERE: &[u8] = b"static-passw0rd";

/// What is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Password {
    /// There is none yet: Velero makes one when it is started next.
    Missing,
    SameEverywhere,
    Own,
}

impl Password {
    /// By what the Secret has under [`KEY`].
    pub fn of(stored: Option<&[u8]>) -> Self {
        match stored {
            None => Password::Missing,
            Some(password) if password.trim_ascii() == SAME_EVERYWHERE => Password::SameEverywhere,
            Some(_) => Password::Own,
        }
    }

    /// What its administrator should know, and what to do about it.
    pub fn remark(self, namespace: &str) -> Option<String> {
        let wrong = match self {
            Password::Missing => {
                "is missing or has no password, and Velero makes one that is the same in every installation"
            }
            Password::SameEverywhere => "has the password that is the same in every installation",
            Password::Own => return None,
        };
        Some(format!(
            "Secret {namespace}/{SECRET} {wrong}: Velero encrypts with it what it copies out of volumes. Before the first file-system \
             backup (what was copied before cannot be read any more): kubectl create secret generic {SECRET} -n {namespace} \
             --from-literal={KEY}=\"$(openssl rand -hex 32)\" --dry-run=client -o yaml | kubectl apply -f -"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_missing_or_the_same_everywhere_is_worth_a_word_with_what_to_do_about_it() {
        for stored in [None, Some(SAME_EVERYWHERE), Some(b"static-passw0rd\n".as_slice())] {
            let remark = Password::of(stored).remark("openshift-adp").unwrap_or_default();
            assert!(remark.starts_with("Secret openshift-adp/velero-repo-credentials "), "{remark}");
            assert!(
                remark.contains("kubectl create secret generic velero-repo-credentials -n openshift-adp"),
                "{remark}"
            );
            assert!(!remark.contains("passw0rd"), "{remark}");
        }
        for own in [b"".as_slice(), b"of our own"] {
            assert_eq!(Password::of(Some(own)).remark("velero"), None);
        }
    }
}
