// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports the state of a service to the service manager.

use super::settle::Restoring;
use super::{Account, Service};
use diolkos_service::confinement;
use diolkos_service::manager::Manager;

/// The reports that the service manager has got.
#[derive(Default)]
pub(super) struct Notified {
    is_ready: bool,
    /// The reason why the configuration file is not the one in force.
    pub(super) refusal: Option<String>,
}

impl Notified {
    pub(super) fn notify(
        &mut self,
        manager: &Manager,
        service: &impl Service,
        keeping: &Restoring,
    ) {
        if !manager.listens() {
            return;
        }
        let Account {
            is_settled,
            mut text,
            mut wrong,
        } = service.account();
        wrong.extend(self.refusal.clone());
        wrong.extend(keeping.trouble(service.device()));
        wrong.extend(confinement::trouble());
        if !wrong.is_empty() {
            text = format!("{text}; wrong: {}", wrong.join("; "));
        }
        manager.status(&text);
        if is_settled && !std::mem::replace(&mut self.is_ready, true) {
            manager.ready();
        }
    }
}
