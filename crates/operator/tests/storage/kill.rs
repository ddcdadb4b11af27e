//! The operator dies at every call to the gateway, before and after it, or never gets the answer: the world ends up the same.

mod purge;
mod writes;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use croft_api::storage::{MigrationPhase, S3UserPhase, UserMigration};
use croft_rgw::{BucketLimit, Policy, S3, User, Versioning};
use croft_testbed::{
    Operator, Testbed,
    fault::{Action, FaultProxy, Match, Rule},
    product::Installed,
    wait,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    plot::{Plot, apply},
    quota::ledger,
    support::{PATIENCE, World},
};

const CLASS: &str = "proxied";
const PREFIX: &str = "killed";
/// So often each write of a story goes wrong, by its name: no write is spared, and of what is done anew after each death, as nothing
/// tells that it was done, there is an end.
const OFTEN: usize = 6;
/// A story has as many lives as it has writes, each with what it takes to start, and every failed call a pause after it.
const STORY: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The gateway never sees the call.
    DeathBefore,
    /// The call is done; the operator never learns of it.
    DeathAfter,
    /// The operator lives, and the answer gets lost.
    LostReply,
    /// After the first write the gateway takes no more for a while.
    Outage,
}

/// A gateway behind a proxy, and an operator that is started again whenever it dies.
struct Rough {
    bed: Testbed,
    installed: Installed,
    proxy: FaultProxy,
    /// Where it dies at its writes to the API server instead.
    api: Option<FaultProxy>,
    life: Arc<Mutex<Option<Arc<Operator>>>>,
    outage: Mutex<Option<Rule>>,
}

impl Rough {
    async fn new() -> Result<Self> {
        let (bed, installed) = World::installed(Testbed::kubernetes().with_ceph()).await?;
        Self::on(bed, installed, None).await
    }

    async fn on(bed: Testbed, installed: Installed, api: Option<FaultProxy>) -> Result<Self> {
        let proxy = FaultProxy::rgw(&bed.ceph().endpoint).await?;
        let rough = Self { bed, installed, proxy, api, life: Arc::default(), outage: Mutex::default() };
        rough.start()?.ready(PATIENCE).await?;
        Ok(rough)
    }

    /// Where it dies.
    fn place(&self) -> &FaultProxy {
        self.api.as_ref().unwrap_or(&self.proxy)
    }

    fn start(&self) -> Result<Arc<Operator>> {
        let kubeconfig = self.api.as_ref().map_or(&*self.installed.identity.kubeconfig, FaultProxy::kubeconfig);
        let life = Arc::new(self.installed.start(&self.bed, "rough", kubeconfig, &["--log", "info,croft=debug"])?);
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(life.clone());
        Ok(life)
    }

    fn current(&self) -> Option<Arc<Operator>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whoever died is followed by the next.
    async fn revive(&self) -> Result<()> {
        let Some(life) = self.current().filter(|life| !life.process.is_running()) else { return Ok(()) };
        life.process.wait(PATIENCE).context("it is dead")?;
        // The dead do not give their lease back.
        let leases: Api<Lease> = Api::namespaced(self.bed.admin().client.clone(), &self.installed.namespace);
        if leases.get_opt("croft").await?.is_some() {
            leases.delete("croft", &DeleteParams::default()).await?;
        }
        self.start()?;
        Ok(())
    }

    /// From now on every write goes wrong.
    fn strike(&self, fault: Fault) {
        let place = self.place();
        place.clear_rules();
        place.clear_log();
        let kill = || {
            let life = self.life.clone();
            Action::kill(move || {
                if let Some(life) = life.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                    life.process.kill();
                }
            })
        };
        if let Fault::Outage = fault {
            let outage = place.on(Match::write_number(2)).before(Action::Drop).always();
            *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = Some(outage);
            return;
        }
        // What was never seen is tried again, and then let through.
        let tried_anew = Match::write().occurring(|number| number % 2 == 1 && number < 2 * OFTEN);
        let rule = match fault {
            Fault::DeathBefore => place.on(tried_anew).before(kill()),
            Fault::DeathAfter => place.on(Match::write().occurring(|number| number <= OFTEN)).after(kill()),
            Fault::LostReply | Fault::Outage => place.on(tried_anew).after(Action::Drop),
        };
        rule.always();
    }

    /// Once it has been noticed.
    fn end_outage(&self) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(over) = outage.take_if(|outage| outage.fired() > 1) {
            over.remove();
        }
    }

    /// Life after life until the world is as it should be; gives how many calls went wrong.
    async fn until<Probe, Answer>(&self, what: &str, probe: Probe) -> Result<usize>
    where
        Probe: Fn() -> Answer,
        Answer: Future<Output = Result<bool>>,
    {
        let story = wait::until_true(what, STORY, || async {
            self.revive().await?;
            self.end_outage();
            probe().await
        });
        story.await.map_err(|error| anyhow!("{error:#}\n{}", self.told()))?;
        Ok(self.place().log().iter().filter(|seen| seen.fault.is_some()).count())
    }
}

