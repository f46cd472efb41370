// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node of a cluster of NAT64 gateways: `diolkos-cluster` decides who may open bindings where, `diolkos-engine` speaks
//! to the NATS servers, and this makes the tables, the programs and the routes follow.
//!
//! ```text
//! engine ─► worker ─► ownership ─► writes ─► engine
//!             │  └─► tables: slices open, close; bindings come in, go out
//!             └────► steering: packets of other nodes' slices are forwarded
//! tables ─► changes ─► publishing ─► engine ─► worker ─► standby ─► tables of other nodes
//! ```
//!
//! The worker is a thread of its own: a lease must not wait for whatever else the program does.

mod addresses;
mod changes;
mod counts;
mod inheriting;
mod members;
mod publishing;
mod rank;
mod secret;
mod snapshots;
mod steering;
mod tables;
mod view;
mod worker;

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use diolkos_core::slice::Slices;
use diolkos_engine::{Identity, Login, Settings as EngineSettings, Tls};
use diolkos_sys::fastpath::NextHop;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::Notify;

use crate::cluster_status::ClusterStatus;
use crate::config::{given, Cluster as Section, Settings};
use crate::failure::Failure;
use crate::nat64::Controller;
use crate::privilege::CLUSTER;
use crate::supervise::Watch;

pub use rank::Rank;
use steering::Steering;
use worker::Worker;

/// Bytes of bindings that the engine keeps for nodes that start; with the repetition every minute, millions of them.
const STREAM_BYTES: u64 = 256 << 20;

/// Orders to the worker.
#[derive(Debug)]
enum Order {
    /// Take slices, or hand them over.
    TakePart(bool),
    /// How a node is reached.
    Reach(u16, Option<NextHop>),
}

/// What the worker tells.
#[derive(Debug, Default)]
struct View {
    status: ClusterStatus,
    /// Addresses of which this node owns a slice.
    owned: BTreeSet<Ipv4Addr>,
    /// How good this node's routes are.
    rank: Rank,
}

/// What the worker and the rest of the program share.
#[derive(Debug, Default)]
struct Shared {
    view: Mutex<View>,
    moved: Notify,
}

/// This node's part in its cluster. Dropped, it ends: other nodes take over when its lease has ended.
pub struct Cluster {
    orders: Option<UnboundedSender<Order>>,
    shared: Arc<Shared>,
    address: Ipv6Addr,
    others: Vec<(u16, Ipv6Addr)>,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Reads the secret into the configuration: the pool is cut with it.
    pub fn prepare(settings: &mut Settings) -> Result<(), Failure> {
        if let Some(section) = &mut settings.cluster {
            members::this(section, &host())?;
            section.slice_key = secret::read(&section.secret_file)?.slices;
        }
        Ok(())
    }

    /// Joins. `tun_index`: of the TUN device, in front of which packets of other nodes are forwarded. `None`: the
    /// configuration has no cluster.
    pub fn start(
        settings: &Settings,
        controller: Arc<Controller>,
        tun_index: u32,
        watch: &Watch,
    ) -> Result<Option<Cluster>, Failure> {
        let Some(section) = &settings.cluster else {
            return Ok(None);
        };
        let me = members::this(section, &host())?;
        let secret = secret::read(&section.secret_file)?;
        let engine = engine(section, &me.name)?;
        let slices: Slices = controller
            .slices()
            .ok_or_else(|| Failure::run_time("the pool of a cluster has no slices"))?;
        let steering = Steering::start(settings, &slices, secret, tun_index)?;
        let (orders, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        // Without a lease, this node opens nothing.
        controller.open_until(std::time::Duration::ZERO);
        let worker = Worker::new(
            section,
            me.id,
            secret.cluster,
            (controller, slices, steering),
            shared.clone(),
        );
        let work = move || worker.run(engine, waiting);
        let thread = watch.thread_with(CLUSTER, "cluster", work).map_err(|e| {
            Failure::run_time(format!("cannot start the thread of the cluster: {e}"))
        })?;
        let others = section.node.iter().filter(|node| node.id != me.id);
        Ok(Some(Cluster {
            orders: Some(orders),
            shared,
            address: me.address,
            others: others.map(|node| (node.id, node.address)).collect(),
            thread: Some(thread),
        }))
    }

    /// Waits until [`Cluster::owned`] or [`Cluster::rank`] are others.
    pub async fn changed(&self) {
        self.shared.moved.notified().await;
    }

    /// Addresses of which this node owns a slice.
    pub fn owned(&self) -> BTreeSet<Ipv4Addr> {
        self.shared.look(|view| view.owned.clone())
    }

    /// How good this node's routes are, compared with those of the others.
    pub fn rank(&self) -> Rank {
        self.shared.look(|view| view.rank)
    }

    /// Where packets of this node's slices are sent.
    pub fn address(&self) -> Ipv6Addr {
        self.address
    }

    /// The other nodes, and where their packets are sent.
    pub fn others(&self) -> Vec<(u16, Ipv6Addr)> {
        self.others.clone()
    }

    /// How another node is reached.
    pub fn reach(&self, id: u16, hop: Option<NextHop>) {
        self.tell(Order::Reach(id, hop));
    }

    /// Takes slices from now on, or hands them over.
    pub fn take_part(&self, takes: bool) {
        self.tell(Order::TakePart(takes));
    }

    /// How it stands.
    pub fn status(&self) -> ClusterStatus {
        self.shared.look(|view| view.status.clone())
    }

    fn tell(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A worker that has ended has rung the alarm.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn look<T>(&self, see: impl FnOnce(&View) -> T) -> T {
        see(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the view, and wakes the task that makes the routes if they depend on what has changed.
    fn tell(&self, new: View) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let moves = (&view.owned, view.rank) != (&new.owned, new.rank);
        *view = new;
        drop(view);
        if moves {
            self.moved.notify_one();
        }
    }
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn engine(section: &Section, node: &str) -> Result<EngineSettings, Failure> {
    let tls = given(&section.ca).filter(|_| !section.plaintext);
    let identity = given(&section.certificate).map(|certificate| Identity {
        certificate: certificate.to_owned(),
        key: section.key.clone(),
    });
    let login = given(&section.password_file).map(|file| {
        let password = fs::read_to_string(file).map_err(|e| {
            Failure::usage(format!(
                "cluster.password_file: {} cannot be read: {e}",
                file.display()
            ))
        })?;
        Ok::<_, Failure>(Login {
            user: section.user.clone(),
            password: password.trim_end_matches(['\r', '\n']).to_owned(),
        })
    });
    Ok(EngineSettings {
        client_name: format!("diolkos {node}"),
        tls: tls.map(|ca| Tls {
            ca: ca.to_owned(),
            identity,
        }),
        plaintext: section.plaintext,
        login: login.transpose()?,
        replicas: section.replicas.into(),
        stream_bytes: STREAM_BYTES,
        ..EngineSettings::new(section.bare_servers(), &section.name)
    })
}
