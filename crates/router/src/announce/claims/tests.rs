// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims over time, with other nodes that answer, leave and return.

use super::*;

const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

const OTHER: Mac = [2, 0, 0, 0, 0, 7];

/// Returns everything that is done within this number of seconds, with the milliseconds since
/// `begin`.
fn done(claims: &mut Claims, begin: Instant, seconds: u64) -> Vec<(u128, ClaimAction)> {
    let mut all = Vec::new();
    let end = begin + Duration::from_secs(seconds);
    while let Some(at) = claims.next().filter(|at| *at <= end) {
        let steps = claims.due(at, || 512);
        all.extend(
            steps
                .into_iter()
                .map(|step| ((at - begin).as_millis(), step)),
        );
    }
    all
}

/// RFC 5227 sections 2.1.1 and 2.3, with half of every random time.
#[test]
fn an_ipv4_address_is_probed_three_times_and_announced_twice() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V4, true, begin, 512);
    let expected = [
        (500, ClaimAction::Probe(V4)),
        (2000, ClaimAction::Probe(V4)),
        (3500, ClaimAction::Probe(V4)),
        (5500, ClaimAction::Hold(V4)),
        (5500, ClaimAction::Announce(V4)),
        (7500, ClaimAction::Announce(V4)),
    ];
    assert_eq!(done(&mut claims, begin, 100), expected);
    assert_eq!(claims.held().collect::<Vec<_>>(), [V4]);
}

/// RFC 5227 section 2.1.1: all three are sent before the address is used.
#[test]
fn a_probe_that_nobody_could_hear_does_not_count() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V4, true, begin, 0);
    let mut probes = 0;
    let mut now = begin;
    while !matches!(claims.due(now, || 0)[..], [ClaimAction::Hold(_), ..]) {
        probes += 1;
        if probes < 10 {
            claims.ask_again(V4, now + RETRANSMIT);
        }
        now = claims.next().expect("it is not held yet");
    }
    assert_eq!(probes, 9 + PROBES4);
}

/// RFC 4862 section 5.4.2, RFC 4861 section 7.2.6.
#[test]
fn an_ipv6_address_is_probed_once_and_announced_three_times() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V6, true, begin, 0);
    let expected = [
        (0, ClaimAction::Probe(V6)),
        (1000, ClaimAction::Hold(V6)),
        (1000, ClaimAction::Announce(V6)),
        (2000, ClaimAction::Announce(V6)),
        (3000, ClaimAction::Announce(V6)),
    ];
    assert_eq!(done(&mut claims, begin, 100), expected);
}

#[test]
fn without_detection_it_is_held_at_once() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V4, false, begin, 7);
    let steps = claims.due(begin, || 0);
    assert_eq!(steps, [ClaimAction::Hold(V4), ClaimAction::Announce(V4)]);
}

#[test]
fn what_another_has_is_left_to_it_and_tried_again() {
    for spoke in [Spoke::Claims, Spoke::Probes] {
        let (begin, mut claims) = (Instant::now(), Claims::default());
        claims.add(V4, true, begin, 0);
        assert_eq!(claims.due(begin, || 0), [ClaimAction::Probe(V4)]);
        assert_eq!(claims.heard(V4, spoke, OTHER, begin), Some(Clash::Taken));
        assert_eq!(claims.held().count(), 0);
        let polls = done(&mut claims, begin, 3);
        assert!(polls
            .iter()
            .all(|(_, step)| *step == ClaimAction::Poll(V4, OTHER)));
        assert_eq!(polls.len(), 6);
        let mut later = done(&mut claims, begin, 20);
        later.retain(|(_, step)| !matches!(step, ClaimAction::Poll(..)));
        assert!(
            matches!(later.first(), Some((4_500..=5_500, ClaimAction::Probe(V4)))),
            "{later:?}"
        );
        assert_eq!(claims.held().collect::<Vec<_>>(), [V4]);
    }
}

/// RFC 5227 section 2.1.1: once a minute at most, after some conflicts.
#[test]
fn who_holds_addresses_for_long_does_so_no_minute_longer_than_he_speaks() {
    let all: Vec<IpAddr> = (1..=8).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    let (begin, mut claims) = (Instant::now(), Claims::default());
    for address in &all {
        claims.add(*address, true, begin, 0);
    }
    let leaves = begin + Duration::from_secs(600);
    let (mut tries, mut free) = (0, None);
    while let Some(now) = claims.next() {
        for step in claims.due(now, || 512) {
            match step {
                ClaimAction::Probe(address) if now < leaves => {
                    tries += 1;
                    assert_eq!(
                        claims.heard(address, Spoke::Claims, OTHER, now),
                        Some(Clash::Taken)
                    );
                }
                ClaimAction::Hold(_) => free = free.or(Some(now)),
                ClaimAction::Probe(_) | ClaimAction::Poll(..) | ClaimAction::Announce(_) => {}
            }
        }
    }
    assert!((8 * 10..=8 * 16).contains(&tries), "{tries}");
    let first = free.expect("one is free") - leaves;
    assert!(first <= Duration::from_secs(30), "{first:?}");
    assert_eq!(claims.held().count(), all.len());
}

