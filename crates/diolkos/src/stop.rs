// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos stop`: ends the running program and waits for its end. If none runs, it removes what an earlier one left.

use std::thread;
use std::time::{Duration, Instant};

use crate::error;
use crate::files::Files;
use crate::process;
use diolkos_config::{self as config, Level};
use diolkos_control::translator::{self, Answer, Request};
use diolkos_router as router;
use diolkos_service::failure::Failure;
use diolkos_service::instance::{self, FoundInstance, Running};

/// Time limit for the end of a program. Writing millions of sessions takes some seconds, on a slow disk more.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time after which this command says what it waits for.
const SILENCE: Duration = Duration::from_secs(3);
/// Interval between checks.
const PAUSE: Duration = Duration::from_millis(20);
/// The most programs that may end by themselves, each with a successor, while this command asks.
const TRIES: u32 = 5;

/// Ends the program with this device. Afterwards nothing of it is left.
pub fn stop(device: &str) -> Result<(), Failure> {
    let mut tries = 0;
    loop {
        let running = match instance::find(device) {
            FoundInstance::At(running) => running,
            found => {
                if let FoundInstance::Ignored(why) = found {
                    config::warn(&why);
                }
                let clear = router::clear(device.to_owned());
                return process::foreground(Files::default(), Level::Info, clear);
            }
        };
        tries += 1;
        match translator::ask_this(&running, device, Request::Stop) {
            Ok(Answer::Done) => {
                return wait(&running, SILENCE, PATIENCE, |word| eprintln!("{word}"))
            }
            Ok(other) => return Err(translator::unexpected(&other).into()),
            // It ended before it was asked.
            Err(_) if !running.lasts() && tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for the end of the program that was asked, and ignores a successor.
fn wait(
    running: &Running,
    silence: Duration,
    patience: Duration,
    mut say: impl FnMut(&str),
) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut is_said = false;
    while running.lasts() {
        let (pid, waited) = (running.pid(), begin.elapsed());
        if waited >= patience {
            return Err(error::run_time(format!(
                "process {pid} is to end, but still runs after {} s: its log says why; if it writes to a disk that does \
                 not answer, repair that, or kill it and run `diolkos stop` again",
                patience.as_secs()
            )));
        }
        if waited >= silence && !is_said {
            is_said = true;
            say(&format!(
                "diolkos: waiting for process {pid} to end, {} s at most: it may have a large state file to write, or a \
                 slow disk (see its log)",
                patience.as_secs()
            ));
        }
        thread::sleep(PAUSE);
    }
    match running.word() {
        None => Ok(()),
        Some(word) => Err(error::run_time(format!(
            "process {} has ended with an error: {word}",
            running.pid()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use diolkos_sys::lock::Lock;

    use super::*;

    fn locked(name: &str) -> (PathBuf, Lock, Running) {
        let name = format!("diolkos-stop-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let lock = Lock::take(&path).expect("a file").expect("it is free");
        let running = Running::of(&path).expect("a lock").expect("it is held");
        (path, lock, running)
    }

    #[test]
    fn a_successor_is_not_waited_for() {
        let (path, first, running) = locked("successor");
        drop(first);
        let _successor = Lock::take(&path).expect("a file").expect("it is free");
        let mut said = 0;
        wait(&running, Duration::ZERO, Duration::ZERO, |_| said += 1).expect("it has ended");
        assert_eq!(said, 0);
    }

    #[test]
    fn it_says_once_what_it_waits_for() {
        let (_path, lock, running) = locked("slow");
        let (mut lock, mut said) = (Some(lock), Vec::new());
        let ended = wait(&running, Duration::ZERO, PATIENCE, |word| {
            said.push(word.to_owned());
            drop(lock.take());
        });
        ended.expect("it has ended");
        let [word] = &said[..] else {
            panic!("{said:?}")
        };
        let who = format!("process {} ", std::process::id());
        assert!(word.contains(&who) && word.contains("120 s"), "{word}");
    }

    #[test]
    fn its_patience_has_an_end() {
        let (_path, _lock, running) = locked("never");
        let failure = wait(&running, PATIENCE, Duration::ZERO, |_| ()).expect_err("it runs");
        assert!(failure.to_string().contains("still runs"), "{failure}");
    }

    #[test]
    fn an_end_that_was_not_good_is_told() {
        let (_path, lock, running) = locked("word");
        lock.leave_word("there is no room").expect("a file");
        drop(lock);
        let failure = wait(&running, PATIENCE, PATIENCE, |_| ()).expect_err("it was not good");
        assert!(
            failure.to_string().ends_with("there is no room"),
            "{failure}"
        );
    }
}
