// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This gateway as one of a cluster: `diolkos-node` decides, and its decisions are applied to the tables and programs
//! under their lock ([`diolkos_gateway::Peers`]). `diolkos-mesh` carries messages to the other gateways, and
//! `diolkos-etcd` queries etcd.
//!
//! ```text
//! mesh, etcd, time ─► worker ─► steps ─► controller: node, tables, programs ─► orders ─► worker ─► mesh, etcd; view ─► routes, status
//! next hops ─► controller: programs
//! ```
//!
//! The worker is a thread of its own, so that other work of the program cannot make this gateway appear unreachable.
//!
//! This crate knows the node, its connections and the controller of `diolkos-gateway`, but not how routes are changed:
//! the router asks [`Cluster`] for the required routes, and [`turn::turn`] changes all of them or none. [`steps`] is
//! public for the simulation of whole gateways.

mod error;
mod settings;
mod status;
pub mod steps;
pub mod turn;
mod worker;

use std::fs;
use std::net::Ipv6Addr;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use error::ClusterError;

use diolkos_fastpath::{ForwardPath, Gateway as Hop, Homes, Sessions};
use diolkos_node::gateway::Gateway;
use diolkos_node::{Armed, Node, NodeId};
use diolkos_sys::clock::kernel_boottime;
use tokio::sync::Notify;

use diolkos_config::{Cluster as Section, Settings};
use diolkos_control::translator::{Finding, Reason};
use diolkos_datapath::slowpath::Ways;
use diolkos_figures::cluster_status::ClusterStatus;
use diolkos_gateway::{Controller, Deferral, Loaded, Peers};
use diolkos_service::error::ServiceError;
use diolkos_service::ordered::{Ordered, Rank};
use diolkos_service::privilege::CLUSTER;
use diolkos_service::random::random;
use diolkos_service::supervise::Watch;

pub use settings::prepare;
use worker::{Order, Told, Worker};

/// Time for routers to follow the routes before this gateway stops to translate.
const TURN: Duration = Duration::from_millis(500);
/// Time for which the other gateways are told that it stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// What leads packets to other gateways, and what the programs that translate know.
pub struct ClusterPrograms {
    /// The program that forwards to other gateways.
    pub path: ForwardPath,
    /// The sessions of the programs that translate.
    pub sessions: Arc<Sessions>,
    /// Their table of which gateway has which hosts.
    pub homes: Arc<Homes>,
    /// How the slow path reaches other gateways.
    pub ways: Arc<Ways>,
}

/// The worker's view, for the rest of the program.
#[derive(Debug, Default)]
struct View {
    status: ClusterStatus,
    /// True if this gateway should receive packets.
    attracts: bool,
    /// The configuration file that it is changing to, if any.
    goes_over: Option<u64>,
}

/// The state that the worker shares with the rest of the program.
#[derive(Debug)]
struct Shared {
    view: Ordered<View>,
    moved: Notify,
}

/// This gateway's membership in its cluster. It ends when this is dropped.
pub struct Cluster {
    told: Sender<Told>,
    shared: Arc<Shared>,
    controller: Arc<Controller>,
    /// The forwarding program; it forwards for as long as this exists.
    _path: ForwardPath,
    others: Vec<(NodeId, Ipv6Addr)>,
    links: Vec<String>,
    rules: settings::Rules,
    homes: Arc<Homes>,
    me: NodeId,
    /// The names of all gateways, in the order of the file, and the hash of the file.
    names: Vec<String>,
    file: u64,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Joins the cluster. `links` are the interfaces on which other
    /// gateways send. `expected` has the names of gateways that must have the same file before this one opens bindings.
    pub fn start(
        settings: &Settings,
        section: &Section,
        controller: Arc<Controller>,
        programs: ClusterPrograms,
        links: Vec<u32>,
        expected: &[String],
        watch: &Watch,
    ) -> Result<Cluster, ClusterError> {
        let ClusterPrograms {
            path,
            sessions,
            homes,
            ways,
        } = programs;
        let (me, own) = settings::this(section)?;
        let config = settings::node(settings, section, me);
        let rules = settings::Rules::of(&config);
        let file = config.file();
        let node = Node::new(config, random(), [random(), random()], kernel_boottime());
        let mut node = node.map_err(ClusterError::Contradiction)?;
        let names: Vec<String> = section.node.iter().map(|its| its.name.clone()).collect();
        let found = (0..).map(NodeId).zip(&names);
        let found = found.filter(|(_, name)| expected.contains(name));
        node.expect(&found.map(|(id, _)| id).collect::<Vec<_>>());
        let programs = Loaded {
            sessions,
            homes: homes.clone(),
            forwarding: path.forwarding(),
        };
        // This must precede every opening and forwarding.
        let told = homes.set_cluster(Some(&rules.with(links)));
        told.map_err(ClusterError::Programs)?;
        let (told, hears) = mpsc::channel();
        let deferral = section.defer.then(|| {
            let told = told.clone();
            // If the worker has ended, no packet waits for it.
            Deferral::new(Box::new(move || drop(told.send(Told::Order(Order::Tell)))))
        });
        controller.join(Peers::new(
            Gateway::new(node),
            Box::new(programs),
            ways,
            deferral,
        ));

        let shared = Arc::new(Shared::default());
        let worker = Worker::new(
            section.clone(),
            me,
            controller.clone(),
            path.forwarding(),
            shared.clone(),
        );
        let (mesh, files) = settings::mesh(section, me);
        let engine = settings::engine(section, me)?;
        let sender = told.clone();
        let beat = watch.beat("cluster");
        let work = move || Ok(worker.run(mesh, files, engine, sender, &hears, &beat)?);
        let thread = watch.thread_with(CLUSTER, "cluster", work);
        let thread = thread.map_err(|source| ServiceError::Thread {
            purpose: "of the cluster",
            source,
        })?;
        let others = (0..).map(NodeId).zip(&section.node);
        let others = others.filter(|(node, _)| *node != me);
        Ok(Cluster {
            told,
            shared,
            controller,
            _path: path,
            others: others.map(|(node, its)| (node, its.address)).collect(),
            links: own.links.clone(),
            rules,
            homes,
            me,
            names,
            file,
            thread: Some(thread),
        })
    }

