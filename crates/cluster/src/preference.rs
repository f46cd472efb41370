// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of several nodes should own a slice: rendezvous hashing. A node that comes or goes moves only the slices that it gets
//! or had.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::entry::NodeId;
use diolkos_core::slice::SliceId;

/// The one of `nodes` that should own the slice; none of them needs to ask another. Their order does not matter.
pub fn preferred(slice: SliceId, nodes: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    // The node's number decides between equal weights.
    nodes
        .into_iter()
        .max_by_key(|&node| (weight(slice, node), node))
}

/// No secret: who knows which node owns a slice learns nothing about sources.
fn weight(slice: SliceId, node: NodeId) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write_u32(slice.to_be());
    hasher.write_u16(node.0.to_be());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: &[u16]) -> Vec<NodeId> {
        numbers.iter().map(|&number| NodeId(number)).collect()
    }

    #[test]
    fn one_that_goes_moves_its_own_slices_only_and_to_all_others() {
        let (all, without) = (nodes(&[0, 1, 2, 3]), nodes(&[0, 1, 3]));
        let mut heirs = [0; 4];
        for slice in 0..4096 {
            let before = preferred(slice, all.clone()).expect("there are nodes");
            let after = preferred(slice, without.clone()).expect("there are nodes");
            match before {
                NodeId(2) => heirs[usize::from(after.0)] += 1,
                _ => assert_eq!(before, after, "{slice}"),
            }
        }
        // 4096 / 4 slices go to three nodes: 341 each, with a deviation of 18.
        assert!(
            [0, 1, 3].iter().all(|&n| (240..440).contains(&heirs[n])),
            "{heirs:?}"
        );
    }

    #[test]
    fn the_order_of_nodes_does_not_matter() {
        for slice in 0..100 {
            let one = preferred(slice, nodes(&[5, 9, 1]));
            assert_eq!(one, preferred(slice, nodes(&[1, 5, 9])));
        }
        assert_eq!(preferred(7, []), None);
    }
}
