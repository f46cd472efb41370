// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that are refused, with their messages; and every example of the documentation.

use super::*;
use diolkos_service::failure::{Classified, Exit};

fn refusal(text: &str) -> String {
    let failure = parse(text, "x.toml", |_| ()).expect_err("it is wrong");
    assert_eq!(failure.exit(), Exit::Usage);
    failure.to_string()
}

#[test]
fn the_examples_of_packages_are_right() {
    for (name, text) in [
        (
            "clat.toml",
            include_str!("../../../../docs/examples/clat.toml"),
        ),
        (
            "siit.toml",
            include_str!("../../../../docs/examples/siit.toml"),
        ),
        (
            "nat64.toml",
            include_str!("../../../../docs/examples/nat64.toml"),
        ),
        (
            "dns64.toml",
            include_str!("../../../../docs/examples/dns64.toml"),
        ),
    ] {
        parse(text, name, |_| ()).expect(name);
    }
}

#[test]
fn a_file_names_its_device_even_if_it_is_wrong_elsewhere() {
    let path = std::env::temp_dir().join(format!("diolkos-device-{}", std::process::id()));
    let named = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        let device = device(&path);
        std::fs::remove_file(&path).expect("it is there");
        device
    };
    let wrong = "[translator]\ndevice = \"nat0\"\nmode = \"nat46\"\n";
    assert_eq!(named(wrong).ok().as_deref(), Some("nat0"));
    assert_eq!(named("").ok().as_deref(), Some("diolkos0"));
    let failure = named("[translator\n").expect_err("it is no TOML");
    assert!(failure.to_string().contains(":1:"), "{failure}");
    assert_eq!(failure.exit(), Exit::Usage);
}

#[test]
fn the_print_parses_to_itself() {
    let text = "[translator]\ninterfaces = [\"eth0\"]\npref64 = [\"2001:db8:64::/96\"]\n[clat]\nv6 = \"2001:db8::1\"\n";
    let settings = parse(text, "x.toml", |_| ()).expect("it is right");
    let print = settings.canonical().expect("settings are TOML");
    assert_eq!(
        parse(&print, "print", |_| ()).expect("the print is right"),
        settings
    );
}

/// The configurations on a documentation page.
fn examples_of(page: &'static str) -> Vec<&'static str> {
    let blocks = page.split("```toml\n").skip(1);
    blocks.filter_map(|b| b.split("```").next()).collect()
}

/// Every table of the file that may be repeated or left out.
const TABLES: [&str; 4] = [
    include_str!("every_table/nat64.toml"),
    include_str!("every_table/cluster.toml"),
    include_str!("every_table/dns64.toml"),
    include_str!("every_table/announce.toml"),
];

fn examples() -> Vec<&'static str> {
    let pages = [
        include_str!("../../../../README.md"),
        include_str!("../../../../docs/announce.md"),
        include_str!("../../../../docs/cluster.md"),
        include_str!("../../../../docs/deterministic.md"),
        include_str!("../../../../docs/dns64.md"),
        include_str!("../../../../docs/logging.md"),
        include_str!("../../../../docs/nat64.md"),
        include_str!("../../../../docs/pcp.md"),
        include_str!("../../../../docs/siit.md"),
    ];
    let examples = pages.into_iter().flat_map(examples_of);
    examples.chain(TABLES).collect()
}

#[test]
fn the_examples_are_right() {
    for example in examples() {
        let settings = parse(example, "a page", |_| ()).expect("it is right");
        let print = settings.canonical().expect("settings are TOML");
        assert_eq!(
            parse(&print, "print", |_| ()).expect("so is the print"),
            settings
        );
    }
}

