//! Client for a Ceph RADOS gateway (RGW): the Admin Ops calls that manage users and buckets, and the S3 calls made with
//! a user's own key. Written against Ceph 16, 18 and 20.
//!
//! ```no_run
//! use croft_rgw::{BucketLimit, Credentials, Endpoint, Gateway, NewUser, RgwError, UserId};
//!
//! # async fn example() -> Result<(), RgwError> {
//! let endpoint = Endpoint { url: "https://rgw.example".into(), region: "default".into(), ca_pem: None };
//! let gateway = Gateway::new(endpoint, Credentials::new("ADMINKEY", "its secret"))?;
//! gateway.probe().await?;
//!
//! let bob = NewUser {
//!     id: UserId::new("acme", "bob")?,
//!     display_name: "Bob".into(),
//!     max_buckets: BucketLimit::AtMost(10),
//!     access_key: "BOBSKEY".into(),
//! };
//! let user = gateway.create_user(&bob).await?;
//! if let Some(key) = user.key("BOBSKEY") {
//!     gateway.s3(key.credentials.clone()).create_bucket("data").await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What callers may rely on:
//!
//! - Every call ends: with an answer, or with [`RgwError::TimedOut`] after [`DEFAULT_TIMEOUT`] unless told otherwise.
//! - Nothing is retried here. [`RgwError::class`] says whether, and how, trying again makes sense: [`ErrorClass`] lists
//!   which answer means what.
//! - Reading what is absent is `None`; removing what is already gone succeeds. Both need the gateway's own word for it:
//!   a 404 page of some proxy on the way proves nothing and is an error.
//! - Clones of a [`Gateway`] write to a user, or to a bucket, one after the other, as the gateway fails writes that meet.
//! - Access keys are always chosen by the caller, so each call that sets one can be repeated without leaving a second
//!   key. Their secrets are always made by the gateway and read back with the user.
//! - No error, log line or `Debug` output contains a secret key, and no request carries one: what is in a URL ends up
//!   in access logs. The gateway's answers do hold secrets, so an endpoint should speak https.
//! - Fields the gateway tells and we do not know are ignored; statements of policies and rules of lifecycles that say
//!   more than we can are kept as they are.
//! - A name that would turn a call into one about something else is refused, not sent.
//!
//! Building requests, signing them and reading answers are pure functions; only [`Gateway`] and [`S3`] touch the
//! network and the clock.

#![warn(missing_docs)]

mod admin;
mod answer;
mod bucket;
mod error;
mod gateway;
mod lifecycle;
mod page;
pub mod policy;
mod quota;
mod request;
mod s3;
mod secret;
mod sign;
mod signed;
mod transport;
mod turns;
mod user;
mod xml;

pub use bucket::Bucket;
pub use error::{ErrorClass, RgwError};
pub use gateway::{Gateway, Probe};
pub use lifecycle::{Lifecycle, LifecycleRule, OtherRule};
pub use page::Page;
pub use policy::Policy;
pub use quota::{Quota, Usage};
pub use s3::{Object, ObjectMetadata, S3, Versioning};
pub use secret::{Credentials, Secret};
pub use signed::fetch;
pub use transport::{DEFAULT_TIMEOUT, Endpoint};
pub use user::{Access, BucketLimit, Key, NewUser, Subuser, User, UserChange, UserId};
