// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the program is, and which way packets take: the words that `[translator]` has for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Customer-side translator of 464XLAT.
    #[default]
    Clat,
    /// Stateless translator for a router.
    Siit,
    /// Stateful translator for a router.
    Nat64,
}

impl Mode {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Clat => "clat",
            Mode::Siit => "siit",
            Mode::Nat64 => "nat64",
        }
    }
}

/// Which path packets may take.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// `tc` where the kernel and the privileges allow it, else `tun`.
    #[default]
    Auto,
    /// The slow path alone: every packet crosses the TUN device.
    Tun,
    /// The eBPF fast path at tc, with the slow path for what it declines.
    Tc,
    /// A P4 switch (`diolkos-switch`) of a router, with the slow path for what it declines and while it is not there.
    P4,
}

impl Datapath {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Datapath::Auto => "auto",
            Datapath::Tun => "tun",
            Datapath::Tc => "tc",
            Datapath::P4 => "p4",
        }
    }
}

/// Where the fast path hooks in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Over the TUN device, to which routes lead.
    Device,
    /// Also at the ingress of the interfaces of a router, before any routing.
    Inline,
    /// The same, and what can be is sent out of another of the interfaces without the kernel's forwarding.
    Direct,
    /// The same, and what can be is translated and sent by the interfaces' drivers (native XDP).
    Xdp,
    /// `device` where `interfaces` is empty, and where something on this host would be bypassed. Else `xdp` where all of the
    /// interfaces can do it and none is a virtual Ethernet, and `direct` where not.
    #[default]
    Auto,
}

impl Placement {
    /// Returns true if packets may be sent without the kernel's forwarding.
    pub fn sends(self) -> bool {
        match self {
            Placement::Device | Placement::Inline => false,
            Placement::Direct | Placement::Xdp | Placement::Auto => true,
        }
    }

    /// Returns true if drivers may translate.
    pub fn has_drivers(self) -> bool {
        matches!(self, Placement::Xdp | Placement::Auto)
    }
}

/// How tc programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// `tcx` where the kernel has it (6.6 and later), else `clsact`.
    #[default]
    Auto,
    /// Links that die with the process.
    Tcx,
    /// Filters on the clsact queueing discipline.
    Clsact,
}
