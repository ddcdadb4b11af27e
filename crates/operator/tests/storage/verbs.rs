//! Every S3 verb, to be tried with somebody's keys.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use croft_testbed::S3Call;
use http::{Method, StatusCode};

use crate::plot::Plot;

/// The object every verb about objects is tried on.
pub(crate) const OBJECT: &str = "cat.jpg";

/// What is sent: method, what it is about, query and body.
pub(crate) struct Verb(&'static str, Method, On, &'static str, &'static str);

#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// The user itself: its list of buckets.
    User,
    Bucket,
    /// A bucket that is not there.
    NewBucket,
    Object,
    /// An object copied onto another key.
    Copy,
    /// An upload in parts.
    Upload,
}

const OPEN_POLICY: &str = r#"{"Version":"2012-10-17","Statement":[]}"#;
const VERSIONING: &str = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
const LIFECYCLE: &str = "<LifecycleConfiguration><Rule><ID>x</ID><Filter><Prefix>x</Prefix></Filter><Status>Enabled</Status>\
                         <Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>";
const TAGGING: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const CORS: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>\
                    </CORSConfiguration>";
const WEBSITE: &str = "<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument></WebsiteConfiguration>";
const PAYER: &str = "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>";
const PUBLIC: &str =
    "<PublicAccessBlockConfiguration><BlockPublicAcls>false</BlockPublicAcls></PublicAccessBlockConfiguration>";
const DELETE: &str = "<Delete><Object><Key>dog.jpg</Key></Object></Delete>";
const RETENTION: &str =
    "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate></Retention>";
const HOLD: &str = "<LegalHold><Status>ON</Status></LegalHold>";
/// To whom one goes would have to be made first. Whoever may not set any is told so before this is read.
const NOTIFICATION: &str = "<NotificationConfiguration></NotificationConfiguration>";
const REPLICATION: &str = "<ReplicationConfiguration><Role></Role><Rule><ID>x</ID><Status>Enabled</Status><Priority>1</Priority>\
                           <Filter><Prefix>x</Prefix></Filter><Destination><Bucket>x</Bucket></Destination></Rule>\
                           </ReplicationConfiguration>";
const LOCK: &str = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";

/// What changes something stands behind what reads.
pub(crate) fn all() -> Vec<Verb> {
    use On::{Bucket, Copy, NewBucket, Object, Upload, User};
    let (get, head, put, post, delete) =
        (|| Method::GET, || Method::HEAD, || Method::PUT, || Method::POST, || Method::DELETE);
    vec![
        Verb("list buckets", get(), User, "", ""),
        Verb("head bucket", head(), Bucket, "", ""),
        Verb("list objects", get(), Bucket, "", ""),
        Verb("list objects v2", get(), Bucket, "list-type=2", ""),
        Verb("list versions", get(), Bucket, "versions=", ""),
        Verb("list uploads", get(), Bucket, "uploads=", ""),
        Verb("get location", get(), Bucket, "location=", ""),
        Verb("get versioning", get(), Bucket, "versioning=", ""),
        Verb("get bucket tags", get(), Bucket, "tagging=", ""),
        Verb("get cors", get(), Bucket, "cors=", ""),
        Verb("get bucket acl", get(), Bucket, "acl=", ""),
        Verb("get policy", get(), Bucket, "policy=", ""),
        Verb("get policy status", get(), Bucket, "policyStatus=", ""),
        Verb("get lifecycle", get(), Bucket, "lifecycle=", ""),
        Verb("get website", get(), Bucket, "website=", ""),
        Verb("get payer", get(), Bucket, "requestPayment=", ""),
        Verb("get public access", get(), Bucket, "publicAccessBlock=", ""),
        Verb("get object lock", get(), Bucket, "object-lock=", ""),
        Verb("get notification", get(), Bucket, "notification=", ""),
        Verb("get replication", get(), Bucket, "replication=", ""),
        Verb("get object", get(), Object, "", ""),
        Verb("head object", head(), Object, "", ""),
        Verb("get object acl", get(), Object, "acl=", ""),
        Verb("get object tags", get(), Object, "tagging=", ""),
        Verb("list parts", get(), Upload, "", ""),
        Verb("put object", put(), Object, "", "meow"),
        Verb("copy object", put(), Copy, "", ""),
        Verb("start upload", post(), Object, "uploads=", ""),
        Verb("upload part", put(), Upload, "partNumber=1&", "meow"),
        Verb("complete upload", post(), Upload, "", "<CompleteMultipartUpload/>"),
        Verb("abort upload", delete(), Upload, "", ""),
        Verb("put object acl", put(), Object, "acl=", ""),
        Verb("put object tags", put(), Object, "tagging=", TAGGING),
        Verb("delete object tags", delete(), Object, "tagging=", ""),
        Verb("put retention", put(), Object, "retention=", RETENTION),
        Verb("put legal hold", put(), Object, "legal-hold=", HOLD),
        Verb("put bucket acl", put(), Bucket, "acl=", ""),
        Verb("put versioning", put(), Bucket, "versioning=", VERSIONING),
        Verb("put lifecycle", put(), Bucket, "lifecycle=", LIFECYCLE),
        Verb("delete lifecycle", delete(), Bucket, "lifecycle=", ""),
        Verb("put bucket tags", put(), Bucket, "tagging=", TAGGING),
        Verb("delete bucket tags", delete(), Bucket, "tagging=", ""),
        Verb("put cors", put(), Bucket, "cors=", CORS),
        Verb("delete cors", delete(), Bucket, "cors=", ""),
        Verb("put website", put(), Bucket, "website=", WEBSITE),
        Verb("delete website", delete(), Bucket, "website=", ""),
        Verb("put payer", put(), Bucket, "requestPayment=", PAYER),
        Verb("put public access", put(), Bucket, "publicAccessBlock=", PUBLIC),
        Verb("delete public access", delete(), Bucket, "publicAccessBlock=", ""),
        Verb("put notification", put(), Bucket, "notification=", NOTIFICATION),
        Verb("delete notification", delete(), Bucket, "notification=", ""),
        Verb("put replication", put(), Bucket, "replication=", REPLICATION),
        Verb("delete replication", delete(), Bucket, "replication=", ""),
        Verb("put object lock", put(), Bucket, "object-lock=", LOCK),
        Verb("put policy", put(), Bucket, "policy=", OPEN_POLICY),
        Verb("delete policy", delete(), Bucket, "policy=", ""),
        Verb("delete objects", post(), Bucket, "delete=", DELETE),
        Verb("delete object", delete(), Object, "", ""),
        Verb("make bucket again", put(), Bucket, "", ""),
        Verb("delete bucket", delete(), Bucket, "", ""),
        Verb("make another bucket", put(), NewBucket, "", ""),
    ]
}

