// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages about mistakes in `[nat64]` name their place in the file.

use crate::parse;

const BOUND: &str = "[[nat64.static]]\nprotocol = \"udp\"\nv4 = \"192.0.2.1:53\"\n";

#[test]
fn mistakes_in_the_parts_of_a_nat64_have_their_place() {
    let pool = "[[nat64.pool4]]\naddress = \"192.0.2.1\"\n";
    for (section, mistake, expected) in [
        (
            "[[nat64.pool4]]\n",
            "address = \"192.0.2\"",
            "nat64.pool4[0].address: `192.0.2` is not an IPv4 network or address",
        ),
        (
            "[[nat64.pool4]]\n",
            "address = 192",
            "nat64.pool4[0].address: 192 is not an IPv4 address or network; write it in quotation marks",
        ),
        (
            "[[nat64.pool4]]\n",
            "address = \"192.0.2.1/24\"",
            "nat64.pool4[0].address: 192.0.2.1/24 has host bits set",
        ),
        (
            pool,
            "ports = \"9-8\"",
            "nat64.pool4[0].ports: `9-8` is not a range of ports such as 1024-65535",
        ),
        (
            pool,
            "protocols = \"tcp\"",
            "nat64.pool4[0].protocols: \"tcp\" is not a list; write [\"tcp\"]",
        ),
        (
            pool,
            "sources = \"2001:db8::/48\"",
            "nat64.pool4[0].sources: \"2001:db8::/48\" is not a list; write [\"2001:db8::/48\"]",
        ),
        (
            pool,
            "sources = [\"2001:db8::1/48\"]",
            "nat64.pool4[0].sources: 2001:db8::1/48 has host bits set",
        ),
        (
            BOUND,
            "v6 = \"2001:db8::1\"",
            "nat64.static[0].v6: `2001:db8::1` has no port; write `[2001:db8::1]:PORT`",
        ),
        (
            "[nat64]\n",
            "filtering = \"none\"",
            "nat64.filtering: \"none\" is none of \"endpoint-independent\" and \"address-dependent\"",
        ),
        (
            "[nat64]\n",
            "max_sessions_per_source = -1",
            "nat64.max_sessions_per_source: -1 is not between 0 and 4294967295",
        ),
        (
            "[nat64]\n",
            "max_bindings_per_source = \"all\"",
            "nat64.max_bindings_per_source: `all` is neither a number nor `auto`",
        ),
        (
            "[nat64]\n",
            "max_sessions = 0",
            "nat64.max_sessions: 0 would drop every packet",
        ),
        (
            "[nat64.timeouts]\n",
            "udp = 119",
            "nat64.timeouts.udp: 119 s is below 120 s",
        ),
        (
            "[nat64.timeouts]\n",
            "udp = 120.5",
            "nat64.timeouts.udp: 120.5 is not a whole number",
        ),
        (
            "[nat64]\nports_per_block = 64\n[nat64.timeouts]\n",
            "port_block = 604801",
            "nat64.timeouts.port_block: 604801 s is above 604800 s",
        ),
        (
            "[nat64.deterministic]\nsources = []\n",
            "ports_per_source = -64",
            "nat64.deterministic.ports_per_source: -64 is not between 0 and 4294967295",
        ),
    ] {
        let head = format!("[translator]\nmode = \"nat64\"\n{section}");
        let (line, column) = (head.lines().count() + 1, mistake.find('=').unwrap_or(0) + 3);
        let text = format!("{head}{mistake}\n");
        let said = parse(&text, "x.toml", |_| ())
            .expect_err("it is wrong")
            .to_string();
        let place = format!("x.toml:{line}:{column}: ");
        assert!(
            said.contains(&format!("{place}{expected}")),
            "{said}\n{place}{expected}"
        );
    }
}

#[test]
fn a_node_has_no_zone() {
    let parse = |v6| {
        let text = format!("[translator]\nmode = \"nat64\"\n{BOUND}v6 = \"{v6}\"\n");
        parse(&text, "x.toml", |_| ()).expect("it is right")
    };
    assert_eq!(parse("[2001:db8::1%2]:53"), parse("[2001:db8::1]:53"));
}
