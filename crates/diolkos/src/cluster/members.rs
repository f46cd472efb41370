// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which node of the file this is.

use crate::config::{Cluster as Section, Node};
use crate::failure::Failure;

/// The node that is meant by `--node`, or that is called like this host.
pub fn this<'a>(section: &'a Section, host: &str) -> Result<&'a Node, Failure> {
    section.this_node(host).ok_or_else(|| {
        let names: Vec<&str> = section.node.iter().map(|node| node.name.as_str()).collect();
        Failure::usage(format!(
            "cluster.node: no node is called {host:?} like this host; its nodes are {}: say by `--node NAME` which one this is",
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_no_node_hears_which_ones_there_are() {
        let node = |name: &str, id| Node {
            name: name.to_owned(),
            id,
            address: "2001:db8::1".parse().expect("an address"),
        };
        let section = Section {
            node: vec![node("gw1", 1), node("gw2", 2)],
            ..Section::default()
        };
        assert_eq!(this(&section, "gw2.example").expect("it is one").id, 2);
        let said = this(&section, "other").expect_err("it is none").to_string();
        assert!(
            said.contains("\"other\" like this host; its nodes are gw1, gw2"),
            "{said}"
        );
    }
}
