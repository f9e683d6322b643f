// NcclPeers: what the NCCL backend knows of the other ranks: the order of the calls, and how the communicator
// ended. Over the TCP backend's mesh; a rank alone needs none.
//
// begin() and exchange() are for the thread that runs the operations, all else for any.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/shm/shm_lifeline.hpp"
#include "collectives/tcp/tcp_backend.hpp"

namespace ddprun {
inline namespace detail {

class NcclPeers {
  public:
    // `tcp` may be null: a rank alone. With a segment, the ranks of this host see each other's deaths by it.
    // The timeout is CommunicatorOptions'.
    NcclPeers(std::unique_ptr<TcpBackend> tcp, std::optional<ShmSegment> segment,
              std::chrono::milliseconds operation_timeout);

    // The communicator is made over it; null for a rank alone.
    PeerMesh* mesh() noexcept { return tcp_ ? &tcp_->mesh() : nullptr; }

    int rank() const noexcept { return tcp_ ? tcp_->mesh().rank() : 0; }
    int world_size() const noexcept { return tcp_ ? tcp_->mesh().world_size() : 1; }
    std::chrono::milliseconds operation_timeout() const noexcept { return operation_timeout_; }
    void set_operation_timeout(std::chrono::milliseconds timeout) noexcept { operation_timeout_ = timeout; }

    // Counts and enters the next call. Throws if the communicator has ended.
    Call begin(Call call);
    // split()'s exchange, over TCP.
    void exchange(const Task& task);

    // Called when verdict() or check() may say something new; must not block, nor call back.
    void on_news(std::function<void()> hook);
    std::optional<Verdict> verdict() const;
    // Ends the communicator on all ranks. Returns the verdict that holds.
    Verdict declare(const Verdict& verdict);

    // Says goodbye: this rank makes no more calls.
    void leave();
    // See PeerMesh::leave_together().
    std::vector<int> leave_together(Deadline deadline);

    // Three questions about a call in progress; each ends the communicator if the answer is bad, so that
    // verdict() says why. They may take kAnswerTimeout. False if the mesh is in use, so that the question
    // is to be asked again.
    //
    // Has a rank left that the call needs? `peers` are those it exchanges messages with, where it concerns
    // only them: one of several may have left because its part is done, so all must have.
    bool check_present(const Call& call, const std::vector<int>& peers, Deadline started);
    // Is another rank in another call with the same number?
    bool check_agreement(const Call& call);
    // Its time, which was `length`, is over: who is to blame?
    bool blame(const Call& call, const std::vector<int>& peers, std::chrono::milliseconds length);

  private:
    // Runs body(mesh, operation) if the mesh is free.
    template <class Body>
    bool ask(const Call& call, Body body);

    // Members end in the reverse of this order.
    std::optional<ShmSegment> segment_;
    std::unique_ptr<TcpBackend> tcp_;
    std::optional<ShmLifeline> shm_lifeline_;
    std::atomic<std::chrono::milliseconds> operation_timeout_;
    std::mutex turn_;  // the mesh's waiting members are for one thread at a time
    // A rank alone:
    std::uint64_t sequence_ = 0;      // the operations' thread's
    std::atomic<bool> ended_{false};  // there is a verdict
    mutable std::mutex mutex_;        // guards what follows
    std::optional<Verdict> verdict_;
    std::function<void()> hook_;
};

}  // namespace detail
}  // namespace ddprun
