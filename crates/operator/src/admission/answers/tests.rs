#[allow(dead_code, reason = "shared with the tests of the core, which use all of it")]
#[path = "../../../../core/tests/arbitrary/json.rs"]
mod json;

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Method, Request, Uri},
};
use http_body_util::BodyExt;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use tower::ServiceExt;

use self::json::{any_or_bent, bent, nested};
use super::*;
use crate::admission::{bodies::MOST_BYTES, configuration::TIMEOUT_SECONDS, hooks::HOOKS};

struct Answered {
    code: StatusCode,
    body: Vec<u8>,
}

impl Answered {
    fn response(&self) -> Value {
        assert_eq!(self.code, StatusCode::OK, "{}", String::from_utf8_lossy(&self.body));
        let review: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
        review["response"].clone()
    }
}

/// What a server with these hooks says to a request.
async fn asked_of(routes: Router, mut request: Request<Body>) -> Answered {
    request.extensions_mut().insert(Peer([127, 0, 0, 1].into()));
    let response = routes.oneshot(request).await.unwrap();
    Answered { code: response.status(), body: response.into_body().collect().await.unwrap().to_bytes().into() }
}

fn ask(request: Request<Body>) -> Answered {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(asked_of(routes(&HOOKS, &Context::default(), &Arc::default()), request))
}

fn post_to(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).body(body.into()).unwrap()
}

fn review_of(object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "42", "operation": "UPDATE", "name": "app", "namespace": "team-a", "userInfo": {},
            "kind": { "group": "g", "version": "v1alpha1", "kind": "K" },
            "resource": { "group": "g", "version": "v1alpha1", "resource": "ks" },
            "object": object, "oldObject": old,
        }
    })
}

fn class(resource: &Value) -> Value {
    json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": "web" },
        "spec": { "resources": [resource], "params": [{ "name": "x", "default": "1", "pattern": "[0-9]+" }] },
    })
}

fn secret(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": data, "stringData": { "a": "b" } })
}

fn objects() -> Vec<Value> {
    vec![
        class(&secret(&json!({ "k": "eA==" }))),
        json!({
            "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": "app", "namespace": "team-a" },
            "spec": { "readSecretName": "read", "adminSecretName": "admin", "quota": { "size": "1Gi", "objects": 5, "buckets": 1 } },
        }),
        json!({
            "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket", "metadata": { "name": "photos", "namespace": "team-a" },
            "spec": { "s3UserRef": "app" },
        }),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let known: Vec<_> = HOOKS.iter().map(|hook| hook.path.to_owned()).collect();
    prop_oneof![4 => select(known), 1 => "/[!-~]{0,30}"]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let reviews: Vec<_> = objects().iter().map(|object| review_of(object, object)).collect();
    let text = any_or_bent(reviews).prop_map(|value| value.to_string().into_bytes());
    prop_oneof![3 => text.clone(), 1 => vec(any::<u8>(), 0..200), 1 => (text, 0..400_usize).prop_map(|(mut text, end)| {
        text.truncate(end);
        text
    })]
}

proptest! {
    #[test]
    fn any_request_is_answered(
        method in "(GET|PUT|POST|DELETE|HEAD|OPTIONS|[A-Z]{1,9})",
        path in path(),
        headers in vec(("[a-z-]{1,20}", vec(any::<u8>(), 0..20)), 0..4),
        body in body(),
    ) {
        let Ok(uri) = path.parse::<Uri>() else { return Ok(()) };
        let mut request = Request::new(Body::from(body));
        (*request.method_mut(), *request.uri_mut()) = (Method::from_bytes(method.as_bytes()).unwrap(), uri);
        for (name, value) in headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(&value)) {
                request.headers_mut().append(name, value);
            }
        }
        let answered = ask(request);
        prop_assert!(answered.code.is_success() || answered.code.is_client_error(), "{}", answered.code);
    }

    #[test]
    fn any_object_in_a_review_is_let_in_or_refused_by_name(
        new in bent(objects()), old in bent(objects()), path in select(HOOKS.iter().map(|hook| hook.path).collect::<Vec<_>>()),
    ) {
        let response = ask(post_to(path, review_of(&new, &old).to_string())).response();
        prop_assert_eq!(&response["uid"], "42");
        let told = response["status"]["message"].as_str().unwrap_or_default();
        prop_assert!(response["allowed"] == true || !told.is_empty(), "{}", response);
        prop_assert_ne!(&response["status"]["code"], 500);
    }
}

