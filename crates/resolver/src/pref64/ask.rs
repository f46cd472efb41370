// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks for ipv4only.arpa, one resolver after another, until one reveals a prefix.
//!
//! An IPv6 resolver is first asked over the uplink, whatever the routes say, because the wanted prefix is that of the uplink's
//! network; then it is asked by the routes. No resolver is asked through the translator itself, because a resolver behind it
//! cannot tell whether the translator should be there.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use diolkos_dns64::exchange;
use diolkos_pref64::{synthesis, Reply};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dns_over_tcp;
use diolkos_config::CONTINUITY;
use diolkos_service::random::random;

/// Time limit of each try.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest datagram requested, bytes; it is not fragmented on any link (RFC 9715 section 3).
const UDP_SIZE: u16 = 1232;
const LONGEST: usize = 4096;
/// The port of DNS.
const DNS: u16 = 53;

/// The paths to the resolvers.
#[derive(Clone, Debug)]
pub struct Way {
    /// Name of the uplink.
    pub uplink: String,
    /// The IPv4 address of a CLAT on this host: packets with this source would go through the CLAT.
    pub own: Ipv4Addr,
}

/// The path of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Uplink,
    AnyRoute,
}

/// Asks all resolvers. Returns the first prefixes that one reveals; otherwise a denial, if there is one; otherwise the reason
/// why there is no answer.
pub async fn ask(resolvers: Vec<SocketAddr>, way: Way) -> Result<(SocketAddr, Reply), String> {
    let mut failures = BTreeMap::new();
    for over in [Over::Uplink, Over::AnyRoute] {
        let mut denial = None;
        for &resolver in &resolvers {
            let reply = timeout(PATIENCE, ask_one(resolver, &way, over)).await;
            match reply.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(reply @ Reply::Prefixes(..)) => return Ok((resolver, reply)),
                Ok(reply @ Reply::Nothing(_)) => {
                    tracing::debug!("the resolver {resolver} knows of no translation prefix");
                    denial.get_or_insert((resolver, reply));
                }
                Ok(Reply::Failed(code)) => {
                    failures.insert(resolver, format!("answers {code}"));
                }
                Ok(Reply::Truncated) => {
                    failures.insert(resolver, "truncates its TCP reply".to_owned());
                }
                Err(error) => {
                    tracing::debug!("the resolver {resolver} does not answer: {error}");
                    // An error on the other path says more.
                    failures
                        .entry(resolver)
                        .or_insert_with(|| format!("does not answer ({error})"));
                }
            }
        }
        if let Some(denial) = denial {
            return Ok(denial);
        }
    }
    let failures = failures.iter();
    let failures: Vec<String> = failures
        .map(|(resolver, how)| format!("the resolver {} {how}", shown(resolver)))
        .collect();
    Err(match failures.is_empty() {
        true => "there is no resolver to ask".to_owned(),
        false => failures.join("; "),
    })
}

/// A resolver for messages; the usual port is left out.
fn shown(resolver: &SocketAddr) -> String {
    match resolver.port() {
        DNS => resolver.ip().to_string(),
        _ => resolver.to_string(),
    }
}

async fn ask_one(resolver: SocketAddr, way: &Way, over: Over) -> io::Result<Reply> {
    // Each question has a socket of its own: the kernel draws its port, and accepts datagrams from the resolver only.
    let socket = connect(resolver, way, over)?;
    let ask = synthesis::ask();
    let id = random() as u16;
    let mut query = Vec::new();
    exchange::write(&ask, id, UDP_SIZE, &mut query);
    socket.send(&query).await?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let len = socket.recv(&mut buffer).await?;
        let datagram = &buffer[..len];
        match synthesis::read(datagram).filter(|_| exchange::id(datagram) == Some(id)) {
            Some(Reply::Truncated) => break,
            Some(reply) => return Ok(reply),
            None => {}
        }
    }
    // The same path as for the datagrams; otherwise another network would answer.
    let stream = reach(resolver, way, over).await?;
    let reply = dns_over_tcp::exchange(stream, &ask, UDP_SIZE, random() as u16).await?;
    synthesis::read(&reply).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn connect(resolver: SocketAddr, way: &Way, over: Over) -> io::Result<UdpSocket> {
    let socket = socket(resolver, way, over, Type::DGRAM, Protocol::UDP)?;
    // The kernel assigns the port when the socket is bound, and the address when it is connected.
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    socket.connect(&resolver.into())?;
    let socket = UdpSocket::from_std(socket.into())?;
    refuse_own(socket.local_addr()?, way)?;
    Ok(socket)
}

async fn reach(resolver: SocketAddr, way: &Way, over: Over) -> io::Result<TcpStream> {
    let socket = socket(resolver, way, over, Type::STREAM, Protocol::TCP)?;
    let stream = TcpSocket::from_std_stream(socket.into());
    let stream = stream.connect(resolver).await?;
    refuse_own(stream.local_addr()?, way)?;
    Ok(stream)
}

fn socket(
    resolver: SocketAddr,
    way: &Way,
    over: Over,
    kind: Type,
    protocol: Protocol,
) -> io::Result<Socket> {
    let domain = Domain::for_address(resolver);
    let socket = Socket::new(domain, kind.nonblocking().cloexec(), Some(protocol))?;
    if over == Over::Uplink && resolver.is_ipv6() && !resolver.ip().is_loopback() {
        socket.bind_device(Some(way.uplink.as_bytes()))?;
    }
    Ok(socket)
}

/// Refuses a source address of a CLAT: another CLAT of this host leads to another network, or through this one.
fn refuse_own(local: SocketAddr, way: &Way) -> io::Result<()> {
    let why = match local.ip() {
        IpAddr::V4(v4) if v4 == way.own => "it is behind this translator",
        IpAddr::V4(v4) if CONTINUITY.contains(&v4) => "it is behind another CLAT of this host",
        _ => return Ok(()),
    };
    Err(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_through_a_clat() {
        let way = Way {
            uplink: "eth1".to_owned(),
            own: Ipv4Addr::new(192, 0, 2, 7),
        };
        let refuses = |local: &str| {
            let local: SocketAddr = local.parse().expect("an address and a port");
            refuse_own(local, &way).is_err()
        };
        assert!(refuses("192.0.2.7:1") && refuses("192.0.0.1:1") && refuses("192.0.0.6:1"));
        assert!(!refuses("192.0.2.1:1") && !refuses("192.0.0.9:1") && !refuses("[2001:db8::1]:1"));
    }
}
