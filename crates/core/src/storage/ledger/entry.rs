//! What one claim was promised, and for which form of it.

use super::{GRACE, units::Units};

/// What one claim was promised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The claim as it was when this was last granted or given back, once that is known.
    pub form: Option<Form>,
    /// What Ceph gives, or may be set to give at any moment.
    pub granted: Option<Units>,
    /// What is stored beyond that, of those members of which more is stored: it counts, and gives no right to as much.
    pub stored: Option<Units>,
    pub pending: Option<Reservation>,
}

/// What was promised at admission and is not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    pub units: Units,
    /// In seconds since 1970.
    pub at: u64,
    /// UID of the request.
    pub request: String,
    /// The claim as the request leaves it.
    pub form: Form,
}

/// A claim as it stood, or will stand, at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    pub uid: String,
    pub generation: i64,
}

impl Form {
    /// Whether whoever knows this form knows of the other one, too. One that is not told is known to everybody.
    pub fn succeeds(&self, other: &Form) -> bool {
        other.uid.is_empty() || (self.uid == other.uid && self.generation >= other.generation)
    }
}

/// What is to be booked for who has so much in Ceph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settled {
    pub granted: Units,
    pub stored: Option<Units>,
}

impl Settled {
    /// Of who may have so much, and has `stored` that.
    pub fn at(granted: Units, stored: Units) -> Self {
        Self { granted, stored: stored.beyond(granted) }
    }

    pub fn charge(&self) -> Units {
        self.granted.or_more(self.stored.unwrap_or_default())
    }

    /// What is done to an entry by booking this instead, in words.
    pub fn told(&self, seen: &Entry, whose: &str) -> String {
        let (before, after) = (seen.has().unwrap_or_default(), self.charge());
        if !after.is_within(before) {
            return format!("book {after} for {whose}: so much is in Ceph, whoever let it in");
        }
        if after == before {
            return format!("book {after} for {whose} as what is stored: Ceph gives it no more than {}", self.granted);
        }
        format!("give back what {whose} had beyond {after}: Ceph has no more")
    }
}

impl Entry {
    /// What counts of it.
    pub fn charge(&self) -> Units {
        self.may_have().or_more(self.stored.unwrap_or_default())
    }

    /// What it was granted or promised, and so may be given without a look at the limits.
    pub fn may_have(&self) -> Units {
        let pending = self.pending.as_ref().map(|pending| pending.units);
        self.granted.unwrap_or_default().or_more(pending.unwrap_or_default())
    }

    /// What it was granted and what is stored beyond that, if it was granted anything.
    pub fn has(&self) -> Option<Units> {
        self.granted.map(|granted| granted.or_more(self.stored.unwrap_or_default()))
    }

    /// What is to be booked instead for who is given so much by Ceph and has `stored` that: what was granted beyond it is given back,
    /// and what is stored beyond that counts, however it came in. Nothing if that is booked already.
    pub fn settled(&self, has: Units, stored: Units) -> Option<Settled> {
        let granted = self.granted?;
        let settled = Settled::at(granted.or_less(has), stored);
        (settled != Settled { granted, stored: self.stored }).then_some(settled)
    }

    /// Exactly this is granted and nothing more is promised or stored.
    pub fn is_settled_at(&self, units: Units) -> bool {
        self.granted == Some(units) && self.stored.is_none() && self.pending.is_none()
    }

    /// Whether what is granted was granted to the claim as it stands.
    pub fn is_granted_to(&self, form: &Form) -> bool {
        self.granted.is_some() && self.form.as_ref() == Some(form)
    }

    /// Whether nobody has granted anything, or given it back, since it was seen like this.
    pub(super) fn is_granted_as(&self, seen: &Entry) -> bool {
        (&self.form, self.granted, self.stored) == (&seen.form, seen.granted, seen.stored)
    }

    /// Whether a promise for this form of the claim, or an earlier one, is still to be confirmed.
    pub fn promises(&self, form: &Form) -> bool {
        self.pending.as_ref().is_some_and(|pending| form.succeeds(&pending.form))
    }

    /// A promise is due for a look: nobody has confirmed it in time.
    pub fn is_due(&self, now: u64) -> bool {
        self.pending.as_ref().is_some_and(|pending| now >= pending.at.saturating_add(GRACE.as_secs()))
    }

    /// Whether a promise that is due is not what the claim, read just now, asks for. One that is stays, for as long as it takes: the
    /// claim may be waiting for its class.
    pub fn is_in_vain(&self, asks: Option<&Asks>, now: u64) -> bool {
        let is_same = |one: &Reservation, other: &Reservation| (one.units, &one.form) == (other.units, &other.form);
        let stays = self.pending.as_ref().zip(self.repaired(asks, now)).is_some_and(|(old, new)| is_same(old, &new));
        self.is_due(now) && !stays
    }

    pub(super) fn repaired(&self, asks: Option<&Asks>, now: u64) -> Option<Reservation> {
        let (pending, asks) = (self.pending.as_ref()?, asks?);
        let units = pending.units.or_less(asks.units);
        let is_wanted = units == asks.units || !units.is_within(self.granted.unwrap_or_default());
        is_wanted.then(|| Reservation { units, at: now, form: asks.form.clone(), request: pending.request.clone() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.granted.is_none() && self.pending.is_none()
    }

    /// What is stored within what was granted is no more than that.
    pub(super) fn forget_what_is_granted(&mut self) {
        self.stored = self.stored.and_then(|stored| stored.beyond(self.granted.unwrap_or_default()));
    }

    /// What was promised for the claim as it was seen, or before, is done with: no request for that can be stored any more. One for
    /// a later form is under way, or stored and not seen yet.
    pub(super) fn note(&mut self, form: &Form) {
        let is_later = |noted: &Form| noted.uid == form.uid && noted.succeeds(form);
        self.form = self.form.take().filter(is_later).or_else(|| Some(form.clone()));
        if self.promises(form) {
            self.pending = None;
        }
    }
}

/// What a claim asks for, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    pub form: Form,
    pub units: Units,
}

/// What was to be given back was granted anew, or given back, since it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regranted;
