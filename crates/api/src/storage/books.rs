//! Ledgers and limits of the API in the core's words, and back.

use std::collections::BTreeSet;

use croft_core::{
    quantity::{Quantity as Exact, QuantityError},
    storage::ledger::{Bounds, Entry, Form, Ledger, Reservation, Units, claim_of_entry, entry_key},
};
use jiff::Timestamp;

use super::{LedgerAmount, LedgerEntry, QUOTA_BUCKETS, QUOTA_OBJECTS, QUOTA_SIZE, QuotaLimits, S3QuotaLedgerSpec};
use crate::{Quantity, Time};

pub fn ledger(spec: &S3QuotaLedgerSpec) -> Ledger {
    Ledger::with(spec.entries.iter().map(|(key, stored)| (key.clone(), entry(stored))))
}

/// The part of it that is about one namespace.
pub fn of_namespace(spec: &S3QuotaLedgerSpec, namespace: &str) -> Ledger {
    let prefix = entry_key(namespace, "");
    let own = spec.entries.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
    Ledger::with(own.map(|(key, stored)| (key.clone(), entry(stored))))
}

/// The namespaces that have entries; what no claim can be called is under none.
pub fn namespaces(spec: &S3QuotaLedgerSpec) -> Vec<&str> {
    let namespace = |key| claim_of_entry(key).map_or("", |(namespace, _)| namespace);
    let mut namespaces: Vec<_> = spec.entries.keys().map(|key| namespace(key)).collect();
    namespaces.dedup();
    namespaces
}

/// The namespaces whose entries are not the same in both.
pub fn changed<'a>(before: &'a S3QuotaLedgerSpec, after: &'a S3QuotaLedgerSpec) -> BTreeSet<&'a str> {
    let differs = |one: &'a S3QuotaLedgerSpec, other: &'a S3QuotaLedgerSpec| {
        one.entries.iter().filter(|(key, entry)| other.entries.get(*key) != Some(entry)).map(|(key, _)| key.as_str())
    };
    let keys = differs(before, after).chain(differs(after, before));
    keys.filter_map(|key| Some(claim_of_entry(key)?.0)).collect()
}

/// What all entries are charged with.
pub fn sum(spec: &S3QuotaLedgerSpec) -> Units {
    spec.entries.values().map(|stored| entry(stored).charge()).fold(Units::default(), Units::plus)
}

/// The claims, by namespace and name, that had a promise before and have another one now; with what it is for.
pub fn promised_again<'a>(
    before: &'a S3QuotaLedgerSpec,
    after: &'a S3QuotaLedgerSpec,
) -> impl Iterator<Item = (&'a str, &'a str, Form)> {
    after.entries.iter().filter_map(|(key, stored)| {
        let earlier = before.entries.get(key).filter(|earlier| earlier.pending.is_some() && *earlier != stored)?;
        let (namespace, name) = claim_of_entry(key)?;
        let form = entry(stored).pending?.form;
        (earlier.reserved_at != stored.reserved_at).then_some((namespace, name, form))
    })
}

/// The claims and vaults, by namespace and name, that have more than before, granted or stored, with what they have now.
pub fn have_more<'a>(
    before: &'a S3QuotaLedgerSpec,
    after: &'a S3QuotaLedgerSpec,
) -> impl Iterator<Item = (&'a str, &'a str, Entry)> {
    let has = |stored: &LedgerEntry| entry(stored).has().unwrap_or_default();
    after.entries.iter().filter_map(move |(key, stored)| {
        let had = before.entries.get(key).map(has).unwrap_or_default();
        let (namespace, name) = claim_of_entry(key)?;
        (!has(stored).is_within(had)).then(|| (namespace, name, entry(stored)))
    })
}

pub fn entry(stored: &LedgerEntry) -> Entry {
    let at = stored.reserved_at.as_ref().and_then(|time| u64::try_from(time.0.as_second()).ok());
    Entry {
        form: stored.uid.clone().map(|uid| Form { uid, generation: stored.generation.unwrap_or_default() }),
        granted: stored.granted.map(units),
        stored: stored.stored.map(units),
        pending: stored.pending.map(|pending| Reservation {
            units: units(pending),
            at: at.unwrap_or_default(),
            request: stored.request_uid.clone().unwrap_or_default(),
            form: Form {
                uid: stored.reserved_for_uid.clone().unwrap_or_default(),
                generation: stored.reserved_for_generation.unwrap_or_default(),
            },
        }),
    }
}

/// The entries to store.
pub fn stored(ledger: &Ledger) -> impl Iterator<Item = (String, LedgerEntry)> {
    ledger.entries.iter().map(|(key, entry)| (key.clone(), stored_entry(entry)))
}

fn stored_entry(entry: &Entry) -> LedgerEntry {
    let pending = entry.pending.as_ref();
    let at = pending.and_then(|pending| i64::try_from(pending.at).ok()).and_then(|at| Timestamp::from_second(at).ok());
    LedgerEntry {
        uid: entry.form.as_ref().map(|form| form.uid.clone()),
        generation: entry.form.as_ref().map(|form| form.generation).filter(|generation| *generation != 0),
        granted: entry.granted.map(amount),
        stored: entry.stored.map(amount),
        pending: pending.map(|pending| amount(pending.units)),
        reserved_at: at.map(Time),
        request_uid: pending.map(|pending| pending.request.clone()),
        reserved_for_uid: pending.map(|pending| pending.form.uid.clone()),
        reserved_for_generation: pending.map(|pending| pending.form.generation),
    }
}

/// Amounts are those of valid claims, which fit 63 bits.
fn amount(units: Units) -> LedgerAmount {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    LedgerAmount { size: signed(units.size), objects: signed(units.objects), buckets: signed(units.buckets) }
}

fn units(amount: LedgerAmount) -> Units {
    let whole = |value: i64| u64::try_from(value).unwrap_or_default();
    Units { size: whole(amount.size), objects: whole(amount.objects), buckets: whole(amount.buckets) }
}

/// The limits of a team.
pub fn bounds(limits: &QuotaLimits) -> Bounds {
    Bounds {
        size: limits.size.as_ref().map(limit),
        objects: limits.objects.as_ref().map(limit),
        buckets: limits.buckets.map(|buckets| u64::try_from(buckets).unwrap_or_default()),
    }
}

/// The limits among the keys of a `ResourceQuota`.
pub fn hard_bounds<'a>(hard: impl IntoIterator<Item = (&'a String, &'a Quantity)>) -> Bounds {
    let mut bounds = Bounds::default();
    for (key, quantity) in hard {
        match key.as_str() {
            QUOTA_SIZE => bounds.size = Some(limit(quantity)),
            QUOTA_OBJECTS => bounds.objects = Some(limit(quantity)),
            QUOTA_BUCKETS => bounds.buckets = Some(limit(quantity)),
            _ => {}
        }
    }
    bounds
}

/// What cannot be read limits to nothing rather than not at all; less than nothing is nothing.
fn limit(quantity: &Quantity) -> u64 {
    match quantity.0.parse::<Exact>() {
        Ok(exact) => u64::try_from(exact.floor().max(0)).unwrap_or(u64::MAX),
        Err(QuantityError::TooLarge) => u64::MAX,
        Err(_) => 0,
    }
}
