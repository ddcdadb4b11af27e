//! Tar archives whose bytes depend on nothing but what is put in: sorted, of nobody, of one time.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

const BLOCK: usize = 512;
/// Two empty blocks end an archive.
const END: usize = 2 * BLOCK;
/// What the oldest form of a header has room for.
const LONGEST_NAME: usize = 100;

/// A file: its bytes, and whether it can be run.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

impl File {
    pub(super) fn plain(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), is_program: false }
    }

    pub(super) fn program(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), is_program: true }
    }
}

/// Files by their path, without a `/` in front.
pub(super) type Files = BTreeMap<String, File>;

/// The archive, with the folders the files are in; `time` is in seconds since 1970.
pub(super) fn archive(files: &Files, time: u64) -> Result<Vec<u8>> {
    let mut entries: BTreeMap<String, Option<&File>> = BTreeMap::new();
    for (path, file) in files {
        let ends = path.match_indices('/').map(|(end, _)| end + 1);
        entries.extend(ends.filter_map(|end| path.get(..end)).map(|folder| (folder.to_owned(), None)));
        entries.insert(path.clone(), Some(file));
    }
    let mut bytes = Vec::new();
    for (path, file) in entries {
        bytes.extend(header(&path, file, time)?);
        if let Some(file) = file {
            bytes.extend(&file.bytes);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
    }
    bytes.resize(bytes.len() + END, 0);
    Ok(bytes)
}

fn header(path: &str, file: Option<&File>, time: u64) -> Result<[u8; BLOCK]> {
    ensure!(path.len() <= LONGEST_NAME, "{path} is too long a name for the image");
    let mode = if file.is_none_or(|file| file.is_program) { 0o755 } else { 0o644 };
    let size = file.map_or(0, |file| file.bytes.len());
    let kind: &[u8] = if file.is_some() { b"0" } else { b"5" };
    let mut header = [0; BLOCK];
    let mut put = |place: usize, bytes: &[u8]| header[place..place + bytes.len()].copy_from_slice(bytes);
    put(0, path.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{time:011o}").as_bytes());
    // The sum is taken with blanks in its own place.
    put(148, b"        ");
    put(156, kind);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_reads_it_as_it_was_meant() {
        let files = Files::from([
            ("croft".to_owned(), File::program("run me")),
            ("etc/ssl/certs/all".to_owned(), File::plain(vec![b'x'; 1000])),
        ]);
        let path = std::env::temp_dir().join(format!("croft-tar-{}", std::process::id()));
        std::fs::write(&path, archive(&files, 1_000_000_000).unwrap()).unwrap();
        let mut list = Command::new("tar");
        list.args(["--list", "--verbose", "--numeric-owner", "--utc", "--file"]).arg(&path);
        let output = list.output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            listed.lines().map(words).collect::<Vec<_>>(),
            [
                "-rwxr-xr-x 0/0 6 2001-09-09 01:46 croft",
                "drwxr-xr-x 0/0 0 2001-09-09 01:46 etc/",
                "drwxr-xr-x 0/0 0 2001-09-09 01:46 etc/ssl/",
                "drwxr-xr-x 0/0 0 2001-09-09 01:46 etc/ssl/certs/",
                "-rw-r--r-- 0/0 1000 2001-09-09 01:46 etc/ssl/certs/all",
            ]
        );
    }
}
