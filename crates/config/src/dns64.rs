// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[dns64]`: its keys, their defaults and their rules.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use diolkos_dns64::policy::{default_exclude4, default_exclude6};
use diolkos_dns64::{Range, Rules};
use diolkos_xlat::config::Problem;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::domain_name::DomainName;
use super::key::section;
use super::network::{network, networks};
use super::objections::Objection;
use super::resolver::DNS;
use super::{Networks, Settings, Upstream, WELL_KNOWN_PREFIX};

section! {
    /// The DNS64 (RFC 6147).
    pub struct Dns64 {
        /// Its name for `diolkos show --device`.
        name: String = "dns64".to_owned(), Dns64;
        /// Addresses and ports that clients send their questions to, by UDP and TCP.
        listen: Vec<SocketAddr> = vec![
                SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), DNS),
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DNS),
            ], Dns64;
        /// Recursive resolvers that are asked, in order of preference: at least one. `tls://ADDRESS#NAME` is asked by TLS only
        /// (RFC 7858), and has to prove its name.
        upstream: Vec<Upstream> = Vec::new(), Live;
        /// The authorities whose certificates prove such a name, in PEM: those of the system, if nothing else is said.
        upstream_ca: PathBuf = PathBuf::from("/etc/ssl/certs/ca-certificates.crt"), Live;
        /// Translation prefixes (RFC 6052); each gives every name an address. With `"auto"` the DNS64 learns the prefix from
        /// the network of `uplink` (RFC 8781, RFC 7050) and follows its changes. Without this key, a DNS64 beside a translator
        /// takes the first prefix of `translator.pref64`, or its `"auto"`; a DNS64 alone takes 64:ff9b::/96.
        #[serde(default)]
        pref64: Option<Networks<Ipv6Net>> = Some(Networks::These(vec![WELL_KNOWN_PREFIX])), Dns64;
        /// The interface that leads to the NAT64, with `pref64 = "auto"`.
        uplink: String = String::new(), Dns64;
        /// What an error of upstream means for a question about AAAA records, unless it is NXDOMAIN. Silence counts as an error.
        on_error: OnError = OnError::default(), Dns64;
        /// AAAA records in these count as absent (RFC 6147 section 5.1.4).
        #[serde(deserialize_with = "networks")]
        exclude6: Vec<Ipv6Net> = default_exclude6(), Dns64;
        /// A records in these are not synthesised.
        #[serde(deserialize_with = "networks")]
        exclude4: Vec<Ipv4Net> = default_exclude4(), Dns64;
        /// Names for which no AAAA record is synthesised, themselves and all names below them.
        never_synthesize: Vec<DomainName> = Vec::new(), Live;
        /// Names for which AAAA records are synthesised even if there are real ones, themselves and all names below them. Between
        /// both lists, the longest name decides.
        always_synthesize: Vec<DomainName> = Vec::new(), Live;
        /// Let 64:ff9b::/96 carry IPv4 that is not globally reachable (against RFC 6052 section 3.1).
        allow_private_with_wkp: bool = false, Dns64;
        /// Who may ask.
        #[serde(deserialize_with = "networks")]
        clients: Vec<IpNet> = vec![IpNet::V6(Ipv6Net::default()), IpNet::V4(Ipv4Net::default())], Dns64;
        /// Questions per second of a client (an IPv4 address, an IPv6 /64) in the long run, by UDP and by TCP each; 0: no limit.
        rate: u32 = 500, Dns64;
        /// Questions of a client at once, after a quiet time.
        burst: u32 = 500, Dns64;
        /// The longest datagram sent or asked for, bytes.
        udp_size: u16 = SAFE_UDP, Dns64;
        /// How long one try may take, milliseconds.
        timeout_ms: u32 = 1500, Dns64;
        /// How often a question is sent; at least once to each upstream.
        tries: u32 = 2, Dns64;
        /// Questions that wait for upstream at the same time.
        max_outstanding: u32 = 4096, Dns64;
        /// Of them, those of one client (an IPv4 address, an IPv6 /64).
        max_outstanding_of_client: u32 = 512, Dns64;
        /// Connections of clients at the same time; one client has a quarter of them at most.
        max_tcp: u32 = 256, Dns64;
        /// After so long without a question a connection is closed, seconds.
        tcp_idle_s: u32 = 10, Dns64;
        /// Memory for answers that are kept, bytes; 0: none is kept.
        cache_bytes: u64 = 64 << 20, Dns64;
        /// An answer is kept for no longer, seconds.
        max_ttl_s: u32 = Rules::default().max_ttl, Dns64;
        /// A denial is kept for no longer, seconds (RFC 2308 section 5).
        max_negative_ttl_s: u32 = Rules::default().max_negative_ttl, Dns64;
        /// What the log says of each answer: nothing, the name, also the client's prefix, or also its address.
        query_log: QueryLog = QueryLog::default(), Live;
        /// Lines of the query log in a second, at most; more are counted instead.
        query_log_rate: u32 = 100, Live;
        /// IPv4 ranges with prefixes of their own.
        range: Vec<PrefixRange> = Vec::new(), Dns64;
    }
}

