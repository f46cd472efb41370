// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses by themselves, without a configuration: which of them may be translated ([`special`]), and how an IPv6
//! address contains an IPv4 address ([`rfc6052`]).

pub mod rfc6052;
pub mod special;
