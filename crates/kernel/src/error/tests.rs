// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sentence, the source, the exit code and the worth of a retry of each error, and which error number becomes which.

use std::error::Error;
use std::num::NonZeroI32;

use nix::errno::Errno;
use rtnetlink::packet_core::ErrorMessage;

use super::*;

/// The kernel's answer with this error number.
fn answered(errno: Errno) -> Refusal {
    let mut message = ErrorMessage::default();
    message.code = NonZeroI32::new(-(errno as i32));
    Refusal::Error(rtnetlink::Error::NetlinkError(message))
}

fn memory() -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

#[test]
fn an_error_number_becomes_what_it_means() {
    let add = |errno, metric, disabled: Option<&str>| {
        answered(errno).route("192.0.2.0/24", metric, disabled.map(str::to_owned))
    };
    use KernelError as E;
    let cases = [
        (
            add(Errno::EPERM, Some(1), None),
            "no permission to add the route to 192.0.2.0/24: run as root or with CAP_NET_ADMIN",
        ),
        (
            add(Errno::EPERM, None, Some("tun0")),
            "cannot add the route to 192.0.2.0/24: IPv6 is disabled on tun0: set \
          net.ipv6.conf.tun0.disable_ipv6 to 0",
        ),
        (
            add(Errno::EACCES, None, Some("tun0")),
            "cannot add the route to 192.0.2.0/24: IPv6 is disabled on tun0: set \
          net.ipv6.conf.tun0.disable_ipv6 to 0",
        ),
        (
            add(Errno::EEXIST, Some(1024), Some("tun0")),
            "there is a route to 192.0.2.0/24 with metric 1024 already: stop what \
          it belongs to (`ip route show 192.0.2.0/24` names its device), or choose another metric",
        ),
        (
            add(Errno::EEXIST, None, None),
            "cannot add the route to 192.0.2.0/24: File exists (os error 17)",
        ),
        (
            add(Errno::ENOMEM, Some(1), None),
            "cannot add the route to 192.0.2.0/24: Cannot allocate memory (os error 12)",
        ),
    ];
    for (error, sentence) in cases {
        assert_eq!(error.to_string(), sentence);
        assert!(!error.is_transient(), "{error}: a change is not repeated");
    }
    assert!(matches!(
        answered(Errno::EBUSY).read("list the links"),
        E::Read { .. }
    ));
    assert!(matches!(
        answered(Errno::EPERM).read("list the links"),
        E::NotPermitted { .. }
    ));
    assert!(answered(Errno::ENETDOWN).is_down() && !answered(Errno::ENETUNREACH).is_down());
    assert!(answered(Errno::EEXIST).is_there() && !Refusal::Closed.is_there());
    for errno in [
        Errno::EHOSTUNREACH,
        Errno::ENETUNREACH,
        Errno::EINVAL,
        Errno::EACCES,
    ] {
        assert!(answered(errno).is_unreachable(), "{errno}");
    }
    assert!(!answered(Errno::ENOMEM).is_unreachable() && !Refusal::Closed.is_unreachable());
    let route = |errno: Errno| refusing_route(&errno.into());
    assert_eq!(route(Errno::EINVAL), Some("blackhole"));
    assert_eq!(route(Errno::EHOSTUNREACH), Some("unreachable"));
    assert_eq!(route(Errno::EACCES), Some("prohibit"));
    assert_eq!(route(Errno::ENETUNREACH), None);
}

#[test]
fn a_request_without_an_answer_is_worth_a_retry() {
    let silence = Refusal::Silence { patience_s: 10 };
    let cases = [
        (
            silence,
            "cannot list the routes: the kernel has not answered within 10 s",
        ),
        (
            Refusal::Unconnected(memory()),
            "cannot list the routes: no netlink connection to the kernel: out of memory",
        ),
        (
            Refusal::Closed,
            "cannot list the routes: the kernel closed the netlink connection",
        ),
        (
            Refusal::Error(rtnetlink::Error::RequestFailed),
            "cannot list the routes: A netlink request failed",
        ),
    ];
    for (refusal, sentence) in cases {
        let error = refusal.read("list the routes");
        assert_eq!(error.to_string(), sentence);
        assert_eq!(error.exit(), Exit::RunTime);
        assert!(error.is_transient(), "{error}");
    }
    assert!(!Refusal::Error(rtnetlink::Error::RequestFailed)
        .change("x")
        .is_transient());
    assert!(
        Refusal::Closed.change("x").is_transient(),
        "nothing was refused"
    );
}

#[test]
fn the_others_have_their_sentences_sources_and_exit_codes() {
    use KernelError as E;
    let tun = || "tun0".to_owned();
    let cases = [
        (E::Connect(memory()), true, Exit::RunTime, "no netlink connection to the kernel: out of memory"),
        (E::Lost, false, Exit::RunTime, "the kernel closed the netlink connection"),
        (E::Settings(memory()), true, Exit::RunTime, "the kernel no longer reports settings: out of memory"),
        (E::Question(memory()), true, Exit::RunTime, "cannot look up the route: out of memory"),
        (E::NoLink { name: "eth0".to_owned(), there: vec!["lo".to_owned(), tun()] }, false, Exit::RunTime,
         "there is no network interface `eth0` (there are: lo, tun0)"),
        (E::Tun(TunError::Closed), false, Exit::Missing, "no permission to open /dev/net/tun: run as root, or let this user \
          read and write that file"),
        (E::TunContested { attempts: 8 }, false, Exit::RunTime, "another process opens each new TUN device before it has an \
          owner, 8 times now: find out who does (`lsof /dev/net/tun`), or let only root use the device (chmod 0600 \
          /dev/net/tun)"),
        (E::TunShared(tun()), false, Exit::RunTime, "other users can open the TUN device tun0, or have opened it"),
        (E::TunGone(tun()), false, Exit::RunTime, "the TUN device tun0 is gone"),
        (E::OwnTunGone, false, Exit::RunTime, "the TUN device is gone"),
        (E::TunNotOwned { name: tun(), source: memory() }, true, Exit::RunTime, "tun0 cannot be owned: out of memory"),
        (E::masquerade("nf_tables", Errno::EPERM.into()), true, Exit::Missing, "the kernel does not let this process \
          masquerade (Operation not permitted (os error 1)), so the CLAT cannot share the host's address: run it as root or \
          with CAP_NET_ADMIN, or give the CLAT an address of its own with --v6, or a prefix with --v6-prefix"),
        (E::masquerade("nf_tables", memory()), true, Exit::Missing, "the kernel cannot masquerade: it refuses nf_tables: out \
          of memory; so the CLAT cannot share the host's address: give the CLAT an address of its own with --v6, or a prefix \
          with --v6-prefix"),
        (E::Forwarding { tun: tun(), source: memory() }, true, Exit::Missing, "forwarding cannot be switched on (out of \
          memory), which packets through tun0 need: switch it on before (net.ipv6.conf.all.forwarding=1; for a router \
          net.ipv4.ip_forward=1 too)"),
        (E::Note { path: "/run/x".into(), source: memory() }, true, Exit::Missing, "/run/x, which records the settings to \
          restore, cannot be written (out of memory): make its folder writable"),
        (E::Service(ServiceError::Cores(memory())), true, Exit::RunTime, "cannot forbid cores: out of memory"),
    ];
    for (error, has_source, exit, sentence) in cases {
        assert_eq!(error.to_string(), sentence);
        assert_eq!(error.source().is_some(), has_source, "{error}");
        assert_eq!(error.exit(), exit, "{error}");
        assert!(!error.is_transient(), "{error}");
    }
}
