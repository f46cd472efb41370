// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This gateway as one of several: `diolkos-node` decides, and what it decides is done to the tables and programs under their lock
//! ([`crate::nat64::Peers`]); `diolkos-mesh` carries messages to the other gateways, and `diolkos-etcd` asks the engine.
//!
//! ```text
//! mesh, etcd, time ─► worker ─► steps ─► controller: node, tables, programs ─► orders ─► worker ─► mesh, etcd; view ─► routes, status
//! next hops ─► controller: programs
//! ```
//!
//! The worker is a thread of its own: whether this node counts as reachable must not wait for whatever else the program does.

mod settings;
mod status;
mod steps;
mod worker;

use std::fs;
use std::net::Ipv6Addr;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diolkos_node::gateway::Gateway;
use diolkos_node::{Armed, Node, NodeId};
use diolkos_sys::clock::kernel_boottime;
use diolkos_sys::fastpath::{ForwardPath, Gateway as Hop, Homes, Sessions};
use tokio::sync::Notify;

use crate::control::{Finding, Reason};
use crate::nat64::{Controller, Deferral, Loaded, Peers};
use crate::slowpath::Ways;
use diolkos_config::{Cluster as Section, Settings};
use diolkos_figures::cluster_status::ClusterStatus;
use diolkos_service::failure::Failure;
use diolkos_service::privilege::CLUSTER;
use diolkos_service::random::random;
use diolkos_service::supervise::Watch;

pub use settings::prepare;
use worker::{Order, Told, Worker};

/// How long routers have to turn before this node stops to translate.
const TURN: Duration = Duration::from_millis(500);
/// How long the others are told that it stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Of the programs that translate: sessions, and the homes of hosts.
type Maps = (Arc<Sessions>, Arc<Homes>);

/// What the worker tells.
#[derive(Debug, Default)]
struct View {
    status: ClusterStatus,
    /// This node is to get packets.
    attracts: bool,
    /// It goes over to this file.
    goes_over: Option<u64>,
}

/// What the worker and the rest of the program share.
#[derive(Debug, Default)]
struct Shared {
    view: Mutex<View>,
    moved: Notify,
}

