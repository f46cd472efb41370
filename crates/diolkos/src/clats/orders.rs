// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which CLATs shall run, by their uplinks.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{watch, Mutex};

use super::interface::{not_up, refuse, Clat, Spec, State};
use super::keeper::Kept;
use diolkos_control::varlink::Refusal;

/// The addresses that CLATs take (RFC 7335), each another one: their number is that of CLATs at most. 192.0.0.0 would do as
/// well, but some programs take it for a network.
const ADDRESSES: [Ipv4Addr; 6] = [
    Ipv4Addr::new(192, 0, 0, 1),
    Ipv4Addr::new(192, 0, 0, 2),
    Ipv4Addr::new(192, 0, 0, 3),
    Ipv4Addr::new(192, 0, 0, 4),
    Ipv4Addr::new(192, 0, 0, 5),
    Ipv4Addr::new(192, 0, 0, 6),
];
/// Of the first CLAT's route.
const METRIC: u32 = 2048;

/// All CLATs by their places.
pub type Clats = BTreeMap<usize, Clat>;

/// Takes orders. One is carried out after the other.
#[derive(Debug)]
pub struct Orders {
    program: PathBuf,
    /// Who may read what they say.
    group: String,
    running: Mutex<BTreeMap<String, (usize, Spec, Kept)>>,
    clats: Arc<watch::Sender<Clats>>,
}

impl Orders {
    /// No CLAT runs. `program`: that which is started for each. `group`: whose members may read what it says, or nothing.
    pub fn new(program: PathBuf, group: String) -> Orders {
        Orders {
            program,
            group,
            running: Mutex::default(),
            clats: Arc::new(watch::Sender::new(Clats::new())),
        }
    }

    /// What there is, and what changes.
    pub fn clats(&self) -> watch::Receiver<Clats> {
        self.clats.subscribe()
    }

    /// Starts a CLAT, in place of one with other parameters.
    pub async fn up(&self, spec: Spec) -> Result<Clat, Refusal> {
        let mut running = self.running.lock().await;
        if let Some((place, before, _)) = running.get(&spec.interface) {
            let clat = self.clats.borrow().get(place).cloned();
            // One that has ended for good is worth another try, now that somebody asks for it.
            match clat.filter(|clat| *before == spec && clat.state != State::Failed) {
                Some(clat) => return Ok(clat),
                None => self.end(&mut running, &spec.interface).await,
            }
        }
        let is_free = |place: &usize| !running.values().any(|(taken, ..)| taken == place);
        let Some(place) = (0..ADDRESSES.len()).find(is_free) else {
            let most = format!("{} CLATs run already: end one first", ADDRESSES.len());
            return Err(refuse("Busy", &most));
        };
        let clat = Clat {
            interface: spec.interface.clone(),
            device: format!("diolkos{place}"),
            v4: ADDRESSES[place],
            state: State::Starting,
            obstacles: Vec::new(),
            prefixes: Vec::new(),
        };
        self.clats.send_modify(|clats| {
            clats.insert(place, clat.clone());
        });
        let clats = self.clats.clone();
        let tell = Arc::new(move |change: &mut dyn FnMut(&mut Clat)| {
            clats.send_if_modified(|clats| {
                let Some(clat) = clats.get_mut(&place) else {
                    return false;
                };
                let before = clat.clone();
                change(clat);
                *clat != before
            });
        });
        let metric = spec.metric.unwrap_or(METRIC + place as u32);
        let kept = Kept::start(
            self.program.clone(),
            spec.clone(),
            clat.clone(),
            metric,
            &self.group,
            tell,
        );
        running.insert(spec.interface.clone(), (place, spec, kept));
        Ok(clat)
    }

    /// Ends the CLAT of an uplink.
    pub async fn down(&self, interface: &str) -> Result<(), Refusal> {
        let mut running = self.running.lock().await;
        if !running.contains_key(interface) {
            return Err(not_up(interface));
        }
        self.end(&mut running, interface).await;
        Ok(())
    }

    /// Ends all of them.
    pub async fn end_all(&self) {
        let mut running = self.running.lock().await;
        let all = std::mem::take(&mut *running);
        let ends = all.into_values().map(|(_, _, kept)| kept.end());
        futures_util::future::join_all(ends).await;
    }

    async fn end(&self, running: &mut BTreeMap<String, (usize, Spec, Kept)>, interface: &str) {
        if let Some((place, _, kept)) = running.remove(interface) {
            kept.end().await;
            self.clats.send_modify(|clats| {
                clats.remove(&place);
            });
        }
    }
}
