/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* filter.h - keeps the frames of a device from the kernel, which gets them by the device's shadow. */
#ifndef SWITCH_FILTER_H
#define SWITCH_FILTER_H

/* The device with this index. 0, or -1: `tc` refuses. */
int filter_add(int index);

/* Removes the filters of all devices that are still there. */
void filter_remove_all(void);

#endif
