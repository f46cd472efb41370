// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a process running, and speaks for it: sockets, prefix and control socket are the keeper's, so that they stay when
//! a process ends.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{oneshot, Notify};
use tokio::time::{sleep_until, Instant};

use super::message::{rules, Learnt, Order};
use super::process::{Event, Process};
use super::sockets::Sockets;
use crate::companion::{Change, Post};
use crate::control::{Answer, Condition, Control, Question, Request, State};
use crate::dns64::follow::Follower;
use crate::dns64::prefix::InForce;
use crate::dns64::tally::{self, Fate, Tally, NUMBER};
use crate::dns64::{description, ended, listen_for_control, reply, UNKNOWN};
use diolkos_config::{Dns64, Settings};
use diolkos_service::failure::Failure;
use diolkos_service::supervise;
use diolkos_service::watchdog::Heartbeat;

/// How often the process is asked for a report, and how often the keeper looks for what is due.
const TICK: Duration = Duration::from_secs(1);
/// A process that owes a report for so long hangs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who asks for counters hears so soon that the process does not answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Before the first new start of a process that has ended, then twice as long, …
const PAUSE: Duration = Duration::from_millis(100);
/// … and no longer than this. After a run of this length, it begins with the shortest pause again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Runs until the translator's process ends (`stopped`), and then succeeds. It fails where only the operator can help.
pub async fn keep(
    settings: Settings,
    dns64: Dns64,
    beat: Heartbeat,
    mut post: Post,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(), Failure> {
    let (watch, mut alarm) = supervise::pair();
    let mut control = listen_for_control(&dns64.name, &settings.control.group, &watch)?;
    let own = Tally::default();
    let sockets = Sockets::open(&dns64.listen, &own)?;
    post.tell(&sockets.troubles());
    post.begun();
    let rules = Rc::new(InForce::new(&dns64));
    let news = Rc::new(Notify::new());
    if let Some(follower) = Follower::begin(&settings, &dns64, &watch).await? {
        let (rules, news) = (rules.clone(), news.clone());
        let take = move |findings| {
            rules.take(findings);
            news.notify_one();
        };
        watch.local("the search for the prefix", follower.run(take));
    }
    let mut keeper = Keeper {
        settings,
        dns64,
        own,
        lost: [0; NUMBER],
        sockets,
        rules,
        state: Runs::not("it is being started", Instant::now()),
        pause: PAUSE,
        has_served: false,
        is_said: false,
        has_news: false,
        questions: Vec::new(),
        changed: Vec::new(),
    };
    let mut tick = Instant::now();
    loop {
        beat.beat();
        keeper.publish_condition(&control, &post);
        let event = tokio::select! {
            biased;
            _ = &mut stopped => break,
            failure = alarm.rung() => return Err(ended(&failure)),
            () = beat.due() => continue,
            () = sleep_until(tick) => {
                tick = Instant::now() + TICK;
                keeper.tick();
                continue;
            }
            question = control.next() => {
                keeper.take_question(question);
                continue;
            }
            Some(change) = post.changes.recv() => {
                keeper.take_change(change);
                continue;
            }
            () = news.notified() => {
                keeper.send_prefix();
                continue;
            }
            event = keeper.state.event() => event,
        };
        match event {
            None => keeper.start(),
            Some(Event::Reported(number)) => keeper.reported(number),
            Some(Event::Ended { why, by_itself }) => keeper.take_end(&why, by_itself),
        }
    }
    if let Runs::Yes(process) = keeper.state {
        // What does not end by itself ends with this thread.
        let _ = tokio::time::timeout(ANSWER, process.end()).await;
    }
    Ok(())
}

/// Whether there is a process.
enum Runs {
    Yes(Box<Process>),
    /// Why not, and when the next one starts.
    No(String, Instant),
}

impl Runs {
    fn not(why: &str, until: Instant) -> Runs {
        Runs::No(why.to_owned(), until)
    }

    /// What the process does next; None: it is time to start one.
    async fn event(&mut self) -> Option<Event> {
        match self {
            Runs::Yes(process) => Some(process.event().await),
            Runs::No(_, until) => {
                sleep_until(*until).await;
                None
            }
        }
    }
}

struct Keeper {
    settings: Settings,
    dns64: Dns64,
    /// What the keeper has counted.
    own: Tally,
    /// What processes that have ended had counted.
    lost: [u64; NUMBER],
    sockets: Sockets,
    rules: Rc<InForce>,
    state: Runs,
    /// Before the start after the next end.
    pause: Duration,
    has_served: bool,
    /// That it is ready.
    is_said: bool,
    /// The prefix has changed, and the process has not been told.
    has_news: bool,
    /// Those that wait for a report, and since when.
    questions: Vec<(u64, Instant, Question)>,
    /// Those that wait until a configuration is in force.
    changed: Vec<(u64, oneshot::Sender<()>)>,
}

impl Keeper {
    /// Starts a process, and tells it everything.
    fn start(&mut self) {
        let started = Process::start(&self.dns64, self.settings.log.level);
        let told = started.and_then(|mut process| {
            for order in rules(&self.dns64)? {
                process.order(&order, None)?;
            }
            process.order(&Order::Prefix(self.learnt()), None)?;
            for (transport, socket) in self.sockets.all() {
                process.order(&Order::Serve(transport), Some(socket))?;
            }
            process.ask();
            Ok(process)
        });
        self.has_news = false;
        match told {
            Ok(process) => self.state = Runs::Yes(Box::new(process)),
            Err(error) => self.away(&format!("cannot be started: {error}")),
        }
    }

    fn take_end(&mut self, why: &str, by_itself: bool) {
        if let Runs::Yes(process) = &self.state {
            if process.begun.elapsed() >= LONGEST_PAUSE {
                self.pause = PAUSE;
            }
            for (lost, count) in self.lost.iter_mut().zip(process.counts) {
                *lost = lost.saturating_add(count);
            }
        }
        if by_itself {
            // It may be that a socket is broken.
            self.sockets.close();
            self.sockets.retry(&self.own);
        }
        self.away(&format!("has ended: {why}"));
    }

    fn away(&mut self, why: &str) {
        self.own.count(Fate::Restarted);
        let pause = self.pause;
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        tracing::error!(
            "the process of the DNS64 {why}: it starts again in {} s; until then questions wait, or get no answer",
            pause.as_secs_f32()
        );
        self.state = Runs::No(
            format!("the process of the DNS64 {why}"),
            Instant::now() + pause,
        );
        // The next process begins with the new configuration.
        self.changed.clear();
        for (_, _, question) in self.questions.drain(..) {
            question.answer(Answer::Failed(format!("the process of the DNS64 {why}")));
        }
    }

    fn reported(&mut self, number: u64) {
        if number == 1 && std::mem::replace(&mut self.has_served, true) {
            tracing::info!("the DNS64 answers again");
        }
        if !self.is_said && self.sockets.troubles().is_empty() {
            self.is_said = true;
            tracing::info!("ready: {}", description(&self.dns64, &self.dns64.listen));
        }
        let changed = std::mem::take(&mut self.changed).into_iter();
        let (done, left) = changed.partition(|(needed, _)| *needed <= number);
        self.changed = left;
        for (_, done) in done {
            let _ = done.send(());
        }
        let questions = std::mem::take(&mut self.questions).into_iter();
        let (ready, left): (Vec<_>, _) = questions.partition(|(needed, ..)| *needed <= number);
        self.questions = left;
        let counts = self.counts();
        for (_, _, question) in ready {
            self.answer(question, &counts);
        }
        let Runs::Yes(process) = &mut self.state else {
            return;
        };
        if !(self.questions.is_empty() && self.changed.is_empty()) {
            process.ask();
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.has_news {
            self.send_prefix();
        }
        let opened = self.sockets.retry(&self.own);
        if let Runs::Yes(process) = &mut self.state {
            let owes = process.owes_since().map(|since| now.duration_since(since));
            if owes.is_some_and(|owes| owes >= PATIENCE) {
                process.kill(format!("did not answer for {} s", PATIENCE.as_secs()));
            }
            for (transport, socket) in opened {
                if let Err(error) = process.order(&Order::Serve(transport), Some(socket)) {
                    process.kill(format!("cannot be given a socket: {error}"));
                }
            }
            process.ask();
        }
        let questions = std::mem::take(&mut self.questions).into_iter();
        let (late, left): (Vec<_>, _) =
            questions.partition(|(_, since, _)| now.duration_since(*since) >= ANSWER);
        self.questions = left;
        for (_, _, question) in late {
            let why = "the process of the DNS64 does not answer".to_owned();
            question.answer(Answer::Failed(why));
        }
    }

    /// Which prefix is in force, and what is wrong.
    fn publish_condition(&self, control: &Control, post: &Post) {
        let policy = self.rules.policy();
        let unbound = self.sockets.troubles();
        let (state, away) = match &self.state {
            Runs::Yes(_) if self.has_served && unbound.is_empty() => (State::Ready, None),
            Runs::Yes(_) if self.has_served => (State::Waiting, None),
            Runs::Yes(_) => (State::Starting, None),
            Runs::No(why, _) => (State::Waiting, Some(why.clone())),
        };
        let unknown = (!policy.has_prefixes()).then(|| UNKNOWN.to_owned());
        let obstacles: Vec<String> = away.into_iter().chain(unbound).chain(unknown).collect();
        post.tell(&obstacles);
        control.publish(Condition {
            state,
            findings: Vec::new(),
            alarms: Vec::new(),
            obstacles,
            prefixes: policy.pref64().map(ToString::to_string).collect(),
            address6: None,
            datapath: None,
            marks_trouble: None,
        });
    }

    fn take_question(&mut self, question: Question) {
        let needs_counts = matches!(question.request, Request::Counters | Request::Figures);
        match &mut self.state {
            Runs::Yes(process) if needs_counts => {
                let number = process.ask();
                self.questions.push((number, Instant::now(), question));
            }
            Runs::No(why, _) if needs_counts => {
                let why = why.clone();
                question.answer(Answer::Failed(why));
            }
            _ => {
                let counts = self.counts();
                self.answer(question, &counts);
            }
        }
    }

    fn answer(&self, question: Question, counts: &[u64; NUMBER]) {
        let mut counters = tally::counters(counts);
        counters.extend(self.rules.counters());
        let answer = reply(&self.settings, &self.rules, counters, question.request);
        question.answer(answer);
    }

    /// All that was counted, by this process and all before.
    fn counts(&self) -> [u64; NUMBER] {
        let mut counts = self.own.counts();
        let running = match &self.state {
            Runs::Yes(process) => process.counts,
            Runs::No(..) => [0; NUMBER],
        };
        for ((sum, lost), count) in counts.iter_mut().zip(self.lost).zip(running) {
            *sum = sum.saturating_add(lost).saturating_add(count);
        }
        counts
    }

    fn take_change(&mut self, change: Change) {
        let Some(dns64) = change.settings.dns64.clone() else {
            return;
        };
        self.settings = change.settings;
        if dns64 == self.dns64 {
            let _ = change.done.send(());
            return;
        }
        self.rules.renew(&dns64);
        self.dns64 = dns64;
        let learnt = self.learnt();
        let Runs::Yes(process) = &mut self.state else {
            return;
        };
        let told = rules(&self.dns64).map_err(Into::into).and_then(|orders| {
            for order in orders {
                process.order(&order, None)?;
            }
            process.order(&Order::Prefix(learnt), None)
        });
        match told {
            Ok(()) => self.changed.push((process.ask(), change.done)),
            Err(error) => process.kill(format!("cannot be told other rules: {error}")),
        }
        tracing::info!(
            "the DNS64 has reloaded: {}",
            description(&self.dns64, &self.dns64.listen)
        );
    }

    /// Sends the process the prefix. One that does not take its orders hears the last one later: a neighbour can make many.
    fn send_prefix(&mut self) {
        let order = Order::Prefix(self.learnt());
        if let Runs::Yes(process) = &mut self.state {
            self.has_news = process.lags();
            if !self.has_news {
                // Nothing but text is to be written.
                let _ = process.order(&order, None);
            }
        }
    }

    fn learnt(&self) -> Option<Learnt> {
        let (prefix, until) = self.rules.learnt()?;
        let left = until.saturating_duration_since(Instant::now());
        Some(Learnt {
            prefix,
            milliseconds: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        })
    }
}
