// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worker thread of a cluster: it gives events of the other gateways, of etcd, of the operator and of time to the
//! node under the lock of the tables, and then carries out the node's orders in their order.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use diolkos_etcd::{Answers, Client, Settings as EngineSettings};
use diolkos_fastpath::{Forwarding, Gateway as Hop};
use diolkos_mesh::{Credentials, Event as MeshEvent, Files, Mesh, Settings as MeshSettings};
use diolkos_node::gateway::Order as NodeOrder;
use diolkos_node::{Armed, Event, NodeId};
use diolkos_sys::clock::kernel_boottime;

use super::status::{self, Notes, Seen};
use super::steps::{End, Steps, Tables, BREATH};
use super::Shared;
use crate::error::ClusterError;
use diolkos_config::Cluster as Section;
use diolkos_gateway::{Controller, Departing};
use diolkos_service::watchdog::Heartbeat;

/// Interval between two views for the control socket and the metrics, whose requests therefore cost the worker nothing.
const VIEW: Duration = Duration::from_millis(100);
/// Interval between two checks of the certificate files.
const LOOK: Duration = Duration::from_secs(5);

/// A message to the worker.
#[derive(Debug)]
pub enum Told {
    /// From the connections.
    Mesh(MeshEvent),
    /// From the rest of the program.
    Order(Order),
}

/// An order from the rest of the program.
#[derive(Debug)]
pub enum Order {
    /// Serve new subscribers, or leave them to others.
    TakePart(bool),
    /// Change to another file together with all others.
    Arm(Armed),
    /// Disarm.
    Disarm,
    /// Tell the others at once what has changed: packets wait for it.
    Tell,
    /// How a gateway is reached; for the status.
    Reach(NodeId, Option<Hop>),
    /// Tell the others that this gateway stops, and end.
    Leave,
    /// End at once.
    End,
}

impl From<MeshEvent> for Told {
    fn from(event: MeshEvent) -> Told {
        Told::Mesh(event)
    }
}

pub struct Worker {
    section: Section,
    controller: Arc<Controller>,
    shared: Arc<Shared>,
    notes: Notes,
    steps: Steps,
    /// Orders to carry out.
    orders: Vec<NodeOrder>,
    /// Packets that have waited for another gateway.
    departing: Departing,
    start: Instant,
}

/// The worker's connections to the outside.
struct Outside {
    mesh: Mesh,
    engine: Client,
}

impl Worker {
    pub fn new(
        section: Section,
        me: NodeId,
        controller: Arc<Controller>,
        forwarding: Arc<Forwarding>,
        shared: Arc<Shared>,
    ) -> Worker {
        let notes = Notes::new(&section, me, forwarding);
        Worker {
            section,
            controller,
            shared,
            notes,
            steps: Steps::default(),
            orders: Vec::new(),
            departing: Departing::default(),
            start: Instant::now(),
        }
    }

    /// Works until it is told to end. After that, no packet waits for other gateways.
    pub fn run(
        self,
        settings: MeshSettings,
        files: Files,
        engine: EngineSettings,
        sender: Sender<Told>,
        hears: &Receiver<Told>,
        beat: &Heartbeat,
    ) -> Result<(), ClusterError> {
        let controller = self.controller.clone();
        let done = self.work(settings, files, engine, sender, hears, beat);
        controller.stop_deferring();
        done
    }

