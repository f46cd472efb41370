// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Examples of commands, by the names of their pages: a sentence, and the line to type.

/// A sentence, and a command line.
pub type Example = (&'static str, &'static str);

/// The examples of one page.
pub fn of(page: &str) -> &'static [Example] {
    let found = ALL.iter().find(|(name, _)| *name == page);
    found.map_or(&[], |(_, examples)| examples)
}

/// All examples.
pub const ALL: &[(&str, &[Example])] = &[
    (
        "diolkos",
        &[
            ("IPv4 for this host over an IPv6-only uplink:", "diolkos clat --uplink eth0 --pref64 auto"),
            ("Check a configuration, then run it:", "diolkos check /etc/diolkos/nat64.toml"),
            ("The same as a service:", "systemctl enable --now diolkos@nat64"),
            ("Ask it whether packets can pass:", "diolkos status"),
        ],
    ),
    (
        "diolkos-clat",
        &[
            ("Learn the prefix from the network, and follow it:", "diolkos clat --uplink eth0 --pref64 auto"),
            ("Only some networks, with a prefix that is known:", "diolkos clat --uplink eth0 --pref64 2001:db8:64::/96 --route 198.51.100.0/24"),
            ("As a service, now and at every boot:", "systemctl enable --now diolkos-clat@eth0"),
        ],
    ),
    ("diolkos-siit", &[("A stateless translator:", "diolkos siit --config /etc/diolkos/siit.toml")]),
    (
        "diolkos-nat64",
        &[
            ("A NAT64 that keeps its sessions over a restart:", "diolkos nat64 --config /etc/diolkos/nat64.toml --state /var/lib/diolkos/nat64.state"),
        ],
    ),
    (
        "diolkos-dns64",
        &[
            ("Listen at the host's own addresses:", "diolkos dns64 --upstream 192.0.2.53 --pref64 64:ff9b::/96"),
            ("What it counts:", "diolkos show counters --device dns64"),
        ],
    ),
    ("diolkos-run", &[("The translator of a file, as `diolkos@nat64.service` does:", "diolkos run --config /etc/diolkos/nat64.toml")]),
    ("diolkos-check", &[("Print every key that is in force, or each mistake with its line:", "diolkos check /etc/diolkos/nat64.toml")]),
    (
        "diolkos-translate",
        &[("Translate a capture, and print what became of each packet:", "diolkos translate --config nat64.toml --from-pcap in.pcap --each")],
    ),
    (
        "diolkos-lookup",
        &[(
            "Whose is this fixed port?",
            "diolkos lookup --config nat64.toml 192.0.2.1 40000",
        )],
    ),
    (
        "diolkos-show",
        &[
            ("The TCP sessions of one node with one network:", "diolkos show sessions --protocol tcp --node 2001:db8::2 --peer 198.51.100.0/24"),
            ("Ten sessions of one port of a node:", "diolkos show sessions --node '[2001:db8::2]:4711' --limit 10"),
            ("Everything that was counted, for scripts:", "diolkos show counters --all --json"),
            ("Who has most:", "diolkos show top --by sessions"),
        ],
    ),
    ("diolkos-status", &[("Whether packets can pass, of another device:", "diolkos status --device diolkos1")]),
    (
        "diolkos-trace",
        &[
            ("Would a query of this node pass?", "diolkos trace 'udp [2001:db8::5]:4711 to [64:ff9b::c633:6401]:53'"),
            ("The node of a session and its peer, as `diolkos show sessions` prints them:", "diolkos trace 'tcp [2001:db8::5]:4711 198.51.100.1:443'"),
            ("An answer from the IPv4 side:", "diolkos trace 'tcp syn,ack 198.51.100.1:443 to 192.0.2.1:40000'"),
        ],
    ),
    ("diolkos-bind-add", &[("A port for a server behind the NAT64:", "diolkos bind add tcp 192.0.2.1:443 '[2001:db8::2]:443'")]),
    ("diolkos-bind-del", &[("End it:", "diolkos bind del tcp 192.0.2.1:443")]),
    (
        "diolkos-session-del",
        &[
            ("By the node and its peer:", "diolkos session del tcp '[2001:db8::2]:4711' 198.51.100.1:443"),
            (
                "A line of `diolkos show sessions`:",
                "diolkos session del tcp '[2001:db8::2]:4711' 192.0.2.1:1024 198.51.100.1:443 established 7440",
            ),
        ],
    ),
    ("diolkos-cluster-status", &[("Is anything wrong?", "diolkos cluster status")]),
    ("diolkos-cluster-drain", &[("Before this node is restarted:", "diolkos cluster drain --timeout 120")]),
    ("diolkos-cluster-join", &[("Not restarted after all:", "diolkos cluster join")]),
    (
        "diolkos-cluster-roll",
        &[
            ("On each node, when the new file is there:", "diolkos cluster roll"),
            ("Not after all:", "diolkos cluster roll --cancel"),
        ],
    ),
    (
        "diolkos-cluster-reset",
        &[
            ("What etcd has of the cluster:", "diolkos cluster reset --config /etc/diolkos/nat64.toml"),
            ("Remove it:", "diolkos cluster reset --config /etc/diolkos/nat64.toml --yes"),
        ],
    ),
    ("diolkos-follow", &[("A line of JSON at each change:", "diolkos follow --json")]),
    (
        "diolkos-reload",
        &[
            ("Of the service `diolkos@nat64`:", "systemctl reload diolkos@nat64"),
            ("Of the program whose file this is:", "diolkos reload --config /etc/diolkos/nat64.toml"),
        ],
    ),
    ("diolkos-stop", &[("End the CLAT or router with this device:", "diolkos stop --device diolkos0")]),
    (
        "diolkos-pktgen",
        &[("What it can do:", "diolkos-pktgen --help")],
    ),
];
