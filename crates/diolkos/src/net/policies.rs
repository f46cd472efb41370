// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether there are IPsec policies (XFRM), and when that changes. Packets that a program sends by itself meet none of them.
//!
//! group of the policies → each message is a reason to list them again → counts
//!
//! A kernel without IPsec has no such netlink protocol, and then there are none.

use std::fmt;
use std::io;
use std::time::Duration;

use rtnetlink::sys::protocols::NETLINK_XFRM;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::supervise::{Task, Watch};

/// Of linux/xfrm.h: the multicast group of policies, and types of messages.
const XFRMNLGRP_POLICY: u32 = 4;
const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
const XFRM_MSG_GETDEFAULT: u16 = 0x28;
const XFRM_USERPOLICY_BLOCK: u8 = 1;
/// `struct xfrm_userpolicy_default`, padded: one byte each for what comes in, is forwarded and goes out.
const DEFAULTS: usize = 4;
/// Of linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const HEADER: usize = 16;
/// `struct xfrm_userpolicy_id`, padded; where `struct xfrm_userpolicy_info` has the family and the direction.
const POLICY_ID: usize = 64;
const FAMILY: usize = 40;
const DIRECTION: usize = 160;
/// From here on, directions are those of policies that one socket has for itself.
const OF_SOCKETS: u8 = 3;
const AF_INET6: u16 = 10;
/// No datagram of a list is longer, bytes.
const LONGEST: usize = 1 << 16;
/// For one list, and after it failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many policies there are, without those of single sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Of IPv4.
    pub v4: usize,
    /// Of IPv6.
    pub v6: usize,
    /// What no policy allows is blocked, in a direction at least (`ip xfrm policy setdefault`).
    pub blocks: bool,
}

impl Policies {
    /// Is there any?
    pub fn are_some(self) -> bool {
        self != Policies::default()
    }
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: usize, family: &str| (count > 0).then(|| format!("{count} of {family}"));
        let blocks = self.blocks.then(|| "the default blocks".to_owned());
        let both: Vec<String> = [of(self.v4, "IPv4"), of(self.v6, "IPv6"), blocks]
            .into_iter()
            .flatten()
            .collect();
        write!(f, "IPsec policies ({})", both.join(", "))
    }
}

/// Follows them. Dropped, nobody listens any more.
pub struct PolicyNews {
    counts: watch::Receiver<Policies>,
    _task: Option<Task>,
}

impl PolicyNews {
    /// Counts them, and begins to follow.
    pub async fn begin(watch: &Watch) -> PolicyNews {
        // Listening first: nothing falls in between.
        let listener = match listener() {
            Ok(listener) => Some(listener),
            Err(error) => {
                tracing::debug!("no news of IPsec policies: {error}");
                None
            }
        };
        let now = match (&listener, list().await) {
            (_, Ok(now)) => now,
            (_, Err(error)) => {
                tracing::debug!("the IPsec policies cannot be listed: {error}");
                Policies::default()
            }
        };
        let (tell, counts) = watch::channel(now);
        let task = listener.map(|listener| watch.task("IPsec policies", follow(listener, tell)));
        PolicyNews {
            counts,
            _task: task,
        }
    }

    /// How many there are now.
    pub fn now(&self) -> Policies {
        *self.counts.borrow()
    }

    /// Waits until there are more or fewer. It may be dropped and called again.
    pub async fn changed(&mut self) {
        if self.counts.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn listener() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_XFRM)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
    // What is lost is told by what is there: all are listed again anyway.
    socket.socket_mut().set_no_enobufs(true)?;
    socket.socket_mut().add_membership(XFRMNLGRP_POLICY)?;
    Ok(socket)
}

async fn follow(listener: TokioSocket, tell: watch::Sender<Policies>) -> Result<(), Failure> {
    loop {
        let mut message = Vec::with_capacity(LONGEST);
        if let Err(error) = listener.recv(&mut message).await {
            tracing::warn!("the kernel no longer reports IPsec policies: {error}");
            return Ok(());
        }
        match list().await {
            Ok(now) => {
                tell.send_if_modified(|counts| std::mem::replace(counts, now) != now);
            }
            Err(error) => tracing::debug!("the IPsec policies cannot be listed: {error}"),
        }
    }
}

/// Counts all.
async fn list() -> io::Result<Policies> {
    timeout(PATIENCE, listed()).await?
}

