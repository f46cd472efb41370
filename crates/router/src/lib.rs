// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A translator for a router, stateless (RFC 7915) or stateful (RFC 6146), from the examination of the machine to its
//! cleanup: begin → build → lead → serve (→ reload) → leave. A NAT64 with a state file leaves its programs in the
//! kernel on purpose (`lifecycle`).
//!
//! This crate knows everything below it: tables, programs, routes, a cluster if there is one, and [`announce`], which
//! answers for addresses of a connected network. Call [`run`] to run a translator, and [`clear`] to remove what a
//! killed run has left.

mod addresses;
pub mod announce;
mod answers;
mod bypassed;
mod cluster;
mod drivers;
mod interfaces;
mod lifecycle;
mod loops;
mod refresh;
mod rivals;
mod routes;
mod rules;
mod serving;
mod stateful;
mod stateless;
mod survey;
mod switch;
mod translation;
mod unannounced;
mod vrf;
mod ways;

use diolkos_fastpath::{FastPath, ForwardPath, Inline, Pins};
use diolkos_sys::memory;
use diolkos_sys::namespace;
use diolkos_sys::tun::Queue;

use announce::Announcer;
use diolkos_cluster::Cluster;
use diolkos_config::fixed_keys;
use diolkos_config::{network, Found, Mode, Placement, Settings};
use diolkos_control::control::{self, Condition, Control, State};
use diolkos_control::service::{self, End, Host};
use diolkos_datapath::accept_local;
use diolkos_datapath::datapath;
use diolkos_datapath::labels::Labels;
use diolkos_datapath::slowpath::{self, SlowPath};
use diolkos_kernel::forwarding::Forwarding;
use diolkos_kernel::net::{shown, DeviceConfig, Net};
use diolkos_service::counted::counted;
use diolkos_service::failure::Failure;
use diolkos_service::privilege::{self, NET_ADMIN};
use diolkos_service::signals::Came;
use diolkos_service::supervise::Supervision;
use diolkos_service::supervise::Watch;

use bypassed::Bypassed;
use routes::Routes;
use serving::Router;
use stateful::Past;
use survey::{device_mtu, look_around, warn_of_narrow_links};
use translation::Translation;

pub use lifecycle::clear;

/// Runs until a signal arrives (then it succeeds) or the device is removed (then it fails). `read` reads the
/// configuration again.
pub async fn run(
    mut settings: Settings,
    read: impl Fn() -> Result<Settings, Failure>,
    supervision: Supervision,
) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN])?;
    diolkos_cluster::prepare(&mut settings)?;
    // Changes are recorded for each network namespace.
    namespace::cookie()
        .map_err(|e| Failure::missing(format!("a router's translator cannot run here: {e}")))?;
    let mut host = Host::new(supervision).await?;
    let mut control = control::listen(
        mode(&settings),
        &settings.translator.device,
        &settings.control.group,
        &host.watch,
    )?;
    let mut expected = Vec::new();
    loop {
        let ended = serve_by(settings, &expected, &read, &mut host, &mut control).await;
        let Ok(Some(next)) = ended else {
            let done = ended.map(|_| ());
            control.publish_end(&done);
            return done;
        };
        (settings, expected) = next;
        tracing::info!("all nodes of the cluster go over to a new file, and this one as well");
        control.publish(Condition {
            state: State::Starting,
            ..Condition::default()
        });
    }
}

/// The settings of the next file, and the gateways of the cluster that must first have it.
type Next = (Settings, Vec<String>);