/// What an error of upstream means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// There are no AAAA records: they are synthesised from A records, if there are any (RFC 6147 section 5.1.2).
    #[default]
    Synthesize,
    /// The client gets the error.
    Pass,
}

/// What the query log says of each answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryLog {
    /// Nothing.
    #[default]
    Off,
    /// Name, type and outcome; nothing of the client.
    Names,
    /// Also the client's IPv6 /48; nothing of an IPv4 client.
    Prefixes,
    /// Also the client's address.
    Full,
}

/// IPv4 addresses with prefixes of their own (RFC 6147 section 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefixRange {
    /// The addresses; the longest match decides.
    #[serde(deserialize_with = "network")]
    pub v4: Ipv4Net,
    /// Their prefixes; empty: they are not synthesised.
    #[serde(deserialize_with = "networks")]
    pub pref64: Vec<Ipv6Net>,
}

/// The largest datagram that is fragmented on no link with IPv6, bytes (RFC 9715 section 3).
const SAFE_UDP: u16 = 1232;

impl Dns64 {
    /// The translation prefixes, or `auto`. `config::parse` has settled the meaning of an absent key.
    pub fn prefixes(&self) -> &Networks<Ipv6Net> {
        const NONE: &Networks<Ipv6Net> = &Networks::These(Vec::new());
        self.pref64.as_ref().unwrap_or(NONE)
    }

    /// Returns true if the prefix is discovered from the network.
    pub fn follows_network(&self) -> bool {
        *self.prefixes() == Networks::Auto
    }

    /// The rules on which the answers depend.
    pub fn rules(&self) -> Rules {
        let names = |list: &[DomainName]| list.iter().map(|name| name.0.clone()).collect();
        let range = |range: &PrefixRange| Range {
            v4: range.v4,
            pref64: range.pref64.clone(),
        };
        Rules {
            pref64: self.prefixes().given().to_vec(),
            ranges: self.range.iter().map(range).collect(),
            exclude6: self.exclude6.clone(),
            exclude4: self.exclude4.clone(),
            allow_private_with_wkp: self.allow_private_with_wkp,
            pass_errors: self.on_error == OnError::Pass,
            never: names(&self.never_synthesize),
            always: names(&self.always_synthesize),
            max_negative_ttl: self.max_negative_ttl_s,
            max_ttl: self.max_ttl_s,
        }
    }

