// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds where the running kernel stores the type of a super-packet, for the programs that need it (`bpf/tc/gso.h`).

use libbpf_rs::btf::types::{Enum, MemberAttr, Struct};
use libbpf_rs::btf::Btf;

/// The layout; see `struct diolkos_gso` in `bpf/abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) head_at: u32,
    pub(crate) end_at: u32,
    pub(crate) kind_at: u32,
    pub(crate) kind_udp: u32,
    pub(crate) kind_dodgy: u32,
}

/// Returns None if the kernel has another packet layout. The programs then leave UDP super-packets to the slow path.
pub(super) fn find(kernel: &Btf<'_>) -> Option<Layout> {
    let packet: Struct<'_> = kernel.type_by_name("sk_buff")?;
    let shared: Struct<'_> = kernel.type_by_name("skb_shared_info")?;
    let kinds = kernel.type_by_kind::<Enum<'_>>();
    let [kind_udp, kind_dodgy] = kinds.into_iter().find_map(|kinds| {
        let value = |name| {
            let mut members = kinds.iter();
            let member = members.find(|member| member.name.is_some_and(|n| n == name))?;
            u32::try_from(member.value).ok()
        };
        Some([value("SKB_GSO_UDP_L4")?, value("SKB_GSO_DODGY")?])
    })?;
    let head_at = place(&packet, "head")?;
    let end_at = place(&packet, "end")?;
    // On 32-bit kernels the end of the buffer is a pointer, but the programs expect an offset.
    let is_offset = kernel.ptr_size().is_ok_and(|size| size.get() == 8);
    is_offset.then_some(Layout {
        head_at,
        end_at,
        kind_at: place(&shared, "gso_type")?,
        kind_udp,
        kind_dodgy,
    })
}

/// The offset in bytes of a member that is not a bit field.
fn place(of: &Struct<'_>, member: &str) -> Option<u32> {
    let found = of.iter().find(|m| m.name.is_some_and(|n| n == member))?;
    match found.attr {
        MemberAttr::Normal { offset } => Some(offset / 8),
        MemberAttr::BitField { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `include/linux/skbuff.h`: the bits have not changed since UDP_L4 was added (4.18).
    #[test]
    fn this_kernel_says_where() {
        let Ok(kernel) = Btf::from_vmlinux() else {
            return;
        };
        let layout = find(&kernel).expect("a 64-bit kernel");
        assert_eq!((layout.kind_udp, layout.kind_dodgy), (1 << 17, 1 << 1));
        assert!(layout.end_at < layout.head_at && layout.kind_at > 0);
    }
}
