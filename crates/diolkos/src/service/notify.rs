// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the service manager hears of a service.

use super::settle::Restoring;
use super::{Account, Service};
use crate::companion::Companion;
use diolkos_service::confinement;
use diolkos_service::manager::Manager;

/// What the service manager has been told.
#[derive(Default)]
pub(super) struct Notified {
    is_ready: bool,
    /// Why the configuration file is not the one in force.
    pub(super) refusal: Option<String>,
}

impl Notified {
    pub(super) fn notify(
        &mut self,
        manager: &Manager,
        service: &impl Service,
        keeping: &Restoring,
        companion: &Companion,
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
        let beside = companion.troubles().into_iter();
        wrong.extend(beside.map(|trouble| format!("dns64: {trouble}")));
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