#[test]
fn udp_without_checksum_is_dropped_or_gets_one_as_the_mode_says() {
    let of = |text: &str| {
        let settings = parse(text, "x.toml", |_| ()).expect("it is right");
        let print = settings.canonical().expect("settings are TOML");
        let line = print
            .lines()
            .find(|line| line.starts_with("udp_zero_checksum ="));
        line.expect("it is printed").to_owned()
    };
    let nat64 = |key| {
        format!(
            "[translator]\nmode = \"nat64\"\n{key}\n[[nat64.pool4]]\naddress = \"192.0.2.1/32\"\n"
        )
    };
    assert_eq!(
        of("[translator]\nmode = \"siit\"\n"),
        "udp_zero_checksum = \"drop\""
    );
    assert_eq!(of(&nat64("")), "udp_zero_checksum = \"compute\"");
    assert_eq!(
        of(&nat64("udp_zero_checksum = \"drop\"")),
        "udp_zero_checksum = \"drop\""
    );
    // Only a stateless translator has ports without checksum, and each port only once.
    assert_eq!(
        refusal(&nat64("udp_zero_checksum_ports = [4789]")),
        "x.toml:3:27: translator.udp_zero_checksum_ports: only a SIIT or a CLAT passes UDP without checksum; a NAT64 computes the checksum (RFC 6146 section 3.4)"
    );
    let siit = |ports| {
        refusal(&format!(
            "[translator]\nmode = \"siit\"\nudp_zero_checksum_ports = {ports}\n"
        ))
    };
    assert_eq!(
        siit("[4789, 0]"),
        "x.toml:3:34: translator.udp_zero_checksum_ports[1]: 0 is not a port; name one of 1 to 65535"
    );
    assert_eq!(
        siit("[4789, 53, 4789]"),
        "x.toml:3:38: translator.udp_zero_checksum_ports[2]: 4789 stands in the list twice"
    );
}

#[test]
fn a_mapping_without_lengths_is_of_one_node() {
    let text = |v4, v6| {
        let head = "[translator]\nmode = \"siit\"\n[[eam]]\n";
        format!("{head}v4 = \"{v4}\"\nv6 = \"{v6}\"\n")
    };
    let parse = |text: String| parse(&text, "x.toml", |_| ()).expect("it is right");
    let short = parse(text("192.0.2.1", "2001:db8:aaaa::"));
    assert_eq!(short, parse(text("192.0.2.1/32", "2001:db8:aaaa::/128")));
    assert!(short
        .canonical()
        .expect("settings are TOML")
        .contains("\"192.0.2.1/32\""));
    assert_eq!(
        refusal(&text("192.0.2", "2001:db8::")),
        "x.toml:4:6: eam[0].v4: `192.0.2` is not an IPv4 network or address"
    );
}

#[test]
fn a_single_address_is_a_network_of_one_wherever_networks_are() {
    let of = |four: &str, six: &str| {
        let files = [
            format!(
                "[translator]\nmode = \"siit\"\n[icmp]\nsource_pool4 = [\"{four}\"]\nsource_pool6 = [\"{six}\"]\n\
                 [siit]\nroutes4 = [\"{four}\"]\nroutes6 = [\"{six}\"]\n"
            ),
            format!(
                "[translator]\nmode = \"nat64\"\n[nat64]\nroutes4 = [\"{four}\"]\nroutes6 = [\"{six}\"]\n\
                 [[nat64.pool4]]\naddress = \"{four}\"\n"
            ),
            format!("[translator]\ninterfaces = [\"eth0\"]\n[clat]\nroutes = [\"{four}\"]\n"),
            format!(
                "[dns64]\nupstream = [\"192.0.2.53\"]\nclients = [\"{four}\", \"{six}\"]\nexclude4 = [\"{four}\"]\n\
                 exclude6 = [\"{six}\"]\n[[dns64.range]]\nv4 = \"{four}\"\npref64 = []\n"
            ),
        ];
        files.map(|text| parse(&text, "x.toml", |_| ()).expect("it is right"))
    };
    let short = of("203.0.113.8", "2001:db8::8");
    assert_eq!(short, of("203.0.113.8/32", "2001:db8::8/128"));
    assert_eq!(
        refusal("[icmp]\nsource_pool4 = [\"203.0.113\"]\n"),
        "x.toml:2:17: icmp.source_pool4[0]: `203.0.113` is not an IPv4 network or address"
    );
}

