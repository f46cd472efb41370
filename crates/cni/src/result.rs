// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results (CNI section 5): that of the plugins before, and what the CLAT adds.

use serde_json::{json, Map, Value};

use crate::config::Clat;
use crate::error::CniError;

/// The result of the plugins before, which a chained plugin must have.
pub fn previous(given: Option<&Value>) -> Result<Map<String, Value>, CniError> {
    match given {
        Some(Value::Object(previous)) => Ok(previous.clone()),
        _ => Err(CniError::Configuration(
            "the configuration has no prevResult: list diolkos-cni after the plugin that makes the interface".to_owned(),
        )),
    }
}

/// Whether the pod has an IPv4 address already: then it needs no CLAT.
pub fn has_ipv4(previous: &Map<String, Value>) -> bool {
    let ips = previous.get("ips").and_then(Value::as_array);
    let addresses = ips
        .into_iter()
        .flatten()
        .filter_map(|ip| ip["address"].as_str());
    addresses.into_iter().any(|address| !address.contains(':'))
}

/// Adds the CLAT's device, and with `tell_address` its address and routes.
pub fn with_clat(
    mut previous: Map<String, Value>,
    version: &str,
    clat: &Clat,
    netns: &str,
) -> Result<Value, CniError> {
    let interfaces = list(&mut previous, "interfaces")?;
    interfaces.push(json!({"name": clat.device, "sandbox": netns}));
    let index = interfaces.len() - 1;
    previous.insert("cniVersion".to_owned(), json!(version));
    if !clat.tell_address {
        return Ok(Value::Object(previous));
    }
    let mut ip = json!({"address": format!("{}/32", clat.v4), "interface": index});
    // Until 1.0.0, an address says its family.
    if version.starts_with("0.") {
        ip["version"] = json!("4");
    }
    list(&mut previous, "ips")?.push(ip);
    for route in clat.routes() {
        list(&mut previous, "routes")?.push(json!({"dst": route}));
    }
    Ok(Value::Object(previous))
}

/// Whether a result has the CLAT's device.
pub fn has_clat(previous: &Map<String, Value>, clat: &Clat) -> bool {
    let interfaces = previous.get("interfaces").and_then(Value::as_array);
    interfaces.is_some_and(|all| all.iter().any(|one| one["name"] == clat.device.as_str()))
}

fn list<'a>(result: &'a mut Map<String, Value>, key: &str) -> Result<&'a mut Vec<Value>, CniError> {
    let entry = result.entry(key).or_insert_with(|| json!([]));
    if entry.is_null() {
        *entry = json!([]);
    }
    entry.as_array_mut().ok_or_else(|| {
        CniError::Configuration(format!("the configuration: prevResult.{key} is no list"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling() -> Clat {
        Clat {
            tell_address: true,
            ..Clat::default()
        }
    }

    #[test]
    fn nothing_of_others_is_lost() {
        let before = json!({
            "cniVersion": "1.0.0", "dns": {"nameservers": ["2001:db8::53"]}, "new": 1,
            "interfaces": [{"name": "cni0"}, {"name": "eth0", "sandbox": "/run/netns/x"}],
            "ips": [{"address": "2001:db8::5/128", "interface": 1}],
        });
        let map = previous(Some(&before)).expect("an object");
        assert!(!has_ipv4(&map) && !has_clat(&map, &Clat::default()));
        let less = with_clat(map.clone(), "1.1.0", &Clat::default(), "/run/netns/x");
        assert_eq!(less.expect("lists")["ips"], before["ips"]);
        let after = with_clat(map, "1.1.0", &telling(), "/run/netns/x").expect("lists");
        assert_eq!(after["cniVersion"], "1.1.0");
        for key in ["dns", "new"] {
            assert_eq!(after[key], before[key]);
        }
        assert_eq!(after["ips"][0], before["ips"][0]);
        assert_eq!(
            after["ips"][1],
            json!({"address": "192.0.0.1/32", "interface": 2})
        );
        assert_eq!(
            after["interfaces"][2],
            json!({"name": "diolkos0", "sandbox": "/run/netns/x"})
        );
        assert_eq!(after["routes"], json!([{"dst": "0.0.0.0/0"}]));
        let map = previous(Some(&after)).expect("an object");
        assert!(has_ipv4(&map) && has_clat(&map, &Clat::default()));
    }

    #[test]
    fn an_old_result_says_the_family() {
        let map = previous(Some(&json!({"ips": null}))).expect("an object");
        let after = with_clat(map, "0.4.0", &telling(), "/x").expect("lists");
        assert_eq!(after["ips"][0]["version"], "4");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for before in [None, Some(json!(null)), Some(json!([]))] {
            assert!(previous(before.as_ref()).is_err());
        }
        for broken in [
            json!({"ips": 5}),
            json!({"interfaces": {}}),
            json!({"routes": ""}),
        ] {
            let map = previous(Some(&broken)).expect("an object");
            assert!(
                with_clat(map, "1.0.0", &telling(), "/x").is_err(),
                "{broken}"
            );
        }
    }
}