impl Rough {
    /// The last calls, and the last words of the operator.
    fn told(&self) -> String {
        let calls: Vec<_> = self.place().log().iter().rev().take(20).map(|seen| format!("{seen:?}")).collect();
        let words = self.current().map(|life| life.process.log_tail()).unwrap_or_default();
        format!("the last calls, backwards: {calls:#?}\n{words}")
    }

    /// Asks for something until it is let in: the door belongs to an operator that may be dead at this moment.
    async fn ask<Asking, Answer, T>(&self, asking: Asking) -> Result<()>
    where
        Asking: Fn() -> Answer,
        Answer: Future<Output = Result<T>>,
    {
        let let_in = || async {
            asking().await?;
            Ok(true)
        };
        self.until("the request to be let in", let_in).await?;
        Ok(())
    }
}

struct Tale<'a> {
    rough: &'a Rough,
    from: Plot<'a>,
    to: Plot<'a>,
}

impl Tale<'_> {
    async fn user(&self, plot: &Plot<'_>) -> Result<Option<User>> {
        Ok(plot.gateway().user(&plot.user_id_with(PREFIX, "data")).await?)
    }

    /// Straight to the gateway: what a test does is not counted.
    async fn s3(&self, plot: &Plot<'_>) -> Result<S3> {
        let secret = plot.secret("admin").await?;
        let user = self.user(plot).await?.context("a user")?;
        let key = user.key(&secret["accessKey"]).context("the Secret has a key that Ceph knows")?;
        Ok(plot.gateway().s3(key.credentials.clone()))
    }

    async fn is_ready(&self, plot: &Plot<'_>) -> Result<bool> {
        let claim = plot.claims().get("data").await?;
        let ready = claim.status.unwrap_or_default().conditions.into_iter().find(|it| it.type_ == "Ready");
        Ok(ready.is_some_and(|it| it.status == "True" && it.observed_generation == claim.metadata.generation))
    }

    /// One key for each identity, each as its Secret says.
    async fn has_its_keys(&self, plot: &Plot<'_>) -> Result<bool> {
        let Some(user) = self.user(plot).await? else { return Ok(false) };
        for secret in ["admin", "read", "data-one"] {
            let told = plot.secret(secret).await?;
            let Some(key) = user.key(&told["accessKey"]) else { return Ok(false) };
            if key.credentials.secret_key.expose() != told["secretKey"] {
                return Ok(false);
            }
        }
        Ok(user.keys.len() == 3)
    }

    async fn has_bucket(&self, plot: &Plot<'_>) -> Result<bool> {
        let bucket = plot.buckets().get("photos").await?;
        let ready = bucket.status.unwrap_or_default().conditions.into_iter().find(|it| it.type_ == "Ready");
        Ok(ready.is_some_and(|it| it.status == "True" && it.observed_generation == bucket.metadata.generation))
    }

    /// What is set on the bucket: a grant, a limit, whether versions are kept, and which rules there are.
    async fn settings(&self, plot: &Plot<'_>) -> Result<(bool, Option<u64>, Option<Versioning>, Vec<String>)> {
        let (s3, tenant) = (self.s3(plot).await?, plot.user_id_with(PREFIX, "data").tenant().to_owned());
        let policy = s3.bucket_policy("photos").await?.map(|policy| policy.to_string()).unwrap_or_default();
        let quota = plot.gateway().bucket(&tenant, "photos").await?.context("a bucket")?.quota;
        let rules = s3.bucket_lifecycle("photos").await?.unwrap_or_default().rules;
        Ok((
            policy.contains("BucketAllow"),
            quota.max_objects.filter(|_| quota.enabled),
            s3.bucket_versioning("photos").await?,
            rules.into_iter().map(|rule| rule.id).collect(),
        ))
    }

    async fn claim(&self, objects: u32) -> Result<()> {
        self.from
            .claim(json!({ "s3ClassName": CLASS, "subusers": ["one"], "quota": { "objects": objects, "buckets": 3 } }))
            .await
    }

    /// How many objects the books have for the claim.
    async fn booked(&self, plot: &Plot<'_>) -> Result<Option<i64>> {
        let books = ledger(plot, &format!("namespace.{}", plot.namespace)).await?.unwrap_or_default();
        let entry = books.spec.entries.get(&format!("{}/data", plot.namespace));
        Ok(entry.and_then(|entry| entry.granted).map(|granted| granted.objects))
    }

    async fn phase(&self, plot: &Plot<'_>) -> Result<Option<S3UserPhase>> {
        let user = plot.users().get_opt(&plot.record_name("data")).await?;
        Ok(user.and_then(|user| user.status).and_then(|status| status.phase))
    }
}

