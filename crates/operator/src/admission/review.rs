//! One admission request -> one answer.

use std::{borrow::Cow, collections::BTreeMap};

use croft_api::Problem;
use croft_core::{name::is_path_segment, weight::Limit};
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::{
    Resource,
    core::{
        DynamicObject, Status,
        admission::{AdmissionResponse, AdmissionReview, Operation},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    context::Context,
    refusal::{Refusal, bounded, unreadable},
    scopes::ClusterScoped,
};

/// A rule at the door: lets a request in or says why not.
pub(crate) trait Rule {
    type Kind: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync;

    fn judge(request: Request<Self::Kind>, context: &Context) -> impl Future<Output = Verdict> + Send;
}

/// A kind that is checked at the door whenever it is created or changed.
pub(crate) trait Checked: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync {
    /// Everything that is wrong with the object, whatever else there is.
    fn problems(&self, cluster_scoped: &ClusterScoped) -> Vec<Problem>;

    /// What its author should know although it is let in.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Judges an object that is right in itself beside all others.
    fn among_others(_: &Request<Self>, _: &Context) -> impl Future<Output = Result<(), Refusal>> + Send {
        std::future::ready(Ok(()))
    }
}

/// What somebody wants to do.
#[derive(Debug)]
pub(crate) struct Request<K> {
    /// Of the request.
    pub(crate) uid: String,
    pub(crate) operation: Operation,
    pub(crate) namespace: String,
    /// As it is to become; nothing in a deletion.
    pub(crate) object: Option<K>,
    /// As it is; nothing in a creation, or where it cannot be read.
    pub(crate) old: Option<K>,
    pub(crate) requester: UserInfo,
    /// Must leave nothing behind.
    pub(crate) dry_run: bool,
}

/// Lets in, with what the author should know, or refuses.
pub(crate) type Verdict = Result<Vec<String>, Refusal>;

/// What comes back over HTTP; an error is a request that is not an admission review at all.
pub(crate) type Answer = Result<AdmissionReview<DynamicObject>, serde_json::Error>;

/// What is read of who asks.
const REQUESTER: Limit = Limit { bytes: 64 << 10, values: 5_000 };

/// A review with its objects as they came: what is not asked for is never made out in memory.
#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    request: RawRequest<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    operation: Operation,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    #[serde(borrow)]
    user_info: &'a RawValue,
    #[serde(default)]
    dry_run: bool,
}

impl RawRequest<'_> {
    /// Names are kept, repeated and made paths of: what the API server did not send must not be large, nor lead elsewhere.
    fn is_named_like_a_request(&self) -> Result<(), serde_json::Error> {
        let names = [Some(&self.uid), Some(&self.name), self.namespace.as_ref()];
        if names.into_iter().flatten().any(|name| !is_path_segment(name)) {
            return Err(serde::de::Error::custom("a name that no object has"));
        }
        Ok(())
    }

    /// The request with as much of it as is read. Nothing, where what is stored is too large already and asks for the same
    /// afterwards: whoever releases its finalizer is let through, and who would have something of it judged is not.
    fn within_limits(mut self) -> Result<Option<Self>, String> {
        if let Some(objection) = REQUESTER.objection(self.user_info.get()) {
            return Err(format!("in userInfo: {objection}"));
        }
        let is_in_namespace = self.namespace.as_ref().is_some_and(|namespace| !namespace.is_empty());
        let limit = match self.operation {
            _ if !is_in_namespace => Limit::OF_CLUSTER,
            // Finalizers, status and notes come later, and what is let in must stay readable with them.
            Operation::Create => Limit::OF_NAMESPACE.part(4),
            _ => Limit::OF_NAMESPACE.part(2),
        };
        let objection = |raw: Option<&RawValue>| raw.and_then(|raw| limit.objection(raw.get()));
        let was_too_large = objection(self.old_object).is_some();
        match objection(self.object) {
            Some(_) if was_too_large && self.asks_for_the_same() => return Ok(None),
            Some(why) => return Err(why),
            None => {}
        }
        self.old_object = self.old_object.filter(|_| !was_too_large);
        Ok(Some(self))
    }

    /// Whether nothing is changed but metadata and status.
    fn asks_for_the_same(&self) -> bool {
        let (new, old) = (self.object.and_then(asked_for), self.old_object.and_then(asked_for));
        new.is_some() && new == old
    }
}

