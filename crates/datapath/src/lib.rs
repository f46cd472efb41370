// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How packets reach a translator and leave it, in whatever mode it translates.
//!
//! [`slowpath`] reads them from the TUN device, has them translated by a [`slowpath::Engine`], and writes them. [`datapath`] starts the
//! fast path as the settings ask, [`labels`] carries marks over the slow path, [`expiry`] and [`events`] say what goes wrong with
//! packets, [`accept_local`] lets errors from the host's own addresses through, and [`trace`] says what would become of a packet.
//!
//! It knows packets, the settings and the kernel's edge, and nothing of sessions, of a cluster or of the control socket: those who translate
//! with state give it their engine.

pub mod accept_local;
pub mod datapath;
pub mod events;
pub mod expiry;
pub mod labels;
pub mod packet_summary;
pub mod slowpath;
pub mod trace;
