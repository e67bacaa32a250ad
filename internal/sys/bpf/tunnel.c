// IPIP, GRE and GENEVE without tunnel devices, for kernels that have none: what
// leaves the underlay's device for another node's pods is put into a packet for
// that node, and what comes in such a packet is taken out of it. The formats on
// the wire are those of the kernel's own devices.
//
//go:build ignore

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MODE_IPIP 0
#define MODE_GRE 1
#define MODE_GENEVE 2
#define GENEVE_PORT 6081
#define DONT_FRAGMENT 0x4000

volatile const __u32 mode = 0;
volatile const __u32 local_ip = 0; // of this node, in network order
volatile const __u32 vni = 0;

// peers are the other nodes, by the ranges of their pods.
struct range {
	__u32 bits;
	__be32 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct range);
	__type(value, __be32);
} peers SEC(".maps");

// counters are of packets: encapsulated, decapsulated, dropped.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct gre {
	__be16 flags, proto;
};

struct geneve {
	__u8 version, flags;
	__be16 proto;
	__be32 vni;
};

struct in_geneve {
	struct udphdr udp;
	struct geneve geneve;
	struct ethhdr eth;
} __attribute__((packed));

// outer is all that comes between the frame's header and the pod's packet.
struct outer {
	struct iphdr ip;
	union {
		struct gre gre;
		struct in_geneve g;
	};
} __attribute__((packed));

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &what);
	if (n)
		*n += 1;
}

static __always_inline int dropped(void)
{
	count(2);
	return TC_ACT_SHOT;
}

static __always_inline __u32 room(void)
{
	if (mode == MODE_GRE)
		return sizeof(struct iphdr) + sizeof(struct gre);
	if (mode == MODE_GENEVE)
		return sizeof(struct iphdr) + sizeof(struct in_geneve);
	return sizeof(struct iphdr);
}

// checksum is of an IPv4 header whose own checksum is 0.
static __always_inline __u16 checksum(void *header)
{
	__u16 *p = header;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += p[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

SEC("tc")
int encap(struct __sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_UNSPEC;
	struct iphdr in;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &in, sizeof in))
		return TC_ACT_UNSPEC;
	struct range to = {.bits = 32, .addr = in.daddr};
	__be32 *node = bpf_map_lookup_elem(&peers, &to);
	if (!node)
		return TC_ACT_UNSPEC;

	__u32 length = room();
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	struct outer out = {};
	out.ip.version = 4;
	out.ip.ihl = 5;
	out.ip.tos = in.tos;
	out.ip.ttl = 64;
	out.ip.frag_off = bpf_htons(DONT_FRAGMENT);
	out.ip.protocol = IPPROTO_IPIP;
	out.ip.saddr = local_ip;
	out.ip.daddr = *node;
	out.ip.tot_len = bpf_htons(bpf_ntohs(in.tot_len) + length);
	if (mode == MODE_GRE) {
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_GRE;
		out.ip.protocol = IPPROTO_GRE;
		out.gre.proto = bpf_htons(ETH_P_IP);
	}
	if (mode == MODE_GENEVE) {
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_UDP | BPF_F_ADJ_ROOM_ENCAP_L2_ETH | BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN);
		out.ip.protocol = IPPROTO_UDP;
		// The source port tells flows apart, as RFC 8926 section 3.3 asks.
		out.g.udp.source = bpf_htons(32768 + (bpf_get_hash_recalc(skb) & 0x3fff));
		out.g.udp.dest = bpf_htons(GENEVE_PORT);
		out.g.udp.len = bpf_htons(bpf_ntohs(in.tot_len) + sizeof(struct in_geneve));
		out.g.geneve.proto = bpf_htons(ETH_P_TEB);
		out.g.geneve.vni = bpf_htonl(vni << 8);
		// The frame's addresses are made of the nodes', as the lab makes MACs.
		out.g.eth.h_dest[0] = 0x0a;
		out.g.eth.h_dest[1] = 0x58;
		out.g.eth.h_source[0] = 0x0a;
		out.g.eth.h_source[1] = 0x58;
		__builtin_memcpy(out.g.eth.h_dest + 2, &out.ip.daddr, 4);
		__builtin_memcpy(out.g.eth.h_source + 2, &out.ip.saddr, 4);
		out.g.eth.h_proto = bpf_htons(ETH_P_IP);
	}
	out.ip.check = checksum(&out);
	if (bpf_skb_adjust_room(skb, length, BPF_ADJ_ROOM_MAC, flags))
		return dropped();
	long failed;
	if (mode == MODE_GENEVE)
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &out, sizeof(struct iphdr) + sizeof(struct in_geneve), 0);
	else if (mode == MODE_GRE)
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &out, sizeof(struct iphdr) + sizeof(struct gre), 0);
	else
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &out, sizeof(struct iphdr), 0);
	if (failed)
		return dropped();
	count(0);
	return TC_ACT_UNSPEC;
}

// ours says whether a packet for this node is one of the tunnel's.
static __always_inline int ours(struct __sk_buff *skb, struct iphdr *ip)
{
	if (mode == MODE_GRE) {
		struct gre gre;
		return ip->protocol == IPPROTO_GRE && !bpf_skb_load_bytes(skb, ETH_HLEN + sizeof *ip, &gre, sizeof gre) && gre.flags == 0 &&
		       gre.proto == bpf_htons(ETH_P_IP);
	}
	if (mode == MODE_GENEVE) {
		struct in_geneve g;
		return ip->protocol == IPPROTO_UDP && !bpf_skb_load_bytes(skb, ETH_HLEN + sizeof *ip, &g, sizeof g) &&
		       g.udp.dest == bpf_htons(GENEVE_PORT) && g.geneve.version == 0 && g.geneve.proto == bpf_htons(ETH_P_TEB) &&
		       g.geneve.vni == bpf_htonl(vni << 8) && g.eth.h_proto == bpf_htons(ETH_P_IP);
	}
	return ip->protocol == IPPROTO_IPIP;
}

SEC("tc")
int decap(struct __sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_UNSPEC;
	struct iphdr ip;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof ip))
		return TC_ACT_UNSPEC;
	if (ip.daddr != local_ip || ip.ihl != 5 || !ours(skb, &ip))
		return TC_ACT_UNSPEC;
	if (bpf_skb_adjust_room(skb, -(__s32)room(), BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return dropped();
	count(1);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
