// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the process of one CLAT running, and tells how it stands.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout, Instant};

use super::interface::{Clat, Spec, State};
use crate::control;
use diolkos_service::failure::Kind;

/// Before the first new start of a process that has ended, then twice as long, …
const RETRY: Duration = Duration::from_secs(1);
/// … and no longer than this. After a run of this length, it begins with the shortest pause again.
const RETRY_AT_MOST: Duration = Duration::from_secs(60);
/// How long a CLAT may take to remove what is its own before it is killed; its device goes with it in any case.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two looks whether a process that starts can be followed.
const LOOK: Duration = Duration::from_millis(100);
/// The longest line of a log that is passed on, bytes.
const LINE: u64 = 4096;

/// What a keeper tells: changes of its CLAT.
pub type Tell = Arc<dyn Fn(&mut dyn FnMut(&mut Clat)) + Send + Sync>;

/// A CLAT that is kept running.
#[derive(Debug)]
pub struct Kept {
    stop: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<()>,
}

impl Kept {
    /// Starts it.
    pub fn start(
        program: PathBuf,
        spec: Spec,
        clat: Clat,
        metric: u32,
        group: &str,
        tell: Tell,
    ) -> Kept {
        let (stop, stopped) = oneshot::channel();
        let mut arguments = vec![
            "clat".to_owned(),
            format!("--uplink={}", spec.interface),
            format!("--pref64={}", spec.pref64),
            format!("--device={}", clat.device),
            format!("--v4={}", clat.v4),
            format!("--metric={metric}"),
            format!("--end-with={}", std::process::id()),
        ];
        let one = [
            ("v6", &spec.v6),
            ("v6-prefix", &spec.v6_prefix),
            ("datapath", &spec.datapath),
        ];
        let one = one.into_iter();
        let one = one.filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
        arguments.extend(one);
        let other = spec.other_clat.and_then(|other| other.to_possible_value());
        arguments.extend(other.map(|other| format!("--other-clat={}", other.get_name())));
        arguments.extend(spec.routes.iter().map(|route| format!("--route={route}")));
        let resolvers = spec.resolvers.iter();
        arguments.extend(resolvers.map(|resolver| format!("--resolver={resolver}")));
        if !group.is_empty() {
            arguments.push(format!("--control-group={group}"));
        }
        let keep = keep(program, arguments, clat.device, tell, stopped);
        Kept {
            stop,
            done: tokio::spawn(keep),
        }
    }

    /// Ends it, and waits until it has ended.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.done.await;
    }
}

async fn keep(
    program: PathBuf,
    arguments: Vec<String>,
    device: String,
    tell: Tell,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut pause = RETRY;
    loop {
        let begin = Instant::now();
        set(&tell, State::Starting, Vec::new());
        let (why, is_final) = match spawn(&program, &arguments) {
            Err(error) => (
                format!("{} does not start: {error}", program.display()),
                false,
            ),
            Ok(mut child) => {
                let over = Arc::new(AtomicBool::new(false));
                watch(&child, &device, &tell, &over);
                // It is read to its end, so that a full pipe never holds the process up.
                let log = tokio::spawn(last_line(child.stderr.take()));
                let ended = tokio::select! {
                    ended = child.wait() => Some(ended),
                    _ = &mut stopped => None,
                };
                over.store(true, Ordering::Release);
                match ended {
                    Some(ended) => explained(ended, log.await.unwrap_or_default()),
                    None => return end(child).await,
                }
            }
        };
        if begin.elapsed() >= RETRY_AT_MOST {
            pause = RETRY;
        }
        let what = match is_final {
            true => "it is not started again until the next `up`".to_owned(),
            false => format!("it starts again in {} s", pause.as_secs()),
        };
        tracing::warn!("the CLAT {device} has ended: {why}: {what}");
        set(&tell, State::Failed, vec![why]);
        if is_final {
            let _ = stopped.await;
            return;
        }
        tokio::select! {
            () = sleep(pause) => pause = (2 * pause).min(RETRY_AT_MOST),
            _ = &mut stopped => return,
        }
    }
}

fn spawn(program: &PathBuf, arguments: &[String]) -> io::Result<Child> {
    Command::new(program)
        .args(arguments)
        // What the service manager says to this process is not for that one.
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .env_remove("WATCHDOG_PID")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Asks it to end; what does not is killed.
async fn end(mut child: Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(pid) = pid {
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    if timeout(PATIENCE, child.wait()).await.is_err() {
        tracing::warn!(
            "a CLAT did not end within {} s: killing it",
            PATIENCE.as_secs()
        );
        let _ = child.kill().await;
    }
}

/// Passes its log on, and returns the last line.
async fn last_line(log: Option<impl AsyncRead + Unpin>) -> String {
    let mut last = String::new();
    let Some(log) = log else { return last };
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    while (&mut log)
        .take(LINE)
        .read_until(b'\n', &mut line)
        .await
        .is_ok_and(|n| n > 0)
    {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        eprintln!("{text}");
        last = text.to_owned();
        line.clear();
    }
    last
}

/// Why it has ended, and whether another start is in vain.
fn explained(ended: io::Result<ExitStatus>, line: String) -> (String, bool) {
    let code = ended.ok().and_then(|status| status.code());
    let why = match line.strip_prefix("diolkos: ") {
        Some(why) => why.to_owned(),
        None => match code {
            Some(code) => format!("exit code {code}"),
            None => "it was killed".to_owned(),
        },
    };
    let useless = [Kind::Usage as i32, Kind::Missing as i32];
    (why, code.is_some_and(|code| useless.contains(&code)))
}

fn set(tell: &Tell, state: State, obstacles: Vec<String>) {
    tell(&mut |clat: &mut Clat| {
        clat.state = state;
        clat.obstacles.clone_from(&obstacles);
        clat.prefixes.clear();
    });
}

/// Follows the status of a process on a thread of its own, which ends with that process.
fn watch(child: &Child, device: &str, tell: &Tell, over: &Arc<AtomicBool>) {
    let (pid, device) = (child.id(), device.to_owned());
    let (tell, over) = (tell.clone(), over.clone());
    thread::spawn(move || {
        while !over.load(Ordering::Acquire) {
            let followed = control::follow(&device, |status| {
                let is_over = over.load(Ordering::Acquire);
                if is_over || Some(status.pid) != pid {
                    return false;
                }
                tell(&mut |clat: &mut Clat| {
                    clat.state = match status.state {
                        control::State::Starting => State::Starting,
                        control::State::Ready => State::Ready,
                        control::State::Waiting => State::Waiting,
                    };
                    clat.obstacles.clone_from(&status.obstacles);
                    clat.prefixes.clone_from(&status.prefixes);
                });
                true
            });
            if let Err(failure) = followed {
                tracing::trace!("{device} cannot be followed yet: {failure}");
            }
            thread::sleep(LOOK);
        }
    });
}
