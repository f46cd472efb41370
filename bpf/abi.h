/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * abi.h - everything that the fast path shares with the program that loads it.
 *
 * The Rust side does not repeat these declarations: its types are generated
 * from the BTF of the compiled object. A layout that would need implicit
 * padding is refused here, so both sides see the same bytes.
 *
 *   here                        RFC, or the kernel
 *   bib, diolkos_bib_*          Binding Information Base of UDP and of TCP (RFC 6146 section 3.1)
 *   sessions6, sessions4        session table (RFC 6146 section 3.1), keyed as packets of the node and of the peer have it
 *   node                        the IPv6 host of a session: X', x
 *   peer                        the IPv4 host of a session: Z, z; the node knows it as Y', y
 *   v4, v4_port of a session    the address of the pool and the port that the node is given: T, t
 *   query identifier            of ICMP, in the place of a port (RFC 6146 section 3.5.3)
 *   MOVED, tell_transition      an event of the TCP state machine (RFC 6146 section 3.5.2)
 *   prefix, pref64              Pref64::/n (RFC 6052 section 2.2)
 *   EAM                         explicit address mapping (RFC 7757)
 *   PLAT, CLAT                  RFC 6877
 *   gateway                     a router with this translator; several make a cluster
 *   slow path                   the translator in user space, behind the TUN device
 *   fate                        verdict on a packet, and its counter
 *   route                       answer of bpf_fib_lookup: exit, link-layer addresses, MTU
 *   exit                        egress interface
 */
#ifndef DIOLKOS_ABI_H
#define DIOLKOS_ABI_H

#include <linux/bpf.h>
#include <linux/in6.h>
#include <linux/types.h>

/*
 * What became of a packet that a program looked at. One counter each.
 *
 * TRANSLATED_* left the fast path translated; SENT_DIRECT and SENT_XDP say of
 * which it was sent on without the kernel's forwarding, MSS_CLAMPED of which
 * the maximum segment size was lowered. DECLINE_* went on to the slow path
 * unchanged, which has the last word; each is also a reason of the slow
 * path's list, under the same name. FAILED is lost in a program: a helper
 * refused after the point of no return (no memory for a header, mostly). DROP_*
 * is dropped for that reason. What the kernel drops behind a program for want of a
 * route or a neighbour, the kernel counts; the program that watches them tells
 * a CLAT to send nowhere then, so that such packets get a name here.
 */
#define DIOLKOS_FATES(X)                                                                     \
	X(TRANSLATED_4TO6)   /* IPv4 in, IPv6 out */                                         \
	X(TRANSLATED_6TO4)   /* IPv6 in, IPv4 out */                                         \
	X(FAILED)            /* lost: a helper failed after mutation began */                \
	X(SLOW_PATH_OUT)     /* IPv6 from the slow path, sent out of the uplink */           \
	X(SENT_DIRECT)       /* TRANSLATED_*, and sent past the forwarding */                \
	X(SENT_XDP)          /* TRANSLATED_*, and sent by the driver (XDP) */                \
	X(MSS_CLAMPED)       /* TRANSLATED_*, a SYN whose MSS was lowered */                 \
	X(DECLINE_HEADER)    /* IPv4 options, or a header that does not look right */        \
	X(DECLINE_FRAGMENT)  /* a fragment */                                                \
	X(DECLINE_ICMP)      /* ICMP other than echo */                                      \
	X(DECLINE_TRANSPORT) /* not TCP, UDP or ICMP; or an IPv6 extension header */         \
	X(DECLINE_CHECKSUM)  /* UDP without a checksum; echo that may be all zeros */        \
	X(DECLINE_HOP_LIMIT) /* TTL or hop limit runs out here */                            \
	X(DECLINE_SIZE)      /* needs fragmentation or an ICMP error */                      \
	X(DECLINE_ADDRESS)   /* an address that the static rule does not cover */            \
	X(DECLINE_HAIRPIN)   /* from the CLAT to itself */                                   \
	X(DECLINE_OFFLOAD)   /* a tunnel's super-packet; a checksum within */                \
	X(DECLINE_STATE)     /* begins, changes or ends a session, or has none here */       \
	X(DECLINE_COPY)      /* by a copy of another's binding, past its deadline */         \
	X(DECLINE_MSS)       /* a SYN with other options before its MSS, or without */       \
	X(DECLINE_ROUTE)     /* no route leads through the uplink */                         \
	X(DROP_NO_ROUTE)     /* from the slow path, and no route leads through the uplink */ \
	X(DROP_NO_BINDING)   /* from outside, to a port that no node has */

