// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client against the distribution's `nats-server`, on the loopback interface and in folders that are removed.

mod certificates;
mod cluster;
mod encrypted;
mod node;
mod order;
mod restart;
mod server;
mod strangers;
mod writes;
