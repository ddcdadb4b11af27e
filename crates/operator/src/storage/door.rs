//! What the reviews of this part look at: what is there already, whether a claim's quota is free, and reserving it.
//!
//! Nobody is refused by an old picture: what a cache says stands in the way is asked for once more.

use std::sync::Arc;

use croft_api::{
    Problem,
    storage::{S3Bucket, S3Class, S3UserClaim},
};
use croft_core::{
    plan::Failure,
    storage::{
        claim::no_team,
        class::beside_others,
        door::{self, Asker, NamedClaim, NamedSecret, TakenBy},
        ledger::{Reservation, entry_key, needs_promise},
    },
};
use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, UserInfo},
    core::v1::{Namespace, Secret},
};
use kube::{Api, Client, Resource, ResourceExt, api::PostParams, core::PartialObjectMeta};
use tokio::sync::OnceCell;

use super::{
    Caches, SECRET_INDEX, bindings,
    class::class_seen,
    ledgers,
    ledgers::{Ledgers, Unbooked, now},
    named_secrets,
};
use crate::{
    admission::{Context, Refusal, Request},
    engine::{
        is_deleting,
        write::{call, read},
    },
    settings::SharedSettings,
};

pub(super) struct Door {
    caches: Caches,
    ledgers: Ledgers,
    client: Client,
    settings: SharedSettings,
    /// Who we are to the API server.
    own: OnceCell<String>,
}

impl Door {
    pub(super) fn new(caches: Caches, ledgers: Ledgers, client: Client, settings: SharedSettings) -> Self {
        Self { caches, ledgers, client, settings, own: OnceCell::new() }
    }

    pub(super) async fn asker(&self, requester: &UserInfo) -> Result<Asker, Refusal> {
        let name = requester.username.as_deref().unwrap_or_default();
        let own = self.own.get_or_try_init(|| self.who_are_we()).await.map_err(unchecked)?;
        Ok(Asker::named(name, own, &self.settings.load().storage.restorers))
    }

