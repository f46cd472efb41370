// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DNS64 (RFC 6147) on the network; what it answers is `diolkos-dns64`'s to say.
//!
//! udp, tcp (a client's bytes) → desk (limit, cache, who waits for the same) → upstream (exchange) → desk → udp, tcp
//!
//! One thread does it all, so nothing is locked; it needs no privileges but that for its port.

mod desk;
mod listen;
mod tally;
mod tcp;
mod udp;
pub mod upstream;

use std::rc::Rc;

use tokio::task::LocalSet;

use crate::config::{Dns64, Settings};
use crate::control::{self, Answer, Control, Request};
use crate::failure::{Failure, Kind};
use crate::instance;
use crate::signals::Signals;

use desk::Desk;
use listen::Bound;

/// Runs until a signal comes, and then succeeds.
pub async fn run(settings: Settings) -> Result<(), Failure> {
    let Some(dns64) = settings.dns64.clone() else {
        return Err(Failure::usage(
            "dns64: the configuration has no such section",
        ));
    };
    LocalSet::new().run_until(serve(settings, dns64)).await
}

async fn serve(settings: Settings, dns64: Dns64) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let mut control = listen_for_control(&dns64.name)?;
    let bound = dns64
        .listen
        .iter()
        .map(|&address| listen::bind(address))
        .collect::<Result<Vec<Bound>, Failure>>()?;
    let desk = Rc::new(Desk::new(&dns64)?);
    let connections = Rc::new(tcp::Places::new(dns64.max_tcp, dns64.tcp_idle_s));
    for Bound { udp, tcp } in bound {
        tokio::task::spawn_local(udp::serve(Rc::new(udp), desk.clone()));
        tokio::task::spawn_local(tcp::serve(tcp, desk.clone(), connections.clone()));
    }
    announce(&dns64);
    loop {
        tokio::select! {
            () = signals.any() => {
                tracing::info!("dns64 stopped by a signal");
                return Ok(());
            }
            question = control.next() => {
                let answer = reply(&settings, &desk, question.request);
                question.answer(answer);
            }
        }
    }
}

fn listen_for_control(name: &str) -> Result<Control, Failure> {
    if instance::is_running(name) {
        return Err(Failure::run_time(format!(
            "a diolkos with the name {name} already runs in this network namespace: stop it, or choose another name \
             (--name, dns64.name)"
        )));
    }
    match control::listen(name) {
        // A DNS64 needs no privileges, and so may run as a user who has no such folder.
        Err(failure) if failure.kind == Kind::Missing => {
            tracing::warn!("`diolkos show --device {name}` will find nobody: {failure}");
            Ok(Control::none())
        }
        listening => listening,
    }
}

fn announce(dns64: &Dns64) {
    let list = |items: Vec<String>| items.join(", ");
    tracing::info!(
        "ready: dns64 on {}, upstream {}, prefixes {}",
        list(dns64.listen.iter().map(ToString::to_string).collect()),
        list(dns64.upstream.iter().map(ToString::to_string).collect()),
        list(dns64.pref64.iter().map(ToString::to_string).collect()),
    );
}

fn reply(settings: &Settings, desk: &Desk, request: Request) -> Answer {
    match request {
        Request::Hello => Answer::Hello {
            pid: std::process::id(),
        },
        Request::Counters => Answer::Counters(desk.tally.counters()),
        Request::Config => match settings.canonical() {
            Ok(text) => Answer::Config(text),
            Err(failure) => Answer::Failed(failure.to_string()),
        },
        Request::Prefix => {
            Answer::Failed("a DNS64 learns no prefix; `show config` says which it has".to_owned())
        }
        Request::Sessions | Request::Bindings | Request::Bind(_) | Request::Unbind { .. } => {
            Answer::Failed("a DNS64 has no bindings and sessions".to_owned())
        }
        Request::Stop => Answer::Failed("a DNS64 leaves nothing: end it with a signal".to_owned()),
        Request::Reload => {
            Answer::Failed("a DNS64 does not reload: stop it and start it again".to_owned())
        }
    }
}
