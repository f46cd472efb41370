// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The side that answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::interface::{self, Asked, Clat};
use super::orders::{Clats, Orders};
use super::NAME;
use crate::varlink::{self, Call, Caller, Interface, Readers, Refusal, Replies, Service};
use diolkos_service::confinement;
use diolkos_service::failure::Failure;
use diolkos_service::instance::Instance;
use diolkos_service::manager;
use diolkos_service::privilege::{self, NET_ADMIN, NET_RAW};
use diolkos_service::signals::Signals;
use diolkos_service::supervise;

/// Followers of root; others of its connections stay free for orders.
const FOLLOWERS: usize = 16;
/// Between two replies to a follower.
const BREATH: Duration = Duration::from_millis(100);

/// Runs until a signal comes; all CLATs end with it. `group`: whose members may read what it and its CLATs say, or nothing.
pub async fn run(group: String) -> Result<(), Failure> {
    let readers = Readers::named(&group)?;
    privilege::check(&[NET_ADMIN, NET_RAW])?;
    let service_manager = manager::Manager::of_environment();
    let (watch, mut alarm) = supervise::pair();
    let signals = Signals::new(&watch)?;
    let instance = Instance::claim(NAME)?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::run_time(format!("cannot find the program diolkos: {e}")))?;
    if readers.are_some() {
        instance.let_others_through()?;
    }
    let socket = instance.socket();
    let listener = varlink::bind(&socket, readers).map_err(|e| {
        Failure::run_time(format!(
            "cannot create the control socket {}: {e}",
            socket.display()
        ))
    })?;
    let orders = Arc::new(Orders::new(program, group));
    let manager = Manager {
        orders: orders.clone(),
        followers: Arc::new(Semaphore::new(FOLLOWERS)),
    };
    let mut serving = varlink::serve(listener, readers, manager, &watch);
    tracing::info!("ready: takes orders at {}", socket.display());
    let status = format!("takes orders at {}", socket.display());
    service_manager.status(&confinement::with_trouble(&status));
    service_manager.ready();
    confinement::log_mode();
    let done = tokio::select! {
        () = signals.any() => {
            tracing::info!("stopped by a signal");
            Ok(())
        }
        failure = alarm.rung() => Err(failure),
    };
    service_manager.stopping();
    orders.end_all().await;
    serving.finish().await;
    drop(instance);
    done
}

#[derive(Clone)]
struct Manager {
    orders: Arc<Orders>,
    followers: Arc<Semaphore>,
}

impl Service for Manager {
    const INTERFACE: Interface = interface::INTERFACE;

    async fn call(&self, caller: Caller, call: Call, mut replies: Replies<'_>) -> io::Result<()> {
        let more = call.more;
        let asked = match interface::asked(call) {
            Ok(asked) => asked,
            Err(refusal) => return replies.refuse(&refusal).await,
        };
        let answer = match asked {
            Asked::Up(_) | Asked::Down(_) if !caller.is_trusted() => {
                Err(Refusal::permission_denied())
            }
            // Once begun, it is carried out, even if the caller goes: half an order is none.
            Asked::Up(spec) => self
                .orders
                .up(spec)
                .await
                .map(|clat| json!({ "clat": clat })),
            Asked::Down(interface) => self.orders.down(&interface).await.map(|()| json!({})),
            Asked::List => Ok(json!({ "clats": listed(&self.orders.clats().borrow()) })),
            Asked::Follow if !more => Err(Refusal::expected_more()),
            Asked::Follow => return self.follow(caller, replies).await,
        };
        match answer {
            Ok(answer) => replies.send(&answer, false).await,
            Err(refusal) => replies.refuse(&refusal).await,
        }
    }
}

impl Manager {
    async fn follow(&self, caller: Caller, mut replies: Replies<'_>) -> io::Result<()> {
        let place = self.followers.clone().try_acquire_owned();
        if caller.is_trusted() && place.is_err() {
            let busy = interface::refuse("Busy", "too many clients follow this program already");
            return replies.refuse(&busy).await;
        }
        let mut news = self.orders.clats();
        loop {
            let clats = listed(&news.borrow_and_update());
            replies.send(&json!({ "clats": clats }), true).await?;
            tokio::select! {
                () = replies.over() => return Err(io::ErrorKind::ConnectionAborted.into()),
                changed = async { sleep(BREATH).await; news.changed().await } => {
                    changed.map_err(io::Error::other)?;
                }
            }
        }
    }
}

fn listed(clats: &Clats) -> Vec<Clat> {
    clats.values().cloned().collect()
}