#[test]
fn what_is_odd_and_clear_is_warned_of() {
    let warnings = |text: &str| {
        let settings = parse(text, "x.toml", |_| ()).expect("it is accepted");
        located(text, "x.toml", &settings.warnings())
    };
    let siit = "[translator]\nmode = \"siit\"\npref64 = [\"2001:db8:0:0:ab00::/96\"]\n";
    let said = warnings(siit);
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("x.toml:3:11: translator.pref64[0]: 2001:db8:0:0:ab00::/96 has"));
    let dns64 = "[dns64]\nupstream = [\"192.0.2.53\"]\npref64 = [\"2001:db8:0:0:ab00::/96\"]\n";
    let said = warnings(dns64);
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("x.toml:3:11: dns64.pref64[0]: 2001:db8:0:0:ab00::/96 has"));
    let clat = "[translator]\ninterfaces = [\"eth0\"]\n";
    assert_eq!(warnings(clat), [""; 0]);
    // Bits 64 to 71 are not part of a shorter prefix.
    let short = siit.replace("/96", "/64");
    assert!(refusal(&short).contains("bits 64 to 71 must be zero"));
}

#[test]
fn a_link_below_the_lowest_mtu_is_warned_of() {
    let mut settings = Settings::default();
    let links = [("a", 1500), ("b", 1280), ("c", 576)];
    assert_eq!(settings.narrow_links(links.into_iter()), [""; 0]);
    settings.translator.lowest_ipv6_mtu = 1500;
    let said = settings.narrow_links(links.into_iter());
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("1500 is above the MTU of b, 1280"));
}

#[test]
fn a_dns64_is_alone_where_nothing_speaks_of_a_translator() {
    let dns64 = "[dns64]\nupstream = [\"192.0.2.53\"]\n[log]\nlevel = \"warn\"\n";
    let settings = parse(dns64, "x.toml", |_| ()).expect("it needs no translator");
    assert!(settings.dns64_alone().is_some());
    let beside = format!("{dns64}[translator]\ninterfaces = [\"eth0\"]\n");
    let settings = parse(&beside, "x.toml", |_| ()).expect("both are right");
    assert!(settings.dns64.is_some() && settings.dns64_alone().is_none());
    let print = settings.canonical().expect("settings are TOML");
    assert!(print.contains("[translator]") && print.contains("[dns64]"));
}

#[test]
fn errors_point_at_the_place() {
    let cases = [
        (
            "[translator]\nmod = \"clat\"\n",
            "x.toml:2:1: [translator] has no key `mod`",
        ),
        (
            "[translator]\nmode = \"clot\"\n",
            "x.toml:2:8: translator.mode: \"clot\" is none of",
        ),
        ("[translator\n", "x.toml:1:12: "),
        (
            "[translator]\ninterfaces = [\"a\"]\npref64 = [\"64:ff9b::/196\"]\n",
            "x.toml:3:11: ",
        ),
        (
            "[translator]\ninterfaces = [\"a\"]\n[clat]\n  v4 = \"127.0.0.1\"\n",
            "x.toml:4:8: clat.v4: 127.0.0.1 is a loopback address",
        ),
        (
            "[translator]\ninterfaces = [\"a\", \"b\"]\n",
            "x.toml:2:14: translator.interfaces: a CLAT has one",
        ),
        (
            "[clat]\nv6 = \"2001:db8::/64\"\n",
            "x.toml:2:6: clat.v6: `2001:db8::/64` is neither",
        ),
        (
            "[translator]\ninterfaces = [\"a\"]\n[clat]\nv6_prefix = \"2001:db8::1/64\"\n",
            "x.toml:4:13: clat.v6_prefix: 2001:db8::1/64 has host bits set",
        ),
        (
            "[translator]\ninterfaces = [\"a\"]\n[clat]\nv6_prefix = \"2001:db8::/128\"\n",
            "x.toml:4:13: clat.v6_prefix: 2001:db8::/128 has a length that",
        ),
        (
            "[translator]\ninterfaces = [\"a\"]\n[clat]\nv6_prefix = \"fe80::/64\"\n",
            "x.toml:4:13: clat.v6_prefix: no network routes fe80::/64",
        ),
        (
            "[translator]\ninterfaces = [\"a\"]\n[clat]\nv6 = \"2001:db8::1\"\nv6_prefix = \"2001:db8:1::/56\"\n",
            "x.toml:5:13: clat.v6_prefix: 2001:db8:1::/56 does not contain clat.v6",
        ),
        (
            "[translator]\ninterfaces = [\"a\"]\npref64 = [\"2001:db8:64::/64\"]\n[clat]\nv6_prefix = \"2001:db8:64::/72\"\n",
            "x.toml:5:13: clat.v6_prefix: 2001:db8:64::/72 lies in translator.pref64",
        ),
    ];
    for (text, expected) in cases {
        let message = refusal(text);
        assert!(
            message.starts_with(expected),
            "{message:?} begins with {expected:?}"
        );
    }
}

