// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A service and callers that speak the documented protocol at a socket.

use std::fs;
use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::*;
use crate::translator::State;
use diolkos_service::supervise;

/// The most connections of root, and the longest call in bytes, as docs/control.md promises them.
const CONNECTIONS: usize = 32;
const LONGEST: usize = 64 << 10;

struct Stand {
    path: PathBuf,
    control: Control,
}

impl Stand {
    fn new(name: &str) -> Stand {
        let file = format!("diolkos-serve-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(file);
        // A socket left over from an earlier run.
        drop(StdListener::bind(&path).expect("it is free"));
        let listener = varlink::bind(&path, Readers::default()).expect("it is replaced");
        let control = Control::start(
            listener,
            Readers::default(),
            Status::starting("nat64", "x"),
            None,
            &supervise::pair().0,
        );
        Stand { path, control }
    }

    async fn connect(&self) -> BufReader<UnixStream> {
        BufReader::new(UnixStream::connect(&self.path).await.expect("it listens"))
    }

    async fn asker(&self, request: &str) -> BufReader<UnixStream> {
        let mut stream = self.connect().await;
        send(&mut stream, request).await;
        stream
    }

    fn free(&self) -> usize {
        self.control.serving.as_ref().expect("it serves").free()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        fs::remove_file(&self.path).expect("it is there");
    }
}

/// The text of a call without parameters.
fn of(method: &str, flags: &str) -> String {
    format!("{{\"method\":\"org.diolkos.Translator.{method}\"{flags}}}\0")
}

async fn send(stream: &mut BufReader<UnixStream>, text: &str) {
    stream
        .write_all(text.as_bytes())
        .await
        .expect("it is taken");
}

/// The next reply; null if the connection is closed.
async fn reply(stream: &mut BufReader<UnixStream>) -> Value {
    let mut text = Vec::new();
    let _ = stream.read_until(0, &mut text).await;
    match text.pop() {
        Some(0) => serde_json::from_slice(&text).expect("it is JSON"),
        _ => Value::Null,
    }
}

#[tokio::test]
async fn who_asks_slowly_holds_up_nobody() {
    let mut stand = Stand::new("slow");
    let (begin, end) = ("{\"method\":\"org.diolkos", ".Translator.Config\"}\0");
    let mut slow = stand.asker(begin).await;
    let mut quick = stand.asker(&of("Stop", "")).await;
    let question = stand.control.next().await;
    assert_eq!(question.request, Request::Stop);
    question.answer(Answer::Done);
    assert_eq!(reply(&mut quick).await, json!({ "parameters": {} }));
    send(&mut slow, end).await;
    let question = stand.control.next().await;
    assert_eq!(question.request, Request::Config);
    question.answer(Answer::Config("a".to_owned()));
    assert_eq!(
        reply(&mut slow).await,
        json!({ "parameters": { "toml": "a" } })
    );
}

#[tokio::test]
async fn who_does_not_read_holds_up_nobody() {
    let mut stand = Stand::new("deaf");
    let _deaf = stand.asker(&of("Config", "")).await;
    let long = "x".repeat(16 << 20);
    stand.control.next().await.answer(Answer::Config(long));
    let mut other = stand.asker(&of("Reload", "")).await;
    stand.control.next().await.answer(Answer::Reloaded);
    assert_eq!(reply(&mut other).await, json!({ "parameters": {} }));
    assert_eq!(stand.free(), CONNECTIONS - 2);
}

#[tokio::test]
async fn calls_of_a_connection_are_answered_in_their_order() {
    let mut stand = Stand::new("order");
    let both = of("Reload", "") + &of("Status", "") + &of("Config", "");
    let mut asker = stand.asker(&both).await;
    stand.control.next().await.answer(Answer::Reloaded);
    assert_eq!(reply(&mut asker).await, json!({ "parameters": {} }));
    assert_eq!(
        reply(&mut asker).await["parameters"]["status"]["reloads"],
        1
    );
    let question = stand.control.next().await;
    assert_eq!(question.request, Request::Config);
    question.answer(Answer::Failed("no".to_owned()));
    let expected =
        json!({ "error": "org.diolkos.Translator.Failed", "parameters": { "reason": "no" } });
    assert_eq!(reply(&mut asker).await, expected);
}

#[tokio::test]
async fn a_request_whose_asker_has_gone_is_not_carried_out() {
    let mut stand = Stand::new("gone");
    drop(stand.asker(&of("Stop", "")).await);
    let mut stays = stand.asker(&of("Config", "")).await;
    let question = stand.control.next().await;
    assert_eq!(question.request, Request::Config);
    question.answer(Answer::Done);
    assert_eq!(reply(&mut stays).await, json!({ "parameters": {} }));
}

#[tokio::test]
async fn a_request_that_waits_in_line_is_not_carried_out_either() {
    let mut stand = Stand::new("waiting");
    let goes = stand.asker(&of("Stop", "")).await;
    // The request is in the queue, as when the program is busy with another one.
    while stand.control.questions.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(goes);
    let _stays = stand.asker(&of("Config", "")).await;
    assert_eq!(stand.control.next().await.request, Request::Config);
}

#[tokio::test]
async fn who_wants_no_answer_gets_none_and_may_go() {
    let mut stand = Stand::new("oneway");
    drop(stand.asker(&of("Reload", ",\"oneway\":true")).await);
    let question = stand.control.next().await;
    assert_eq!(question.request, Request::Reload);
    question.answer(Answer::Failed("nobody hears it".to_owned()));
    let mixed = of("Nonsense", ",\"oneway\":true") + &of("Status", "");
    let mut stays = stand.asker(&mixed).await;
    assert_eq!(
        reply(&mut stays).await["parameters"]["status"]["mode"],
        "nat64"
    );
}

#[tokio::test]
async fn followers_hear_of_changes_and_of_the_end() {
    let mut stand = Stand::new("follow");
    let mut unwilling = stand.asker(&of("Follow", "")).await;
    let expected = "org.varlink.service.ExpectedMore";
    assert_eq!(reply(&mut unwilling).await["error"], expected);
    let mut follower = stand.asker(&of("Follow", ",\"more\":true")).await;
    let first = reply(&mut follower).await;
    assert_eq!(first["continues"], true);
    assert_eq!(first["parameters"]["status"]["state"], "starting");
    let ready = Condition {
        state: State::Ready,
        ..Condition::default()
    };
    stand.control.publish(ready.clone());
    assert_eq!(
        reply(&mut follower).await["parameters"]["status"]["state"],
        "ready"
    );
    stand.control.publish(ready);
    stand.control.finish().await;
    assert_eq!(reply(&mut follower).await, Value::Null);
}

#[tokio::test]
async fn followers_leave_room_for_commands() {
    let mut stand = Stand::new("followers");
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let mut follower = stand.asker(&of("Follow", ",\"more\":true")).await;
        assert_eq!(reply(&mut follower).await["continues"], true);
        followers.push(follower);
    }
    let mut late = stand.asker(&of("Follow", ",\"more\":true")).await;
    assert_eq!(
        reply(&mut late).await["error"],
        "org.diolkos.Translator.Busy"
    );
    let mut command = stand.asker(&of("Stop", "")).await;
    stand.control.next().await.answer(Answer::Done);
    assert_eq!(reply(&mut command).await, json!({ "parameters": {} }));
}

