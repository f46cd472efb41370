// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{SessionState, SessionView};

use super::super::moment::Moment;
use super::head::{CLEAN, SESSION};
use super::section::{self, END, LONGEST, OPERATOR, POOL, SESSIONS};
use super::*;

fn head() -> Head {
    Head {
        moment: Moment {
            boot: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
            since_boot: Duration::from_nanos(123_456_789),
            wall: Duration::from_secs(1_800_000_000),
        },
        clean: true,
        secret: [1, u64::MAX],
        pref64: vec![
            "64:ff9b::/96".parse().expect("a prefix"),
            "2001:db8::/32".parse().expect("a prefix"),
        ],
    }
}

fn binding(protocol: Protocol, port: u16) -> Binding {
    Binding {
        protocol,
        v4: Endpoint4 {
            addr: Ipv4Addr::new(192, 0, 2, 1),
            port,
        },
        v6: Endpoint6 {
            addr: "2001:db8::5".parse().expect("an address"),
            port: 7,
        },
    }
}

fn bindings() -> Vec<Binding> {
    Protocol::ALL
        .map(|protocol| binding(protocol, 443))
        .to_vec()
}

fn sessions() -> Vec<SessionView> {
    let of = |state| {
        let protocol = match state {
            SessionState::Udp => Protocol::Udp,
            SessionState::Icmp => Protocol::Icmp,
            _ => Protocol::Tcp,
        };
        SessionView {
            binding: binding(protocol, 1024 + state as u16),
            peer: Endpoint4 {
                addr: Ipv4Addr::new(198, 51, 100, 2),
                port: 80,
            },
            prefix: state as u8 % 2,
            state,
            remaining: Duration::from_millis(7_440_000 - state as u64),
        }
    };
    SessionState::ALL.map(of).to_vec()
}

fn write(head: &Head, bindings: &[Binding], sessions: &[SessionView]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StateWriter::new(&mut bytes, head).expect("memory takes all");
    for binding in bindings {
        writer.binding(binding).expect("memory takes all");
    }
    for session in sessions {
        writer.session(session).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    bytes
}

fn written() -> Vec<u8> {
    write(&head(), &bindings(), &sessions())
}

type Read = (Head, Vec<Binding>, Vec<SessionView>);

fn read(bytes: &[u8]) -> Result<Read, Malformed> {
    let (mut reader, head) = StateReader::new(bytes)?;
    let (mut bindings, mut sessions) = (vec![], vec![]);
    while let Some(binding) = reader.binding()? {
        bindings.push(binding);
    }
    while let Some(session) = reader.session()? {
        sessions.push(session);
    }
    Ok((head, bindings, sessions))
}

/// Returns the offsets of the sections, their names and bodies.
fn sections(bytes: &[u8]) -> Vec<(usize, section::Name, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = &bytes[SEAL_AT as usize + 1..];
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let section = section::take(&mut rest).expect("it is whole");
        found.push((at, section.name, section.body));
    }
    found
}

