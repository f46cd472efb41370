// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCP server of a NAT64, as the settings want it: begun, changed or ended.

use std::net::Ipv6Addr;
use std::sync::Arc;

use diolkos_config::{AutoValues, Settings};
use diolkos_gateway::{Controller, GatewayError, NewSockets, Pcp};
use diolkos_service::supervise::Watch;

/// A PCP server of other settings, with sockets for all addresses at which nobody listens yet.
pub struct Next {
    settings: diolkos_pcp::Settings,
    listen: Vec<Ipv6Addr>,
    sockets: NewSockets,
}

/// Prepares the server that the settings want, if they want one, and changes nothing. `there`: the one that runs.
pub fn prepare(
    settings: &Settings,
    there: Option<&Pcp>,
    is_start: bool,
) -> Result<Option<Next>, GatewayError> {
    let Some(pcp) = &settings.nat64.pcp else {
        return Ok(None);
    };
    Ok(Some(Next {
        settings: diolkos_pcp::Settings {
            sources: pcp.sources.clone(),
            own: pcp.listen.clone(),
            min_lifetime: pcp.min_lifetime,
            max_lifetime: pcp.max_lifetime,
            max_mappings: pcp.max_mappings,
            max_mappings_per_source: pcp.max_mappings_per_source,
            // No value that is found decides about them.
            limits: settings.stateful(AutoValues::ANYTHING).limits,
        },
        listen: pcp.listen.clone(),
        sockets: NewSockets::bind(&pcp.listen, there, is_start)?,
    }))
}

/// Puts it into force, once the tables have their configuration.
pub fn follow(
    there: &mut Option<Pcp>,
    next: Option<Next>,
    controller: &Arc<Controller>,
    watch: &Watch,
) -> Result<(), GatewayError> {
    match (&mut *there, next) {
        (Some(pcp), Some(next)) => pcp.follow(next.settings, &next.listen, next.sockets)?,
        (None, Some(next)) => {
            let pcp = Pcp::start(next.settings, next.sockets, controller.clone(), watch)?;
            *there = Some(pcp);
        }
        (_, None) => {
            if let Some(pcp) = there.take() {
                pcp.finish();
            }
        }
    }
    Ok(())
}
