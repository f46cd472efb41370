// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operator learns of the switch: a line in the log when a trouble begins and one when it ends, and what there is in
//! between.

use std::path::PathBuf;

use crate::connection::Broken;
use crate::wire::Status;

/// What is wrong with the switch now, each as a sentence.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// It is not there, or refuses the rules: it translates nothing.
    translates_nothing: Option<String>,
    /// It refuses sessions.
    refuses_sessions: Option<String>,
}

impl Troubles {
    /// Returns the sentences. What does not translate has no other trouble.
    pub fn now(&self) -> Option<&str> {
        let first = self.translates_nothing.as_ref();
        first.or(self.refuses_sessions.as_ref()).map(String::as_str)
    }
}

/// What was said last.
#[derive(Debug)]
pub struct Said {
    /// The socket.
    path: PathBuf,
    /// The switch is there, or not.
    is_there: Option<bool>,
    /// What still holds.
    pub troubles: Troubles,
}

impl Said {
    /// Nothing yet.
    pub fn nothing(path: PathBuf) -> Said {
        Said {
            path,
            is_there: None,
            troubles: Troubles::default(),
        }
    }

    /// The switch is not there, once more or still.
    pub fn is_gone(&mut self, broken: &Broken) {
        if self.is_there == Some(false) {
            return;
        }
        self.is_there = Some(false);
        let path = self.path.display();
        let text = format!(
            "the switch at {path} is not there ({broken}): the slow path translates until it is"
        );
        tracing::warn!("{text}");
        self.troubles.translates_nothing = Some(text);
    }

    /// It has rules and sessions.
    pub fn translates(&mut self, rules: usize, sessions: usize) {
        let path = self.path.display();
        tracing::info!("the switch at {path} translates: {rules} rules, {sessions} sessions");
        self.is_there = Some(true);
        self.troubles.translates_nothing = None;
    }

    /// It is there, and has been emptied.
    pub fn refuses_rules(&mut self, rules: usize, (table, status): (&str, Status)) {
        let path = self.path.display();
        let why = status.describe();
        let text = format!(
            "the switch at {path} refuses {rules} rules (table {table}: {why}): the slow path translates until there are others"
        );
        tracing::warn!("{text}");
        self.is_there = Some(true);
        self.troubles.translates_nothing = Some(text);
    }

    /// It has refused sessions, or has taken some again.
    pub fn takes_sessions(&mut self, refused: Option<Status>, has_put: bool, sessions: usize) {
        let path = self.path.display();
        match (refused, &self.troubles.refuses_sessions) {
            (Some(status), None) => {
                let text = format!(
                    "the switch at {path} refuses sessions ({}), and has {sessions}: the slow path translates those \
                     (p4.refused counts them)",
                    status.describe()
                );
                tracing::warn!("{text}");
                self.troubles.refuses_sessions = Some(text);
            }
            (None, Some(_)) if has_put => {
                tracing::info!("the switch at {path} takes sessions again");
                self.troubles.refuses_sessions = None;
            }
            _ => {}
        }
    }
}
