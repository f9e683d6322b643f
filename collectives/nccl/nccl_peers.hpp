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
    // NcclPeers has no `tcp` for a rank alone. With a segment, the ranks of this host see each other's deaths
    // by it. The timeout is CommunicatorOptions'.
    NcclPeers(std::unique_ptr<TcpBackend> tcp, std::optional<ShmSegment> segment,
              std::chrono::milliseconds operation_timeout);

    // mesh(): the connections over which the communicator is made; null for a rank alone.
    PeerMesh* mesh() noexcept { return tcp_ ? &tcp_->mesh() : nullptr; }

    int rank() const noexcept { return tcp_ ? tcp_->mesh().rank() : 0; }
    int world_size() const noexcept { return tcp_ ? tcp_->mesh().world_size() : 1; }
    std::chrono::milliseconds operation_timeout() const noexcept { return operation_timeout_; }
    void set_operation_timeout(std::chrono::milliseconds timeout) noexcept { operation_timeout_ = timeout; }

    // Counts and enters the next call. Throws if the communicator has ended.
    Call begin(Call call);
    // Carries out split()'s exchange, over TCP.
    void exchange(const Task& task);

    // Has `hook` called when verdict(), or a question below, may have a new answer; `hook` must not block,
    // nor call back.
    void on_news(std::function<void()> hook);
    std::optional<Verdict> verdict() const;
    // Ends the communicator on all ranks. Returns the verdict that holds.
    Verdict declare(const Verdict& verdict);

    // Says goodbye: this rank makes no more calls.
    void leave();
    // Leaves as PeerMesh::leave_together() does.
    std::vector<int> leave_together(Deadline deadline);

    // check_present(), check_agreement() and blame() ask about a call in progress. Each ends the communicator
    // if the answer is bad, so that verdict() says why, and may take kAnswerTimeout. Each returns false if
    // the mesh is in use, so that the question is to be asked again.
    //
    // check_present: has a rank left that the call needs? `peers` are those the call exchanges messages with,
    // where it concerns only them: one of several may have left because its part is done, so all must have.
    bool check_present(const Call& call, const std::vector<int>& peers, Deadline started);
    // check_agreement: is another rank in another call with the same number?
    bool check_agreement(const Call& call);
    // blame: which ranks are to blame that the call's time, which was `length`, is over?
    bool blame(const Call& call, const std::vector<int>& peers, std::chrono::milliseconds length);

  private:
    // Runs body(mesh, operation) if the mesh is free.
    template <class Body>
    bool ask(const Call& call, Body body);

    // segment_ comes first, since members end in the reverse of this order.
    std::optional<ShmSegment> segment_;
    std::unique_ptr<TcpBackend> tcp_;
    std::optional<ShmLifeline> shm_lifeline_;
    std::atomic<std::chrono::milliseconds> operation_timeout_;
    std::mutex turn_;  // the mesh's waiting members are for one thread at a time
    // sequence_ and the following are for a rank alone.
    std::uint64_t sequence_ = 0;      // of the operations' thread
    std::atomic<bool> ended_{false};  // there is a verdict
    mutable std::mutex mutex_;        // guards what follows
    std::optional<Verdict> verdict_;
    std::function<void()> hook_;
};

}  // namespace detail
}  // namespace ddprun
