/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* notify.h - tells the service manager that frames flow (sd_notify(3)). */
#ifndef NOTIFY_H
#define NOTIFY_H

/* Nobody may have asked for it. */
void notify_ready(void);

#endif
