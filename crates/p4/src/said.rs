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

/// A line for the log. Who made it logs it, once it holds no lock that others wait for: a log may be a full pipe.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub enum Line {
    /// A trouble begins.
    Warning(String),
    /// It ends.
    Info(String),
}

impl Line {
    /// Writes it to the log, which may take any time.
    pub fn log(self) {
        match self {
            Line::Warning(text) => tracing::warn!("{text}"),
            Line::Info(text) => tracing::info!("{text}"),
        }
    }
}

/// What was said last. Nothing here writes to the log.
#[derive(Debug)]
pub struct Said {
    /// The socket.
    path: PathBuf,
    /// What still holds.
    pub troubles: Troubles,
    /// True while no switch serves the socket. Different errors show this, so a change of the error is not logged.
    is_absent: bool,
}

impl Said {
    /// Nothing yet.
    pub fn nothing(path: PathBuf) -> Said {
        Said {
            path,
            troubles: Troubles::default(),
            is_absent: false,
        }
    }

    /// The switch is not there, once more or still. The reason may change: only a switch that is there can lack a port.
    pub fn is_gone(&mut self, broken: &Broken) -> Option<Line> {
        let path = self.path.display();
        let text = format!(
            "the switch at {path} is not there ({broken}): the slow path translates until it is"
        );
        self.translates_nothing(text, broken.is_absence())
    }

    /// It has rules and sessions. It has taken the rules empty, so it has refused none of these sessions yet.
    pub fn translates(&mut self, rules: usize, sessions: usize) -> Line {
        let path = self.path.display();
        self.troubles = Troubles::default();
        Line::Info(format!(
            "the switch at {path} translates: {rules} rules, {sessions} sessions"
        ))
    }

    /// It is there, and has been emptied.
    pub fn refuses_rules(&mut self, rules: usize, (table, status): (&str, Status)) -> Option<Line> {
        let path = self.path.display();
        let why = status.describe();
        let text = format!(
            "the switch at {path} refuses {rules} rules (table {table}: {why}): the slow path translates until there are others"
        );
        self.translates_nothing(text, false)
    }

    /// It has refused sessions, or has taken some again.
    pub fn takes_sessions(
        &mut self,
        refused: Option<Status>,
        has_put: bool,
        sessions: usize,
    ) -> Option<Line> {
        let path = self.path.display();
        match (refused, &self.troubles.refuses_sessions) {
            (Some(status), None) => {
                let text = format!(
                    "the switch at {path} refuses sessions ({}), and has {sessions}: the slow path translates those \
                     (p4.refused counts them)",
                    status.describe()
                );
                self.troubles.refuses_sessions = Some(text.clone());
                Some(Line::Warning(text))
            }
            (None, Some(_)) if has_put => {
                self.troubles.refuses_sessions = None;
                Some(Line::Info(format!(
                    "the switch at {path} takes sessions again"
                )))
            }
            _ => None,
        }
    }

    /// Returns nothing if the same was said last.
    fn translates_nothing(&mut self, text: String, is_absent: bool) -> Option<Line> {
        let said = self.troubles.translates_nothing.replace(text.clone());
        let was_absent = std::mem::replace(&mut self.is_absent, is_absent);
        let is_known = said.is_some_and(|said| said == text || (was_absent && is_absent));
        (!is_known).then_some(Line::Warning(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Broken {
        Broken::Io(std::io::Error::other(text.to_owned()))
    }

    fn text(line: Option<Line>) -> String {
        match line.expect("there is something to log") {
            Line::Warning(text) | Line::Info(text) => text,
        }
    }

    #[test]
    fn another_reason_why_it_does_not_translate_is_said_too() {
        let mut said = Said::nothing("switch.sock".into());
        let absent = text(said.is_gone(&Broken::Closed));
        let no_file = Broken::Io(std::io::ErrorKind::NotFound.into());
        let refused = Broken::Io(std::io::ErrorKind::ConnectionRefused.into());
        for still in [&no_file, &refused, &no_file] {
            assert_eq!(said.is_gone(still), None);
            let now = said.troubles.now().expect("it is a trouble");
            assert!(now.contains(&still.to_string()), "{now}");
        }
        let narrow = text(said.is_gone(&broken("it has 1 pairs of ports")));
        assert!(narrow.contains("1 pairs"), "{narrow}");
        assert_eq!(said.troubles.now(), Some(narrow.as_str()));
        assert_eq!(said.is_gone(&broken("it has 1 pairs of ports")), None);
        let _ = said.translates(3, 0);
        assert_eq!(said.troubles.now(), None);
        assert_eq!(text(said.is_gone(&Broken::Closed)), absent);
    }

    #[test]
    fn an_emptied_switch_refuses_no_sessions() {
        let mut said = Said::nothing("switch.sock".into());
        let refused = Some(Status::Full);
        let full = text(said.takes_sessions(refused, true, 8));
        assert_eq!(said.takes_sessions(refused, true, 8), None);
        assert_eq!(said.troubles.now(), Some(full.as_str()));
        assert!(said.is_gone(&broken("gone")).is_some());
        // All sessions have ended meanwhile.
        let _ = said.translates(3, 0);
        assert_eq!(said.troubles.now(), None);
        assert_eq!(said.takes_sessions(None, true, 1), None);
        assert!(said.takes_sessions(refused, true, 8).is_some());
    }
}