/// RFC 1122 section 2.3.2.1, and RFC 5227 section 2.1.1 for all addresses at once.
#[test]
fn what_a_node_had_that_answers_no_more_is_probed_at_once() {
    let all: Vec<IpAddr> = (1..=8).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    let (begin, mut claims) = (Instant::now(), Claims::default());
    for address in &all {
        claims.add(*address, true, begin, 0);
    }
    let dies = begin + Duration::from_secs(300);
    let (mut polls, mut last) = (0, begin);
    while let Some(now) = claims.next() {
        for step in claims.due(now, || 1023) {
            match step {
                ClaimAction::Probe(address) if now < dies => {
                    claims.heard(address, Spoke::Claims, OTHER, now);
                }
                ClaimAction::Poll(address, OTHER) if now < dies => {
                    polls += 1;
                    assert_eq!(claims.heard(address, Spoke::Claims, OTHER, now), None);
                }
                ClaimAction::Hold(_) => last = now,
                _ => {}
            }
        }
    }
    assert!((590..=600).contains(&polls), "{polls}: one address for all");
    assert_eq!(claims.held().count(), all.len());
    let took = last - dies;
    assert!(took <= Duration::from_millis(7500), "{took:?}");
}

#[test]
fn what_its_owner_releases_is_probed_at_once() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V4, true, begin, 0);
    claims.due(begin, || 0);
    claims.heard(V4, Spoke::Claims, OTHER, begin);
    assert_eq!(claims.heard(V4, Spoke::Releases, OTHER, begin), None);
    assert_eq!(claims.due(begin, || 0), [ClaimAction::Probe(V4)]);
    assert_eq!(
        claims.heard(V4, Spoke::Claims, OTHER, begin),
        Some(Clash::Taken)
    );
    const THIRD: Mac = [2, 0, 0, 0, 0, 9];
    assert_eq!(claims.heard(V4, Spoke::Releases, THIRD, begin), None);
    assert_eq!(claims.due(begin, || 0), [], "it was not theirs");
    assert_eq!(claims.taken().count(), 1);
}

/// Otherwise two nodes that wait for an address would disturb each other.
#[test]
fn whoever_probes_first_is_not_disturbed() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V4, true, begin, 0);
    claims.due(begin, || 0);
    claims.heard(V4, Spoke::Claims, OTHER, begin);
    let at = |millis| begin + Duration::from_millis(millis);
    for tenth in 1..=30 {
        claims.due(at(tenth * 100), || 0);
        claims.heard(V4, Spoke::Claims, OTHER, at(tenth * 100));
    }
    const THIRD: Mac = [2, 0, 0, 0, 0, 9];
    for second in 3..6 {
        claims.heard(V4, Spoke::Probes, THIRD, at(second * 1000));
    }
    let probes = done(&mut claims, begin, 9);
    assert!(!probes
        .iter()
        .any(|(_, step)| matches!(step, ClaimAction::Probe(_))));
}

/// RFC 5227 section 2.4 (c).
#[test]
fn what_is_held_is_defended_once_in_ten_seconds() {
    let (begin, mut claims) = (Instant::now(), Claims::default());
    claims.add(V4, false, begin, 0);
    done(&mut claims, begin, 10);
    let at = |seconds| begin + Duration::from_secs(seconds);
    assert_eq!(claims.heard(V4, Spoke::Probes, OTHER, at(20)), None);
    assert_eq!(
        claims.heard(V4, Spoke::Claims, OTHER, at(20)),
        Some(Clash::Defended)
    );
    assert_eq!(
        claims.heard(V4, Spoke::Claims, OTHER, at(29)),
        Some(Clash::Undefended)
    );
    assert_eq!(
        claims.heard(V4, Spoke::Claims, OTHER, at(30)),
        Some(Clash::Defended)
    );
    assert_eq!(claims.heard(V6, Spoke::Claims, OTHER, at(30)), None);
    claims.announce_again(at(40));
    assert_eq!(claims.due(at(40), || 0), [ClaimAction::Announce(V4)]);
}