#[tokio::test]
async fn long_answers_come_in_parts_to_those_who_take_them() {
    let mut stand = Stand::new("parts");
    for (flags, expected) in [
        (",\"more\":true", &[PART, PART, 500][..]),
        ("", &[2 * PART + 500]),
    ] {
        let mut asker = stand.asker(&of("Bindings", flags)).await;
        let row =
            json!({ "protocol": "udp", "v6": "", "v4": "", "sessions": 1, "origin": "dynamic" });
        let row = serde_json::from_value(row).expect("it is a row");
        let entries = vec![row; 2 * PART + 500];
        let total = 7000;
        let answer = Answer::Bindings(Entries { entries, total });
        stand.control.next().await.answer(answer);
        for (at, count) in expected.iter().enumerate() {
            let reply = reply(&mut asker).await;
            let entries = reply["parameters"]["entries"].as_array().map(Vec::len);
            assert_eq!(entries, Some(*count));
            assert_eq!(reply["parameters"]["total"], 7000);
            let continues = reply.get("continues").is_some();
            assert_eq!(continues, at + 1 < expected.len());
        }
    }
}

#[tokio::test]
async fn a_call_has_a_greatest_length() {
    let stand = Stand::new("long");
    let mut asker = stand.connect().await;
    let endless = vec![b'x'; LONGEST];
    asker.write_all(&endless).await.expect("it is taken");
    assert_eq!(reply(&mut asker).await, Value::Null);
    assert!(stand.control.questions.is_empty());
}