/// Somebody's keys, and how he names the bucket.
pub(crate) struct Client<'a> {
    plot: &'a Plot<'a>,
    keys: (String, String),
    /// In front of the bucket's name.
    tenant: String,
}

impl<'a> Client<'a> {
    /// With the keys in a Secret.
    pub(crate) async fn new(plot: &'a Plot<'a>, secret: &str) -> Result<Self> {
        let data = plot.secret(secret).await?;
        Ok(Self { plot, keys: (data["accessKey"].clone(), data["secretKey"].clone()), tenant: String::new() })
    }

    /// Naming the buckets of another tenant.
    pub(crate) fn in_tenant(self, tenant: &str) -> Self {
        Self { tenant: format!("{tenant}%3A"), ..self }
    }

    /// The verbs the gateway lets this client have on a bucket of `owner`, and with what they were answered.
    pub(crate) async fn allowed(&self, owner: &Client<'_>, bucket: &str) -> Result<BTreeMap<&'static str, u16>> {
        let mut allowed = BTreeMap::new();
        for verb in all() {
            owner.prepare(bucket).await?;
            let upload = owner.open_upload(bucket).await?;
            let status = self.send(bucket, &verb, &upload).await?;
            // Refused, not there for whom may not see it, or not served to anybody.
            let no = [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
            if !no.contains(&status) {
                allowed.insert(verb.0, status.as_u16());
            }
        }
        Ok(allowed)
    }

    async fn prepare(&self, bucket: &str) -> Result<()> {
        let put = Verb("put object", Method::PUT, On::Object, "", "meow");
        let status = self.send(bucket, &put, "").await?;
        anyhow::ensure!(status.is_success(), "the owner cannot write: {status}");
        Ok(())
    }

    async fn open_upload(&self, bucket: &str) -> Result<String> {
        let path = format!("/{bucket}/{OBJECT}");
        let call = S3Call { method: Method::POST, path: &path, query: "uploads=", ..S3Call::default() };
        let (_, body) = self.plot.ceph.call((&self.keys.0, &self.keys.1), &call).await?;
        let (_, rest) = body.split_once("<UploadId>").with_context(|| body.clone())?;
        let (id, _) = rest.split_once('<').context("an id")?;
        Ok(id.to_owned())
    }

    async fn send(&self, bucket: &str, Verb(_, method, on, query, body): &Verb, upload: &str) -> Result<StatusCode> {
        let full = format!("{}{bucket}", self.tenant);
        let path = match on {
            On::User => "/".to_owned(),
            On::Bucket => format!("/{full}"),
            On::NewBucket => format!("/{full}-new"),
            On::Object | On::Upload => format!("/{full}/{OBJECT}"),
            On::Copy => format!("/{full}/dog.jpg"),
        };
        let query = if *on == On::Upload { format!("{query}uploadId={upload}") } else { (*query).to_owned() };
        let source = format!("/{full}/{OBJECT}");
        let header = (*on == On::Copy).then_some(("x-amz-copy-source", source.as_str()));
        let call = S3Call { method: method.clone(), path: &path, query: &query, header, body: body.as_bytes() };
        Ok(self.plot.ceph.call((&self.keys.0, &self.keys.1), &call).await?.0)
    }
}

/// Only the names.
pub(crate) fn names(allowed: &BTreeMap<&'static str, u16>) -> BTreeSet<&'static str> {
    allowed.keys().copied().collect()
}
