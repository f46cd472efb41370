// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routing domains (VRFs) of a router's interfaces.

use diolkos_fastpath::Inline;

use super::rules;
use diolkos_kernel::net::{Link, LinkKind};

/// Returns the VRF that a link belongs to.
pub fn vrf<'a>(link: &Link, all: &'a [Link]) -> Option<&'a Link> {
    let master = all.iter().find(|other| Some(other.index) == link.master)?;
    (master.kind == LinkKind::Vrf).then_some(master)
}

/// Warns where nothing is sent directly, with the reason.
pub fn warn_of_vrfs(inline: &[Inline], links: &[Link], all: &[Link]) {
    let found = links.iter().find_map(|link| Some((link, vrf(link, all)?)));
    if let (false, Some((link, vrf))) = (rules::is_one_domain(inline), found) {
        tracing::warn!(
            "{} belongs to the VRF \"{}\", and not all of the interfaces do: the kernel forwards what is translated, as with \
             the placement \"inline\", because a BPF program might find the route of another table",
            link.name,
            vrf.name
        );
    }
}
