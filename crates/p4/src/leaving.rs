// SPDX-License-Identifier: Apache-2.0 OR MIT
//! External ports whose entries are being removed from the switch, and the nodes that had them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An external port, with the IPv4 number of its protocol.
pub type Outer = (u8, (Ipv4Addr, u16));
/// A node's port.
pub type Inner = (Ipv6Addr, u16);

/// Removals that the switch has not confirmed.
#[derive(Debug, Default)]
pub struct Leaving(HashMap<Outer, Vec<(Inner, u32)>>);

impl Leaving {
    /// Notes that an entry is being removed.
    pub fn add(&mut self, outer: Outer, inner: Inner) {
        let nodes = self.0.entry(outer).or_default();
        match nodes.iter_mut().find(|(node, _)| *node == inner) {
            Some((_, count)) => *count += 1,
            None => nodes.push((inner, 1)),
        }
    }

    /// Notes that it is removed. Returns true if the port has no more of this node.
    pub fn done(&mut self, outer: Outer, inner: Inner) -> bool {
        let Some(nodes) = self.0.get_mut(&outer) else {
            return false;
        };
        if let Some((_, count)) = nodes.iter_mut().find(|(node, _)| *node == inner) {
            *count -= 1;
        }
        let before = nodes.len();
        nodes.retain(|(_, count)| *count > 0);
        let is_gone = nodes.len() < before;
        if nodes.is_empty() {
            self.0.remove(&outer);
        }
        is_gone
    }

    /// Returns true if the switch may still have entries of the port for another node.
    pub fn is_of_another(&self, outer: Outer, inner: Inner) -> bool {
        let nodes = self.0.get(&outer).into_iter().flatten();
        nodes.into_iter().any(|(node, _)| *node != inner)
    }

    /// The switch has no entries at all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_once_all_entries_of_others_are_gone() {
        let outer = (17, (Ipv4Addr::new(192, 0, 2, 1), 5000));
        let [a, b] = [1, 2].map(|n| (Ipv6Addr::from_bits(n), 53));
        let mut leaving = Leaving::default();
        leaving.add(outer, a);
        leaving.add(outer, a);
        assert!(leaving.is_of_another(outer, b) && !leaving.is_of_another(outer, a));
        assert!(!leaving.is_of_another((6, outer.1), b));
        assert!(!leaving.done(outer, a) && leaving.is_of_another(outer, b));
        assert!(leaving.done(outer, a) && !leaving.is_of_another(outer, b));
        assert!(!leaving.done(outer, a), "once more than there were");
        leaving.add(outer, a);
        leaving.clear();
        assert!(!leaving.is_of_another(outer, b));
    }
}
