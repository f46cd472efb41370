// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a runtime says in the environment (CNI section 2, "Parameters"), checked: names become parts of paths.

use std::env;
use std::path::PathBuf;

use crate::error::CniError;

/// The longest name of a container or network: file names have 255 bytes.
const LONGEST: usize = 100;
/// IFNAMSIZ without the zero at the end.
pub const LONGEST_DEVICE: usize = 15;

/// Variables of the environment, as they are.
#[derive(Clone, Default, Debug)]
pub struct Environment {
    /// CNI_COMMAND
    pub command: Option<String>,
    /// CNI_CONTAINERID
    pub container: Option<String>,
    /// CNI_NETNS
    pub netns: Option<String>,
    /// CNI_IFNAME
    pub interface: Option<String>,
}

/// The container and interface of an attachment, fit for paths.
#[derive(Clone, PartialEq, Debug)]
pub struct Names {
    /// The container.
    pub container: String,
    /// The interface in it.
    pub interface: String,
}

impl Environment {
    /// That of this process. What is no text is taken for missing.
    pub fn of_process() -> Environment {
        let value = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Environment {
            command: value("CNI_COMMAND"),
            container: value("CNI_CONTAINERID"),
            netns: value("CNI_NETNS"),
            interface: value("CNI_IFNAME"),
        }
    }

    /// The attachment.
    pub fn names(&self) -> Result<Names, CniError> {
        let missing = |name| CniError::environment(name, "is not set");
        let container = self.container.clone();
        let container = container.ok_or_else(|| missing("CNI_CONTAINERID"))?;
        if !is_name(&container) {
            return Err(CniError::environment(
                "CNI_CONTAINERID",
                format!("\"{container}\" is no identifier: {LONGEST} letters, digits, '.', '_' and '-' at most, of which the first is a letter or digit"),
            ));
        }
        let interface = self.interface.clone();
        let interface = interface.ok_or_else(|| missing("CNI_IFNAME"))?;
        if !is_device(&interface) {
            return Err(CniError::environment(
                "CNI_IFNAME",
                format!("\"{interface}\" is no name of an interface"),
            ));
        }
        Ok(Names {
            container,
            interface,
        })
    }

    /// The namespace.
    pub fn netns(&self) -> Result<PathBuf, CniError> {
        let path = self.netns.as_ref().map(PathBuf::from);
        path.filter(|path| path.is_absolute())
            .ok_or_else(|| CniError::environment("CNI_NETNS", "is no path of a namespace"))
    }
}

/// A name of a container or network (CNI section 1 and 2).
pub fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    name.bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric())
        && name.len() <= LONGEST
        && name.bytes().all(is_plain)
}

/// A name of an interface. The kernel permits more; such names would need quoting in names of units.
pub fn is_device(name: &str) -> bool {
    is_name(name) && name.len() <= LONGEST_DEVICE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["a", "0123456789abcdef", "a.b_c-d"] {
            assert!(is_name(name), "{name:?}");
        }
        let long = "a".repeat(LONGEST + 1);
        for name in [
            "", ".", "..", "../x", "a/b", "a b", "a\0", "-x", "ä", "a:b", &long,
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_device("eth0") && !is_device("a-name-too-long-"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let whole = Environment {
            container: Some("c".to_owned()),
            interface: Some("eth0".to_owned()),
            ..Environment::default()
        };
        assert!(whole.names().is_ok());
        let container = Environment {
            container: None,
            ..whole.clone()
        };
        let interface = Environment {
            interface: Some("a/b".to_owned()),
            ..whole.clone()
        };
        for (environment, name) in [(container, "CNI_CONTAINERID"), (interface, "CNI_IFNAME")] {
            let error = environment.names().expect_err(name);
            assert!(error.to_string().starts_with(name), "{error}");
            assert_eq!(error.told(b"")["code"], 4);
        }
        for netns in [None, Some("relative".to_owned())] {
            let environment = Environment {
                netns,
                ..whole.clone()
            };
            assert!(environment.netns().is_err());
        }
    }
}