enum diolkos_fate {
	DIOLKOS_UNDECIDED, /* 0: no guard objects */
#define X(name) DIOLKOS_##name,
	DIOLKOS_FATES(X)
#undef X
	DIOLKOS_FATE_END,
};

struct diolkos_count {
	__u64 packets;
	__u64 bytes; /* of the network-layer packet as it arrived; a super-packet counts whole */
};

/*
 * The configuration is read-only data of the loaded object: the verifier sees
 * constants and removes what they rule out. A new configuration is a new
 * object whose programs take the place of the old ones.
 */

/* What every translator's programs need to know. */
struct diolkos_rules {
	__u32 tun_ifindex;       /* the slow path's device */
	__u32 mtu4;              /* of the IPv4 side, bytes */
	__u32 mtu6;              /* of the IPv6 side, bytes */
	__u32 lowest_ipv6_mtu;   /* RFC 7915 section 4, bytes */
	__u8 traffic_class_zero; /* 1: TOS and traffic class are sent as 0 */
	__u8 device_hops;        /* taken at the slow path's device; 0: the kernel takes those of its way */
	__u16 tcp_mss;           /* the largest maximum segment size of a SYN, bytes; 0: it is left as it is */
};

/*
 * Where the running kernel keeps the kind of a super-packet (gso_type), in
 * bytes, and what its bits mean. All zeros where that is not known.
 */
struct diolkos_gso {
	__u32 head_at;        /* from struct sk_buff: the beginning of its buffer */
	__u32 end_at;         /* from there: where struct skb_shared_info lies, as an offset from that beginning */
	__u32 kind_at;        /* from struct skb_shared_info */
	__u32 kind_udp;       /* SKB_GSO_UDP_L4 */
	__u32 kind_dodgy;     /* SKB_GSO_DODGY, which says nothing about the segments */
	__u32 udp_under_test; /* 1: BPF_PROG_TEST_RUN sets no kind, so that every UDP super-packet is taken for one */
};

/* Where the running kernel counts changes of its routing, and keeps what makes routes depend on ports (routing.h), in bytes. */
struct diolkos_namespace_layout {
	__u32 is_known;         /* 0: nothing of it is */
	__u32 device_of_packet; /* from struct sk_buff: pointer to its struct net_device */
	__u32 rxq_of_frame;     /* from struct xdp_buff: pointer to its struct xdp_rxq_info */
	__u32 device_of_rxq;    /* from there: pointer to its struct net_device */
	__u32 of_device;        /* from struct net_device: pointer to its struct net */
	__u32 port_rules4;      /* from there: how many policy rules of IPv4 are about protocols or ports, 4 bytes */
	__u32 port_rules6;      /* the same of IPv6 */
	__u32 hash_policy4;     /* and the policy of the multipath hash of IPv4, 1 byte */
	__u32 hash_policy6;     /* the same of IPv6 */
	__u32 changes4;         /* and a number that every change of routes and rules of IPv4 changes, 4 bytes */
	__u32 changes6;         /* one that every route of IPv6 changes that is added or replaced */
	__u32 statistics6;      /* and a pointer to struct rt6_statistics */
	__u32 removed6;         /* from there: how many routes of IPv6 were removed, 4 bytes */
	__u32 rules6;           /* from struct net: pointer to the struct fib_rules_ops of IPv6 */
	__u32 rule_changes6;    /* from there: how many rules were added and removed, 4 bytes */
};

/* Interfaces out of which a router may send what it translated without asking the kernel to forward it. */
#define DIOLKOS_EXITS 16 /* of longer lists the fast path knows the beginning */

