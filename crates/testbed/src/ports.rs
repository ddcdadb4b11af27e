//! Ports on loopback for many instances side by side.
//!
//! Guarantee: a port of a live [`PortBlock`] belongs to no other testbed on this machine. The numbers are below the
//! kernel's ephemeral range, so no outgoing connection takes one between the choice and the daemon's bind.

use std::{
    fs::{self, File},
    net::TcpListener,
    ops::Range,
};

use anyhow::{Context, Result, bail};
use rand::Rng;

use crate::rundir::cache_root;

/// Enough for the hungriest part, Ceph: gateway, monitor and the OSD's addresses.
pub const BLOCK: u16 = 16;
const ATTEMPTS: usize = 2000;

/// Consecutive ports, reserved by a lock that the kernel releases with the owner.
#[derive(Debug)]
pub struct PortBlock {
    first: u16,
    _lock: File,
}

impl PortBlock {
    pub fn reserve() -> Result<Self> {
        let locks = cache_root()?.join("ports");
        fs::create_dir_all(&locks).with_context(|| format!("creating {}", locks.display()))?;
        let blocks = usable_range();
        for _ in 0..ATTEMPTS {
            let first = rand::rng().random_range(blocks.clone()) * BLOCK;
            let lock = File::create(locks.join(first.to_string())).context("creating a port lock")?;
            if lock.try_lock().is_ok() && (first..first + BLOCK).all(is_free) {
                return Ok(Self { first, _lock: lock });
            }
        }
        bail!("no {BLOCK} consecutive free ports on 127.0.0.1 after {ATTEMPTS} attempts: stop what occupies them")
    }

    pub fn get(&self, index: u16) -> u16 {
        assert!(index < BLOCK, "a block has {BLOCK} ports");
        self.first + index
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// In units of blocks.
fn usable_range() -> Range<u16> {
    let ephemeral: Option<u16> = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok());
    let ports = match ephemeral {
        Some(low) if low > 12_000 => 10_000..low,
        _ => 20_000..60_000,
    };
    ports.start.div_ceil(BLOCK)..ports.end / BLOCK
}
