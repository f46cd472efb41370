// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicts what would happen to a packet in a running translator, and why: packet (words → bytes) → the engine, which
//! only reads → report. Around it, what the kernel would do: does it lead the packet here, and where does the result
//! go?

mod error;
mod packet;
mod path;
mod report;
mod sentences;

use std::net::IpAddr;
use std::sync::Arc;

use diolkos_xlat::{Config, Verdict};
use serde_json::json;

use crate::error::DatapathError;
use crate::packet_summary::{self, PacketSummary};
use crate::slowpath::{Clock, Engine};
use diolkos_kernel::net::{Leads, Net};

pub use packet::{Details, Imagined, Words};
pub use path::FastPathKind;
pub use report::{Leaving, Report};

/// The question, and the running translator.
pub struct Asked<'a> {
    /// The packet.
    pub packet: Imagined,
    /// The current engine.
    pub engine: Arc<dyn Engine>,
    /// Its configuration.
    pub config: &'a Config,
    /// Name of the TUN device.
    pub device: &'a str,
    /// The programs in the kernel, if there are any.
    pub fast: Option<FastPathKind>,
    /// The way of IPv6 packets, in words, if it does not follow the routes of this host's own packets.
    pub way6: Option<String>,
}

/// Follows the packet. Nothing changes.
pub async fn trace(asked: &Asked<'_>, net: &Net) -> Result<Report, DatapathError> {
    let bytes = asked.packet.bytes().map_err(DatapathError::Packet)?;
    let words = asked.packet.words;
    let trace = asked.engine.trace(&bytes, &mut Clock::new());
    let told = trace.ok_or(DatapathError::NoTrace)?;
    let trace = &told.packet;
    let mut report = Report {
        packet: format!("{words}, {} bytes", bytes.len()),
        arrives: true,
        steps: Vec::new(),
        verdict: packet_summary::verdict_name(trace.verdict).to_owned(),
        reason: None,
        meaning: None,
        sent: trace
            .sent
            .iter()
            .map(|sent| leaving(sent, told.is_port_random))
            .collect(),
        answer: trace.answer.as_deref().map(|answer| leaving(answer, false)),
        route: None,
        path: String::new(),
        path_because: String::new(),
    };
    arrival(asked, net, &mut report).await;
    sentences::steps(&mut report, &told, asked.config);
    if let Verdict::Drop(reason) = trace.verdict {
        report.reason = Some(reason.name().to_owned());
        report.meaning = Some(reason.describe().to_owned());
        if let IpAddr::V6(node) = words.src {
            sentences::shares(&mut report, reason, &asked.engine.holdings_of(node));
        }
    }
    let (path, because) = path::likely(asked, &told);
    (report.path, report.path_because) = (path.to_owned(), because);
    if let Some(to) = trace
        .sent
        .first()
        .and_then(|sent| PacketSummary::of(sent).destination())
    {
        let way6 = asked.way6.as_ref().filter(|_| to.is_ipv6());
        report.route = Some(match net.leads(to).await {
            _ if way6.is_some() => format!("to {to}: {}", way6.map_or("", String::as_str)),
            Ok(leads) => format!("to {to}: {leads}"),
            Err(failure) => format!("to {to}: none ({failure})"),
        });
    }
    Ok(report)
}

/// Checks whether the kernel leads it here.
async fn arrival(asked: &Asked<'_>, net: &Net, report: &mut Report) {
    let (to, device) = (asked.packet.words.dst, asked.device);
    let text = match net.leads(to).await {
        Ok(Leads::Here) => {
            report.arrives = false;
            format!("{to} is an address of this host: the kernel takes the packet itself, and the rest is what {device} would do with it")
        }
        // With a placement at the interfaces, the translator relies on the kernel to decrement the hop limit.
        Ok(_) if !asked.config.takes_hop && asked.packet.details.hop_limit <= 1 => {
            report.arrives = false;
            format!("no hop is left on the way to {device}: the kernel answers Time Exceeded, and the rest is what {device} would do with the packet")
        }
        Ok(leads) if leads.is_through(device) => format!("the route to {to} leads to {device}"),
        Ok(leads) => {
            report.arrives = false;
            format!("the route to {to} does not lead to {device}, but {leads}; the rest is what {device} would do with it")
        }
        Err(failure) => {
            report.arrives = false;
            format!(
                "no route leads to {to} ({failure}); the rest is what {device} would do with it"
            )
        }
    };
    report.step("arrival", text);
}

/// Returns a packet as it would leave. With `is_port_random`, its port, or identifier, would still have to be chosen.
fn leaving(bytes: &[u8], is_port_random: bool) -> Leaving {
    let mut shape = PacketSummary::of(bytes);
    if is_port_random {
        shape.forget_source_port();
    }
    let header = packet_summary::header(bytes);
    let said = error::said(bytes);
    let (mtu, quoted) = said.map_or((None, None), |said| (said.mtu, Some(said.quoted)));
    let mut text = format!("{shape}, {header}");
    if let Some(mtu) = mtu {
        text += &format!(", MTU {mtu}");
    }
    if let Some(quoted) = &quoted {
        text += &format!(", quoting {quoted}");
    }
    Leaving {
        text,
        packet: json!(shape),
        mtu,
        quoted: quoted.map(|quoted| json!(quoted)),
    }
}
