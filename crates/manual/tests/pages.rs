// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages have the expected sections, and their examples are commands that the program accepts.

use clap::{Command, CommandFactory};
use diolkos_manual::{examples, pages, ADMINISTRATION};

fn text(name: &str) -> String {
    let pages = pages::of(&diolkos::manual::command(), ADMINISTRATION).expect("pages");
    let (_, page) = pages
        .into_iter()
        .find(|(file, _)| file == name)
        .expect(name);
    String::from_utf8(page).expect("UTF-8")
}

#[test]
fn pages_have_examples_files_exit_codes_and_other_pages() {
    for name in ["diolkos.8", "diolkos-show.8", "diolkos-session-del.8"] {
        let page = text(name);
        for heading in [
            "NAME",
            "SYNOPSIS",
            "EXAMPLES",
            "EXIT STATUS",
            "FILES",
            "SEE ALSO",
        ] {
            let quoted = format!(".SH \"{heading}\"\n");
            let plain = format!(".SH {heading}\n");
            assert!(
                page.contains(&quoted) || page.contains(&plain),
                "{name}: {heading}"
            );
        }
        assert!(!page.contains("EXTRA"), "{name}");
        assert!(page.contains("diolkos.toml"), "{name}");
        assert!(page.contains("diolkos\\-clat@.service"), "{name}");
        assert!(
            page.starts_with(".ie") || page.contains(" 8 "),
            "{name}: section 8"
        );
    }
}

fn leaves(command: &Command, name: &str, found: &mut Vec<String>) {
    let mut below = command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .peekable();
    if below.peek().is_none() {
        found.push(name.to_owned());
    }
    for one in below {
        leaves(one, &format!("{name}-{}", one.get_name()), found);
    }
}

#[test]
fn each_command_has_an_example() {
    for command in [
        diolkos::manual::command(),
        diolkos_pktgen::cli::Cli::command(),
    ] {
        let mut names = Vec::new();
        if command.get_name() == "diolkos" {
            leaves(&command, "diolkos", &mut names);
        }
        for name in names {
            assert!(!examples::of(&name).is_empty(), "{name}");
        }
    }
}

#[test]
fn each_example_is_a_command() {
    for (page, examples) in examples::ALL {
        for (_, line) in *examples {
            // As in a shell, text in quotation marks is one word.
            let parts = line.split('\'').enumerate();
            let words: Vec<&str> = parts
                .flat_map(|(at, part)| match at % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                })
                .collect();
            let command = match words[0] {
                "diolkos" => diolkos::manual::command(),
                "diolkos-pktgen" => diolkos_pktgen::cli::Cli::command(),
                "systemctl" => continue,
                other => panic!("{page}: {other}"),
            };
            use clap::error::ErrorKind::DisplayHelp;
            if let Err(error) = command.try_get_matches_from(&words) {
                assert_eq!(error.kind(), DisplayHelp, "{line}: {error}");
            }
        }
    }
}

/// The help fits into every terminal width, so no reader has to scroll sideways.
#[test]
fn help_is_as_wide_as_the_terminal() {
    fn check(command: &Command) {
        let mut shown = command.clone().term_width(80);
        for text in [shown.render_help(), shown.render_long_help()] {
            for line in text.to_string().lines() {
                let width = line.chars().count();
                assert!(
                    width <= 100,
                    "{}: {width} columns: {line}",
                    command.get_name()
                );
            }
        }
        let below = command.get_subcommands().filter(|one| !one.is_hide_set());
        below.for_each(check);
    }
    let mut command = diolkos::manual::command().term_width(80);
    command.build();
    check(&command);
}