/// What an object asks for, as it is written: of what is too large to be read nothing is taken apart.
fn asked_for(object: &RawValue) -> Option<BTreeMap<String, &str>> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object.get()).ok()?;
    let asked = fields.into_iter().filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"));
    Some(asked.map(|(field, value)| (field, value.get())).collect())
}

fn allowed(uid: &str) -> AdmissionResponse {
    let mut response = AdmissionResponse::invalid("");
    uid.clone_into(&mut response.uid);
    response.allowed = true;
    response.result = Status::default();
    response
}

/// Reads a review, judges the request, answers. The text is gone before anybody is waited for.
pub(crate) fn review<R: Rule>(body: Vec<u8>, context: &Context) -> BoxFuture<'_, Answer> {
    Box::pin(async move {
        let Asked { request } = serde_json::from_slice(&body)?;
        request.is_named_like_a_request()?;
        let mut response = allowed(&request.uid);
        let name = request.name.clone().into_owned();
        let read = request.within_limits().and_then(|request| request.map_or(Ok(None), Request::<R::Kind>::read));
        drop(body);
        let verdict = match read {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(request)) => R::judge(request, context).await.map_err(|refusal| refusal.status::<R::Kind>(&name)),
            Err(why) => Err(unreadable::<R::Kind>(&why)),
        };
        match verdict {
            Ok(warnings) => response.warnings = (!warnings.is_empty()).then(|| bounded(warnings)),
            Err(refusal) => {
                response.allowed = false;
                response.result = refusal;
            }
        }
        Ok(response.into_review())
    })
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Request<K> {
    /// An object that is to be stored must be readable; one that is stored already may be anything. Nothing, where it is not, was
    /// not, and asks for the same as before: whoever releases its finalizer is let through.
    fn read(request: RawRequest<'_>) -> Result<Option<Self>, String> {
        let readable = |raw: &RawValue| serde_json::from_str::<K>(raw.get());
        let old = request.old_object.map(readable);
        let object = match request.object.map(readable).transpose() {
            Err(_) if matches!(old, Some(Err(_))) && request.asks_for_the_same() => return Ok(None),
            object => object.map_err(|error| error.to_string())?,
        };
        let metadata = object.as_ref().map(Resource::meta);
        let names = metadata.into_iter().flat_map(|metadata| [&metadata.name, &metadata.namespace]).flatten();
        if let Some(name) = names.into_iter().find(|name| !is_path_segment(name)) {
            return Err(format!(
                "metadata.name or metadata.namespace: {name:?} is the name of no object; choose another"
            ));
        }
        let requester = serde_json::from_str(request.user_info.get()).map_err(|error| error.to_string())?;
        Ok(Some(Self {
            uid: request.uid.into_owned(),
            operation: request.operation,
            namespace: request.namespace.unwrap_or_default().into_owned(),
            object,
            old: old.and_then(Result::ok),
            requester,
            dry_run: request.dry_run,
        }))
    }
}

/// A deletion passes. An update is refused only for problems the stored object did not have: whoever releases a finalizer,
/// labels an object or mends one of two mistakes is let through.
impl<K: Checked> Rule for K {
    type Kind = K;

    async fn judge(request: Request<K>, context: &Context) -> Verdict {
        let known = match request.operation {
            Operation::Create => Vec::new(),
            Operation::Update => {
                request.old.as_ref().map_or_else(Vec::new, |old| old.problems(&context.cluster_scoped))
            }
            Operation::Delete | Operation::Connect => return Ok(Vec::new()),
        };
        let Some(object) = &request.object else { return Ok(Vec::new()) };
        let problems = object.problems(&context.cluster_scoped);
        let new = Problem::new_since(problems, &known);
        if !new.is_empty() {
            return Err(Refusal::Invalid(new));
        }
        K::among_others(&request, context).await?;
        Ok(object.warnings())
    }
}

