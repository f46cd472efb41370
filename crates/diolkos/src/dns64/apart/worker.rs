// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process: serves clients on the sockets that its keeper gives it, by the rules that its keeper tells.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::channel::Channel;
use super::message::{Order, Report, Transport};
use crate::dns64::current::Current;
use crate::dns64::prefix::Findings;
use crate::dns64::queries::QueryHandler;
use crate::dns64::tally::Tally;
use crate::dns64::tcp::{self, Connections};
use crate::dns64::{listen, udp};
use diolkos_config::Dns64;
use diolkos_service::failure::Failure;
use diolkos_service::supervise::{self, Watch};

/// Serves until the keeper closes the channel, and then succeeds.
pub async fn work(keeper: OwnedFd) -> Result<(), Failure> {
    LocalSet::new().run_until(obey(keeper)).await
}

async fn obey(keeper: OwnedFd) -> Result<(), Failure> {
    let mut channel = Channel::new(keeper).map_err(|error| lost(&error))?;
    let (watch, mut alarm) = supervise::pair();
    let (broke, mut broken) = unbounded_channel();
    let mut worker = Worker {
        tally: Rc::default(),
        rules: String::new(),
        serving: None,
        watch,
        broke,
    };
    loop {
        let report = tokio::select! {
            failure = alarm.rung() => return Err(failure),
            Some(failure) = broken.recv() => return Err(failure),
            order = channel.receive_with() => match order.map_err(|error| lost(&error))? {
                None => return Ok(()),
                Some((order, with)) => worker.obey(order, with)?,
            },
        };
        if let Some(report) = report {
            let sent = channel.send(&report, None).await;
            sent.map_err(|error| lost(&error))?;
        }
    }
}

fn lost(error: &io::Error) -> Failure {
    Failure::run_time(format!(
        "the channel to the translator's process is lost: {error}"
    ))
}

struct Worker {
    tally: Rc<Tally>,
    /// As much as has come.
    rules: String,
    serving: Option<(Rc<Current>, Rc<Connections>)>,
    watch: Watch,
    broke: UnboundedSender<Failure>,
}

impl Worker {
    /// Carries an order out; what is to be answered.
    fn obey(&mut self, order: &[u8], with: Option<OwnedFd>) -> Result<Option<Vec<u8>>, Failure> {
        let strange = |what: &str| Failure::run_time(format!("an order makes no sense: {what}"));
        let order = serde_json::from_slice(order).map_err(|e| strange(&e.to_string()))?;
        match (order, &self.serving, with) {
            (Order::Rules { part, is_last }, _, None) => {
                self.rules += &part;
                if is_last {
                    let rules = std::mem::take(&mut self.rules);
                    let rules = serde_json::from_str(&rules);
                    self.take_rules(&rules.map_err(|e| strange(&e.to_string()))?)?;
                }
            }
            (Order::Prefix(learnt), Some((current, _)), None) => {
                let choice = learnt.map(|learnt| {
                    let left = Duration::from_millis(learnt.milliseconds);
                    (learnt.prefix, Instant::now() + left)
                });
                current.handler().take_prefix(Findings {
                    choice,
                    ..Findings::default()
                });
            }
            (Order::Serve(transport), Some((current, connections)), Some(socket)) => {
                self.serve(transport, socket, current.clone(), connections.clone())?;
            }
            (Order::Report(number), ..) => {
                let counts = self.tally.counts().to_vec();
                let report = serde_json::to_vec(&Report { number, counts });
                return Ok(Some(report.map_err(|e| strange(&e.to_string()))?));
            }
            (order, ..) => return Err(strange(&format!("{order:?}"))),
        }
        Ok(None)
    }

    /// Puts rules into force. Questions under way are answered by those they began with; the cache begins empty.
    fn take_rules(&mut self, dns64: &Dns64) -> Result<(), Failure> {
        let handler = QueryHandler::new(dns64, self.tally.clone(), self.watch.clone())?;
        match &self.serving {
            Some((current, connections)) => {
                current.replace(Rc::new(handler));
                connections.set_idle(dns64.tcp_idle_s);
            }
            None => {
                let connections = Connections::new(dns64.max_tcp, dns64.tcp_idle_s);
                let current = Current::new(Rc::new(handler));
                self.serving = Some((Rc::new(current), Rc::new(connections)));
            }
        }
        Ok(())
    }

    fn serve(
        &self,
        transport: Transport,
        socket: OwnedFd,
        current: Rc<Current>,
        connections: Rc<Connections>,
    ) -> Result<(), Failure> {
        let broke = self.broke.clone();
        let unusable = |error| Failure::run_time(format!("a socket that listens broke: {error}"));
        let end = async move |error| {
            let _ = broke.send(unusable(error));
            pending().await
        };
        match transport {
            Transport::Udp => {
                let socket = listen::datagrams_of(socket.into()).map_err(unusable)?;
                let work = async move { end(udp::serve(Rc::new(socket), current).await).await };
                self.watch.local("a socket for UDP", work);
            }
            Transport::Tcp => {
                let socket = listen::connections_of(socket.into()).map_err(unusable)?;
                let watch = self.watch.clone();
                let work = async move {
                    end(tcp::serve(socket, current, connections, watch).await).await;
                };
                self.watch.local("a socket for TCP", work);
            }
        }
        Ok(())
    }
}
