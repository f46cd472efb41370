// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries out changes of sessions, and finds out which of them the switch has refused. A datagram is carried out as a whole
//! or not at all, so after a failure each change is tried by itself.

use crate::connection::{Broken, Connection};
use crate::entry::Entry;
use crate::wanted::{Known, SessionUpdate};
use crate::wire::{Garbage, Request, Status, RECORDS};

/// Changes of one datagram: each has two records.
pub const TOGETHER: usize = RECORDS / 2;

/// The fate of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The switch has carried it out.
    Done(SessionUpdate),
    /// The switch has refused the session, and has none of its entries.
    Refused(Known, Status),
}

/// Carries out at most [`TOGETHER`] changes, in their order.
pub fn carry_out(
    connection: &mut Connection,
    changes: &[SessionUpdate],
) -> Result<Vec<Outcome>, Broken> {
    let requests: Vec<Request> = changes.iter().flat_map(requests).collect();
    if failure(connection, &requests)?.is_none() {
        return Ok(changes.iter().copied().map(Outcome::Done).collect());
    }
    let alone = changes.iter().map(|change| match change {
        SessionUpdate::Put(known) => put(connection, known),
        SessionUpdate::Remove(known) => remove(connection, known).map(|()| Outcome::Done(*change)),
    });
    alone.collect()
}

fn requests(change: &SessionUpdate) -> Vec<Request> {
    match change {
        SessionUpdate::Put(known) => known.entries().iter().map(Entry::insert).collect(),
        SessionUpdate::Remove(known) => known.entries().iter().filter_map(Entry::delete).collect(),
    }
}

/// Sends a datagram. Returns why it is refused, if it is.
pub fn failure(
    connection: &mut Connection,
    requests: &[Request],
) -> Result<Option<Status>, Broken> {
    if requests.is_empty() {
        return Ok(None);
    }
    let (replies, _) = connection.exchange(requests)?;
    let failed = replies.iter().map(|reply| reply.status);
    // Those that were not tried do not say why.
    Ok(failed
        .filter(|status| *status != Status::Done)
        .min_by_key(|status| *status == Status::NotTried))
}

fn put(connection: &mut Connection, known: &Known) -> Result<Outcome, Broken> {
    match failure(connection, &requests(&SessionUpdate::Put(*known)))? {
        None => Ok(Outcome::Done(SessionUpdate::Put(*known))),
        Some(status) => {
            // Another entry may be in its place.
            remove(connection, known)?;
            Ok(Outcome::Refused(*known, status))
        }
    }
}

/// Removes both entries, one of which may not be there. If the switch refuses, its state is unknown.
fn remove(connection: &mut Connection, known: &Known) -> Result<(), Broken> {
    for request in requests(&SessionUpdate::Remove(*known)) {
        match failure(connection, &[request])? {
            None | Some(Status::Absent) => {}
            Some(status) => return Err(Broken::Garbage(Garbage::Kept(status))),
        }
    }
    Ok(())
}
