// make_hosts_backend(): collectives of several hosts with the same number of ranks on each, two at least. The
// caller's thread does all the work.
//
// The ranks of a host share memory. The ranks that have the same place on their hosts, one on each, are a
// group over TCP, in which each rank has its own connections. Every rank thus carries its part of the data
// between hosts.
//   all_reduce       reduced within the host, each rank its slice; the slices between the hosts; handed round
//                    within the host. While slices are on their way, the next are reduced. Up to
//                    kHostsWholeVector bytes all ranks reduce the whole, which saves the third step
//   reduce_scatter   each rank reduces within the host what is for the ranks of its place; then the group
//                    does the rest. Needs memory for that, as carried
//   all_gather       within the group, then all that the group has is handed round within the host
//   broadcast        on the root's host; between the hosts, each rank its slice; handed round on the others
//   barrier          within the host, then between hosts
//   the others       over TCP among all ranks, announced in shared memory, so that mismatches are found
// Between hosts a TcpGroup works: dissemination for small slices, a swap for two hosts, else the ring.
//
// Values are combined in the order of the ranks of a host, then of the hosts (the ring begins at a host that
// depends on the element). Each element is combined alike on all ranks. Results are thus bitwise equal on all
// ranks, and from run to run with the same ranks on each host. f16 and bf16 are carried as f32 on the whole
// way and rounded once, at the end. An all_reduce that asks for compression carries all as f32 within the
// hosts, and compressed between them.
//
// A death is seen at once on its own host, as in ShmBackend, and told to the other hosts by the lifeline over
// TCP.
#pragma once

#include <memory>

#include "collectives/shm/shm_segment.hpp"
#include "collectives/tcp/tcp_backend.hpp"

namespace ddprun {
inline namespace detail {

// kHostsSlice: the most bytes, as carried, that a rank's slice of an all_reduce has on its way between the
// hosts at a time.
inline constexpr std::size_t kHostsSlice = std::size_t{512} << 10;

// Makes the backend. `segment` is the one that the ranks of this host agreed on. The hosts have equal numbers
// of ranks.
std::unique_ptr<Backend> make_hosts_backend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp);

}  // namespace detail
}  // namespace ddprun
