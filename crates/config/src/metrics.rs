// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[metrics]`: the addresses at which a monitoring system reads the figures.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::key::section;
use super::objections::Objection;

/// The longest path of a Unix socket (unix(7)), bytes.
const LONGEST_PATH: usize = 107;
/// The most addresses; each has a socket and connections of its own.
const MOST_PLACES: usize = 8;

section! {
    /// Figures for a monitoring system.
    pub struct Metrics {
        /// Where they are served by HTTP; empty: nowhere.
        listen: Vec<Place> = Default::default(), Live;
    }
}

/// An address and port, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MetricsAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket at an absolute path.
    Unix(PathBuf),
}

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsAddress, String> {
        if text.starts_with('/') {
            return Ok(MetricsAddress::Unix(PathBuf::from(text)));
        }
        text.parse().map(MetricsAddress::Tcp).map_err(|_| {
            format!(
                "`{text}` is neither an address with a port, as [::1]:9464 or 127.0.0.1:9464, nor the absolute path of a \
                 Unix socket"
            )
        })
    }
}

impl TryFrom<String> for MetricsAddress {
    type Error = String;

    fn try_from(text: String) -> Result<MetricsAddress, String> {
        text.parse()
    }
}

impl From<MetricsAddress> for String {
    fn from(place: MetricsAddress) -> String {
        place.to_string()
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAddress::Tcp(address) => address.fmt(f),
            MetricsAddress::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Metrics {
    /// All rules that the section breaks.
    pub(super) fn objections(&self) -> Vec<Objection> {
        let mut found = Vec::new();
        let listen = &self.listen;
        if listen.len() > MOST_PLACES {
            let message = format!("{} places; {MOST_PLACES} are supported", listen.len());
            found.push(Objection::new("metrics.listen", message));
        }
        for (at, place) in listen.iter().enumerate() {
            let mut object = |message: String| {
                found.push(Objection::new(&format!("metrics.listen[{at}]"), message));
            };
            if listen[..at].contains(place) {
                object(format!("{place} is listed twice"));
            }
            match place {
                MetricsAddress::Tcp(address) if address.port() == 0 => {
                    object(format!(
                        "{address} has port 0: write a fixed port, such as 9464"
                    ));
                }
                MetricsAddress::Unix(path) if path.as_os_str().len() > LONGEST_PATH => {
                    object(format!(
                        "the path has {} bytes, and that of a socket has {LONGEST_PATH} at most",
                        path.as_os_str().len()
                    ))
                }
                MetricsAddress::Unix(path) if path.file_name().is_none() => {
                    object(format!("{place} names no file"));
                }
                MetricsAddress::Tcp(_) | MetricsAddress::Unix(_) => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_paths() {
        for text in ["[::1]:9464", "127.0.0.1:9464", "/run/diolkos/metrics"] {
            let place: MetricsAddress = text.parse().expect("it is one");
            assert_eq!(place.to_string(), text);
        }
        for text in ["", "9464", "localhost:9464", "::1", "run/metrics"] {
            let refused = text.parse::<MetricsAddress>().expect_err("it is none");
            assert!(
                refused.contains(&format!("`{text}` is neither")),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_nobody_could_use_is_objected_to() {
        let long = format!("/{}", "x".repeat(LONGEST_PATH));
        let texts = ["[::1]:0", "[::1]:1", "[::1]:1", &long, "/", "/run/.."];
        let listen = texts.iter().map(|text| text.parse().expect("a place"));
        let metrics = Metrics {
            listen: listen.collect(),
        };
        let keys: Vec<String> = metrics.objections().into_iter().map(|o| o.key).collect();
        assert_eq!(
            keys,
            [0, 2, 3, 4, 5].map(|at| format!("metrics.listen[{at}]"))
        );
    }
}
