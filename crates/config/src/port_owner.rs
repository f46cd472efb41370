// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the program that uses a port, for the error message.
//!
//! the kernel's table of sockets ─► inode ─► descriptors of all processes ─► name and number
//!
//! Only root can see the descriptors of other processes, and this program drops that right when it begins. So it looks up the
//! ports that it needs before that. For later cases, and in units with `ProtectProc=invisible`, the kernel's table tells the
//! user only.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::OnceLock;

use nix::unistd::{Uid, User};

use crate::{MetricsAddress, Settings};

/// The transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP: only listening sockets count.
    Tcp,
    /// UDP: all sockets count.
    Udp,
}

/// The most descriptors that are examined, of all processes together: half a second on a slow machine.
const MOST: usize = 1 << 17;

/// The listening state in the kernel's tables.
const LISTENS: &str = "0A";

/// The owners of sockets that used a needed port when this program began, by inode.
static NOTED: OnceLock<HashMap<u64, String>> = OnceLock::new();

/// Records the programs that use ports of these settings. Later, this process cannot see the descriptors of others.
pub fn note(settings: &Settings) {
    let held = wanted(settings).flat_map(|(address, transport)| holders(address, transport));
    let inodes: HashSet<u64> = held.map(|holder| holder.inode).collect();
    let _ = NOTED.set(owners(&inodes));
}

fn wanted(settings: &Settings) -> impl Iterator<Item = (SocketAddr, Transport)> + '_ {
    let dns64 = settings.dns64.iter().flat_map(|dns64| &dns64.listen);
    let dns64 = dns64.flat_map(|at| [Transport::Udp, Transport::Tcp].map(|by| (*at, by)));
    let metrics = settings
        .metrics
        .listen
        .iter()
        .filter_map(|place| match place {
            MetricsAddress::Tcp(at) => Some((*at, Transport::Tcp)),
            MetricsAddress::Unix(_) => None,
        });
    dns64.chain(metrics)
}

/// The program that prevents binding to an address: `NAME (process NUMBER)`, or the user of a program.
pub fn of(address: SocketAddr, transport: Transport) -> Option<String> {
    let holder = holders(address, transport).into_iter().next()?;
    let noted = NOTED.get().and_then(|noted| noted.get(&holder.inode));
    Some(noted.cloned().unwrap_or_else(|| {
        let user = User::from_uid(Uid::from_raw(holder.user)).ok().flatten();
        let user = user.map_or_else(|| holder.user.to_string(), |user| user.name);
        format!("a program of the user {user} (`ss -lnp` names it)")
    }))
}

/// The programs that have these sockets, as far as this process can see them.
fn owners(inodes: &HashSet<u64>) -> HashMap<u64, String> {
    let mut owners = HashMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut left = MOST;
    for number in numbers {
        if owners.len() == inodes.len() {
            break;
        }
        let descriptors = fs::read_dir(format!("/proc/{number}/fd"));
        for descriptor in descriptors.into_iter().flatten().flatten().take(left) {
            left -= 1;
            let Some(inode) = inode_of(&descriptor.path()).filter(|inode| inodes.contains(inode))
            else {
                continue;
            };
            if let Some(name) = named(number) {
                owners.entry(inode).or_insert(name);
            }
        }
    }
    owners
}

/// The inode of a socket descriptor.
fn inode_of(descriptor: &Path) -> Option<u64> {
    let target = fs::read_link(descriptor).ok()?;
    let inode = target
        .to_str()?
        .strip_prefix("socket:[")?
        .strip_suffix(']')?;
    inode.parse().ok()
}

/// A process, as `NAME (process NUMBER)`.
pub fn named(number: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    // A process chooses its own name, so control characters are removed.
    let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
    Some(format!("{name} (process {number})"))
}

/// A socket that uses the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    inode: u64,
    user: u32,
}

fn holders(address: SocketAddr, transport: Transport) -> Vec<Holder> {
    let name = match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    };
    let tables = [name.to_owned(), format!("{name}6")].into_iter();
    let tables = tables
        .filter_map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok());
    tables
        .flat_map(|table| in_table(&table, address, transport))
        .collect()
}

/// The sockets in a table of the kernel that have this address and port, or all addresses.
fn in_table(table: &str, address: SocketAddr, transport: Transport) -> Vec<Holder> {
    let has = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (*fields.get(1)?, *fields.get(3)?);
        let (ip, port) = local.split_once(':')?;
        let (ip, port) = (address_of(ip)?, u16::from_str_radix(port, 16).ok()?);
        let is_there = ip == address.ip() || ip.is_unspecified() || address.ip().is_unspecified();
        let counts = transport == Transport::Udp || state == LISTENS;
        let holder = Holder {
            inode: fields.get(9)?.parse().ok()?,
            user: fields.get(7)?.parse().ok()?,
        };
        (port == address.port() && is_there && counts).then_some(holder)
    };
    table.lines().skip(1).filter_map(has).collect()
}

/// Parses an address: words of 32 bits, each in host byte order.
fn address_of(hex: &str) -> Option<IpAddr> {
    let words: Vec<u32> = (0..hex.len() / 8)
        .map(|at| u32::from_str_radix(hex.get(8 * at..8 * at + 8)?, 16).ok())
        .collect::<Option<_>>()?;
    let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    match octets.len() {
        4 => <[u8; 4]>::try_from(octets)
            .ok()
            .map(|o| Ipv4Addr::from(o).into()),
        _ => <[u8; 16]>::try_from(octets)
            .ok()
            .map(|o| Ipv6Addr::from(o).to_canonical()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn who_has_a_port_is_named() {
        let own = named(std::process::id() as i32).expect("it runs");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let tcp = TcpListener::bind("[::1]:0").expect("a socket");
        let at = udp.local_addr().expect("an address");
        let [of_udp] = holders(at, Transport::Udp)[..] else {
            panic!("there is one")
        };
        let at = tcp.local_addr().expect("an address");
        let all: SocketAddr = format!("[::]:{}", at.port()).parse().expect("an address");
        for at in [at, all] {
            let [of_tcp] = holders(at, Transport::Tcp)[..] else {
                panic!("there is one")
            };
            let owners = owners(&[of_udp.inode, of_tcp.inode].into());
            assert_eq!(owners.get(&of_udp.inode), Some(&own));
            assert_eq!(owners.get(&of_tcp.inode), Some(&own));
        }
        // The socket did not exist when this program began.
        let user = of(at, Transport::Tcp).expect("somebody");
        assert!(user.starts_with("a program of the user "), "{user}");
        drop(tcp);
        assert_eq!(of(at, Transport::Tcp), None);
    }

    #[test]
    fn a_table_that_is_cut_names_nobody() {
        let line = "   0: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 4711 1 0";
        let at: SocketAddr = "127.0.0.1:53".parse().expect("an address");
        let of = |line: &str| in_table(&format!("head\n{line}"), at, Transport::Tcp);
        if cfg!(target_endian = "little") {
            assert_eq!(
                of(line),
                [Holder {
                    inode: 4711,
                    user: 7
                }]
            );
            assert!(of(&line.replace("0A", "01")).is_empty());
        }
        for length in 0..90 {
            assert!(of(&line[..length]).is_empty(), "{length}");
        }
    }
}
