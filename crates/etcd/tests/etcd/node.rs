// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node that makes one request at a time.

use std::thread::sleep;
use std::time::Duration;

use diolkos_etcd::{Answers, Client, Settings, Status};
use diolkos_node::record::{Answer, Outcome, Request};
use diolkos_node::NodeId;

use crate::member::until;

/// A client with its answers.
pub struct Node {
    client: Client,
    answers: Answers,
    token: u64,
    pub me: NodeId,
}

/// Returns the names of the nodes.
pub fn names() -> Vec<String> {
    ["gw-a", "gw-b", "gw-c"].map(String::from).into()
}

/// Returns the settings of the node `gw-a` without encryption.
pub fn plain(servers: &[&str]) -> Settings {
    let servers = servers.iter().map(|&text| text.to_owned()).collect();
    Settings {
        plaintext: true,
        ..Settings::new(servers, "c1", NodeId(0), names())
    }
}

impl Node {
    pub fn start(settings: Settings) -> Node {
        let me = settings.me;
        let (client, answers) = Client::start(settings).unwrap();
        Node {
            client,
            answers,
            token: 0,
            me,
        }
    }

    /// Makes a request. Returns None if there is no answer.
    pub fn ask(&mut self, request: Request) -> Option<Answer> {
        let unanswered = self.client.status().unanswered;
        self.token += 1;
        self.client.ask(self.token, request).unwrap();
        loop {
            if let Ok((token, answer)) = self.answers.try_recv() {
                assert_eq!(token, self.token);
                return Some(answer);
            }
            if self.client.status().unanswered > unanswered {
                return None;
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Repeats a request until there is an answer.
    pub fn insist(&mut self, request: Request) -> Answer {
        let mut answer = None;
        let what = format!("{request:?} {:?}", self.status());
        until(&what, || {
            answer = self.ask(request.clone());
            answer.is_some()
        });
        answer.unwrap()
    }

    /// Reads its own record until there is an answer.
    pub fn read(&mut self) -> Answer {
        self.insist(Request::Read(self.me))
    }

    pub fn write(&mut self, revision: u64, bytes: &[u8]) -> Option<Answer> {
        self.ask(Request::Write(revision, bytes.into()))
    }

    /// Reads and writes until a write is accepted.
    pub fn store(&mut self, bytes: &[u8]) -> Answer {
        let mut answer = None;
        until("a write", || {
            let Outcome::Value(value) = self.read().outcome else {
                panic!("no value");
            };
            answer = self.write(value.map_or(0, |(revision, _)| revision), bytes);
            matches!(
                answer.as_ref().map(|a| &a.outcome),
                Some(Outcome::Written(_))
            )
        });
        answer.unwrap()
    }

    pub fn status(&self) -> Status {
        self.client.status()
    }

    /// Makes one request, expects no answer, and returns the reason.
    pub fn reason(&mut self) -> String {
        assert_eq!(self.ask(Request::Read(self.me)), None);
        self.status().reason.unwrap()
    }
}