struct diolkos_direct {
	__u32 exits; /* how many; 0: the kernel forwards */
	__u32 exit[DIOLKOS_EXITS];
	__u32 last_set; /* number of the last set of routes (route_cache.h), which is a power of two less 1 */
};

/* What a driver transmits of the frames that XDP redirects to it. */
enum diolkos_sends {
	DIOLKOS_SENDS_NOTHING,
	DIOLKOS_SENDS_FRAMES,  /* those in one buffer */
	DIOLKOS_SENDS_BUFFERS, /* those in several buffers, too */
};

/*
 * An interface whose frames a driver hands to the XDP program: a card, or a VLAN of IEEE 802.1Q on one. Frames of a VLAN
 * arrive and leave by the card, with the VLAN's tag.
 */
struct diolkos_port {
	__u32 ifindex;   /* as routes have it */
	__u32 card;      /* the interface whose driver it is: the same, or that which the VLAN is on */
	__be16 vlan_be;  /* its number; 0: frames have no tag */
	__u8 address[6]; /* of its link layer: what is sent to another one is not for this host */
	__u8 sends;      /* enum diolkos_sends */
	__u8 turns;      /* 1: the card sends what it has received back (XDP_TX) */
	__u8 pad[2];
};

struct diolkos_ports {
	__u32 ports;         /* how many; 0: everything is left to tc */
	__u32 takes_buffers; /* 1: a frame may lie in several buffers (Linux 5.18) */
	__u32 vlans;         /* 1: some of them are VLANs */
	struct diolkos_port port[DIOLKOS_EXITS];
};

/* A next hop that drivers send to. Its time is CLOCK_MONOTONIC_COARSE in ticks. */
#define DIOLKOS_USED_HOPS 4096       /* a power of two */
#define DIOLKOS_HOP_TICK 30          /* 2^30 ns, about a second */
#define DIOLKOS_HOP_REPORTED_TICKS 4 /* for so long the kernel needs no new report; the daemon reports sooner */

struct diolkos_used_hop {
	__u32 ifindex; /* 0: none yet */
	__u32 family;  /* AF_INET, AF_INET6 */
	__be32 address[4];
	__u32 used; /* tick of the last packet */
	__u32 pad;
};

/* A translation prefix (RFC 6052). */
struct diolkos_pref64 {
	struct in6_addr prefix; /* zero beyond its length */
	__u32 bits;             /* 32, 40, 48, 56, 64 or 96 */
	__u32 only_global;      /* 1: it is 64:ff9b::/96 and RFC 6052 section 3.1 holds */
};

/*
 * A CLAT (RFC 6877): one IPv4 address that is one IPv6 address, and the
 * translation prefix behind which all of IPv4 lies.
 */
struct diolkos_clat {
	struct in6_addr v6;           /* this CLAT's IPv6 address */
	struct diolkos_pref64 pref64; /* the PLAT's */
	__be32 v4_be;                 /* this CLAT's IPv4 address */
	__u32 uplink_ifindex;         /* IPv6 side */
	__u32 uplink_l2_len;          /* 14 on Ethernet, 0 on a raw IP link */
};

/*
 * A SIIT: translation prefixes, and the explicit address mapping table (RFC
 * 7757), which lies in two hash maps, one for each side, keyed by network and
 * length. A look-up tries the lengths that occur.
 */
#define DIOLKOS_PREF64S 4 /* of longer lists the fast path knows the beginning, and declines the rest */
#define DIOLKOS_V4_LENS 33
#define DIOLKOS_V6_LENS 129

#define DIOLKOS_ROUTES 8 /* of each family; longer lists lie in tries */

/* A network: which bits count, and what they are. */
struct diolkos_mask4 {
	__be32 mask_be;
	__be32 addr_be;
};

struct diolkos_mask6 {
	struct in6_addr mask;
	struct in6_addr addr;
};

