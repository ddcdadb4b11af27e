//! The Ceph part: one monitor, one OSD in memory and one RADOS Gateway.

use std::{
    fmt, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use http::{Method, StatusCode};

use crate::{
    http_client, parts,
    ports::{BLOCK, PortBlock},
    process::{self, Process},
    rundir::RunDir,
    runtime,
    s3::{S3Call, Signer},
    wait,
};

const START_LIMIT: Duration = Duration::from_secs(60);
const GATEWAY: u16 = 0;
const MONITOR: u16 = 1;
const FIRST_OSD: u16 = 2;
/// Where Ceph has its users.
const USERS: [&str; 4] = ["--pool", "default.rgw.meta", "--namespace", "users.uid"];

/// A running gateway and the administrator's keys to it.
pub struct Ceph {
    /// Base of the S3 API; the Admin Ops API is below `/admin`.
    pub endpoint: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    gateway: Mutex<Option<Process>>,
    _osd: Process,
    _monitor: Process,
    site: Site,
}

impl Ceph {
    /// A cluster of its own, without Kubernetes; dropped = gone. Installs the packages where they are missing.
    pub async fn start() -> Result<Self> {
        runtime::run(async {
            runtime::run_blocking(parts::ensure_ceph).await?;
            Self::start_in(RunDir::create()?, Ipv4Addr::LOCALHOST).await
        })
        .await
    }

    pub(crate) async fn start_in(run: RunDir, address: Ipv4Addr) -> Result<Self> {
        let site = Site::create(run, address)?;
        let access_key = format!("{:020X}", rand::random::<u64>());
        let secret_key = format!("{:040x}", rand::random::<u128>());
        let keys = (access_key.clone(), secret_key.clone());
        let (site, monitor, osd) = runtime::run_blocking(move || {
            let (monitor, osd) = site.start_store()?;
            site.create_administrator(&keys.0, &keys.1)?;
            Ok((site, monitor, osd))
        })
        .await
        .context("starting Ceph")?;
        let ceph = Self {
            endpoint: format!("http://{}", site.authority()),
            region: "default".to_owned(),
            access_key,
            secret_key,
            gateway: Mutex::new(None),
            _osd: osd,
            _monitor: monitor,
            site,
        };
        ceph.start_gateway().await?;
        Ok(ceph)
    }

    /// An outage: the gateway is gone, what it stored stays.
    pub fn stop_gateway(&self) {
        self.gateway().take();
    }

    /// Ends the outage, on the same port.
    pub async fn start_gateway(&self) -> Result<()> {
        {
            let mut gateway = self.gateway();
            if gateway.is_none() {
                *gateway = Some(self.site.start_gateway()?);
            }
        }
        wait::until("the Ceph gateway to answer a signed request", START_LIMIT, || async {
            if let Err(ended) = self.gateway_runs() {
                return Ok(Some(Err(ended)));
            }
            let (status, _) = self.send(&Method::GET, "/admin/user", "uid=admin").await?;
            Ok((status == StatusCode::OK).then_some(Ok(())))
        })
        .await
        .map_err(|error| anyhow!("{error:#}\n{}", self.gateway_log()))?
    }

    /// Everything the gateway has printed and logged.
    pub fn gateway_log(&self) -> String {
        let printed = self.gateway().as_ref().map(Process::log).unwrap_or_default();
        printed + &fs::read_to_string(self.site.dir().join("log/client.rgw.log")).unwrap_or_default()
    }

    /// A bucket of the administrator's.
    pub async fn create_bucket(&self, name: &str) -> Result<()> {
        let (status, body) = self.send(&Method::PUT, &format!("/{name}"), "").await?;
        ensure!(status.is_success(), "creating bucket {name}: {status} {body}");
        Ok(())
    }

    /// `radosgw-admin` on this cluster, for looking behind the gateway.
    pub async fn admin(&self, arguments: &[&str]) -> Result<String> {
        self.tool("radosgw-admin", arguments).await
    }

    /// Removes one of the gateway's own objects, as a crash may.
    pub async fn lose(&self, pool: &str, namespace: &str, object: &str) -> Result<()> {
        self.tool("rados", &["--pool", pool, "--namespace", namespace, "rm", object]).await.map(drop)
    }

    /// Puts a user's bucket on another one's list as well, as a gateway that dies in the middle of its work may leave it.
    pub async fn list_bucket_twice(&self, bucket: &str, owner: &str, other: &str) -> Result<()> {
        self.copy_bucket_entry(bucket, owner).await?;
        self.put_bucket_entry(bucket, other).await
    }

    /// Keeps a copy of what a user's list of buckets says of one.
    pub async fn copy_bucket_entry(&self, bucket: &str, user: &str) -> Result<()> {
        let (list, entry) = (format!("{user}.buckets"), self.bucket_entry(bucket));
        self.tool("rados", &[&USERS[..], &["getomapval", &list, bucket, &entry]].concat()).await?;
        Ok(())
    }

    /// Puts that copy on a user's list, whether or not there is such a bucket any more.
    pub async fn put_bucket_entry(&self, bucket: &str, user: &str) -> Result<()> {
        let (list, entry) = (format!("{user}.buckets"), self.bucket_entry(bucket));
        self.tool("rados", &[&USERS[..], &["--input-file", &entry, "setomapval", &list, bucket]].concat()).await?;
        Ok(())
    }

    /// Takes a bucket off a user's list, and nothing else.
    pub async fn remove_bucket_entry(&self, bucket: &str, user: &str) -> Result<()> {
        let list = format!("{user}.buckets");
        self.tool("rados", &[&USERS[..], &["rmomapkey", &list, bucket]].concat()).await?;
        Ok(())
    }

    fn bucket_entry(&self, bucket: &str) -> String {
        self.site.dir().join(format!("{bucket}.entry")).display().to_string()
    }

    async fn tool(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::from(self.site.command(program));
        command.args(arguments).kill_on_drop(true);
        let line = format!("{program} {}", arguments.join(" "));
        runtime::run(async move {
            let output = command.output().await?;
            ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
        .await
    }

    async fn send(&self, method: &Method, path: &str, query: &str) -> Result<(StatusCode, String)> {
        let call = S3Call { method: method.clone(), path, query, ..S3Call::default() };
        self.call((&self.access_key, &self.secret_key), &call).await
    }

    /// Writes an object.
    pub async fn put(&self, path: &str, body: &[u8]) -> Result<()> {
        let call = S3Call { method: Method::PUT, path, body, ..S3Call::default() };
        let (status, answer) = self.call((&self.access_key, &self.secret_key), &call).await?;
        ensure!(status.is_success(), "{path}: {status} {answer}");
        Ok(())
    }

    /// One S3 call with somebody's keys, and what the gateway answered.
    pub async fn call(
        &self,
        (access_key, secret_key): (&str, &str),
        call: &S3Call<'_>,
    ) -> Result<(StatusCode, String)> {
        let signer = Signer { region: &self.region, access_key, secret_key };
        let request = signer.request(&self.site.authority(), call)?;
        let (status, body) = http_client::send(request).await?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn gateway(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.gateway.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gateway_runs(&self) -> Result<()> {
        match &*self.gateway() {
            Some(gateway) => gateway.ensure_running(),
            None => bail!("the gateway was stopped"),
        }
    }
}

/// Without the keys.
impl fmt::Debug for Ceph {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ceph").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Directory, ports and configuration of one cluster.
struct Site {
    address: Ipv4Addr,
    fsid: String,
    osd_uuid: String,
    ports: PortBlock,
    run: RunDir,
}

impl Site {
    fn create(run: RunDir, address: Ipv4Addr) -> Result<Self> {
        for name in ["run", "log", "mon", "osd", "crash"] {
            run.sub(name)?;
        }
        let site = Self { address, fsid: uuid()?, osd_uuid: uuid()?, ports: PortBlock::reserve()?, run };
        fs::write(site.dir().join("ceph.conf"), site.configuration()).context("writing ceph.conf")?;
        Ok(site)
    }

    fn configuration(&self) -> String {
        let values = [
            ("{fsid}", self.fsid.clone()),
            ("{address}", self.address.to_string()),
            ("{dir}", self.dir().display().to_string()),
            ("{mon_port}", self.ports.get(MONITOR).to_string()),
            ("{gateway_port}", self.ports.get(GATEWAY).to_string()),
            ("{osd_first_port}", self.ports.get(FIRST_OSD).to_string()),
            ("{osd_last_port}", self.ports.get(BLOCK - 1).to_string()),
        ];
        values.into_iter().fold(include_str!("ceph.conf").to_owned(), |text, (name, value)| text.replace(name, &value))
    }

    fn dir(&self) -> &Path {
        self.run.path()
    }

    fn authority(&self) -> String {
        format!("{}:{}", self.address, self.ports.get(GATEWAY))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("CEPH_CONF", self.dir().join("ceph.conf")).env("CEPH_ARGS", "");
        command
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir().join("log").join(format!("{name}.out"))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let mut command = self.command(program);
        command.args(arguments);
        process::run(program, &command, &self.log("setup"), START_LIMIT)
    }

    fn spawn(&self, program: &str, arguments: &[&str]) -> Result<Process> {
        let mut command = self.command(program);
        command.args(arguments);
        process::spawn(program, &command, &self.log(program))
    }

    fn start_store(&self) -> Result<(Process, Process)> {
        let monmap = self.dir().join("monmap").display().to_string();
        let address = format!("[v2:{}:{}/0]", self.address, self.ports.get(MONITOR));
        self.run("monmaptool", &["--create", "--fsid", &self.fsid, "--addv", "a", &address, &monmap])?;
        self.run("ceph-mon", &["--mkfs", "-i", "a", "--monmap", &monmap])?;
        let monitor = self.spawn("ceph-mon", &["-f", "-i", "a"])?;
        // The OSD formats its store while the monitor forms its quorum of one and learns the OSD's id.
        let format =
            self.spawn("ceph-osd", &["-f", "--mkfs", "--no-mon-config", "-i", "0", "--osd-uuid", &self.osd_uuid])?;
        self.run("ceph", &["osd", "new", &self.osd_uuid, "0"])?;
        match format.wait(START_LIMIT) {
            Some(status) if status.success() => {}
            _ => bail!("ceph-osd --mkfs failed\n{}", format.log_tail()),
        }
        let osd = self.spawn("ceph-osd", &["-f", "-i", "0", "--osd-uuid", &self.osd_uuid])?;
        Ok((monitor, osd))
    }

    /// The first gateway command makes the zone and its pools; it waits for the OSD by itself.
    fn create_administrator(&self, access_key: &str, secret_key: &str) -> Result<()> {
        let mut caps = "users=*;buckets=*;metadata=*;usage=*;zone=*".to_owned();
        if ceph_release()? >= 17 {
            // Older releases refuse the word.
            caps += ";info=*";
        }
        let (access, secret, caps) =
            (format!("--access-key={access_key}"), format!("--secret-key={secret_key}"), format!("--caps={caps}"));
        self.run("radosgw-admin", &["user", "create", "--uid=admin", "--display-name=admin", &access, &secret, &caps])
    }

    fn start_gateway(&self) -> Result<Process> {
        self.spawn("radosgw", &["-f", "-n", "client.rgw"])
    }
}

fn ceph_release() -> Result<u32> {
    let output = Command::new("radosgw").arg("--version").output().context("running radosgw --version")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let major = text.strip_prefix("ceph version ").and_then(|rest| rest.split('.').next()?.parse().ok());
    major.with_context(|| format!("radosgw --version says {text:?}"))
}

fn uuid() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid").context("reading a random uuid")?.trim().to_owned())
}