#[cfg(test)]
mod tests {
    use croft_api::storage::S3UserClaim;
    use futures::FutureExt;
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
        let review = review::<K>(request.to_vec(), &Context::default()).now_or_never().unwrap().unwrap();
        assert_eq!(review.types.api_version, "admission.k8s.io/v1");
        let response = review.response.unwrap();
        assert_eq!(response.uid, "42");
        response
    }

    #[test]
    fn what_passes_and_what_is_refused() {
        let (good, bad, worse) = (claim("1Gi", false), claim("-1Gi", false), claim("-1Gi", true));
        let unreadable = json!({ "metadata": {}, "spec": { "subusers": 3 } });
        let table = [
            ("a good claim", "CREATE", good.clone(), Value::Null, true),
            ("a bad claim", "CREATE", bad.clone(), Value::Null, false),
            ("a change for the worse", "UPDATE", bad.clone(), good.clone(), false),
            ("a change for the better", "UPDATE", good.clone(), bad.clone(), true),
            ("a bad claim from before, relabelled", "UPDATE", bad.clone(), bad.clone(), true),
            ("a finalizer released from a bad claim", "UPDATE", worse.clone(), worse, true),
            ("a change for the worse while being deleted", "UPDATE", claim("-1Gi", true), claim("1Gi", true), false),
            ("a deletion of a bad claim", "DELETE", Value::Null, bad, true),
            ("an unreadable object", "CREATE", unreadable.clone(), Value::Null, false),
            ("an object made unreadable", "UPDATE", unreadable.clone(), good.clone(), false),
            ("a repair of an unreadable object", "UPDATE", good, unreadable.clone(), true),
            ("a finalizer released from what cannot be read", "UPDATE", unreadable.clone(), unreadable.clone(), true),
            (
                "what cannot be read, otherwise",
                "UPDATE",
                json!({ "metadata": {}, "spec": { "subusers": 4 } }),
                unreadable,
                false,
            ),
        ];
        for (case, operation, new, old, allowed) in table {
            assert_eq!(answer::<S3UserClaim>(&request(operation, &new, &old)).allowed, allowed, "{case}");
        }
    }

    #[test]
    fn what_the_api_server_would_not_send_is_not_read() {
        let mut review: Value = serde_json::from_slice(&request("CREATE", &claim("1Gi", false), &Value::Null)).unwrap();
        review["request"]["userInfo"] = json!({ "groups": vec![""; 10_000] });
        let refused = answer::<S3UserClaim>(&serde_json::to_vec(&review).unwrap());
        assert!(!refused.allowed && refused.result.message.contains("in userInfo: "), "{}", refused.result.message);
        for field in ["uid", "name", "namespace"] {
            let mut long = review.clone();
            let astray = ["../../x", "a%2fb", "..", "team-a?", "team-a#", "a b", "a\n", "\u{80}"].map(str::to_owned);
            for astray in astray.into_iter().chain(["x".repeat(1000)]) {
                long["request"][field] = json!(astray);
                let body = serde_json::to_vec(&long).unwrap();
                let answer = super::review::<S3UserClaim>(body, &Context::default()).now_or_never().unwrap();
                assert!(answer.is_err(), "{field}: {astray}");
            }
        }
    }

    #[test]
    fn what_would_fill_the_memory_is_not_read_and_who_makes_it_smaller_is_let_through() {
        let bulky = |values: usize| {
            let mut claim = claim("1Gi", false);
            claim["spec"]["unknown"] = json!(vec![0; values]);
            claim
        };
        let (small, large) = (bulky(10), bulky(Limit::OF_NAMESPACE.values));
        let (mut relabelled, mut changed) = (large.clone(), large.clone());
        relabelled["metadata"]["labels"] = json!({ "a": "b" });
        changed["spec"]["quota"]["size"] = json!("2Gi");
        let refused = answer::<S3UserClaim>(&request("CREATE", &large, &Value::Null));
        assert_eq!(
            refused.result.message,
            "S3UserClaim cannot be read: it holds more than 2500 values; shorten spec.unknown, which has most of it"
        );
        let mut astray = small.clone();
        astray["metadata"]["name"] = json!("../../x");
        let refused = answer::<S3UserClaim>(&request("CREATE", &astray, &Value::Null));
        assert!(refused.result.message.contains("is the name of no object"), "{}", refused.result.message);
        let table = [
            ("grown", "UPDATE", &large, &small, false),
            ("relabelled", "UPDATE", &relabelled, &large, true),
            ("changed while it is large", "UPDATE", &changed, &large, false),
            ("made smaller", "UPDATE", &small, &large, true),
            ("deleted", "DELETE", &Value::Null, &large, true),
        ];
        for (case, operation, new, old, allowed) in table {
            assert_eq!(answer::<S3UserClaim>(&request(operation, new, old)).allowed, allowed, "{case}");
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
    fn an_unreadable_object_is_a_bad_request() {
        let object = json!({ "metadata": {}, "spec": { "subusers": 3 } });
        let status = answer::<S3UserClaim>(&request("CREATE", &object, &Value::Null)).result;
        assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
        assert!(status.message.starts_with("S3UserClaim cannot be read: "), "{}", status.message);
    }
}
