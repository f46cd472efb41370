// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes questions to upstream, and checks whether a datagram answers one (RFC 5452).

use domain::base::iana::Opcode;
use domain::base::message_builder::PushError;
use domain::base::MessageBuilder;

use crate::resolution::Ask;
use crate::wire::{Message, HEADER};

/// The length of an encrypted question is a multiple of this, bytes (RFC 8467 section 4.1).
pub const BLOCK: usize = 128;

/// Writes the question. RD and AD are set (RFC 6840 section 5.7); `udp_size` is the longest datagram in bytes that
/// this server accepts.
pub fn write(ask: &Ask, id: u16, udp_size: u16, out: &mut Vec<u8>) {
    // A question is never too long for a message.
    let written = try_write(ask, id, udp_size, None, out);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// As [`write`], and makes the length a multiple of [`BLOCK`] bytes, so that the length of an encrypted question does not tell the
/// name.
pub fn write_padded(ask: &Ask, id: u16, udp_size: u16, out: &mut Vec<u8>) {
    let mut written = try_write(ask, id, udp_size, Some(0), out);
    let missing = out.len().next_multiple_of(BLOCK) - out.len();
    // Less than a block.
    written = written.and_then(|()| try_write(ask, id, udp_size, Some(missing as u16), out));
    debug_assert!(written.is_ok(), "{written:?}");
}

/// `padding`: the bytes of the option for padding (RFC 7830), if there is one.
fn try_write(
    ask: &Ask,
    id: u16,
    udp_size: u16,
    padding: Option<u16>,
    out: &mut Vec<u8>,
) -> Result<(), PushError> {
    out.clear();
    let mut builder = MessageBuilder::from_target(out)?;
    let header = builder.header_mut();
    header.set_id(id);
    header.set_rd(true);
    header.set_ad(true);
    header.set_cd(ask.checking_disabled);
    let mut builder = builder.question();
    builder.push(&ask.question)?;
    builder.additional().opt(|opt| {
        opt.set_udp_payload_size(udp_size);
        opt.set_dnssec_ok(ask.dnssec_ok);
        padding.map_or(Ok(()), |bytes| opt.padding(bytes))
    })
}

/// The identification of a datagram.
pub fn id(bytes: &[u8]) -> Option<u16> {
    bytes.get(..HEADER)?;
    Some(u16::from_be_bytes(*bytes.first_chunk()?))
}

/// Returns true if a message is a response to this question. The caller checks address, port and identification.
pub fn answers(ask: &Ask, message: &Message<'_>) -> bool {
    message.header.qr()
        && message.header.opcode() == Opcode::QUERY
        && message.question.as_ref() == Some(&ask.question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, name, query, reply};
    use crate::wire::{Question, Rtype};

    fn ask() -> Ask {
        Ask {
            question: Question::new_in(name("a.example"), Rtype::AAAA),
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
    fn a_padded_question_has_whole_blocks() {
        let mut plain = Vec::new();
        write(&ask(), 0x1234, 1232, &mut plain);
        let mut out = Vec::new();
        write_padded(&ask(), 0x1234, 1232, &mut out);
        assert_eq!(out.len(), BLOCK);
        // All but the length of the options is the same, and zeros follow (RFC 7830 section 3).
        let head = plain.len() - 2;
        assert_eq!(out[..head], plain[..head]);
        assert_eq!(out[head..head + 6], bytes("005a 000c 0056"));
        assert!(out[head + 6..].iter().all(|&byte| byte == 0));
        for length in 1..240 {
            let label = |at: usize| "x".repeat((length - at).min(49));
            let labels: Vec<String> = (0..length).step_by(50).map(label).collect();
            let labels: Vec<&str> = labels
                .iter()
                .map(String::as_str)
                .filter(|l| !l.is_empty())
                .collect();
            let question = Question::new_in(name(&labels.join(".")), Rtype::AAAA);
            write_padded(&Ask { question, ..ask() }, 1, 1232, &mut out);
            assert_eq!(out.len() % BLOCK, 0, "{length}");
            assert!(Message::parse(&out).is_ok());
        }
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
