//! What is known about Croft itself, and which of the kinds it knows are its own in this cluster.

use std::collections::BTreeSet;

use super::{Choice, Kind, PART_OF, Seen};

/// A kind that may be ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OurKind {
    pub kind: Kind,
    /// The name of its CRD.
    pub crd: String,
    /// The part it is of.
    pub part: &'static str,
}

/// What is known about Croft itself.
#[derive(Clone, Debug)]
pub struct Ground {
    pub choice: Choice,
    /// The operator's own namespace.
    pub namespace: String,
    /// Our kinds.
    pub kinds: Vec<OurKind>,
    /// The finalizers we set.
    pub finalizers: Vec<&'static str>,
    /// Labels of stamped objects and annotations of Namespaces by which we know them.
    pub marks: Vec<&'static str>,
    /// On what the operator makes for a class besides: revisions and gates.
    pub of_a_class: Vec<&'static str>,
    /// On what the operator has Velero keep for tenants.
    pub of_velero: (&'static str, &'static str),
    /// The policies that keep Velero from doing more for a tenant than is hers; the operator deletes nothing of a tenant's own
    /// without them.
    pub guards: Vec<&'static str>,
    /// The role by which tenants make objects of ours.
    pub tenants_role: &'static str,
    /// Everything an installation may consist of, by kind, namespace and name.
    pub installed: BTreeSet<(Kind, String, String)>,
}

/// CRDs with names of ours of which nobody said whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear(pub Vec<String>);

impl Ground {
    pub(super) fn is_ours(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|ours| ours.kind == *kind)
    }

    pub(super) fn is_installed(&self, object: &Seen) -> bool {
        self.installed.contains(&(object.kind.clone(), object.namespace.clone(), object.name.clone()))
    }

    /// The part a kind of ours is of.
    pub fn part(&self, kind: &Kind) -> Option<&'static str> {
        self.kinds.iter().find(|ours| ours.kind == *kind).map(|ours| ours.part)
    }

    /// Forgets the kinds that are another operator's here: their CRD does not say it is ours, and the part they are of is none of
    /// `parts`. Where nobody knows which parts run, and a CRD does not say, it is not guessed.
    pub fn keep_what_is_ours(&mut self, crds: &[Seen], parts: Option<&[String]>) -> Result<(), Unclear> {
        let says_so = |ours: &OurKind| crds.iter().find(|crd| crd.name == ours.crd).map(|crd| crd.has(PART_OF));
        let runs = |ours: &OurKind| parts.map(|parts| parts.iter().any(|part| part == ours.part));
        let unclear = |ours: &&OurKind| says_so(ours) == Some(false) && runs(ours).is_none();
        let unclear: Vec<_> = self.kinds.iter().filter(unclear).map(|ours| ours.crd.clone()).collect();
        if !unclear.is_empty() {
            return Err(Unclear(unclear));
        }
        self.kinds.retain(|ours| says_so(ours) == Some(true) || runs(ours).unwrap_or(true));
        Ok(())
    }
}

/// Where the operator is instead, if it was looked for in the wrong namespace.
pub fn misplaced<'a>(asked: &str, found: &'a [String]) -> Option<&'a str> {
    if found.iter().any(|place| place == asked) {
        return None;
    }
    found.first().map(String::as_str)
}