fn refusal_of_collector(collector: &str) -> String {
    let head = "[translator]\nmode = \"nat64\"\n[[nat64.pool4]]\naddress = \"192.0.2.1\"\n";
    let text = format!("{head}[[log.bindings]]\n{collector}");
    match parse(&text, "x.toml", |_| ()) {
        Ok(_) => String::new(),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn each_kind_of_collector_has_its_keys() {
    for right in [
        "to = \"journal\"\n",
        "to = \"syslog\"\naddress = \"192.0.2.7:514\"\ntransport = \"tcp\"\nfacility = \"local3\"\n",
        "to = \"ipfix\"\naddress = \"[2001:db8::7]:4739\"\ndomain = 7\nqueue = 4096\n",
        "to = \"file\"\npath = \"/var/log/bindings\"\nname = \"two\"\nsessions = true\n",
    ] {
        assert_eq!(refusal_of_collector(right), "", "{right}");
    }
    for (wrong, expected) in [
        ("to = \"jornal\"\n", "x.toml:6:6: log.bindings[0].to: \"jornal\" is none of"),
        (
            "to = \"syslog\"\n",
            "x.toml:5:1: log.bindings[0]: `to = \"syslog\"` needs the key `address`, as \"192.0.2.7:514\"",
        ),
        (
            "to = \"journal\"\ndomain = 2\n",
            "x.toml:7:10: log.bindings[0].domain: `to = \"journal\"` has no such key",
        ),
        (
            "to = \"file\"\npath = \"a\"\n",
            "x.toml:7:8: log.bindings[0].path: \"a\" is not the absolute path of a file",
        ),
        (
            "to = \"ipfix\"\naddress = \"0.0.0.0:1\"\n",
            "x.toml:7:11: log.bindings[0].address: \"0.0.0.0:1\" cannot be the address",
        ),
        (
            "to = \"journal\"\nqueue = 12\n",
            "x.toml:7:9: log.bindings[0].queue: 12 is not between 4096 and",
        ),
        (
            "to = \"journal\"\n[[log.bindings]]\nto = \"journal\"\n",
            "x.toml:7:1: log.bindings[1]: another collector is called \"journal\"",
        ),
    ] {
        let said = refusal_of_collector(wrong);
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
}

#[test]
fn only_a_nat64_has_bindings_to_log() {
    let text = "[translator]\nmode = \"siit\"\n[[log.bindings]]\nto = \"journal\"\n";
    let said = parse(text, "x.toml", |_| ()).expect_err("it is wrong");
    assert!(said.to_string().contains("log.bindings[0]: only a NAT64"));
}
