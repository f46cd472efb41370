// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files with typical mistakes, and the complete message for each.

use super::parse;

/// Name of the test case, text of the file, and the message after the file's name.
type Wrong = (&'static str, &'static str, &'static str);

const SYNTAX: [Wrong; 16] = [
    (
        "a word without quotation marks",
        "[translator]\nmode = nat64\n",
        "2:8: mode: nat64 has no quotation marks; write mode = \"nat64\"",
    ),
    (
        "an address without quotation marks",
        "[[nat64.pool4]]\naddress = 192.0.2.1\n",
        "2:11: address: 192.0.2.1 has no quotation marks; write address = \"192.0.2.1\"",
    ),
    (
        "a network without quotation marks, and a comment",
        "[[nat64.pool4]]\naddress = 192.0.2.0/29  # ours\n",
        "2:11: address: 192.0.2.0/29 has no quotation marks; write address = \"192.0.2.0/29\"",
    ),
    (
        "yes for true",
        "[nat64]\nport_preservation = yes\n",
        "2:21: port_preservation: yes has no quotation marks; write port_preservation = true, or \"yes\" if a text is meant",
    ),
    (
        "a capital letter",
        "[nat64]\nport_preservation = True\n",
        "2:21: port_preservation: True is written in small letters; write port_preservation = true",
    ),
    (
        "a section without its bracket",
        "[translator\nmode = \"siit\"\n",
        "1:12: a section begins with its name in brackets, as in [translator], or [[nat64.pool4]] if there may be several",
    ),
    (
        "a list without its bracket",
        "[translator]\npref64 = [\"64:ff9b::/96\"\nmode = \"siit\"\n",
        "3:1: a list above `mode = \"siit\"` has no ] at its end",
    ),
    (
        "a list without its bracket at the end of the file",
        "[translator]\npref64 = [\"64:ff9b::/96\"\n",
        "2:25: pref64: the list has no ] at its end",
    ),
    (
        "a list without a comma",
        "[translator]\ninterfaces = [\"eth0\" \"eth1\"]\n",
        "2:22: interfaces: between two elements of a list stands one comma",
    ),
    (
        "a text without its end",
        "[translator]\nmode = \"siit\n",
        "2:13: mode: `\"siit` is a text without the quotation mark at its end, or has a character that TOML does not allow",
    ),
    (
        "a key without a value",
        "[translator]\nmode\n",
        "2:5: `mode` has no value; write KEY = VALUE",
    ),
    (
        "nothing behind the equals sign",
        "[translator]\nmode =\n",
        "2:7: `mode =` has no value; write KEY = VALUE",
    ),
    (
        "two keys on a line",
        "[translator]\nqueues = 2 mtu4 = 1500\n",
        "2:17: `queues = 2 mtu4 = 1500` has more than one key; write one on a line",
    ),
    (
        "a section twice",
        "[translator]\nmode = \"siit\"\n[translator]\nqueues = 1\n",
        "3:2: the section [translator] stands twice; put all its keys below the first one",
    ),
    (
        "a key twice",
        "[translator]\nmode = \"siit\"\nmode = \"nat64\"\n",
        "3:1: the key `mode` stands twice in this section; remove one",
    ),
    (
        "a path of another system",
        "[nat64]\nstate = \"C:\\diolkos\"\n",
        "2:13: state: in a text in \" marks, \\ begins an escape; write \\\\, or put the text in ' marks",
    ),
];

const KEYS: [Wrong; 10] = [
    (
        "a key that is nearly one",
        "[translator]\nmod = \"siit\"\n",
        "2:1: [translator] has no key `mod`; did you mean `mode`?",
    ),
    (
        "one letter less, of a list of sections",
        "[translator]\nmode = \"nat64\"\n[[nat64.pool]]\naddress = \"192.0.2.1\"\n",
        "3:9: [nat64] has no key `pool`; did you mean `pool4`?",
    ),
    (
        "a key of another section",
        "[nat64]\nsource_pool4 = [\"192.0.2.1\"]\n",
        "2:1: [nat64] has no key `source_pool4`; it is a key of [icmp]",
    ),
    (
        "a key of nothing",
        "[translator]\nfrobnicate = 1\n",
        "2:1: [translator] has no key `frobnicate`; man diolkos.toml(5) lists what there is",
    ),
    (
        "a key of a section with few",
        "[control]\nowner = \"me\"\n",
        "2:1: [control] has no key `owner`; its keys are `group`",
    ),
    (
        "a section that is nearly one",
        "[translater]\nmode = \"siit\"\n",
        "1:2: there is no section [translater]; did you mean [translator]?",
    ),
    (
        "a key above all sections",
        "mode = \"siit\"\n",
        "1:1: `mode` is not a section; keys stand below a line such as [translator]; it is a key of [translator]",
    ),
    (
        "a part of the pool without its address",
        "[[nat64.pool4]]\nports = \"1024-2000\"\n",
        "1:1: [[nat64.pool4]] needs the key `address`: an IPv4 address or network",
    ),
    (
        "a mapping of one side",
        "[[eam]]\nv4 = \"192.0.2.1\"\n",
        "1:1: [[eam]] needs the key `v6`: an IPv6 network",
    ),
    (
        "a key of the second binding",
        "[[nat64.static]]\nprotocol = \"tcp\"\nv4 = \"192.0.2.1:80\"\nv6 = \"[2001:db8::1]:80\"\n[[nat64.static]]\nprotocol = \"tcp\"\nv4 = \"192.0.2.1:81\"\nnode = \"[2001:db8::1]:80\"\n",
        "8:1: [[nat64.static]] has no key `node`; its keys are `protocol`, `v4` and `v6`",
    ),
];

const VALUES: [Wrong; 22] = [
    (
        "a mode that is none",
        "[translator]\nmode = \"nat46\"\n",
        "2:8: translator.mode: \"nat46\" is none of \"clat\", \"siit\" and \"nat64\"; did you mean \"nat64\"?",
    ),
    (
        "a number for a mode",
        "[translator]\nmode = 64\n",
        "2:8: translator.mode: 64 is none of \"clat\", \"siit\" and \"nat64\"",
    ),
    (
        "one table for a list of them",
        "[nat64.pool4]\naddress = \"192.0.2.1\"\n",
        "1:1: nat64.pool4: [nat64.pool4] is one table, and there may be several; write [[nat64.pool4]]",
    ),
    (
        "several tables for one",
        "[[translator]]\nmode = \"siit\"\n",
        "2:1: there is only one such section; write [translator], with single brackets",
    ),
    (
        "a list for a section",
        "[nat64]\npool4 = [\"192.0.2.1\"]\n",
        "2:10: nat64.pool4[0]: \"192.0.2.1\" is not a section; write [[nat64.pool4]] on a line of its own, and its keys below",
    ),
    (
        "a segment size that is too small",
        "[translator]\ntcp_mss = 535\n",
        "2:11: translator.tcp_mss: 535 is not between 536 and 65535",
    ),
    (
        "a word for a segment size",
        "[translator]\ntcp_mss = \"auto\"\n",
        "2:11: translator.tcp_mss: \"auto\" is neither a number of bytes nor \"mtu\" nor \"off\"",
    ),
    (
        "a flag for a segment size",
        "[translator]\ntcp_mss = true\n",
        "2:11: translator.tcp_mss: true is not a number; write a number from 536 to 65535 in digits or \"mtu\" or \"off\"",
    ),
    (
        "a number with a unit",
        "[nat64]\nmax_sessions = \"4M\"\n",
        "2:16: nat64.max_sessions: \"4M\" is not a number; write a number from 0 to 4294967295 in digits",
    ),
    (
        "a number in quotation marks",
        "[nat64]\nmax_sessions = \"4000000\"\n",
        "2:16: nat64.max_sessions: \"4000000\" has quotation marks, and this key takes a number; write 4000000",
    ),
    (
        "a number below zero",
        "[nat64]\nmax_sessions = -1\n",
        "2:16: nat64.max_sessions: -1 is out of range; write a number from 0 to 4294967295",
    ),
    (
        "half a second",
        "[nat64.timeouts]\nudp = 120.5\n",
        "2:7: nat64.timeouts.udp: 120.5 is not a whole number; write a number from 0 to 9223372036854775807",
    ),
    (
        "a number for a flag",
        "[nat64]\nport_preservation = 1\n",
        "2:21: nat64.port_preservation: 1 is neither true nor false",
    ),
    (
        "a flag in quotation marks",
        "[nat64]\nport_preservation = \"true\"\n",
        "2:21: nat64.port_preservation: \"true\" has quotation marks; write true",
    ),
    (
        "one interface for a list",
        "[translator]\ninterfaces = \"eth0\"\n",
        "2:14: translator.interfaces: \"eth0\" is not a list; write [\"eth0\"]",
    ),
    (
        "one prefix for a list",
        "[translator]\npref64 = \"2001:db8:64::/96\"\n",
        "2:10: translator.pref64: \"2001:db8:64::/96\" is not a list; write [\"2001:db8:64::/96\"]",
    ),
    (
        "a list for a text",
        "[translator]\ndevice = [\"diolkos0\"]\n",
        "2:10: translator.device: [\"diolkos0\"] is a list, and this key takes one value; write a text",
    ),
    (
        "no address",
        "[[nat64.pool4]]\naddress = \"192.0.2\"\n",
        "2:11: nat64.pool4[0].address: `192.0.2` is not an IPv4 network or address",
    ),
    (
        "an address of the other family",
        "[clat]\nv4 = \"2001:db8::1\"\n",
        "2:6: clat.v4: `2001:db8::1` is neither an IPv4 address nor `auto`",
    ),
    (
        "an address to listen at without a port",
        "[dns64]\nupstream = [\"192.0.2.53\"]\nlisten = [\"[2001:db8:6::1]\"]\n",
        "3:11: dns64.listen[0]: \"[2001:db8:6::1]\" has no port; write \"[2001:db8:6::1]:PORT\"",
    ),
    (
        "an endpoint of a binding without brackets",
        "[[nat64.static]]\nprotocol = \"udp\"\nv4 = \"192.0.2.1:53\"\nv6 = \"2001:db8::1\"\n",
        "4:6: nat64.static[0].v6: `2001:db8::1` has no port; write `[2001:db8::1]:PORT`",
    ),
    (
        "ports the wrong way round",
        "[[nat64.pool4]]\naddress = \"192.0.2.1\"\nports = \"2000-1024\"\n",
        "3:9: nat64.pool4[0].ports: `2000-1024` is not a range of ports such as 1024-65535",
    ),
];

const RULES: [Wrong; 9] = [
    (
        "a section of another mode",
        "[translator]\nmode = \"siit\"\npref64 = [\"64:ff9b::/96\"]\n[nat64]\n",
        "4:1: nat64: this section is for the mode \"nat64\", and the mode is \"siit\": remove it, or set translator.mode = \"nat64\"",
    ),
    (
        "a section of another mode that says nothing new",
        "[translator]\nmode = \"nat64\"\n[[nat64.pool4]]\naddress = \"192.0.2.1\"\n[clat]\nmetric = 2048\n",
        "5:1: clat: this section is for the mode \"clat\", and the mode is \"nat64\": remove it, or set translator.mode = \"clat\"",
    ),
    (
        "a route with host bits",
        "[translator]\ninterfaces = [\"eth0\"]\n[clat]\nroutes = [\"192.0.2.1/24\"]\n",
        "4:11: clat.routes[0]: 192.0.2.1/24 has host bits set; write 192.0.2.0/24",
    ),
    (
        "a pool with host bits",
        "[translator]\nmode = \"nat64\"\n[[nat64.pool4]]\naddress = \"192.0.2.1/29\"\n",
        "4:11: nat64.pool4[0].address: 192.0.2.1/29 has host bits set; write 192.0.2.0/29",
    ),
    (
        "pools that overlap",
        "[translator]\nmode = \"nat64\"\n[[nat64.pool4]]\naddress = \"192.0.2.32/29\"\n[[nat64.pool4]]\naddress = \"192.0.2.36\"\n",
        "6:11: nat64.pool4[1].address: 192.0.2.36 overlaps nat64.pool4[0], 192.0.2.32/29: remove one, or give them different ports or protocols",
    ),
    (
        "a link-local pool",
        "[translator]\nmode = \"nat64\"\n[[nat64.pool4]]\naddress = \"169.254.1.0/24\"\n",
        "4:11: nat64.pool4[0].address: 169.254.1.0/24 is link-local, which is not translated",
    ),
    (
        "a link-local node",
        "[translator]\nmode = \"nat64\"\n[[nat64.static]]\nprotocol = \"tcp\"\nv4 = \"192.0.2.1:80\"\nv6 = \"[fe80::1]:80\"\n",
        "3:1: nat64.static[0]: fe80::1 is link-local, which is not translated",
    ),
    (
        "a link-local address of a CLAT",
        "[translator]\ninterfaces = [\"eth0\"]\n[clat]\nv6 = \"fe80::1\"\n",
        "4:6: clat.v6: fe80::1 is link-local, and cannot be reached from beyond the uplink; write an address of the uplink's prefix",
    ),
    (
        "no mode, and a pool",
        "[[nat64.pool4]]\naddress = \"192.0.2.1\"\n[translator]\ninterfaces = [\"eth0\"]\n",
        "1:3: nat64: this section is for the mode \"nat64\", and the mode is \"clat\": remove it, or set translator.mode = \"nat64\"",
    ),
];

#[test]
fn each_wrong_file_is_told_what_to_write() {
    let all = SYNTAX.iter().chain(&KEYS).chain(&VALUES).chain(&RULES);
    let mut others = Vec::new();
    for (name, text, expected) in all {
        let said = match parse(text, "nat64.toml", |_| ()) {
            Ok(_) => "it is accepted".to_owned(),
            Err(failure) => failure.to_string(),
        };
        let expected = format!("nat64.toml:{expected}");
        if said != expected {
            others.push(format!("{name}\n  said     {said}\n  expected {expected}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// Whatever is wrong, messages do not contain the parser's words.
#[test]
fn no_message_has_the_words_of_a_parser() {
    let lines = [
        "mode = ",
        "mode = [",
        "mode = {",
        "mode = \"",
        "mode = '",
        "= 1",
        "a b = 1",
        "mode = 1 2",
        "mode = 0x",
        "mode = 01",
        "mode = +-1",
        "mode = 1__0",
        "mode = 1979-05-27",
        "mode = [1,,2]",
        "mode = {a = 1,, b = 2}",
        "[a",
        "[[a]",
        "[]",
        "mode == 1",
        "mode = \"\\q\"",
        "mode = \"\\u12\"",
        "mode = \"\"\"",
        "mode.x = 1",
        "mode = 99999999999999999999",
        "mode = 1e",
        "mode = \u{1}",
        "# \u{1}",
        "\"\" = 1",
        "mode = nan",
        "mode = .5",
        "\r",
        "mode = {",
        "[translator.mode]",
        "queues = {}",
        "queues = []",
        "queues = 1.5",
        "queues = nan",
        "queues = \"2\"",
        "pref64 = 6",
        "pref64 = {}",
        "mtu4 = {}",
        "mtu4 = 70000000000",
        "interfaces = [1]",
        "interfaces = [[]]",
        "device = 1",
        "device = 2026-01-01",
        "allow_private_with_wkp = 0",
    ];
    let words = [
        "expected ",
        "invalid type",
        "invalid value",
        "invalid float",
        "unexpected",
        "sequence",
        " map",
        "variant",
        "field",
        "u32",
        "i64",
        "syntax",
    ];
    for line in lines {
        let text = format!("[translator]\n{line}\n");
        let Err(failure) = parse(&text, "x.toml", |_| ()) else {
            continue;
        };
        let said = failure.to_string();
        let told = words.iter().find(|word| said.contains(**word));
        assert!(told.is_none(), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
    }
}

/// Also for unrealistic mistakes, each message has a place, and nothing panics.
#[test]
fn every_mistake_has_a_place() {
    let mut texts = vec!["[translator]\n\"a\\nb\" = 1\n".to_owned()];
    for (_, text, _) in SYNTAX.iter().chain(&KEYS) {
        for (at, _) in text.char_indices() {
            texts.push(text[..at].to_owned());
            texts.push(format!("{}é=\"{}", &text[..at], &text[at..]));
        }
    }
    for text in texts {
        let Err(failure) = parse(&text, "x.toml", |_| ()) else {
            continue;
        };
        for line in failure.to_string().lines() {
            let place = line.strip_prefix("x.toml:").unwrap_or_default();
            let number = place.split(':').next().unwrap_or_default();
            let number: usize = number.parse().expect(line);
            assert!(
                number <= text.lines().count().max(1) + 1,
                "{text:?}: {line}"
            );
        }
    }
}
