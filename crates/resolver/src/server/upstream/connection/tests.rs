// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection without TLS in front of servers that answer in any order, late, wrongly or not at all.

use std::future::Future;

use diolkos_dns64::wire::{Name, Question, Rtype};
use futures_util::stream::FuturesUnordered;
use futures_util::StreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{duplex, DuplexStream};
use tokio::time::advance;

use crate::dns_over_tcp::framed;

use super::*;

/// Bytes on the way between both ends.
const ROOM: usize = 1 << 20;
const PIPELINE: usize = 1024;
const PATIENCE: Duration = Duration::from_millis(1500);

/// A connection that is served, the server's end of it, and the counters.
struct Stand {
    connection: Rc<Connection>,
    tally: Rc<QueryCounters>,
    ids: Ids,
}

impl Stand {
    fn new() -> (Stand, DuplexStream, impl Future<Output = String>) {
        let (connection, questions) = Connection::new(PIPELINE);
        let stand = Stand {
            connection: Rc::new(connection),
            tally: Rc::default(),
            ids: Ids::new().expect("random numbers"),
        };
        let (ours, theirs) = duplex(ROOM);
        let (connection, tally) = (stand.connection.clone(), stand.tally.clone());
        let served = async move {
            let why = connection.serve(ours, questions, &tally).await;
            connection.end(&why);
            why
        };
        (stand, theirs, served)
    }

    async fn ask(&self, name: &str) -> Option<Vec<u8>> {
        let ask = ask(name);
        let write = |id| {
            let mut query = Vec::new();
            diolkos_dns64::exchange::write(&ask, id, 1232, &mut query);
            framed(&query)
        };
        self.connection.ask(&ask, &self.ids, write).await
    }

    fn counted(&self, name: &str) -> u64 {
        let counters = self.tally.counters();
        let name = format!("dns64.{name}");
        let counter = counters.iter().find(|counter| counter.name == name);
        counter.expect("a counter").packets
    }
}

fn ask(name: &str) -> Ask {
    let name = Name::vec_from_str(name).expect("a name");
    Ask {
        question: Question::new_in(name, Rtype::AAAA),
        dnssec_ok: false,
        checking_disabled: false,
    }
}

/// The answer to a question, which has no records.
fn reply_to(question: &[u8]) -> Vec<u8> {
    let mut reply = question.to_vec();
    reply[2] |= 0x80;
    reply
}

fn name_of(message: &[u8]) -> String {
    let message = Message::parse(message).expect("a message");
    message.question.expect("a question").qname().to_string()
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_any_order() {
    let (stand, mut server, served) = Stand::new();
    let answers_backwards = async {
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(read_message(&mut server).await.expect("a question"));
        }
        for question in asked.iter().rev() {
            let reply = framed(&reply_to(question));
            server.write_all(&reply).await.expect("it is read");
        }
        server
    };
    let asking = async {
        tokio::join!(
            stand.ask("a.example"),
            stand.ask("b.example"),
            stand.ask("c.example")
        )
    };
    let done = async { tokio::join!(asking, answers_backwards) };
    let ((a, b, c), _server) = tokio::select! {
        done = done => done,
        why = served => panic!("{why}"),
    };
    for (reply, name) in [(a, "a.example"), (b, "b.example"), (c, "c.example")] {
        assert_eq!(name_of(&reply.expect("an answer")), name);
    }
    assert!(stand.connection.has_answered());
}

