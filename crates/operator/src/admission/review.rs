//! One admission request -> one answer. Pure.

use croft_api::Problem;
use kube::{
    Resource,
    core::{
        DynamicObject, Status,
        admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation},
        response::{StatusCause, StatusDetails, StatusSummary},
    },
};
use serde::de::DeserializeOwned;

use super::scopes::ClusterScoped;

/// A kind that is checked at the door.
pub(crate) trait Checked: Resource<DynamicType = ()> + DeserializeOwned {
    /// Everything that is wrong with the object.
    fn problems(&self, cluster_scoped: &ClusterScoped) -> Vec<Problem>;

    /// What its author should know although it is let in.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What comes back over HTTP; an error is a request that is not an admission review at all.
pub(crate) type Answer = Result<AdmissionReview<DynamicObject>, serde_json::Error>;

/// Reads a review, checks the object, answers.
pub(crate) fn review<K: Checked>(body: &[u8], cluster_scoped: &ClusterScoped) -> Answer {
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body)?;
    let request: AdmissionRequest<DynamicObject> = review.try_into().map_err(serde::de::Error::custom)?;
    let mut response = AdmissionResponse::from(&request);
    match check::<K>(request, cluster_scoped) {
        Ok(warnings) => response.warnings = (!warnings.is_empty()).then_some(warnings),
        Err(refusal) => {
            response.allowed = false;
            response.result = *refusal;
        }
    }
    Ok(response.into_review())
}

/// A deletion passes. An update is refused only for problems the stored object did not have: whoever releases a finalizer,
/// labels an object or mends one of two mistakes is let through. Gives what its author should know.
fn check<K: Checked>(
    request: AdmissionRequest<DynamicObject>,
    cluster_scoped: &ClusterScoped,
) -> Result<Vec<String>, Box<Status>> {
    let Some(object) = request.object else { return Ok(Vec::new()) };
    let object: K = object.try_parse().map_err(|error| unreadable::<K>(&error.to_string()).boxed())?;
    let known = match request.operation {
        Operation::Create => Vec::new(),
        Operation::Update => {
            let old = request.old_object.and_then(|old| old.try_parse().ok());
            old.map_or_else(Vec::new, |old: K| old.problems(cluster_scoped))
        }
        Operation::Delete | Operation::Connect => return Ok(Vec::new()),
    };
    let new: Vec<_> = object.problems(cluster_scoped).into_iter().filter(|problem| !known.contains(problem)).collect();
    if new.is_empty() { Ok(object.warnings()) } else { Err(invalid::<K>(&request.name, &new).boxed()) }
}

fn unreadable<K: Checked>(why: &str) -> Status {
    Status {
        status: Some(StatusSummary::Failure),
        code: 400,
        reason: "BadRequest".into(),
        message: format!("{} cannot be read: {why}", K::kind(&())),
        ..Status::default()
    }
}

/// The Status the API server itself would give, so that clients show it like any other validation error.
fn invalid<K: Checked>(name: &str, problems: &[Problem]) -> Status {
    let (kind, group) = (K::kind(&()).into_owned(), K::group(&()).into_owned());
    let causes = problems.iter().map(|problem| StatusCause {
        reason: "FieldValueForbidden".into(),
        message: forbidden(problem),
        field: problem.field.clone(),
    });
    Status {
        status: Some(StatusSummary::Failure),
        code: 422,
        reason: "Invalid".into(),
        message: format!("{kind}.{group} {name:?} is invalid: {}", together(problems)),
        details: Some(StatusDetails {
            name: name.to_owned(),
            group,
            kind,
            uid: String::new(),
            causes: causes.collect(),
            retry_after_seconds: 0,
        }),
        ..Status::default()
    }
}

fn forbidden(problem: &Problem) -> String {
    format!("Forbidden: {}", problem.message)
}

