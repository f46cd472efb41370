// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slices of each address of a pool, as the program that forwards to other nodes has them.

use diolkos_core::slice::Slices;
use diolkos_sys::fastpath::SteerAddress;

/// All addresses. The slices of each follow each other and have one size, except the last: other pools are not cut.
pub fn addresses(slices: &Slices) -> Vec<SteerAddress> {
    let mut addresses: Vec<SteerAddress> = Vec::new();
    for (id, slice) in (0..).map_while(|id| Some((id, slices.get(id)?))) {
        match addresses.last_mut().filter(|last| last.addr == slice.addr) {
            Some(last) => {
                last.slices.1 += 1;
                last.ports = *last.ports.start()..=*slice.ports.end();
            }
            None => addresses.push(SteerAddress {
                addr: slice.addr,
                slices: (id, 1),
                ports: slice.ports.clone(),
                size: slice.bounds().1,
            }),
        }
    }
    addresses
}
