//! What can go wrong, and what a caller should do about it.

use std::time::Duration;

use serde::Deserialize;

use crate::xml::Element;

/// What a caller should do about an error. Nothing is retried by this client itself.
///
/// | class | try again | what the gateway answered, or what happened instead |
/// | --- | --- | --- |
/// | `Transient` | later, the same call | no connection, no answer in time; 500 `InternalError`, 503 `ServiceUnavailable`, 408 and any other 5xx but 501; a 404 without the gateway's word for it |
/// | `Throttled` | later still, and less often | 503 `SlowDown`, 429 |
/// | `Conflict` | after another look, the call that then fits | 500 `UnknownError` (two writers up to Ceph 18, and a gateway that cannot write), 409 `ConcurrentModification`, `OperationAborted`, `UserAlreadyExists`, `UserHasBuckets` (our word for the gateway's `BucketAlreadyExists`), 412 `PreconditionFailed`, 423 |
/// | `NotFound` | once it is there | 404 `NoSuchUser`, `NoSuchSubUser`, `NoSuchBucket`, `NoSuchBucketPolicy`, `NoSuchLifecycleConfiguration`, `NoSuchKey` (of an object, but also of a bucket or user to be linked) |
/// | `Denied` | once somebody has given the right, or room | 403 `AccessDenied`, `InvalidAccessKeyId`, `SignatureDoesNotMatch`, `RequestTimeTooSkewed`, `UserSuspended`, `QuotaExceeded`; 401 |
/// | `Terminal` | never, the same call | 409 `KeyExists`, `EmailExists`, `BucketAlreadyExists` (another user's), `BucketNotEmpty`; 400 `InvalidArgument`, `InvalidTenantName`, `InvalidBucketName`, `InvalidCapability`, `InvalidKeyType`, `InvalidSecretKey`, `TooManyBuckets`, `MalformedXML`, `BadDigest`; 405 `MethodNotAllowed`, 501 `NotImplemented`; redirects; what we refuse to send and answers we cannot read |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Nothing is known about the outcome: try again later.
    Transient,
    /// Somebody else changed the same thing meanwhile: look again, then decide again.
    Conflict,
    /// The gateway asks for fewer requests: wait longer.
    Throttled,
    /// The user, subuser, bucket or object is not there.
    NotFound,
    /// The key used may not do this, or not now.
    Denied,
    /// The same request will be refused again.
    Terminal,
}

/// An error of this client. It never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RgwError {
    /// The URL is left out on purpose: it may hold a password.
    #[error("the gateway's endpoint is not usable: {cause}; give it as http://host[:port] or https://host[:port]")]
    InvalidEndpoint {
        /// What is wrong with it.
        cause: &'static str,
    },
    /// No certificate can be read, or one is not understood.
    #[error("the gateway's CA bundle is not usable: {cause}; give one or more certificates in PEM form")]
    InvalidCaBundle {
        /// What is wrong with it.
        cause: String,
    },
    /// A name the gateway would take for something else. Nothing was sent.
    #[error("{value:?} cannot be a {what}: {rule}")]
    InvalidName {
        /// What was to be named.
        what: &'static str,
        /// The name that was given.
        value: String,
        /// What it breaks.
        rule: &'static str,
    },
    /// No header can hold the access key. Nothing was sent.
    #[error("{call}: the access key in use holds a character no key has; does its Secret end with a line break?")]
    InvalidAccessKey {
        /// What was to be done.
        call: String,
    },
    /// No connection, or one that broke: whether the call was carried out is not known.
    #[error("{call}: cannot reach the gateway at {host}: {cause}")]
    Unreachable {
        /// What was to be done.
        call: String,
        /// Where the gateway should be.
        host: String,
        /// Why it cannot be reached.
        cause: String,
    },
    /// No answer in time: whether the call was carried out is not known.
    #[error("{call}: no answer within {} s", .after.as_secs_f32())]
    TimedOut {
        /// What was to be done.
        call: String,
        /// How long an answer was waited for.
        after: Duration,
    },
    /// The gateway, or something on the way to it, said no.
    #[error("{call}: the gateway answered {status} {code}{}", hint(.code))]
    Refused {
        /// What was to be done.
        call: String,
        /// The code of HTTP.
        status: u16,
        /// The gateway's own word; `Http` and the status where it gave none.
        code: String,
    },
    /// An answer that says yes and cannot be understood.
    #[error("{call}: the gateway's answer cannot be read: {cause}; is the endpoint a Ceph gateway?")]
    Unreadable {
        /// What was to be done.
        call: String,
        /// What is wrong with the answer.
        cause: String,
    },
}

