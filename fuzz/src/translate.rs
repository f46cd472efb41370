// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One packet through the whole translator, under a configuration and with the offloads of a device.
//!
//! setting | checksum and segmentation | size of a segment, two bytes | packet

use crate::input::Input;
use crate::{judge, seeds, setting};
use diolkos_xlat::{Checksum, Gso, GsoKind, Offload, Translator};

const PARTIAL: u8 = 1;
const TCP: u8 = 2;
const UDP: u8 = 4;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = setting::config(&mut input);
    let Ok(translator) = Translator::new(&config) else {
        return;
    };
    let offload = offload(&mut input);
    judge::judge(&config, &translator, input.0, offload);
}

fn offload(input: &mut Input<'_>) -> Offload {
    let has = input.byte();
    let size = input.word();
    let kind = match has {
        _ if has & TCP != 0 => Some(GsoKind::Tcp),
        _ if has & UDP != 0 => Some(GsoKind::Udp),
        _ => None,
    };
    Offload {
        checksum: match has & PARTIAL {
            0 => Checksum::Complete,
            _ => Checksum::Partial,
        },
        gso: kind.map(|kind| Gso { kind, size }),
        ..Offload::default()
    }
}

/// Every vector as it is.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let packets = seeds::packets().into_iter();
    packets
        .map(|(name, config, packet)| {
            (
                name,
                [&setting::bytes(&config)[..], &[0; 3], &packet].concat(),
            )
        })
        .collect()
}
