// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos cluster roll`: arms a node for the new file, and reports progress until the node serves with it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{order, print, status, BREATH};
use crate::error;
use diolkos_control::translator::Request;
use diolkos_figures::cluster_status::{ClusterStatus, NodeRole};
use diolkos_service::failure::Failure;

/// Time limit within which a node must report that it is armed, answer again after it changed files, or hear of all others with
/// the new file.
const PATIENCE: Duration = Duration::from_secs(60);

/// The progress of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
enum RollState {
    /// The node does not report yet that it is armed, or does not answer.
    Unknown,
    /// The node is armed; the text says what it waits for.
    Armed(String),
    /// The node changes to the new file.
    Goes,
    /// The node is no longer armed, and has the old file.
    Disarmed,
    /// The node has the new file, and creates no bindings yet; the text names the nodes for which it waits.
    Starts(String),
    /// The node creates bindings by the new file.
    Done,
}

/// The progress that has been seen.
#[derive(Default)]
struct Progress {
    file: Option<String>,
    last: Option<RollState>,
}

impl Progress {
    fn step(&mut self, status: &ClusterStatus) -> RollState {
        if let Some(roll) = &status.roll {
            self.file = Some(roll.file.clone());
            return match roll.goes {
                true => RollState::Goes,
                false => RollState::Armed(roll.waits()),
            };
        }
        match &self.file {
            None => RollState::Unknown,
            // The node has just started again.
            Some(_) if status.file.is_empty() => RollState::Unknown,
            Some(file) if status.file != *file => RollState::Disarmed,
            Some(_) if status.part == NodeRole::Starting => {
                RollState::Starts(status.waits_for.join(", "))
            }
            Some(_) => RollState::Done,
        }
    }

    /// Returns true if the step differs from the one before.
    fn is_new(&mut self, step: &RollState) -> bool {
        *step != RollState::Unknown && self.last.replace(step.clone()).as_ref() != Some(step)
    }
}

/// Arms the node, and returns when it serves with the new file.
pub fn roll(device: &str, seconds: u32) -> Result<(), Failure> {
    order(device, Request::Roll { seconds })?;
    let mut progress = Progress::default();
    let mut moved = Instant::now();
    loop {
        // While the node restarts, there may be no answer.
        let step = status(device).map_or(RollState::Unknown, |status| progress.step(&status));
        let waited = progress.last.clone();
        if progress.is_new(&step) {
            moved = Instant::now();
            match &step {
                RollState::Armed(waits) => print(format!("armed: {waits}\n"))?,
                RollState::Goes => print("all nodes are armed: this one begins anew\n".to_owned())?,
                RollState::Starts(waits) if !waits.is_empty() => {
                    print(format!("begun with the new file: waits for {waits}\n"))?;
                }
                RollState::Done => return print("serves by the new file\n".to_owned()),
                RollState::Disarmed => return Err(error::run_time(disarmed(waited))),
                RollState::Unknown | RollState::Starts(_) => {}
            }
        }
        if !matches!(step, RollState::Armed(_)) && moved.elapsed() > PATIENCE {
            return Err(error::run_time(format!(
                "after {} s the node does not serve by the new file yet; `diolkos cluster status` and its log say how it stands",
                PATIENCE.as_secs()
            )));
        }
        sleep(BREATH);
    }
}

fn disarmed(before: Option<RollState>) -> String {
    let why = match before {
        Some(RollState::Armed(waits)) => format!(": {waits}"),
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
            part: NodeRole::Serving,
            ..ClusterStatus::default()
        };
        assert_eq!(progress.step(&old), RollState::Unknown);
        let mut armed = old.clone();
        armed.roll = Some(Roll {
            file: "00aa".to_owned(),
            lacks: [("gw2".to_owned(), "away".to_owned())].into(),
            ..Roll::default()
        });
        let waits = RollState::Armed("gw2 does not answer".to_owned());
        assert_eq!(progress.step(&armed), waits);
        assert!(progress.is_new(&waits) && !progress.is_new(&waits));
        assert_eq!(progress.step(&old), RollState::Disarmed);
        assert!(disarmed(Some(waits)).ends_with("old file: gw2 does not answer"));
        armed.roll = armed.roll.map(|roll| Roll { goes: true, ..roll });
        assert_eq!(progress.step(&armed), RollState::Goes);
        assert_eq!(progress.step(&ClusterStatus::default()), RollState::Unknown);
        let mut new = ClusterStatus {
            file: "00aa".to_owned(),
            waits_for: vec!["gw3".to_owned()],
            ..ClusterStatus::default()
        };
        assert_eq!(progress.step(&new), RollState::Starts("gw3".to_owned()));
        new.part = NodeRole::Serving;
        assert_eq!(progress.step(&new), RollState::Done);
    }
}
