// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports and attackers that guess, over the loopback interface and in virtual time.

use super::*;
use diolkos_dns64::wire::{Name, Rtype};
use diolkos_dns64::Question;
use diolkos_service::supervise;
use std::net::UdpSocket as Resolver;

fn ask(name: &str) -> Ask {
    Ask {
        question: Question::new_in(Name::vec_from_str(name).expect("a name"), Rtype::A),
        dnssec_ok: false,
        checking_disabled: false,
    }
}

/// A resolver, and ports towards it.
fn world() -> (Resolver, Rc<UpstreamPorts>, Rc<QueryCounters>) {
    let resolver = Resolver::bind("127.0.0.1:0").expect("a socket");
    resolver.set_nonblocking(true).expect("it does not wait");
    let address = resolver.local_addr().expect("an address");
    let tally = Rc::new(QueryCounters::default());
    let ids = Rc::new(Ids::new().expect("random numbers"));
    let (watch, _) = supervise::pair();
    let ports = UpstreamPorts::new(address, ids, tally.clone(), watch);
    (resolver, Rc::new(ports), tally)
}

fn count(tally: &QueryCounters, name: &str) -> u64 {
    let counters = tally.counters();
    let counter = counters.iter().find(|c| c.name == format!("dns64.{name}"));
    counter.expect("a counter").packets
}

type Asking = tokio::task::JoinHandle<io::Result<Heard>>;

/// Asks, and returns when the question has arrived: the query, and the port that it came from.
async fn begin(ports: &Rc<UpstreamPorts>, resolver: &Resolver) -> (Asking, Vec<u8>, SocketAddr) {
    let ports = ports.clone();
    let exchange = async move { ports.exchange(&ask("a.example."), 1232).await };
    let asking = tokio::task::spawn_local(exchange);
    let mut query = [0; 512];
    loop {
        tokio::task::yield_now().await;
        if let Ok((length, from)) = resolver.recv_from(&mut query) {
            return (asking, query[..length].to_vec(), from);
        }
    }
}

fn reply(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply
}

fn run<T>(work: impl std::future::Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime.expect("a runtime"), work)
}

#[test]
fn a_port_is_given_up_after_a_few_wrong_answers() {
    run(async {
        let (resolver, ports, tally) = world();
        let (asking, query, from) = begin(&ports, &resolver).await;
        let mut lie = reply(&query);
        lie[0] ^= 1;
        for _ in 0..MOST_WRONG {
            resolver.send_to(&lie, from).expect("sent");
        }
        // The answer is right, but comes too late.
        resolver.send_to(&reply(&query), from).expect("sent");
        let heard = asking.await.expect("it ends").expect("no error");
        assert!(matches!(heard, Heard::Lies), "{heard:?}");
        assert_eq!(count(&tally, "upstream.port_suspect"), 1);
        let (_, _, other) = begin(&ports, &resolver).await;
        assert_ne!(other, from);
    });
}

#[test]
fn one_wrong_answer_less_is_no_reason() {
    run(async {
        let (resolver, ports, tally) = world();
        let (asking, query, from) = begin(&ports, &resolver).await;
        let mut lie = reply(&query);
        lie[0] ^= 1;
        for _ in 1..MOST_WRONG {
            resolver.send_to(&lie, from).expect("sent");
        }
        // An answer that comes twice does not count as an attack.
        for _ in 0..20 {
            resolver.send_to(&reply(&query), from).expect("sent");
        }
        let heard = asking.await.expect("it ends").expect("no error");
        assert!(matches!(heard, Heard::Reply(_)), "{heard:?}");
        assert_eq!(count(&tally, "upstream.port_suspect"), 0);
    });
}

/// Returns true if one of our ports is still open: its number cannot be bound then.
fn is_open(port: SocketAddr) -> bool {
    Resolver::bind((Ipv4Addr::UNSPECIFIED, port.port())).is_err()
}

#[test]
fn a_port_that_nobody_uses_is_closed() {
    run(async {
        let (resolver, ports, tally) = world();
        let (asking, query, from) = begin(&ports, &resolver).await;
        resolver.send_to(&reply(&query), from).expect("sent");
        asking.await.expect("it ends").expect("no error");
        assert!(is_open(from));
        tokio::time::sleep(IDLE + Duration::from_millis(10)).await;
        assert_eq!(count(&tally, "upstream.port_aged"), 1);
        assert!(!is_open(from));
    });
}

#[test]
fn an_old_port_is_used_no_more_and_closed_when_nobody_waits() {
    run(async {
        let (resolver, ports, tally) = world();
        let (asking, query, from) = begin(&ports, &resolver).await;
        let port = ports.ports.borrow().iter().flatten().next().cloned();
        let port = port.expect("a port");
        for _ in 0..AGE.as_secs() - 1 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            port.used.set(Instant::now());
        }
        drop(port);
        assert_eq!(count(&tally, "upstream.port_aged"), 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(count(&tally, "upstream.port_aged"), 1);
        // The question that was asked before is still answered.
        assert!(is_open(from));
        resolver.send_to(&reply(&query), from).expect("sent");
        let heard = asking.await.expect("it ends").expect("no error");
        assert!(matches!(heard, Heard::Reply(_)), "{heard:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!is_open(from));
    });
}
