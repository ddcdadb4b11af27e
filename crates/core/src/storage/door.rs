//! What is judged at the door beside others: Secrets, claims, subusers and classes that are there already.
//!
//! The door is a courtesy: it tells people at once what the reconcilers would tell them later, and whatever gets past it is held
//! up there. So it never stands in the way of machines that bring objects in an order of their own.

use super::Problem;

/// What a claim with S3Buckets says to whoever deletes it.
pub const BUCKETS_FIRST: &str =
    "There are existing buckets associated with this userclaim. Please first delete them and try again.";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    Person,
    /// Brings back what was there, in any order.
    Restorer,
    /// Croft itself, and Kubernetes' own controllers.
    Machine,
}

impl Asker {
    /// By the name the API server knows them by; `own` is ours.
    pub fn named(name: &str, own: &str, restorers: &[String]) -> Self {
        let is_of_the_cluster =
            name == "system:kube-controller-manager" || name.starts_with("system:serviceaccount:kube-system:");
        if is_of_the_cluster || (name == own && !own.is_empty()) {
            Asker::Machine
        } else if restorers.iter().any(|restorer| restorer == name) {
            Asker::Restorer
        } else {
            Asker::Person
        }
    }
}

/// A Secret a claim asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    pub field: String,
    pub name: String,
    pub taken: Option<TakenBy>,
}

/// What stands in the way of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenBy {
    /// One of that name is there, and no claim of this name made it.
    Secret,
    /// Another claim asks for it, too.
    Claim(String),
}

pub fn secrets(named: &[NamedSecret]) -> Vec<Problem> {
    let problem = |secret: &NamedSecret| {
        let message = match secret.taken.as_ref()? {
            TakenBy::Secret => format!("secret {} exists; delete it or name another one", secret.name),
            TakenBy::Claim(claim) => {
                format!("secret {} is named by S3UserClaim {claim} already; name another one", secret.name)
            }
        };
        Some(Problem::new(secret.field.clone(), message))
    };
    named.iter().filter_map(problem).collect()
}

/// The claim an S3Bucket names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedClaim {
    pub name: String,
    pub deleting: bool,
    pub subusers: Vec<String>,
}

/// Whether the claim of a new S3Bucket is there to have buckets.
pub fn claim_of_bucket(claim: Option<&NamedClaim>) -> Vec<Problem> {
    let told = "there is no s3UserClaim regarding the defined s3UserRef";
    let message = match claim {
        None => told.to_owned(),
        Some(claim) if claim.deleting => format!("{told}: S3UserClaim {} is being deleted", claim.name),
        Some(_) => return Vec::new(),
    };
    vec![Problem::new("spec.s3UserRef", message)]
}

/// Whether the subusers an S3Bucket lets in are those of its claim. `known`: it named them before.
pub fn subusers_of_bucket<'a>(
    claim: &NamedClaim,
    named: impl IntoIterator<Item = &'a str>,
    known: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    let named = named.into_iter().enumerate();
    let unknown = named.filter(|(_, name)| !known(name) && !claim.subusers.iter().any(|subuser| subuser == name));
    unknown
        .map(|(number, name)| {
            let field = format!("spec.s3SubuserBinding[{number}].name");
            let message =
                format!("S3UserClaim {} has no subuser {name}; add it to spec.subusers of the claim first", claim.name);
            Problem::new(field, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_apart_from_machines_and_restorers() {
        let own = "system:serviceaccount:croft-system:croft";
        let restorers = ["system:serviceaccount:velero:velero".to_owned()];
        let asker = |name: &str| Asker::named(name, own, &restorers);
        assert_eq!(asker("maria"), Asker::Person);
        assert_eq!(asker(""), Asker::Person);
        assert_eq!(asker("system:serviceaccount:velero:velero"), Asker::Restorer);
        assert_eq!(asker("system:serviceaccount:kube-system:generic-garbage-collector"), Asker::Machine);
        assert_eq!(asker(own), Asker::Machine);
        assert_eq!(Asker::named("", "", &[]), Asker::Person, "nobody is us before we know who we are");
    }

    #[test]
    fn a_secret_in_the_way_is_named_with_its_field() {
        let named = |field: &str, taken| NamedSecret { field: field.into(), name: "keys".into(), taken };
        let told = secrets(&[
            named("spec.adminSecretName", Some(TakenBy::Secret)),
            named("spec.readSecretName", None),
            named("spec.subusers[0]", Some(TakenBy::Claim("other".into()))),
        ]);
        assert_eq!(
            Problem::list(&told),
            "spec.adminSecretName: secret keys exists; delete it or name another one; \
             spec.subusers[0]: secret keys is named by S3UserClaim other already; name another one"
        );
    }

    #[test]
    fn a_bucket_needs_a_claim_that_stays_and_its_subusers() {
        let claim = NamedClaim { name: "data".into(), deleting: false, subusers: vec!["app".into()] };
        assert_eq!(claim_of_bucket(Some(&claim)), []);
        assert_eq!(claim_of_bucket(None).len(), 1);
        let going = NamedClaim { deleting: true, ..claim.clone() };
        assert!(Problem::list(&claim_of_bucket(Some(&going))).ends_with("data is being deleted"));
        let told = subusers_of_bucket(&claim, ["app", "nobody", "gone"], |name| name == "gone");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].field, "spec.s3SubuserBinding[1].name");
    }
}
