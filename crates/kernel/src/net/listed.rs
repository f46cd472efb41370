// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts objects that the kernel lists by netlink, and counts them again whenever the kernel reports a change.
//!
//! multicast group → each message triggers a new listing → counts
//!
//! On a kernel without the protocol, all counts are 0. Where a list fails otherwise, or changes are no longer reported,
//! [`ListNews::is_known`] says so.

use std::io;
use std::time::Duration;

use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at, Instant};

use diolkos_service::failure::Failure;
use diolkos_service::supervise::{Task, Watch};

/// From linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
/// From asm-generic/errno.h: EINVAL (of nfnetlink without this part), EPROTONOSUPPORT, EOPNOTSUPP.
const MISSING: [i32; 3] = [22, 93, 95];
pub(super) const HEADER: usize = 16;
/// The longest datagram of a list, bytes.
const LONGEST: usize = 1 << 16;
/// Time limit for one list.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time until another listing after one that failed.
const AGAIN: Duration = Duration::from_secs(10);
/// Changes within this time cause a single listing.
const GATHERED: Duration = Duration::from_millis(200);

/// A request for a list, or for one object.
pub struct Question {
    /// The type of the message.
    pub kind: u16,
    /// The message behind its header.
    pub body: Vec<u8>,
}

/// Counts of objects that the kernel lists.
pub trait Listed: Copy + Default + PartialEq + Send + Sync + 'static {
    /// Name for the log.
    const NAME: &'static str;
    /// The netlink protocol.
    const PROTOCOL: isize;
    /// The multicast group that reports changes.
    const GROUP: u32;

    /// Type and body of the request for the list.
    fn request() -> Question;

    /// Type and body of a further request with a single reply, which is counted, too. A kernel that does not know it refuses
    /// it.
    fn question() -> Option<Question> {
        None
    }

    /// Counts one message of the list, or the single reply.
    fn count(&mut self, kind: u16, body: &[u8]);
}

/// Follows the list. The task ends when this is dropped.
pub struct ListNews<L> {
    state: watch::Receiver<State<L>>,
    _task: Option<Task>,
}

/// What the last listing said.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State<L> {
    counts: L,
    /// False if there may be others, because a listing failed or changes are not reported.
    is_known: bool,
}

impl<L: Listed> State<L> {
    /// The state after a further listing. If it failed, the earlier counts stay.
    fn after(self, listed: io::Result<L>) -> State<L> {
        let (counts, is_known) = match listed {
            Ok(counts) => (counts, true),
            Err(error) => {
                tracing::debug!("the {} cannot be listed: {error}", L::NAME);
                match is_missing(&error) {
                    true => (L::default(), true),
                    false => (self.counts, false),
                }
            }
        };
        State { counts, is_known }
    }
}

impl<L: Listed> ListNews<L> {
    /// Counts, and begins to follow.
    pub async fn begin(watch: &Watch) -> ListNews<L> {
        let name = L::NAME;
        // The subscription comes before the first listing, so no change is missed in between.
        let (listener, is_followed) = match listener::<L>() {
            Ok(listener) => (Some(listener), true),
            Err(error) => {
                tracing::debug!("no news of {name}: {error}");
                (None, is_missing(&error))
            }
        };
        let none = State {
            counts: L::default(),
            is_known: true,
        };
        let mut now = none.after(list().await);
        now.is_known &= is_followed;
        let (tell, state) = watch::channel(now);
        let task = listener.map(|listener| watch.task(name, follow(listener, tell)));
        ListNews { state, _task: task }
    }

    /// The current counts.
    pub fn now(&self) -> L {
        self.state.borrow().counts
    }

    /// Returns false if there may be more than the counts say: the last listing failed, or changes are not reported.
    pub fn is_known(&self) -> bool {
        self.state.borrow().is_known
    }

    /// Waits until a count changes, or whether it is known. May be dropped and called again.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns true if the kernel lacks what was asked for, so that there is none of it: the protocol, or the part of it.
fn is_missing(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|number| MISSING.contains(&number))
}

fn listener<L: Listed>() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(L::PROTOCOL)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
    // A lost message does no harm: any message causes a new listing.
    socket.socket_mut().set_no_enobufs(true)?;
    socket.socket_mut().add_membership(L::GROUP)?;
    Ok(socket)
}

async fn follow<L: Listed>(
    listener: TokioSocket,
    tell: watch::Sender<State<L>>,
) -> Result<(), Failure> {
    let name = L::NAME;
    let heard = || async {
        let mut message = Vec::with_capacity(LONGEST);
        listener.recv(&mut message).await
    };
    loop {
        let is_known = tell.borrow().is_known;
        let news = match is_known {
            true => heard().await,
            // When the time is over, it is listed again without news.
            false => timeout(AGAIN, heard()).await.unwrap_or(Ok(())),
        };
        if let Err(error) = news {
            tracing::warn!("the kernel no longer reports {name}: {error}");
            tell.send_modify(|state| state.is_known = false);
            return Ok(());
        }
        let end = Instant::now() + GATHERED;
        while let Ok(Ok(_)) = timeout_at(end, heard()).await {}
        let listed = list().await;
        tell.send_if_modified(|state| {
            let now = state.after(listed);
            std::mem::replace(state, now) != now
        });
    }
}

