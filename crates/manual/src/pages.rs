// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages of commands: the contents of their command line, then examples, exit status, files and other pages.

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{bold, italic, roman, Roff};

use crate::examples;
use crate::page::{heading, marked};

/// Paths and their contents.
const FILES: [(&str, &str); 5] = [
    ("/etc/diolkos/NAME.toml", "The configuration of `diolkos@NAME.service` and `diolkos-dns64@NAME.service`; see `diolkos.toml`(5)."),
    ("/etc/diolkos/clat-INTERFACE.env", "`CLAT_OPTIONS=` has the options of `diolkos-clat@INTERFACE.service`."),
    ("/var/lib/diolkos", "State files of NAT64s, if the configuration has them here."),
    ("/run/diolkos/NAMESPACE/DEVICE.sock", "Where a running program is asked. `diolkos show socket` prints the path."),
    ("/usr/share/doc/diolkos", "What is explained at length, and examples."),
];

const STATUS: [(&str, &str); 4] = [
    ("0", "Done."),
    ("1", "It failed at run time."),
    ("2", "Wrong usage or configuration."),
    ("3", "A privilege or a kernel feature is missing."),
];

/// The systemd services.
const UNITS: &str = "diolkos@.service, diolkos-clat@.service, diolkos-dns64@.service";

/// The pages of a program and of all its commands: file name and text of each.
pub fn of(command: &Command, section: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    // A page of `help` would add nothing to this one.
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut names = Vec::new();
    collect(&command, &mut names);
    let mut pages = Vec::new();
    add(&command, section, &names, &mut pages)?;
    Ok(pages)
}

/// Collects the page names of a command and its subcommands.
fn collect(command: &Command, names: &mut Vec<String>) {
    names.push(name(command));
    let below = command.get_subcommands();
    below.for_each(|one| collect(one, names));
}

fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

fn add(
    command: &Command,
    section: &str,
    names: &[String],
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    for below in command.get_subcommands() {
        add(below, section, names, pages)?;
    }
    let man = Man::new(command.clone()).section(section);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    rest(command, section, names).to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    pages.push((man.get_filename(), page));
    Ok(())
}

fn rest(command: &Command, section: &str, names: &[String]) -> Roff {
    let mut page = Roff::new();
    let name = name(command);
    let is_of_diolkos = names[0] == "diolkos";
    let is_whole = name == names[0];
    // The notes of the whole program are the exit codes, which have a section of their own.
    let notes = command
        .get_after_help()
        .filter(|_| !(is_whole && is_of_diolkos));
    if let Some(notes) = notes {
        heading(&mut page, "NOTES");
        for line in notes.to_string().lines() {
            page.control("PP", []);
            match line.strip_prefix("  ") {
                // The line of an example must not be broken.
                Some(line) => page.control("EX", []).text([roman(line)]).control("EE", []),
                None => page.text([roman(line)]),
            };
        }
    }
    let examples = examples::of(&name);
    if !examples.is_empty() {
        heading(&mut page, "EXAMPLES");
    }
    for (about, line) in examples {
        page.control("PP", []).text(marked(about));
        page.control("PP", [])
            .control("RS", ["4"])
            .control("EX", []);
        page.text([roman(*line)]);
        page.control("EE", []).control("RE", []);
    }
    if is_of_diolkos {
        heading(&mut page, "EXIT STATUS");
        for (code, about) in STATUS {
            page.control("TP", []).text([bold(code)]);
            page.text([roman(about)]);
        }
        heading(&mut page, "FILES");
        for (path, about) in FILES {
            page.control("TP", []).text([italic(path)]);
            page.text(marked(about));
        }
    }
    heading(&mut page, "SEE ALSO");
    let others = names.iter().filter(|other| **other != name);
    let others = others.filter(|other| is_near(other, &name, &names[0]));
    let mut line: Vec<String> = others
        .map(|other| format!("`{other}`({section})"))
        .collect();
    if is_of_diolkos {
        line.push("`diolkos.toml`(5)".to_owned());
    }
    page.text(marked(&line.join(", ")));
    if is_of_diolkos {
        page.control("PP", [])
            .text(marked(&format!("Services of systemd: {UNITS}")));
    }
    page
}

/// Returns true for the program itself, and for pages directly below the same command or below this one.
fn is_near(other: &str, name: &str, program: &str) -> bool {
    let above = |name: &str| name.rsplit_once('-').map(|(above, _)| above.to_owned());
    other == program
        || other.starts_with(&format!("{name}-"))
        || (name.matches('-').count() > 1 && above(other) == above(name))
        || Some(other.to_owned()) == above(name)
}
