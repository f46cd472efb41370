// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mappings whose networks overlap (RFC 7757 section 5).
//!
//! The longest match decides (RFC 7757 section 3.3). Mappings that nest in the same way on both sides are still
//! one-to-one. Mappings that overlap on one side only are not: two nodes share an address, and the operator gets a
//! warning. Two mappings of the same network contradict each other, because no match is longer.

use super::{Eam, Problem};

/// Finds networks that occur twice on either side.
pub(super) fn identical(eam: &[Eam]) -> Vec<Problem> {
    let found = Overlaps::of(eam);
    found.list(
        |at, other, _| eam[other].v4 == eam[at].v4,
        |at, other, _| eam[other].v6 == eam[at].v6,
        "and neither is longer (RFC 7757 section 5)",
    )
}

/// Finds networks of different lengths that overlap on one side only.
pub(super) fn one_sided(eam: &[Eam]) -> Vec<Problem> {
    let found = Overlaps::of(eam);
    found.list(
        |at, other, counterpart| eam[other].v4 != eam[at].v4 && counterpart != Some(other),
        |at, other, counterpart| eam[other].v6 != eam[at].v6 && counterpart != Some(other),
        "but not on the other side: the longer prefix wins, so not every address maps back to where it comes from (RFC \
         7757 section 5)",
    )
}

struct Overlaps<'a> {
    eam: &'a [Eam],
    /// The index of the smallest enclosing mapping of each mapping, on each side.
    around4: Vec<Option<usize>>,
    around6: Vec<Option<usize>>,
}

impl Overlaps<'_> {
    fn of(eam: &[Eam]) -> Overlaps<'_> {
        let bits4 = |e: &Eam| u128::from(e.v4.network().to_bits()) << 96;
        Overlaps {
            eam,
            around4: parents(eam, |e| (bits4(e), e.v4.prefix_len())),
            around6: parents(eam, |e| (e.v6.network().to_bits(), e.v6.prefix_len())),
        }
    }

    /// Writes one sentence for each selected overlap: the mapping, the enclosing mapping on this side, and the
    /// enclosing mapping on the other side.
    fn list(
        &self,
        is_meant4: impl Fn(usize, usize, Option<usize>) -> bool,
        is_meant6: impl Fn(usize, usize, Option<usize>) -> bool,
        why: &str,
    ) -> Vec<Problem> {
        let mut found = Vec::new();
        for (at, Eam { v4, v6 }) in self.eam.iter().enumerate() {
            let (around4, around6) = (self.around4[at], self.around6[at]);
            if let Some(other) = around4.filter(|&other| is_meant4(at, other, around6)) {
                let outer = self.eam[other].v4;
                found.push(Problem {
                    key: format!("eam[{at}].v4"),
                    message: format!("{v4} overlaps eam[{other}].v4 {outer}, {why}"),
                });
            }
            if let Some(other) = around6.filter(|&other| is_meant6(at, other, around4)) {
                let outer = self.eam[other].v6;
                found.push(Problem {
                    key: format!("eam[{at}].v6"),
                    message: format!("{v6} overlaps eam[{other}].v6 {outer}, {why}"),
                });
            }
        }
        found
    }
}

/// Finds, for each mapping, the smallest other one whose network on this side contains its network.
fn parents(eam: &[Eam], network: impl Fn(&Eam) -> (u128, u8)) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..eam.len()).collect();
    order.sort_by_key(|&at| network(&eam[at]));
    let mut parents = vec![None; eam.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        let (addr, _) = network(&eam[at]);
        while let Some(&outer) = open.last() {
            let (base, len) = network(&eam[outer]);
            if (addr ^ base).checked_shr(128 - u32::from(len)).unwrap_or(0) == 0 {
                parents[at] = Some(outer);
                break;
            }
            open.pop();
        }
        open.push(at);
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> Vec<Eam> {
        let one = |(v4, v6): &(&str, &str)| Eam {
            v4: v4.parse().unwrap(),
            v6: v6.parse().unwrap(),
        };
        entries.iter().map(one).collect()
    }

    /// Returns the keys of errors and the keys of warnings.
    fn keys(entries: &[(&str, &str)]) -> [Vec<String>; 2] {
        let eam = table(entries);
        [identical(&eam), one_sided(&eam)]
            .map(|found| found.into_iter().map(|problem| problem.key).collect())
    }

    const OUTER: (&str, &str) = ("192.0.2.0/24", "2001:db8::/120");
    const NONE: [&str; 0] = [];

    #[test]
    fn nested_on_both_sides_is_neither() {
        let [refused, warned] = keys(&[OUTER, ("192.0.2.8/32", "2001:db8::9/128")]);
        assert_eq!((refused.len(), warned.len()), (0, 0));
    }

    #[test]
    fn overlapping_on_one_side_only_is_warned_of() {
        let [refused, warned] = keys(&[OUTER, ("192.0.2.8/32", "2001:db8:1::8/128")]);
        assert_eq!(refused, NONE);
        assert_eq!(warned, ["eam[1].v4"]);
        let [refused, warned] = keys(&[("198.51.100.8/32", "2001:db8::8/128"), OUTER]);
        assert_eq!(refused, NONE);
        assert_eq!(warned, ["eam[0].v6"]);
        // Each network nests in another one.
        let other = ("198.51.100.0/24", "2001:db8:1::/120");
        let [refused, warned] = keys(&[OUTER, other, ("192.0.2.8/32", "2001:db8:1::8/128")]);
        assert_eq!(refused, NONE);
        assert_eq!(warned, ["eam[2].v4", "eam[2].v6"]);
    }

    #[test]
    fn identical_networks_are_refused() {
        let [refused, warned] = keys(&[OUTER, OUTER]);
        assert_eq!(refused, ["eam[1].v4", "eam[1].v6"]);
        assert_eq!(warned, NONE);
        let [refused, _] = keys(&[OUTER, ("192.0.2.0/24", "2001:db8:1::/120")]);
        assert_eq!(refused, ["eam[1].v4"]);
    }
}
