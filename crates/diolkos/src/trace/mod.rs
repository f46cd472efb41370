// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What would become of a packet in a running translator, and why: packet (words → bytes) → the engine's own way, undone
//! afterwards → report. Around it, what the kernel would do: does it lead the packet here, and where does the result go?

mod error;
mod packet;
mod path;
mod report;
mod sentences;

use std::net::IpAddr;
use std::sync::Arc;

use diolkos_core::{Config, Verdict};
use serde_json::json;

use crate::packet_summary::{self, PacketSummary};
use crate::slowpath::{Clock, Engine};
use diolkos_kernel::net::{Leads, Net};
use diolkos_service::failure::Failure;

pub use packet::{Details, Imagined, Words};
pub use path::FastPathKind;
pub use report::{Leaving, Report};

/// What is asked, and the translator as it runs.
pub struct Asked<'a> {
    /// The packet.
    pub packet: Imagined,
    /// What translates now.
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
pub async fn trace(asked: &Asked<'_>, net: &Net) -> Result<Report, Failure> {
    let bytes = asked.packet.bytes().map_err(Failure::usage)?;
    let words = asked.packet.words;
    let trace = asked.engine.trace(&bytes, &mut Clock::new());
    let trace = trace.ok_or_else(|| Failure::usage("this translator cannot trace packets"))?;
    let mut report = Report {
        packet: format!("{words}, {} bytes", bytes.len()),
        arrives: true,
        steps: Vec::new(),
        verdict: packet_summary::verdict_name(trace.verdict).to_owned(),
        reason: None,
        meaning: None,
        sent: trace.sent.iter().map(|sent| leaving(sent)).collect(),
        dropped: trace
            .dropped
            .iter()
            .map(|why| why.name().to_owned())
            .collect(),
        answer: trace.answer.as_deref().map(leaving),
        route: None,
        path: String::new(),
        path_because: String::new(),
    };
    arrival(asked, net, &mut report).await;
    sentences::steps(&mut report, &trace.steps, asked.config);
    if let Verdict::Drop(reason) = trace.verdict {
        report.reason = Some(reason.name().to_owned());
        report.meaning = Some(reason.describe().to_owned());
        if let IpAddr::V6(node) = words.source() {
            sentences::shares(&mut report, reason, &asked.engine.holdings_of(node));
        }
    }
    let (path, because) = path::likely(asked, &trace);
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

/// Does the kernel lead it here at all?
async fn arrival(asked: &Asked<'_>, net: &Net, report: &mut Report) {
    let (to, device) = (asked.packet.words.destination(), asked.device);
    let text = match net.leads(to).await {
        Ok(Leads::Here) => {
            report.arrives = false;
            format!("{to} is an address of this host: the kernel takes the packet itself, and the rest is what {device} would do with it")
        }
        // With a placement at the interfaces, the translator counts on the hops of the kernel.
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

/// A packet as it would leave.
fn leaving(bytes: &[u8]) -> Leaving {
    let shape = PacketSummary::of(bytes);
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
