// HostsBackend: collectives of several hosts with the same number of ranks on each, two at least. The
// caller's thread does all the work.
//
// The ranks of a host share memory; the ranks that have the same place on their hosts, one on each, are a
// group over TCP, in which each rank has its own connections. So every rank carries its part of what goes
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
// Between hosts it is a TcpGroup: dissemination for small slices, a swap for two hosts, else the ring.
// Values are combined in the order of the ranks of a host, then of the hosts (the ring begins at a host that
// depends on the element); each element alike on all ranks, so results are bitwise equal on all ranks and
// from run to run with the same ranks on each host. f16 and bf16 are carried as f32 on the whole way and
// rounded once, at the end; an all_reduce that asks for compression carries all as f32 within the hosts, and
// compressed between them.
//
// A death is seen at once on its own host, as in ShmBackend, and told to the other hosts by the lifeline over
// TCP.
#pragma once

#include <memory>
#include <vector>

#include "collectives/shm/shm_channel.hpp"
#include "collectives/shm/shm_lifeline.hpp"
#include "collectives/tcp/tcp_backend.hpp"

namespace ddprun::inline detail {

inline constexpr std::size_t kHostsWholeVector = std::size_t{4} << 10;
// An all_reduce has no more than this, as it is carried, on its way between the hosts at a time.
inline constexpr std::size_t kHostsSlice = std::size_t{512} << 10;

class HostsBackend final : public Backend {
  public:
    // The segment is the one that the ranks of this host agreed on. The hosts have equal numbers of ranks.
    HostsBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp);

    void run(const Task& task) override;
    std::vector<int> leave(Deadline deadline) override { return tcp_->leave(deadline); }
    void abort(const std::string& reason) override { tcp_->abort(reason); }
    std::optional<Verdict> verdict() const override { return tcp_->verdict(); }

  private:
    using Way = void (HostsBackend::*)(const Task& task, const PeerMesh::Operation& operation);
    // Null for what goes between all ranks over TCP, wherever they are.
    static Way way_by_hosts(Operation operation);
    void all_reduce(const Task& task, const PeerMesh::Operation& operation);
    void all_reduce_whole(const Task& task, const PeerMesh::Operation& operation);
    void reduce_scatter(const Task& task, const PeerMesh::Operation& operation);
    void all_gather(const Task& task, const PeerMesh::Operation& operation);
    void broadcast(const Task& task, const PeerMesh::Operation& operation);
    void barrier(const Task& task, const PeerMesh::Operation& operation);
    void run_over_tcp(const Task& task);

    // The slices of a range of elements, by place, in bytes.
    std::span<const Range> even_slices(const Range& elements, std::size_t element);
    // Returns the parts of a host's ranks, of a buffer with `bytes` for each rank of the communicator.
    std::span<const Range> slices_of_host(int host, std::size_t bytes);
    const Range& own_slice() const { return slices_[static_cast<std::size_t>(channel_.rank())]; }
    int hosts() const noexcept { return across_.size(); }
    PeerMesh& mesh() noexcept { return tcp_->mesh(); }

    // Members end in the reverse of this order: the lifeline wakes sleepers in the segment.
    ShmSegment segment_;
    std::unique_ptr<TcpBackend> tcp_;
    ShmChannel channel_;
    ShmLifeline lifeline_;
    TcpGroup across_;
    const std::vector<std::vector<int>> ranks_by_host_;
    // Kept between calls, so that a call of a size seen before allocates nothing.
    std::vector<std::byte> partials_;
    std::vector<Range> slices_;
};

}  // namespace ddprun::inline detail
