// TcpBackend: collectives between two or more ranks over TCP. The caller's thread does all the work.
//
// all_reduce, all_gather, reduce_scatter, broadcast and barrier are those of a TcpGroup of all ranks. In the
// others, small messages take few steps, large ones the least bytes:
//   reduce: binomial tree up to kSmallReduce bytes, else the ring's reducing half, then all parts to the root
//   gather, scatter: each rank's part straight to or from the root
//   all_to_all: every two ranks swap their parts, one partner at a time
// The choice depends only on the call and the number of ranks, and each way fixes the order in which the
// ranks' values are combined. Results are therefore bitwise equal on all ranks and from run to run over TCP.
// The tree joins the values of neighbouring ranks, counted from the root, then of pairs, and so on.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/call/task.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/tcp/tcp_group.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

inline constexpr std::size_t kSmallReduce = std::size_t{64} << 10;

class TcpBackend final : public Backend {
  public:
    // Connects the ranks of `membership`, at least two; `listener` is the one that `membership` names for
    // this rank.
    TcpBackend(Membership membership, std::optional<TcpListener> listener, const PeerMesh::Operation& joining,
               std::chrono::milliseconds operation_timeout, const Origin& origin = {});
    ~TcpBackend() override;

    void run(const Task& task) override;
    std::vector<int> leave(Deadline deadline) override { return mesh_.leave_together(deadline); }
    void abort(const std::string& reason) override { mesh_.abort(reason); }
    std::optional<Verdict> verdict() const override { return mesh_.verdict(); }
    void set_timeout(std::chrono::milliseconds timeout) override { operation_timeout_ = timeout; }

    // Begins a call for a backend on top that carries it out by itself: counts and enters the call, as run()
    // does. Throws if the communicator has ended. The deadline is left at the end of time, because the clock
    // takes longer than a small reduction: a caller that waits for long sets the deadline from the timeout.
    PeerMesh::Operation begin(Call call, std::chrono::milliseconds timeout = {});
    // Begins a call that then goes to run(), which counts it.
    PeerMesh::Operation prepare(const Task& task);
    NamedTimeout timeout_of(std::chrono::milliseconds own) const {
        if (own.count() > 0) return {own, "its own timeout"};
        return {operation_timeout_, "operation_timeout"};
    }
    PeerMesh& mesh() noexcept { return mesh_; }

    const Membership& membership() const noexcept { return mesh_.membership(); }

  private:
    void all_reduce(const Task& task, const PeerMesh::Operation& operation);
    void all_gather(const Task& task, const PeerMesh::Operation& operation);
    void reduce_scatter(const Task& task, const PeerMesh::Operation& operation);
    void all_to_all(const Task& task, const PeerMesh::Operation& operation);
    void dispatch(const Task& task, const PeerMesh::Operation& operation);
    void reduce_in_tree(const Task& task, const PeerMesh::Operation& operation);
    void reduce_in_ring(const Task& task, const PeerMesh::Operation& operation);
    int rank() const noexcept { return mesh_.rank(); }
    int world_size() const noexcept { return mesh_.world_size(); }

    PeerMesh mesh_;
    std::atomic<std::chrono::milliseconds> operation_timeout_;
    std::uint64_t sequence_ = 0;
    TcpGroup group_;  // all ranks
    // blocks_, partial_: kept between calls, so that a call of a size seen before allocates nothing.
    std::vector<std::byte> blocks_;
    std::vector<std::byte> partial_;
};

}  // namespace detail
}  // namespace ddprun
