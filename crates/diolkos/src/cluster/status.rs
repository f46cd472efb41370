// placeholder until merged
use std::sync::Arc;
use std::time::Duration;
use diolkos_mesh::Mesh;
use diolkos_node::{Node, NodeId, Report};
use diolkos_sys::fastpath::{Forwarding, Gateway as Hop};
use crate::cluster_status::ClusterStatus;
use crate::config::Cluster as Section;
#[derive(Debug)]
pub struct Notes {}
impl Notes {
    pub fn new(_: &Section, _: NodeId, _: Arc<Forwarding>) -> Notes { Notes {} }
    pub fn reach(&mut self, _: NodeId, _: Option<Hop>) {}
    pub fn note(&mut self, report: Report) { tracing::warn!("cluster: {report:?}"); }
    pub fn count(&mut self) {}
}
pub struct Seen<'a> { pub section: &'a Section, pub node: &'a Node, pub now: Duration, pub mesh: &'a Mesh, pub engine: diolkos_etcd::Status, pub notes: &'a Notes }
pub fn status(seen: Seen<'_>) -> ClusterStatus {
    ClusterStatus { name: seen.section.name.clone(), node: format!("{} {:?} {:?}", seen.section.me, seen.node.status(seen.now), seen.node.counts()), ..ClusterStatus::default() }
}
impl Notes { pub fn refuse(&mut self, r: &diolkos_mesh::Refused) { tracing::warn!("refused: {r:?}"); } }