async fn listed() -> io::Result<Policies> {
    let mut counts = Policies {
        blocks: default_blocks().await?,
        ..Policies::default()
    };
    let socket = asked(XFRM_MSG_GETPOLICY, NLM_F_REQUEST_DUMP, POLICY_ID).await?;
    loop {
        let mut messages = Vec::with_capacity(LONGEST);
        socket.recv(&mut messages).await?;
        if messages.is_empty() || count(&messages, &mut counts)? {
            return Ok(counts);
        }
    }
}

/// What becomes of packets for which there is no policy. Linux before 5.14 knows no other than that they pass.
async fn default_blocks() -> io::Result<bool> {
    let socket = asked(XFRM_MSG_GETDEFAULT, NLM_F_REQUEST, DEFAULTS).await?;
    let mut message = Vec::with_capacity(LONGEST);
    socket.recv(&mut message).await?;
    Ok(says_block(&message))
}

fn says_block(message: &[u8]) -> bool {
    let kind = message.get(4..6) == Some(&XFRM_MSG_GETDEFAULT.to_ne_bytes());
    let defaults = message.get(HEADER..HEADER + 3).unwrap_or_default();
    kind && defaults.contains(&XFRM_USERPOLICY_BLOCK)
}

/// A socket that was asked for something, with this many bytes of zeros.
async fn asked(kind: u16, flags: u16, body: usize) -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_XFRM)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
    socket.socket_mut().connect(&SocketAddr::new(0, 0))?;
    let length = u32::try_from(HEADER + body).expect("a short message");
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.resize(HEADER + body, 0);
    socket.send(&request).await?;
    Ok(socket)
}

/// Counts the policies of a datagram. True: it is the last one.
fn count(mut messages: &[u8], counts: &mut Policies) -> io::Result<bool> {
    while messages.len() >= HEADER {
        let half = |at: usize| u16::from_ne_bytes([messages[at], messages[at + 1]]);
        let length = u32::from_ne_bytes([messages[0], messages[1], messages[2], messages[3]]);
        let length = (length as usize).clamp(HEADER, messages.len());
        let body = &messages[HEADER..length];
        match half(4) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = body.get(..4).and_then(|code| code.try_into().ok());
                let code = i32::from_ne_bytes(code.unwrap_or_default());
                return Err(io::Error::from_raw_os_error(-code));
            }
            XFRM_MSG_NEWPOLICY if body.len() > DIRECTION => {
                let family = u16::from_ne_bytes([body[FAMILY], body[FAMILY + 1]]);
                match (body[DIRECTION] < OF_SOCKETS, family) {
                    (true, AF_INET6) => counts.v6 += 1,
                    (true, _) => counts.v4 += 1,
                    (false, _) => {}
                }
            }
            _ => {}
        }
        messages = &messages[length.next_multiple_of(4).min(messages.len())..];
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).expect("a short message");
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn policy(family: u16, direction: u8) -> Vec<u8> {
        let mut body = vec![0; 168];
        body[FAMILY..FAMILY + 2].copy_from_slice(&family.to_ne_bytes());
        body[DIRECTION] = direction;
        message(XFRM_MSG_NEWPOLICY, &body)
    }

    #[test]
    fn a_default_that_blocks_is_a_policy() {
        let says = |kind, defaults: &[u8]| says_block(&message(kind, defaults));
        assert!(says(XFRM_MSG_GETDEFAULT, &[2, 2, 1]));
        assert!(!says(XFRM_MSG_GETDEFAULT, &[2, 2, 2]));
        assert!(!says(NLMSG_ERROR, &(-22i32).to_ne_bytes()));
        assert!(!says_block(&[]));
        let blocks = Policies {
            blocks: true,
            ..Policies::default()
        };
        assert!(blocks.are_some());
        assert_eq!(blocks.to_string(), "IPsec policies (the default blocks)");
    }

    #[test]
    fn policies_of_single_sockets_do_not_count() {
        let mut counts = Policies::default();
        let some = [
            policy(2, 0),
            policy(AF_INET6, 1),
            policy(AF_INET6, 2),
            policy(2, 3),
            policy(2, 4),
        ];
        assert!(!count(&some.concat(), &mut counts).expect("a list"));
        let found = Policies {
            v4: 1,
            v6: 2,
            blocks: false,
        };
        assert_eq!(counts, found);
        assert!(count(&message(NLMSG_DONE, &[0; 4]), &mut counts).expect("its end"));
        let refused = message(NLMSG_ERROR, &(-1i32).to_ne_bytes());
        let error = count(&refused, &mut counts).expect_err("a refusal");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let mut cut = policy(2, 0);
        for length in 0..cut.len() {
            cut.truncate(cut.len() - 1);
            assert!(count(&cut, &mut Policies::default()).is_ok(), "{length}");
        }
    }
}
