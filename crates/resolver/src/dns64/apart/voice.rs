// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the process logs, told by its keeper: it reads strangers' questions, and nobody may take its words for those of the
//! translator. Lines are bounded in length and number, and begin with whose they are.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::time::Instant;

/// The longest line that is told, bytes.
const LINE: u64 = 1024;
/// Lines that are told in a [`WHILE`]; the others are counted.
const LINES: u32 = 50;
const WHILE: Duration = Duration::from_secs(1);

/// Tells line by line until the process closes its end. It is read to its end, so that a full pipe never holds it up.
pub async fn pass_on(log: impl AsyncRead + Unpin, tell: impl Fn(tracing::Level, &str)) {
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    let (mut begin, mut told, mut left_out) = (Instant::now(), 0, 0_u64);
    loop {
        line.clear();
        let read = (&mut log).take(LINE).read_until(b'\n', &mut line).await;
        let is_over = !read.is_ok_and(|n| n > 0);
        if begin.elapsed() >= WHILE || is_over {
            if left_out > 0 {
                let text = format!("{left_out} more lines were dropped");
                tell(tracing::Level::WARN, &text);
            }
            (begin, told, left_out) = (Instant::now(), 0, 0);
        }
        if is_over {
            return;
        }
        match told < LINES {
            true => {
                told += 1;
                let (level, text) = parts(&line);
                tell(level, &text);
            }
            false => left_out += 1,
        }
    }
}

/// Writes it to this process's log.
pub fn tell(level: tracing::Level, text: &str) {
    match level {
        tracing::Level::ERROR => tracing::error!("process dns64: {text}"),
        tracing::Level::WARN => tracing::warn!("process dns64: {text}"),
        tracing::Level::INFO => tracing::info!("process dns64: {text}"),
        _ => tracing::debug!("process dns64: {text}"),
    }
}

/// The level of a line, and what it says, without what moves a terminal's cursor. What has no level, such as the words of a
/// panic, is a warning.
fn parts(line: &[u8]) -> (tracing::Level, String) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    let (level, said) = match text
        .split_once(' ')
        .map(|(word, rest)| (word.parse(), rest))
    {
        Some((Ok(level), rest)) => (level, rest),
        _ => (tracing::Level::WARN, text),
    };
    let plain = |c: char| match c.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    (level, said.trim_start().chars().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    async fn told(log: &[u8]) -> Vec<(tracing::Level, String)> {
        let told = RefCell::new(Vec::new());
        pass_on(log, |level, text| {
            told.borrow_mut().push((level, text.to_owned()));
        })
        .await;
        told.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn lines_keep_their_level_and_lose_what_moves_the_cursor() {
        let log = b" WARN a connection\n\x1b[2Kready: nat64 on diolkos0\r\nERROR it \x07broke";
        let expected = [
            (tracing::Level::WARN, "a connection".to_owned()),
            (
                tracing::Level::WARN,
                "\u{fffd}[2Kready: nat64 on diolkos0".to_owned(),
            ),
            (tracing::Level::ERROR, "it \u{fffd}broke".to_owned()),
        ];
        assert_eq!(told(log).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_counted_and_a_long_line_cut() {
        let log = "x\n".repeat(1000) + &"y".repeat(5000);
        let told = told(log.as_bytes()).await;
        assert_eq!(told.len() as u32, LINES + 1);
        assert_eq!(told[LINES as usize].1, "955 more lines were dropped");
        let long = super::parts(&[b'y'; LINE as usize]).1;
        assert_eq!(long.len() as u64, LINE);
    }
}
