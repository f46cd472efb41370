// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::parse;
use crate::config::Cluster;

const FILE: &str = r#"
[translator]
mode = "nat64"
[[nat64.pool4]]
address = "192.0.2.0/28"
[cluster]
name = "lab"
servers = ["tls://192.0.2.129:4222"]
ca = "ca.pem"
certificate = "node.pem"
key = "node.key"
secret_file = "secret"
[[cluster.node]]
name = "gw1"
id = 1
address = "2001:db8::1"
[[cluster.node]]
name = "gw2"
id = 2
address = "2001:db8::2"
"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    let refused = parse(&FILE.replacen(from, to, 1), "file", |_| ());
    refused.expect_err(to).to_string()
}

#[test]
fn a_node_is_found_by_name_or_host() {
    let mut settings = parse(FILE, "file", |_| ()).expect("it is right");
    let cluster = settings.cluster.as_mut().expect("a cluster");
    let id = |cluster: &Cluster, host| cluster.this_node(host).map(|node| node.id);
    assert_eq!(id(cluster, "gw2"), Some(2));
    assert_eq!(id(cluster, "gw2.example.net"), Some(2));
    assert_eq!(id(cluster, "gw3"), None);
    cluster.me = "gw1".to_owned();
    assert_eq!(id(cluster, "gw2"), Some(1));
}

#[test]
fn a_cluster_that_cannot_be_is_refused_with_the_key() {
    for (from, to, sentence) in [
        (
            "mode = \"nat64\"",
            "mode = \"siit\"",
            "cluster: only a NAT64 has state to share",
        ),
        (
            "\"lab\"",
            "\"Lab!\"",
            "cluster.name: \"Lab!\" is no name of a cluster",
        ),
        ("tls://", "nats://", "is not encrypted: write \"tls://…\""),
        (
            "tls://",
            "",
            "cluster.servers[0]: \"192.0.2.129:4222\" is no server",
        ),
        ("ca = \"ca.pem\"\n", "", "cluster.ca: "),
        (
            "key = \"node.key\"\n",
            "",
            "cluster.certificate: a certificate and its key",
        ),
        ("secret_file = \"secret\"\n", "", "cluster.secret_file: "),
        (
            "name = \"lab\"",
            "name = \"lab\"\nports_per_slice = 100",
            "100 is not a multiple of 64",
        ),
        (
            "name = \"lab\"",
            "name = \"lab\"\nlease = 2",
            "2 s is not within 3 to 60",
        ),
        (
            "name = \"lab\"",
            "name = \"lab\"\nreplicas = 2",
            "2 is none of 1, 3 and 5",
        ),
        (
            "name = \"lab\"",
            "name = \"lab\"\nuser = \"gw\"",
            "cluster.user: ",
        ),
        (
            "id = 2",
            "id = 1",
            "cluster.node[1].id: 1 is the number of another node",
        ),
        ("id = 2", "id = 0", "0 is not within 1 to 1023"),
        (
            "db8::2",
            "db8::1",
            "2001:db8::1 cannot be the address of this node alone",
        ),
        ("\"gw2\"", "\"gw1\"", "cluster.node[1].name: "),
        (
            "[cluster]",
            "[nat64]\nstate = \"/x\"\n[cluster]",
            "nat64.state: ",
        ),
        (
            "mode = \"nat64\"",
            "mode = \"nat64\"\ndatapath = \"tun\"",
            "translator.datapath: ",
        ),
        (
            "address = \"192.0.2.0/28\"",
            "address = \"192.0.2.1\"\nports = \"1024-2047\"\n[[nat64.pool4]]\naddress = \"192.0.2.1\"\nports = \"4096-8191\"",
            "nat64.pool4: the slices of 192.0.2.1 differ in size or have gaps",
        ),
    ] {
        let said = refusal(from, to);
        assert!(said.contains(sentence), "{to}: {said}");
    }
}
