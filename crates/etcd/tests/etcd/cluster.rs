// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Three members with TLS in namespaces of their own, and one namespace for nodes.
//!
//! ```text
//! nodes ─── switch ───┬─ m0   2001:db8:e::1
//! 2001:db8:e::9       ├─ m1   2001:db8:e::2
//!                     └─ m2   2001:db8:e::3
//! ```

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;

use diolkos_etcd::{Settings, Tls};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

use crate::certificates::{arguments, authority, issue, tls, Pair};
use crate::member::{number, run, until, urls, Folder, Member};
use crate::node::plain;

const NODES: &str = "2001:db8:e::9";

/// Three members. Their processes end before their namespaces are removed.
pub struct Cluster {
    pub members: Vec<Member>,
    network: Network,
    ca: Pair,
    own: Pair,
    _folder: Folder,
}

/// Namespaces, removed at the end.
struct Network {
    tag: String,
}

impl Network {
    fn new() -> Network {
        let tag = format!("etcd{}-{}", std::process::id(), number());
        let network = Network { tag };
        let switch = network.name("switch");
        ip(&["netns", "add", &switch]);
        ip(&[
            "-n",
            &switch,
            "link",
            "add",
            "br0",
            "up",
            "type",
            "bridge",
            "mcast_snooping",
            "0",
        ]);
        for (at, end) in ["m0", "m1", "m2", "nodes"].into_iter().enumerate() {
            let name = network.name(end);
            ip(&["netns", "add", &name]);
            ip(&["-n", &name, "link", "set", "lo", "up"]);
            let port = format!("p{at}");
            let veth = ["type", "veth", "peer", &port, "netns", &switch];
            ip(&[&["link", "add", "e0", "netns", &name][..], &veth].concat());
            ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"]);
            let address = format!("{}/64", address(end));
            ip(&[
                "-n", &name, "address", "add", &address, "dev", "e0", "nodad",
            ]);
            ip(&["-n", &name, "link", "set", "e0", "up"]);
        }
        network
    }

    fn name(&self, end: &str) -> String {
        format!("{}-{end}", self.tag)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for end in ["m0", "m1", "m2", "nodes", "switch"] {
            ip(&["netns", "del", &self.name(end)]);
        }
    }
}

/// Runs `ip`. `ip -n NAME` does not work in a chroot: it changes the mount of `/`, and there is none.
fn ip(arguments: &[&str]) {
    match arguments {
        ["-n", name, rest @ ..] => run(&mut command_in(name, &[&["ip"][..], rest].concat())),
        _ => run(Command::new("ip").args(arguments)),
    };
}

/// Returns the prefix of a command that should run in a network namespace.
fn within(name: &str) -> [String; 2] {
    ["nsenter".to_owned(), format!("--net=/run/netns/{name}")]
}

fn command_in(name: &str, words: &[&str]) -> Command {
    let [enter, at] = within(name);
    let mut command = Command::new(enter);
    command.arg(at).args(words);
    command
}

fn address(end: &str) -> String {
    match end.strip_prefix('m') {
        Some(at) => format!("2001:db8:e::{}", at.parse::<u8>().unwrap() + 1),
        None => NODES.into(),
    }
}

/// Returns true if namespaces can be made, and prints a message if not.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: network namespaces need root");
    }
    is_root
}

impl Cluster {
    /// Starts all members.
    pub fn start() -> Cluster {
        let (folder, network) = (Folder::new(), Network::new());
        let ca = authority(&folder, "ca");
        let own = issue(&folder, &ca, "gw-a", "DNS:gw-a");
        let ends = ["m0", "m1", "m2"];
        let peer = |end: &str| format!("https://[{}]:2380", address(end));
        let all = ends.map(|end| format!("{end}={}", peer(end))).join(",");
        let members = ends.map(|end| {
            let at = address(end);
            let certificate = issue(&folder, &ca, end, &format!("IP:{at}"));
            let client = format!("[{at}]:2379");
            let mut words = urls(end, "https", &client, &peer(end));
            words.push(format!("--initial-cluster={all}"));
            words.extend(arguments(&ca, &certificate));
            let namespace = network.name(end);
            let wrapper = within(&namespace);
            let wrapper = wrapper.each_ref().map(String::as_str);
            Member::new(&folder, end, &client, words).behind(&wrapper)
        });
        let mut cluster = Cluster {
            members: members.into(),
            network,
            ca,
            own,
            _folder: folder,
        };
        cluster.members.iter_mut().for_each(Member::start);
        cluster
    }

    /// Moves this thread, and those that it starts, to the namespace of nodes.
    pub fn enter(&self) {
        let path = format!("/run/netns/{}", self.network.name("nodes"));
        let file = File::open(path).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Returns the settings of a node that asks this member first.
    pub fn settings(&self, first: usize) -> Settings {
        let mut servers: Vec<&str> = self.members.iter().map(|m| &*m.address).collect();
        servers.rotate_left(first);
        Settings {
            plaintext: false,
            tls: Some(self.tls()),
            ..plain(&servers)
        }
    }

    fn tls(&self) -> Tls {
        tls(&self.ca, &self.own)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let all: Vec<&str> = self.members.iter().map(|m| &*m.address).collect();
        let mut command = command_in(&self.network.name("nodes"), &["etcdctl"]);
        command.env("ETCDCTL_API", "3");
        command.args(["--command-timeout=1s", "--endpoints", &all.join(",")]);
        command.arg("--cacert").arg(&self.ca.certificate);
        command.arg("--cert").arg(&self.own.certificate);
        command.arg("--key").arg(&self.own.key).args(arguments);
        command
    }

    /// Returns the member that says that it leads; another one than `not`.
    pub fn leader(&self, not: Option<usize>) -> usize {
        let mut found = None;
        until("a leader", || {
            let done = self.command(&["endpoint", "status"]).output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout);
            let leading = text
                .lines()
                .filter(|l| l.split(", ").nth(4) == Some("true"));
            let at = |line: &str| self.members.iter().position(|m| line.contains(&m.address));
            found = leading.filter_map(at).find(|at| Some(*at) != not);
            found.is_some()
        });
        found.unwrap()
    }

    /// Cuts a member off from the others, for received (`input`) or sent (`output`) packets. Nodes can still reach it.
    pub fn cut(&self, member: usize, directions: &[&str]) {
        for (direction, end) in [("input", "saddr"), ("output", "daddr")] {
            if directions.contains(&direction) {
                let members = "{ 2001:db8:e::1, 2001:db8:e::2, 2001:db8:e::3 }";
                let ports = ["sport", "dport"];
                let drops = ports.map(|p| format!("ip6 {end} {members} tcp {p} 2380 drop\n"));
                let rules = format!(
                    "table inet cut_{direction} {{\nchain c {{\n\
                     type filter hook {direction} priority 0\n{}}}\n}}\n",
                    drops.concat()
                );
                self.nft(member, &rules);
            }
        }
    }

    /// Reconnects it to the others.
    pub fn join(&self, member: usize) {
        self.nft(member, "flush ruleset");
    }

    fn nft(&self, member: usize, rules: &str) {
        let namespace = self.network.name(&self.members[member].name);
        run(&mut command_in(&namespace, &["nft", rules]));
    }
}