fn together(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|problem| format!("{}: {}", problem.field, forbidden(problem))).collect();
    match lines.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use croft_api::{namespaces::NamespaceClass, storage::S3UserClaim};
    use serde_json::{Value, json};

    use super::*;

    fn claim(size: &str, deleting: bool) -> Value {
        let mut metadata = json!({ "name": "app", "namespace": "team-a" });
        if deleting {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            metadata["finalizers"] = json!(["s3.snappcloud.io/cleanup-s3userclaim"]);
        }
        json!({
            "apiVersion": "s3.snappcloud.io/v1alpha1",
            "kind": "S3UserClaim",
            "metadata": metadata,
            "spec": { "readSecretName": "read", "adminSecretName": "admin", "quota": { "size": size } },
        })
    }

    fn request(operation: &str, new: &Value, old: &Value) -> Vec<u8> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "42", "operation": operation, "name": "app", "namespace": "team-a", "userInfo": {},
                "kind": { "group": "s3.snappcloud.io", "version": "v1alpha1", "kind": "S3UserClaim" },
                "resource": { "group": "s3.snappcloud.io", "version": "v1alpha1", "resource": "s3userclaims" },
                "object": new, "oldObject": old,
            }
        });
        serde_json::to_vec(&review).unwrap()
    }

    fn answer<K: Checked>(request: &[u8]) -> AdmissionResponse {
        let review = review::<K>(request, &ClusterScoped::default()).unwrap();
        assert_eq!(review.types.api_version, "admission.k8s.io/v1");
        let response = review.response.unwrap();
        assert_eq!(response.uid, "42");
        response
    }

    #[test]
    fn what_passes_and_what_is_refused() {
        let (good, bad, worse) = (claim("1Gi", false), claim("-1Gi", false), claim("-1Gi", true));
        let table = [
            ("a good claim", "CREATE", good.clone(), Value::Null, true),
            ("a bad claim", "CREATE", bad.clone(), Value::Null, false),
            ("a change for the worse", "UPDATE", bad.clone(), good.clone(), false),
            ("a change for the better", "UPDATE", good.clone(), bad.clone(), true),
            ("a bad claim from before, relabelled", "UPDATE", bad.clone(), bad.clone(), true),
            ("a finalizer released from a bad claim", "UPDATE", worse.clone(), worse, true),
            ("a change for the worse while being deleted", "UPDATE", claim("-1Gi", true), claim("1Gi", true), false),
            ("a deletion of a bad claim", "DELETE", Value::Null, bad, true),
            (
                "an unreadable object",
                "CREATE",
                json!({ "metadata": {}, "spec": { "subusers": 3 } }),
                Value::Null,
                false,
            ),
            (
                "a repair of an unreadable object",
                "UPDATE",
                good,
                json!({ "metadata": {}, "spec": { "subusers": 3 } }),
                true,
            ),
        ];
        for (case, operation, new, old, allowed) in table {
            assert_eq!(answer::<S3UserClaim>(&request(operation, &new, &old)).allowed, allowed, "{case}");
        }
    }

    #[test]
    fn a_refusal_reads_like_the_api_servers_own() {
        let refused = answer::<S3UserClaim>(&request("CREATE", &claim("-1Gi", false), &Value::Null)).result;
        let status = serde_json::to_value(refused).unwrap();
        let text = status["details"]["causes"][0]["message"].as_str().unwrap().to_owned();
        assert!(text.starts_with("Forbidden: "), "{text}");
        let field = "spec.quota.size";
        assert_eq!(
            status,
            json!({
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": format!("S3UserClaim.s3.snappcloud.io \"app\" is invalid: {field}: {text}"),
                "details": {
                    "name": "app", "group": "s3.snappcloud.io", "kind": "S3UserClaim",
                    "causes": [{ "reason": "FieldValueForbidden", "field": field, "message": text }],
                },
            })
        );
    }

    #[test]
    fn several_problems_are_told_at_once() {
        let problems = [Problem::new("spec.a", "one"), Problem::new("spec.b", "two")];
        let status = invalid::<NamespaceClass>("web", &problems);
        assert_eq!(
            status.message,
            "NamespaceClass.akuity.io \"web\" is invalid: [spec.a: Forbidden: one, spec.b: Forbidden: two]"
        );
        assert_eq!(status.details.unwrap().causes.len(), 2);
    }

    #[test]
    fn an_unreadable_object_is_a_bad_request() {
        let object = json!({ "metadata": {}, "spec": { "subusers": 3 } });
        let status = answer::<S3UserClaim>(&request("CREATE", &object, &Value::Null)).result;
        assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
        assert!(status.message.starts_with("S3UserClaim cannot be read: "), "{}", status.message);
    }
}