const CLASS: &str = "/validate-akuity-io-v1alpha1-namespaceclass";

#[test]
fn a_secret_whose_data_is_no_map_is_refused_with_field_and_fix() {
    let review = review_of(&class(&secret(&json!("x"))), &Value::Null);
    let status = &ask(post_to(CLASS, review.to_string())).response()["status"];
    assert_eq!(status["code"], 422);
    let told = "NamespaceClass.akuity.io \"app\" is invalid: spec.resources[0].data: Forbidden: must be a map of texts, not a \
                text; give every text a key";
    assert_eq!(status["message"], told);
}

#[test]
fn what_is_nested_too_deeply_to_be_read_is_refused_in_words() {
    let review = review_of(&class(&secret(&nested(200, json!("x")))), &Value::Null);
    let response = ask(post_to(CLASS, review.to_string())).response();
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("42"), &json!(false)));
    let told = response["status"]["message"].as_str().unwrap();
    assert!(told.contains("recursion limit exceeded"), "{told}");
}

/// One that is answered and whose answer nobody fetches is held all the same.
#[test]
fn whatever_is_in_a_review_its_answer_is_small() {
    const NEARLY_ALL: usize = MOST_BYTES - 4096;
    let long = |letter: &str, bytes: usize| letter.repeat(bytes / letter.len());
    let request = |field: &str, value: Value| {
        let mut review = review_of(&objects()[0], &Value::Null);
        review["request"]["namespace"] = json!("");
        review["request"][field] = value;
        review.to_string()
    };
    let with_member = |name: String| {
        let mut class = class(&secret(&json!({})));
        class["spec"][name] = json!(vec![0; 200_000]);
        class
    };
    let bodies = [
        request("uid", json!(long("u", NEARLY_ALL))),
        request("name", json!(long("n", NEARLY_ALL))),
        request("operation", json!(long("o", NEARLY_ALL))),
        request("dryRun", json!(long("\u{80}", NEARLY_ALL))),
        request("object", with_member(long("m", 3 << 19))),
        request("object", class(&json!(long("\u{80}", 3 << 19)))),
        request("object", class(&secret(&json!({ long("k", 2 << 20): 3 })))),
        request("object", json!(long("o", 2 << 20))),
        request("userInfo", json!({ "username": 3, "groups": long("\u{80}", 60 << 10) })),
    ];
    for body in bodies {
        assert!(body.len() <= MOST_BYTES, "it is read at all");
        let answered = ask(post_to(CLASS, body));
        assert!(answered.body.len() < 16 << 10, "{} bytes", answered.body.len());
        assert!(!answered.code.is_success() || answered.response()["allowed"] == false);
    }
}

#[test]
fn a_request_that_is_too_large_is_answered() {
    assert_eq!(ask(post_to(CLASS, vec![b' '; MOST_BYTES + 1])).code, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(ask(post_to(CLASS, vec![b' '; MOST_BYTES])).code, StatusCode::BAD_REQUEST);
}

fn bucket_hook() -> &'static Hook {
    HOOKS.iter().find(|hook| hook.resource == "s3buckets").expect("buckets are checked")
}

