//! Answers the proxy makes itself, in the format of the server it stands in front of.

use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    request::Dialect,
    stream::{Body, whole},
};

pub(super) fn error(dialect: Dialect, path: &str, code: u16) -> Response<Body> {
    match dialect {
        Dialect::Kubernetes => respond(code, "application/json", status(code).to_string()),
        Dialect::Gateway if path.starts_with("/admin") => {
            let body =
                json!({ "Code": admin_code(path, code), "Message": "", "RequestId": "fault", "HostId": "fault" });
            respond(code, "application/json", body.to_string())
        }
        Dialect::Gateway => {
            let name = gateway_code(code);
            let body = format!(
                r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>{name}</Code><RequestId>fault</RequestId></Error>"#
            );
            respond(code, "application/xml", body)
        }
    }
}

/// A watch that begins well and at once reports that its history is gone.
pub(super) fn watch_gone() -> Response<Body> {
    respond(200, "application/json", watch_gone_event())
}

pub(super) fn watch_gone_event() -> String {
    format!("{}\n", json!({ "type": "ERROR", "object": status(410) }))
}

fn status(code: u16) -> Value {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("fault injected by the testbed: {code}"),
        "reason": reason(code),
        "code": code,
    });
    if code == 429 {
        status["details"] = json!({ "retryAfterSeconds": 1 });
    }
    status
}

fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}

fn admin_code(path: &str, code: u16) -> &'static str {
    match (path, code) {
        ("/admin/bucket", 409) => "BucketNotEmpty",
        _ => gateway_code(code),
    }
}

fn gateway_code(code: u16) -> &'static str {
    match code {
        403 => "AccessDenied",
        404 => "NoSuchKey",
        409 => "ConcurrentModification",
        503 => "SlowDown",
        _ => "InternalError",
    }
}

fn respond(code: u16, content_type: &str, body: String) -> Response<Body> {
    let mut response = Response::new(whole(body));
    *response.status_mut() = StatusCode::from_u16(code).expect("a rule names an HTTP status code");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type.parse().expect("content types here are plain ASCII"));
    if code == 429 {
        headers.insert(header::RETRY_AFTER, 1.into());
    }
    response
}
