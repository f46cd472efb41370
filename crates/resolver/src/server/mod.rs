// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DNS64 (RFC 6147) on the network; the crate `diolkos-dns64` decides on the answers.
//!
//! udp, tcp (a client's bytes) → handler (limit, cache) → waiting (clients per question, bounds) → upstream (exchange) →
//! handler → waiter (the path of the answer to the client); beside it, follow (the network's prefix) → handler
//!
//! One thread does all of this, so nothing needs a lock. It needs no privileges except those for its port and for receiving
//! router advertisements. It is a separate process even if a configuration file has a translator too: an attacker who takes
//! over the parser of untrusted queries gets neither the memory nor the capabilities of the translator.

mod datagrams;
mod follow;
mod listen;
mod outbox;
mod prefix;
mod queries;
mod query_log;
mod tally;
mod tcp;
mod udp;
mod unread;
mod upstream;
mod waiter;
mod waiting;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::error::ResolverError;
use diolkos_config::{fixed_keys, Dns64, Networks, Resolver, Settings};
use diolkos_control::metrics::Metrics;
use diolkos_control::translator::{self, Answer, Condition, Control, Question, Request, State};
use diolkos_figures::counters::Counter;
use diolkos_figures::figures::Figures;
use diolkos_service::confinement;
use diolkos_service::failure::{Exit, Failure};
use diolkos_service::instance;
use diolkos_service::manager::Manager;
use diolkos_service::signals::Signals;
use diolkos_service::supervise::{Supervision, Watch};

use datagrams::Datagrams;
use follow::Follower;
pub use query_log::TARGET as QUERY_LOG;

use prefix::InForce;
use queries::QueryHandler;
use tally::QueryCounters;
use tcp::Connections;

/// Memory of the program without questions and answers, estimated generously, bytes.
const PROGRAM: u64 = 256 << 20;
/// Interval between checks of conditions that cause no event, such as whether metrics are served.
const LOOK: Duration = Duration::from_secs(2);
/// The obstacle while no prefix is known.
const UNKNOWN: &str = "no translation prefix is known: answers are forwarded unchanged";

/// Runs until a signal arrives, and then succeeds. Fails if its addresses cannot be bound.
///
/// `read` reads the configuration again, for a reload.
pub async fn run(
    settings: Settings,
    read: impl Fn() -> Result<Settings, Failure>,
    supervision: Supervision,
) -> Result<(), Failure> {
    let dns64 = section(&settings)?;
    LocalSet::new()
        .run_until(alone(settings, dns64, read, supervision))
        .await
}

/// The most files that a DNS64 has open: listening sockets, connections of clients, and sockets towards upstream.
pub fn files(dns64: &Dns64) -> usize {
    2 * dns64.listen.len() + dns64.max_tcp as usize + upstream::files(dns64)
}

/// The most memory that a DNS64 may have, bytes: the cached answers, and as much again for the cache's structure; the longest
/// answer for each waiting question; twice the unread answers of connections, and the connections themselves; the program.
pub fn memory(dns64: &Dns64) -> u64 {
    let answers = u64::from(dns64.max_outstanding) << 16;
    let connections = 2 * unread::MOST as u64 + (u64::from(dns64.max_tcp) << 16);
    2 * dns64.cache_bytes + answers + connections + PROGRAM
}

fn section(settings: &Settings) -> Result<Dns64, ResolverError> {
    settings
        .dns64
        .clone()
        .ok_or_else(|| ResolverError::NoSection)
}