    /// All rules that the section breaks.
    pub fn objections(&self) -> Vec<Objection> {
        let mut found = Vec::new();
        let mut object = |key: &str, message: String| {
            found.push(Objection {
                key: format!("dns64.{key}"),
                message,
            });
        };
        if self.name.is_empty() {
            object(
                "name",
                "a name is required for the control socket".to_owned(),
            );
        }
        if self.listen.is_empty() {
            object("listen", "nobody could ask".to_owned());
        }
        for (at, address) in self.listen.iter().enumerate() {
            if self.listen[..at].contains(address) {
                object(
                    &format!("listen[{at}]"),
                    format!("{address} is listed twice"),
                );
            }
        }
        if self.upstream.is_empty() {
            object("upstream", "no resolver is configured".to_owned());
        }
        for (at, resolver) in self.upstream.iter().enumerate() {
            let key = format!("upstream[{at}]");
            let ip = resolver.address.ip();
            if ip.is_unspecified() || ip.is_multicast() || resolver.address.port() == 0 {
                object(
                    &key,
                    format!("{resolver} cannot be the address of a resolver"),
                );
            } else if self.listen.contains(&resolver.address) {
                object(&key, format!("{resolver} is this server itself"));
            }
        }
        if *self.prefixes() == Networks::These(Vec::new()) {
            object("pref64", "nothing could be synthesised".to_owned());
        }
        if self.follows_network() && self.uplink.is_empty() {
            object(
                "uplink",
                "pref64 = \"auto\" needs the interface whose network announces the prefix; write uplink = \"eth0\""
                    .to_owned(),
            );
        }
        for (key, message) in wrong_prefixes("pref64", self.prefixes().given()) {
            object(&key, message);
        }
        for (at, range) in self.range.iter().enumerate() {
            let key = format!("range[{at}]");
            if range.v4.addr() != range.v4.network() {
                object(&format!("{key}.v4"), bits_after(range.v4, range.v4.trunc()));
            }
            if self.range[..at].iter().any(|other| other.v4 == range.v4) {
                object(
                    &format!("{key}.v4"),
                    format!("{} is listed twice", range.v4),
                );
            }
            for (key, message) in wrong_prefixes(&format!("{key}.pref64"), &range.pref64) {
                object(&key, message);
            }
        }
        for (at, net) in self.exclude6.iter().enumerate() {
            if net.addr() != net.network() {
                object(&format!("exclude6[{at}]"), bits_after(net, net.trunc()));
            }
        }
        for (at, net) in self.exclude4.iter().enumerate() {
            if net.addr() != net.network() {
                object(&format!("exclude4[{at}]"), bits_after(net, net.trunc()));
            }
        }
        for (at, net) in self.clients.iter().enumerate() {
            if net.addr() != net.network() {
                object(&format!("clients[{at}]"), bits_after(net, net.trunc()));
            }
        }
        for (key, message) in self.object_to_names() {
            object(&key, message);
        }
        if self.rate > 0 && self.burst == 0 {
            object("burst", "0 would refuse every query".to_owned());
        }
        for (key, value, least, most) in [
            ("udp_size", u32::from(self.udp_size), 512, 4096),
            ("timeout_ms", self.timeout_ms, 10, 60_000),
            ("tries", self.tries, 1, 10),
            ("max_outstanding", self.max_outstanding, 1, 1 << 20),
            (
                "max_outstanding_of_client",
                self.max_outstanding_of_client,
                1,
                1 << 20,
            ),
            ("max_tcp", self.max_tcp, 1, 1 << 16),
            ("tcp_idle_s", self.tcp_idle_s, 1, 3600),
        ] {
            if !(least..=most).contains(&value) {
                object(key, format!("{value} is not between {least} and {most}"));
            }
        }
        found
    }

    /// Settings that are allowed but probably a mistake.
    pub(super) fn warnings(&self) -> Vec<Objection> {
        let lists = self.range.iter().enumerate();
        let lists =
            lists.map(|(at, range)| (format!("range[{at}].pref64"), range.pref64.as_slice()));
        let unused = (!self.uplink.is_empty() && !self.follows_network()).then(|| {
            let message = format!("{:?} has no effect unless pref64 = \"auto\"", self.uplink);
            ("uplink".to_owned(), message)
        });
        std::iter::once(("pref64".to_owned(), self.prefixes().given()))
            .chain(lists)
            .flat_map(|(key, prefixes)| of_prefixes(&key, alone(prefixes).warnings()))
            .chain(unused)
            .chain(self.warn_of_tls())
            .map(|(key, message)| Objection {
                key: format!("dns64.{key}"),
                message,
            })
            .collect()
    }
}

/// Prefixes that RFC 6052 section 2.2 does not allow; the translation knows the rules.
fn wrong_prefixes(key: &str, prefixes: &[Ipv6Net]) -> Vec<(String, String)> {
    let problems = alone(prefixes).check().err().map(|error| error.problems);
    of_prefixes(key, problems.unwrap_or_default())
}

/// A translation with these prefixes only.
fn alone(prefixes: &[Ipv6Net]) -> diolkos_xlat::Config {
    diolkos_xlat::Config {
        pref64: prefixes.to_vec(),
        ..diolkos_xlat::Config::default()
    }
}

/// The problems with prefixes, with the keys of this section.
fn of_prefixes(key: &str, problems: Vec<Problem>) -> Vec<(String, String)> {
    problems
        .into_iter()
        .filter_map(|problem| {
            let index = problem.key.strip_prefix("pref64[")?;
            Some((format!("{key}[{index}"), problem.message))
        })
        .collect()
}

fn bits_after(given: impl fmt::Display, meant: impl fmt::Display) -> String {
    format!("{given} has host bits set; write {meant}")
}

/// The printed sections of a file without a translator.
#[derive(Serialize)]
pub(super) struct Print<'a> {
    pub dns64: &'a Dns64,
    pub control: &'a super::Control,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<&'a super::Metrics>,
    pub log: &'a super::Log,
}

impl Settings {
    /// The section, if this process serves it without a translator.
    pub fn dns64_alone(&self) -> Option<&Dns64> {
        self.dns64.as_ref().filter(|_| self.no_translator)
    }
}