struct diolkos_siit {
	struct diolkos_pref64 pref64[DIOLKOS_PREF64S];
	struct diolkos_mask4 route4[DIOLKOS_ROUTES]; /* what leads to the translator */
	struct diolkos_mask6 route6[DIOLKOS_ROUTES];
	struct diolkos_mask4 loop4[DIOLKOS_ROUTES]; /* what leads here in both families, unless a mapping covers it */
	__u32 loop4s;
	__u32 route4s; /* how many; more than there is room for: they lie in the trie */
	__u32 route6s;
	__u32 eam_in_routes4; /* 1: the IPv4 network of every mapping leads to the translator */
	__u32 pref64s;
	__u32 eam_in_pref64;          /* 1: a mapping lies in a translation prefix, and goes before it */
	__u32 v4_lens;                /* how many */
	__u32 v6_lens;                /* how many */
	struct diolkos_mask4 eam4;    /* in which the IPv4 network of every mapping lies */
	__u8 v4_len[DIOLKOS_V4_LENS]; /* lengths of the mappings' IPv4 networks, longest first */
	__u8 v6_len[DIOLKOS_V6_LENS]; /* and of their IPv6 networks */
	__u8 pad[2];
};

struct diolkos_net4 {
	__be32 addr_be; /* zero beyond its length */
	__u32 len;
};

struct diolkos_net6 {
	struct in6_addr addr; /* zero beyond its length */
	__u32 len;
};

/* Keys of tries, which want the length first. */
struct diolkos_route4 {
	__u32 len;
	__be32 addr_be;
};

struct diolkos_route6 {
	__u32 len;
	struct in6_addr addr;
};

/*
 * A mapping seen from IPv4, and from IPv6. Both suffixes begin right after
 * their prefixes (RFC 7757 section 3.3); longer says by how many bits the
 * IPv6 suffix is longer, 0 to 128.
 */
struct diolkos_eam6 {
	struct in6_addr v6; /* zero beyond its length */
	__u32 longer;
};

struct diolkos_eam4 {
	__be32 v4_be; /* zero beyond its length */
	__u32 longer;
};

/*
 * A NAT64 (RFC 6146): translation prefixes, and the sessions that the
 * controller has put into two hash maps, one for each direction; those of UDP
 * into that of the inward direction only. The programs look up and stamp, and
 * tell what may move a session of TCP; they never change one, and open only
 * what a lease of the controller allows them to.
 *
 * With ICMP, ports are query identifiers, and the peer's is 0.
 */
#define DIOLKOS_OWN 16 /* with more networks of its own, a NAT64 lends nothing */

struct diolkos_nat64 {
	__u64 lease_key;     /* secret: which node has which set of places among the leases */
	__u32 known_keys[8]; /* secret, by lease_key: which session has which place among those known */
	struct diolkos_pref64 pref64[DIOLKOS_PREF64S];
	struct diolkos_net4 own[DIOLKOS_OWN]; /* in which a peer may be a node of ours */
	__u32 pref64s;
	__u32 owns;
	__u32 lease_sets;     /* a power of two */
	__u32 known_sessions; /* places of the cache of sessions: a power of two */
	__u32 port_places;    /* bits that say which ports no node has: a power of two, 64 or more */
	__u32 heard;          /* unsolicited packets that the slow path gets, in each window (unbound.h) of each CPU */
};

/* A session that was looked up a moment ago (session_cache.h). One line of the CPU's cache. */
#define DIOLKOS_KNOWN_WINDOW 27 /* 2^27 ns, about an eighth of a second */

struct diolkos_known_session {
	__u32 changes; /* raised when one of the sessions that have their place here has left its table */
	__u32 check;   /* of all that follows */
	__u32 seen;    /* `changes` before it was looked up */
	__u32 window;  /* in which it was looked up */
	__u64 word[6]; /* what packets show of it, what they become, and of which family they are */
};

/*
 * Whose a binding and its sessions are. With several gateways, each address of the pool has one owner, whose bindings
 * the others may have copies of.
 */
#define DIOLKOS_GATEWAYS 64 /* of a cluster */
#define DIOLKOS_OURS 0      /* this gateway's own; gateway n of the cluster is n + 1 */
#define DIOLKOS_OWNERS 65   /* so many values there are */
#define DIOLKOS_OWNER_AT 24 /* bits below it in the check of a session */