async fn alone(
    settings: Settings,
    dns64: Dns64,
    read: impl Fn() -> Result<Settings, Failure>,
    supervision: Supervision,
) -> Result<(), Failure> {
    let Supervision {
        watch,
        mut alarm,
        manager,
    } = supervision;
    let signals = Signals::new(&watch)?;
    let beat = watch.beat("the DNS64");
    let mut server = Server::start(settings, dns64, &watch).await?;
    let mut metrics = Metrics::start(&server.settings, server.control.asker(), &watch);
    let mut look = tokio::time::interval(LOOK);
    confinement::log_mode();
    manager.status(&confinement::with_trouble(&server.description));
    manager.ready();
    let done = loop {
        beat.beat();
        tokio::select! {
            () = beat.due() => {}
            () = signals.any() => {
                tracing::info!("dns64 stopped by a signal");
                break Ok(());
            }
            () = signals.reload() => {
                if server.reload(read(), &mut metrics, &manager) == Answer::Reloaded {
                    server.control.reloaded();
                }
            }
            failure = alarm.rung() => break Err(ResolverError::Ended(failure).into()),
            () = server.handler.rules().changed() => server.publish_condition(&metrics),
            _ = look.tick() => server.publish_condition(&metrics),
            question = server.control.next() => {
                let ends = question.request == Request::Stop;
                match question.request {
                    Request::Reload => {
                        let answer = server.reload(read(), &mut metrics, &manager);
                        question.answer(answer);
                    }
                    _ => server.reply(question),
                }
                if ends {
                    // The answer is sent before the program ends.
                    server.control.finish().await;
                    tracing::info!("dns64 stopped for good");
                    break Ok(());
                }
            }
        }
    };
    manager.stopping();
    done
}

/// The server for clients, and for requests by the control socket.
struct Server {
    settings: Settings,
    control: Control,
    handler: Rc<QueryHandler>,
    /// Addresses, resolvers and prefixes, in one line.
    description: String,
    /// The resolvers that the search for the prefix asks.
    asked: watch::Sender<Vec<Resolver>>,
}

impl Server {
    /// Binds its addresses, and serves them on tasks of the current `LocalSet`.
    async fn start(settings: Settings, dns64: Dns64, watch: &Watch) -> Result<Server, Failure> {
        let control = listen_for_control(&dns64.name, &settings.control.group, watch)?;
        let tally = Rc::new(QueryCounters::default());
        let handler = Rc::new(QueryHandler::new(&dns64, tally, watch.clone())?);
        let (asked, upstream) = watch::channel(follow::plain(&dns64));
        let follower = Follower::begin(&settings, &dns64, upstream, watch).await?;
        let connections = Rc::new(Connections::new(dns64.max_tcp, dns64.tcp_idle_s));
        for &address in &dns64.listen {
            let udp = listen::patiently(|| listen::datagrams(address)).await?;
            let tcp = listen::connections(address)?;
            let work = serve_udp(address, udp, handler.clone());
            watch.local("a socket for UDP", work);
            let work = serve_tcp(
                address,
                tcp,
                handler.clone(),
                connections.clone(),
                watch.clone(),
            );
            watch.local("a socket for TCP", work);
        }
        let description = description(&dns64, &dns64.listen);
        tracing::info!("ready: {description}");
        if let Some(follower) = follower {
            let handler = handler.clone();
            let take = move |findings| handler.take_prefix(findings);
            watch.local("the search for the prefix", follower.run(take));
        }
        Ok(Server {
            settings,
            control,
            handler,
            description,
            asked,
        })
    }

    /// Takes the configuration that was read again, or says why not: then the old one stays in force.
    fn reload(
        &mut self,
        read: Result<Settings, Failure>,
        metrics: &mut Metrics,
        manager: &Manager,
    ) -> Answer {
        manager.reloading();
        let done = read.and_then(|new| self.take(new));
        let answer = match done {
            Ok(()) => {
                metrics.follow(&self.settings);
                manager.status(&confinement::with_trouble(&self.description));
                tracing::info!("reloaded: {}", self.description);
                Answer::Reloaded
            }
            Err(failure) => {
                for line in failure.to_string().lines() {
                    tracing::warn!("not reloaded, the old configuration stays in force: {line}");
                }
                match failure.exit() {
                    Exit::Usage => Answer::Misconfigured(failure.to_string()),
                    _ => Answer::Failed(failure.to_string()),
                }
            }
        };
        manager.ready();
        answer
    }

    fn take(&mut self, new: Settings) -> Result<(), Failure> {
        if let Some(refusal) = fixed_keys::of_dns64(&self.settings, &new) {
            return Err(ResolverError::FixedKey(refusal).into());
        }
        let dns64 = section(&new)?;
        self.handler.reconfigure(&dns64)?;
        self.description = description(&dns64, &dns64.listen);
        self.asked.send_replace(follow::plain(&dns64));
        self.settings = new;
        Ok(())
    }

