//! What can be set on a bucket: policy, versioning, lifecycle.

use http::Method;

use super::S3;
use crate::{Lifecycle, Policy, RgwError, answer::Answer, error::absent_is_done};

/// Whether a bucket keeps the old versions of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// It never did.
    Off,
    /// It does.
    Enabled,
    /// It did, and has the versions of that time still.
    Suspended,
}

impl S3 {
    /// The gateway accepts a policy that names users who do not exist.
    pub async fn put_bucket_policy(&self, name: &str, policy: &Policy) -> Result<(), RgwError> {
        let request = self.bucket_call("set policy of bucket", Method::PUT, name)?.flag("policy");
        self.done(request.with_body(policy.to_string())).await
    }

    /// `None` if the bucket has no policy, or does not exist.
    pub async fn bucket_policy(&self, name: &str) -> Result<Option<Policy>, RgwError> {
        let request = self.bucket_call("get policy of bucket", Method::GET, name)?.flag("policy");
        self.found(request).await?.map(Answer::json).transpose()
    }

    /// From then on nobody has more than the access lists say.
    pub async fn delete_bucket_policy(&self, name: &str) -> Result<(), RgwError> {
        let request = self.bucket_call("delete policy of bucket", Method::DELETE, name)?.flag("policy");
        absent_is_done(self.done(request).await)
    }

    /// `None` if there is no such bucket.
    pub async fn bucket_versioning(&self, name: &str) -> Result<Option<Versioning>, RgwError> {
        let request = self.bucket_call("get versioning of bucket", Method::GET, name)?.flag("versioning");
        self.found(request).await?.map(|answer| read_versioning(&answer)).transpose()
    }

    /// Whether new objects replace the old or become versions. Versioning once enabled can be suspended, not undone.
    pub async fn set_bucket_versioning(&self, name: &str, enabled: bool) -> Result<(), RgwError> {
        let request = self.bucket_call("set versioning of bucket", Method::PUT, name)?.flag("versioning");
        self.done(request.with_body(versioning(enabled))).await
    }

    /// `None` if the bucket has no lifecycle, or does not exist.
    pub async fn bucket_lifecycle(&self, name: &str) -> Result<Option<Lifecycle>, RgwError> {
        let request = self.bucket_call("get lifecycle of bucket", Method::GET, name)?.flag("lifecycle");
        self.found(request).await?.map(|answer| read_lifecycle(&answer)).transpose()
    }

    /// Sets all rules of the bucket at once; none at all is [`delete_bucket_lifecycle`](Self::delete_bucket_lifecycle).
    pub async fn put_bucket_lifecycle(&self, name: &str, lifecycle: &Lifecycle) -> Result<(), RgwError> {
        if lifecycle.is_empty() {
            return self.delete_bucket_lifecycle(name).await;
        }
        let request = self.bucket_call("set lifecycle of bucket", Method::PUT, name)?.flag("lifecycle");
        self.done(request.with_body(lifecycle.to_xml())).await
    }

    /// Takes all rules away.
    pub async fn delete_bucket_lifecycle(&self, name: &str) -> Result<(), RgwError> {
        let request = self.bucket_call("delete lifecycle of bucket", Method::DELETE, name)?.flag("lifecycle");
        absent_is_done(self.done(request).await)
    }
}

fn versioning(enabled: bool) -> String {
    let status = if enabled { "Enabled" } else { "Suspended" };
    format!(
        "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>{status}</Status>\
         </VersioningConfiguration>"
    )
}

fn read_versioning(answer: &Answer) -> Result<Versioning, RgwError> {
    match answer.xml("VersioningConfiguration")?.text_of("Status") {
        None => Ok(Versioning::Off),
        Some("Enabled") => Ok(Versioning::Enabled),
        Some("Suspended") => Ok(Versioning::Suspended),
        Some(_) => Err(answer.unreadable("its status is none we know")),
    }
}

fn read_lifecycle(answer: &Answer) -> Result<Lifecycle, RgwError> {
    Ok(Lifecycle::read(&answer.xml("LifecycleConfiguration")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versioning_is_read_in_all_its_states() {
        for (status, expected) in [
            ("", Versioning::Off),
            ("<Status>Enabled</Status><MfaDelete>Disabled</MfaDelete>", Versioning::Enabled),
            ("<Status>Suspended</Status>", Versioning::Suspended),
        ] {
            let body = format!("<VersioningConfiguration xmlns=\"x\">{status}</VersioningConfiguration>");
            assert_eq!(read_versioning(&Answer::of(&body)), Ok(expected));
        }
        for body in ["<html/>", "<VersioningConfiguration><Status>?</Status></VersioningConfiguration>"] {
            assert_eq!(read_versioning(&Answer::of(body)).unwrap_err().reason(), "UnreadableAnswer");
        }
    }

    #[test]
    fn versioning_is_set_as_it_is_read() {
        for (enabled, expected) in [(true, Versioning::Enabled), (false, Versioning::Suspended)] {
            assert_eq!(read_versioning(&Answer::of(&versioning(enabled))), Ok(expected));
        }
    }
}
