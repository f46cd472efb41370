// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One entry for each key of the file: documentation, name, type, default, and what a change of it needs.
//!
//! [`section!`](crate::key::section) makes of the entries the type that reads and prints the section, its defaults, and its part
//! of the schema, from which the reference, the manual page and the rules of a reload follow. A new key needs its entry here, and
//! the code that uses it.

/// What a changed key needs to take effect. The nearest rule above a key counts, if the key has none itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// A reload.
    Live,
    /// Another start of the program.
    Restart,
    /// A reload; in a cluster, whose gateways must have the same value, `diolkos cluster roll` on all of them.
    Shared,
    /// Another start, or `diolkos cluster roll`.
    Rejoin,
    /// Another start of the DNS64. A translator does not use it. A key of a DNS64 whose rule is `Live` needs a reload of the DNS64.
    Dns64,
    /// Each key of the section says so itself.
    Each,
}

impl Reload {
    /// The name in the schema, of a property of each key.
    pub const PROPERTY: &'static str = "x-reload";

    const ALL: [Reload; 6] = [
        Reload::Live,
        Reload::Restart,
        Reload::Shared,
        Reload::Rejoin,
        Reload::Dns64,
        Reload::Each,
    ];

    /// The value of the property.
    pub const fn word(self) -> &'static str {
        match self {
            Reload::Live => "live",
            Reload::Restart => "restart",
            Reload::Shared => "shared",
            Reload::Rejoin => "rejoin",
            Reload::Dns64 => "dns64",
            Reload::Each => "each",
        }
    }

    /// The rule that a part of the schema states.
    pub fn stated(schema: &serde_json::Value) -> Option<Reload> {
        let word = schema.get(Reload::PROPERTY)?.as_str()?;
        let rule = Reload::ALL.into_iter().find(|rule| rule.word() == word);
        rule.filter(|rule| *rule != Reload::Each)
    }

    /// What the reference says of such a key; nothing if a reload is enough.
    pub const fn sentence(self) -> Option<&'static str> {
        match self {
            Reload::Live | Reload::Each => None,
            Reload::Dns64 => Some("A change needs a restart of the DNS64."),
            Reload::Restart => Some("A change needs a restart."),
            Reload::Shared => Some("In a cluster, a change needs `diolkos cluster roll`."),
            Reload::Rejoin => Some("A change needs a restart, of one node after the other."),
        }
    }
}

/// A section of the file, all of whose keys have a default: `documentation name: type = default, rule of reload;`.
macro_rules! section {
    (
        $(#[$of_section:meta])*
        pub struct $section:ident {
            $( $(#[$of_key:meta])* $key:ident: $type:ty = $default:expr, $rule:ident; )*
        }
        $( not in the file {
            $( $(#[$of_value:meta])* $value:ident: $value_type:ty = $value_default:expr; )*
        } )?
    ) => {
        $(#[$of_section])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $(
                $(#[$of_key])*
                #[schemars(extend("x-reload" = crate::key::Reload::$rule.word()))]
                pub $key: $type,
            )*
            $( $(
                $(#[$of_value])*
                #[serde(skip)]
                pub $value: $value_type,
            )* )?
        }

        impl Default for $section {
            fn default() -> $section {
                $section {
                    $( $key: $default, )*
                    $( $( $value: $value_default, )* )?
                }
            }
        }
    };
}
pub(crate) use section;
