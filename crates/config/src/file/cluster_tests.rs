// SPDX-License-Identifier: Apache-2.0 OR MIT
use diolkos_nat64::config::Nat64Config;

use super::parse;
use crate::{AutoValues, Cluster, Settings};

const FILE: &str = r#"
[translator]
mode = "nat64"
pref64 = ["2001:db8:64::/96"]
[cluster]
name = "city"
etcd = ["https://[2001:db8:e::1]:2379", "https://etcd2.example"]
ca = "ca.pem"
certificate = "node.pem"
key = "node.key"
[[cluster.node]]
name = "gw1"
address = "fd00:6a::1"
links = ["gw0"]
[[cluster.node.pool4]]
address = "192.0.2.0/29"
[[cluster.node]]
name = "gw2"
address = "fd00:6a::2"
links = ["gw0"]
[[cluster.node.pool4]]
address = "192.0.2.8/30"
[[cluster.node.pool4]]
address = "192.0.2.12"
"#;

const PLACE: &str = "[[cluster.node]]\nname = \"gw1\"";

fn settings(text: &str, me: &str) -> Settings {
    let named = |settings: &mut Settings| {
        if let Some(cluster) = &mut settings.cluster {
            cluster.me = me.to_owned();
        }
    };
    parse(text, "file", named).expect("it is right")
}

fn stateful(text: &str, me: &str) -> Nat64Config {
    settings(text, me).stateful(AutoValues::ANYTHING)
}

fn refusal(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    let refused = parse(&FILE.replacen(from, to, 1), "file", |_| ());
    refused.expect_err(to).to_string()
}

#[test]
fn a_node_is_found_by_name_or_host() {
    let mut cluster = settings(FILE, "").cluster.expect("a cluster");
    let place = |cluster: &Cluster, host| cluster.this_node(host).map(|(at, _)| at);
    assert_eq!(place(&cluster, "gw2"), Some(1));
    assert_eq!(place(&cluster, "gw2.example.net"), Some(1));
    assert_eq!(place(&cluster, "gw3"), None);
    cluster.me = "gw1".to_owned();
    assert_eq!(place(&cluster, "gw2"), Some(0));
}

#[test]
fn each_node_has_its_own_addresses_and_knows_whose_the_others_are() {
    let of = |me| {
        let config = stateful(FILE, me);
        let pool: Vec<String> = config.pool4.iter().map(|its| its.net.to_string()).collect();
        (pool, config.owners.map(|owners| owners.me))
    };
    assert_eq!(of("gw1"), (vec!["192.0.2.0/29".to_owned()], Some(0)));
    let second = ["192.0.2.8/30", "192.0.2.12/32"].map(str::to_owned);
    assert_eq!(of("gw2"), (second.into(), Some(1)));
    let owners = stateful(FILE, "gw1").owners.expect("there are");
    let owner = |addr: &str| owners.of(addr.parse().expect("an address"));
    assert_eq!(
        ["192.0.2.7", "192.0.2.12", "192.0.2.13"].map(owner),
        [Some(0), Some(1), None]
    );
}

#[test]
fn one_node_alone_has_its_part_of_the_file() {
    let whole = settings(FILE, "");
    let alone = |name| whole.as_node(name).map(|alone| alone.nat64.pool4.len());
    assert_eq!(
        (alone(Some("gw1")).ok(), alone(Some("gw2")).ok()),
        (Some(1), Some(2))
    );
    for name in [None, Some("gw3")] {
        let why = alone(name).expect_err("it is not known").to_string();
        assert!(why.starts_with("cluster.node: say by --node"), "{why}");
    }
    let alone = whole.as_node(Some("gw2")).expect("it is there");
    assert_eq!((alone.objections().len(), alone.cluster), (0, None));
    let lone = alone_settings();
    assert_eq!(lone.as_node(None).expect("it is alone"), lone);
    assert!(lone.as_node(Some("gw1")).is_err());
}

fn alone_settings() -> Settings {
    let text = "[translator]\nmode = \"nat64\"\n[[nat64.pool4]]\naddress = \"192.0.2.1\"\n";
    parse(text, "file", |_| ()).expect("it is right")
}

#[test]
fn a_static_binding_is_that_of_the_node_whose_address_it_has() {
    let bound = |v4: &str| {
        format!("[[nat64.static]]\nprotocol = \"tcp\"\nv4 = \"{v4}:443\"\nv6 = \"[2001:db8::5]:443\"\n{PLACE}")
    };
    let text = FILE.replacen(PLACE, &bound("192.0.2.9"), 1);
    let count = |me| stateful(&text, me).bindings.len();
    assert_eq!((count("gw1"), count("gw2")), (0, 1));
    let said = refusal(PLACE, &bound("192.0.2.13"));
    assert!(
        said.contains("nat64.static[0].v4: 192.0.2.13 is no node's"),
        "{said}"
    );
}

