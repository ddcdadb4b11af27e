//! Whose turn it is: ready keys of one priority, round robin over tenants.

use std::collections::BTreeMap;

use super::Key;

/// A key's place in line, for taking it out again.
pub(super) type Ticket = u64;

#[derive(Debug)]
struct Tenant<K> {
    /// The tenant's place among the tenants.
    turn: Ticket,
    keys: BTreeMap<Ticket, K>,
}

/// Every operation costs the logarithm of what waits, however many tenants there are.
#[derive(Debug)]
pub(super) struct Turns<K> {
    order: BTreeMap<Ticket, String>,
    tenants: BTreeMap<String, Tenant<K>>,
    last: Ticket,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), tenants: BTreeMap::new(), last: 0 }
    }
}

impl<K: Key> Turns<K> {
    /// Puts a key behind all others of its tenant, and the tenant, if it had none, behind all others.
    pub(super) fn push(&mut self, key: K) -> Ticket {
        let ticket = self.draw();
        let name = key.tenant().to_owned();
        let tenant = self.tenants.entry(name.clone()).or_insert_with(|| {
            self.order.insert(ticket, name);
            Tenant { turn: ticket, keys: BTreeMap::new() }
        });
        tenant.keys.insert(ticket, key);
        ticket
    }

    /// The first key of the tenant whose turn it is, who goes behind all others.
    pub(super) fn pop(&mut self) -> Option<K> {
        let (_, name) = self.order.pop_first()?;
        let turn = self.draw();
        let tenant = self.tenants.get_mut(&name)?;
        let (_, key) = tenant.keys.pop_first()?;
        if tenant.keys.is_empty() {
            self.tenants.remove(&name);
        } else {
            tenant.turn = turn;
            self.order.insert(turn, name);
        }
        Some(key)
    }

    /// Takes one key out of the line.
    pub(super) fn remove(&mut self, key: &K, ticket: Ticket) {
        let Some(tenant) = self.tenants.get_mut(key.tenant()) else { return };
        tenant.keys.remove(&ticket);
        if tenant.keys.is_empty() {
            self.order.remove(&tenant.turn);
            self.tenants.remove(key.tenant());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn draw(&mut self) -> Ticket {
        self.last += 1;
        self.last
    }
}
