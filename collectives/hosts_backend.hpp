// HostsBackend: collectives of several hosts with the same number of ranks on each, two at least. The
// caller's thread does all the work.
//
// The ranks of a host share memory; the ranks that have the same place on their hosts, one on each, are a
// group over TCP, in which each rank has its own connections. So every rank carries its part of what goes
// between hosts.
//   all_reduce   in three steps: reduced within the host, each rank its slice; the slices between the hosts;
//   then
//                handed round within the host. See hosts_reduction.hpp. Up to kHostsWholeVector bytes all
//                ranks reduce the whole, which saves the third step
//   barrier      within the host, then between hosts
//   the others   over TCP among all ranks, announced in shared memory, so that mismatches are found
// Between hosts it is a TcpGroup: dissemination for small slices, a swap for two hosts, else the ring.
// Values are combined in the order of the ranks of a host, then of the hosts (the ring begins at a host that
// depends on the element); each element alike on all ranks, so results are bitwise equal on all ranks and
// from run to run. f16 and bf16 are carried as f32 on the whole way and rounded once, at the end.
#pragma once

#include <memory>
#include <vector>

#include "collectives/shm_channel.hpp"
#include "collectives/tcp_backend.hpp"

namespace ddprun {

inline constexpr std::size_t kHostsWholeVector = std::size_t{4} << 10;

class HostsBackend final : public Backend {
  public:
    // The segment is the one that the ranks of this host agreed on; `across` has this rank's place on every
    // host.
    HostsBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp, RankGroup across);

    void run(const Task& task) override;
    void abort(const std::string& reason) override { tcp_->abort(reason); }
    bool ended() const override { return tcp_->ended(); }

  private:
    void all_reduce(const Task& task, const PeerMesh::Operation& operation);
    void all_reduce_whole(const Task& task, const PeerMesh::Operation& operation);
    void barrier(const PeerMesh::Operation& operation);
    void run_over_tcp(const Task& task);

    // In the order in which they must not end: the lifeline rings bells in the segment.
    ShmSegment segment_;
    std::unique_ptr<TcpBackend> tcp_;
    ShmChannel channel_;
    TcpGroup across_;
    // Kept between calls, so that a call of a size seen before allocates nothing.
    std::vector<std::byte> partials_;
};

}  // namespace ddprun
