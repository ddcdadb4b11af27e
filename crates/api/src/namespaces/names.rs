//! Labels and annotations of the namespaces part.

/// On a Namespace: the class it wants.
pub const CLASS_LABEL: &str = "namespaceclass.akuity.io/name";
/// On every stamped object: the class it was stamped from.
pub const STAMP_LABEL: &str = "namespaceclass.akuity.io/class";
/// On stamped objects of a class with `protect: true`; the admission policy looks for it.
pub const PROTECTED_LABEL: &str = "namespaceclass.akuity.io/protected";
/// On a Namespace of a class with `protect: true`: the labels that only the operator may change, separated by commas.
pub const PROTECTED_LABELS_ANNOTATION: &str = "namespaceclass.akuity.io/protected-labels";
/// On a Namespace of a class with `protect: true`: the annotations that only the operator may change, separated by commas.
pub const PROTECTED_ANNOTATIONS_ANNOTATION: &str = "namespaceclass.akuity.io/protected-annotations";
/// On a Namespace or a binding: any new value asks for another look.
pub const TRIGGER_ANNOTATION: &str = "reconcile.akuity.io/trigger";
/// On a class: the revision whose deletions somebody confirms.
pub const CONFIRM_ANNOTATION: &str = "namespaceclass.akuity.io/confirm-deletions";
/// On every ControllerRevision that holds a revision of a class: the class.
pub const REVISION_LABEL: &str = "namespaceclass.akuity.io/revision-of";
/// On such a ControllerRevision: the generation of the class that said so last.
pub const REVISION_GENERATION_ANNOTATION: &str = "namespaceclass.akuity.io/generation";
/// On the policy binding that is the gate of a class: that class.
pub const GATE_LABEL: &str = "namespaceclass.akuity.io/gate-of";
/// RBAC verb on a NamespaceClass that lets somebody label a namespace with it.
pub const USE_VERB: &str = "use";
/// RBAC verb on a NamespaceClass that lets somebody take it off a namespace.
pub const LEAVE_VERB: &str = "leave";
/// Most entries in a class's `status.failing`.
pub const MAX_FAILING_LISTED: usize = 10;