    fn work(
        mut self,
        settings: MeshSettings,
        files: Files,
        engine: EngineSettings,
        sender: Sender<Told>,
        hears: &Receiver<Told>,
        beat: &Heartbeat,
    ) -> Result<(), ClusterError> {
        let mut seen = changed_at(&files);
        let credentials = Credentials::read(&files, &settings).map_err(ClusterError::Mesh)?;
        let mesh =
            Mesh::start(settings.clone(), credentials, sender).map_err(ClusterError::Mesh)?;
        let (engine, mut answers) = Client::start(engine).map_err(ClusterError::Engine)?;
        let mut outside = Outside { mesh, engine };

        let (mut view, mut look) = (self.start, self.start + LOOK);
        loop {
            beat.beat();
            let wait = self.steps.due().saturating_sub(self.start.elapsed());
            match hears.recv_timeout(wait) {
                Ok(Told::Mesh(event)) => self.note(event, &mut outside),
                Ok(Told::Order(Order::End)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Told::Order(order)) => self.obey(order),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.take_answers(&mut answers);
            self.step(None);
            self.carry_out(&mut outside);
            if self.steps.is_pause_due() {
                std::thread::sleep(BREATH);
            }
            match self.steps.end() {
                Some(End::Superseded) => {
                    return Err(ClusterError::Superseded(self.section.me.clone()))
                }
                Some(End::Left) => return Ok(()),
                None => {}
            }
            let now = Instant::now();
            if now >= view {
                view = now + VIEW;
                self.show(&outside);
            }
            if now >= look {
                look = now + LOOK;
                let now = changed_at(&files);
                if std::mem::replace(&mut seen, now) != now {
                    self.renew(&files, &settings, &outside.mesh);
                }
            }
        }
    }

    fn note(&mut self, event: MeshEvent, outside: &mut Outside) {
        if let MeshEvent::Refused(refused) = &event {
            self.notes.refused(refused);
        }
        outside.mesh.note(event, |event| self.step(Some(event)));
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::TakePart(true) => self.step(Some(Event::Stay)),
            Order::TakePart(false) => self.step(Some(Event::Drain)),
            Order::Arm(armed) => self.step(Some(Event::Arm(armed))),
            Order::Disarm => self.step(Some(Event::Disarm)),
            Order::Leave => self.step(Some(Event::Leave)),
            Order::Tell => self.step(Some(Event::Tick)),
            Order::Reach(node, hop) => self.notes.reach(node, hop),
            Order::End => {}
        }
    }

    fn take_answers(&mut self, answers: &mut Answers) {
        while let Ok((token, answer)) = answers.try_recv() {
            self.step(Some(Event::Answer { token, answer }));
        }
    }

    fn step(&mut self, event: Option<Event<'_>>) {
        let mut tables = Locked {
            controller: &self.controller,
            departing: &mut self.departing,
        };
        let now = self.start.elapsed();
        self.steps.step(now, event, &mut tables, &mut self.orders);
    }

    fn carry_out(&mut self, outside: &mut Outside) {
        self.controller.send(&mut self.departing);
        for order in std::mem::take(&mut self.orders) {
            match order {
                NodeOrder::Send {
                    peer,
                    connection,
                    bytes,
                } => outside.mesh.send(peer, connection, bytes),
                NodeOrder::Close { peer, connection } => outside.mesh.close(peer, connection),
                NodeOrder::Ask { token, request } => {
                    // The node asks again if it receives no answer.
                    if let Err(unsent) = outside.engine.ask(token, request) {
                        tracing::debug!("the engine is not asked: {unsent}");
                    }
                }
                NodeOrder::Attract(attracts) => self.shared.attract(attracts),
                NodeOrder::GoOver(file) => self.shared.go_over(file),
                NodeOrder::Report(report) => self.notes.note(report),
                // The steps handle these.
                NodeOrder::Left | NodeOrder::Again => {}
            }
        }
    }

    fn show(&mut self, outside: &Outside) {
        let (section, notes) = (&self.section, &mut self.notes);
        notes.count();
        let engine = outside.engine.status();
        let status = self.controller.look_at_node(|node| {
            status::status(Seen {
                section,
                node,
                now: kernel_boottime(),
                mesh: &outside.mesh,
                engine,
                notes,
            })
        });
        if let Some(status) = status {
            self.shared.show(status);
        }
    }

    fn renew(&self, files: &Files, settings: &MeshSettings, mesh: &Mesh) {
        match Credentials::read(files, settings) {
            Ok(credentials) => {
                mesh.renew(credentials);
                tracing::info!("connections to other gateways use the new certificates");
            }
            Err(fault) => {
                tracing::warn!("connections go on with the certificates from before: {fault}");
            }
        }
    }
}

/// The tables, and packets that need not wait any longer.
struct Locked<'a> {
    controller: &'a Controller,
    departing: &'a mut Departing,
}

impl Tables for Locked<'_> {
    fn hear(&mut self, event: Event<'_>, orders: &mut Vec<NodeOrder>) {
        self.controller.hear(event, orders, self.departing);
    }

    fn lacks_ports(&self) -> bool {
        self.controller.look(|nat64| nat64.state().lacks_ports())
    }
}

/// Returns when the files last changed, if known.
fn changed_at(files: &Files) -> [Option<SystemTime>; 3] {
    let all = [&files.certificate, &files.key, &files.authority];
    all.map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok())
}