    async fn who_are_we(&self) -> Result<String, Failure> {
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let asked = call("create", api.create(&PostParams::default(), &SelfSubjectReview::default())).await?;
        let user = asked.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    pub(super) fn caches(&self) -> &Caches {
        &self.caches
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The Secrets of a claim that it did not ask for before, and what stands in their way.
    async fn new_secrets(
        &self,
        namespace: &str,
        claim: &S3UserClaim,
        old: Option<&S3UserClaim>,
    ) -> Result<Vec<NamedSecret>, Failure> {
        let before = old.map(named_secrets).unwrap_or_default();
        let mut named = Vec::new();
        for (field, name) in named_secrets(claim) {
            if before.iter().all(|(_, before)| *before != name) {
                let taken = self.taken(namespace, &claim.name_any(), &name).await?;
                named.push(NamedSecret { field, name, taken });
            }
        }
        Ok(named)
    }

    async fn taken(&self, namespace: &str, claim: &str, secret: &str) -> Result<Option<TakenBy>, Failure> {
        let claims = self.caches.claims.by(SECRET_INDEX, &format!("{namespace}/{secret}"));
        for other in claims.iter().map(|other| other.name_any()).filter(|other| other != claim) {
            let live = read(self.claims(namespace).get_opt(&other)).await?;
            if live.is_some_and(|live| named_secrets(&live).iter().any(|(_, name)| name == secret)) {
                return Ok(Some(TakenBy::Claim(other)));
            }
        }
        if self.caches.secrets.get(namespace, secret).is_none_or(|secret| is_of(&secret, claim)) {
            return Ok(None);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let live = read(api.get_metadata_opt(secret)).await?;
        Ok(live.filter(|live| !is_of(live, claim)).map(|_| TakenBy::Secret))
    }

    fn claims(&self, namespace: &str) -> Api<S3UserClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A claim as it is now; one that is cached and stays needs no asking.
    async fn named_claim(
        &self,
        namespace: &str,
        name: &str,
        suffices: impl Fn(&NamedClaim) -> bool,
    ) -> Result<Option<NamedClaim>, Failure> {
        let cached = self.caches.claims.get(namespace, name).map(|claim| named_claim(&claim));
        if let Some(claim) = cached.filter(|claim| !claim.deleting && suffices(claim)) {
            return Ok(Some(claim));
        }
        Ok(read(self.claims(namespace).get_opt(name)).await?.as_ref().map(named_claim))
    }

    /// Whether the namespace is without a team.
    async fn lacks_team(&self, namespace: &str) -> Result<bool, Failure> {
        if self.caches.team_of(namespace).is_some() {
            return Ok(false);
        }
        let live = read(self.namespaces().get_opt(namespace)).await?;
        Ok(live.as_ref().and_then(ledgers::team_of).is_none())
    }

    pub(super) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Door")
    }
}

/// Whether a claim of this name made the Secret: of an earlier one it goes by itself.
fn is_of(secret: &PartialObjectMeta<Secret>, claim: &str) -> bool {
    let owners = secret.metadata.owner_references.iter().flatten();
    let kind = S3UserClaim::kind(&());
    owners.into_iter().any(|owner| owner.controller == Some(true) && owner.kind == kind && owner.name == claim)
}

fn named_claim(claim: &S3UserClaim) -> NamedClaim {
    NamedClaim { name: claim.name_any(), deleting: is_deleting(&claim.metadata), subusers: claim.spec.subusers.clone() }
}

#[expect(clippy::needless_pass_by_value, reason = "it turns one error into another")]
pub(super) fn unchecked(failure: Failure) -> Refusal {
    Refusal::Unchecked(format!("this could not be checked: {}; try again", failure.message))
}

fn or_invalid(problems: Vec<Problem>) -> Result<(), Refusal> {
    if problems.is_empty() { Ok(()) } else { Err(Refusal::Invalid(problems)) }
}

/// A claim: its Secrets, its team, its quota. One on its way out asks for nothing.
pub(super) async fn claim(request: &Request<S3UserClaim>, context: &Context) -> Result<(), Refusal> {
    let (Some(door), Some(claim)) = (context.ground::<Door>(), &request.object) else { return Ok(()) };
    if is_deleting(&claim.metadata) {
        return Ok(());
    }
    let named = door.new_secrets(&request.namespace, claim, request.old.as_ref()).await.map_err(unchecked)?;
    let problems = door::secrets(&named);
    if !problems.is_empty() && door.asker(&request.requester).await? != Asker::Restorer {
        return Err(Refusal::Invalid(problems));
    }
    reserve(door, request, claim).await
}

/// Reserves what a claim asks for, unless none of it grows.
async fn reserve(door: &Door, request: &Request<S3UserClaim>, claim: &S3UserClaim) -> Result<(), Refusal> {
    let (namespace, name) = (request.namespace.as_str(), claim.name_any());
    let asks = |claim: &S3UserClaim| door.caches.asks(namespace, &name, claim);
    let Some(units) = asks(claim) else { return Ok(()) };
    let had = request.old.as_ref().and_then(asks);
    if !needs_promise(had, units) {
        return Ok(());
    }
    if door.caches.serves_teams_only(claim) && door.lacks_team(namespace).await.map_err(unchecked)? {
        return or_invalid(vec![Problem::new("spec.quota", no_team(namespace))]);
    }
    let (key, dry_run) = (entry_key(namespace, &name), request.dry_run);
    let form = ledgers::form_of(&claim.metadata);
    let reservation = Reservation { units, at: now(), request: request.uid.clone(), form };
    let booked = door.ledgers.change(
        namespace,
        Arc::new(move |ledger, limits| {
            let fits = if dry_run {
                ledger.fits(&key, units, limits)
            } else {
                ledger.reserve(&key, reservation.clone(), limits)
            };
            Ok(fits?)
        }),
    );
    match booked.await {
        Ok(_) => Ok(()),
        Err(Unbooked::Exceeded(exceeded)) => or_invalid(vec![Problem::new("spec.quota", exceeded.to_string())]),
        Err(unbooked) => {
            let why = Failure::from(unbooked).message;
            Err(Refusal::Unchecked(format!("the quota could not be checked: {why}; try again")))
        }
    }
}

/// An S3Bucket: its claim is there, and so are the subusers it lets in. What a class stamps, somebody restores or a migration
/// brings may come before them: it is told in its status.
pub(super) async fn bucket(request: &Request<S3Bucket>, context: &Context) -> Result<(), Refusal> {
    let (Some(door), Some(bucket)) = (context.ground::<Door>(), &request.object) else { return Ok(()) };
    if is_deleting(&bucket.metadata) || bindings::stamped_by(bucket).is_some() {
        return Ok(());
    }
    let binding =
        |bucket: &S3Bucket| bucket.spec.s3_subuser_binding.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let (named, before) = (binding(bucket), request.old.as_ref().map(binding).unwrap_or_default());
    let strangers = |claim: &NamedClaim| {
        door::subusers_of_bucket(claim, named.iter().map(String::as_str), |name| before.iter().any(|it| it == name))
    };
    let is_new = request.old.is_none();
    if !is_new && named.iter().all(|name| before.contains(name)) {
        return Ok(());
    }
    let suffices = |claim: &NamedClaim| strangers(claim).is_empty();
    let claim = door.named_claim(&request.namespace, &bucket.spec.s3_user_ref, suffices).await.map_err(unchecked)?;
    let mut problems = if is_new { door::claim_of_bucket(claim.as_ref()) } else { Vec::new() };
    problems.extend(claim.as_ref().map(strangers).unwrap_or_default());
    if !problems.is_empty() && door.asker(&request.requester).await? != Asker::Person {
        return Ok(());
    }
    or_invalid(problems)
}

/// An S3Class beside all others: only for what it brings.
pub(super) fn class(request: &Request<S3Class>, context: &Context) -> Result<(), Refusal> {
    let (Some(door), Some(class)) = (context.ground::<Door>(), &request.object) else { return Ok(()) };
    if is_deleting(&class.metadata) {
        return Ok(());
    }
    let others = door.caches.classes.all();
    let others: Vec<_> =
        others.iter().filter(|other| other.name_any() != class.name_any()).map(|other| class_seen(other)).collect();
    let known = request.old.as_ref().map(|old| beside_others(&class_seen(old), &others)).unwrap_or_default();
    let problems = beside_others(&class_seen(class), &others);
    or_invalid(Problem::new_since(problems, &known))
}
