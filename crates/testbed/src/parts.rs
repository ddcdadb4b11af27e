//! The real programs: found where they are, built from the pinned Go modules where they are not.
//!
//! Guarantee: a program in the cache is complete (built under another name, then renamed) and belongs to the module
//! versions of this checkout (the cache directory is named after the digest of `go.sum`). Two processes never build
//! the same module at once.

mod packages;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use self::packages::program;
use self::packages::{Packages, find_program};
use crate::{Want, digest::sha256_hex, process, rundir::cache_root};

/// Chooses another Kubernetes than the one that is pinned beside the tests, such as `1.33`.
pub const VERSION: &str = "CROFT_KUBERNETES";
/// What `controlplane` and `node` are of.
const PINNED: &str = "1.36";
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const PROGRESS_EVERY: Duration = Duration::from_secs(15);
/// Debian's own package is older than the modules ask for.
const INSTALL_GO: &str =
    "curl -fsSL https://go.dev/dl/go1.26.8.linux-$(dpkg --print-architecture).tar.gz | tar -xzC /usr/local";
const CEPH: Packages = Packages(&[
    ("ceph-mon", "ceph-mon"),
    ("monmaptool", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("radosgw", "radosgw"),
    ("radosgw-admin", "radosgw"),
    ("ceph", "ceph-common"),
]);
/// What the demo looks at a backup with, as its owner would.
const TOOLS: Packages = Packages(&[("curl", "curl")]);
/// Programs of Debian's that a node needs; what they need of each other comes along.
const NODE: Packages = Packages(&[
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("busybox", "busybox-static"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("modprobe", "kmod"),
]);

/// Paths of the programs an instance needs.
#[derive(Debug, Clone)]
pub struct Parts {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    pub kube_controller_manager: PathBuf,
    pub kubectl: PathBuf,
    pub velero: Option<VeleroParts>,
    /// The Kubernetes that was asked for, if any was: nothing else will do.
    pub version: Option<String>,
}

#[derive(Debug, Clone)]
pub struct VeleroParts {
    pub server: PathBuf,
    pub aws_plugin: PathBuf,
}

/// What a real node runs, beside the control plane and what Debian has.
#[derive(Debug, Clone)]
pub struct NodeParts {
    pub kubelet: PathBuf,
    pub kube_scheduler: PathBuf,
    pub kube_proxy: PathBuf,
    /// What Velero puts into a restored pod, to make it wait for its volumes.
    pub velero_restore_helper: PathBuf,
}

struct Program {
    name: &'static str,
    package: &'static str,
    /// Measured on two cores, to tell the one who waits.
    usual_seconds: u64,
}

/// First the one that compiles most of what the others share.
const KUBE_APISERVER: Program =
    Program { name: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver", usual_seconds: 295 };
const KUBE_CONTROLLER_MANAGER: Program = Program {
    name: "kube-controller-manager",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    usual_seconds: 73,
};
const KUBECTL: Program = Program { name: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl", usual_seconds: 36 };
const ETCD: Program = Program { name: "etcd", package: "go.etcd.io/etcd/server/v3", usual_seconds: 12 };
const VELERO: Program =
    Program { name: "velero", package: "github.com/vmware-tanzu/velero/cmd/velero", usual_seconds: 218 };
const AWS_PLUGIN: Program = Program {
    name: "velero-plugin-for-aws",
    package: "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws",
    usual_seconds: 14,
};
const VELERO_RESTORE_HELPER: Program = Program {
    name: "velero-restore-helper",
    package: "github.com/vmware-tanzu/velero/cmd/velero-restore-helper",
    usual_seconds: 5,
};
const KUBELET: Program = Program { name: "kubelet", package: "k8s.io/kubernetes/cmd/kubelet", usual_seconds: 120 };
const KUBE_SCHEDULER: Program =
    Program { name: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler", usual_seconds: 14 };
const KUBE_PROXY: Program =
    Program { name: "kube-proxy", package: "k8s.io/kubernetes/cmd/kube-proxy", usual_seconds: 22 };

const HELM: Program = Program { name: "helm", package: "helm.sh/helm/v4/cmd/helm", usual_seconds: 180 };

/// Helm, built where it is missing. Blocks.
pub fn helm() -> Result<PathBuf> {
    Module::open("helm")?.build(&HELM)
}

/// Installs what people have on their machines, where it is missing. Blocks.
pub fn ensure_tools() -> Result<()> {
    TOOLS.ensure()
}

/// Installs Debian's packages for a node where their programs are missing. Blocks.
pub fn ensure_node_packages() -> Result<()> {
    NODE.ensure()
}

impl Parts {
    /// Finds, builds or installs everything `want` needs. Blocks; the first time for minutes.
    pub fn ensure(want: &Want) -> Result<Self> {
        if want.ceph {
            ensure_ceph()?;
        }
        let (module, pinned) = (Module::of_kubernetes("controlplane")?, Module::open("controlplane")?);
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let given = |program: &Program| assets.as_ref().map(|dir| dir.join(program.name)).filter(|path| path.exists());
        let program = |program: &Program| given(program).map_or_else(|| module.build(program), Ok);
        Ok(Self {
            kube_apiserver: program(&KUBE_APISERVER)?,
            // Of whichever Kubernetes: it asks etcd for nothing that is new.
            etcd: given(&ETCD).map_or_else(|| pinned.build(&ETCD), Ok)?,
            kube_controller_manager: program(&KUBE_CONTROLLER_MANAGER)?,
            kubectl: program(&KUBECTL)?,
            velero: if want.velero { Some(VeleroParts::ensure()?) } else { None },
            version: chosen(),
        })
    }
}

impl VeleroParts {
    pub fn ensure() -> Result<Self> {
        let module = Module::open("velero")?;
        Ok(Self { server: module.build(&VELERO)?, aws_plugin: module.build(&AWS_PLUGIN)? })
    }
}

impl NodeParts {
    /// Builds the programs and installs Debian's packages where they are missing. Blocks.
    pub fn ensure() -> Result<Self> {
        ensure_node_packages()?;
        let module = Module::of_kubernetes("node")?;
        Ok(Self {
            kubelet: module.build(&KUBELET)?,
            kube_scheduler: module.build(&KUBE_SCHEDULER)?,
            kube_proxy: module.build(&KUBE_PROXY)?,
            velero_restore_helper: Module::open("velero")?.build(&VELERO_RESTORE_HELPER)?,
        })
    }
}

/// Installs the Ceph packages where their programs are missing. Blocks.
pub fn ensure_ceph() -> Result<()> {
    CEPH.ensure()
}

/// One of the Go modules beside this crate, with its place in the cache.
struct Module {
    source: PathBuf,
    built: PathBuf,
    ldflags: String,
}

/// Every Kubernetes that can be chosen, the pinned one last.
pub fn versions() -> Result<Vec<String>> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes");
    let others = fs::read_dir(&place).with_context(|| format!("reading {}", place.display()))?;
    let mut versions: Vec<_> = others.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    versions.sort();
    versions.push(PINNED.to_owned());
    Ok(versions)
}

/// The version that was asked for.
fn chosen() -> Option<String> {
    std::env::var(VERSION).ok().filter(|chosen| !chosen.is_empty())
}

impl Module {
    /// Of the version that was chosen, or `pinned`.
    fn of_kubernetes(pinned: &str) -> Result<Self> {
        let Some(chosen) = chosen().filter(|chosen| chosen != PINNED) else { return Self::open(pinned) };
        let versions = versions()?;
        ensure!(versions.contains(&chosen), "{VERSION}={chosen} is none of {}", versions.join(", "));
        Self::open(&format!("kubernetes/{chosen}"))
    }

    fn open(name: &str) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let sums = fs::read(source.join("go.sum")).with_context(|| format!("reading {name}/go.sum"))?;
        let built = cache_root()?.join(format!("{name}-{}", &sha256_hex(&sums)[..16]));
        let go_mod = fs::read_to_string(source.join("go.mod")).with_context(|| format!("reading {name}/go.mod"))?;
        Ok(Self { source, built, ldflags: ldflags(&go_mod) })
    }

    fn build(&self, program: &Program) -> Result<PathBuf> {
        let path = self.built.join(program.name);
        if path.exists() {
            return Ok(path);
        }
        if find_program("go").is_none() {
            bail!("{} has to be built once and `go` is missing: install it with `{INSTALL_GO}`", program.name);
        }
        create_dir(&self.built)?;
        let _lock = self.lock()?;
        if !path.exists() {
            self.compile(program, &path)?;
        }
        Ok(path)
    }

    fn lock(&self) -> Result<File> {
        let lock = File::create(self.built.join(".lock")).context("creating the build lock")?;
        if lock.try_lock().is_err() {
            eprintln!("testbed: waiting for another process that builds in {}", self.built.display());
            lock.lock().context("waiting for the build lock")?;
        }
        Ok(lock)
    }

    fn compile(&self, program: &Program, path: &Path) -> Result<()> {
        let unfinished = path.with_extension("tmp");
        let mut go = Command::new("go");
        go.args(["build", "-trimpath", "-ldflags", &self.ldflags, "-o"])
            .arg(&unfinished)
            .arg(program.package)
            .current_dir(&self.source)
            .env("CGO_ENABLED", "0")
            // A Go that is older than the modules ask for fetches one that is not, whatever it was told as it was installed.
            .env("GOTOOLCHAIN", "auto");
        let started = Instant::now();
        let report = |state: &str| {
            eprintln!(
                "testbed: {state} {}, {} s so far (usually {} s on two cores)",
                program.name,
                started.elapsed().as_secs(),
                program.usual_seconds
            );
        };
        report("building");
        let build = process::spawn_family("go build", &go, &path.with_extension("log"))?;
        let status = loop {
            if let Some(status) = build.wait(PROGRESS_EVERY) {
                break status;
            }
            ensure!(started.elapsed() < BUILD_LIMIT, "go build of {} takes longer than {BUILD_LIMIT:?}", program.name);
            report("building");
        };
        ensure!(status.success(), "go build of {} failed ({status})\n{}", program.name, build.log_tail());
        fs::rename(&unfinished, path).with_context(|| format!("renaming {}", unfinished.display()))?;
        report("built");
        Ok(())
    }
}

/// Programs learn their version from the linker; without it Kubernetes calls itself v0.0.0-master.
fn ldflags(go_mod: &str) -> String {
    let mut variables = Vec::new();
    if let Some(version) = required_version(go_mod, "k8s.io/kubernetes") {
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
            for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
                variables.push(format!("{package}.{variable}={value}"));
            }
        }
    }
    if let Some(version) = required_version(go_mod, "github.com/vmware-tanzu/velero") {
        variables.push(format!("github.com/vmware-tanzu/velero/pkg/buildinfo.Version={version}"));
        // Besides the metrics address of its flags Velero would open port 8080 on all interfaces, for which it has no
        // flag: a second instance could not start.
        variables.push("sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0".to_owned());
    }
    if let Some(version) = required_version(go_mod, "helm.sh/helm/v4") {
        variables.push(format!("helm.sh/helm/v4/internal/version.version={version}"));
    }
    variables.iter().fold("-s -w".to_owned(), |flags, variable| format!("{flags} -X {variable}"))
}

fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?
    })
}

fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_programs_are_linked_with_the_version_of_go_mod() {
        let flags = ldflags("module m\n\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n");
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.3"));
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=36"));
    }

    #[test]
    fn the_pinned_kubernetes_is_the_one_that_is_said_to_be() {
        for module in ["controlplane", "node"] {
            let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(module).join("go.mod");
            let go_mod = fs::read_to_string(place).unwrap();
            let version = required_version(&go_mod, "k8s.io/kubernetes").unwrap();
            assert!(version.starts_with(&format!("v{PINNED}.")), "{module} is of {version}");
        }
    }

    #[test]
    fn velero_opens_no_port_it_was_not_told_to() {
        let flags = ldflags("require github.com/vmware-tanzu/velero v1.18.3\n");
        assert!(flags.contains("buildinfo.Version=v1.18.3") && flags.contains("DefaultBindAddress=0"), "{flags}");
    }
}
