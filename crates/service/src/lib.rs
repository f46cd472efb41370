// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts that a program needs to run for months: supervision of its threads and tasks, heartbeats, signals, the service
//! manager, dropping of privileges, confinement by the kernel, its own locks and folders, and failures that become an exit
//! code.
//!
//! The crate knows the operating system, but neither translation nor packets nor this program's configuration. All of it is
//! public: other crates start their work with [`supervise::Watch`]. Their errors are enums that say whose fault an error is
//! ([`failure::Classified`]), and become a [`failure::Failure`] where a thread ends or a person reads them.

pub mod confinement;
pub mod counted;
pub mod error;
pub mod failure;
pub mod instance;
pub mod manager;
pub mod ordered;
pub mod privilege;
pub mod random;
pub mod signals;
pub mod supervise;
pub mod watchdog;
