// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of a device in memory, which can refuse any step.

use std::cell::RefCell;

use super::*;

/// The configuration of a device in memory, and the step that fails.
struct Twin {
    own: RefCell<DeviceConfig>,
    /// For a moment there may be two.
    exits: RefCell<Vec<ExitRoute>>,
    steps: RefCell<usize>,
    fails_at: Option<usize>,
}

impl Device for Twin {
    async fn carry_out(&self, step: &NetlinkRequest) -> Result<(), KernelError> {
        let number = *self.steps.borrow();
        *self.steps.borrow_mut() += 1;
        if self.fails_at == Some(number) {
            return Err(KernelError::OwnTunGone);
        }
        let mut own = self.own.borrow_mut();
        let has4 =
            |own: &DeviceConfig, route: &Route4| own.routes4.iter().any(|r| key4(r) == key4(route));
        match step {
            NetlinkRequest::Mtu(mtu) => own.mtu = *mtu,
            NetlinkRequest::AddAddress(address) => own.address = Some(*address),
            NetlinkRequest::RemoveAddress(address) => {
                own.address = own.address.filter(|a| a != address)
            }
            NetlinkRequest::Add4(route) => {
                assert!(!has4(&own, route), "the kernel refuses {route:?}");
                own.routes4.push(route.clone());
            }
            NetlinkRequest::Replace4(route) => {
                assert!(has4(&own, route), "nothing is replaced by {route:?}");
                own.routes4.retain(|r| key4(r) != key4(route));
                own.routes4.push(route.clone());
            }
            NetlinkRequest::Remove4(route) => {
                assert!(has4(&own, route), "there is no {route:?}");
                own.routes4.retain(|r| key4(r) != key4(route));
            }
            NetlinkRequest::Add6(route) => own.routes6.push(route.clone()),
            NetlinkRequest::Remove6(route) => own.routes6.retain(|r| r != route),
            NetlinkRequest::SetExit(route) => {
                let mut exits = self.exits.borrow_mut();
                exits.retain(|r| !route.takes_place_of(r));
                exits.push(route.clone());
            }
            NetlinkRequest::RemoveExit(route) => self.exits.borrow_mut().retain(|r| r != route),
        }
        Ok(())
    }
}

fn sorted(mut own: DeviceConfig) -> DeviceConfig {
    own.routes4.sort_by_key(key4);
    own.routes6.sort_by_key(key6);
    own
}

fn own(mtu: u32, address: Option<&str>, routes4: &[(&str, u32)], routes6: &[&str]) -> DeviceConfig {
    let routes4 = routes4.iter().map(|(to, mtu)| Route4 {
        to: to.parse().expect("a network"),
        index: 7,
        source: None,
        metric: 2048,
        mtu: Some(*mtu),
    });
    let routes6 = routes6.iter().map(|to| Route6 {
        to: to.parse().expect("a network"),
        index: 7,
        metric: None,
        is_first: false,
    });
    DeviceConfig {
        index: 7,
        mtu,
        address: address.map(|address| address.parse().expect("an address")),
        routes4: routes4.collect(),
        routes6: routes6.collect(),
        exit: None,
    }
}

/// `own` with an exit route.
fn leaves(own: DeviceConfig, from: &str, router: &str) -> DeviceConfig {
    let exit = ExitRoute {
        to: "64:ff9b::/96".parse().expect("a prefix"),
        from: from.parse().expect("an address"),
        uplink: 2,
        router: router.parse().ok(),
    };
    DeviceConfig {
        exit: Some(exit),
        ..own
    }
}

