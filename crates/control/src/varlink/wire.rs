// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls, replies and errors in their wire format.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};

/// The terminator of a message. JSON does not contain it.
pub const END: u8 = 0;
/// The interface that every service has.
pub const SERVICE: &str = "org.varlink.service";

/// A call of a method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// `INTERFACE.METHOD`.
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Map<String, Value>>,
    /// The caller wants no reply.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oneway: bool,
    /// The caller accepts more than one reply.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// The caller wants to switch to another protocol afterwards.
    #[serde(default, skip_serializing_if = "is_false")]
    pub upgrade: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Call {
    /// A call to send; `parameters` is a JSON object.
    pub fn new(method: String, parameters: Value) -> Call {
        let parameters = match parameters {
            Value::Object(map) if !map.is_empty() => Some(map),
            _ => None,
        };
        Call {
            method,
            parameters,
            ..Call::default()
        }
    }

    /// The call, for several replies.
    pub fn with_more(self) -> Call {
        Call { more: true, ..self }
    }

    /// The interface, and the method in it.
    pub fn target(&self) -> (&str, &str) {
        self.method
            .rsplit_once('.')
            .unwrap_or(("", self.method.as_str()))
    }

    /// Takes a parameter out. The error names the parameter if it is absent or has the wrong type.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Refusal> {
        let parameters = self.parameters.as_mut();
        let value = parameters.and_then(|map| map.remove(name));
        // An absent parameter equals null, so an optional one may be absent.
        serde_json::from_value(value.unwrap_or(Value::Null))
            .map_err(|_| Refusal::invalid_parameter(name))
    }

    /// Checks that all parameters have been taken. The error names one that has not.
    pub fn done(&self) -> Result<(), Refusal> {
        let left = self.parameters.iter().flat_map(Map::keys).next();
        left.map_or(Ok(()), |name| Err(Refusal::invalid_parameter(name)))
    }
}

/// A reply to send.
#[derive(Serialize)]
pub struct Reply<'a, T> {
    /// The parameters, a JSON object.
    pub parameters: &'a T,
    /// Another reply follows.
    #[serde(skip_serializing_if = "is_false")]
    pub continues: bool,
}

/// A received reply.
#[derive(Debug, Deserialize)]
pub struct Received {
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    /// Another reply follows.
    #[serde(default)]
    pub continues: bool,
}

impl Received {
    /// Its parameters, or its error.
    pub fn result(self) -> Result<Value, Refusal> {
        let parameters = self.parameters.unwrap_or_else(|| json!({}));
        match self.error {
            None => Ok(parameters),
            Some(error) => Err(Refusal { error, parameters }),
        }
    }
}

/// An error instead of a reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// `INTERFACE.ERROR`.
    pub error: String,
    /// The parameters, a JSON object.
    pub parameters: Value,
}

impl Refusal {
    /// An error of an interface, with the only parameter `reason`.
    pub fn because(interface: &str, error: &str, reason: &str) -> Refusal {
        Refusal {
            error: format!("{interface}.{error}"),
            parameters: json!({ "reason": reason }),
        }
    }

    fn of_service(error: &str, parameters: Value) -> Refusal {
        Refusal {
            error: format!("{SERVICE}.{error}"),
            parameters,
        }
    }

    /// The service has no such interface.
    pub fn interface_not_found(interface: &str) -> Refusal {
        Refusal::of_service("InterfaceNotFound", json!({ "interface": interface }))
    }

    /// The interface has no such method.
    pub fn method_not_found(method: &str) -> Refusal {
        Refusal::of_service("MethodNotFound", json!({ "method": method }))
    }

    /// A parameter is absent, unknown or does not fit the interface.
    pub fn invalid_parameter(parameter: &str) -> Refusal {
        Refusal::of_service("InvalidParameter", json!({ "parameter": parameter }))
    }

    /// The caller lacks the permission.
    pub fn permission_denied() -> Refusal {
        Refusal::of_service("PermissionDenied", json!({}))
    }

    /// The method replies more than once, and the caller did not set `more`.
    pub fn expected_more() -> Refusal {
        Refusal::of_service("ExpectedMore", json!({}))
    }

    /// The interface of the error, and the error's name in it.
    pub fn target(&self) -> (&str, &str) {
        self.error
            .rsplit_once('.')
            .unwrap_or(("", self.error.as_str()))
    }

    /// The parameter `reason`, or the whole error as text.
    pub fn reason(&self) -> String {
        match self.parameters.get("reason").and_then(Value::as_str) {
            Some(reason) => reason.to_owned(),
            None => format!("{} {}", self.error, self.parameters),
        }
    }
}

/// The bytes of a message, with its terminator.
pub fn message(of: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(of)?;
    text.push(END);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_the_protocol_has_it() {
        let text =
            r#"{"method":"org.example.a.Do","parameters":{"one":1,"none":null},"more":true}"#;
        let mut call: Call = serde_json::from_str(text).expect("it is a call");
        assert_eq!(call.target(), ("org.example.a", "Do"));
        assert!(call.more && !call.oneway && !call.upgrade);
        assert_eq!(call.take::<u32>("one"), Ok(1));
        assert_eq!(call.done(), Err(Refusal::invalid_parameter("none")));
        assert_eq!(call.take::<Option<u32>>("none"), Ok(None));
        assert_eq!(call.take::<Option<u32>>("absent"), Ok(None));
        assert_eq!(call.done(), Ok(()));
        let wrong = call.take::<u32>("absent");
        assert_eq!(wrong, Err(Refusal::invalid_parameter("absent")));
        let null: Call =
            serde_json::from_str(r#"{"method":"x","parameters":null}"#).expect("is one");
        assert_eq!(null.target(), ("", "x"));
        for no_call in [
            "1",
            "[]",
            "{}",
            r#"{"method":1}"#,
            r#"{"method":"a","parameters":[]}"#,
        ] {
            assert!(serde_json::from_str::<Call>(no_call).is_err(), "{no_call}");
        }
    }

    #[test]
    fn a_call_is_written_without_what_it_does_not_say() {
        let text = |call: &Call| serde_json::to_string(call).expect("it is JSON");
        let call = Call::new("a.B".to_owned(), json!({}));
        assert_eq!(text(&call), r#"{"method":"a.B"}"#);
        let call = Call::new("a.B".to_owned(), json!({ "c": 1 })).with_more();
        assert_eq!(
            text(&call),
            r#"{"method":"a.B","parameters":{"c":1},"more":true}"#
        );
    }

    #[test]
    fn errors_are_those_of_the_protocol() {
        let refusal = Refusal::invalid_parameter("v4");
        let text = serde_json::to_string(&refusal).expect("it is JSON");
        assert_eq!(
            text,
            r#"{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"v4"}}"#
        );
        let received: Received = serde_json::from_str(&text).expect("it is a reply");
        assert_eq!(received.result(), Err(refusal));
        assert_eq!(
            Refusal::because("a.b", "Failed", "no room").reason(),
            "no room"
        );
    }
}