    /// Waits until [`Cluster::attracts`] changes.
    pub async fn changed(&self) {
        self.shared.moved.notified().await;
    }

    /// Returns true if this gateway should receive packets.
    pub fn attracts(&self) -> bool {
        self.shared.look(|view| view.attracts)
    }

    /// Returns the other gateways and their addresses.
    pub fn others(&self) -> Vec<(NodeId, Ipv6Addr)> {
        self.others.clone()
    }

    /// Returns the interfaces on which the others send.
    pub fn links(&self) -> &[String] {
        &self.links
    }

    /// Sets how another gateway is reached; None if it cannot be reached.
    pub fn reach(&self, node: NodeId, hop: Option<Hop>) {
        self.controller.reach(node, hop);
        let _ = self.told.send(Told::Order(Order::Reach(node, hop)));
    }

    /// Sets the indices of the interfaces on which the others send; programs recognize their packets by these.
    pub fn hear_on(&self, links: Vec<u32>) {
        if let Err(error) = self.homes.set_cluster(Some(&self.rules.with(links))) {
            tracing::warn!(
                "the programs cannot be told on which interfaces other gateways send: {error}"
            );
        }
    }

    /// Has this gateway take new subscribers, or leave them to the others.
    pub fn take_part(&self, takes: bool) {
        self.tell(Order::TakePart(takes));
    }

    /// Returns the names of all gateways of its file.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Arms this gateway for the file with these settings: once all others are armed for it, this one changes to it.
    /// Returns the hash of the file.
    ///
    /// # Errors
    ///
    /// The files differ in nothing that gateways compare, or this gateway is not in the new file.
    pub fn arm(&self, new: &Settings, time: Duration) -> Result<u64, ClusterError> {
        let section = new.cluster.as_ref();
        let section = section.ok_or_else(|| ClusterError::NoSection(""))?;
        let (me, its) = settings::this(section)?;
        let own = &self.names[self.me.index()];
        if its.name != *own {
            return Err(ClusterError::OtherNode {
                own: own.clone(),
                new: its.name.clone(),
            });
        }
        let file = settings::node(new, section, me).file();
        if file == self.file {
            return Err(ClusterError::NothingNew);
        }
        let has = |name: &String| section.node.iter().any(|its| its.name == *name);
        let all = (0..).map(NodeId).zip(&self.names);
        let without = all.filter(|(_, name)| !has(name)).map(|(id, _)| id);
        let until = kernel_boottime() + time;
        self.tell(Order::Arm(Armed::new(file, until, without.collect())));
        Ok(file)
    }

    /// Disarms this gateway, unless it is already changing to the file.
    pub fn disarm(&self) {
        self.tell(Order::Disarm);
    }

    /// Returns the file that it is changing to, if any.
    pub fn goes_over(&self) -> Option<u64> {
        self.shared.look(|view| view.goes_over)
    }

    /// Returns the status of the cluster.
    pub fn status(&self) -> ClusterStatus {
        self.shared.look(|view| view.status.clone())
    }

    /// Returns the problems that an operator should know.
    pub fn findings(&self) -> Vec<Finding> {
        let status = self.status();
        if status.name.is_empty() {
            // The worker has reported nothing yet.
            let text = "this node opens no bindings yet: it has just started".to_owned();
            return vec![Finding::obstacle(Reason::ClusterStarting, text)];
        }
        status.findings
    }

    /// Hands over to the other gateways. First this gateway takes no new subscribers, and routers get time to follow if
    /// its routes have changed by then; then the others use their copies.
    pub async fn leave(&mut self) {
        self.tell(Order::TakePart(false));
        tokio::time::sleep(TURN).await;
        self.tell(Order::Leave);
        let begun = tokio::time::Instant::now();
        let is_over = |thread: &JoinHandle<()>| thread.is_finished();
        while begun.elapsed() < FAREWELL && !self.thread.as_ref().is_none_or(is_over) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn tell(&self, order: Order) {
        // If the worker has ended, the alarm has been raised.
        let _ = self.told.send(Told::Order(order));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tell(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            view: Ordered::new(Rank::ClusterView, View::default()),
            moved: Notify::default(),
        }
    }
}

impl Shared {
    fn look<T>(&self, see: impl FnOnce(&View) -> T) -> T {
        see(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn show(&self, status: ClusterStatus) {
        self.change(|view| view.status = status);
    }

    /// Wakes the task that maintains the routes.
    fn attract(&self, attracts: bool) {
        self.change(|view| view.attracts = attracts);
        self.moved.notify_one();
    }

    /// Wakes the task that ends the router.
    fn go_over(&self, file: u64) {
        self.change(|view| view.goes_over = Some(file));
        self.moved.notify_one();
    }

    fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns how etcd is reached, for clients other than a gateway.
///
/// # Errors
///
/// There is no `cluster` section, it is unknown which gateway this is, or the file with the password cannot be read.
pub fn engine(settings: &mut Settings) -> Result<diolkos_etcd::Settings, ClusterError> {
    prepare(settings)?;
    let section = settings.cluster.as_ref();
    let section = section.ok_or_else(|| ClusterError::NoSection(" in the file"))?;
    settings::engine(section, settings::this(section)?.0)
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
