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

    /// Whether the deletion of the object looks like a person's, who gives up what it has, and may be that of its whole namespace: such an
    /// object may be seen to go before its namespace is.
    pub fn leaves_doubt(&self, is_deleting: bool, namespace_terminating: bool) -> bool {
        is_deleting && !namespace_terminating && !self.is_withdrawn()
    }

    /// Whether it is we who put the object there: its binding says so, which nobody but us writes. What the object says itself
    /// anybody may have written.
    pub fn stands(&self) -> bool {
        !self.is_withdrawn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_class_stamped_is_given_up_by_nobody_before_it_is_known_that_its_namespace_stays() {
        let kept = Stamp(Some(BindingSeen { deleting: false, keeps: true }));
        assert!(kept.leaves_doubt(true, false));
        assert!(!kept.leaves_doubt(false, false), "it stays");
        assert!(!kept.leaves_doubt(true, true), "it goes with its namespace");
        for withdrawn in [None, Some(BindingSeen { deleting: true, keeps: true })] {
            assert!(!Stamp(withdrawn).leaves_doubt(true, false), "we take it away");
        }
    }
}
