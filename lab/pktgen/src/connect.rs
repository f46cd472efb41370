// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The test phases of RFC 9693 for stateful gateways, from the opening of sessions to packets in both directions.
//!
//! ends ─► open (a new 4-tuple for each frame; the far end remembers the translated 4-tuple)
//!      ─► validate (an answer to each, which only gets through if the session is there)
//!      ─► carry (both directions at once, or back alone, over these sessions) ─► report

use std::time::Duration;

use crate::kernel::Sink;
use diolkos_sys::task::Signals;
use serde::Serialize;

use crate::cli::{Amount, Connect, Flows, Looks, Number, Rate};
use crate::failure::Failure;
use crate::sink::{self, Watching};
use crate::ways::{self, Common, Direction, End, Way};
use crate::witness::{self, Seen};

/// One stream for each direction of each phase, so that no sink counts a frame twice.
const STREAMS: u32 = 4;
const OPENS: u8 = 0;
const ANSWERS: u8 = 1;
const FORTH: u8 = 2;
const BACK: u8 = 3;

/// The report. Phases after one in which frames were lost are left out.
#[derive(Debug, Serialize)]
pub struct Connected {
    sessions: u64,
    rounds: u32,
    /// Every packet that opens a session arrived, and every answer as well.
    all: bool,
    opened: Direction,
    answered: Option<Direction>,
    carried: Option<Vec<Direction>>,
    /// Observations of the witness during the phase with both directions.
    #[serde(flatten)]
    seen: Seen,
}

/// Both ends, with the options of their frames.
struct Network<'a> {
    options: &'a Connect,
    near: &'a End<'a>,
    far: &'a End<'a>,
    near_sink: &'a Sink,
    far_sink: &'a Sink,
}

/// Opens sessions, sends an answer in each, and then sends in both directions.
pub fn connect(options: &Connect, signals: &Signals) -> Result<Connected, Failure> {
    if options.looks.icmp {
        return Err(Failure::usage(
            "connect needs ports: UDP, or TCP where that opens a session",
        ));
    }
    if options.looks.flows != Flows::Some(1) {
        return Err(Failure::usage(
            "each packet opens a session: give --sessions, not --flows",
        ));
    }
    let sessions = options.sessions;
    let watching = sink::watching(&options.counting, STREAMS, options.common.key);
    let near = ways::open(&options.ends.from, Some(&watching))?;
    let remembering = Watching {
        remembers: sessions,
        ..watching
    };
    let far = ways::open(&options.ends.to, Some(&remembering))?;
    let (Some(near_sink), Some(far_sink)) = (&near.sink, &far.sink) else {
        return Err(Failure::run_time("an end has no sink"));
    };
    let network = Network {
        options,
        near: &near,
        far: &far,
        near_sink,
        far_sink,
    };
    let common = Common {
        key: options.common.key,
        whole: options.common.histogram,
        patience: Duration::from_secs_f64(options.settle),
    };
    let run = |ways: &[Way<'_>]| ways::run(ways, common, signals);
    let sessions = u64::from(sessions);
    let once = |rate| options.amount(rate, Some(sessions), None);

    let first = once(options.rate);
    let open = || only(run(&[network.forth(OPENS, Flows::Unique, &first)])?);
    let mut opened = open()?;
    let mut rounds = 1;
    // Sends the same numbers again: the sink counts those that it has not seen.
    while rounds < options.rounds && opened.received() < sessions && !signals.have_arrived() {
        opened = open()?;
        rounds += 1;
    }
    let mut connected = Connected {
        sessions,
        rounds,
        all: false,
        answered: None,
        carried: None,
        seen: Seen::default(),
        opened,
    };
    if connected.opened.received() < sessions {
        return Ok(connected);
    }
    let second = once(options.answer_rate);
    let answer = || only(run(&[network.back(ANSWERS, &second)?])?);
    let mut answered = answer()?;
    for _ in 1..options.answer_rounds {
        if answered.received() == sessions || signals.have_arrived() {
            break;
        }
        answered = answer()?;
    }
    connected.all = answered.received() == sessions;
    connected.answered = Some(answered);
    if let (true, Some(seconds)) = (connected.all, options.seconds) {
        let third = options.amount(options.both_rate, None, Some(seconds));
        let mut ways = vec![network.back(BACK, &third)?];
        if !options.back_only {
            ways.insert(0, network.forth(FORTH, Flows::Some(sessions), &third));
        }
        let (carried, seen) = witness::watch(&options.watch_cpu, || run(&ways))?;
        connected.carried = Some(carried);
        connected.seen = seen;
    }
    Ok(connected)
}

impl Network<'_> {
    /// The direction from the side that opens sessions: the same 4-tuples in the same order, any number of them.
    fn forth<'a>(&'a self, stream: u8, flows: Flows, amount: &'a Amount) -> Way<'a> {
        let options = self.options;
        Way {
            name: "forth",
            stream,
            from: self.near,
            sink: self.far_sink,
            addresses: (options.ends.src, options.ends.dst),
            looks: Looks {
                flows,
                ..options.looks.clone()
            },
            amount,
            cpu: options.cpu,
            memory: None,
        }
    }

    /// The direction from the other side: to the sources of the frames that arrived.
    fn back<'a>(&'a self, stream: u8, amount: &'a Amount) -> Result<Way<'a>, Failure> {
        let options = self.options;
        let memory = self.far_sink.memory();
        Ok(Way {
            name: "back",
            stream,
            from: self.far,
            sink: self.near_sink,
            addresses: (options.back_src, options.back_dst),
            looks: Looks {
                size: options.back_size.or(options.looks.size),
                flows: Flows::Some(u64::from(options.sessions)),
                // The remembered 4-tuples.
                sport: None,
                dport: None,
                ..options.looks.clone()
            },
            amount,
            cpu: options.cpu,
            memory: Some(memory.map_err(|e| Failure::refused("read what arrived", &e))?),
        })
    }
}

impl Connect {
    fn amount(&self, rate: Rate, count: Option<u64>, seconds: Option<f64>) -> Amount {
        Amount {
            rate,
            count: count.map(Number),
            seconds,
            burst: self.burst,
            path: None,
            cpu: self.cpu,
        }
    }
}

fn only(directions: Vec<Direction>) -> Result<Direction, Failure> {
    let mut directions = directions.into_iter();
    directions
        .next()
        .ok_or_else(|| Failure::run_time("no direction was measured"))
}
