// The XDP program of a port beside the kernel. It gives the port's RoCEv2 packets to the AF_XDP
// socket of their queue, and all other frames to the kernel. Without a socket, as after the death
// of its process, the kernel gets all.
//
// A packet of the port has the port's MAC address and IP address and UDP port 4791. The kernel gets
// - fragments, because only the first one has the UDP header;
// - headers with IPv4 options or IPv6 extensions, which transport roce does not read;
// - frames with a VLAN tag: they belong to another interface of the kernel.
#include <linux/bpf.h>  // before the others, which need its types

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "dataplane/transport/roce/kernel/filter_settings.h"

#define ROCE_PORT 4791
#define MOST_QUEUES 1024      // of an interface
#define PLAIN_IPV4 0x45       // version, and a header without options
#define FRAGMENT_BITS 0x3fff  // more fragments, and the offset

// net_af_xdp enters its sockets here, by queue.
struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, MOST_QUEUES);
  __type(key, __u32);
  __type(value, __u32);
} xsks_map SEC(".maps");

// tallyd writes them into the file before the kernel loads it.
volatile const struct FilterSettings settings = {.marker = TALLY_FILTER_MARKER};

static __always_inline int is_to_roce(const void* begin, const void* end) {
  const struct udphdr* udp = begin;
  return (const void*)(udp + 1) <= end && udp->dest == bpf_htons(ROCE_PORT);
}

static __always_inline int is_ours_by_ipv4(const void* begin, const void* end) {
  const struct iphdr* ip = begin;
  if ((const void*)(ip + 1) > end || *(const unsigned char*)begin != PLAIN_IPV4) return 0;
  if (ip->protocol != IPPROTO_UDP || (ip->frag_off & bpf_htons(FRAGMENT_BITS)) != 0) return 0;
  return ip->daddr == settings.address[3] && is_to_roce(ip + 1, end);
}

static __always_inline int is_ours_by_ipv6(const void* begin, const void* end) {
  const struct ipv6hdr* ip = begin;
  if ((const void*)(ip + 1) > end || *(const unsigned char*)begin >> 4 != 6) return 0;
  if (ip->nexthdr != IPPROTO_UDP) return 0;
  const __u32* const to = ip->daddr.in6_u.u6_addr32;
  return to[0] == settings.address[0] && to[1] == settings.address[1] &&
         to[2] == settings.address[2] && to[3] == settings.address[3] && is_to_roce(ip + 1, end);
}

SEC("xdp.frags")
int tally_roce(struct xdp_md* context) {
  const void* const end = (const void*)(long)context->data_end;
  const struct ethhdr* ethernet = (const void*)(long)context->data;
  if ((const void*)(ethernet + 1) > end) return XDP_PASS;
  const __u16* const mac = (const void*)ethernet->h_dest;
  if (mac[0] != settings.mac[0] || mac[1] != settings.mac[1] || mac[2] != settings.mac[2]) {
    return XDP_PASS;
  }
  const int is_ours =
      settings.is_ipv4
          ? ethernet->h_proto == bpf_htons(ETH_P_IP) && is_ours_by_ipv4(ethernet + 1, end)
          : ethernet->h_proto == bpf_htons(ETH_P_IPV6) && is_ours_by_ipv6(ethernet + 1, end);
  if (!is_ours) return XDP_PASS;
  return bpf_redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS);
}

char program_license[] SEC("license") = "Apache-2.0";
