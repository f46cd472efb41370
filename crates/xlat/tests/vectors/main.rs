// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vectors of `vectors/`: checks that they are complete, that the translator gives the expected results, and that
//! `CONFORMANCE.md` is correct about them.

mod conformance;
mod file;

use diolkos_xlat::verdict::Group;
use diolkos_xlat::{Env, Offload, Outbox, Packet, Reason, Translator, HEADROOM};
use file::{Bytes, File, Vector, Verdict};
use std::collections::BTreeSet;
use std::time::Duration;

/// A smaller number means that files are missing.
const AT_LEAST: usize = 700;

struct World {
    next_ipv4_id: u16,
    now: Duration,
}

impl Env for World {
    fn now(&mut self) -> Duration {
        self.now
    }
    fn ipv4_id(&mut self) -> u16 {
        let id = self.next_ipv4_id;
        self.next_ipv4_id = id.wrapping_add(1);
        id
    }
}

#[derive(Default)]
struct Wire(Vec<Vec<u8>>);

impl Outbox for Wire {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        assert_eq!(
            offload,
            Offload::default(),
            "a packet without offload became one with"
        );
        self.0.push(packet.to_vec());
    }
}

/// The result for `bytes`: the verdict, and every packet that is sent, in order.
fn translate(
    translator: &Translator,
    world: &mut World,
    bytes: &[u8],
) -> (diolkos_xlat::Verdict, Vec<Vec<u8>>) {
    let mut buffer = vec![0xaa; HEADROOM];
    buffer.extend_from_slice(bytes);
    let end = buffer.len();
    let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
    let mut wire = Wire::default();
    let verdict = translator.translate(&mut packet, world, &mut wire);
    if verdict == diolkos_xlat::Verdict::Forward {
        assert_eq!(
            packet.offload,
            Offload::default(),
            "a packet without offload became one with"
        );
        wire.0.push(packet.bytes().to_vec());
    }
    (verdict, wire.0)
}

/// Returns the differences between the translation and a vector.
fn replay(vector: &Vector) -> Result<(), String> {
    let translator = Translator::new(&vector.config.config()).map_err(|error| error.to_string())?;
    let mut world = World {
        next_ipv4_id: 0,
        now: Duration::ZERO,
    };
    for earlier in &vector.environment.earlier {
        world.now = Duration::from_millis(earlier.time_ms);
        translate(&translator, &mut world, &earlier.hex);
    }
    world.now = Duration::from_millis(vector.environment.time_ms);
    world.next_ipv4_id = vector.environment.ipv4_id;
    let (verdict, sent) = translate(&translator, &mut world, &vector.input.hex);
    let wanted = vector.verdict()?;
    if verdict != wanted {
        return Err(format!("verdict {verdict:?} instead of {wanted:?}"));
    }
    if sent.len() != vector.output.len() {
        return Err(format!(
            "{} packets instead of {}: {:02x?}",
            sent.len(),
            vector.output.len(),
            sent
        ));
    }
    for (
        at,
        (
            got,
            Bytes {
                hex: wanted,
                fields,
            },
        ),
    ) in sent.iter().zip(&vector.output).enumerate()
    {
        if got != wanted {
            let first = got
                .iter()
                .zip(wanted)
                .position(|(a, b)| a != b)
                .unwrap_or(got.len().min(wanted.len()));
            let around = |bytes: &[u8]| {
                format!(
                    "{:02x?}",
                    &bytes[(first & !7).min(bytes.len())..bytes.len().min((first & !7) + 16)]
                )
            };
            return Err(format!(
                "packet {at} ({}): {} bytes instead of {}; from byte {}: {} instead of {}",
                fields.first().map_or("", |field| field),
                got.len(),
                wanted.len(),
                first & !7,
                around(got),
                around(wanted)
            ));
        }
    }
    Ok(())
}