impl RgwError {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => ErrorClass::Transient,
            Self::Refused { status, code, .. } => class_of_refusal(*status, code),
            Self::InvalidEndpoint { .. }
            | Self::InvalidCaBundle { .. }
            | Self::InvalidName { .. }
            | Self::InvalidAccessKey { .. }
            | Self::Unreadable { .. } => ErrorClass::Terminal,
        }
    }

    /// A stable `CamelCase` word for conditions, events and metrics: the gateway's own code where it gave one.
    pub fn reason(&self) -> &str {
        match self {
            Self::InvalidEndpoint { .. } => "InvalidEndpoint",
            Self::InvalidCaBundle { .. } => "InvalidCaBundle",
            Self::InvalidName { .. } => "InvalidName",
            Self::InvalidAccessKey { .. } => "InvalidAccessKey",
            Self::Unreachable { .. } => "GatewayUnreachable",
            Self::TimedOut { .. } => "GatewayTimeout",
            Self::Refused { code, .. } => code,
            Self::Unreadable { .. } => "UnreadableAnswer",
        }
    }

    /// Reads a refusal. `from_gateway` tells that the answer carries the gateway's request id.
    pub(crate) fn refused(call: String, status: u16, from_gateway: bool, body: &[u8]) -> Self {
        let code = code_in(body).unwrap_or_else(|| match status {
            // HEAD has no body to put a code in.
            404 if from_gateway => NOT_FOUND.to_owned(),
            _ => format!("Http{status}"),
        });
        Self::Refused { call, status, code }
    }

    /// Only the position is told: serde's message may quote the value it stumbled over.
    pub(crate) fn unreadable_json(call: String, error: &serde_json::Error) -> Self {
        let cause = format!("unexpected JSON at line {} column {}", error.line(), error.column());
        Self::Unreadable { call, cause }
    }

    /// Puts a code of ours in place of a misleading one of the gateway's.
    pub(crate) fn renaming(mut self, from: &str, to: &str) -> Self {
        if let Self::Refused { code, .. } = &mut self
            && code == from
        {
            to.clone_into(code);
        }
        self
    }
}

/// Turns "not there" into `None`.
pub(crate) fn absent_is_none<T>(result: Result<T, RgwError>) -> Result<Option<T>, RgwError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.class() == ErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removing what is not there is done.
pub(crate) fn absent_is_done<T>(removed: Result<T, RgwError>) -> Result<(), RgwError> {
    absent_is_none(removed).map(drop)
}

const NOT_FOUND: &str = "NotFound";
/// Our code for the refusal to delete a user who has buckets; the gateway's own is `BucketAlreadyExists`.
pub(crate) const USER_HAS_BUCKETS: &str = "UserHasBuckets";

fn class_of_refusal(status: u16, code: &str) -> ErrorClass {
    match (status, code) {
        (429, _) | (_, "SlowDown") => ErrorClass::Throttled,
        // Two writers of one user: 500 UnknownError up to Ceph 18, 409 ConcurrentModification later.
        (500, "UnknownError")
        | (409, "ConcurrentModification" | "OperationAborted" | "UserAlreadyExists" | USER_HAS_BUCKETS)
        | (412 | 423, _) => ErrorClass::Conflict,
        (404, code) if code == NOT_FOUND || code.starts_with("NoSuch") => ErrorClass::NotFound,
        // A 404 without a code comes from something between us and the gateway.
        (404 | 408 | 500 | 502..=599, _) => ErrorClass::Transient,
        (401 | 403, _) => ErrorClass::Denied,
        _ => ErrorClass::Terminal,
    }
}

fn hint(code: &str) -> &'static str {
    match code {
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" => "; check the access key and secret key in use",
        "AccessDenied" => {
            "; the key in use lacks the right (an administrator needs the capabilities users=* and buckets=*; to a bucket's owner its policy may deny it)"
        }
        "InvalidBucketState" => "; a bucket with object lock keeps its versions",
        "RequestTimeTooSkewed" => "; synchronise the clocks of this machine and of the gateway",
        "MethodNotAllowed" => "; is `admin` among the gateway's rgw_enable_apis?",
        "KeyExists" => "; choose another access key",
        "TooManyBuckets" => "; raise the user's bucket limit or delete a bucket",
        "BucketNotEmpty" => "; delete its objects first, with all versions and delete markers",
        "QuotaExceeded" => "; raise the user's quota or delete objects",
        "UserSuspended" => "; enable the user again",
        "Http301" | "Http302" | "Http307" | "Http308" => "; give the endpoint as the address it redirects to",
        USER_HAS_BUCKETS => "; delete or unlink its buckets first",
        _ => "",
    }
}