/* A session as the packets of the node show it. */
struct diolkos_session6_key {
	struct in6_addr node;
	__be32 peer_be;
	__be16 node_port_be;
	__be16 peer_port_be;
	__u8 protocol; /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP */
	__u8 pad[3];
};

/* How the peer sees the node. */
struct diolkos_session6 {
	__u64 last_seen; /* CLOCK_MONOTONIC_COARSE, ns; 0: never */
	__be32 v4_be;
	__be16 v4_port_be;
	__u8 prefix; /* by which of the prefixes the node knows the peer */
	__u8 owner;
};

/* What each side of a session of TCP has sent; FINs count once both SYNs are there. */
#define DIOLKOS_SENT_SYNS 3
#define DIOLKOS_SENT_FINS 12
#define DIOLKOS_SENT_SYN6 1
#define DIOLKOS_SENT_SYN4 2
#define DIOLKOS_SENT_FIN6 4
#define DIOLKOS_SENT_FIN4 8

/* The same session as the packets of the peer show it. */
struct diolkos_session4_key {
	__be32 v4_be;
	__be32 peer_be;
	__be16 v4_port_be;
	__be16 peer_port_be;
	__u8 protocol;
	__u8 pad[3];
};

struct diolkos_session4 {
	__u64 last_seen;
	struct in6_addr node;
	__be16 node_port_be;
	__u8 prefix;
	__u8 sent;   /* DIOLKOS_SENT_*: what a controller after a kill knows the state by */
	__u32 check; /* of the key and of node, port and prefix (session.h); in its upper byte, the owner */
};

/* A node's port, and how every peer sees it: endpoint-independent mapping (RFC 4787 REQ-1, RFC 5382 REQ-1). */
struct diolkos_bib_key {
	struct in6_addr node;
	__be16 node_port_be;
	__u8 protocol; /* IPPROTO_TCP, IPPROTO_UDP */
	__u8 pad;
};

struct diolkos_bib_entry {
	__be32 v4_be;
	__be16 v4_port_be;
	__u8 owner;
	__u8 pad;
	__u32 check; /* of the key and of address, port and owner */
};

/*
 * What the controller lets the programs open for one node: so many sessions,
 * and ports for new bindings, which it has drawn from all free ones of the
 * node's address. Each queue is filled by the controller alone, at its tail;
 * programs and controller take from its head with compare and swap. Numbers
 * only grow; port n stands at n modulo DIOLKOS_LEASE_PORTS. A node that opens
 * much has more room for ports, elsewhere: `wide` is 1 and the place there,
 * where port n stands at n modulo DIOLKOS_WIDE_PORTS; or 0.
 *
 * An array in memory that both sides share. The hash of a node's address
 * selects a set of DIOLKOS_LEASE_WAYS places; the node has a lease if it
 * stands at one of them.
 *
 * A term lasts from the end of one lease of a place to the end of the next.
 * Whatever programs take from has the term in its upper half. So a program
 * that stalls takes nothing from a later lease of the same place. Terms of
 * the places of a set differ, so a node and a term name one lease.
 */
#define DIOLKOS_LEASE_WAYS 4
#define DIOLKOS_LEASE_PORTS 16 /* a power of two */
#define DIOLKOS_WIDE_PORTS 128 /* a power of two */

struct diolkos_lease_ports {
	__u64 head; /* the term, and the number of the port that goes next */
	__u32 tail;
	__u32 pad;
	__u16 ports[DIOLKOS_LEASE_PORTS];
};

struct diolkos_lease {
	struct in6_addr node; /* with v4_be and wide: the same for the whole term, once there are sessions */
	__be32 v4_be;
	__u32 wide;
	__u64 sessions;                       /* the term, and how many may still be opened */
	struct diolkos_lease_ports queues[4]; /* even ports of UDP and odd ones, even ports of TCP and odd ones */
};

