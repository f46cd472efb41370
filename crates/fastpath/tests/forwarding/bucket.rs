// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bucket of a host, in the programs and in crates/node.

use std::net::Ipv6Addr;

use diolkos_fastpath::testrun::Verdict;
use diolkos_fastpath::{Owner, BUCKETS};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::world::*;

/// The program and crates/node give every host the same bucket, for any key and prefix length.
#[test]
fn a_host_has_the_bucket_of_the_order() {
    let programs = programs();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let lengths = prop_oneof![Just(0u8), Just(48), Just(56), Just(64), Just(65), 0..=128u8];
    let cases = (any::<u128>(), any::<[u64; 2]>(), lengths);
    let tested = runner.run(&cases, |(bits, key, len)| {
        let (host, homes) = (Ipv6Addr::from_bits(bits), &programs.homes);
        homes
            .set_cluster(Some(&cluster(len, key)))
            .expect("it fits");
        let (order, config) = order(len, key);
        let bucket = order.bucket(config.subscriber(host));
        prop_assert!(bucket < BUCKETS);
        prop_assert_eq!(BUCKETS, diolkos_node::order::BUCKETS);
        let packet = ipv6(host, peer6(), 50, &[0; 8]);
        homes.set_home(bucket, node(1), false);
        prop_assert_eq!(programs.ask(&packet), Verdict::To(node(1)));
        homes.set_home(bucket, Owner::OURS, false);
        prop_assert_eq!(programs.ask(&packet), Verdict::Here);
        Ok(())
    });
    tested.expect("they agree");
}
