// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCP server, in virtual time.
//!
//! * `wire`: messages, byte for byte, written from the figures of RFC 6887.
//! * `mappings`: what a client may ask for, and what becomes of it.
//! * `floods`: what others cannot do.
//! * `world`: tables that give each port in turn, and a client.

mod floods;
mod mappings;
mod wire;
mod world;
