//! Who comes next: one line for each priority, round robin over tenants within it, urgent ones first, and nobody is starved.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    Key, PATIENCE, Priority,
    turns::{Ticket, Turns},
};

#[derive(Debug)]
pub(super) struct Lines<K> {
    lines: BTreeMap<Priority, Turns<K>>,
    /// How many keys were taken past waiting ones of each priority.
    passed: BTreeMap<Priority, u32>,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), passed: BTreeMap::new() }
    }
}

impl<K: Key> Lines<K> {
    pub(super) fn push(&mut self, key: K, priority: Priority) -> Ticket {
        self.lines.entry(priority).or_default().push(key)
    }

    /// Takes one key out of its line.
    pub(super) fn remove(&mut self, key: &K, priority: Priority, ticket: Ticket) {
        if let Some(line) = self.lines.get_mut(&priority) {
            line.remove(key, ticket);
            if line.is_empty() {
                self.lines.remove(&priority);
            }
        }
    }

    /// The key whose turn it is, among those of the allowed priorities: of the one passed too often, else of the most urgent one.
    pub(super) fn next(&mut self, is_allowed: impl Fn(Priority) -> bool) -> Option<(K, Priority)> {
        let lines = &self.lines;
        self.passed.retain(|priority, _| lines.contains_key(priority));
        let allowed: Vec<Priority> = lines.keys().copied().filter(|priority| is_allowed(*priority)).collect();
        let passed = |priority: &Priority| self.passed.get(priority).copied().unwrap_or_default();
        let overdue = allowed.iter().filter(|priority| passed(priority) >= PATIENCE);
        let chosen = overdue.max_by_key(|priority| (passed(priority), Reverse(**priority)));
        let chosen = chosen.or(allowed.first()).copied()?;
        self.passed.remove(&chosen);
        for priority in allowed.into_iter().filter(|priority| *priority > chosen) {
            *self.passed.entry(priority).or_default() += 1;
        }
        let line = self.lines.get_mut(&chosen)?;
        let key = line.pop()?;
        if line.is_empty() {
            self.lines.remove(&chosen);
        }
        Some((key, chosen))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}