/// Serves by one file, from a clean machine to a clean machine. `expected` are gateways that must first have the same
/// file.
async fn serve_by(
    mut settings: Settings,
    expected: &[String],
    read: &impl Fn() -> Result<Settings, Failure>,
    host: &mut Host,
    control: &mut Control,
) -> Result<Option<Next>, Failure> {
    let net = host.net.clone();
    let bypassed = Bypassed::begin(&settings, &host.watch).await;
    let configured = settings.translator.placement;
    let chosen = bypassed::placement(&settings, bypassed.now());
    settings.translator.placement = chosen;
    let read = || {
        let mut settings = read()?;
        diolkos_cluster::prepare(&mut settings)?;
        if settings.translator.placement == configured {
            settings.translator.placement = chosen;
        }
        Ok(settings)
    };
    let mut gateway = match lifecycle::begin(host, settings).await {
        // Half of a state is useless: the earlier state is left for the next start.
        Err(failure) if host.signals.came().already() => {
            tracing::info!("stopped by a signal before it was ready ({failure})");
            return Ok(None);
        }
        begun => begun?,
    };
    let served = async {
        let metric = Routes::metric(&gateway.settings);
        gateway.routes.lead(&net, gateway.index, metric).await?;
        gateway.join_cluster(&net, expected, &host.watch).await?;
        gateway.announcer = Announcer::start(&net, &gateway.settings, &host.watch).await?;
        gateway.look_at_hops(&net).await;
        gateway.stay(&net).await;
        // Some can do more now that they have a program.
        gateway.look_at_drivers(&net).await?;
        let mut router = Router::new(
            &net,
            &mut gateway,
            &read,
            (host.signals.came(), host.watch.clone()),
            (control.asker(), bypassed),
        );
        router.look_for_obstacles().await;
        router.announce();
        service::serve(&mut router, host, control).await
    }
    .await;
    let goes_over = matches!(served, Ok(End::Again));
    let next = gateway.successor().filter(|_| goes_over);
    gateway.leave(&net, served).await?;
    match (goes_over, next) {
        (true, None) => Err(Failure::run_time(
            "cluster: all nodes go over to a file for which this one was armed before: start it again",
        )),
        (_, next) => Ok(next.map(|(mut settings, expected)| {
            // An armed file has the same placement.
            settings.translator.placement = configured;
            (settings, expected)
        })),
    }
}

/// The TUN device and what translates on it. When this is dropped, the device is removed with all its routes, unless it
/// stays.
struct Gateway {
    index: u32,
    settings: Settings,
    found: Found,
    routes: Routes,
    /// Its membership in a cluster, which ends before the tables do.
    cluster: Option<Cluster>,
    /// The program that forwards to other gateways, until it has joined the cluster.
    forward: Option<ForwardPath>,
    // In the order in which they must end: answers end first, and nothing is led to a device that is gone.
    announcer: Option<Announcer>,
    translation: Translation,
    /// Lets marks survive the slow path.
    labels: Labels,
    /// Indices of the interfaces at which packets are translated before any routing.
    inline: Vec<u32>,
    /// All of them, as the programs know them.
    known: Vec<Inline>,
    forwarding: Forwarding,
    slow: SlowPath,
    /// A further queue of the device, to change the device.
    device: Queue,
    /// True if known sessions continue in the kernel when this ends.
    stays: bool,
    /// True if the operator has told this to end.
    ends: bool,
    /// The file for which this gateway of a cluster was last armed, and its hash.
    next: Option<(u64, Settings)>,
}

/// Cleans up, however it ends.
impl Drop for Gateway {
    fn drop(&mut self) {
        self.cluster = None;
        self.slow.stop();
        if let Err(failure) = self.translation.finish() {
            tracing::error!("{failure}");
        }
        self.translation.leave_switch(self.ends);
        if self.stays {
            self.forwarding.keep();
        }
    }
}

