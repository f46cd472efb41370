/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rights.c - see rights.h. */
#include "rights.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int rights_keep(uint64_t set)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];

	/* A program of root's would get back all that is in the bounding set. Only who has CAP_SETPCAP can make that smaller. */
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
		if (!(set >> capability & 1))
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capget, &header, has))
		return -1;
	for (uint32_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		const uint32_t part = (uint32_t)(set >> 32 * i);

		has[i].permitted &= part;
		has[i].inheritable &= part;
		has[i].effective = has[i].permitted;
	}
	return syscall(SYS_capset, &header, has) ? -1 : 0;
}
