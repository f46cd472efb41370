// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histograms of nanoseconds, in the format of the BPF programs: exact below 1024 ns, then 1024 buckets for each power of two,
//! so no value is off by more than 0.1 %. `bucket_of` in `bpf/signature.h` selects the bucket.

use crate::kernel::{BUCKETS, SUB_BITS, TOP_BITS};
use serde::Serialize;

/// The summary of a distribution, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The number of values.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median; RFC 8219 section 7.2: typical latency.
    pub p50: f64,
    /// 90 % are no larger.
    pub p90: f64,
    /// 99 % are no larger.
    pub p99: f64,
    /// 99.9 % are no larger; RFC 8219 section 7.2: worst-case latency.
    pub p99_9: f64,
    /// 99.99 % are no larger.
    pub p99_99: f64,
    /// The largest.
    pub max: f64,
}

/// A distribution: values in ascending order, and how often each occurs.
#[derive(Clone, Debug, Default)]
pub struct Distribution(Vec<(f64, u64)>);

impl Distribution {
    /// A distribution from the counts of the buckets.
    pub fn new(counts: &[u64]) -> Distribution {
        Distribution(values(counts).collect())
    }

    /// A distribution of differences, from the buckets of the non-negative ones and of the negative ones.
    pub fn signed(positive: &[u64], negative: &[u64]) -> Distribution {
        let mut all: Vec<(f64, u64)> = values(negative).map(|(v, n)| (-v, n)).collect();
        all.reverse();
        all.extend(values(positive));
        Distribution(all)
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }

    /// The number of values above a limit.
    pub fn above(&self, limit: f64) -> u64 {
        self.0
            .iter()
            .filter(|(v, _)| *v > limit)
            .map(|(_, n)| n)
            .sum()
    }

    /// The least value such that this share of all values is not larger; `None` for an empty distribution.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        self.0.iter().find_map(|(value, n)| {
            below += n;
            (below >= wanted).then_some(*value)
        })
    }

    /// The summary; `None` for an empty distribution.
    pub fn summary(&self) -> Option<Summary> {
        let (first, last) = (self.0.first()?.0, self.0.last()?.0);
        let count = self.count();
        let sum: f64 = self.0.iter().map(|(v, n)| v * *n as f64).sum();
        let at = |share| self.quantile(share).unwrap_or(last);
        Some(Summary {
            count,
            min: first,
            mean: sum / count as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: last,
        })
    }

    /// Every value with its count.
    pub fn pairs(&self) -> &[(f64, u64)] {
        &self.0
    }
}

/// The buckets that are not empty: their middles and their counts.
fn values(counts: &[u64]) -> impl Iterator<Item = (f64, u64)> + '_ {
    let filled = counts
        .iter()
        .take(BUCKETS)
        .enumerate()
        .filter(|(_, n)| **n > 0);
    filled.map(|(bucket, n)| (middle(bucket), *n))
}

/// The bucket of a value.
pub fn bucket_of(ns: u64) -> usize {
    if ns >> TOP_BITS > 0 {
        return BUCKETS - 1;
    }
    let Some(shift) = (ns >> SUB_BITS).checked_ilog2() else {
        return ns as usize;
    };
    ((shift as usize + 1) << SUB_BITS) + ((ns >> shift) as usize & ((1 << SUB_BITS) - 1))
}

/// The middle of a bucket, ns.
fn middle(bucket: usize) -> f64 {
    let sub = 1u64 << SUB_BITS;
    let (octave, rest) = (bucket as u64 >> SUB_BITS, bucket as u64 & (sub - 1));
    if octave == 0 {
        return rest as f64;
    }
    let width = 1u64 << (octave - 1);
    ((sub + rest) * width) as f64 + (width - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_its_bucket() {
        for ns in (0..5000).chain((10..40).flat_map(|e| [(1 << e) - 1, 1 << e, 3 << (e - 1)])) {
            let error = middle(bucket_of(ns)) - ns as f64;
            assert!(error.abs() <= ns as f64 / 2048.0, "{ns}: {error}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of((1 << 40) - 1), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let mut counts = vec![0; BUCKETS];
        (1..=100).for_each(|ns| counts[bucket_of(ns)] += 1);
        let distribution = Distribution::new(&counts);
        let at = |share| distribution.quantile(share);
        assert_eq!(
            [0.0, 0.5, 0.99, 0.999].map(at),
            [1.0, 50.0, 99.0, 100.0].map(Some)
        );
        assert_eq!(distribution.above(90.0), 10);
        let summary = distribution.summary().expect("it is not empty");
        assert_eq!((summary.min, summary.mean, summary.max), (1.0, 50.5, 100.0));
        assert_eq!(Distribution::new(&[]).summary(), None);
    }

    #[test]
    fn differences_of_both_signs_are_one_distribution() {
        let (mut longer, mut shorter) = (vec![0; BUCKETS], vec![0; BUCKETS]);
        longer[0] = 1;
        longer[20] = 2;
        shorter[10] = 3;
        let both = Distribution::signed(&longer, &shorter);
        assert_eq!(both.pairs(), [(-10.0, 3), (0.0, 1), (20.0, 2)]);
    }

    #[test]
    fn middles_ascend_without_gaps() {
        assert_eq!(
            [0, 1023, 1024, 2047].map(middle),
            [0.0, 1023.0, 1024.0, 2047.0]
        );
        assert_eq!(middle(2048), 2048.5);
        let (top, half) = ((1u64 << 40) as f64, (1u64 << 28) as f64);
        assert_eq!(middle(BUCKETS - 1), top - half - 0.5);
    }
}
