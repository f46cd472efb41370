// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client with the distribution's etcd. Single members are on the loopback interface; clusters of three are in
//! namespaces.

mod certificates;
mod cluster;
mod encrypted;
mod faults;
mod history;
mod limits;
mod measure;
mod member;
mod names;
mod node;
mod strangers;
mod users;
