// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages for netfilter and the kernel's replies (linux/netlink.h, linux/netfilter/nfnetlink.h).

use std::io;

// linux/netlink.h
const NLM_F_REQUEST: u16 = 0x1;
pub(in super::super) const NLM_F_ACK: u16 = 0x4;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;
pub(super) const NLM_F_APPEND: u16 = 0x800;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;
const NLA_TYPE_MASK: u16 = 0x3fff;
/// struct nlmsghdr, bytes.
const HEADER: usize = 16;
// linux/netfilter/nfnetlink.h
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
// linux/netfilter.h
const NFPROTO_UNSPEC: u8 = 0;

/// The family of a table (linux/netfilter.h).
#[derive(Clone, Copy)]
pub enum Family {
    /// `NFPROTO_IPV4`
    Ipv4 = 2,
    /// `NFPROTO_IPV6`
    Ipv6 = 10,
}

/// A message, and the kernel feature that it needs.
pub struct Message {
    pub kind: u16,
    pub flags: u16,
    pub attributes: Vec<u8>,
    pub needs: &'static str,
}

/// One message: struct nlmsghdr, struct nfgenmsg, attributes.
pub fn message(kind: u16, flags: u16, family: u8, sequence: u32, attributes: &[u8]) -> Vec<u8> {
    written(kind, flags, family, 0, sequence, attributes)
}

fn written(
    kind: u16,
    flags: u16,
    family: u8,
    resource: u16,
    sequence: u32,
    attributes: &[u8],
) -> Vec<u8> {
    // A message has a few hundred bytes at most.
    let len = (HEADER + 4 + attributes.len()) as u32;
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(attributes);
    bytes
}

/// Joins messages into one batch: the kernel carries out everything between the begin and the end message as a whole. It
/// answers the last message, and those that it refuses: an answer to each could be more than a socket keeps.
pub(super) fn batch(of: Family, messages: &[Message], sequence: &mut u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |kind: u16, flags: u16, family: u8, resource: u16, attributes: &[u8]| {
        bytes.extend(written(
            kind, flags, family, resource, *sequence, attributes,
        ));
        *sequence = sequence.wrapping_add(1);
    };
    add(
        NFNL_MSG_BATCH_BEGIN,
        0,
        NFPROTO_UNSPEC,
        NFNL_SUBSYS_NFTABLES,
        &[],
    );
    for (at, message) in messages.iter().enumerate() {
        let kind = NFNL_SUBSYS_NFTABLES << 8 | message.kind;
        let is_last = at + 1 == messages.len();
        let flags = message.flags | if is_last { NLM_F_ACK } else { 0 };
        add(kind, flags, of as u8, 0, &message.attributes);
    }
    add(
        NFNL_MSG_BATCH_END,
        0,
        NFPROTO_UNSPEC,
        NFNL_SUBSYS_NFTABLES,
        &[],
    );
    bytes
}

/// The messages that were received, each with its type and what follows struct nlmsghdr.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    framed(bytes).map(|message| {
        (
            u16::from_ne_bytes([message[4], message[5]]),
            &message[HEADER..],
        )
    })
}

/// Messages that are whole, with their headers.
fn framed(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = word(bytes)? as usize;
        let message = bytes.get(..len).filter(|its| its.len() >= HEADER + 4)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

fn word(at: &[u8]) -> Option<u32> {
    at.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// Attributes, each with its type and value. They end where one is not whole.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = *bytes.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & NLA_TYPE_MASK, value))
    })
}

/// The results in the kernel's replies, by sequence number; error number 0 means success.
pub(super) fn read(bytes: &[u8]) -> Vec<(u32, io::Error)> {
    let result = |message: &[u8]| {
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let (sequence, code) = (word(&message[8..])?, word(&message[HEADER..])?);
        let code = code.cast_signed().wrapping_neg();
        (kind == NLMSG_ERROR).then(|| (sequence, io::Error::from_raw_os_error(code)))
    };
    framed(bytes).filter_map(result).collect()
}

pub fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = (4 + value.len()) as u16;
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

pub fn text(bytes: &mut Vec<u8>, kind: u16, value: &str) {
    attribute(bytes, kind, &[value.as_bytes(), &[0]].concat());
}

pub fn number(bytes: &mut Vec<u8>, kind: u16, value: u32) {
    attribute(bytes, kind, &value.to_be_bytes());
}

pub fn nest(bytes: &mut Vec<u8>, kind: u16, inner: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    inner(&mut value);
    attribute(bytes, kind | NLA_F_NESTED, &value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_say_their_length() {
        let mut bytes = Vec::new();
        nest(&mut bytes, 4, |inner| {
            text(inner, 1, "nat");
            number(inner, 2, 100);
        });
        let len = |len: u16| len.to_ne_bytes();
        let expected = [
            &len(20)[..],
            &(NLA_F_NESTED | 4).to_ne_bytes(),
            &len(8),
            &1u16.to_ne_bytes(),
            b"nat\0",
            &len(8),
            &2u16.to_ne_bytes(),
            &[0, 0, 0, 100],
        ];
        assert_eq!(bytes, expected.concat());
        let mut odd = Vec::new();
        text(&mut odd, 1, "masq");
        assert_eq!((odd.len(), odd[0]), (12, 9));
    }

    /// 600 answers would not fit the buffer of a socket, and the kernel would say ENOBUFS of what it has carried out.
    #[test]
    fn the_kernel_answers_the_last_message_of_a_batch() {
        let of_one = || Message {
            kind: 6,
            flags: NLM_F_CREATE,
            attributes: Vec::new(),
            needs: "",
        };
        let all: Vec<Message> = (0..600).map(|_| of_one()).collect();
        let batch = batch(Family::Ipv4, &all, &mut 0);
        let flags = |message: &[u8]| u16::from_ne_bytes([message[6], message[7]]);
        let asks: Vec<bool> = framed(&batch).map(|m| flags(m) & NLM_F_ACK != 0).collect();
        let at: Vec<usize> = (0..asks.len()).filter(|at| asks[*at]).collect();
        assert_eq!((asks.len(), at), (602, vec![600]));
    }

    #[test]
    fn the_kernels_answers_are_read() {
        let mut bytes = Vec::new();
        for (sequence, code) in [(3u32, 0i32), (4, -2)] {
            bytes.extend(36u32.to_ne_bytes());
            bytes.extend(NLMSG_ERROR.to_ne_bytes());
            bytes.extend([0; 2]);
            bytes.extend(sequence.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(code.to_ne_bytes());
            bytes.extend([0; 16]);
        }
        let numbers = |(sequence, error): (u32, io::Error)| (sequence, error.raw_os_error());
        let answers: Vec<_> = read(&bytes).into_iter().map(numbers).collect();
        assert_eq!(answers, [(3, Some(0)), (4, Some(2))]);
        for cut in 0..bytes.len() {
            read(&bytes[..cut]);
        }
    }
}