struct diolkos_wide_ports {
	__u16 ports[4 * DIOLKOS_WIDE_PORTS]; /* of one queue after the other */
};

/* What a program tells the controller, in a ring buffer. */
enum diolkos_report {
	DIOLKOS_OPENED,   /* a session of a node's port that was bound */
	DIOLKOS_BOUND,    /* the same, and the binding */
	DIOLKOS_UNWANTED, /* a leased port that was taken and is not needed */
	DIOLKOS_ALONE,    /* a binding whose session could not be put into the map */
	DIOLKOS_MOVED,    /* a segment of a known session of TCP was translated that may move its state */
};

struct diolkos_opening {
	struct in6_addr node;
	__be32 peer_be;
	__be32 v4_be;
	__be16 node_port_be;
	__be16 peer_port_be;
	__be16 v4_port_be;
	__u8 prefix; /* by which of the prefixes the node knows the peer */
	__u8 report; /* enum diolkos_report */
	__u32 term;  /* of the lease; DIOLKOS_MOVED: the flags of the segment, and DIOLKOS_FROM_PEER */
	__u8 protocol;
	__u8 pad[3];
};

#define DIOLKOS_FROM_PEER 0x100

/*
 * Which way packets of a CLAT take out of the uplink, as the program that asks
 * the kernel for it knows it. A new router is written into the slot that is
 * not in use before `current` changes.
 */
enum diolkos_way {
	DIOLKOS_WAY_BY_ROUTE, /* the kernel looks each packet up: every answer it can give leads through the uplink */
	DIOLKOS_WAY_SLOT_1,   /* to the router in slots[0] */
	DIOLKOS_WAY_SLOT_2,   /* to that in slots[1] */
	DIOLKOS_WAY_ON_LINK,  /* to the destination itself, which is a neighbour */
	DIOLKOS_WAY_NOWHERE,  /* nothing is sent */
};

struct diolkos_next_hop {
	__u32 current; /* enum diolkos_way */
	__u32 pad[3];
	struct in6_addr slots[2];
};

_Static_assert(sizeof(struct diolkos_next_hop) == 48, "no implicit padding");
_Static_assert(sizeof(struct diolkos_rules) == 20, "no implicit padding");
_Static_assert(sizeof(struct diolkos_gso) == 24, "no implicit padding");
_Static_assert(sizeof(struct diolkos_namespace_layout) == 60, "no implicit padding");
_Static_assert(sizeof(struct diolkos_direct) == 72, "no implicit padding");
_Static_assert(sizeof(struct diolkos_port) == 20 && sizeof(struct diolkos_ports) == 332, "no implicit padding");
_Static_assert(sizeof(struct diolkos_used_hop) == 32, "no implicit padding");
_Static_assert(sizeof(struct diolkos_pref64) == 24, "no implicit padding");
_Static_assert(sizeof(struct diolkos_clat) == 52, "no implicit padding");
_Static_assert(sizeof(struct diolkos_siit) == 684, "no implicit padding");
_Static_assert(sizeof(struct diolkos_nat64) == 288, "no implicit padding");
_Static_assert(sizeof(struct diolkos_known_session) == 64, "a line of the CPU's cache");
_Static_assert(sizeof(struct diolkos_bib_key) == 20 && sizeof(struct diolkos_bib_entry) == 12, "no implicit padding");
_Static_assert(sizeof(struct diolkos_lease) == 224 && sizeof(struct diolkos_opening) == 40, "no implicit padding");
_Static_assert(sizeof(struct diolkos_session6_key) == 28 && sizeof(struct diolkos_session4_key) == 16,
	       "keys have no padding");
_Static_assert(DIOLKOS_OWNERS == DIOLKOS_GATEWAYS + 1, "ours, and each gateway's");
_Static_assert(sizeof(struct diolkos_session6) == 16 && sizeof(struct diolkos_session4) == 32, "no implicit padding");
_Static_assert(sizeof(struct diolkos_net4) == 8 && sizeof(struct diolkos_net6) == 20, "keys have no padding");
_Static_assert(sizeof(struct diolkos_count) == 16, "no implicit padding");

#endif
