// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects packets that leave and are never answered, as behind a firewall that drops what this host forwards, or on an
//! uplink that leads nowhere.
//!
//! packets leave and no answer comes, or a firewall may drop them ─► probe the next router ─► no answer either ─► an
//! obstacle
//!
//! The lack of answers proves nothing: there is one-way traffic, and there are peers that are off. The probe takes the
//! way of all packets, and runs out of hops at the next router, which reports that (RFC 4443 section 3.3). It goes no
//! further. An answer to any packet, or to the probe, ends the obstacle.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::time::Instant;

use super::Clat;
use diolkos_control::translator::{Finding, Reason};
use diolkos_datapath::slowpath::QUESTION_PORT;
use diolkos_figures::counters;
use diolkos_kernel::net::{HookNews, LinkKind};
use diolkos_service::failure::Failure;

/// An address of ipv4only.arpa (RFC 7050 section 2.2): every prefix may carry it, and no host has it.
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 170);
/// This number of packets without an answer, for this time, is a reason to send a probe.
const PACKETS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(4);
/// Number of probes without an answer, one for each check. Routers send few errors a second.
const QUESTIONS: u32 = 3;
/// Interval between two probes from then on.
const AGAIN: Duration = Duration::from_secs(5);
/// Pause after an answer to a probe.
const REST: Duration = Duration::from_secs(60);

/// What is known of answers.
#[derive(Default)]
pub(super) struct Unanswered {
    /// Rules of nftables for forwarded packets, if those of the CLAT are forwarded.
    hooks: Option<HookNews>,
    before: Seen,
    /// When the first packet without an answer was seen.
    since: Option<Instant>,
    /// True if something has come since packets and rules are these.
    is_proven: bool,
    /// Number of probes since then.
    questions: u32,
    /// The time before which no probe is sent.
    rests: Option<Instant>,
    /// The problem, in words.
    found: Option<String>,
}

/// The counters at one check. All except the number of filters only grow while the device stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Number of packets that were translated from IPv4.
    sent: u64,
    /// Number of packets from IPv6 that are not ICMP errors.
    answers: u64,
    /// Number of errors of routers about a probe.
    routers: u64,
    /// Number of nftables chains that may drop packets.
    filters: usize,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeAction {
    Nothing,
    Ask,
    /// Send a probe, and report that nothing comes back.
    Despair,
}

impl Unanswered {
    /// Returns the finding that nothing comes back.
    pub(super) fn obstacle(&self) -> Option<Finding> {
        let text = self.found.as_ref()?;
        Some(Finding::obstacle(Reason::Unanswered, text))
    }

    /// Forgets everything except the rules, because there is another way.
    fn begin_anew(&mut self) {
        *self = Unanswered {
            hooks: self.hooks.take(),
            ..Unanswered::default()
        };
    }

    /// Compares with the last check.
    fn look(&mut self, now: Instant, seen: Seen) -> ProbeAction {
        let is_new = seen.filters != self.before.filters;
        let came = seen.answers != self.before.answers;
        let heard = seen.routers != self.before.routers;
        if is_new || came || heard {
            self.before = seen;
            (self.since, self.questions, self.is_proven) = (None, 0, came || heard);
            self.rests = heard.then(|| now + REST);
        }
        if came || heard {
            self.found = None;
            return ProbeAction::Nothing;
        }
        let sent = seen.sent - self.before.sent;
        if sent > 0 && self.since.is_none() {
            self.since = Some(now);
        }
        let is_long = self.since.is_some_and(|since| now >= since + PATIENCE);
        let is_doubtful = (sent >= PACKETS && is_long) || (seen.filters > 0 && !self.is_proven);
        if self.rests.is_some_and(|until| now < until)
            || !(is_doubtful || self.questions > 0 || self.found.is_some())
        {
            return ProbeAction::Nothing;
        }
        self.questions += 1;
        if self.questions <= QUESTIONS {
            return ProbeAction::Ask;
        }
        self.rests = Some(now + AGAIN);
        ProbeAction::Despair
    }
}

