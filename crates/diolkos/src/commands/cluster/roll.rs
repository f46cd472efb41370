// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos cluster roll`: arms a node for the new file, and says how it goes on until the node serves by it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{order, print, status, BREATH};
use crate::control::Request;
use diolkos_figures::cluster_status::{ClusterStatus, Part};
use diolkos_service::failure::Failure;

/// A node that is armed says so, one that goes over answers again, and one with the new file hears of all others within this.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// It does not say yet that it is armed, or does not answer.
    Unknown,
    /// It is armed; what it waits for.
    Armed(String),
    /// It goes over.
    Goes,
    /// It is not armed any more, and has the old file.
    Disarmed,
    /// It has the new file, and opens no bindings yet; for which nodes it waits.
    Starts(String),
    /// It opens bindings by the new file.
    Done,
}

/// What is known of the file that is new.
#[derive(Default)]
struct Progress {
    file: Option<String>,
    last: Option<Step>,
}

impl Progress {
    fn step(&mut self, status: &ClusterStatus) -> Step {
        if let Some(roll) = &status.roll {
            self.file = Some(roll.file.clone());
            return match roll.goes {
                true => Step::Goes,
                false => Step::Armed(roll.waits()),
            };
        }
        match &self.file {
            None => Step::Unknown,
            // It has just begun anew.
            Some(_) if status.file.is_empty() => Step::Unknown,
            Some(file) if status.file != *file => Step::Disarmed,
            Some(_) if status.part == Part::Starting => Step::Starts(status.waits_for.join(", ")),
            Some(_) => Step::Done,
        }
    }

    /// True if it is another step than before.
    fn is_new(&mut self, step: &Step) -> bool {
        *step != Step::Unknown && self.last.replace(step.clone()).as_ref() != Some(step)
    }
}

/// Arms the node, and returns when it serves by the new file.
pub fn roll(device: &str, seconds: u32) -> Result<(), Failure> {
    order(device, Request::Roll { seconds })?;
    let mut progress = Progress::default();
    let mut moved = Instant::now();
    loop {
        // While it begins anew, nobody may answer.
        let step = status(device).map_or(Step::Unknown, |status| progress.step(&status));
        let waited = progress.last.clone();
        if progress.is_new(&step) {
            moved = Instant::now();
            match &step {
                Step::Armed(waits) => print(format!("armed: {waits}\n"))?,
                Step::Goes => print("all nodes are armed: this one begins anew\n".to_owned())?,
                Step::Starts(waits) if !waits.is_empty() => {
                    print(format!("begun with the new file: waits for {waits}\n"))?;
                }
                Step::Done => return print("serves by the new file\n".to_owned()),
                Step::Disarmed => return Err(Failure::run_time(disarmed(waited))),
                Step::Unknown | Step::Starts(_) => {}
            }
        }
        if !matches!(step, Step::Armed(_)) && moved.elapsed() > PATIENCE {
            return Err(Failure::run_time(format!(
                "after {} s the node does not serve by the new file yet; `diolkos cluster status` and its log say how it stands",
                PATIENCE.as_secs()
            )));
        }
        sleep(BREATH);
    }
}

fn disarmed(before: Option<Step>) -> String {
    let why = match before {
        Some(Step::Armed(waits)) => format!(": {waits}"),
        _ => String::new(),
    };
    format!("this node is armed no longer, and goes on with the old file{why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_figures::cluster_status::Roll;

    #[test]
    fn a_roll_is_followed_to_its_end() {
        let mut progress = Progress::default();
        let old = ClusterStatus {
            file: "00ff".to_owned(),
            part: Part::Serving,
            ..ClusterStatus::default()
        };
        assert_eq!(progress.step(&old), Step::Unknown);
        let mut armed = old.clone();
        armed.roll = Some(Roll {
            file: "00aa".to_owned(),
            lacks: [("gw2".to_owned(), "away".to_owned())].into(),
            ..Roll::default()
        });
        let waits = Step::Armed("gw2 does not answer".to_owned());
        assert_eq!(progress.step(&armed), waits);
        assert!(progress.is_new(&waits) && !progress.is_new(&waits));
        assert_eq!(progress.step(&old), Step::Disarmed);
        assert!(disarmed(Some(waits)).ends_with("old file: gw2 does not answer"));
        armed.roll = armed.roll.map(|roll| Roll { goes: true, ..roll });
        assert_eq!(progress.step(&armed), Step::Goes);
        assert_eq!(progress.step(&ClusterStatus::default()), Step::Unknown);
        let mut new = ClusterStatus {
            file: "00aa".to_owned(),
            waits_for: vec!["gw3".to_owned()],
            ..ClusterStatus::default()
        };
        assert_eq!(progress.step(&new), Step::Starts("gw3".to_owned()));
        new.part = Part::Serving;
        assert_eq!(progress.step(&new), Step::Done);
    }
}