#[tokio::test(start_paused = true)]
async fn what_answers_nothing_is_counted_and_then_ends_it() {
    let (stand, mut server, served) = Stand::new();
    let lies = async {
        let question = read_message(&mut server).await.expect("a question");
        let good = reply_to(&question);
        let mut other_id = good.clone();
        other_id[0] ^= 1;
        let mut other_question = good.clone();
        other_question[13] ^= 1;
        // A question is no answer, and neither is an empty message.
        let wrong = [other_id, other_question, question, vec![0; HEADER]];
        for lie in wrong.iter().chain(&wrong) {
            server.write_all(&framed(lie)).await.expect("it is read");
        }
        server
    };
    let (reply, why, _server) = tokio::join!(stand.ask("a.example"), served, lies);
    assert_eq!(reply, None, "none of them was taken");
    assert_eq!(why, "it sends answers to no question");
    assert_eq!(stand.counted("upstream.unexpected"), u64::from(MOST_WRONG));
    assert!(!stand.connection.has_answered());
    assert!(!stand.connection.takes_questions(PATIENCE));
    assert_eq!(
        stand.ask("b.example").await,
        None,
        "nothing more is asked on it"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_ends_it() {
    for (bytes, said) in [
        (&b"\0\x03abc"[..], "it sends messages shorter than a header"),
        (b"\0\0", "it sends messages shorter than a header"),
        (
            b"\xff\xffbeginning of a long message",
            "it closed the connection",
        ),
        (b"\0", "it closed the connection"),
        (b"", "it closed the connection"),
    ] {
        let (stand, mut server, served) = Stand::new();
        let speaks = async {
            read_message(&mut server).await.expect("a question");
            server.write_all(bytes).await.expect("it is read");
            drop(server);
        };
        let (reply, why, ()) = tokio::join!(stand.ask("a.example"), served, speaks);
        assert_eq!((reply, why.as_str()), (None, said));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_question_that_was_given_up_is_late() {
    let (stand, mut server, served) = Stand::new();
    let slow = async {
        let first = read_message(&mut server).await.expect("a question");
        let second = read_message(&mut server).await.expect("another one");
        for question in [first, second] {
            let reply = framed(&reply_to(&question));
            server.write_all(&reply).await.expect("it is read");
        }
        server
    };
    let asking = async {
        assert!(timeout(PATIENCE, stand.ask("a.example")).await.is_err());
        stand.ask("b.example").await
    };
    let (reply, _server) = tokio::select! {
        done = async { tokio::join!(asking, slow) } => done,
        why = served => panic!("{why}"),
    };
    assert_eq!(name_of(&reply.expect("an answer")), "b.example");
    assert_eq!(stand.counted("upstream.late"), 1);
    assert_eq!(stand.counted("upstream.unexpected"), 0);
}

/// A connection that the server has lost, as one without power does, tells nothing by itself.
#[tokio::test(start_paused = true)]
async fn silence_ends_it_only_where_something_was_asked() {
    let (stand, server, served) = Stand::new();
    let asking = async {
        // Without a question there is no silence of the server.
        advance(IDLE - LOOK).await;
        let asked = timeout(PATIENCE / 4, stand.ask("a.example")).await;
        assert!(asked.is_err());
        stand.connection.end_if_silent(PATIENCE / 2);
        assert!(stand.connection.takes_questions(Duration::MAX), "too early");
        let asked = timeout(PATIENCE / 2, stand.ask("b.example")).await;
        assert!(asked.is_err());
        stand.connection.end_if_silent(PATIENCE / 2);
        assert!(!stand.connection.takes_questions(Duration::MAX));
    };
    let (why, ()) = tokio::join!(served, asking);
    assert_eq!(why, "does not answer");
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn an_idle_one_is_closed() {
    let (stand, mut server, served) = Stand::new();
    let begin = Instant::now();
    let speaks = async {
        let question = read_message(&mut server).await.expect("a question");
        let reply = framed(&reply_to(&question));
        server.write_all(&reply).await.expect("it is read");
        // It waits for the end.
        server.read_u16().await.expect_err("nothing more is asked")
    };
    let (reply, why, error) = tokio::join!(stand.ask("a.example"), served, speaks);
    assert!(reply.is_some());
    assert_eq!(why, "it was idle");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!((IDLE..=IDLE + LOOK).contains(&begin.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn only_so_many_are_in_flight() {
    let (stand, mut server, served) = Stand::new();
    let mut asking: FuturesUnordered<_> = (0..PIPELINE + 2)
        .map(|number| {
            let (stand, name) = (&stand, format!("n{number}.example"));
            async move { stand.ask(&name).await }
        })
        .collect();
    let counts = async {
        let mut asked = Vec::new();
        while let Ok(question) = timeout(LOOK / 2, read_message(&mut server)).await {
            asked.push(question.expect("a question"));
        }
        assert_eq!(asked.len(), PIPELINE);
        let reply = framed(&reply_to(&asked[7]));
        server.write_all(&reply).await.expect("it is read");
        let next = read_message(&mut server).await.expect("a place was free");
        assert!(!asked.contains(&next));
        let none = timeout(LOOK / 2, read_message(&mut server)).await;
        assert!(none.is_err(), "only one");
    };
    let drives = async {
        let first = asking.next().await.flatten();
        assert!(first.is_some());
        asking.next().await
    };
    tokio::select! {
        () = counts => {}
        _ = drives => panic!("only one was answered"),
        why = served => panic!("{why}"),
    }
}

/// A server that leaves most questions without an answer, but says something: the memory for them has a bound.
#[tokio::test(start_paused = true)]
async fn questions_that_were_given_up_are_bounded() {
    let (stand, mut server, served) = Stand::new();
    let reads = async { while read_message(&mut server).await.is_ok() {} };
    let asks = async {
        let mut asked = 0;
        while stand.connection.takes_questions(Duration::MAX) {
            let _ = timeout(Duration::from_millis(1), stand.ask("a.example")).await;
            asked += 1;
            assert!(stand.connection.asked.borrow().len() <= MOST_GIVEN_UP + PIPELINE);
        }
        asked
    };
    let (why, asked, ()) = tokio::join!(served, asks, reads);
    assert_eq!(why, "leaves too many questions without an answer");
    assert_eq!(asked, MOST_GIVEN_UP + PIPELINE + 1);
}

/// The messages in a stream, and whether what follows them is too short to be one: by indexing.
fn naive(stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (mut at, mut found) = (0, Vec::new());
    while at + 2 <= stream.len() {
        let length = usize::from(stream[at]) << 8 | usize::from(stream[at + 1]);
        if length < 12 {
            return (found, true);
        }
        if at + 2 + length > stream.len() {
            break;
        }
        found.push(stream[at + 2..at + 2 + length].to_vec());
        at += 2 + length;
    }
    (found, false)
}

/// Streams of which some are whole messages, some are cut, and some are anything.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let message = vec(any::<u8>(), 10..80).prop_map(|bytes| framed(&bytes));
    let whole = vec(message, 0..6).prop_map(|all| all.concat());
    (whole, vec(any::<u8>(), 0..40)).prop_map(|(mut whole, more)| {
        whole.extend(more);
        whole
    })
}

proptest! {
    /// However the bytes are divided into pieces on their way.
    #[test]
    fn messages_are_found_in_any_stream(bytes in stream(), pieces in vec(1usize..30, 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (found, last) = runtime.expect("a runtime").block_on(async {
            let (mut write, mut read) = duplex(16);
            let writes = async {
                let (mut rest, mut pieces) = (&bytes[..], pieces.iter().cycle());
                while !rest.is_empty() {
                    let next = rest.len().min(*pieces.next().expect("it has no end"));
                    // The reader has stopped at what is no message.
                    if write.write_all(&rest[..next]).await.is_err() {
                        break;
                    }
                    rest = &rest[next..];
                }
                drop(write);
            };
            let reads = async {
                let mut found = Vec::new();
                loop {
                    match read_message(&mut read).await {
                        Ok(message) => found.push(message),
                        Err(error) => {
                            drop(read);
                            return (found, error.kind());
                        }
                    }
                }
            };
            tokio::join!(writes, reads).1
        });
        let (expected, is_short) = naive(&bytes);
        prop_assert_eq!(found, expected);
        let kind = match is_short {
            true => io::ErrorKind::InvalidData,
            false => io::ErrorKind::UnexpectedEof,
        };
        prop_assert_eq!(last, kind);
    }
}