    /// Publishes the prefixes in force and the obstacles to followers.
    fn publish_condition(&self, metrics: &Metrics) {
        let policy = self.handler.rules().policy();
        self.control.publish(Condition {
            state: State::Ready,
            obstacles: match policy.has_prefixes() {
                true => Vec::new(),
                false => vec![UNKNOWN.to_owned()],
            },
            findings: metrics.findings(),
            alarms: Vec::new(),
            prefixes: policy.pref64().map(ToString::to_string).collect(),
            address6: None,
            datapath: None,
            marks_trouble: None,
        });
    }

    fn reply(&self, question: Question) {
        let rules = self.handler.rules();
        let mut counters = self.handler.tally.counters();
        counters.extend(rules.counters());
        let answer = reply(&self.settings, rules, counters, question.request);
        question.answer(answer);
    }
}

async fn serve_udp(address: SocketAddr, first: Datagrams, handler: Rc<QueryHandler>) {
    let tally = handler.tally.clone();
    let bind = || listen::datagrams(address);
    let serve = async |socket| udp::serve(Rc::new(socket), handler.clone()).await;
    listen::keep(format!("{address} by UDP"), first, bind, serve, &tally).await;
}

async fn serve_tcp(
    address: SocketAddr,
    first: TcpListener,
    handler: Rc<QueryHandler>,
    connections: Rc<Connections>,
    watch: Watch,
) {
    let tally = handler.tally.clone();
    let bind = || listen::connections(address);
    let serve = async |socket| {
        let (handler, connections) = (handler.clone(), connections.clone());
        tcp::serve(socket, handler, connections, watch.clone()).await
    };
    listen::keep(format!("{address} by TCP"), first, bind, serve, &tally).await;
}

fn listen_for_control(name: &str, group: &str, watch: &Watch) -> Result<Control, Failure> {
    if instance::is_running(name) {
        return Err(ResolverError::NameTaken(name.to_owned()).into());
    }
    match translator::listen("dns64", name, group, watch) {
        // A DNS64 needs no privileges, so it may run as a user who has no such folder.
        Err(failure) if failure.exit() == Exit::Missing => {
            tracing::warn!("`diolkos show --device {name}` will not find this program: {failure}");
            Ok(Control::none())
        }
        listening => listening,
    }
}

fn description(dns64: &Dns64, served: &[SocketAddr]) -> String {
    let list = |items: Vec<String>| match items.is_empty() {
        true => "no address yet".to_owned(),
        false => items.join(", "),
    };
    format!(
        "dns64 on {}, upstream {}, prefixes {}",
        list(served.iter().map(ToString::to_string).collect()),
        list(dns64.upstream.iter().map(ToString::to_string).collect()),
        match dns64.prefixes() {
            Networks::Auto => format!("as the network of {} announces", dns64.uplink),
            Networks::These(prefixes) => list(prefixes.iter().map(ToString::to_string).collect()),
        }
    )
}

fn reply(settings: &Settings, rules: &InForce, counters: Vec<Counter>, request: Request) -> Answer {
    match request {
        Request::Counters => Answer::Counters(counters),
        Request::Figures => Answer::Figures(Box::new(Figures {
            about: vec![("mode".to_owned(), "dns64".to_owned())],
            counters,
            state: None,
            cluster: None,
        })),
        Request::Config => match settings.canonical() {
            Ok(text) => Answer::Config(text),
            Err(failure) => Answer::Failed(failure.to_string()),
        },
        Request::Prefix => Answer::Prefix(rules.rows()),
        Request::Sessions(_)
        | Request::Bindings(_)
        | Request::Top { .. }
        | Request::Trace(_)
        | Request::Bind(_)
        | Request::Unbind { .. }
        | Request::EndSession { .. } => {
            Answer::NotSupported("a DNS64 has no bindings and sessions".to_owned())
        }
        Request::Cluster
        | Request::Drain
        | Request::Join
        | Request::Roll { .. }
        | Request::CancelRoll => {
            Answer::NotSupported("a DNS64 is not a node of a cluster".to_owned())
        }
        Request::Stop => Answer::Done,
        // The loop has answered it.
        Request::Reload => Answer::Failed("not reloaded".to_owned()),
    }
}
