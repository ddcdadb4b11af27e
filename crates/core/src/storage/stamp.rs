//! What a NamespaceClass put into a namespace: whether it is still wanted there.

/// On an object whose controller is a NamespaceClassBinding: the binding, if it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(pub Option<BindingSeen>);

/// A binding, as far as it concerns one object it controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingSeen {
    pub deleting: bool,
    /// Whether its inventory has the object in a state other than being pruned.
    pub keeps: bool,
}

impl Stamp {
    /// Whether it is we who take the object away: its binding is gone, going, or no longer wants it. Nobody asked for the
    /// object itself to go.
    pub fn is_withdrawn(&self) -> bool {
        self.0.is_none_or(|binding| binding.deleting || !binding.keeps)
    }

    /// Whether it is we who put the object there: its binding says so, which nobody but us writes. What the object says itself
    /// anybody may have written.
    pub fn stands(&self) -> bool {
        !self.is_withdrawn()
    }
}
