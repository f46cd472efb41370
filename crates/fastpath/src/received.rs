// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that packets which an interface receives meet one after another (tcx). One that does not pass a packet on keeps
//! it from those behind it.

use libbpf_sys as bpf;

use super::Hook;
use diolkos_sys::bpf::{attached, program_name};

/// A program at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachee {
    /// Its number.
    pub number: u32,
    /// At most 15 bytes. None: this process may not look at it, because it lacks CAP_SYS_ADMIN.
    pub name: Option<String>,
}

/// Those at an interface's ingress, in the order in which packets meet them. None where the kernel has no tcx.
pub fn at_ingress(ifindex: u32) -> Vec<Attachee> {
    named(numbers(ifindex, bpf::BPF_TCX_INGRESS))
}

/// Whether there are any at an interface's egress.
pub fn has_egress(ifindex: u32) -> bool {
    !numbers(ifindex, bpf::BPF_TCX_EGRESS).is_empty()
}

/// Those that packets meet before the one at this hook, which is at the ingress of an interface. Filters on clsact come behind
/// all of them.
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