#[test]
fn the_translator_does_what_every_vector_demands() {
    let files = file::all();
    let vectors = files.iter().flat_map(|(_, File { vectors, .. })| vectors);
    let failures: Vec<_> = vectors
        .filter_map(|vector| {
            let error = replay(vector).err()?;
            Some(format!(
                "{} ({}): {}\n  {error}",
                vector.name,
                vector.rfc.join(", "),
                vector.demand
            ))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} vectors fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_vector_is_complete() {
    let files = file::all();
    let mut names = BTreeSet::new();
    for (stem, file) in &files {
        assert_eq!((file.format, &file.topic), (1, stem), "{stem}");
        assert!(!file.title.is_empty() && !file.vectors.is_empty(), "{stem}");
        for vector in &file.vectors {
            let name = &vector.name;
            assert!(names.insert(name.clone()), "{name} is there twice");
            assert!(
                name.bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')),
                "{name}"
            );
            assert!(
                vector.demand.ends_with('.') && vector.demand.len() > 20,
                "{name}: {}",
                vector.demand
            );
            assert!(
                !vector.rfc.is_empty() && vector.rfc.iter().all(|rfc| is_section(rfc)),
                "{name}: {:?}",
                vector.rfc
            );
            assert!(
                [&vector.choice, &vector.judges]
                    .into_iter()
                    .flatten()
                    .all(|words| !words.is_empty()),
                "{name}"
            );
            vector
                .config
                .config()
                .check()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            vector
                .verdict()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            match vector.verdict {
                Verdict::Forward => assert_eq!(vector.output.len(), 1, "{name}"),
                Verdict::Emitted => assert!(!vector.output.is_empty(), "{name}"),
                Verdict::Drop => assert!(vector.output.len() <= 1, "{name}"),
            }
            assert!(
                vector.answers.iter().all(|bug| is_report(bug)),
                "{name}: {:?}",
                vector.answers
            );
            let earlier = vector
                .environment
                .earlier
                .iter()
                .map(|earlier| (&earlier.fields, &earlier.hex));
            let packets = vector
                .output
                .iter()
                .chain([&vector.input])
                .map(|packet| (&packet.fields, &packet.hex));
            for (fields, hex) in packets.chain(earlier) {
                assert_eq!(
                    fields.is_empty(),
                    hex.is_empty(),
                    "{name}: bytes and their fields"
                );
            }
        }
    }
    assert!(names.len() >= AT_LEAST, "{} vectors", names.len());
}

/// Returns true for "owner/project#1".
fn is_report(text: &str) -> bool {
    text.split_once('#').is_some_and(|(project, number)| {
        project.split('/').count() == 2 && number.parse::<u32>().is_ok()
    })
}

/// Returns true for "RFC 7915 4.1", "RFC 792", "RFC 4443 2.4(e)" or "RFC 7915 4.2 figure 3".
fn is_section(text: &str) -> bool {
    let mut words = text.split(' ');
    let number = |word: Option<&str>| {
        word.is_some_and(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    words.next() == Some("RFC")
        && number(words.next())
        && words.next().is_none_or(|section| {
            section
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        })
        && words
            .next()
            .is_none_or(|word| word == "figure" && number(words.next()))
        && words.next().is_none()
}

#[test]
fn every_reason_of_the_slow_path_is_shown() {
    // Reasons that only a device or a caller can cause, or that depend on the routes of a host; no vector has them.
    const WITHOUT_VECTOR: [Reason; 4] = [
        Reason::OffloadMismatch,
        Reason::Headroom,
        Reason::NoRoute,
        Reason::DestinationLoops,
    ];
    let files = file::all();
    let shown: BTreeSet<_> = files
        .iter()
        .flat_map(|(_, file)| &file.vectors)
        .filter_map(|vector| vector.reason.clone())
        .collect();
    let missing: Vec<_> = Reason::ALL
        .iter()
        .filter(|reason| {
            !matches!(reason.group(), Group::Decline | Group::State)
                && !WITHOUT_VECTOR.contains(reason)
        })
        .map(|reason| reason.name())
        .filter(|name| !shown.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no vector shows {missing:?}");
}

/// A vector has one packet and no tables; the tests of the stateful translator cover these reasons.
#[test]
fn every_reason_of_the_tables_is_tested() {
    let folder = file::root().join("crates/nat64/tests/nat64");
    let texts: String = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for reason in Reason::ALL {
        if reason.group() == Group::State {
            assert!(texts.contains(&format!("Reason::{reason:?}")), "{reason}");
        }
    }
}

#[test]
fn the_conformance_tables_name_every_vector_and_no_other() {
    let files = file::all();
    let vectors: Vec<&Vector> = files.iter().flat_map(|(_, file)| &file.vectors).collect();
    let rows = conformance::rows();
    assert!(
        rows.iter().filter(|row| row.mark.is_some()).count() > 100,
        "rows are missing"
    );
    for row in &rows {
        let marked = row.mark.as_deref();
        let shows_nothing = marked == Some("✗") || marked == Some("–");
        assert_eq!(
            row.names.is_empty(),
            shows_nothing,
            "done needs a vector, and not done has none: {}",
            row.text
        );
        for name in &row.names {
            let exists = match conformance::is_path(name) {
                _ if conformance::is_test(name) => conformance::test_exists(name),
                true => file::root().join(name).exists(),
                false => vectors
                    .iter()
                    .any(|vector| conformance::matches(name, &vector.name)),
            };
            assert!(exists, "{name} does not exist: {}", row.text);
        }
    }
    let in_no_row = |vector: &&&Vector| {
        let in_row = |row: &conformance::Row| {
            row.names
                .iter()
                .any(|name| conformance::matches(name, &vector.name))
        };
        !rows.iter().filter(|row| row.mark.is_some()).any(in_row)
    };
    let unnamed: Vec<_> = vectors
        .iter()
        .filter(in_no_row)
        .map(|vector| &vector.name)
        .collect();
    assert!(unnamed.is_empty(), "no demand names {unnamed:?}");
    for vector in &vectors {
        for report in &vector.answers {
            let answers = |row: &&conformance::Row| row.text.contains(&format!("[{report}]"));
            let row = rows
                .iter()
                .find(answers)
                .unwrap_or_else(|| panic!("no row for {report}"));
            assert!(
                row.names.contains(&vector.name),
                "{} is missing: {}",
                vector.name,
                row.text
            );
        }
    }
}

#[test]
fn patterns() {
    assert!(conformance::matches("a-*-b", "a-1-b"));
    assert!(conformance::matches("*", ""));
    assert!(!conformance::matches("a-*-b", "a-b"));
    assert!(!conformance::matches("a", "ab"));
}
