//! What kubelet and containerd are told.

use std::{path::Path, process::Command};

use anyhow::Result;
use serde_json::json;

use super::{ADDRESS, BRIDGE, NAME, PODS, SOCKET, enclosure};
use crate::{
    parts::{NodeParts, program},
    rundir::write_private,
};

pub(super) fn write_files(dir: &Path) -> Result<()> {
    let networks = dir.join("cni");
    std::fs::create_dir_all(&networks)?;
    write_private(&networks.join("10-croft.conflist"), network().to_string())?;
    write_private(&dir.join("resolv.conf"), "")?;
    let containerd = include_str!("containerd.toml")
        .replace("{networks}", &networks.display().to_string())
        .replace("{runc}", &program("runc")?)
        .replace("{sandbox}", super::BUSYBOX);
    write_private(&dir.join("containerd.toml"), &containerd)?;
    write_private(&dir.join("kubelet.json"), configuration(dir)?.to_string())
}

pub(super) fn command(parts: &NodeParts, dir: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(&parts.kubelet);
    command
        .arg("--config")
        .arg(dir.join("kubelet.json"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args([format!("--hostname-override={NAME}"), format!("--node-ip={ADDRESS}")]);
    command
}

/// Every pod on one bridge, whose own address is the node's.
fn network() -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "croft",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": true,
                "hairpinMode": true,
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": PODS }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

/// Nothing of the machine's own is changed, nothing is pulled, and no disk is ever too full: the machine is not ours.
fn configuration(dir: &Path) -> Result<serde_json::Value> {
    Ok(json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {
            "anonymous": { "enabled": true },
            "webhook": { "enabled": false },
        },
        "authorization": { "mode": "AlwaysAllow" },
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": enclosure::cgroup()?,
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "makeIPTablesUtilChains": false,
        "resolvConf": dir.join("resolv.conf"),
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": dir.join("plugins"),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
    }))
}