/// The states: a CLAT that is closed, open, with another prefix, on an uplink with a larger MTU; routers with other routes;
/// nothing at all.
fn states() -> Vec<DeviceConfig> {
    let v4 = Some("192.0.0.1");
    vec![
        own(0, None, &[], &[]),
        own(1500, None, &[], &["2001:db8::1/128"]),
        own(1500, v4, &[("0.0.0.0/0", 1472)], &["2001:db8::1/128"]),
        own(1500, v4, &[("0.0.0.0/0", 1472)], &["2001:db8::2/128"]),
        own(9000, v4, &[("0.0.0.0/0", 8972)], &["2001:db8::2/128"]),
        own(
            1500,
            None,
            &[("192.0.2.0/24", 0), ("198.51.100.0/24", 0)],
            &["64:ff9b::/96"],
        ),
        own(
            1400,
            None,
            &[("192.0.2.0/24", 0), ("203.0.113.0/24", 0)],
            &["2001:db8:64::/96"],
        ),
        leaves(own(1500, v4, &[], &[]), "2001:db8::1", "fe80::1"),
        leaves(own(1500, v4, &[], &[]), "2001:db8::1", "fe80::2"),
        leaves(own(1500, v4, &[], &[]), "2001:db8::2", "fe80::2"),
    ]
}

/// Changes a device in memory. Returns the result, the final configuration, and the number of steps before the commit, if the
/// commit was reached.
fn changed(
    old: &DeviceConfig,
    new: &DeviceConfig,
    fails_at: Option<usize>,
    commits: bool,
) -> (Result<(), KernelError>, DeviceConfig, Option<usize>) {
    let twin = Twin {
        own: RefCell::new(old.clone()),
        exits: RefCell::new(old.exit.iter().cloned().collect()),
        steps: RefCell::new(0),
        fails_at,
    };
    let mut committed = None;
    let commit = async {
        let there = twin.own.borrow();
        committed = Some(*twin.steps.borrow());
        assert_eq!(
            there.mtu,
            old.mtu.max(new.mtu),
            "nothing is too large for it"
        );
        let keys = |own: &DeviceConfig| own.routes4.iter().map(key4).collect::<Vec<_>>();
        for key in [keys(old), keys(new)].concat() {
            assert!(keys(&there).contains(&key), "make before break");
        }
        for route in old.routes6.iter().chain(&new.routes6) {
            assert!(there.routes6.contains(route), "make before break");
        }
        let exits = twin.exits.borrow();
        assert!(new.exit.iter().all(|exit| exits.contains(exit)));
        assert!(old.exit.iter().all(|old| exits
            .iter()
            .any(|exit| exit == old || exit.takes_place_of(old))));
        match commits {
            true => Ok(()),
            false => Err(KernelError::Lost),
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let done = runtime
        .expect("a runtime")
        .block_on(change(&twin, old, new, commit));
    let mut exits = twin.exits.into_inner();
    let there = DeviceConfig {
        exit: exits.pop(),
        ..twin.own.into_inner()
    };
    assert!(exits.is_empty(), "{exits:?}");
    (done, sorted(there), committed)
}

#[test]
fn whole_or_not_at_all() {
    for old in states().into_iter().map(sorted) {
        for new in states().into_iter().map(sorted) {
            let (done, there, committed) = changed(&old, &new, None, true);
            assert!(done.is_ok());
            assert_eq!(there, new);
            let before = committed.expect("it came to the commit");
            let (done, there, _) = changed(&old, &new, None, false);
            assert!(done.is_err());
            assert_eq!(there, old, "all of it is undone");
            for step in 0..before {
                let (done, there, committed) = changed(&old, &new, Some(step), true);
                assert!(done.is_err() && committed.is_none());
                assert_eq!(there, old, "step {step} on the way to {new:?}");
            }
        }
    }
}

#[test]
fn after_the_commit_the_new_state_is_in_force() {
    let [old, new] = [&states()[5], &states()[6]];
    let (_, _, committed) = changed(old, new, None, true);
    let first_after = committed.expect("it came to the commit");
    let (done, there, _) = changed(old, new, Some(first_after), true);
    assert!(done.is_ok());
    assert_eq!(there.mtu, new.mtu);
    for route in &new.routes4 {
        assert!(there.routes4.contains(route));
    }
}
