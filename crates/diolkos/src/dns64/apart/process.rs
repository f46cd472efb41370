// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process as its keeper sees it: started, given orders without ever waiting for it, and ended.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::channel::{self, Channel};
use super::message::{report, Order};
use super::voice;
use crate::dns64::memory;
use crate::dns64::tally::NUMBER;
use diolkos_config::{Dns64, Level};
use diolkos_service::privilege;

/// This program, also if its file was replaced by another version.
const PROGRAM: &str = "/proc/self/exe";
/// Of the environment. The service manager's variables are not for the process.
const KEPT: [&str; 2] = ["DIOLKOS_SECCOMP", "RUST_BACKTRACE"];

/// A process that runs.
pub struct Process {
    child: Child,
    channel: Channel,
    /// Orders that it has no room for yet, with the sockets that belong to them.
    orders: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    /// It has closed its end of the channel.
    is_closed: bool,
    /// Why it has to go.
    guilty: Option<String>,
    /// The last report that was asked for.
    asked: u64,
    asked_at: Instant,
    /// The last one that came.
    heard: u64,
    /// What it has counted, as it says.
    pub counts: [u64; NUMBER],
    pub begun: Instant,
}

/// What a process does by itself.
pub enum Event {
    /// It has carried out all orders up to this report.
    Reported(u64),
    /// It has ended: why, and whether by its own decision.
    Ended { why: String, by_itself: bool },
}

impl Process {
    /// Starts one.
    pub fn start(dns64: &Dns64, level: Level) -> io::Result<Process> {
        let lesser = privilege::lesser_user();
        match (Process::of(command(dns64, level, lesser)), lesser) {
            // A user namespace may lack that user, or the program's file may be for root only.
            (Err(error), Some(user)) => {
                tracing::warn!(
                    "the process of the DNS64 keeps the user of this one, because it cannot be started as user {user}: {error}"
                );
                Process::of(command(dns64, level, None))
            }
            (started, _) => started,
        }
    }

    /// It has a standard input, which is the channel, and a pipe for its log; no other descriptor of this process.
    fn of(mut command: Command) -> io::Result<Process> {
        let (ours, its) = channel::pair()?;
        let mut child = command
            .stdin(Stdio::from(its))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(log) = child.stderr.take() {
            tokio::spawn(voice::pass_on(log, voice::tell));
        }
        Ok(Process {
            child,
            channel: Channel::new(ours)?,
            orders: VecDeque::new(),
            is_closed: false,
            guilty: None,
            asked: 0,
            asked_at: Instant::now(),
            heard: 0,
            counts: [0; NUMBER],
            begun: Instant::now(),
        })
    }

    /// Has an order carried out after those before.
    pub fn order(&mut self, order: &Order, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let with = with.map(|socket| socket.try_clone_to_owned()).transpose()?;
        self.orders.push_back((serde_json::to_vec(order)?, with));
        Ok(())
    }

    /// Asks for a report, which comes when all orders so far are carried out; its number. While another one is out, the
    /// next one has to wait, so that orders cannot pile up.
    pub fn ask(&mut self) -> u64 {
        if self.asked == self.heard {
            self.asked += 1;
            self.asked_at = Instant::now();
            let order = Order::Report(self.asked);
            // Numbers are text.
            let _ = self.order(&order, None);
            return self.asked;
        }
        self.asked + 1
    }

    /// It has not taken all orders yet.
    pub fn lags(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Since when it owes a report.
    pub fn owes_since(&self) -> Option<Instant> {
        (self.asked > self.heard).then_some(self.asked_at)
    }

    /// Kills it; [`Event::Ended`] follows.
    pub fn kill(&mut self, why: String) {
        self.guilty.get_or_insert(why);
        let _ = self.child.start_kill();
    }

    /// Closes the channel, by which it ends, and waits for that.
    pub async fn end(mut self) {
        drop(self.channel);
        let _ = self.child.wait().await;
    }

    /// The next thing that it does. Meanwhile it gets its orders. May be dropped at any time and called again.
    pub async fn event(&mut self) -> Event {
        loop {
            let hears = self.guilty.is_none() && !self.is_closed;
            let Process {
                child,
                channel,
                orders,
                ..
            } = self;
            if let (Some((order, with)), true) = (orders.front(), hears) {
                let with = with.as_ref().map(AsFd::as_fd);
                tokio::select! {
                    biased;
                    ended = child.wait() => return self.ended(ended),
                    sent = channel.send(order, with) => {
                        orders.pop_front();
                        if let Err(error) = sent {
                            // It has closed its end: it ends, or has to.
                            self.orders.clear();
                            self.kill(format!("it takes no orders: {error}"));
                        }
                        continue;
                    }
                }
            }
            tokio::select! {
                biased;
                ended = child.wait() => return self.ended(ended),
                message = channel.receive(), if hears => {
                    let known = match message {
                        // It ends. If it does not, it owes a report before long.
                        Ok(None) => {
                            self.is_closed = true;
                            continue;
                        }
                        // The same, with orders that it has not read.
                        Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                            self.is_closed = true;
                            continue;
                        }
                        Ok(Some(bytes)) => report(bytes, self.heard, self.asked),
                        Err(_) => None,
                    };
                    match known {
                        Some((number, counts)) => {
                            self.heard = number;
                            self.counts = counts;
                            return Event::Reported(number);
                        }
                        None => self.kill("it said what nobody had asked for".to_owned()),
                    }
                }
            }
        }
    }

