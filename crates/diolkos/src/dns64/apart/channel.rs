// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel between keeper and process: a pair of sockets that keep messages apart. Sockets that listen travel with them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    recv, recvmsg, sendmsg, socketpair, sockopt, AddressFamily, RecvAncillaryBuffer,
    RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType,
};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::message::LONGEST;
use diolkos_service::failure::Failure;

/// One end.
pub struct Channel {
    socket: UnixDatagram,
    /// For what is read; a message is as long as this at most.
    buffer: Vec<u8>,
}

/// Both ends. Neither is passed on to other programs by itself.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// The end of the process, which is its standard input.
pub fn standard_input() -> Result<OwnedFd, Failure> {
    let end = io::stdin().as_fd().try_clone_to_owned();
    let end = end.map_err(|e| Failure::run_time(format!("the standard input is closed: {e}")))?;
    match sockopt::socket_type(&end) {
        Ok(SocketType::SEQPACKET) => Ok(end),
        _ => Err(Failure::usage(
            "diolkos starts this process itself, for a DNS64 beside a translator: write `diolkos run --config FILE`",
        )),
    }
}

impl Channel {
    /// Takes an end that does not block. Called in a runtime.
    pub fn new(end: OwnedFd) -> io::Result<Channel> {
        Ok(Channel {
            // Messages of a pair with connections (SOCK_SEQPACKET) are read and written as datagrams are.
            socket: UnixDatagram::from_std(end.into())?,
            buffer: vec![0; LONGEST],
        })
    }

    /// Waits until the other end has room. May be dropped at any time; then nothing is sent.
    pub async fn send(&self, message: &[u8], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let send = || {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            let sockets = with.as_slice();
            if !sockets.is_empty() {
                beside.push(SendAncillaryMessage::ScmRights(sockets));
            }
            let sent = sendmsg(
                &self.socket,
                &[IoSlice::new(message)],
                &mut beside,
                SendFlags::NOSIGNAL,
            );
            Ok(sent.map(drop)?)
        };
        self.socket.async_io(Interest::WRITABLE, send).await
    }

    /// The next message; None when the other end is closed. Descriptors that come with it are closed by the kernel.
    pub async fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let Channel { socket, buffer } = self;
        let receive = || Ok(recv(&*socket, &mut buffer[..], RecvFlags::TRUNC)?.1);
        let length = socket.async_io(Interest::READABLE, receive).await?;
        message(buffer, length)
    }

    /// The same, with the descriptor that came with it.
    pub async fn receive_with(&mut self) -> io::Result<Option<(&[u8], Option<OwnedFd>)>> {
        let Channel { socket, buffer } = self;
        let mut with = None;
        let receive = || {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::TRUNC;
            let length = recvmsg(&*socket, &mut slices, &mut beside, flags)?.bytes;
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(mut sockets) = message {
                    with = sockets.next();
                }
            }
            Ok(length)
        };
        let length = socket.async_io(Interest::READABLE, receive).await?;
        Ok(message(buffer, length)?.map(|message| (message, with)))
    }
}

fn message(buffer: &[u8], length: usize) -> io::Result<Option<&[u8]>> {
    match buffer.get(..length) {
        Some([]) => Ok(None),
        Some(message) => Ok(Some(message)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn channels() -> (Channel, Channel) {
        let (one, other) = pair().expect("a pair");
        let channel = |end| Channel::new(end).expect("it does not block");
        (channel(one), channel(other))
    }

    #[tokio::test]
    async fn a_socket_travels_with_its_message() {
        let (here, mut there) = channels();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let before = socket.local_addr().expect("an address");
        let sent = here.send(b"serve", Some(socket.as_fd())).await;
        sent.expect("there is room");
        here.send(b"report", None).await.expect("there is room");
        drop(socket);
        let (message, with) = there.receive_with().await.expect("it is read").expect("it");
        assert_eq!(message, b"serve");
        let socket = UdpSocket::from(with.expect("a socket"));
        assert_eq!(socket.local_addr().expect("an address"), before);
        let (message, with) = there.receive_with().await.expect("it is read").expect("it");
        assert_eq!((message, with.is_none()), (&b"report"[..], true));
        drop(here);
        assert!(there.receive_with().await.expect("the end").is_none());
    }

    #[tokio::test]
    async fn the_keeper_takes_neither_descriptors_nor_long_messages() {
        let (mut keeper, process) = channels();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let open = || {
            std::fs::read_dir("/proc/self/fd")
                .expect("proc is there")
                .count()
        };
        let sent = process.send(b"take this", Some(socket.as_fd())).await;
        sent.expect("there is room");
        let before = open();
        let message = keeper.receive().await.expect("it is read").expect("it");
        assert_eq!(message, b"take this");
        assert!(open() <= before, "nothing was opened here");
        let long = vec![b'1'; LONGEST + 1];
        process.send(&long, None).await.expect("there is room");
        assert!(keeper.receive().await.is_err());
    }
}
