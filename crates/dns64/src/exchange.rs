// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A question to upstream on the wire, and whether a datagram is its answer (RFC 5452).

use hickory_proto::op::{MessageType, OpCode};

use crate::answer::put_opt;
use crate::query::DO;
use crate::resolution::Ask;
use crate::wire::{Message, HEADER};

/// Writes the question. RD and AD are set (RFC 6840 section 5.7); `udp_size` is the longest datagram that we take.
pub fn write(ask: &Ask, id: u16, udp_size: u16, out: &mut Vec<u8>) {
    const RD: u8 = 0x01;
    const AD: u8 = 0x20;
    const CD: u8 = 0x10;
    out.clear();
    out.extend_from_slice(&id.to_be_bytes());
    out.push(RD);
    out.push(AD | if ask.checking_disabled { CD } else { 0 });
    out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 1]);
    for label in ask.question.name.iter() {
        out.push(label.len() as u8); // at most 63
        out.extend_from_slice(label);
    }
    out.push(0);
    out.extend_from_slice(&u16::from(ask.question.rtype).to_be_bytes());
    out.extend_from_slice(&u16::from(ask.question.class).to_be_bytes());
    put_opt(out, udp_size, if ask.dnssec_ok { DO } else { 0 });
}

/// The identification that a datagram claims.
pub fn id(bytes: &[u8]) -> Option<u16> {
    bytes.get(..HEADER)?;
    Some(u16::from_be_bytes(*bytes.first_chunk()?))
}

/// Is it a response to this question? Address, port and identification are looked at by who received it.
pub fn answers(ask: &Ask, message: &Message<'_>) -> bool {
    let header = &message.header;
    header.message_type() == MessageType::Response
        && header.op_code() == OpCode::Query
        && message.question.as_ref() == Some(&ask.question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, name, query, reply};
    use crate::wire::Question;
    use hickory_proto::rr::RecordType;

    fn ask() -> Ask {
        Ask {
            question: Question::internet(name("a.example"), RecordType::AAAA),
            dnssec_ok: true,
            checking_disabled: true,
        }
    }

    #[test]
    fn the_question_on_the_wire() {
        let mut out = Vec::new();
        write(&ask(), 0x1234, 1232, &mut out);
        let expected = "1234 0130 0001 0000 0000 0001 01 61 07 6578616d706c65 00 001c 0001 \
             00 0029 04d0 00008000 0000";
        assert_eq!(out, bytes(expected));
        assert_eq!(id(&out), Some(0x1234));
        assert_eq!(id(&out[..11]), None);
    }

    #[test]
    fn only_a_response_with_the_question_is_an_answer() {
        let says = |bytes: &[u8]| answers(&ask(), &Message::parse(bytes).expect("a message"));
        assert!(says(&reply("A.example", 28, 0, [&[], &[], &[]])));
        assert!(!says(&reply("b.example", 28, 0, [&[], &[], &[]])));
        assert!(!says(&reply("a.example", 1, 0, [&[], &[], &[]])));
        assert!(!says(&query("a.example", 28, 0x0100, None)));
        assert!(
            !says(&bytes("0000 8180 0000 0000 0000 0000")),
            "no question"
        );
    }
}
