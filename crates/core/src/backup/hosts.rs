//! Which servers a tenant's location may name: Velero would call them from inside the cluster, with whatever it is told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The servers that are allowed although they are not outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Endpoints of the S3 classes: the administrator chose those.
    pub classes: Vec<String>,
    /// `host`, `host:port` or `*.domain`, from the settings.
    pub listed: Vec<String>,
}

impl Hosts {
    /// Whether the administrator chose the server of a URL, wherever it is.
    pub fn chose(&self, url: &str) -> bool {
        let Some((scheme, rest)) = url.split_once("://") else { return false };
        // The rest of it says nothing of the server.
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        Server::of(&format!("{scheme}://{authority}")).is_some_and(|server| self.has(&server))
    }

    fn has(&self, server: &Server) -> bool {
        let is_class = self.classes.iter().filter_map(|class| Server::of(class)).any(|class| class == *server);
        is_class || self.listed.iter().any(|pattern| server.is(pattern))
    }

    /// Why a URL must not be used.
    pub(super) fn refused(&self, url: &str) -> Option<&'static str> {
        let Some(server) = Server::of(url) else {
            return Some("must be http:// or https:// with a host and nothing else");
        };
        if self.has(&server) {
            return None;
        }
        if let Some(address) = server.address() {
            return (!is_outside(address)).then_some("must not name an address inside the cluster or this machine");
        }
        let labels: Vec<&str> = server.host.split('.').collect();
        let last = labels.last().copied().unwrap_or_default();
        // Inside a cluster `name` and `name.namespace` are Services too, `address.namespace.pod` is any address, and a number is one
        // in disguise.
        let is_inside = labels.len() < 3
            || matches!(last, "svc" | "pod" | "local" | "localhost" | "internal" | "localdomain" | "arpa")
            || last.starts_with(|letter: char| letter.is_ascii_digit())
            || labels.iter().skip(1).any(|label| matches!(*label, "svc" | "pod"));
        is_inside.then_some("must not name a host inside the cluster")
    }
}

/// Where a URL leads, in one spelling: server and path, whichever way they are written. What is no URL stays as it is.
pub(super) fn place(url: &str) -> String {
    let Some(Server { host, port }) = Server::of(url) else { return url.to_owned() };
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let path = rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or_default();
    format!("{host}:{port}{}", path.trim_end_matches('/'))
}

/// Scheme, host and port of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    host: String,
    port: u16,
}

impl Server {
    /// Nothing where programs might disagree on what the host is.
    fn of(url: &str) -> Option<Self> {
        let (default, rest) = match url.split_once("://")? {
            ("http", rest) => (80, rest),
            ("https", rest) => (443, rest),
            _ => return None,
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]/_".contains(letter);
        if !rest.chars().all(is_plain) {
            return None;
        }
        let authority = rest.split('/').next()?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed.split_once(']')?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let port = port.map_or(Some(default), |port| port.parse().ok())?;
        let has_empty_label = host.split('.').any(str::is_empty);
        (!has_empty_label).then_some(Self { host, port })
    }

    fn is(&self, pattern: &str) -> bool {
        let pattern = pattern.to_ascii_lowercase();
        match pattern.strip_prefix("*.") {
            Some(domain) => self.host.strip_suffix(domain).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
            None => pattern == self.host || pattern == format!("{}:{}", self.host, self.port),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// From here on IPv4 addresses are groups of hosts or reserved.
const FIRST_OF_NO_HOST: u8 = 224;

/// What holds an IPv4 address inside may lead there: 6to4 and Teredo.
fn is_outside_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    (0x2000..0x4000).contains(&first) && first != 0x2002 && (first, second) != (0x2001, 0)
}

/// Whether an address is neither this machine nor inside the cluster nor of a network of one's own.
pub fn is_outside(address: IpAddr) -> bool {
    let is_outside_v4 = |v4: Ipv4Addr| {
        let [first, second, third, _] = v4.octets();
        let is_shared = first == 100 && (64..128).contains(&second);
        let is_of_protocols = [first, second, third] == [192, 0, 0];
        let is_for_benchmarks = first == 198 && matches!(second, 18 | 19);
        !(v4.is_loopback()
            || v4.is_private()
            || v4.is_link_local()
            || first >= FIRST_OF_NO_HOST
            || first == 0
            || is_shared
            || is_of_protocols
            || is_for_benchmarks)
    };
    match address {
        IpAddr::V4(v4) => is_outside_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_outside_v4(v4),
            None => is_outside_v6(v6),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts {
            classes: vec!["http://127.0.0.1:8000".into(), "https://rgw.storage.svc".into()],
            listed: vec!["*.lab.local".into(), "10.0.0.7:9000".into(), "minio".into()],
        }
    }

    #[test]
    fn servers_outside_and_those_the_administrator_chose_may_be_used() {
        for url in [
            "https://s3.eu-west-1.amazonaws.com",
            "https://s3.example.com:8443/path",
            "https://93.184.216.34",
            "https://198.20.0.1",
            "https://192.0.1.1",
            "https://[2606:2800:220:1::1]:443",
            "http://127.0.0.1:8000",
            "http://127.0.0.1:8000/",
            "https://rgw.storage.svc:443",
            "http://one.lab.local",
            "http://10.0.0.7:9000",
            "http://minio:1234",
        ] {
            assert_eq!(hosts().refused(url), None, "{url}");
        }
    }

    #[test]
    fn the_server_of_a_signed_url_is_told_by_its_beginning() {
        assert!(hosts().chose("http://127.0.0.1:8000/bucket/key?X-Amz-Signature=a%2Fb"));
        assert!(!hosts().chose("http://127.0.0.1:8001/bucket/key?x=http://127.0.0.1:8000"));
        assert!(!hosts().chose("https://s3.example.com@127.0.0.1:8000/key") && !hosts().chose(""));
    }

    #[test]
    fn servers_inside_may_not() {
        for url in [
            "http://127.0.0.1:8001",
            "http://localhost",
            "http://LOCALHOST.",
            "http://169.254.169.254/latest",
            "http://10.96.0.1",
            "http://192.168.1.1",
            "http://100.64.0.1",
            "http://0.0.0.0",
            "http://192.0.0.192",
            "http://198.18.0.1",
            "http://198.19.255.255",
            "http://240.0.0.1",
            "http://224.0.0.1",
            "http://255.255.255.255",
            "http://[2002:7f00:1::]",
            "http://[2001:0:7f00:1::]",
            "http://[::1]",
            "http://[::ffff:127.0.0.1]",
            "http://[fd00::1]",
            "http://[fe80::1]",
            "http://2130706433",
            "http://0x7f.1",
            "http://127.1",
            "http://1.2.3.04",
            "http://kubernetes",
            "http://kubernetes.default",
            "http://kubernetes.default.svc",
            "http://169-254-169-254.default.pod",
            "http://kubernetes.default.svc.cluster.local",
            "http://rgw.ns.svc.corp.example",
            "http://10-96-0-1.default.pod.corp.example",
            "http://metadata.google.internal",
            "http://lab.local",
            "http://evil@s3.example.com",
            "http://s3.example.com\\@127.0.0.1",
            "http://s3.example.com#@127.0.0.1",
            "http://s3.example.com?x",
            "http://s3..example.com",
            "http://s3.example.com:port",
            "http://[::1",
            "ftp://s3.example.com",
            "file:///etc/passwd",
            "s3.example.com",
            "http://",
            "",
        ] {
            assert!(hosts().refused(url).is_some(), "{url}");
        }
    }
}