impl Gateway {
    /// Builds the gateway. With `pins`, on what an earlier run has left; otherwise from a clean state.
    async fn build(
        host: &Host,
        mut settings: Settings,
        pins: Option<&Pins>,
    ) -> Result<Gateway, Failure> {
        let net = &*host.net;
        let t = &settings.translator.clone();
        let found = look_around(net, &settings).await?;
        addresses::check(net, &settings).await?;
        rivals::check(net, &settings).await?;
        warn_of_narrow_links(net, &settings).await?;
        // Contradictions are refused before anything is changed.
        announce::plan(net, &settings).await?;
        let own = &net.addresses4().await?;
        let queues = slowpath::readers(t.queues);
        let (tun, index) = match pins {
            Some(_) => net.adopt_tun(&t.device, queues).await?,
            None => net.create_tun(&t.device, queues).await?,
        };
        settings.siit.loops4 = loops::find(net, &settings, index).await;
        let mtu = device_mtu(&settings, found);
        if pins.is_none() {
            net.prepare_tun(&t.device, index, mtu).await?;
        }
        let unusable = |e| Failure::run_time(format!("cannot use {}: {e}", t.device));
        let queue = || tun.queues[0].try_clone().map_err(unusable);
        let mut inline =
            interfaces::find(net, &settings, &t.interfaces, t.placement.has_drivers()).await?;
        let came = &host.signals.came();
        let past = Past { pins, own, came };
        let device = queue()?;
        let (translation, engine) =
            Translation::build(&settings, found, index, &inline, queue, past, &host.watch)?;
        if translation.fast().and_then(FastPath::used_hops).is_none() {
            // A driver did not accept what it was chosen for.
            inline.iter_mut().for_each(|inline| inline.driver = None);
        }
        if pins.is_some() {
            // Not before: errors until here leave the device as it is.
            net.prepare_tun(&t.device, index, mtu).await?;
        }
        accept_local::admit(net, &settings, &[]).await?;
        if translation.fast().is_some() {
            // Any received packet may be routed to the device.
            let links = net.links().await?;
            datapath::warn_of_lists(links.iter().map(|link| link.name.as_str()));
        }
        let inherits = pins.is_some();
        let forwarding =
            Forwarding::both(&cluster::forwarding_between(&settings), &t.device, inherits)?;
        if forwarding.changed() {
            tracing::info!("switching forwarding on while diolkos runs");
        }
        if !forwarding.made_routers().is_empty() {
            tracing::info!(
                "neighbours see an IPv6 router on {} while diolkos runs (net.ipv6.conf.INTERFACE.forwarding)",
                shown(forwarding.made_routers())
            );
        }
        loops::report(&settings);
        let forward = cluster::forward(&settings, &translation, index)?;
        let to_gateways = forward.as_ref().map(ForwardPath::forwarding);
        let labels = Labels::start(t, index, tun.queues.len(), to_gateways.as_deref());
        if let (Some(why), Some(_)) = (labels.trouble(), &forward) {
            return Err(Failure::missing(format!(
                "the nodes of a cluster send packets to each other by the programs of labels: {why}"
            )));
        }
        let slots = labels.slots();
        let slow = SlowPath::start(&t.device, tun.queues, slots, engine, &host.watch);
        let slow = slow.map_err(|e| {
            Failure::run_time(format!("cannot start the readers of {}: {e}", t.device))
        })?;
        Ok(Gateway {
            index,
            found,
            routes: Routes::of(&settings),
            settings,
            cluster: None,
            forward,
            announcer: None,
            translation,
            labels,
            inline: inline.iter().map(|inline| inline.ifindex).collect(),
            known: inline,
            forwarding,
            slow,
            device,
            stays: pins.is_some(),
            ends: false,
            next: None,
        })
    }

    /// Applies another configuration, completely or not at all. A packet is translated by the old one or by the new
    /// one.
    async fn reload(
        &mut self,
        net: &Net,
        mut new: Settings,
        came: &Came,
        watch: &Watch,
    ) -> Result<(), Failure> {
        if let Some(refusal) = fixed_keys::refusal(&self.settings, &new) {
            return Err(Failure::run_time(refusal));
        }
        let found = look_around(net, &new).await?;
        addresses::check(net, &new).await?;
        rivals::check(net, &new).await?;
        warn_of_narrow_links(net, &new).await?;
        let plans = announce::plan(net, &new).await?;
        new.siit.loops4 = loops::find(net, &new, self.index).await;
        let names = &new.translator.interfaces;
        let inline = interfaces::find(net, &new, names, self.may_have_drivers()).await?;
        let next = self.translation.prepare(&new, found, self.index, &inline)?;
        // Loading programs takes long, and another change of them would be in vain.
        if came.already() {
            return Err(Failure::run_time("diolkos is about to end"));
        }
        let routes = Routes {
            yields: self.routes.yields,
            ..Routes::of(&new)
        };
        let (old_own, own) = (self.own(), own(self.index, &new, found, &routes));
        let commit = async {
            accept_local::admit(net, &new, &[]).await?;
            self.translation.commit(&new, next, &self.slow)
        };
        if let Err(failure) = net.change(&old_own, &own, commit).await {
            if let Err(other) = accept_local::admit(net, &self.settings, &[]).await {
                tracing::warn!("{other}");
            }
            return Err(failure);
        }
        (self.settings, self.found, self.routes) = (new, found, routes);
        loops::report(&self.settings);
        self.known.clone_from(&inline);
        if plans.is_empty() {
            self.release_answers();
        }
        let announcer = &mut self.announcer;
        if let Err(failure) = Announcer::follow(announcer, plans, net, &self.settings, watch).await
        {
            tracing::warn!("{failure}");
        }
        self.stay_at_new_places();
        // An interface may have come back unnoticed. The new configuration is in force whether this succeeds or not.
        if let Err(failure) = self.widen(&inline) {
            tracing::warn!("{failure}");
        }
        if let Err(failure) = self.restore(net).await {
            tracing::warn!("{failure}");
        }
        self.translation.write_soon();
        // Two tables existed for a while, and one may have 100 000 mappings.
        memory::give_back();
        self.announce("reloaded");
        Ok(())
    }

