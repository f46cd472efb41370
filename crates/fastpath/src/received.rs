// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tcx programs that process received packets of an interface in sequence. A program that does not pass a packet on
//! hides it from those after it.

use libbpf_sys as bpf;

use super::Hook;
use diolkos_sys::bpf::{attached, program_name};

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

/// Returns true if there are programs at the egress of an interface.
pub fn has_egress(ifindex: u32) -> bool {
    !numbers(ifindex, bpf::BPF_TCX_EGRESS).is_empty()
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
    attached(ifindex, attach_type).unwrap_or_default()
}

fn named(numbers: impl IntoIterator<Item = u32>) -> Vec<Attachee> {
    let named = |number| Attachee {
        number,
        name: program_name(number).ok(),
    };
    numbers.into_iter().map(named).collect()
}