#[test]
fn a_file_is_checked_for_all_nodes_wherever_that_happens() {
    for (from, to, sentence) in [
        (
            "192.0.2.8/30",
            "192.0.2.9/30",
            "cluster.node[1].pool4[0].address: 192.0.2.9/30 has host bits set",
        ),
        (
            "\"192.0.2.12\"",
            "\"192.0.2.8/31\"",
            "cluster.node[1].pool4[1].address: 192.0.2.8/31 overlaps cluster.node[1].pool4[0], 192.0.2.8/30",
        ),
        (
            "[cluster]",
            "[nat64]\nfiltering = \"address-dependent\"\n[cluster]",
            "nat64.filtering: copies of bindings do not know their peers",
        ),
        (
            "[cluster]",
            "[nat64]\nmax_sessions = 0\n[cluster]",
            "nat64.max_sessions: 0 would drop every packet",
        ),
        (
            "[cluster]",
            "[nat64.deterministic]\nsources = [\"2001:db8:1::/32\"]\n[cluster]",
            "nat64.deterministic",
        ),
    ] {
        let said = refusal(from, to);
        assert!(said.contains(sentence), "{to}: {said}");
    }
}

#[test]
fn a_cluster_that_cannot_be_is_refused_with_the_key() {
    let many = |count: usize| {
        let node = |at: usize| {
            format!(
                "[[cluster.node]]\nname = \"x{at}\"\naddress = \"fd00:6b::{at}\"\nlinks = [\"gw0\"]\n\
                 [[cluster.node.pool4]]\naddress = \"198.51.100.{at}\"\n"
            )
        };
        let nodes: Vec<String> = (1..=count).map(node).collect();
        format!("{}{PLACE}", nodes.concat())
    };
    for (from, to, sentence) in [
        (
            "mode = \"nat64\"",
            "mode = \"siit\"",
            "cluster: only a NAT64 has state to share",
        ),
        (
            "mode = \"nat64\"",
            "mode = \"nat64\"\ndatapath = \"tun\"",
            "translator.datapath: ",
        ),
        (
            "[cluster]",
            "[nat64]\nstate = \"/x\"\n[cluster]",
            "nat64.state: ",
        ),
        (
            "[cluster]",
            "[[nat64.pool4]]\naddress = \"198.51.100.1\"\n[cluster]",
            "nat64.pool4: in a cluster each address belongs to one node",
        ),
        (
            "\"city\"",
            "\"City!\"",
            "cluster.name: \"City!\" is no name of a cluster",
        ),
        ("\"city\"", "\"-city\"", "cluster.name: \"-city\" is no name"),
        (
            "https://[",
            "http://[",
            "cluster.etcd[0]: \"http://[2001:db8:e::1]:2379\" is not encrypted: write \"https://…\"",
        ),
        (
            "name = \"city\"",
            "name = \"city\"\nplaintext = true",
            "cluster.etcd[0]: \"https://[2001:db8:e::1]:2379\" is encrypted, and cluster.plaintext",
        ),
        (
            "\"https://etcd2.example\"",
            "\"etcd2.example\"",
            "cluster.etcd[1]: \"etcd2.example\" is no server: write \"https://address:2379\"",
        ),
        (
            "https://etcd2.example",
            "https://2001:db8::1",
            "cluster.etcd[1]: \"https://2001:db8::1\" is no server",
        ),
        (
            "[\"https://[2001:db8:e::1]:2379\", \"https://etcd2.example\"]",
            "[]",
            "cluster.etcd: name at least one member",
        ),
        ("ca = \"ca.pem\"\n", "", "cluster.ca: "),
        ("certificate = \"node.pem\"\n", "", "cluster.certificate: "),
        ("key = \"node.key\"\n", "", "cluster.key: "),
        (
            "name = \"city\"",
            "name = \"city\"\nuser = \"gw\"",
            "cluster.user: a name and a password belong together",
        ),
        (
            "name = \"city\"",
            "name = \"city\"\nport = 0",
            "cluster.port: 0 is no port",
        ),
        (PLACE, &many(31), "cluster.node: 33 nodes; a cluster has 1 to 32"),
        ("\"gw2\"", "\"gw1\"", "cluster.node[1].name: "),
        ("\"gw2\"", "\"gw2.example\"", "cluster.node[1].name: "),
        (
            "fd00:6a::2",
            "fd00:6a::1",
            "cluster.node[1].address: fd00:6a::1 cannot be the address of this node alone",
        ),
        ("fd00:6a::2", "::", "cluster.node[1].address: :: cannot be"),
        (
            "links = [\"gw0\"]",
            "links = []",
            "cluster.node[0].links: name the interfaces",
        ),
        (
            "[[cluster.node.pool4]]\naddress = \"192.0.2.0/29\"\n",
            "pool4 = []\n",
            "cluster.node[0].pool4: a node without addresses",
        ),
        (
            "192.0.2.8/30",
            "192.0.2.4/30",
            "cluster.node[1].pool4: 192.0.2.4 belongs to \"gw1\" as well",
        ),
        (
            "address = \"192.0.2.12\"",
            "address = \"192.0.2.12\"\nsources = [\"2001:db8:a::/48\"]",
            "cluster.node[0].pool4: it has no entry with sources = [2001:db8:a::/48], and \"gw2\" has: give it an address for these",
        ),
        (
            "links = [\"gw0\"]\n",
            "",
            "file:11:1: [[cluster.node]] needs the key `links`: a list",
        ),
        (
            "name = \"city\"",
            "name = \"city\"\nlease = 12",
            "[cluster] has no key `lease`",
        ),
    ] {
        let said = refusal(from, to);
        assert!(said.contains(sentence), "{to}: {said}");
    }
    let named = |settings: &mut Settings| {
        settings.cluster.get_or_insert_default().me = "gw3".to_owned();
    };
    let said = parse(FILE, "file", named)
        .expect_err("there is none")
        .to_string();
    assert!(
        said.contains("no node is called \"gw3\": check --node"),
        "{said}"
    );
}

