// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides when a service checks the network again, and restores the parts that others removed from its device.

use std::time::Duration;

use tokio::time::Instant;

use crate::translator::{Condition, State};
use diolkos_kernel::net::{shown, DeviceConfig, Net};
use diolkos_service::failure::Failure;

/// Quiet time before a check: routes and addresses change in groups.
const SETTLE: Duration = Duration::from_millis(200);
/// Upper bound of the wait, since they may change without end.
const SETTLE_AT_MOST: Duration = Duration::from_secs(2);
/// Time until the next attempt after the device's configuration could not be restored.
const RETRY: Duration = Duration::from_secs(5);

/// The pending checks of the network.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) routes: Settling,
    pub(super) addresses: Settling,
}

impl Checks {
    /// Schedules another check after a transient failure: the kernel had no time or no memory.
    pub(super) fn again_after(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.is_transient() {
            return Err(failure);
        }
        tracing::warn!("{failure}: retrying");
        self.routes.touch_in(RETRY);
        self.addresses.touch_in(RETRY);
        Ok(())
    }
}

/// Restores the configuration of the device, and logs it.
#[derive(Default)]
pub(super) struct Restoring {
    pub(super) settling: Settling,
    is_down: bool,
    /// The last error, so that it is logged once.
    failed: String,
}

impl Restoring {
    /// Adds the device's obstacles to the condition that followers receive.
    pub(super) fn add_to(&self, condition: &mut Condition, device: &str) {
        if self.is_down && condition.state == State::Ready {
            condition.state = State::Waiting;
        }
        condition.obstacles.extend(self.trouble(device));
    }

    /// The reason why the device cannot carry all packets.
    pub(super) fn trouble(&self, device: &str) -> Option<String> {
        match (self.is_down, self.failed.as_str()) {
            (true, _) => Some(is_down(device)),
            (false, "") => None,
            (false, failed) => Some(format!(
                "{device} has lost parts that cannot be restored: {failed}"
            )),
        }
    }

    pub(super) async fn keep(&mut self, net: &Net, device: &str, own: &DeviceConfig) {
        match net.restore(own).await {
            Ok(None) => {
                if !std::mem::replace(&mut self.is_down, true) {
                    tracing::warn!("{}", is_down(device));
                }
            }
            Ok(Some(restored)) => {
                self.is_down = false;
                self.failed.clear();
                if !restored.is_empty() {
                    tracing::warn!("{device} had lost {}: restored", shown(&restored));
                }
            }
            Err(failure) => {
                let said = failure.to_string();
                if self.failed != said {
                    tracing::warn!(
                        "{device} has lost parts that cannot be restored, so not everything can pass: {said}; retrying"
                    );
                }
                self.failed = said;
                self.settling.touch_in(RETRY);
            }
        }
    }
}

fn is_down(device: &str) -> String {
    format!("{device} is down: nothing can pass until it is up (`ip link set {device} up`)")
}

/// Waits until nothing has changed for a while, with an upper bound.
#[derive(Default)]
pub(super) struct Settling {
    first: Option<Instant>,
    at: Option<Instant>,
}

impl Settling {
    pub(super) fn touch(&mut self) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.at = Some((now + SETTLE).min(first + SETTLE_AT_MOST));
    }

    pub(super) fn touch_in(&mut self, pause: Duration) {
        self.at = Some(Instant::now() + pause);
    }

    /// Schedules a check after the kernel had no time or no memory.
    pub(super) fn touch_later(&mut self) {
        self.touch_in(RETRY);
    }

    pub(super) fn clear(&mut self) {
        *self = Settling::default();
    }

    pub(super) async fn settled(&self) {
        until(self.at).await;
    }
}

/// Waits until a point in time; `None`: without end.
pub async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use diolkos_kernel::error::KernelError;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_never_settles_is_looked_at_all_the_same() {
        let mut settling = Settling::default();
        let begin = Instant::now();
        let mut looked = None;
        while looked.is_none() && begin.elapsed() < 10 * SETTLE_AT_MOST {
            settling.touch();
            tokio::select! {
                biased;
                () = settling.settled() => looked = Some(begin.elapsed()),
                () = tokio::time::sleep(SETTLE / 4) => {}
            }
        }
        assert_eq!(looked, Some(SETTLE_AT_MOST));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kernel_had_no_time_for_is_tried_again() {
        let mut looks = Checks::default();
        let begin = Instant::now();
        let failure = KernelError::Read {
            action: "list the routes".to_owned(),
            source: std::io::ErrorKind::OutOfMemory.into(),
        };
        assert!(looks.again_after(failure.into()).is_ok());
        looks.addresses.settled().await;
        looks.routes.settled().await;
        assert_eq!(begin.elapsed(), RETRY);
        let for_good = KernelError::OwnTunGone.into();
        assert!(looks.again_after(for_good).is_err());
    }
}