#[tokio::test]
async fn a_review_that_panics_is_refused_counted_and_the_next_one_is_answered() {
    static BROKEN: LazyLock<[Hook; 2]> = LazyLock::new(|| {
        [Hook { path: "/broken", review: |_, _| Box::pin(async { panic!("on purpose") }), ..HOOKS[0] }, *bucket_hook()]
    });
    let metrics = Arc::<Metrics>::default();
    let routes = routes(&*BROKEN, &Context::default(), &metrics);
    let review = review_of(&objects()[2], &Value::Null).to_string();
    for times in 1..=2 {
        let response = asked_of(routes.clone(), post_to("/broken", review.clone())).await.response();
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("42"), &json!(false)));
        let told = response["status"]["message"].as_str().unwrap();
        assert!(told.contains("this is a bug in croft"), "{told}");
        assert_eq!(response["status"]["code"], 500);
        let counted = format!("croft_panics_total{{place=\"admission\"}} {times}");
        assert!(metrics.text().contains(&counted), "{}", metrics.text());
    }
    let nobody = asked_of(routes.clone(), post_to("/broken", "{}")).await;
    assert_eq!(nobody.code, StatusCode::INTERNAL_SERVER_ERROR);
    let response = asked_of(routes, post_to(bucket_hook().path, review)).await.response();
    assert_eq!(response["allowed"], true);
}

/// Of two hooks one never answers.
static ENDLESS: LazyLock<[Hook; 2]> = LazyLock::new(|| {
    [Hook { path: "/endless", review: |_, _| Box::pin(std::future::pending()), ..HOOKS[0] }, *bucket_hook()]
});

#[tokio::test(start_paused = true)]
async fn a_review_that_does_not_end_is_refused_for_the_moment_while_the_api_server_still_listens() {
    let routes = routes(&*ENDLESS, &Context::default(), &Arc::default());
    let begun = tokio::time::Instant::now();
    let review = review_of(&objects()[2], &Value::Null).to_string();
    let response = asked_of(routes, post_to("/endless", review)).await.response();
    assert!(begun.elapsed() < Duration::from_secs(TIMEOUT_SECONDS.unsigned_abs().into()));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("42"), &json!(false)));
    assert_eq!(response["status"]["code"], 503);
    assert_eq!(response["status"]["details"]["retryAfterSeconds"], 1);
}

/// Arrives after this long.
fn late(text: String, after: Duration) -> Body {
    Body::from_stream(futures::stream::once(async move {
        tokio::time::sleep(after).await;
        Ok::<_, std::io::Error>(text)
    }))
}

#[tokio::test(start_paused = true)]
async fn a_review_that_comes_in_slowly_and_does_not_end_is_answered_while_the_api_server_still_listens() {
    let routes = routes(&*ENDLESS, &Context::default(), &Arc::default());
    let begun = tokio::time::Instant::now();
    let review = late(review_of(&objects()[2], &Value::Null).to_string(), Duration::from_millis(2900));
    let response = asked_of(routes, post_to("/endless", review)).await.response();
    assert!(begun.elapsed() < Duration::from_secs(TIMEOUT_SECONDS.unsigned_abs().into()), "{:?}", begun.elapsed());
    assert_eq!(response["status"]["code"], 503);
}

#[tokio::test(start_paused = true)]
async fn a_large_review_that_waits_for_others_keeps_no_other_large_one_waiting() {
    let routes = routes(&*ENDLESS, &Context::default(), &Arc::default());
    let mut review = review_of(&objects()[2], &Value::Null);
    review["request"]["options"] = json!("x".repeat(MOST_BYTES - 2000));
    let review = review.to_string();
    let waiting = asked_of(routes.clone(), post_to("/endless", review.clone()));
    let next = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let begun = tokio::time::Instant::now();
        let response = asked_of(routes, post_to(bucket_hook().path, review)).await.response();
        assert_eq!((&response["allowed"], begun.elapsed()), (&json!(true), Duration::ZERO));
    };
    futures::future::join(waiting, next).await;
}
