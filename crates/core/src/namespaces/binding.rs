//! Namespace label -> binding: exactly one binding while the label names a class that exists.
//!
//! A binding that is no longer wanted is taken down by [`super::resources`], which first removes what it owns.

use std::fmt;

use crate::plan::{Plan, Step};

/// On a namespace: the class it asks for.
pub(super) const CLASS_LABEL: &str = "namespaceclass.akuity.io/name";

/// What is known about one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub namespace: Namespace,
    /// The binding named like the namespace.
    pub binding: Option<Binding>,
    /// The class the label names, if it exists and is not being deleted.
    pub wanted_class: Option<String>,
    /// The class the label names is being deleted.
    pub is_wanted_class_leaving: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub uid: String,
    pub terminating: bool,
    /// Belongs to the cluster, not to a tenant: no class is ever applied.
    pub system: bool,
    /// Value of the class label.
    pub label: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    pub uid: String,
    pub version: String,
    pub class: String,
    pub deleting: bool,
}

/// What the label asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// No label: no binding.
    Nothing,
    /// An empty value: nothing is changed, neither way.
    Unclear,
    /// A class that does not exist (yet).
    Unknown(String),
    Class(String),
}

/// Why a namespace has no (new) class although it asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    ClassNotFound(String),
    ClassDeleting(String),
    EmptyLabel,
    SystemNamespace,
}

impl Trouble {
    pub fn reason(&self) -> &'static str {
        match self {
            Trouble::ClassNotFound(_) => "ClassNotFound",
            Trouble::ClassDeleting(_) => "ClassDeleting",
            Trouble::EmptyLabel => "EmptyLabel",
            Trouble::SystemNamespace => "NotAllowed",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::ClassNotFound(class) => {
                write!(out, "there is no NamespaceClass {class}; it is applied as soon as it is created")
            }
            Trouble::ClassDeleting(class) => {
                write!(
                    out,
                    "NamespaceClass {class} is being deleted and takes no namespaces any more; name another class"
                )
            }
            Trouble::EmptyLabel => {
                write!(out, "the label {CLASS_LABEL} is empty and changes nothing; name a class, or remove the label")
            }
            Trouble::SystemNamespace => out.write_str("system namespaces cannot have a class"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingStep {
    CreateBinding { class: String, owner: String },
    Rebind { uid: String, version: String, from: String, to: String },
}

impl Step for BindingStep {
    fn kind(&self) -> &'static str {
        match self {
            BindingStep::CreateBinding { .. } => "CreateBinding",
            BindingStep::Rebind { .. } => "Rebind",
        }
    }
}

impl fmt::Display for BindingStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindingStep::CreateBinding { class, .. } => write!(out, "bind to class {class}: the label asks for it"),
            BindingStep::Rebind { from, to, .. } => write!(out, "rebind from class {from} to {to}: the label changed"),
        }
    }
}

impl Observed {
    pub fn wanted(&self) -> Wanted {
        match (self.namespace.label.as_deref(), &self.wanted_class) {
            (None, _) => Wanted::Nothing,
            (Some(""), _) => Wanted::Unclear,
            (Some(name), Some(class)) if class == name => Wanted::Class(class.clone()),
            (Some(name), _) => Wanted::Unknown(name.to_owned()),
        }
    }
}

pub fn plan(seen: &Observed) -> Plan<BindingStep> {
    if seen.namespace.terminating {
        return Plan::settled();
    }
    match (seen.wanted(), &seen.binding) {
        (_, Some(binding)) if binding.deleting => Plan::settled(),
        (Wanted::Nothing | Wanted::Unclear | Wanted::Unknown(_), _) => Plan::settled(),
        // What it may have from before stays.
        (Wanted::Class(_), _) if seen.namespace.system => Plan::settled(),
        (Wanted::Class(class), None) => {
            Plan::step(BindingStep::CreateBinding { class, owner: seen.namespace.uid.clone() })
        }
        (Wanted::Class(class), Some(binding)) if binding.class == class => Plan::settled(),
        (Wanted::Class(to), Some(binding)) => Plan::step(BindingStep::Rebind {
            uid: binding.uid.clone(),
            version: binding.version.clone(),
            from: binding.class.clone(),
            to,
        }),
    }
}

/// What to tell the owner of the namespace, if its wish cannot be met.
pub fn trouble(seen: &Observed) -> Option<Trouble> {
    match seen.wanted() {
        _ if seen.namespace.terminating => None,
        Wanted::Unclear => Some(Trouble::EmptyLabel),
        // Its class is on its way out: the binding tells.
        Wanted::Unknown(class) if seen.binding.as_ref().is_some_and(|binding| binding.class == class) => None,
        Wanted::Unknown(class) if seen.is_wanted_class_leaving => Some(Trouble::ClassDeleting(class)),
        Wanted::Unknown(class) => Some(Trouble::ClassNotFound(class)),
        Wanted::Class(_) if seen.namespace.system => Some(Trouble::SystemNamespace),
        _ => None,
    }
}
