//! The client on a real Ceph gateway. One binary, so that all of it shares one cluster.

mod admin_buckets;
mod buckets;
mod objects;
mod outage;
mod probe;
mod secrets;
mod settings;
mod support;
mod tls;
mod turns;
mod users;
