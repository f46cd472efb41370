// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program needs that runs for months: supervision of its threads and tasks, heartbeats, signals, the service manager, privileges
//! that it gives up, confinement by the kernel, locks and folders of its own, and failures that become an exit code.
//!
//! It knows the operating system, and nothing of translation, of packets or of this program's configuration. All of it is for
//! use from outside: a part of the program starts what runs by [`supervise::Watch`] and fails with a [`failure::Failure`].

pub mod confinement;
pub mod counted;
pub mod failure;
pub mod instance;
pub mod manager;
pub mod privilege;
pub mod random;
pub mod signals;
pub mod supervise;
pub mod watchdog;
