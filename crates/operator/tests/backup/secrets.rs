//! What is in tenants' Secrets is nobody else's business, the operator's included.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use anyhow::{Context, Result};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::{ObjectMeta, PostParams};

use crate::plot::Plot;

const PAGE: u64 = 4096;

/// Runs of pages a process has written to: where they begin and end.
fn written(process: u32) -> Result<Vec<(u64, u64)>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let mut table = File::open(format!("/proc/{process}/pagemap"))?;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for map in maps.lines().filter(|map| map.contains(" rw")) {
        let (start, end) = map.split(' ').next().and_then(|range| range.split_once('-')).context("no range")?;
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        let mut pages = Vec::new();
        table.seek(SeekFrom::Start(start / PAGE * 8))?;
        (&table).take((end - start) / PAGE * 8).read_to_end(&mut pages)?;
        let is_present = |page: &[u8]| page.last().is_some_and(|flags| flags & 0x80 != 0);
        for (page, _) in (start..end).step_by(4096).zip(pages.chunks_exact(8)).filter(|(_, page)| is_present(page)) {
            match runs.last_mut() {
                Some((_, end)) if *end == page => *end += PAGE,
                _ => runs.push((page, page + PAGE)),
            }
        }
    }
    Ok(runs)
}

/// Whether any of `words` is in the memory of a process.
fn remembers(process: u32, words: &[Vec<u8>]) -> Result<bool> {
    let mut memory = File::open(format!("/proc/{process}/mem"))?;
    for (start, end) in written(process)? {
        let mut content = Vec::new();
        memory.seek(SeekFrom::Start(start))?;
        // What is given back meanwhile is nobody's memory any more.
        (&memory).take(end - start).read_to_end(&mut content).ok();
        if words.iter().any(|word| content.windows(word.len()).any(|found| found == word)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[tokio::test]
async fn what_is_in_a_secret_nobody_names_is_not_in_the_operators_memory() -> Result<()> {
    let plot = Plot::bare("confidential").await?;
    let unlikely = || format!("{:032x}", rand::random::<u128>());
    let (name, word) = (unlikely(), unlikely());
    let diary = Secret {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        data: Some([("diary".to_owned(), ByteString(word.clone().into_bytes()))].into()),
        ..Secret::default()
    };
    let encoded = serde_json::to_value(&diary)?["data"]["diary"].as_str().context("no data")?.to_owned();
    plot.api::<Secret>().create(&PostParams::default(), &diary).await?;
    // Whoever has acted on a later Secret has seen this one.
    plot.add_secret("cloud").await?;
    plot.add_location(serde_json::json!({})).await?;
    plot.location_is_available().await;
    let process = plot.world.operator.process.pid();
    assert!(remembers(process, &[name.into_bytes()])?, "that there is a Secret of that name it knows");
    assert!(
        !remembers(process, &[word.into_bytes(), encoded.into_bytes()])?,
        "it has read what nobody asked it to read"
    );
    Ok(())
}
