// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds where the running kernel counts changes of its routing, and stores the data that makes routes depend on ports, for
//! the programs that need it (`bpf/routing.h`).

use libbpf_rs::btf::types::{Composite, Int, MemberAttr};
use libbpf_rs::btf::{Btf, BtfType, TypeId};

/// The layout; see `struct diolkos_namespace_layout` in `bpf/abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) device_of_packet: u32,
    pub(crate) rxq_of_frame: u32,
    pub(crate) device_of_rxq: u32,
    pub(crate) of_device: u32,
    pub(crate) port_rules4: u32,
    pub(crate) port_rules6: u32,
    pub(crate) hash_policy4: u32,
    pub(crate) hash_policy6: u32,
    pub(crate) changes4: u32,
    pub(crate) changes6: u32,
    pub(crate) statistics6: u32,
    pub(crate) removed6: u32,
    pub(crate) rules6: u32,
    pub(crate) rule_changes6: u32,
}

/// Returns None if the kernel has another layout. The programs then assume that ports matter, and use routes only in the
/// tick of the kernel's clock in which they have looked them up.
pub(super) fn find(kernel: &Btf<'_>) -> Option<Layout> {
    let within = |name: &str| kernel.type_by_name::<Composite<'_>>(name);
    let pointer = |of: &str, member: &str| Some(place(kernel, &within(of)?, member)?.0);
    let follow = |of: &str, path: &[&str]| {
        let (mut at, mut inside) = (0, within(of)?);
        let (last, above) = path.split_last()?;
        for member in above {
            let (offset, id) = place(kernel, &inside, member)?;
            let found: BtfType<'_> = kernel.type_by_id(id)?;
            at += offset;
            inside = Composite::try_from(found.skip_mods_and_typedefs()).ok()?;
        }
        let (offset, id) = place(kernel, &inside, last)?;
        Some((at + offset, kernel.type_by_id::<BtfType<'_>>(id)?))
    };
    let integer = |of: &str, path: &[&str], bits: u8| {
        let (at, value) = follow(of, path)?;
        let value = Int::try_from(value.skip_mods_and_typedefs()).ok()?;
        (value.bits == bits).then_some(at)
    };
    Some(Layout {
        device_of_packet: pointer("sk_buff", "dev")?,
        rxq_of_frame: pointer("xdp_buff", "rxq")?,
        device_of_rxq: pointer("xdp_rxq_info", "dev")?,
        // Empty in a kernel without network namespaces.
        of_device: follow("net_device", &["nd_net", "net"])?.0,
        port_rules4: integer("net", &["ipv4", "fib_rules_require_fldissect"], 32)?,
        port_rules6: integer("net", &["ipv6", "fib6_rules_require_fldissect"], 32)?,
        hash_policy4: integer("net", &["ipv4", "sysctl_fib_multipath_hash_policy"], 8)?,
        hash_policy6: integer("net", &["ipv6", "sysctl", "multipath_hash_policy"], 8)?,
        changes4: integer("net", &["ipv4", "rt_genid", "counter"], 32)?,
        changes6: integer("net", &["ipv6", "fib6_sernum", "counter"], 32)?,
        statistics6: follow("net", &["ipv6", "rt6_stats"])?.0,
        removed6: integer("rt6_statistics", &["fib_discarded_routes"], 32)?,
        rules6: follow("net", &["ipv6", "fib6_rules_ops"])?.0,
        rule_changes6: integer("fib_rules_ops", &["fib_rules_seq"], 32)?,
    })
}

/// The offset in bytes and the type of a member that is not a bit field. Members of unnamed structs count as direct
/// members.
fn place(kernel: &Btf<'_>, of: &Composite<'_>, member: &str) -> Option<(u32, TypeId)> {
    of.iter().find_map(|m| {
        let MemberAttr::Normal { offset } = m.attr else {
            return None;
        };
        let at = offset / 8;
        match m.name {
            Some(name) if !name.is_empty() => (name == member).then_some((at, m.ty)),
            _ => {
                let inside: Composite<'_> = kernel.type_by_id(m.ty)?;
                let (within, id) = place(kernel, &inside, member)?;
                Some((at + within, id))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_says_where() {
        let Ok(kernel) = Btf::from_vmlinux() else {
            return;
        };
        let layout = find(&kernel).expect("a kernel with policy rules and multipath");
        assert!(
            layout.port_rules4 < layout.port_rules6 && layout.hash_policy4 < layout.hash_policy6
        );
        // `struct sk_buff` begins with its list links of 16 bytes; the device follows.
        assert_eq!(layout.device_of_packet, 16);
    }
}
