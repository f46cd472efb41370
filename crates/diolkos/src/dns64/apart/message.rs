// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeper and process tell each other: JSON, one message each.

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use crate::dns64::tally::NUMBER;
use diolkos_config::Dns64;

/// The longest message, bytes.
pub const LONGEST: usize = 64 << 10;
/// Of a configuration, which may be longer, in one message. JSON at most doubles it.
const PART: usize = LONGEST / 4;

/// What the keeper tells the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The next part of the section `[dns64]`, as JSON; with the last one it comes into force.
    Rules { part: String, is_last: bool },
    /// The prefix that the network says.
    Prefix(Option<Learnt>),
    /// Serve the socket that comes with this message.
    Serve(Transport),
    /// Report when all orders before have been carried out.
    Report(u64),
}

/// How clients ask on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    Udp,
    Tcp,
}

/// A prefix, and how long it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learnt {
    pub prefix: Ipv6Net,
    pub milliseconds: u64,
}

/// What the process tells: the only thing it may say, and only if it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Of the order.
    pub number: u64,
    /// What happened since the process began, in the order of `Fate`.
    pub counts: Vec<u64>,
}

/// The orders that put a configuration into force.
pub fn rules(dns64: &Dns64) -> serde_json::Result<Vec<Order>> {
    let text = serde_json::to_string(dns64)?;
    let mut orders = Vec::new();
    let mut rest = text.as_str();
    loop {
        let most = rest.len().min(PART);
        let end = (0..=most).rev().find(|at| rest.is_char_boundary(*at));
        let (part, left) = rest.split_at(end.unwrap_or(most));
        rest = left;
        orders.push(Order::Rules {
            part: part.to_owned(),
            is_last: rest.is_empty(),
        });
        if rest.is_empty() {
            return Ok(orders);
        }
    }
}

/// Reads what the process says: the counts, if it answers one of the orders from `heard` (without) to `asked`.
pub fn report(bytes: &[u8], heard: u64, asked: u64) -> Option<(u64, [u64; NUMBER])> {
    let Report { number, counts } = serde_json::from_slice(bytes).ok()?;
    let counts: [u64; NUMBER] = counts.try_into().ok()?;
    (heard < number && number <= asked).then_some((number, counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::parse;

    #[test]
    fn a_configuration_arrives_as_it_was_sent() {
        let mut text =
            "[dns64]\nname = \"naïve\"\nupstream = [\"192.0.2.53\", \"[2001:db8::53]:5353\"]\n"
                .to_owned();
        text += "pref64 = [\"2001:db8:64::/96\"]\non_error = \"pass\"\n";
        for n in 0..2000 {
            let (high, low) = (n / 256, n % 256);
            text += &format!("[[dns64.range]]\nv4 = \"10.{high}.{low}.0/24\"\npref64 = [\"2001:db8:{n:x}::/96\"]\n");
        }
        let settings = parse(&text, "x.toml", |_| ()).expect("it is right");
        for dns64 in [settings.dns64.expect("there is one"), Dns64::default()] {
            let orders = rules(&dns64).expect("it is text");
            let mut whole = String::new();
            for (at, order) in orders.iter().enumerate() {
                let bytes = serde_json::to_vec(order).expect("it is text");
                assert!(bytes.len() <= LONGEST, "{}", bytes.len());
                let Ok(Order::Rules { part, is_last }) = serde_json::from_slice(&bytes) else {
                    panic!("it is a part")
                };
                whole += &part;
                assert_eq!(is_last, at + 1 == orders.len());
            }
            assert_eq!(serde_json::from_str::<Dns64>(&whole).ok(), Some(dns64));
        }
    }

    #[test]
    fn only_an_answer_to_a_question_is_a_report() {
        let told = |number, counts: usize| {
            let counts = vec![u64::MAX; counts];
            serde_json::to_vec(&Report { number, counts }).expect("it is text")
        };
        let right = told(3, NUMBER);
        assert!(right.len() <= LONGEST);
        assert!(report(&right, 2, 3).is_some());
        for (bytes, heard, asked) in [
            (right.clone(), 3, 3),
            (right, 0, 2),
            (told(3, NUMBER + 1), 2, 3),
            (told(3, 0), 2, 3),
            (b"{}".to_vec(), 0, 9),
            (b"[1, 2".to_vec(), 0, 9),
            (vec![b'['; 1 << 16], 0, 9),
            (vec![0xff; 9], 0, 9),
        ] {
            assert_eq!(report(&bytes, heard, asked), None);
        }
    }
}