    fn ended(&self, ended: io::Result<ExitStatus>) -> Event {
        let (code, signal) = match ended {
            Ok(status) => (status.code(), status.signal()),
            Err(_) => (None, None),
        };
        let why = match (&self.guilty, code, signal) {
            (Some(why), None, _) => format!("{why}, so diolkos killed it"),
            (_, Some(code), _) => format!("exit code {code}"),
            (_, _, Some(signal)) => format!("killed by signal {signal}"),
            (None, None, None) => "it was lost".to_owned(),
        };
        Event::Ended {
            why,
            by_itself: code.is_some(),
        }
    }
}

/// What starts it, as another user if that is said.
fn command(dns64: &Dns64, level: Level, user: Option<u32>) -> Command {
    let level = clap::ValueEnum::to_possible_value(&level);
    let level = level.map_or_else(|| "info".to_owned(), |value| value.get_name().to_owned());
    let environment = KEPT
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new(PROGRAM);
    command
        .arg0("diolkos")
        .arg("dns64-process")
        .arg(format!("--parent={}", std::process::id()))
        .arg(format!("--memory={}", memory(dns64)))
        .arg(format!("--log={level}"))
        .env_clear()
        .envs(environment)
        .current_dir("/");
    if let Some(user) = user {
        // Without further groups: the standard library drops those of root.
        command.uid(user).gid(privilege::NOBODY);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    /// What becomes of a process that does this; its channel is its standard input.
    async fn end_of(does: &str) -> (String, bool) {
        let mut command = Command::new("sh");
        command.args(["-c", does]);
        let mut process = Process::of(command).expect("there is a shell");
        process.ask();
        let event = timeout(Duration::from_secs(60), process.event());
        match event.await.expect("it comes") {
            Event::Ended { why, by_itself } => (why, by_itself),
            Event::Reported(number) => panic!("it was believed: {number}"),
        }
    }

    #[tokio::test]
    async fn a_process_that_says_anything_but_its_report_is_killed() {
        let killed = (
            "it said what nobody had asked for, so diolkos killed it".to_owned(),
            false,
        );
        for does in [
            "printf '{\"number\":1,\"counts\":[]}' >&0; sleep 600",
            "while :; do printf 'let me in' >&0; done",
            "head -c 100000 /dev/zero >&0; sleep 600",
            "exec 2>/dev/null 3>&0; head -c 70000 /dev/zero | dd bs=70000 iflag=fullblock >&3; sleep 600",
        ] {
            assert_eq!(end_of(does).await, killed, "{does}");
        }
    }

    #[tokio::test]
    async fn an_end_is_told_as_it_was() {
        assert_eq!(end_of("exit 7").await, ("exit code 7".to_owned(), true));
        let killed = ("killed by signal 9".to_owned(), false);
        assert_eq!(end_of("kill -9 $$").await, killed);
    }

    #[tokio::test]
    async fn orders_that_nobody_takes_wait_without_holding_anybody_up() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let mut process = Process::of(command).expect("it is there");
        let part = "x".repeat(10_000);
        for _ in 0..200 {
            let part = part.clone();
            let order = Order::Rules {
                part,
                is_last: false,
            };
            process.order(&order, None).expect("it is text");
        }
        assert_eq!((process.ask(), process.ask(), process.ask()), (1, 2, 2));
        let waits = timeout(Duration::from_millis(100), process.event()).await;
        assert!(waits.is_err(), "nothing happens");
        assert!(process.owes_since().is_some());
        process.kill("did not answer".to_owned());
        let Event::Ended { why, .. } = process.event().await else {
            panic!("it is dead")
        };
        assert_eq!(why, "did not answer, so diolkos killed it");
    }
}
