//! The client on a real Ceph gateway. One binary, so that all of it shares one cluster.

mod buckets;
mod outage;
mod secrets;
mod support;
mod tls;
mod turns;
mod users;