impl Clat {
    /// Checks whether there are answers to what is sent, and probes the next router if there are none.
    pub(super) async fn look_for_answers(&mut self) -> Result<(), Failure> {
        let Some(device) = self.device.as_ref().filter(|_| self.ready.is_some()) else {
            self.unanswered.begin_anew();
            return Ok(());
        };
        let is_forwarded = device.fast.is_none();
        if is_forwarded && self.unanswered.hooks.is_none() {
            self.unanswered.hooks = Some(HookNews::begin(&self.watch).await);
        }
        let hooks = self.unanswered.hooks.as_ref();
        let (fast, tallies) = (device.fast.as_deref(), &device.slow.tallies);
        let seen = Seen {
            sent: counters::translated(fast, tallies)[0],
            answers: counters::came(fast, tallies).answers,
            routers: counters::questions_answered(tallies),
            filters: hooks.map_or(0, |hooks| hooks.now().filters),
        };
        if self.unanswered.before.sent > seen.sent {
            self.unanswered.begin_anew();
        }
        let was_found = self.unanswered.found.is_some();
        let step = self.unanswered.look(Instant::now(), seen);
        if step != ProbeAction::Nothing {
            // Each forwarder decrements the hop limit: the translator, and the kernel if it forwards.
            let ttl = if is_forwarded { 3 } else { 2 };
            let t = &self.site.settings.translator;
            if let Err(error) = ask(&t.device, self.site.settings.clat.v4(), ttl) {
                // In that case the lack of answers shows nothing.
                tracing::debug!("cannot ask the next router: {error}");
                self.unanswered.questions = 0;
                return Ok(());
            }
        }
        if step == ProbeAction::Despair && !was_found {
            self.unanswered.found = Some(self.nothing_comes_back(is_forwarded, seen));
        }
        if self.unanswered.found.is_some() != was_found {
            self.say_doubts();
            self.look_for_another_uplink().await?;
        }
        Ok(())
    }

    fn nothing_comes_back(&self, is_forwarded: bool, seen: Seen) -> String {
        let (uplink, device) = (&self.site.uplink, &self.site.settings.translator.device);
        let cause = match (is_forwarded, uplink.kind) {
            (true, _) if seen.filters > 0 => format!(
                "nftables of this host has rules for forwarded packets, which must let pass what comes from {device} and \
                 what goes to it"
            ),
            (_, LinkKind::Opaque) => format!(
                "{} may be a VPN that does not lead to the prefix: name the uplink with --uplink",
                uplink.name
            ),
            (true, _) => format!(
                "a firewall of this host must let pass what is forwarded from {device} and to it"
            ),
            _ => "a firewall of the network may drop them, or answers to the CLAT's address go elsewhere".to_owned(),
        };
        format!(
            "nothing comes back through {}, not even a word from the next router: {cause}",
            uplink.name
        )
    }
}

/// Sends a datagram that runs out of hops at the next router.
fn ask(device: &str, from: Ipv4Addr, ttl: u32) -> std::io::Result<()> {
    let socket = Socket::new(
        Domain::IPV4,
        Type::DGRAM.nonblocking().cloexec(),
        Some(Protocol::UDP),
    )?;
    socket.bind_device(Some(device.as_bytes()))?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket.set_ttl_v4(ttl)?;
    let to = SocketAddrV4::new(NOBODY, QUESTION_PORT);
    socket.send_to(&[], &to.into()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks once each second; each entry has the numbers of packets sent, answers, router errors, and filters.
    fn steps(looks: &[(u64, u64, u64, usize)]) -> Vec<ProbeAction> {
        let (mut unanswered, start) = (Unanswered::default(), Instant::now());
        let look = |(second, &(sent, answers, routers, filters))| {
            let seen = Seen {
                sent,
                answers,
                routers,
                filters,
            };
            let now = start + Duration::from_secs(second as u64);
            let step = unanswered.look(now, seen);
            if step == ProbeAction::Despair {
                unanswered.found = Some(String::new());
            }
            step
        };
        looks.iter().enumerate().map(look).collect()
    }

    #[test]
    fn what_is_answered_and_what_is_idle() {
        let answered: Vec<_> = (0..20).map(|n| (n, n, 0, 0)).collect();
        let idle = [(0, 0, 0, 0); 20];
        let few = [(3, 0, 0, 0); 20];
        for looks in [&answered[..], &idle, &few] {
            assert!(steps(looks)
                .iter()
                .all(|step| *step == ProbeAction::Nothing));
        }
    }

    #[test]
    fn silence_after_questions() {
        let looks: Vec<_> = (0..16).map(|n| (n, 0, 0, 0)).collect();
        use ProbeAction::{Ask, Despair, Nothing};
        let quiet = [Nothing; 5];
        let then = [Ask, Ask, Ask, Despair, Nothing];
        assert_eq!(steps(&looks)[..10], [quiet, then].concat());
        // It continues to probe.
        assert_eq!(steps(&looks)[13], Despair);
    }

    #[test]
    fn one_way_traffic_behind_a_router_that_answers() {
        let looks: Vec<_> = (0..40).map(|n| (n, 0, u64::from(n > 5), 0)).collect();
        let asked = steps(&looks);
        let count = |wanted| asked.iter().filter(|step| **step == wanted).count();
        assert_eq!(
            (count(ProbeAction::Ask), count(ProbeAction::Despair)),
            (1, 0)
        );
    }

    #[test]
    fn a_firewall_is_reason_enough() {
        use ProbeAction::{Ask, Despair, Nothing};
        let idle = [(0, 0, 0, 1); 4];
        assert_eq!(steps(&idle), [Ask, Ask, Ask, Despair]);
        // Proven once, until its rules change.
        let looks = [(5, 5, 0, 1), (5, 5, 0, 1), (5, 5, 0, 2)];
        assert_eq!(steps(&looks), [Nothing, Nothing, Ask]);
    }
}
