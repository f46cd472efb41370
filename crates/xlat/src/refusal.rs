// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The refusal of a packet: the reason, and the answer that its sender gets.

use crate::icmp::Answer;
use crate::verdict::Reason;

/// The reason for which a packet is not translated, and the answer to its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The drop reason.
    pub reason: Reason,
    /// The answer to the sender. Only packets that are still as they were received are answered.
    pub answer: Answer,
}

impl From<Reason> for Refusal {
    /// The default answer of a reason. Valid packets that cannot be translated are answered with
    /// "communication administratively prohibited" (RFC 7915 sections 4.4 and 5.4). Malformed packets, and
    /// packets that an RFC drops silently, are not answered.
    fn from(reason: Reason) -> Refusal {
        let answer = match reason {
            Reason::SourceUnmapped
            | Reason::DestinationUnmapped
            | Reason::NotGlobalWithWkp
            | Reason::UdpZeroChecksum
            | Reason::FragmentUdpZeroChecksum
            | Reason::FragmentExtension
            | Reason::FragmentIcmp => Answer::Prohibited,
            // The answer of a router that has no route (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1).
            Reason::DestinationLoops => Answer::AddressUnreachable,
            _ => Answer::Silence,
        };
        Refusal { reason, answer }
    }
}

impl Reason {
    /// Creates a refusal for this reason with this answer to the sender.
    pub fn answered(self, answer: Answer) -> Refusal {
        Refusal {
            reason: self,
            answer,
        }
    }
}
