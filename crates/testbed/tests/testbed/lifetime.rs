//! What an instance leaves behind: nothing.

use std::{collections::BTreeSet, path::Path, process::Command, time::Duration};

use croft_testbed::{Ceph, Testbed, process, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, WatchParams},
};

use crate::{SOON, bed, create, exists};

const OWNER: &str = "CROFT_TESTBED_OWNER";

/// Not a test: the process that [`everything_is_gone_when_the_owner_is_killed`] starts and kills.
#[tokio::test]
#[ignore = "runs as a child of another test"]
async fn owner() -> anyhow::Result<()> {
    if std::env::var_os(OWNER).is_some() {
        let bed = Testbed::kubernetes().with_velero().start().await?;
        let _family = process::spawn_family("family", &family(bed.dir()), &bed.dir().join("family.log"))?;
        println!("ready in {}", bed.dir().display());
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    Ok(())
}

/// A parent and a child, both known by `dir`.
fn family(dir: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"sh -c 'sleep 600; : "$0"' "$0" & wait"#]).arg(dir);
    command
}

/// Processes whose command line or environment names `dir`.
fn processes_of(dir: &str) -> BTreeSet<u32> {
    let mentions = |pid: u32, file: &str| {
        let content = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&content).contains(dir)
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter(|pid| mentions(*pid, "cmdline") || mentions(*pid, "environ"))
        .collect()
}

#[tokio::test]
async fn everything_is_gone_when_the_owner_is_killed() -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "lifetime::owner", "--ignored", "--nocapture"]).env(OWNER, "1");
    let owner = process::spawn("owner", &command, &scratch.path().join("owner.log"))?;
    let dir = wait::until("the owner's testbed", Duration::from_secs(60), || async {
        owner.ensure_running()?;
        let log = owner.log();
        Ok(log.lines().find_map(|line| Some(line.split_once("ready in ")?.1.to_owned())))
    })
    .await?;
    // The run directories of one owner share the beginning of their name.
    let runs = dir.rsplit_once('-').map_or(dir.as_str(), |(runs, _)| runs).to_owned();
    // etcd, API server, controller manager, monitor, OSD, gateway, Velero and the family of two.
    wait::until_true("all processes to be there", SOON, || async { Ok(processes_of(&runs).len() >= 9) }).await?;

    owner.kill();
    wait::until_true("all processes of the killed owner to be gone", SOON, || async {
        let left = processes_of(&runs);
        anyhow::ensure!(left.is_empty(), "still there: {left:?}");
        Ok(true)
    })
    .await
}

/// Inodes of the sockets that `pid` holds open.
fn sockets_of(pid: u32) -> impl Iterator<Item = String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        Some(target.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
    })
}

/// Local addresses (as the kernel prints them) and inodes of all listening TCP sockets.
fn listeners() -> Vec<(String, String)> {
    const LISTENING: &str = "0A";
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()));
    rows.filter(|row| row.get(3) == Some(&LISTENING)).map(|row| (row[1].to_owned(), row[9].to_owned())).collect()
}

#[tokio::test]
async fn nothing_listens_beyond_loopback() -> anyhow::Result<()> {
    const LOOPBACK: &str = "0100007F:";
    let bed = bed().await?;
    let runs = bed.dir().to_string_lossy().rsplit_once('-').map(|(runs, _)| runs.to_owned()).unwrap_or_default();
    let ours: BTreeSet<_> = processes_of(&runs).into_iter().flat_map(sockets_of).collect();
    let addresses: Vec<_> =
        listeners().into_iter().filter(|(_, inode)| ours.contains(inode)).map(|(address, _)| address).collect();
    assert!(addresses.len() >= 10, "{addresses:?}");
    assert!(addresses.iter().all(|address| address.starts_with(LOOPBACK)), "{addresses:?}");
    Ok(())
}

#[tokio::test]
async fn a_gateway_outage_keeps_what_was_stored() -> anyhow::Result<()> {
    let ceph = Ceph::start().await?;
    ceph.create_bucket("kept").await?;
    ceph.stop_gateway();
    assert!(ceph.create_bucket("refused").await.is_err());
    ceph.start_gateway().await?;
    let buckets = ceph.admin(&["bucket", "list"]).await?;
    assert!(buckets.contains("kept") && !buckets.contains("refused"), "{buckets}");
    Ok(())
}

#[tokio::test]
async fn two_instances_run_side_by_side_and_leave_no_files() -> anyhow::Result<()> {
    let (first, second) = tokio::try_join!(Testbed::kubernetes().start(), Testbed::kubernetes().start())?;
    create(&first.admin().client, "default", "only-here").await?;
    assert!(exists(&first.admin().client, "default", "only-here").await?);
    assert!(!exists(&second.admin().client, "default", "only-here").await?);

    let dir = first.dir().to_owned();
    drop(first);
    assert!(!Path::exists(&dir));
    assert!(processes_of(&dir.to_string_lossy()).is_empty());
    assert!(!exists(&second.admin().client, "default", "only-here").await?);

    an_api_server_that_comes_back_has_its_data(&second).await?;
    history_is_gone_after_compaction(&second).await
}

async fn an_api_server_that_comes_back_has_its_data(bed: &Testbed) -> anyhow::Result<()> {
    let client = &bed.admin().client;
    create(client, "default", "kept").await?;
    bed.stop_api_server()?;
    assert!(exists(client, "default", "kept").await.is_err());
    bed.start_api_server().await?;
    assert!(exists(client, "default", "kept").await?);
    Ok(())
}

async fn history_is_gone_after_compaction(bed: &Testbed) -> anyhow::Result<()> {
    let client = &bed.admin().client;
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let past = config_maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    create(client, "default", "later").await?;
    bed.compact_etcd().await?;
    bed.restart_api_server().await?;

    let events = config_maps.watch(&WatchParams::default(), &past).await;
    let code = match events {
        Err(kube::Error::Api(status)) => status.code,
        Ok(events) => {
            let mut events = std::pin::pin!(events);
            match futures::StreamExt::next(&mut events).await {
                Some(Ok(kube::api::WatchEvent::Error(status))) => status.code,
                other => panic!("a watch from before the compaction goes on: {other:?}"),
            }
        }
        Err(other) => return Err(other.into()),
    };
    assert_eq!(code, 410);
    Ok(())
}