/// Two customers' prefixes and all other hosts, each with an address at both nodes.
fn by_source() -> String {
    let part = |address: &str, sources: &str| {
        format!("[[cluster.node.pool4]]\naddress = \"{address}\"\nsources = [{sources}]\n")
    };
    FILE.replace(
        "[[cluster.node]]\nname = \"gw2\"",
        &format!(
            "{}[[cluster.node]]\nname = \"gw2\"",
            part("198.51.100.1", "\"2001:db8:a::/48\", \"2001:db8:b::/48\"")
        ),
    ) + &part("198.51.100.2", "\"2001:db8:b::/48\", \"2001:db8:a::/48\"")
}

#[test]
fn pools_by_source_have_addresses_at_each_node() {
    let file = by_source();
    for me in ["gw1", "gw2"] {
        let owners = stateful(&file, me).owners.expect("there are");
        let pool = |addr: &str| owners.pools.of_address(addr.parse().expect("an address"));
        let customers = pool("198.51.100.1").expect("it is of a pool");
        assert_eq!(pool("198.51.100.2"), Some(customers));
        assert_eq!(
            owners.pools.of_node("2001:db8:b::1".parse().unwrap()),
            customers
        );
        assert_ne!(pool("192.0.2.9"), Some(customers));
    }
    for (from, to, sentence) in [
        (
            "sources = [\"2001:db8:b::/48\", \"2001:db8:a::/48\"]",
            "sources = [\"2001:db8:b::/48\"]",
            "cluster.node[1].pool4[2].sources: 2001:db8:b::/48 is in cluster.node[0].pool4[1].sources too, beside others",
        ),
        (
            "sources = [\"2001:db8:b::/48\", \"2001:db8:a::/48\"]",
            "sources = [\"2001:db8:c::/48\"]",
            "cluster.node[0].pool4: it has no entry with sources = [2001:db8:c::/48], and \"gw2\" has: give it an address",
        ),
        (
            "address = \"192.0.2.0/29\"",
            "address = \"192.0.2.0/29\"\nsources = [\"2001:db8:a::/48\", \"2001:db8:b::/48\"]",
            "cluster.node[0].pool4: it has no entry without sources, and \"gw2\" has",
        ),
        (
            "address = \"198.51.100.2\"",
            "address = \"198.51.100.1\"",
            "cluster.node[1].pool4: 198.51.100.1 belongs to \"gw1\" as well",
        ),
    ] {
        assert!(file.contains(from), "{from}");
        let refused = parse(&file.replacen(from, to, 1), "file", |_| ());
        let said = refused.expect_err(to).to_string();
        assert!(said.contains(sentence), "{to}: {said}");
    }
}
