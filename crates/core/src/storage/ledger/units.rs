//! What is counted, what limits it, and why there is not enough.

use std::fmt;

use super::super::{Quota, Usage};

/// Storage in whole units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Units {
    pub size: u64,
    pub objects: u64,
    pub buckets: u64,
}

impl Units {
    pub(in crate::storage) fn members(self) -> [(Member, u64); 3] {
        [(Member::Size, self.size), (Member::Objects, self.objects), (Member::Buckets, self.buckets)]
    }

    fn by_member(self, other: Self, choose: fn(u64, u64) -> u64) -> Self {
        Self {
            size: choose(self.size, other.size),
            objects: choose(self.objects, other.objects),
            buckets: choose(self.buckets, other.buckets),
        }
    }

    /// The larger of the two, member by member.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        self.by_member(other, u64::max)
    }

    /// The smaller of the two, member by member.
    #[must_use]
    pub fn or_less(self, other: Self) -> Self {
        self.by_member(other, u64::min)
    }

    /// No member is larger than that of the other.
    pub fn is_within(self, other: Self) -> bool {
        self.or_less(other) == self
    }

    /// Those members of which this is more than the other, if there are any.
    pub fn beyond(self, other: Self) -> Option<Self> {
        let beyond = self.by_member(other, |own, other| if own > other { own } else { 0 });
        (beyond != Self::default()).then_some(beyond)
    }

    /// A sum beyond 64 bits is beyond every limit all the same.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.by_member(other, u64::saturating_add)
    }

    pub(super) fn get(self, member: Member) -> u64 {
        match member {
            Member::Size => self.size,
            Member::Objects => self.objects,
            Member::Buckets => self.buckets,
        }
    }
}

impl From<&Quota> for Units {
    fn from(quota: &Quota) -> Self {
        Self { size: quota.size.whole(), objects: quota.objects.whole(), buckets: quota.buckets.into() }
    }
}

impl From<Usage> for Units {
    fn from(Usage { size, objects, buckets }: Usage) -> Self {
        Self { size, objects, buckets: buckets.unwrap_or_default() }
    }
}

impl fmt::Display for Units {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes, {} objects, {} buckets", self.size, self.objects, self.buckets)
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Size,
    Objects,
    Buckets,
}

impl Member {
    pub fn units(self) -> &'static str {
        match self {
            Member::Size => "bytes",
            Member::Objects => "objects",
            Member::Buckets => "buckets",
        }
    }
}

/// Limits of a namespace or of a team; a member that is missing is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub size: Option<u64>,
    pub objects: Option<u64>,
    pub buckets: Option<u64>,
}

impl Bounds {
    pub(in crate::storage) fn get(self, member: Member) -> Option<u64> {
        match member {
            Member::Size => self.size,
            Member::Objects => self.objects,
            Member::Buckets => self.buckets,
        }
    }

    /// Both hold: the tighter of the two, member by member.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let tighter = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        Self {
            size: tighter(self.size, other.size),
            objects: tighter(self.objects, other.objects),
            buckets: tighter(self.buckets, other.buckets),
        }
    }

    /// The first member of which there is more than the limit.
    pub fn passed_by(self, sum: Units) -> Option<Member> {
        let passed = |(member, sum): (Member, u64)| self.get(member).is_some_and(|most| sum > most).then_some(member);
        sum.members().into_iter().find_map(passed)
    }
}

/// Everything that limits a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    pub namespace: Bounds,
    pub team: Bounds,
}

/// Whose limit is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespace,
    Team,
}

/// What a ledger counts beside what its claims ask for.
pub(super) const CLAIMS: &str = "claims";

/// Why there is not enough left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub scope: Scope,
    /// Of what there is not enough.
    pub units: &'static str,
    pub asked: u64,
    pub left: u64,
    pub limit: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, units, asked, left, limit } = self;
        let (whose, owner) = match scope {
            Scope::Namespace => ("namespace", "namespace"),
            Scope::Team => ("cluster", "team"),
        };
        if *units == CLAIMS {
            let elsewhere = match scope {
                Scope::Namespace => "another namespace",
                Scope::Team => "a namespace of another team",
            };
            return write!(
                out,
                "exceeded {whose} quota: the {owner} has {limit} claims, and more cannot be kept count of; delete some that nobody \
                 needs, or make this one in {elsewhere}"
            );
        }
        write!(
            out,
            "exceeded {whose} quota: {asked} {units} asked for, {left} of the {owner}'s {limit} left; ask for less, or for a \
             higher limit"
        )
    }
}