/// The code of an error body: JSON from Admin Ops, XML from S3, anything at all from a proxy.
fn code_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(rename = "Code")]
        code: String,
    }
    let code = match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => refusal.code,
        Err(_) => Element::parse(body)?.text_of("Code")?.to_owned(),
    };
    is_code(&code).then_some(code)
}

fn is_code(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> RgwError {
        RgwError::refused("get user acme$bob".into(), status, true, body.as_bytes())
    }

    fn coded(status: u16, code: &str) -> RgwError {
        refused(status, &format!(r#"{{"Code":"{code}","Message":"","RequestId":"tx0","HostId":"h"}}"#))
    }

    #[test]
    fn refusals_are_classed_by_what_a_caller_can_do() {
        use ErrorClass::{Conflict, Denied, NotFound, Terminal, Throttled, Transient};
        for (status, class, codes) in [
            (400, Terminal, "InvalidArgument InvalidTenantName InvalidBucketName InvalidCapability InvalidKeyType"),
            (400, Terminal, "InvalidSecretKey InvalidRequest TooManyBuckets MalformedXML BadDigest EntityTooLarge"),
            (403, Denied, "AccessDenied InvalidAccessKeyId SignatureDoesNotMatch RequestTimeTooSkewed"),
            (403, Denied, "UserSuspended QuotaExceeded"),
            (404, NotFound, "NoSuchUser NoSuchSubUser NoSuchBucket NoSuchKey NoSuchBucketPolicy"),
            (404, NotFound, "NoSuchLifecycleConfiguration"),
            (405, Terminal, "MethodNotAllowed"),
            (409, Conflict, "ConcurrentModification OperationAborted UserAlreadyExists UserHasBuckets"),
            (409, Terminal, "KeyExists EmailExists BucketAlreadyExists BucketNotEmpty"),
            (412, Conflict, "PreconditionFailed"),
            (429, Throttled, "TooManyRequests"),
            (500, Conflict, "UnknownError"),
            (500, Transient, "InternalError"),
            (501, Terminal, "NotImplemented"),
            (503, Throttled, "SlowDown"),
            (503, Transient, "ServiceUnavailable"),
        ] {
            for code in codes.split(' ') {
                let error = coded(status, code);
                assert_eq!((error.class(), error.reason()), (class, code), "{status} {code}");
            }
        }
    }

    #[test]
    fn refusals_without_a_code_are_classed_by_their_status() {
        for (status, class) in [
            (301, ErrorClass::Terminal),
            (401, ErrorClass::Denied),
            (403, ErrorClass::Denied),
            (408, ErrorClass::Transient),
            (423, ErrorClass::Conflict),
            (429, ErrorClass::Throttled),
            (500, ErrorClass::Transient),
            (504, ErrorClass::Transient),
        ] {
            assert_eq!(refused(status, "").class(), class, "{status}");
        }
    }

    #[test]
    fn codes_are_read_from_xml_too() {
        let body = "<?xml version=\"1.0\"?><Error><Code>BucketNotEmpty</Code><BucketName>b</BucketName></Error>";
        assert_eq!(refused(409, body).reason(), "BucketNotEmpty");
    }

    #[test]
    fn only_the_gateway_itself_can_say_that_something_is_absent() {
        let page = b"<html><body>default backend - 404</body></html>";
        let proxy = RgwError::refused("get user".into(), 404, false, page);
        assert_eq!((proxy.class(), proxy.reason()), (ErrorClass::Transient, "Http404"));
        let head = RgwError::refused("look at bucket b".into(), 404, true, b"");
        assert_eq!(head.class(), ErrorClass::NotFound);
    }

    #[test]
    fn a_body_that_is_no_error_gives_a_reason_from_the_status() {
        for body in ["", "\u{fffd}", "<Code>not a code!</Code>", r#"{"Code":5}"#, "[]", "<html>Bad Gateway</html>"] {
            let error = refused(502, body);
            assert_eq!((error.class(), error.reason()), (ErrorClass::Transient, "Http502"), "{body}");
        }
    }

    #[test]
    fn messages_name_the_call_the_cause_and_the_fix() {
        assert_eq!(
            coded(403, "RequestTimeTooSkewed").to_string(),
            "get user acme$bob: the gateway answered 403 RequestTimeTooSkewed; \
             synchronise the clocks of this machine and of the gateway"
        );
    }

    #[test]
    fn an_unreadable_answer_does_not_quote_itself() {
        let error = serde_json::from_str::<Vec<u32>>(r#"["hush"]"#).unwrap_err();
        assert!(!RgwError::unreadable_json("get user".into(), &error).to_string().contains("hush"));
    }
}
