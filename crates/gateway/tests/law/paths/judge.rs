// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The law: what the fast path may do with a packet, given what the slow path does with it.
//!
//! counted once? → translated: as the slow path does; declined: as it was, and handed over

use super::slow::Outcome;
use crate::fate::Fate;
use crate::input::{Input, Way};
use crate::setup::Setup;
use diolkos_fastpath::testrun::{Action, Run};
use diolkos_fastpath::Count;
use diolkos_xlat::Verdict;

/// Returns the fate of the packet; fails with a description of what is broken.
pub fn judge(setup: &Setup, given: &Input, fast: &Run, slow: &Outcome) -> Result<Fate, String> {
    let Outcome::Done {
        verdict,
        sent,
        offload: slow_offload,
        packet,
        ipv4_ids,
        moved,
        clamped,
    } = slow
    else {
        return Err("the slow path panics".into());
    };
    let once = Count {
        packets: 1,
        bytes: given.bytes.len() as u64,
    };
    let untouched = fast.packet == given.bytes;
    let fates = match fast.fates[..] {
        [_, ("mss_clamped", count)] if count == once && *clamped => &fast.fates[..1],
        [_, ("mss_clamped", _)] => return Err("a SYN is counted that is not lowered".into()),
        [(name, _)] if *clamped && name.starts_with("translated_") => {
            return Err("a SYN is lowered and not counted".into());
        }
        ref fates => fates,
    };
    let fate = match *fates {
        [] => {
            // A packet socket answers requests for the CLAT's address; all other packets for it belong to the
            // CLAT.
            let to = given.bytes.get(24..40);
            let asks = given.bytes.get(6) == Some(&58) && given.bytes.get(40) == Some(&135);
            let ours = match (setup.config.clat, given.way) {
                (true, Way::SixToFour) => to == Some(&setup.near(0, 0).1.octets()) && !asks,
                _ => true,
            };
            if ours || fast.action != Action::Next || !untouched {
                return Err("a packet for the translator is neither counted nor left to it".into());
            }
            return Ok(Fate::PassedBy);
        }
        [(fate, count)] if count == once => fate,
        _ => return Err("it is not counted once, with its length".into()),
    };
    match (fate, given.way) {
        ("translated_4to6", Way::FourToSix) | ("translated_6to4", Way::SixToFour) => {
            if fast.action != Action::Redirect {
                return Err("a translated packet is not sent on".into());
            }
            if (*verdict, *sent, *slow_offload) != (Verdict::Forward, 0, given.offload()) {
                return Err("the fast path translates what the slow path does not".into());
            }
            if fast.packet != *packet {
                let at = packet.iter().zip(&fast.packet).position(|(a, b)| a != b);
                return Err(format!(
                    "they translate differently, from byte {} on",
                    at.unwrap_or(packet.len().min(fast.packet.len()))
                ));
            }
            if let Some(moved) = moved.filter(|moved| moved.after != moved.due) {
                return Err(format!(
                    "the tables do not hear of the segment what they would see: {moved:?}"
                ));
            }
            if fast.ipv4_ids != u32::from(*ipv4_ids) {
                return Err(format!(
                    "they take different numbers of identifications: {} and {ipv4_ids}",
                    fast.ipv4_ids
                ));
            }
            Ok(Fate::Translated)
        }
        (name, way) if name.starts_with("decline_") => {
            let handed_over = match (setup.config.clat, way) {
                (true, Way::SixToFour) => Action::Redirect,
                _ => Action::Next,
            };
            if !untouched || fast.action != handed_over {
                return Err("a declined packet does not reach the slow path as it was".into());
            }
            if let Some(moved) = moved.filter(|moved| moved.after != moved.before) {
                return Err(format!("a declined segment is told: {moved:?}"));
            }
            Ok(Fate::Declined(name))
        }
        (name, Way::FourToSix) if name.starts_with("drop_") => {
            if fast.action != Action::Drop || !untouched {
                return Err("a dropped packet is not dropped, or changed".into());
            }
            match verdict {
                Verdict::Drop(reason) if name.strip_prefix("drop_") == Some(reason.name()) => {}
                _ => return Err("the fast path drops what the slow path does not".into()),
            }
            if let Some(moved) = moved.filter(|moved| moved.after != moved.before) {
                return Err(format!(
                    "the controller is told of a dropped segment: {moved:?}"
                ));
            }
            Ok(Fate::Dropped(name))
        }
        _ => Err("the fast path loses a packet".into()),
    }
}