/// How many calls went wrong in each story.
type Faults = Vec<(&'static str, usize)>;

impl Tale<'_> {
    /// A claim, a bucket, another quota, other keys.
    async fn serve(&self, fault: Fault, faults: &mut Faults) -> Result<()> {
        let (rough, from) = (self.rough, &self.from);
        rough.strike(fault);
        rough.ask(|| self.claim(10)).await?;
        let created = rough.until("the claim to be served", || async {
            Ok(self.is_ready(from).await? && self.has_its_keys(from).await?)
        });
        faults.push(("create", created.await?));
        let user = self.user(from).await?.context("a user")?;
        assert_eq!((user.user_quota.max_objects, user.max_buckets), (Some(10), BucketLimit::AtMost(3)));

        rough.strike(fault);
        let everything = json!({
            "s3DeletionPolicy": "retain", "s3SubuserBinding": [{ "name": "one" }], "quota": { "objects": 15 },
            "versioning": "enabled", "lifecycle": [{ "id": "tmp", "prefix": "tmp/", "expirationDays": 7 }],
        });
        rough.ask(|| from.bucket("photos", everything.clone())).await?;
        let made = rough.until("the bucket to be made", || self.has_bucket(from)).await?;
        faults.push(("bucket", made));
        // Every second answer is lost: whoever looks again finds that it is done.
        let least = match fault {
            Fault::DeathBefore | Fault::DeathAfter => 5,
            Fault::LostReply => 3,
            Fault::Outage => 0,
        };
        assert!(made >= least, "bucket, policy, quota, versioning and lifecycle: {made}");
        let (s3, set) = (self.s3(from).await?, self.settings(from).await?);
        assert_eq!(set, (true, Some(15), Some(Versioning::Enabled), vec!["croft-tmp".to_owned()]));

        rough.strike(fault);
        rough.ask(|| from.bucket("photos", json!({ "s3DeletionPolicy": "retain" }))).await?;
        let taken_back = rough.until("what was set to be taken back", || async {
            let set = self.settings(from).await?;
            Ok(set == (false, None, Some(Versioning::Suspended), vec![]) && self.has_bucket(from).await?)
        });
        faults.push(("settings", taken_back.await?));
        s3.put_object("photos", "cat.jpg", "meow").await?;
        self.put_own_policy().await?;

        rough.strike(fault);
        rough.ask(|| self.claim(20)).await?;
        let updated = rough.until("the new quota", || async {
            let user = self.user(from).await?.context("a user")?;
            Ok(self.is_ready(from).await? && user.user_quota.max_objects == Some(20))
        });
        faults.push(("update", updated.await?));

        rough.strike(fault);
        rough.ask(|| self.claim(12)).await?;
        let lowered = rough.until("what is no longer asked for to be free", || async {
            let user = self.user(from).await?.context("a user")?;
            Ok(user.user_quota.max_objects == Some(12) && self.booked(from).await? == Some(12))
        });
        faults.push(("lower", lowered.await?));

        rough.strike(fault);
        let before = self.user(from).await?.context("a user")?;
        let ask = json!({ "metadata": { "annotations": { "s3.snappcloud.io/rotate-keys": "once" } } });
        rough
            .ask(|| async { Ok(from.claims().patch("data", &PatchParams::default(), &Patch::Merge(&ask)).await?) })
            .await?;
        let rotated = rough.until("the new keys", || async {
            let user = self.user(from).await?.context("a user")?;
            let is_new = user.keys.iter().all(|key| before.key(&key.credentials.access_key).is_none());
            Ok(is_new && self.is_ready(from).await? && self.has_its_keys(from).await?)
        });
        faults.push(("rotate", rotated.await?));
        Ok(())
    }

    /// A policy of the tenant's own. With the tenant's name in it nobody would get in after the move.
    async fn put_own_policy(&self) -> Result<()> {
        let tenant = self.from.user_id_with(PREFIX, "data").tenant().to_owned();
        let policy: Policy = serde_json::from_value(json!({ "Version": "2012-10-17", "Statement": [{
            "Sid": "mine", "Effect": "Allow", "Action": ["s3:GetObject"],
            "Principal": { "AWS": [format!("arn:aws:iam::{tenant}:user/data:one")] },
            "Resource": [format!("arn:aws:s3::{tenant}:photos/*")],
        }] }))?;
        Ok(self.s3(&self.from).await?.put_bucket_policy("photos", &policy).await?)
    }

    /// The bucket goes to another namespace.
    async fn move_over(&self, fault: Fault, faults: &mut Faults) -> Result<()> {
        let (rough, from, to) = (self.rough, &self.from, &self.to);
        rough.strike(fault);
        let old = self.s3(from).await?;
        let migrations: Api<UserMigration> = Api::all(from.client.clone());
        let user = |plot: &Plot<'_>| json!({ "namespace": plot.namespace, "name": "data" });
        let spec = json!({ "currentUser": user(from), "targetUser": user(to), "buckets": ["photos"] });
        rough.ask(|| apply(&migrations, "rough", json!({ "spec": spec.clone() }))).await?;
        let migrated = rough.until("the bucket to change hands", || async {
            let status = migrations.get("rough").await?.status.unwrap_or_default();
            Ok(status.phase == Some(MigrationPhase::Succeeded) && self.user(from).await?.is_none())
        });
        faults.push(("migrate", migrated.await?));
        assert_eq!(self.s3(to).await?.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
        let told = self.s3(to).await?.bucket_policy("photos").await?.context("a policy")?.to_string();
        let away = format!("arn:aws:iam::{}:root", from.user_id_with(PREFIX, "data").tenant());
        assert!(!told.contains("\"mine\"") && told.contains(&away), "it says only what we make it say: {told}");
        assert!(
            old.in_tenant(to.user_id_with(PREFIX, "data").tenant())?.get_object("photos", "cat.jpg").await.is_err()
        );
        Ok(())
    }

    /// The claim goes, and another one gets its user.
    async fn let_go_and_bind(&self, fault: Fault, faults: &mut Faults) -> Result<()> {
        let (rough, to) = (self.rough, &self.to);
        rough.strike(fault);
        for bucket in to.buckets().list(&kube::api::ListParams::default()).await?.items {
            let name = bucket.metadata.name.unwrap_or_default();
            rough.ask(|| async { Ok(to.buckets().delete(&name, &DeleteParams::default()).await?) }).await?;
        }
        rough.until("the S3Bucket to go", || async { Ok(to.buckets().get_opt("photos").await?.is_none()) }).await?;
        rough.ask(|| async { Ok(to.claims().delete("data", &DeleteParams::default()).await?) }).await?;
        let released = rough.until("the user to be released", || async {
            let is_gone = to.claims().get_opt("data").await?.is_none();
            Ok(is_gone && self.phase(to).await? == Some(S3UserPhase::Released))
        });
        faults.push(("delete", released.await?));
        assert!(self.user(to).await?.context("a user")?.suspended);

        rough.strike(fault);
        let give = json!({ "spec": { "claimRef": { "uid": null } } });
        rough
            .ask(|| async {
                let record = to.record_name("data");
                Ok(to.users().patch(&record, &PatchParams::default(), &Patch::Merge(&give)).await?)
            })
            .await?;
        let claim = json!({ "s3ClassName": CLASS, "subusers": ["one"], "quota": { "objects": 20, "buckets": 3 } });
        rough.ask(|| to.claim(claim.clone())).await?;
        let bound = rough.until("the user to be bound again", || async {
            Ok(self.is_ready(to).await?
                && self.has_its_keys(to).await?
                && self.phase(to).await? == Some(S3UserPhase::Bound))
        });
        faults.push(("bind", bound.await?));
        assert!(self.s3(to).await?.get_object("photos", "cat.jpg").await?.is_some());
        Ok(())
    }
}

impl Tale<'_> {
    /// An empty bucket goes with its S3Bucket, a subuser with its name, and a claim that has nothing left with all there is of it.
    async fn take_down(&self, fault: Fault, faults: &mut Faults) -> Result<()> {
        let (rough, from) = (self.rough, &self.from);
        rough.proxy.clear_rules();
        rough.ask(|| self.claim(10)).await?;
        rough.ask(|| from.bucket("photos", json!({}))).await?;
        rough
            .until("a bucket to take down", || async { Ok(self.is_ready(from).await? && self.has_bucket(from).await?) })
            .await?;

        rough.strike(fault);
        rough.ask(|| async { Ok(from.buckets().delete("photos", &DeleteParams::default()).await?) }).await?;
        let removed = rough.until("the bucket to go", || async {
            let tenant = from.user_id_with(PREFIX, "data").tenant().to_owned();
            let is_gone = from.gateway().bucket(&tenant, "photos").await?.is_none();
            Ok(is_gone && from.buckets().get_opt("photos").await?.is_none())
        });
        faults.push(("bucket deleted", removed.await?));

        rough.strike(fault);
        let nobody = json!({ "s3ClassName": CLASS, "subusers": [], "quota": { "objects": 10, "buckets": 3 } });
        rough.ask(|| from.claim(nobody.clone())).await?;
        let unnamed = rough.until("the subuser to go", || async {
            let user = self.user(from).await?.context("a user")?;
            Ok(self.is_ready(from).await? && user.subusers.len() == 1 && user.keys.len() == 2)
        });
        faults.push(("subuser removed", unnamed.await?));

        rough.strike(fault);
        rough.ask(|| async { Ok(from.claims().delete("data", &DeleteParams::default()).await?) }).await?;
        let gone = rough.until("nothing to be left", || async {
            let is_forgotten = from.users().get_opt(&from.record_name("data")).await?.is_none();
            let is_gone = self.user(from).await?.is_none() && from.claims().get_opt("data").await?.is_none();
            Ok(is_gone && is_forgotten && self.booked(from).await?.is_none())
        });
        faults.push(("claim deleted", gone.await?));
        Ok(())
    }
}