    /// Restores what other programs may have removed; the operator tries a reload in that case.
    async fn restore(&mut self, net: &Net) -> Result<(), Failure> {
        let own = self.own();
        net.set_tun_mtu(own.index, own.mtu).await?;
        let restored = net.restore(&own).await?.unwrap_or_default();
        if !restored.is_empty() {
            let device = &self.settings.translator.device;
            tracing::warn!("{device} had lost {}: restored", shown(&restored));
        }
        if self.forwarding.switch_on()? {
            tracing::warn!("forwarding was switched off: switching it on again");
        }
        Ok(())
    }

    /// Returns what has to stay on the device.
    fn own(&self) -> DeviceConfig {
        own(self.index, &self.settings, self.found, &self.routes)
    }

    /// Describes the mode and the path of packets in one line.
    fn description(&self) -> String {
        let t = &self.settings.translator;
        let list = |of: Vec<String>| match of.is_empty() {
            true => "none".to_owned(),
            false => of.join(", "),
        };
        let prefixes = list(t.pref64.given().iter().map(ToString::to_string).collect());
        let what = match t.mode {
            Mode::Nat64 => {
                let pool = self.settings.pool4().iter();
                let pool = pool.map(|part| network::short(part.net)).collect();
                format!(
                    "nat64 on {}, prefixes {prefixes}, pool {}",
                    t.device,
                    list(pool)
                )
            }
            Mode::Clat | Mode::Siit => format!(
                "siit on {}, prefixes {prefixes}, {}",
                t.device,
                counted(self.settings.eam.len(), "mapping")
            ),
        };
        let inline = match (t.placement, self.translation.fast()) {
            (Placement::Inline, Some(_)) => format!(", inline at {}", t.interfaces.join(", ")),
            (Placement::Device, _) | (_, None) => String::new(),
            (_, Some(_)) => {
                let names = t.interfaces.join(", ");
                match self.has_drivers() {
                    true => format!(", direct and XDP between {names}"),
                    false => format!(", direct between {names}"),
                }
            }
        };
        format!(
            "{what}, MTU {} (IPv4) and {} (IPv6), datapath {}",
            t.mtu4.or(self.found.mtu4),
            t.mtu6.or(self.found.mtu6),
            datapath::named(t, self.translation.fast()) + &inline,
        )
    }

    fn announce(&self, event: &str) {
        let t = &self.settings.translator;
        tracing::info!("{event}: {}", self.description());
        let section = Routes::section(&self.settings);
        for (family, number, empty) in [
            (4, "routes4", self.routes.v4.is_empty()),
            (6, "routes6", self.routes.v6.is_empty()),
        ] {
            if empty {
                tracing::warn!(
                    "no IPv{family} route leads to {}: give {section}.{number}, or add routes yourself",
                    t.device
                );
            }
        }
    }
}

fn mode(settings: &Settings) -> &'static str {
    match settings.translator.mode {
        Mode::Nat64 => "nat64",
        Mode::Clat | Mode::Siit => "siit",
    }
}

/// Returns what a configuration has on the device.
fn own(index: u32, settings: &Settings, found: Found, routes: &Routes) -> DeviceConfig {
    DeviceConfig {
        mtu: device_mtu(settings, found),
        ..routes.own(index, Routes::metric(settings))
    }
}