/// Returns a file with other sections.
fn made_of(version: u32, sections: &[(section::Name, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    section::begin(&mut bytes, version, 1).expect("memory takes all");
    bytes.push(CLEAN);
    for (name, body) in sections {
        section::put(&mut bytes, *name, body).expect("memory takes all");
    }
    bytes
}

#[test]
fn what_is_written_is_read() {
    let bytes = written();
    let frames = 5 * 16;
    let bodies = 16 + (34 + 2 * 17) + (2 + 3 * 25) + 9 * 36 + 8;
    assert_eq!(bytes.len(), 25 + frames + bodies);
    assert_eq!(
        read(&bytes).expect("it is whole"),
        (head(), bindings(), sessions())
    );
    assert_eq!(verify(&bytes[..]).expect("it is whole"), head());
}

#[test]
fn many_take_several_sections() {
    let many: Vec<_> = (0..6000).map(|port| binding(Protocol::Udp, port)).collect();
    let sessions: Vec<_> = std::iter::repeat_n(sessions(), 500).flatten().collect();
    let bytes = write(&head(), &many, &sessions);
    let names: Vec<_> = sections(&bytes)
        .into_iter()
        .map(|(_, name, body)| {
            assert!(body.len() <= LONGEST);
            name
        })
        .collect();
    assert_eq!(names[2..5], [OPERATOR; 3]);
    assert_eq!(names[5..8], [SESSIONS; 3]);
    assert_eq!(names[8..], [END]);
    assert_eq!(read(&bytes).expect("it is whole"), (head(), many, sessions));
}

#[test]
fn without_entries_it_is_whole_too() {
    let bytes = write(&head(), &[], &[]);
    assert_eq!(read(&bytes).expect("it is whole"), (head(), vec![], vec![]));
    let sessions_only = write(&head(), &[], &sessions());
    assert_eq!(
        read(&sessions_only).expect("it is whole"),
        (head(), vec![], sessions())
    );
    assert!(matches!(verify(&[][..]), Err(Malformed::Foreign)));
}

#[test]
fn no_byte_can_be_missing() {
    let bytes = written();
    let end_of_bindings = sections(&bytes)[3].0;
    for len in 0..bytes.len() {
        match verify(&bytes[..len]) {
            Err(Malformed::Foreign) => assert!(len < 8),
            Err(Malformed::Truncated) => assert!(len >= 8),
            other => panic!("{len}: {other:?}"),
        }
        let kept = salvage(&bytes[..len]);
        let expected = if len >= end_of_bindings {
            bindings()
        } else {
            vec![]
        };
        assert_eq!(kept.bindings, expected, "{len}");
        assert!(!kept.is_complete, "{len}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(verify(&longer[..]), Err(Malformed::Corrupted(_))));
    assert_eq!(salvage(&longer[..]).bindings, bindings());
}

#[test]
fn no_bit_can_be_another() {
    let bytes = written();
    let of_bindings = sections(&bytes)[2].0..sections(&bytes)[3].0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << bit;
            let error = verify(&wrong[..]).expect_err("it is not what was written");
            match at {
                0..8 => assert!(matches!(error, Malformed::Foreign)),
                _ => assert!(
                    matches!(error, Malformed::Corrupted(_) | Malformed::Truncated),
                    "{at}: {error}"
                ),
            }
            let kept = salvage(&wrong[..]);
            let is_length = sections(&bytes)
                .iter()
                .any(|(start, ..)| (start + 4..start + 8).contains(&at));
            if at >= 8 && !is_length && !of_bindings.contains(&at) {
                assert_eq!(kept.bindings, bindings(), "{at}: the bindings are whole");
            }
            if of_bindings.contains(&at) {
                assert!(!kept.is_complete, "{at}: bindings are missing");
            }
        }
    }
}

#[test]
fn the_seal_alone_changes_in_place() {
    let mut bytes = written();
    bytes[SEAL_AT as usize] = OUTDATED;
    let expected = Head {
        clean: false,
        ..head()
    };
    assert_eq!(verify(&bytes[..]).expect("it is whole"), expected);
}

#[test]
fn another_version_keeps_bindings_and_secret() {
    let of_now = written();
    let parts = sections(&of_now);
    let (pool, operator) = (&parts[0].2, &parts[2].2);
    // Its entries are longer, it has sections of unknown names, and its end says more.
    let mut longer = 28_u16.to_le_bytes().to_vec();
    for entry in operator[2..].chunks(25) {
        longer.extend([entry, b"new"].concat());
    }
    let later = made_of(
        3,
        &[
            (*b"new1", b"something"),
            (OPERATOR, &longer),
            (POOL, pool),
            (SESSIONS, b"of another form"),
            (END, &[3, 0, 0, 0, 9, 9, 9, 9, 9]),
        ],
    );
    assert!(matches!(verify(&later[..]), Err(Malformed::Version(3))));
    let expected = Salvage {
        secret: Some([1, u64::MAX]),
        bindings: bindings(),
        is_complete: true,
    };
    assert_eq!(salvage(&later[..]), expected);
    let cut = &later[..later.len() - 1];
    assert_eq!(
        salvage(cut),
        Salvage {
            is_complete: false,
            ..expected
        }
    );
}

#[test]
fn whatever_happens_to_it_nothing_is_made_up_and_nothing_is_lost_unsaid() {
    let mut random = fastrand::Rng::with_seed(6146);
    let bytes = written();
    for round in 0..20_000 {
        let mut wrong = bytes.clone();
        for _ in 0..random.usize(1..4) {
            damage(&mut wrong, &mut random);
        }
        match read(&wrong) {
            Ok((mut read, bindings_read, sessions_read)) => {
                read.clean = true;
                let all = (read, bindings_read, sessions_read);
                assert_eq!(all, (head(), bindings(), sessions()), "round {round}");
            }
            Err(error) => assert!(!matches!(error, Malformed::Unreadable(_)), "{error}"),
        }
        let kept = salvage(&wrong[..]);
        assert!(
            matches!(kept.secret, None | Some([1, u64::MAX])),
            "round {round}"
        );
        let known = |b: &Binding| bindings().contains(b);
        assert!(kept.bindings.iter().all(known), "round {round}");
        if kept.is_complete {
            assert_eq!(kept.bindings, bindings(), "round {round}");
        }
    }
}

#[test]
fn checksums_that_are_right_do_not_make_it_right() {
    let mut random = fastrand::Rng::with_seed(7915);
    let of_now = written();
    let parts = sections(&of_now);
    for round in 0..20_000 {
        let mut parts = parts.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..parts.len());
            match random.u8(..4) {
                0 => drop(parts.remove(at)),
                1 => parts.push(parts[at].clone()),
                2 => parts[at].1 = [END, OPERATOR, SESSIONS, *b"none"][random.usize(..4)],
                _ => damage(&mut parts[at].2, &mut random),
            }
            if parts.is_empty() {
                break;
            }
        }
        let parts: Vec<_> = parts.iter().map(|(_, n, body)| (*n, &body[..])).collect();
        let version = [VERSION, VERSION, 3][random.usize(..3)];
        let file = made_of(version, &parts);
        let _ = salvage(&file[..]);
        if let Ok((head, bindings, sessions)) = read(&file) {
            let again = write(&head, &bindings, &sessions);
            let again = read(&again).expect("it is whole");
            assert_eq!(again, (head, bindings, sessions), "round {round}");
        }
    }
}

/// Damages a file as disks, people and other programs do.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    let at = random.usize(..=bytes.len());
    match random.u8(..6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.u8(..)),
        2 => bytes
            .drain(at..bytes.len().min(at + random.usize(..SESSION)))
            .for_each(drop),
        3 => {
            let copied = bytes[at..].iter().take(random.usize(..100)).copied();
            let copied: Vec<_> = copied.collect();
            bytes.splice(at..at, copied);
        }
        4 => bytes
            .iter_mut()
            .skip(at)
            .take(random.usize(..64))
            .for_each(|byte| *byte = 0),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.u8(..8);
            }
        }
    }
}
