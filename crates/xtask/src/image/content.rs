//! What is in the image: the program, the libraries it is linked with, what finding names needs, and nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::tar::{File, Files};

/// Where Debian and most others keep them, and where programs look for them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

const PASSWD: &str = "root:x:0:0:root:/:/none\ncroft:x:65532:65532:croft:/:/none\n";
const GROUP: &str = "root:x:0:\ncroft:x:65532:\n";
/// Without this file the C library would ask for modules that are not here.
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// Loaded by older C libraries when a name is looked for; newer ones have them inside.
const NAME_SERVICE: [&str; 3] = ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"];

/// What changes seldom, and what changes with every build.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) base: Files,
    pub(super) program: Files,
    /// Files of this machine that went in.
    pub(super) of_the_machine: Vec<PathBuf>,
}

pub(super) fn content(program: &Path) -> Result<Content> {
    let mut of_the_machine = libraries(program)?;
    of_the_machine.push(CERTIFICATES.into());
    let mut base = Files::from([
        ("etc/passwd".to_owned(), File::plain(PASSWD)),
        ("etc/group".to_owned(), File::plain(GROUP)),
        ("etc/nsswitch.conf".to_owned(), File::plain(NSSWITCH)),
    ]);
    for path in &of_the_machine {
        let bytes = fs::read(path).with_context(|| {
            format!("the image needs {}: install it with `apt-get install -y ca-certificates libc6`", path.display())
        })?;
        let is_certificates = path == Path::new(CERTIFICATES);
        let file = if is_certificates { File::plain(bytes) } else { File::program(bytes) };
        base.insert(path.to_string_lossy().trim_start_matches('/').to_owned(), file);
    }
    let program = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    Ok(Content { base, program: Files::from([("croft".to_owned(), File::program(program))]), of_the_machine })
}

/// The shared libraries it needs, the loader among them; none where it has all of them inside.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("`ldd` tells what a program is linked with")?;
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    if told.contains("statically linked") || said.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    ensure!(output.status.success(), "ldd {}: {}", program.display(), said.trim());
    let mut libraries = needed(&told)?;
    let folder = libraries.iter().find(|path| path.ends_with("libc.so.6")).and_then(|libc| libc.parent());
    let services = NAME_SERVICE.iter().filter_map(|name| folder.map(|folder| folder.join(name)));
    let services: Vec<_> = services.filter(|path| path.exists()).collect();
    libraries.extend(services);
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}

/// The paths `ldd` tells.
fn needed(told: &str) -> Result<Vec<PathBuf>> {
    ensure!(!told.contains("not found"), "a library is missing on this machine:\n{told}");
    let words = told.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(words.map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, UdpSocket},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn libraries_are_taken_from_where_the_loader_finds_them() {
        let told = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibgcc_s.so.1 => /lib/x/libgcc_s.so.1 (0x1)\n\t/lib64/ld-linux.so.2 (0x2)\n";
        assert_eq!(needed(told).unwrap(), ["/lib/x/libgcc_s.so.1", "/lib64/ld-linux.so.2"].map(PathBuf::from));
        assert!(needed("\tlibz.so => not found\n").is_err());
    }

    fn unpack(files: &Files, root: &Path) {
        for (path, file) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &file.bytes).unwrap();
            let mode = if file.is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    /// Answers every question for an IPv4 address with 10.1.2.3, and says of anything else that there is none.
    fn answer_questions(server: &UdpSocket) {
        let mut bytes = [0; 512];
        while let Ok((size, asker)) = server.recv_from(&mut bytes) {
            let question = &bytes[12..size];
            let end = question.iter().position(|byte| *byte == 0).unwrap() + 5;
            let is_a = question[end - 4..end] == [0, 1, 0, 1];
            let mut answer =
                [&bytes[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0], &question[..end]].concat();
            if is_a {
                answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 1, 2, 3]);
            }
            let _ = server.send_to(&answer, asker);
        }
    }

    /// With `getent` in the program's place: it asks the C library just as the operator does.
    #[test]
    fn names_are_found_inside_by_file_and_by_name_server() {
        let [_, low, high, _] = std::process::id().to_le_bytes();
        let address = Ipv4Addr::new(127, 53, high, low);
        let Ok(server) = UdpSocket::bind((address, 53)) else {
            eprintln!("not tried: only root can serve names, and change into the image");
            return;
        };
        std::thread::spawn(move || answer_questions(&server));
        let root = std::env::temp_dir().join(format!("croft-names-{}", std::process::id()));
        let content = content(Path::new("/usr/bin/getent")).unwrap();
        unpack(&content.base, &root);
        unpack(&content.program, &root);
        fs::write(root.join("etc/resolv.conf"), format!("nameserver {address}\n")).unwrap();
        fs::write(root.join("etc/hosts"), "10.9.9.9 gateway.file\n").unwrap();
        let find = |name: &str| {
            let found = Command::new("chroot").arg(&root).args(["/croft", "ahostsv4", name]).output().unwrap();
            String::from_utf8(found.stdout).unwrap()
        };
        let (by_file, by_server) = (find("gateway.file"), find("gateway.example.com"));
        fs::remove_dir_all(&root).unwrap();
        assert!(by_file.starts_with("10.9.9.9 ") && by_server.starts_with("10.1.2.3 "), "{by_file}{by_server}");
    }
}
