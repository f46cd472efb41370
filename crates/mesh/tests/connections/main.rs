// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gateways on loopback addresses, and attackers.

mod certificates;
mod gateway;
mod raw;

mod bulk;
mod floods;
mod nodes;
mod page;
mod refused;
mod renewal;
mod replaced;
mod strange;