/// Counts all objects, within the time limit.
async fn list<L: Listed>() -> io::Result<L> {
    timeout(PATIENCE, listed()).await?
}

async fn listed<L: Listed>() -> io::Result<L> {
    let mut counts = L::default();
    if let Some(question) = L::question() {
        let socket = asked(L::PROTOCOL, NLM_F_REQUEST, question).await?;
        let mut answer = Vec::with_capacity(LONGEST);
        socket.recv(&mut answer).await?;
        if let Err(error) = count(&answer, &mut counts) {
            tracing::debug!("{}: {error}", L::NAME);
        }
    }
    let socket = asked(L::PROTOCOL, NLM_F_REQUEST_DUMP, L::request()).await?;
    loop {
        let mut messages = Vec::with_capacity(LONGEST);
        socket.recv(&mut messages).await?;
        if messages.is_empty() || count(&messages, &mut counts)? {
            return Ok(counts);
        }
    }
}

/// A socket on which a request has been sent.
async fn asked(
    protocol: isize,
    flags: u16,
    Question { kind, body }: Question,
) -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(protocol)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
    socket.socket_mut().connect(&SocketAddr::new(0, 0))?;
    let length = u32::try_from(HEADER + body.len()).expect("a short message");
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.resize(HEADER, 0);
    request.extend(body);
    socket.send(&request).await?;
    Ok(socket)
}

/// Counts the objects in a datagram. Returns true if it is the last one.
pub(super) fn count<L: Listed>(mut messages: &[u8], counts: &mut L) -> io::Result<bool> {
    while messages.len() >= HEADER {
        let length = u32::from_ne_bytes([messages[0], messages[1], messages[2], messages[3]]);
        let length = (length as usize).clamp(HEADER, messages.len());
        let body = &messages[HEADER..length];
        match u16::from_ne_bytes([messages[4], messages[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = body.get(..4).and_then(|code| code.try_into().ok());
                let code = i32::from_ne_bytes(code.unwrap_or_default());
                return Err(io::Error::from_raw_os_error(-code));
            }
            kind => counts.count(kind, body),
        }
        messages = &messages[length.next_multiple_of(4).min(messages.len())..];
    }
    Ok(false)
}

/// Messages in the kernel's format.
#[cfg(test)]
pub(super) mod written {
    use super::HEADER;

    /// A whole message, padded.
    pub fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).expect("a short message");
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::written::message;
    use super::*;

    #[derive(Clone, Copy, Default, PartialEq, Debug)]
    struct Bytes(usize);

    impl Listed for Bytes {
        const NAME: &'static str = "bytes";
        const PROTOCOL: isize = 0;
        const GROUP: u32 = 0;

        fn request() -> Question {
            Question {
                kind: 0,
                body: Vec::new(),
            }
        }

        fn count(&mut self, _: u16, body: &[u8]) {
            self.0 += body.len();
        }
    }

    #[test]
    fn what_the_kernel_lacks_is_not_unknown() {
        for number in MISSING {
            assert!(is_missing(&io::Error::from_raw_os_error(number)));
        }
        let (not_permitted, too_late) = (1, 110);
        for number in [not_permitted, too_late] {
            assert!(!is_missing(&io::Error::from_raw_os_error(number)));
        }
        assert!(!is_missing(&io::Error::from(io::ErrorKind::TimedOut)));
    }

    #[test]
    fn a_listing_that_fails_later_makes_the_counts_unknown_until_another_succeeds() {
        let before = State {
            counts: Bytes(3),
            is_known: true,
        };
        let error = |number| Err(io::Error::from_raw_os_error(number));
        let (not_permitted, not_supported) = (1, 93);
        let failed = before.after(error(not_permitted));
        let unknown = State {
            is_known: false,
            ..before
        };
        assert_eq!(failed, unknown);
        let counts = Bytes(0);
        let none = State {
            counts,
            is_known: true,
        };
        assert_eq!(failed.after(Ok(counts)), none);
        assert_eq!(failed.after(error(not_supported)), none);
    }

    #[test]
    fn a_list_ends_with_its_end_or_an_error() {
        let mut counts = Bytes::default();
        let some = [message(16, &[0; 3]), message(17, &[0; 4])].concat();
        assert!(!count(&some, &mut counts).expect("a list"));
        assert_eq!(counts, Bytes(7));
        assert!(count(&message(NLMSG_DONE, &[0; 4]), &mut counts).expect("its end"));
        let refused = message(NLMSG_ERROR, &(-1i32).to_ne_bytes());
        let error = count(&refused, &mut counts).expect_err("a refusal");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        for length in 0..some.len() {
            assert!(
                count(&some[..length], &mut Bytes::default()).is_ok(),
                "{length}"
            );
        }
    }
}
