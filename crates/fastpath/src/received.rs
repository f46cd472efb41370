// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tcx programs that process received packets of an interface in sequence. A program that does not pass a packet on
//! hides it from those after it.

use std::io;

use libbpf_sys as bpf;

use super::Hook;
use diolkos_sys::bpf::{attached, program_name};

/// The programs in `bpf/` for the ingress of interfaces.
const OUR_INGRESS: [&str; 6] = [
    "answer_ingress",
    "nat64_ingress",
    "nat64_ingress_raw",
    "siit_ingress",
    "siit_ingress_raw",
    "uplink_ingress",
];
/// So many bytes of a name the kernel keeps.
const NAME: usize = 15;
/// From asm-generic/errno.h: what the kernel says that has no tcx (before 6.6).
const EINVAL: i32 = 22;
/// What it says of an interface that is gone.
const ENODEV: i32 = 19;

/// A program at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachee {
    /// Its ID.
    pub number: u32,
    /// At most 15 bytes. None if this process may not read it, because it lacks CAP_SYS_ADMIN.
    pub name: Option<String>,
}

/// The programs at the ingress of an interface, in order of execution. Empty if the kernel has no tcx.
pub fn at_ingress(ifindex: u32) -> Vec<Attachee> {
    named(numbers(ifindex, bpf::BPF_TCX_INGRESS))
}

/// Returns true if there are programs at the egress of an interface. An error means that there may be some.
pub fn has_egress(ifindex: u32) -> io::Result<bool> {
    Ok(!listed(ifindex, bpf::BPF_TCX_EGRESS)?.is_empty())
}

/// Returns true if programs that are not of this project are at the ingress of an interface. One whose name this process may not
/// read counts. An error means that there may be some.
pub fn has_others_ingress(ifindex: u32) -> io::Result<bool> {
    let all = named(listed(ifindex, bpf::BPF_TCX_INGRESS)?);
    Ok(all.iter().any(is_others))
}

fn is_others(program: &Attachee) -> bool {
    let is_ours = |name: &String| {
        let mut names = OUR_INGRESS.iter();
        names.any(|own| own[..own.len().min(NAME)] == **name)
    };
    !program.name.as_ref().is_some_and(is_ours)
}

/// The programs that run before the one at this hook, which is at the ingress of an interface. Filters on clsact run
/// after all of them.
pub(super) fn before(hook: &Hook) -> Vec<Attachee> {
    let own = hook.is_link().then(|| hook.program().ok()).flatten();
    let (ifindex, _) = hook.place();
    let numbers = numbers(ifindex, bpf::BPF_TCX_INGRESS).into_iter();
    named(numbers.take_while(|number| Some(*number) != own))
}

fn numbers(ifindex: u32, attach_type: bpf::bpf_attach_type) -> Vec<u32> {
    listed(ifindex, attach_type).unwrap_or_default()
}

/// Without tcx, or without the interface, there are none.
fn listed(ifindex: u32, attach_type: bpf::bpf_attach_type) -> io::Result<Vec<u32>> {
    match attached(ifindex, attach_type) {
        Err(error) if matches!(error.raw_os_error(), Some(EINVAL | ENODEV)) => Ok(Vec::new()),
        listed => listed,
    }
}

fn named(numbers: impl IntoIterator<Item = u32>) -> Vec<Attachee> {
    let named = |number| Attachee {
        number,
        name: program_name(number).ok(),
    };
    numbers.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_ours_or_has_no_name_is_of_others() {
        let is = |name: Option<&str>| {
            is_others(&Attachee {
                number: 1,
                name: name.map(str::to_owned),
            })
        };
        assert!(!is(Some("siit_ingress")) && !is(Some("nat64_ingress_r")));
        assert!(is(None) && is(Some("cil_from_netdev")) && is(Some("siit")) && is(Some("")));
    }
}
