// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clsact queueing discipline that an attachment without tcx needs.

use futures_util::TryStreamExt;

use super::{in_time, Net};

/// Of clsact and ingress: `TC_H_CLSACT` is its parent, ffff: its handle.
const TC_H_CLSACT: u32 = 0xffff_fff1;

impl Net {
    /// Removes clsact from an interface when no program of anybody's hangs on it any more.
    pub async fn remove_unused_clsact(&self, index: u32) {
        let index = index as i32;
        let filters = |egress: bool| {
            let request = self.handle.traffic_filter(index).get();
            let request = if egress {
                request.egress()
            } else {
                request.ingress()
            };
            in_time(request.execute().try_collect::<Vec<_>>())
        };
        let unused = filters(false).await.is_ok_and(|f| f.is_empty())
            && filters(true).await.is_ok_and(|f| f.is_empty());
        if unused {
            let mut request = self.handle.qdisc().del(index);
            request.message_mut().header.parent = TC_H_CLSACT.into();
            // Somebody who attaches at this moment wins: the kernel keeps what we fail to remove.
            let _ = in_time(request.execute()).await;
        }
    }
}
