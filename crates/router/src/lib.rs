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
mod building;
mod bypassed;
mod cluster;
mod description;
mod drivers;
mod error;
mod gateway;
mod guards;
mod hops;
mod idle_drivers;
mod interfaces;
mod lifecycle;
mod loops;
mod moves;
mod outside;
mod pcp;
mod refresh;
mod refusals;
mod reload;
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

use diolkos_sys::namespace;

use announce::Announcer;
use diolkos_config::{Mode, Settings};
use diolkos_control::service::{self, End, Host};
use diolkos_control::translator::{self, Condition, Control, State};
use diolkos_service::failure::Failure;
use error::RouterError;

use diolkos_service::privilege::{self, NET_ADMIN};
use diolkos_service::supervise::Supervision;

use bypassed::Bypassed;
use routes::Routes;
use serving::Router;

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
    namespace::cookie().map_err(RouterError::NotHere)?;
    let mut host = Host::new(supervision).await?;
    let mut control = translator::listen(
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
    let mut bypassed = Bypassed::begin(&settings, &net, &host.watch).await;
    let configured = settings.translator.placement;
    let (chosen, why) = bypassed::placement(&settings, &bypassed.now());
    bypassed.settle(chosen);
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
    if let Some(why) = why {
        tracing::info!("{why}");
    }
    let served = async {
        let metric = Routes::metric(&gateway.settings);
        // Before any packet arrives.
        gateway.share(&net).await?;
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
            host.signals.came(),
            host.watch.clone(),
            control.asker(),
            bypassed,
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
        (true, None) => Err(RouterError::Forgotten.into()),
        (_, next) => Ok(next.map(|(mut settings, expected)| {
            // An armed file has the same placement.
            settings.translator.placement = configured;
            (settings, expected)
        })),
    }
}

fn mode(settings: &Settings) -> &'static str {
    match settings.translator.mode {
        Mode::Nat64 => "nat64",
        Mode::Clat | Mode::Siit => "siit",
    }
}