#[tokio::test]
async fn what_is_no_call_closes_the_connection() {
    let stand = Stand::new("nonsense");
    let both = of("Reload", ",\"oneway\":true,\"more\":true");
    let deep = "[".repeat(LONGEST - 2) + "\0";
    for nonsense in ["{\"stop\":1}\0", "\0", "nothing\0", &both, &deep] {
        let mut asker = stand.asker(nonsense).await;
        assert_eq!(
            reply(&mut asker).await,
            Value::Null,
            "{}",
            &nonsense[..10.min(nonsense.len())]
        );
    }
    assert!(stand.control.questions.is_empty());
}

#[tokio::test]
async fn errors_are_those_of_the_protocol() {
    let stand = Stand::new("errors");
    let mut asker = stand.connect().await;
    for (call, error, parameters) in [
        (
            "{\"method\":\"org.example.More.Ping\"}\0".to_owned(),
            "InterfaceNotFound",
            json!({ "interface": "org.example.More" }),
        ),
        (
            of("Ping", ""),
            "MethodNotFound",
            json!({ "method": "org.diolkos.Translator.Ping" }),
        ),
        (
            of("Stop", ",\"parameters\":{\"now\":true}"),
            "InvalidParameter",
            json!({ "parameter": "now" }),
        ),
        (
            of("Status", ",\"upgrade\":true"),
            "InvalidParameter",
            json!({ "parameter": "upgrade" }),
        ),
    ] {
        send(&mut asker, &call).await;
        let error = format!("org.varlink.service.{error}");
        let expected = json!({ "error": error, "parameters": parameters });
        assert_eq!(reply(&mut asker).await, expected);
    }
}

#[tokio::test]
async fn it_describes_itself() {
    let stand = Stand::new("describes");
    let mut asker = stand.connect().await;
    send(&mut asker, "{\"method\":\"org.varlink.service.GetInfo\"}\0").await;
    let info = reply(&mut asker).await;
    let expected = json!(["org.varlink.service", "org.diolkos.Translator"]);
    assert_eq!(info["parameters"]["interfaces"], expected);
    for name in ["org.varlink.service", "org.diolkos.Translator"] {
        let call = format!(
            "{{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":{{\"interface\":\"{name}\"}}}}\0"
        );
        send(&mut asker, &call).await;
        let description = reply(&mut asker).await;
        let text = description["parameters"]["description"].as_str();
        assert!(text.is_some_and(|text| text.contains(&format!("\ninterface {name}\n"))));
    }
}

#[tokio::test]
async fn connections_are_bounded_and_end() {
    let mut stand = Stand::new("many");
    // These callers send nothing, and one of them waits in the kernel's queue.
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS + 1 {
        silent.push(stand.connect().await);
    }
    while stand.free() > 0 {
        tokio::task::yield_now().await;
    }
    let mut last = stand.asker(&of("Stop", "")).await;
    drop(silent);
    stand.control.next().await.answer(Answer::Done);
    assert_eq!(reply(&mut last).await, json!({ "parameters": {} }));
}

#[tokio::test]
async fn the_last_answer_is_read_before_the_end() {
    let mut stand = Stand::new("last");
    let mut idle = stand.connect().await;
    let mut asker = stand.asker(&of("Stop", "")).await;
    stand.control.next().await.answer(Answer::Done);
    stand.control.finish().await;
    assert_eq!(reply(&mut asker).await, json!({ "parameters": {} }));
    assert_eq!(
        idle.read_u8().await.map_err(|e| e.kind()),
        Err(io::ErrorKind::UnexpectedEof)
    );
}