/// Every story, with every call going wrong.
async fn survives(fault: Fault) -> Result<()> {
    let rough = Box::pin(Rough::new()).await?;
    let (from, to) = (Plot::on(&rough.bed, "from").await?, Plot::on(&rough.bed, "to").await?);
    from.class(CLASS, json!({ "endpoint": rough.proxy.endpoint(), "tenantPrefix": PREFIX })).await?;
    let tale = Tale { rough: &rough, from, to };
    let mut faults = Vec::new();
    tale.serve(fault, &mut faults).await?;
    tale.move_over(fault, &mut faults).await?;
    tale.let_go_and_bind(fault, &mut faults).await?;
    tale.take_down(fault, &mut faults).await?;
    tale.purge(fault, &mut faults).await?;
    rough.proxy.clear_rules();
    // Of an outage only those notice who have more than one thing to do.
    let least = if let Fault::Outage = fault { 3 } else { faults.len() };
    assert!(faults.iter().filter(|(_, faults)| *faults > 0).count() >= least, "stories without a fault: {faults:?}");
    println!("{fault:?}: {faults:?}");
    Ok(())
}

#[tokio::test]
async fn killed_before_every_call_to_the_gateway_the_world_ends_up_the_same() -> Result<()> {
    survives(Fault::DeathBefore).await
}

#[tokio::test]
async fn killed_after_every_call_to_the_gateway_the_world_ends_up_the_same() -> Result<()> {
    survives(Fault::DeathAfter).await
}

#[tokio::test]
async fn a_gateway_that_stops_in_the_middle_finds_the_work_finished_when_it_is_back() -> Result<()> {
    survives(Fault::Outage).await
}

#[tokio::test]
async fn with_every_answer_of_the_gateway_lost_the_world_ends_up_the_same() -> Result<()> {
    survives(Fault::LostReply).await
}
