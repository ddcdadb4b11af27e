//! The promises of the storage part, from every small world.

#[path = "../explorer/mod.rs"]
mod explorer;

mod bucket;
mod claim;
mod class;
mod ledger;
mod lost_keys;
mod migration;
mod moves;
mod settings;
