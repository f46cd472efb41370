// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The key `tcp_mss`: a number of bytes, `"mtu"` or `"off"`.

use std::fmt;

use diolkos_xlat::config::{mss_of, LEAST_MSS};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{AutoValues, Settings};

/// The maximum segment size to which that of TCP SYNs is lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpMss {
    /// What fits the narrowest interface, in both families.
    #[default]
    Mtu,
    /// It is left as it is.
    Off,
    /// This number of bytes.
    Bytes(u16),
}

impl Settings {
    /// The largest maximum segment size of a translated SYN, bytes; `None`: as its sender says.
    pub fn tcp_mss(&self, found: AutoValues) -> Option<u16> {
        let t = &self.translator;
        match t.tcp_mss {
            TcpMss::Off => None,
            TcpMss::Bytes(bytes) => Some(bytes),
            TcpMss::Mtu => Some(mss_of(
                t.mtu4.or(found.narrowest4),
                t.mtu6.or(found.narrowest6),
            )),
        }
    }
}

impl Serialize for TcpMss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TcpMss::Mtu => serializer.serialize_str("mtu"),
            TcpMss::Off => serializer.serialize_str("off"),
            TcpMss::Bytes(bytes) => serializer.serialize_u16(*bytes),
        }
    }
}

impl<'de> Deserialize<'de> for TcpMss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TcpMss, D::Error> {
        deserializer.deserialize_any(TcpMssVisitor)
    }
}

struct TcpMssVisitor;

impl Visitor<'_> for TcpMssVisitor {
    type Value = TcpMss;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, \"mtu\" or \"off\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TcpMss, E> {
        match text {
            "mtu" => Ok(TcpMss::Mtu),
            "off" => Ok(TcpMss::Off),
            other => Err(E::custom(format!(
                "\"{other}\" is neither a number of bytes nor \"mtu\" nor \"off\""
            ))),
        }
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<TcpMss, E> {
        let fits = u16::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes >= LEAST_MSS);
        fits.map(TcpMss::Bytes).ok_or_else(|| {
            E::custom(format!(
                "{bytes} is not between {LEAST_MSS} and {}",
                u16::MAX
            ))
        })
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<TcpMss, E> {
        self.visit_i64(i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mtu;

    #[test]
    fn the_narrowest_interface_counts_unless_the_operator_knows_better() {
        let found = AutoValues {
            narrowest4: 1480,
            narrowest6: 1400,
            ..AutoValues::ANYTHING
        };
        let mut settings = Settings::default();
        assert_eq!(settings.tcp_mss(found), Some(1340));
        settings.translator.mtu6 = Mtu::Bytes(1500);
        assert_eq!(settings.tcp_mss(found), Some(1440));
        settings.translator.mtu4 = Mtu::Bytes(1300);
        assert_eq!(settings.tcp_mss(found), Some(1260));
        settings.translator.tcp_mss = TcpMss::Bytes(1234);
        assert_eq!(settings.tcp_mss(found), Some(1234));
        settings.translator.tcp_mss = TcpMss::Off;
        assert_eq!(settings.tcp_mss(found), None);
    }

    #[test]
    fn what_is_read_is_printed() {
        for (text, value) in [
            ("\"mtu\"", TcpMss::Mtu),
            ("\"off\"", TcpMss::Off),
            ("536", TcpMss::Bytes(536)),
            ("65535", TcpMss::Bytes(65535)),
        ] {
            let read: TcpMss = serde_json::from_str(text).expect(text);
            assert_eq!(read, value);
            assert_eq!(serde_json::to_string(&value).expect("it is JSON"), text);
        }
        for text in [
            "535",
            "-1",
            "65536",
            "18446744073709551615",
            "\"on\"",
            "\"1440\"",
            "true",
        ] {
            assert!(serde_json::from_str::<TcpMss>(text).is_err(), "{text}");
        }
    }
}
