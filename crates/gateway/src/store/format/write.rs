// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a state as bytes.

use std::io::{self, Write};

use diolkos_nat64::config::Binding;
use diolkos_nat64::session::SessionView;

use super::fields::{of_binding, of_v4, of_v6, BINDING};
use super::head::{Head, CLEAN, NAT64, OUTDATED, SESSION};
use super::malformed::VERSION;
use super::section::{self, Name, END, LONGEST, MOMENT, OPERATOR, POOL, SESSIONS};

/// Writes a state: first the bindings, then the sessions.
pub struct StateWriter<W: Write> {
    out: W,
    /// The section that is being filled.
    name: Name,
    body: Vec<u8>,
    bindings: u32,
    sessions: u32,
}

impl<W: Write> StateWriter<W> {
    /// Begins with the head. `out` should be buffered.
    pub fn new(mut out: W, head: &Head) -> io::Result<StateWriter<W>> {
        section::begin(&mut out, VERSION, NAT64)?;
        out.write_all(&[if head.clean { CLEAN } else { OUTDATED }])?;
        section::put(&mut out, POOL, &head.secret.map(u64::to_le_bytes).concat())?;
        let mut body = Vec::new();
        body.extend(head.moment.boot.to_le_bytes());
        for time in [head.moment.since_boot, head.moment.wall] {
            let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            body.extend(time.to_le_bytes());
        }
        body.extend((head.pref64.len() as u16).to_le_bytes());
        for prefix in &head.pref64 {
            body.extend(prefix.network().octets());
            body.push(prefix.prefix_len());
        }
        section::put(&mut out, MOMENT, &body)?;
        Ok(StateWriter {
            out,
            name: OPERATOR,
            body: Vec::new(),
            bindings: 0,
            sessions: 0,
        })
    }

    /// Adds a binding that the operator made at run time.
    pub fn binding(&mut self, binding: &Binding) -> io::Result<()> {
        if self.body.len() + BINDING > LONGEST {
            self.put()?;
        }
        if self.body.is_empty() {
            self.body.extend((BINDING as u16).to_le_bytes());
        }
        self.bindings += 1;
        self.body.extend(of_binding(binding));
        Ok(())
    }

    /// Adds a session, with its binding. No binding of the operator may follow.
    pub fn session(&mut self, view: &SessionView) -> io::Result<()> {
        if self.name == OPERATOR || self.body.len() + SESSION > LONGEST {
            self.put()?;
            self.name = SESSIONS;
        }
        self.sessions += 1;
        let remaining = u32::try_from(view.remaining.as_millis()).unwrap_or(u32::MAX);
        self.body.extend([view.state as u8, view.prefix]);
        self.body.extend(of_v6(view.binding.v6));
        self.body.extend(of_v4(view.binding.v4));
        self.body.extend(of_v4(view.peer));
        self.body.extend(remaining.to_le_bytes());
        Ok(())
    }

    /// Adds the end. Without it, the bytes are not a state.
    pub fn finish(mut self) -> io::Result<()> {
        self.put()?;
        let counts = [self.bindings, self.sessions].map(u32::to_le_bytes);
        section::put(&mut self.out, END, &counts.concat())?;
        self.out.flush()
    }

    fn put(&mut self) -> io::Result<()> {
        if !self.body.is_empty() {
            section::put(&mut self.out, self.name, &self.body)?;
            self.body.clear();
        }
        Ok(())
    }
}