/// This node's part in its cluster. Dropped, it ends.
pub struct Cluster {
    told: Sender<Told>,
    shared: Arc<Shared>,
    controller: Arc<Controller>,
    /// It forwards as long as this is there.
    _path: ForwardPath,
    others: Vec<(NodeId, Ipv6Addr)>,
    links: Vec<String>,
    rules: settings::Rules,
    homes: Arc<Homes>,
    me: NodeId,
    /// All nodes, in the order of the file, and what names that.
    names: Vec<String>,
    file: u64,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Joins. Before `links`: the program that forwards to other gateways, the maps of those that translate, and how the slow path
    /// reaches other gateways. `links`: the interfaces on which others send. `expected`: names of nodes that have to have the same file before
    /// this one opens bindings.
    pub fn start(
        settings: &Settings,
        section: &Section,
        controller: Arc<Controller>,
        (path, (sessions, homes), ways): (ForwardPath, Maps, Arc<Ways>),
        links: Vec<u32>,
        expected: &[String],
        watch: &Watch,
    ) -> Result<Cluster, Failure> {
        let (me, own) = settings::this(section)?;
        let config = settings::node(settings, section, me);
        let rules = settings::Rules::of(&config);
        let file = config.file();
        let node = Node::new(config, random(), [random(), random()], kernel_boottime());
        let mut node = node.map_err(|fault| settings::contradiction(&fault))?;
        let names: Vec<String> = section.node.iter().map(|its| its.name.clone()).collect();
        let found = (0..).map(NodeId).zip(&names);
        let found = found.filter(|(_, name)| expected.contains(name));
        node.expect(&found.map(|(id, _)| id).collect::<Vec<_>>());
        let programs = Loaded {
            sessions,
            homes: homes.clone(),
            forwarding: path.forwarding(),
        };
        // Before anything is opened or forwarded.
        homes.set_cluster(Some(&rules.with(links))).map_err(|e| {
            Failure::run_time(format!("the programs cannot be told of the cluster: {e}"))
        })?;
        let (told, hears) = mpsc::channel();
        let deferral = section.defer.then(|| {
            let told = told.clone();
            // A worker that has ended waits for nobody.
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
        let (mesh, engine) = (settings::mesh(section, me), settings::engine(section, me)?);
        let sender = told.clone();
        let beat = watch.beat("cluster");
        let work = move || worker.run(mesh, engine, sender, &hears, &beat);
        let thread = watch.thread_with(CLUSTER, "cluster", work).map_err(|e| {
            Failure::run_time(format!("cannot start the thread of the cluster: {e}"))
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

    /// Waits until [`Cluster::attracts`] is another.
    pub async fn changed(&self) {
        self.shared.moved.notified().await;
    }

    /// Is this node to get packets?
    pub fn attracts(&self) -> bool {
        self.shared.look(|view| view.attracts)
    }

    /// The other nodes, and where they are reached.
    pub fn others(&self) -> Vec<(NodeId, Ipv6Addr)> {
        self.others.clone()
    }

    /// The interfaces on which the others send.
    pub fn links(&self) -> &[String] {
        &self.links
    }

    /// How another node is reached; None: it is not.
    pub fn reach(&self, node: NodeId, hop: Option<Hop>) {
        self.controller.reach(node, hop);
        let _ = self.told.send(Told::Order(Order::Reach(node, hop)));
    }

    /// The interfaces on which the others send, by index: programs know others' packets by them.
    pub fn hear_on(&self, links: Vec<u32>) {
        if let Err(error) = self.homes.set_cluster(Some(&self.rules.with(links))) {
            tracing::warn!(
                "the programs cannot be told on which interfaces other gateways send: {error}"
            );
        }
    }

    /// Takes new subscribers, or leaves them to the others.
    pub fn take_part(&self, takes: bool) {
        self.tell(Order::TakePart(takes));
    }

    /// All nodes of its file.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Arms this node for the file with these settings: with all others that are armed for it, it goes over to it. What names the file.
    ///
    /// # Errors
    ///
    /// Nodes compare nothing of it that differs, or this node is not in it.
    pub fn arm(&self, new: &Settings, time: Duration) -> Result<u64, Failure> {
        let section = new.cluster.as_ref();
        let section = section.ok_or_else(|| Failure::usage("cluster: there is no such section"))?;
        let (me, its) = settings::this(section)?;
        let own = &self.names[self.me.index()];
        if its.name != *own {
            return Err(Failure::usage(format!(
                "cluster.node: this is {own:?}, and the new file makes it {:?}: stop it, and start it with that file",
                its.name
            )));
        }
        let file = settings::node(new, section, me).file();
        if file == self.file {
            return Err(Failure::usage(
                "the file has nothing new that all nodes need: `diolkos reload`, or a restart of one node after the other, is enough",
            ));
        }
        let has = |name: &String| section.node.iter().any(|its| its.name == *name);
        let all = (0..).map(NodeId).zip(&self.names);
        let without = all.filter(|(_, name)| !has(name)).map(|(id, _)| id);
        let until = kernel_boottime() + time;
        self.tell(Order::Arm(Armed::new(file, until, without.collect())));
        Ok(file)
    }

    /// Not any more, unless it goes over already.
    pub fn disarm(&self) {
        self.tell(Order::Disarm);
    }

    /// The file to which it goes over now.
    pub fn goes_over(&self) -> Option<u64> {
        self.shared.look(|view| view.goes_over)
    }

    /// How it stands.
    pub fn status(&self) -> ClusterStatus {
        self.shared.look(|view| view.status.clone())
    }

    /// What is wrong.
    pub fn findings(&self) -> Vec<Finding> {
        let status = self.status();
        if status.name.is_empty() {
            // The worker has said nothing yet.
            let text = "this node opens no bindings yet: it has just started".to_owned();
            return vec![Finding::obstacle(Reason::ClusterStarting, text)];
        }
        status.findings
    }

    /// Lets the others go on without this node: first it takes no new subscribers, and routers have time to turn, if its routes
    /// say so by now; then they use their copies.
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
        // A worker that has ended has rung the alarm.
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

impl Shared {
    fn look<T>(&self, see: impl FnOnce(&View) -> T) -> T {
        see(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn show(&self, status: ClusterStatus) {
        self.change(|view| view.status = status);
    }

    /// Wakes the task that makes the routes.
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

/// How the engine is reached, for who asks it beside a node.
///
/// # Errors
///
/// There is no section of a cluster, it is not known which node this is, or the file with the password cannot be read.
pub fn engine(settings: &mut Settings) -> Result<diolkos_etcd::Settings, Failure> {
    prepare(settings)?;
    let section = settings.cluster.as_ref();
    let section =
        section.ok_or_else(|| Failure::usage("cluster: there is no such section in the file"))?;
    settings::engine(section, settings::this(section)?.0)
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
