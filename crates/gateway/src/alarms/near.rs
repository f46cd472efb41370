// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the prefixes that use nearly all of their share, in scans over all prefixes. There may be millions of
//! prefixes, and an attacker may create them: each check scans one part, and remembers only the first few.

use std::cmp::Reverse;

use diolkos_nat64::config::LevelKind;
use diolkos_nat64::session::Holding;

use diolkos_figures::figures::KINDS;
use diolkos_service::counted::counted;

/// Number of prefixes that are named.
const NAMED: usize = 3;

/// A prefix near its share.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NearPrefix {
    percent: u64,
    /// Number of its sessions.
    sessions: u64,
    name: String,
}

/// The result of a scan.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Near {
    /// Number of prefixes, in the order of [`KINDS`].
    pub counts: [u64; 3],
    /// The prefixes with the highest percentage, the highest first.
    most: Vec<NearPrefix>,
}

impl Near {
    /// Returns the number of prefixes of all kinds.
    pub fn all(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts a prefix if it uses at least `percent` of its share.
    pub fn count(&mut self, holding: &Holding, percent: u8) {
        let its = holding.percent();
        if its < u64::from(percent) {
            return;
        }
        let kind = kind_of(holding.kind);
        self.counts[kind] += 1;
        let has = holding.sessions.has;
        let is_more = |least: &NearPrefix| (its, has) > (least.percent, least.sessions);
        if self.most.len() >= NAMED && !self.most.last().is_some_and(is_more) {
            return;
        }
        let name = format!("{} {}/{}", KINDS[kind], holding.prefix, holding.prefix_len);
        self.most.push(NearPrefix {
            percent: its,
            sessions: has,
            name,
        });
        self.most.sort_by(|a, b| {
            Reverse((a.percent, a.sessions))
                .cmp(&Reverse((b.percent, b.sessions)))
                .then_with(|| a.name.cmp(&b.name))
        });
        self.most.truncate(NAMED);
    }

    /// Returns the highest percentage of a prefix.
    pub fn highest(&self) -> u64 {
        self.most.first().map_or(0, |prefix| prefix.percent)
    }

    /// Describes how many prefixes are near their share, and which use most.
    pub fn summary(&self, percent: u8) -> String {
        let counts = KINDS.iter().zip(self.counts);
        let kinds: Vec<String> = counts
            .filter(|(_, number)| *number > 0)
            .map(|(kind, number)| counted(number, kind).to_string())
            .collect();
        let kinds = match kinds.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => "no prefixes".to_owned(),
        };
        let [have, they] = match self.all() {
            1 => ["has", "it"],
            _ => ["have", "they"],
        };
        let most: Vec<String> = self
            .most
            .iter()
            .map(|prefix| format!("{} {} %", prefix.name, prefix.percent))
            .collect();
        format!(
            "{kinds} {have} {percent} % or more of what {they} may have; most: {}",
            most.join(", ")
        )
    }
}

fn kind_of(kind: LevelKind) -> usize {
    match kind {
        LevelKind::Site => 0,
        LevelKind::Source => 1,
        LevelKind::Host => 2,
    }
}

/// A scan that continues with each check.
#[derive(Default, Debug)]
pub struct Round {
    next: u32,
    so_far: Near,
}

impl Round {
    /// Continues the scan by some parts. `part` returns the prefixes from a slot on, and the next slot. Returns the
    /// result if the scan is complete.
    pub fn go_on(
        &mut self,
        percent: u8,
        parts: usize,
        mut part: impl FnMut(u32) -> (Vec<Holding>, Option<u32>),
    ) -> Option<Near> {
        for _ in 0..parts {
            let (holdings, next) = part(self.next);
            for holding in &holdings {
                self.so_far.count(holding, percent);
            }
            match next {
                Some(next) => self.next = next,
                None => {
                    self.next = 0;
                    return Some(std::mem::take(&mut self.so_far));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_nat64::session::QuotaUse;

    #[test]
    fn numbers_and_words_agree() {
        let told = |counts| {
            let most = vec![NearPrefix {
                percent: 100,
                sessions: 1,
                name: "source 2001:db8::/64".to_owned(),
            }];
            Near { counts, most }.summary(80)
        };
        let most = "; most: source 2001:db8::/64 100 %";
        for (counts, expected) in [
            ([0, 1, 0], "1 source has 80 % or more of what it may have"),
            (
                [0, 2, 0],
                "2 sources have 80 % or more of what they may have",
            ),
            (
                [1, 0, 1],
                "1 site and 1 host have 80 % or more of what they may have",
            ),
            (
                [1, 2, 3],
                "1 site, 2 sources and 3 hosts have 80 % or more of what they may have",
            ),
        ] {
            assert_eq!(told(counts), format!("{expected}{most}"));
        }
    }

    fn holding(n: u64, has: u64) -> Holding {
        Holding {
            prefix: format!("2001:db8::{n:x}").parse().expect("an address"),
            prefix_len: 128,
            kind: LevelKind::Host,
            sessions: QuotaUse { has, may: 100 },
            outside: 0,
            bindings: QuotaUse::default(),
            ports: [QuotaUse::default(); 3],
        }
    }

    #[test]
    fn thousands_are_counted_and_three_are_named() {
        let mut round = Round::default();
        let mut looks = 0;
        let near = loop {
            looks += 1;
            let part = |first: u32| {
                let of = |n: u64| holding(n, n % 101);
                let here = (u64::from(first)..u64::from(first) + 100).map(of);
                (
                    here.collect(),
                    Some(first + 100).filter(|next| *next < 10_100),
                )
            };
            if let Some(near) = round.go_on(80, 10, part) {
                break near;
            }
        };
        assert_eq!(looks, 11, "101 parts, ten a look");
        assert_eq!(near.counts, [0, 0, 100 * 21]);
        assert_eq!(near.most.len(), NAMED);
        let told = near.summary(80);
        assert!(told.starts_with("2100 hosts have 80 %"), "{told}");
        assert!(told.contains("host 2001:db8::64/128 100 %"), "{told}");
        assert!(told.len() < 300, "{told}");
    }
}
