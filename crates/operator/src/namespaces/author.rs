//! Asks the API server what the author of a class may do.

use std::collections::{BTreeMap, BTreeSet};

use croft_api::namespaces::{
    NamespaceClass, NamespaceMetadata,
    validate::{content, policy},
};
use croft_core::namespaces::author::{Demands, Right, asked, verbs};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authentication::v1::UserInfo,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use serde_json::Value;

use super::kinds::Kinds;
use crate::{
    admission::{Refusal, Request},
    engine::write::call,
};

/// Questions that are asked side by side: the author waits.
const AT_ONCE: usize = 8;

/// What judging authors takes.
pub(super) struct Authors {
    pub(super) client: Client,
    pub(super) kinds: Kinds,
}

impl Authors {
    /// Whoever changes what namespaces get must be able to make it himself, or hold `escalate` on classes. A write that leaves that
    /// alone is not judged: who may write a class may pause its roll-out.
    pub(super) async fn judge(&self, request: &Request<NamespaceClass>) -> Result<(), Refusal> {
        let Some(class) = &request.object else { return Ok(()) };
        if request.old.as_ref().is_some_and(|old| content(&old.spec) == content(&class.spec)) {
            return Ok(());
        }
        let metadata = class.spec.namespace_metadata.as_ref().filter(|set| **set != NamespaceMetadata::default());
        if class.spec.resources.is_empty() && metadata.is_none() {
            return Ok(());
        }
        if self.may(&request.requester, &Right::over_classes()).await? {
            return Ok(());
        }
        let over_namespaces = Right::over_namespaces();
        if metadata.is_some() && !self.may(&request.requester, &over_namespaces).await? {
            let told = told("spec.namespaceMetadata", &request.requester, &over_namespaces);
            return Err(Refusal::Forbidden(told));
        }
        let demands = self.demands(class).await;
        let held = self.held(&request.requester, demands.rights()).await?;
        match demands.unmet(&held) {
            Some((index, missing)) => {
                let told = told(&format!("spec.resources[{index}]"), &request.requester, missing);
                Err(Refusal::Forbidden(told))
            }
            None => Ok(()),
        }
    }

    async fn demands(&self, class: &NamespaceClass) -> Demands {
        let (mut all, verbs) = (Vec::new(), verbs(policy(class)));
        for (index, item) in class.spec.resources.iter().enumerate() {
            let text = |field: &str| item.get(field).and_then(Value::as_str).unwrap_or_default();
            let served = self.kinds.look_up(text("apiVersion"), text("kind")).await.ok();
            let resource = served.filter(|kind| !kind.resource.plural.is_empty()).map(|kind| kind.resource.plural);
            all.extend(asked(item, resource.as_deref(), verbs).map(|asked| (index, asked)));
        }
        Demands::of(all)
    }

    /// Which of these rights the user holds.
    async fn held(&self, user: &UserInfo, rights: BTreeSet<Right>) -> Result<BTreeMap<Right, bool>, Refusal> {
        let ask = |right: Right| async move { Ok((self.may(user, &right).await?, right)) };
        let answers = stream::iter(rights).map(ask).buffer_unordered(AT_ONCE);
        answers.map_ok(|(may, right)| (right, may)).try_collect().await
    }

    async fn may(&self, user: &UserInfo, right: &Right) -> Result<bool, Refusal> {
        let (resource, subresource) = match right.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (right.resource.as_str(), None),
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                uid: user.uid.clone(),
                groups: user.groups.clone(),
                extra: user.extra.clone(),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(right.verb.clone()),
                    group: Some(right.group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    name: right.name.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = call("review", reviews.create(&PostParams::default(), &review)).await;
        let answer =
            answer.map_err(|failure| Refusal::Unchecked(format!("your rights cannot be asked for: {failure}")))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

fn told(field: &str, user: &UserInfo, missing: &Right) -> String {
    format!(
        "{field}: whoever writes a class must be able to do what it does, and {} lacks the rule {} on the cluster; have \
         it granted, or the verb escalate on namespaceclasses.akuity.io",
        user.username.as_deref().unwrap_or("nobody"),
        missing.rule()
    )
}
